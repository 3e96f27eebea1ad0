//! The contracts of the mailbox.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchCounts, DispatchQuery, Enqueued, Interrupt,
    Interrupted, NewDispatch, Purge, Purged, ReadyThread, Reclaimed, Requeue, Settled, Settlement,
};
use crate::{
    error::Result,
    id::{DispatchId, InstanceId, ThreadId},
    page::{Page, PageRequest},
};

/// Gives work, and takes it back.
#[async_trait]
pub trait MailboxProducer: Send + Sync {
    /// Puts dispatches into the queues of their threads. Each has its own answer, in the order given (MB-2).
    ///
    /// # Guarantees
    /// - An enqueue with an id, equal to the first one in all that was given, gets its answer again (MB-3).
    /// - Of several that take one dedupe key of a thread one is accepted, until that one is over (MB-4 to MB-6).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000. Of each: `Invalid` for no attempts (MB-9), `LimitExceeded`,
    /// `AlreadyExists` naming the dispatch that has the id or holds the key.
    /// After an `Unknown` outcome: repeat it with the same ids.
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>>;

    /// Takes a queued dispatch back, and gives it as it is then (MB-11).
    ///
    /// # Errors
    /// `NotFound`; `InvalidTransition` naming its status if it is not queued.
    /// After an `Unknown` outcome: load the dispatch.
    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch>;

    /// Raises the epoch of a thread and supersedes all that it has queued, in one step, at the same cost however much
    /// that is (MB-12). What is claimed stays so, but its holder can write nothing more (MB-33).
    ///
    /// # Guarantees
    /// - The same key again gives the first answer, among the last 20 of the thread.
    /// - With `take_over` the claimed dispatch ends too, the thread is free, and the answer has a fence (MB-53).
    ///
    /// # Errors
    /// Those of writing. After an `Unknown` outcome: repeat it with its key; without one, load the epoch.
    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted>;
}

/// Takes work, and ends it.
#[async_trait]
pub trait MailboxConsumer: Send + Sync {
    /// Claims dispatches that are available, each of another thread that is free (MB-17 to MB-29).
    ///
    /// # Guarantees
    /// - No two claims with running leases are of one thread, and no dispatch is given out twice for one attempt
    ///   (MB-18, MB-19).
    /// - Nothing comes before its time (MB-20), unless it is named (MB-23).
    /// - A lease that is over is ended first: nobody has to sweep (MB-29).
    ///
    /// # Errors
    /// `Invalid` for a bad lease or limit. After an `Unknown` outcome: claim again; what was claimed comes back when
    /// its lease is over.
    async fn claim(&self, request: ClaimRequest) -> Result<Claims>;

    /// Prolongs a claim: its lease ends so long after store time (MB-32), also if it was over and nobody took the
    /// dispatch (MB-31).
    ///
    /// # Errors
    /// `Invalid` for a bad lease; `ClaimLost`; `StaleEpoch` after an interrupt, which ends the claim (MB-33).
    /// After an `Unknown` outcome: repeat it.
    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim>;

    /// Records what works on a dispatch, and since when, once (MB-35).
    ///
    /// # Errors
    /// `InvalidTransition` for another instance; `ClaimLost`; `StaleEpoch` after an interrupt, which ends the claim.
    /// After an `Unknown` outcome: repeat it.
    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim>;

    /// Ends attempts. Each has its own answer, in the order given (MB-38).
    ///
    /// # Guarantees
    /// - The same token and settlement again get the first answer, as long as the attempt is in the history (MB-39).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000. Of each: `ClaimLost`; `StaleEpoch` after an interrupt, which ends the
    /// claim; `LimitExceeded`. After an `Unknown` outcome: repeat it (MB-44).
    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>>;
}

/// Reads a mailbox.
#[async_trait]
pub trait MailboxReader: Send + Sync {
    /// Loads a dispatch; none for an unknown id.
    ///
    /// # Errors
    /// Those of reading.
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>>;

    /// Lists dispatches in pages (MB-45). By creation, what an interrupt superseded is read among what is queued.
    ///
    /// # Errors
    /// `Invalid` for a bad limit, and for the order of claims without a thread; `InvalidCursor`.
    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>>;

    /// Counts the dispatches of a thread, or of the tenant, by status, without reading any (MB-46). Of the tenant it is
    /// exact while nothing is written.
    ///
    /// # Errors
    /// Those of reading.
    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts>;

    /// Lists the threads that a claim could take now (MB-47): those that are free in the order of claims, then those
    /// whose lease is over, by its end.
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor`.
    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>>;

    /// How often a thread was interrupted; 0 for an unknown one (MB-47).
    ///
    /// # Errors
    /// Those of reading.
    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64>;
}

/// Keeps a mailbox in order.
#[async_trait]
pub trait MailboxMaintenance: Send + Sync {
    /// Ends claims whose lease is over, up to `limit` (1 to 1,000), as a claim would (MB-36).
    ///
    /// # Errors
    /// `Invalid` for a bad limit. After an `Unknown` outcome: repeat it.
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed>;

    /// Removes dispatches that ended before a time; epochs and claim numbers stay (MB-49).
    ///
    /// # Errors
    /// `Invalid` for a bad limit. After an `Unknown` outcome: repeat it.
    async fn purge(&self, request: Purge) -> Result<Purged>;

    /// Puts dead letters back into their queues, with all attempts and their history. Each has its own answer (MB-50).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000, `Invalid` for a bad limit. Of each: `NotFound`; `InvalidTransition` if it
    /// is no dead letter; `AlreadyExists` naming the dispatch that holds its key.
    /// After an `Unknown` outcome: load the dispatches.
    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>>;
}

/// Everything about a mailbox.
pub trait MailboxStore: MailboxProducer + MailboxConsumer + MailboxReader + MailboxMaintenance {}

impl<S: MailboxProducer + MailboxConsumer + MailboxReader + MailboxMaintenance + ?Sized> MailboxStore for S {}
