//! What a store must be able to do so that a write buffer can stand in front of it.

use std::sync::Arc;

use async_trait::async_trait;

use super::Delta;
use crate::{
    commit::{CommitView, DecisionContext, NeededKeys},
    error::{Error, Result},
    id::{TenantId, ThreadId},
    store::Store,
    time::Timestamp,
};

/// A rule that [`BufferTarget::decide`] runs. It may be run several times, each time with a view that knows more.
pub type DecideOverView<'a> = dyn FnMut(&dyn CommitView, DecisionContext<'_>) -> Result<()> + Send + 'a;

/// How far a store has applied the stream of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AppliedPosition {
    /// The id of the buffer that stands in front of the store; none if there is none.
    pub buffer: Option<String>,
    /// The sequence number up to which the deltas of that buffer are applied.
    pub position: u64,
}

impl AppliedPosition {
    /// Refuses another buffer than the one that is attached (NB-14).
    ///
    /// # Errors
    /// `Unavailable`, which names the other buffer.
    pub fn check(&self, buffer: &str) -> Result<()> {
        match &self.buffer {
            Some(attached) if attached == buffer => Ok(()),
            Some(other) => Err(Error::unavailable(format!("the write buffer `{other}` is attached to the store"))),
            None => Err(Error::unavailable(format!("the write buffer `{buffer}` is not attached to the store"))),
        }
    }

    /// Makes the position of a buffer. Only implementations of a store need this.
    #[must_use]
    pub const fn new(buffer: Option<String>, position: u64) -> Self {
        Self { buffer, position }
    }
}

/// A delta that was read from the stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadDelta {
    /// Its sequence number in the stream.
    pub sequence: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// The delta.
    pub delta: Arc<Delta>,
}

impl ReadDelta {
    /// Makes the delta with this sequence number.
    #[must_use]
    pub const fn new(sequence: u64, tenant: TenantId, delta: Arc<Delta>) -> Self {
        Self { sequence, tenant, delta }
    }
}

/// Deltas to apply, in the order of the stream.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeltaBatch {
    /// The id of the buffer.
    pub buffer: String,
    /// The position at which the store must be. Otherwise another node has applied deltas, and nothing is written.
    pub expected: u64,
    /// The position afterwards. It is that of the last delta, or later if what follows had no effect.
    pub upto: u64,
    /// The deltas.
    pub deltas: Vec<ReadDelta>,
}

impl DeltaBatch {
    /// Makes a batch of deltas of this buffer, which moves its position from `positions.0` to `positions.1`.
    #[must_use]
    pub const fn new(buffer: String, positions: (u64, u64), deltas: Vec<ReadDelta>) -> Self {
        Self { buffer, expected: positions.0, upto: positions.1, deltas }
    }
}

/// A store that a write buffer can stand in front of: the inner store.
///
/// While a buffer is attached, nothing but the buffer may write threads, events or documents to the store.
#[async_trait]
pub trait BufferTarget: Store {
    /// Returns store time.
    ///
    /// # Errors
    /// `Unavailable` if it is not known.
    fn now(&self) -> Result<Timestamp>;

    /// Returns whether deltas can contain documents. If not, commits with documents are refused, and other writes of
    /// documents go to the store directly, after everything that was acknowledged is applied.
    fn takes_documents(&self) -> bool {
        true
    }

    /// Runs `decide` over a view of what is stored of a thread, and of the records that `needed` names. Writes nothing.
    ///
    /// The context has store time, and the limits and the source of ids of the store.
    ///
    /// # Guarantees
    /// - If a delta is applied before the call begins, the view shows what it wrote (NB-4). It may show some of what is
    ///   applied during the call.
    ///
    /// # Errors
    /// `Closed`; the error of `decide`; any error of reading.
    async fn decide(
        &self,
        tenant: &TenantId,
        thread: &ThreadId,
        needed: &NeededKeys,
        decide: &mut DecideOverView<'_>,
    ) -> Result<()>;

    /// Returns the parents of a thread, itself first; none if it does not exist.
    ///
    /// # Errors
    /// `Closed`; any error of reading.
    async fn lineage(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Vec<ThreadId>>;

    /// Returns the buffer that is attached, and how far its deltas are applied: nothing that an earlier call has shown
    /// is of a later delta.
    ///
    /// # Errors
    /// `Closed`; any error of reading.
    async fn applied_position(&self) -> Result<AppliedPosition>;

    /// Attaches a buffer whose stream begins after `position`, and returns how far its deltas are applied. Attaching
    /// again changes nothing (NB-14).
    ///
    /// # Errors
    /// `Unavailable`, which names the other buffer, if another one is attached.
    async fn attach_buffer(&self, buffer: &str, position: u64) -> Result<u64>;

    /// Detaches a buffer whose deltas are applied up to `position` (NB-14). Another attached buffer stays.
    ///
    /// # Errors
    /// `Unavailable` if another buffer is attached, or if its deltas are applied up to another position.
    async fn detach_buffer(&self, buffer: &str, position: u64) -> Result<()>;

    /// Writes the records of deltas in order, and moves the position of the buffer, in one atomic step. Returns the
    /// position.
    ///
    /// # Guarantees
    /// - Each delta is applied once, however many nodes apply it and however often (NB-4): if the store is not at the
    ///   expected position, nothing is written, and the position at which it is is returned.
    ///
    /// # Errors
    /// `Unavailable`, which names the other buffer, if another one is attached (NB-14); any error of writing.
    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<u64>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BufferTarget + ?Sized> BufferTarget for Arc<S> {
    fn now(&self) -> Result<Timestamp> {
        S::now(self)
    }

    fn takes_documents(&self) -> bool {
        S::takes_documents(self)
    }

    async fn decide(
        &self,
        tenant: &TenantId,
        thread: &ThreadId,
        needed: &NeededKeys,
        decide: &mut DecideOverView<'_>,
    ) -> Result<()> {
        S::decide(self, tenant, thread, needed, decide).await
    }

    async fn lineage(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Vec<ThreadId>> {
        S::lineage(self, tenant, thread).await
    }

    async fn applied_position(&self) -> Result<AppliedPosition> {
        S::applied_position(self).await
    }

    async fn attach_buffer(&self, buffer: &str, position: u64) -> Result<u64> {
        S::attach_buffer(self, buffer, position).await
    }

    async fn detach_buffer(&self, buffer: &str, position: u64) -> Result<()> {
        S::detach_buffer(self, buffer, position).await
    }

    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<u64> {
        S::apply_deltas(self, batch).await
    }
}
