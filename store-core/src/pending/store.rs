//! The contract for pending input.

use async_trait::async_trait;

use super::{AppendPending, Appended, PendingInput, PendingQueue, PendingUpdate, Reorder};
use crate::{
    error::Result,
    id::{EntryId, ThreadId},
    page::{Page, PageRequest},
};

/// Input that people and programs deliver to a thread while nobody reads it, until a commit consumes it.
///
/// What is pending shows in no entry and no context; what was consumed is no longer pending (PI-14). Which inputs a run
/// takes at which point says [`select`](super::select).
#[async_trait]
pub trait PendingStore: Send + Sync {
    /// Puts inputs at the end of the queue, in the order given, all or none (PI-1). Makes a thread of version 0 if it
    /// does not exist (PI-4).
    ///
    /// # Guarantees
    /// - An append that is equal to what is pending gives the same inputs again, marked `deduplicated`, and writes
    ///   nothing (PI-2).
    /// - A decision counts once: equal again it gives the first, also after that was consumed (RU-16).
    /// - Concurrent appends lose nothing (PI-11).
    ///
    /// # Errors
    /// `Invalid` for a message that breaks a rule (PI-3) and for a decision whose run does not wait for its ticket
    /// (PI-22); `LimitExceeded`; `NotFound` for a deleted thread (PI-4); `AlreadyExists` for a pending id,
    /// `AlreadyConsumed` for one in the log (PI-2); `Conflict` for another decision of a ticket (RU-16).
    /// After an `Unknown` outcome: repeat it with given ids, or load the queue.
    async fn append_pending(&self, request: AppendPending) -> Result<Appended>;

    /// The queue of a thread, the first input first, with positions (PI-5). That of an unknown thread is empty, of
    /// revision 0.
    ///
    /// # Errors
    /// Those of reading.
    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue>;

    /// Changes message or delivery of one input, which keeps its place, and raises its revision (PI-6). A change to
    /// what it is already changes nothing.
    ///
    /// # Guarantees
    /// - Of a change and a commit that consumes the input, one succeeds (PI-12).
    ///
    /// # Errors
    /// `NotFound` for an unknown input, `AlreadyConsumed` for one in the log (PI-9); `Conflict` if its revision is
    /// another one; `Invalid` for a decision (RU-16) and for a message that breaks a rule; `LimitExceeded`.
    /// After an `Unknown` outcome: load the queue.
    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput>;

    /// Removes one input and gives it back; the revisions of the others stay (PI-7).
    ///
    /// # Errors
    /// `NotFound` for an unknown input, `AlreadyConsumed` for one in the log (PI-9); `Invalid` for a decision whose run
    /// is open (RU-16). After an `Unknown` outcome: load the queue.
    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput>;

    /// Gives the queue another order; returns its revision (PI-8).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; `Conflict` if the queue's revision is another one; `AlreadyConsumed` for an
    /// input in the log (PI-9); `Invalid` if an input is missing, foreign or named twice.
    /// After an `Unknown` outcome: load the queue.
    async fn reorder_pending(&self, request: Reorder) -> Result<u64>;

    /// The threads that have pending input, by id, in pages (PI-10).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a foreign cursor.
    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>>;
}
