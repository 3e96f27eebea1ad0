//! The contracts for threads.

use async_trait::async_trait;

use super::{DeleteRequest, Deletion, NewThread, PruneRequest, Pruned, Thread, ThreadFilter, ThreadPatch, ThreadQuery};
use crate::{
    error::Result, id::ThreadId, log::LogReader, page::Page, progress::Progress, run::RunReader, version::Expect,
};

/// Reads threads.
#[async_trait]
pub trait ThreadReader: Send + Sync {
    /// Loads a thread.
    ///
    /// Returns none for an unknown id (TH-3).
    ///
    /// # Errors
    /// `Corrupt` if its record is damaged.
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>>;

    /// Lists threads page by page, last active first unless the query says otherwise.
    ///
    /// # Guarantees
    /// - The filters and orders are described in TH-13 to TH-15. Threads with equal times are ordered by id (PG-8).
    /// - In the order of last activity, reading all pages returns every thread at most once, and every thread that was
    ///   not written to meanwhile exactly once (PG-5). In the order of creation, it returns every thread exactly once
    ///   (PG-4).
    ///
    /// # Errors
    /// `Invalid` for an invalid limit; `InvalidCursor` for a cursor of another query.
    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>>;

    /// Counts threads exactly.
    ///
    /// This may cost as much as reading the counted threads (TH-31).
    ///
    /// # Errors
    /// Any error of the read.
    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64>;

    /// Checks whether `parent` may become the parent of `thread`, and changes nothing.
    ///
    /// The result is exactly the same as that of an update (TH-30).
    ///
    /// # Errors
    /// `NotFound` if one of the two does not exist (TH-8, TH-10); `Invalid` if `thread` would become its own ancestor
    /// (TH-11).
    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()>;
}

/// Creates, changes and deletes threads.
#[async_trait]
pub trait ThreadAdmin: Send + Sync {
    /// Creates a thread with version 0, revision 1 and no head (TH-1).
    ///
    /// # Guarantees
    /// - Of several concurrent creations with one id, exactly one succeeds (TH-2).
    /// - A thread that is created under a deleted id is a new thread. Its generation is one higher, and it has no data
    ///   of the old thread except the events of its scope (TH-24).
    ///
    /// # Errors
    /// `AlreadyExists` if the id is in use; `NotFound` for a parent that does not exist, which the error names (TH-10);
    /// `Invalid` for a thread that is its own parent and for a time later than store time; `LimitExceeded`.
    ///
    /// After an `Unknown` outcome, load the thread.
    async fn create_thread(&self, thread: NewThread) -> Result<Thread>;

    /// Changes the given fields of a thread and nothing else.
    ///
    /// # Guarantees
    /// - Fields that `patch` does not name do not change. Metadata is changed key by key (TH-4).
    /// - A change increases `revision` by one and does not change `version`. An update that changes nothing increases
    ///   neither (TH-5, TH-9).
    /// - Of two updates guarded by the same revision, exactly one succeeds (TH-6). Two updates without a guard, of
    ///   different metadata keys, both take effect (TH-7).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread (TH-8) or parent (TH-10); `Conflict` if `expect` does not hold for the
    /// revision; `Invalid` for a parent that would close a cycle (TH-11); `ClaimLost` and `StaleEpoch` under a fence
    /// (CM-44); `LimitExceeded`.
    ///
    /// After an `Unknown` outcome, load the thread and compare its revision.
    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread>;

    /// Deletes a thread with its entries, runs, state and commit keys, in one atomic step (TH-20, TH-21).
    ///
    /// # Guarantees
    /// - A late commit cannot bring the thread back (TH-23). Its id is remembered for at least 30 days (TH-25).
    /// - The request says whether children stay, are deleted too, or prevent the deletion (TH-17 to TH-19).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; `Conflict` if `expect` does not hold for the version (TH-22); `HasChildren`;
    /// `LimitExceeded` if more threads would change than the limit allows.
    ///
    /// After an `Unknown` outcome, load the thread.
    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion>;

    /// Deletes threads that were not written to for a given time, that have no open runs and no pending input, and
    /// whose children are all deleted by the same call (TH-26).
    ///
    /// It also forgets deleted ids that are older than 30 days (TH-25).
    ///
    /// # Guarantees
    /// - A thread that is written to after it was chosen and before it is deleted is not pruned (TH-27).
    /// - A call deletes at most `limit` threads. Its result says whether more remain (TH-28).
    ///
    /// # Errors
    /// `Invalid` for a limit outside of 1 to 1,000.
    ///
    /// After an `Unknown` outcome, call it again.
    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned>;

    /// Removes the data that interrupted deletions have left.
    ///
    /// The call returns when no such data is left (TH-20), or when `progress` stops it between two batches (PR-17). It
    /// returns the number of threads whose data was removed.
    ///
    /// # Errors
    /// Any error of the write.
    ///
    /// After an `Unknown` outcome, call it again. The second call continues where the first ended.
    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64>;

    /// Forgets the highest number of a claim that has written to a thread.
    ///
    /// An operator calls this after a mailbox was replaced or restored (CM-42). An unknown thread is not an error.
    ///
    /// # Errors
    /// Any error of the write.
    ///
    /// After an `Unknown` outcome, call it again.
    async fn reset_fence(&self, id: &ThreadId) -> Result<()>;
}

/// Everything that a store keeps of threads: their records, logs and runs.
///
/// Only [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) writes entries, runs and thread state (CM-2).
pub trait ThreadRunStore: ThreadReader + LogReader + RunReader + ThreadAdmin {}

impl<S: ThreadReader + LogReader + RunReader + ThreadAdmin + ?Sized> ThreadRunStore for S {}
