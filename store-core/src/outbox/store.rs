//! The contract of the outbox.

use async_trait::async_trait;

use super::{
    ClaimOutbox, ClaimedOutbox, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxQuery, OutboxRow, OutboxStatus,
    PurgeOutbox, RequeueOutbox, Requeued, SettleOutbox,
};
use crate::{error::Result, id::OutboxId, page::Page, time::Timestamp};

/// Rows that commits wrote, for delivery to other systems.
///
/// A row is delivered at least once (OB-10). Receivers use its id to recognise rows that they already have.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims rows for a consumer, in the order of `available_at`, `created_at` and id. Each row has its own token and
    /// lease (OB-4).
    ///
    /// # Guarantees
    /// - A row has one holder at a time. When the lease of a row has ended, the next consumer that claims gets it, and
    ///   the lost attempt is counted (OB-5, OB-6).
    /// - Of the rows with one order key, only the first that is not final can be claimed (OB-11).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000, and for a lease of length zero or of more than 24 hours. After an
    /// `Unknown` outcome, claim again: rows that were claimed can be claimed again when their leases have ended.
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox>;

    /// Extends a live claim and returns the new end of its lease, which is store time plus the extension (OB-8).
    ///
    /// A claim whose lease has ended can still be extended while no other consumer has claimed the row.
    ///
    /// # Errors
    /// `ClaimLost` if the token is not that of the live claim; `Invalid` for a lease of length zero or of more than 24
    /// hours. After an `Unknown` outcome, repeat the call.
    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp>;

    /// Ends attempts (OB-7). Each request has its own answer, in the order given: the status of its row afterwards.
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 in one call. For each request: `ClaimLost` if the token is not that of the
    /// live claim; nothing is changed then. After an `Unknown` outcome, repeat the call. `ClaimLost` then means that
    /// the settlement was accepted or that the claim is lost; [`load_outbox`](Self::load_outbox) tells which.
    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>>;

    /// Loads a row. Returns none for an unknown id.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>>;

    /// Lists rows by creation, in pages (OB-12).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list or store.
    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>>;

    /// Counts rows by status, exactly (OB-12). A row whose lease has ended counts as claimed until a consumer claims.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts>;

    /// Makes dead letters pending again, with all their attempts available again (OB-13). Each row has its own answer.
    ///
    /// A row keeps its position among the rows with its order key.
    ///
    /// # Errors
    /// `LimitExceeded` for a request with more than 1,000 ids; `Invalid` for a request by filter whose `limit` is
    /// outside of 1 to 1,000. After an `Unknown` outcome, repeat the call. If a row is then refused because it is
    /// already pending, the first call requeued it.
    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>>;

    /// Removes final rows that ended before a given time, at most `limit`, and returns how many. Their dedupe keys can
    /// be used again after that (OB-3).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000. After an `Unknown` outcome, repeat the call.
    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64>;
}
