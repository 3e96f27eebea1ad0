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

/// Enqueues and cancels dispatches, and interrupts threads.
#[async_trait]
pub trait MailboxProducer: Send + Sync {
    /// Adds dispatches to the queues of their threads. Each has its own answer, in the order given (MB-2).
    ///
    /// # Guarantees
    /// - An enqueue that repeats the id and the content of an earlier one returns the first answer again (MB-3).
    /// - Of several dispatches of a thread with the same dedupe key, one is accepted. The key stays taken until that
    ///   dispatch has finished (MB-4 to MB-6).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 in one call. For each dispatch: `Invalid` for a `max_attempts` of 0 (MB-9);
    /// `LimitExceeded`; `AlreadyExists`, which names the dispatch that has the id or holds the key. After an `Unknown`
    /// outcome, repeat the call with the same ids.
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>>;

    /// Cancels a queued dispatch and returns it with its new status (MB-11).
    ///
    /// # Errors
    /// `NotFound`; `InvalidTransition`, which names the status, if the dispatch is not queued. After an `Unknown`
    /// outcome, load the dispatch.
    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch>;

    /// Raises the epoch of a thread and supersedes all its queued dispatches, in one atomic step. The cost does not
    /// depend on the number of dispatches (MB-12).
    ///
    /// A claimed dispatch stays claimed, but its holder can write nothing more (MB-33).
    ///
    /// # Guarantees
    /// - A repeat with the same key returns the first answer, if the key is among the last 20 of the thread.
    /// - With `take_over` the claimed dispatch ends too, the thread is free, and the answer has a fence (MB-53).
    ///
    /// # Errors
    /// Any error of writing. After an `Unknown` outcome, repeat the call with its key; without a key, load the epoch.
    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted>;
}

/// Claims dispatches, and settles them.
#[async_trait]
pub trait MailboxConsumer: Send + Sync {
    /// Claims available dispatches, each of a different thread that is free (MB-17 to MB-29).
    ///
    /// # Guarantees
    /// - A thread never has two claims with unexpired leases, and no dispatch is delivered twice for one attempt
    ///   (MB-18, MB-19).
    /// - No dispatch is claimed before it becomes available (MB-20), unless the request asks for it by id (MB-23).
    /// - A claim whose lease has expired is ended first. No background task is needed for this (MB-29).
    ///
    /// # Errors
    /// `Invalid` for a lease or a limit out of range. After an `Unknown` outcome, claim again. Dispatches that the
    /// first call claimed can be claimed again once their leases have expired.
    async fn claim(&self, request: ClaimRequest) -> Result<Claims>;

    /// Extends a claim: its lease then ends at store time plus `by` (MB-32).
    ///
    /// This is also possible after the lease has expired, if no other caller has taken the dispatch (MB-31).
    ///
    /// # Errors
    /// `Invalid` for a lease out of range; `ClaimLost`; `StaleEpoch` after an interrupt, and the call then ends the
    /// claim (MB-33). After an `Unknown` outcome, repeat the call.
    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim>;

    /// Records the instance that works on a dispatch and when it began. A claim can be started once (MB-35).
    ///
    /// # Errors
    /// `InvalidTransition` for another instance; `ClaimLost`; `StaleEpoch` after an interrupt, and the call then ends
    /// the claim. After an `Unknown` outcome, repeat the call.
    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim>;

    /// Ends attempts. Each settlement has its own answer, in the order given (MB-38).
    ///
    /// # Guarantees
    /// - A repeat of a settlement with the same token returns the first answer, if the attempt is still in the history
    ///   (MB-39).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 in one call. For each settlement: `ClaimLost`; `StaleEpoch` after an
    /// interrupt, and the settlement then ends the claim; `LimitExceeded`. After an `Unknown` outcome, repeat the call
    /// (MB-44).
    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>>;
}

/// Reads a mailbox.
#[async_trait]
pub trait MailboxReader: Send + Sync {
    /// Loads a dispatch. Returns none for an unknown id.
    ///
    /// # Errors
    /// Any error of reading.
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>>;

    /// Lists dispatches in pages (MB-45).
    ///
    /// A list of superseded dispatches in the order of creation also reads all queued dispatches. The reason is that a
    /// dispatch superseded while it was queued is still stored as queued.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range, and for the order of claims without a thread; `InvalidCursor`.
    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>>;

    /// Counts the dispatches of a thread or of the tenant by status, without reading any (MB-46).
    ///
    /// The counts of a tenant are exact while nothing is written.
    ///
    /// # Errors
    /// Any error of reading.
    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts>;

    /// Lists the threads from which a claim would get a dispatch now (MB-47).
    ///
    /// Free threads come first, in the order of claims. Threads whose lease has expired follow, by the end of the
    /// lease.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor`.
    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>>;

    /// Returns the number of times that a thread was interrupted; 0 for an unknown thread (MB-47).
    ///
    /// # Errors
    /// Any error of reading.
    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64>;
}

/// Maintains a mailbox.
#[async_trait]
pub trait MailboxMaintenance: Send + Sync {
    /// Ends claims whose lease has expired, up to `limit` (1 to 1,000), in the same way as a claim does (MB-36).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range. After an `Unknown` outcome, repeat the call.
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed>;

    /// Removes dispatches that ended before a given time. Epochs and claim numbers stay (MB-49).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range. After an `Unknown` outcome, repeat the call.
    async fn purge(&self, request: Purge) -> Result<Purged>;

    /// Puts dead letters back into their queues. Each has its own answer (MB-50).
    ///
    /// A requeued dispatch has all its attempts available again and keeps its history.
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 in one call; `Invalid` for a limit out of range. For each dispatch:
    /// `NotFound`; `InvalidTransition` if the dispatch is not a dead letter; `AlreadyExists`, which names the dispatch
    /// that holds its key. After an `Unknown` outcome, load the dispatches.
    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>>;
}

/// All contracts of the mailbox.
pub trait MailboxStore: MailboxProducer + MailboxConsumer + MailboxReader + MailboxMaintenance {}

impl<S: MailboxProducer + MailboxConsumer + MailboxReader + MailboxMaintenance + ?Sized> MailboxStore for S {}
