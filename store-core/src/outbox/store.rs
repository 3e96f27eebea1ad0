//! The contract of the outbox.

use async_trait::async_trait;

use super::{
    ClaimOutbox, ClaimedOutbox, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxQuery, OutboxRow, OutboxStatus,
    PurgeOutbox, RequeueOutbox, Requeued, SettleOutbox,
};
use crate::{error::Result, id::OutboxId, page::Page, time::Timestamp};

/// Rows that commits wrote, to be delivered elsewhere. Delivery is at least once (OB-10): a receiver tells repeats by
/// the row's id.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Gives rows to a consumer, by `available_at`, `created_at` and id, each with its own token and lease (OB-4).
    ///
    /// # Guarantees
    /// - A row has one holder at a time; one whose lease is over goes to the next claimant, and the lost attempt is
    ///   counted (OB-5, OB-6).
    /// - Of the rows with one order key only the first that is not final is given out (OB-11).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000, or a lease of nothing or above 24 hours. After an `Unknown`
    /// outcome: claim again; what was claimed comes back when its lease is over.
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox>;

    /// Prolongs a live claim: gives the new end of its lease, store time plus the extension (OB-8). A lease that is
    /// over can be prolonged as long as nobody else has claimed the row.
    ///
    /// # Errors
    /// `ClaimLost` without the live token; `Invalid` for a lease of nothing or above 24 hours. After an `Unknown`
    /// outcome: repeat it.
    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp>;

    /// Ends attempts (OB-7): each has its own answer, in the order given, which is the status of the row then.
    ///
    /// # Errors
    /// `LimitExceeded` above 1,000 in one call. For each: `ClaimLost` without the live token; nothing is changed then.
    /// After an `Unknown` outcome: repeat it; `ClaimLost` then says that it was accepted or the claim is lost, and
    /// [`load_outbox`](Self::load_outbox) says which.
    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>>;

    /// Loads a row; none for an unknown id.
    ///
    /// # Errors
    /// Those of reading.
    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>>;

    /// Lists rows by creation (OB-12).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a foreign cursor.
    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>>;

    /// Counts rows by status, exactly (OB-12). A row whose lease is over counts as claimed until somebody claims.
    ///
    /// # Errors
    /// Those of reading.
    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts>;

    /// Takes dead letters back with all their attempts (OB-13): each has its own answer. A row keeps its place among
    /// those with its order key.
    ///
    /// # Errors
    /// `LimitExceeded` above 1,000 in one call, `Invalid` for a limit outside of 1 to 1,000. After an `Unknown`
    /// outcome: repeat it; a row that is pending then was requeued.
    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>>;

    /// Removes final rows that ended before a time, at most `limit`, and says how many. Their dedupe keys are free then
    /// (OB-3).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000. After an `Unknown` outcome: repeat it.
    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64>;
}
