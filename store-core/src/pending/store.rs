//! The contract of pending input.

use async_trait::async_trait;

use super::{AppendPending, AppendedInputs, PendingInput, PendingQueue, PendingUpdate, Reorder};
use crate::{
    error::Result,
    id::{EntryId, ThreadId},
    page::{Page, PageRequest},
};

/// The queues of pending input. People and programs can deliver input at any time. A commit consumes it later.
///
/// Pending input appears in no entry and in no context. Once it is consumed, it is no longer pending (PI-14). The
/// function [`select_inputs`](super::select_inputs()) decides which inputs a run takes at which boundary.
#[async_trait]
pub trait PendingStore: Send + Sync {
    /// Appends inputs to the end of the queue in the order given, all or none (PI-1).
    ///
    /// If the thread does not exist, it is created with version 0 (PI-4).
    ///
    /// # Guarantees
    /// - If every input of the append is already pending exactly as given, the call returns the same inputs again,
    ///   marked `deduplicated`, and writes nothing (PI-2).
    /// - A ticket gets one decision. If an equal decision is given again, the call returns the first one, even if that
    ///   was already consumed (RU-16).
    /// - Concurrent appends lose nothing (PI-11).
    ///
    /// # Errors
    /// `Invalid` for a message that breaks a rule (PI-3), and for a decision whose run does not wait for its ticket
    /// (PI-22); `LimitExceeded`; `NotFound` for a deleted thread (PI-4); `AlreadyExists` for an id that is pending,
    /// `AlreadyConsumed` for one that is in the log (PI-2); `Conflict` for a different decision on a ticket (RU-16).
    /// After an `Unknown` outcome, repeat the call with ids that you gave, or load the queue.
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs>;

    /// Loads the queue of a thread: its inputs in order, with positions (PI-5).
    ///
    /// The queue of an unknown thread is empty and has revision 0.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue>;

    /// Changes the message or the delivery of one input. The input keeps its position and gets a new revision (PI-6).
    ///
    /// If the input already has the given message and delivery, nothing is written, and its revision stays the same.
    ///
    /// # Guarantees
    /// - If a change and a commit that consumes the input run at the same time, one of them succeeds (PI-12).
    ///
    /// # Errors
    /// `NotFound` for an unknown input, `AlreadyConsumed` for one that is in the log (PI-9); `Conflict` if the input
    /// has another revision; `Invalid` for a decision (RU-16) and for a message that breaks a rule; `LimitExceeded`.
    /// After an `Unknown` outcome, load the queue.
    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput>;

    /// Removes one input from the queue and returns it. The other inputs keep their revisions (PI-7).
    ///
    /// # Errors
    /// `NotFound` for an unknown input, `AlreadyConsumed` for one that is in the log (PI-9); `Invalid` for a decision
    /// whose run is open (RU-16). After an `Unknown` outcome, load the queue.
    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput>;

    /// Changes the order of the queue and returns its revision (PI-8).
    ///
    /// # Errors
    /// `NotFound` for an unknown thread; `Conflict` if the queue has another revision; `AlreadyConsumed` for an input
    /// that is in the log (PI-9); `Invalid` if the order leaves out an input, names one twice, or names one that is not
    /// in the queue. After an `Unknown` outcome, load the queue.
    async fn reorder_pending(&self, request: Reorder) -> Result<u64>;

    /// Lists the threads that have pending input, ordered by id, in pages (PI-10).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list or store.
    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>>;
}
