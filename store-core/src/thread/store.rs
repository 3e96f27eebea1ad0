//! The contracts for threads.

use async_trait::async_trait;

use super::{DeleteRequest, Deletion, NewThread, PruneRequest, Pruned, Thread, ThreadFilter, ThreadPatch, ThreadQuery};
use crate::{
    error::Result, id::ThreadId, log::LogReader, page::Page, progress::Progress, run::RunReader, version::Expect,
};

/// Reads threads.
#[async_trait]
pub trait ThreadReader: Send + Sync {
    /// Loads a thread; none for an unknown id (TH-3).
    ///
    /// # Errors
    /// `Corrupt` if its record is damaged.
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>>;

    /// Lists threads in pages, the last active first unless asked otherwise.
    ///
    /// # Guarantees
    /// - Filters and orders of TH-13 to TH-15; ids break ties (PG-8).
    /// - By last activity a walk gives every thread at most once, and every thread that was not written meanwhile
    ///   exactly once (PG-5); by creation exactly once (PG-4).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a cursor of another query.
    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>>;

    /// Counts threads exactly; may cost as much as what it counts (TH-31).
    ///
    /// # Errors
    /// Those of reading.
    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64>;

    /// Says whether `parent` may become the parent of `thread`, exactly as an update would, and changes nothing
    /// (TH-30).
    ///
    /// # Errors
    /// `NotFound` if either does not exist (TH-8, TH-10); `Invalid` if `thread` would become its own ancestor (TH-11).
    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()>;
}

/// Makes, changes and deletes threads.
#[async_trait]
pub trait ThreadAdmin: Send + Sync {
    /// Makes a thread with version 0, revision 1 and no head (TH-1).
    ///
    /// # Guarantees
    /// - Of several concurrent creations of one id exactly one succeeds (TH-2).
    /// - Under a deleted id it is a new thread, one generation higher, that shows nothing of the old one (TH-24).
    ///
    /// # Errors
    /// `AlreadyExists` if the id is in use; `NotFound` naming a parent that does not exist (TH-10); `Invalid` for a
    /// thread that is its own parent and for a time after store time; `LimitExceeded`.
    /// After an `Unknown` outcome: load the thread.
    async fn create_thread(&self, thread: NewThread) -> Result<Thread>;

    /// Changes the given fields of a thread and nothing else.
    ///
    /// # Guarantees
    /// - What `patch` does not name stays; metadata is patched key by key (TH-4).
    /// - A change raises `revision` by one and leaves `version`; no change raises nothing (TH-5, TH-9).
    /// - Of two updates guarded by one revision exactly one succeeds (TH-6); unguarded ones both land (TH-7).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread (TH-8) or parent (TH-10); `Conflict` if `expect` does not hold for the
    /// revision; `Invalid` for a parent that would close a cycle (TH-11); `ClaimLost` and `StaleEpoch` under a fence
    /// (CM-44); `LimitExceeded`. After an `Unknown` outcome: load the thread and compare its revision.
    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread>;

    /// Deletes a thread with its entries, runs, state and commit keys, in one atomic step (TH-20, TH-21).
    ///
    /// # Guarantees
    /// - A late commit cannot bring it back (TH-23); its id is remembered for at least 30 days (TH-25).
    /// - Children stay, go, or forbid it, as asked (TH-17 to TH-19).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; `Conflict` if `expect` does not hold for the version (TH-22); `HasChildren`;
    /// `LimitExceeded` if more threads would change than the limit allows.
    /// After an `Unknown` outcome: load the thread.
    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion>;

    /// Deletes threads that nobody wrote for a while, without open runs and without children that stay (TH-26), and
    /// forgets deleted ids that are older than 30 days (TH-25).
    ///
    /// # Guarantees
    /// - A thread that is written between the choice and its deletion is not pruned (TH-27).
    /// - At most `limit` threads a call; it says whether more remain (TH-28).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000. After an `Unknown` outcome: call it again.
    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned>;

    /// Removes the data of deletions that were interrupted before they had removed it. Returns when none is left
    /// (TH-20), or when `progress` stops it between two batches (PR-17). Gives the number of threads whose
    /// data was removed.
    ///
    /// # Errors
    /// Those of writing. After an `Unknown` outcome: call it again, which goes on.
    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64>;

    /// Forgets the highest claim number that wrote to a thread: the operator's way out when a mailbox was replaced or
    /// restored (CM-42). Unknown threads are no error.
    ///
    /// # Errors
    /// Those of writing. After an `Unknown` outcome: call it again.
    async fn reset_fence(&self, id: &ThreadId) -> Result<()>;
}

/// Everything that is kept of threads: their records, logs and runs.
///
/// Entries, runs and thread state are written by
/// [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) only (CM-2).
pub trait ThreadRunStore: ThreadReader + LogReader + RunReader + ThreadAdmin {}

impl<S: ThreadReader + LogReader + RunReader + ThreadAdmin + ?Sized> ThreadRunStore for S {}
