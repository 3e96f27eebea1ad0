//! What a store must be able to do so that a write buffer can stand in front of it.

use std::sync::Arc;

use async_trait::async_trait;

use super::Delta;
use crate::{
    commit::{CommitView, DecisionContext, NeededKeys},
    error::{Error, ErrorKind, Result},
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
    /// The sequence number up to which the deltas of that buffer are applied, or are in quarantine.
    pub position: u64,
    /// How often the quarantine has changed.
    pub quarantine_revision: u64,
}

impl AppliedPosition {
    /// Makes a position. Only implementations of a store need this.
    #[must_use]
    pub const fn new(buffer: Option<String>, position: u64, quarantine_revision: u64) -> Self {
        Self { buffer, position, quarantine_revision }
    }

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

    /// Refuses to detach a buffer before everything up to `position` is applied.
    ///
    /// # Errors
    /// `Unavailable`, which names what is in the way.
    pub fn check_detachable(&self, buffer: &str, position: u64, quarantined: usize) -> Result<()> {
        self.check(buffer)?;
        if self.position != position {
            return Err(Error::unavailable("the buffer has deltas that are not applied yet"));
        }
        match quarantined {
            0 => Ok(()),
            count => Err(Error::unavailable(format!(
                "{count} writes are in the quarantine of the buffer: retry or discard them first"
            ))),
        }
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

/// A delta in quarantine: the store refused it for good, or it relies on one that the store refused (NB-7). The store
/// keeps it until it is retried or discarded by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantinedDelta {
    /// Its sequence number in the stream.
    pub sequence: u64,
    /// The tenant.
    pub tenant: TenantId,
    /// Why it was not applied.
    pub reason: String,
    /// Store time at which it was put into quarantine.
    pub since: Timestamp,
    /// The message with the delta, as the buffer wrote it to the stream. The store does not read it.
    pub message: String,
}

impl QuarantinedDelta {
    /// Makes the record of the delta with this sequence number.
    #[must_use]
    pub const fn new(sequence: u64, tenant: TenantId, reason: String, since: Timestamp, message: String) -> Self {
        Self { sequence, tenant, reason, since, message }
    }
}

/// What a store writes in one atomic step. Deltas are applied in the order of the stream.
///
/// A deletion of a tenant is the only delta of its batch. It also removes what the tenant has in quarantine: in the
/// order of the stream, all of it came before the deletion.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeltaBatch {
    /// The buffer, and the position and the revision at which the store must be. Otherwise another node has written,
    /// and nothing is written.
    pub expected: AppliedPosition,
    /// The position afterwards. It is that of the last delta, or later if what follows had no effect.
    pub upto: u64,
    /// The deltas.
    pub deltas: Vec<ReadDelta>,
    /// Deltas that are put into quarantine.
    pub quarantined: Vec<QuarantinedDelta>,
    /// The sequence numbers of deltas that leave the quarantine.
    pub released: Vec<u64>,
}

impl DeltaBatch {
    /// Makes a batch that moves the position from `expected` to `upto`.
    #[must_use]
    pub const fn new(expected: AppliedPosition, upto: u64, deltas: Vec<ReadDelta>) -> Self {
        Self { expected, upto, deltas, quarantined: Vec::new(), released: Vec::new() }
    }

    /// Also puts a delta into quarantine.
    #[must_use]
    pub fn quarantining(mut self, delta: QuarantinedDelta) -> Self {
        self.quarantined.push(delta);
        self
    }

    /// Also releases deltas from the quarantine.
    #[must_use]
    pub fn releasing(mut self, sequences: Vec<u64>) -> Self {
        self.released = sequences;
        self
    }

    /// Returns the tenant that the batch deletes, if it does.
    #[must_use]
    pub fn deleted_tenant(&self) -> Option<&TenantId> {
        let is_deletion = |read: &&ReadDelta| matches!(*read.delta, Delta::TenantDeletion);
        self.deltas.iter().find(is_deletion).map(|read| &read.tenant)
    }

    /// Returns the position of the store after the batch. A deletion of a tenant counts as a change of the quarantine.
    #[must_use]
    pub fn position_afterwards(&self) -> AppliedPosition {
        let changes = !self.quarantined.is_empty() || !self.released.is_empty() || self.deleted_tenant().is_some();
        let quarantine_revision = self.expected.quarantine_revision + u64::from(changes);
        AppliedPosition { position: self.upto, quarantine_revision, ..self.expected.clone() }
    }
}

/// Returns whether a store that ends an application with this error will never apply the delta, so that it belongs
/// into quarantine. All other errors are about the store and may go away (NB-7).
#[must_use]
pub const fn is_refusal_for_good(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Unavailable
            | ErrorKind::Closed
            | ErrorKind::CommitUnknown
            | ErrorKind::StorageFull
            | ErrorKind::Poisoned
            | ErrorKind::SchemaMismatch
            | ErrorKind::UnsafeDurability
    )
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
    async fn now(&self) -> Result<Timestamp>;

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
    /// `Unavailable` if another buffer is attached, if its deltas are applied up to another position, or if deltas are
    /// in quarantine.
    async fn detach_buffer(&self, buffer: &str, position: u64) -> Result<()>;

    /// Writes the records of deltas in order, changes the quarantine, and moves the position of the buffer, in one
    /// atomic step. Returns the position.
    ///
    /// # Guarantees
    /// - Each delta is applied once, however many nodes apply it and however often (NB-4): if the store is not at the
    ///   expected position and revision, nothing is written, and the position at which it is is returned.
    ///
    /// # Errors
    /// `Unavailable`, which names the other buffer, if another one is attached (NB-14). An error for which
    /// [`is_refusal_for_good`] holds says that a delta can never be applied. Any error of writing.
    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<AppliedPosition>;

    /// Returns the deltas in quarantine in the order of the stream, and the position of the same moment (NB-7).
    ///
    /// # Errors
    /// `Closed`; any error of reading.
    async fn quarantined_deltas(&self) -> Result<(AppliedPosition, Vec<QuarantinedDelta>)>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: BufferTarget + ?Sized> BufferTarget for Arc<S> {
    async fn now(&self) -> Result<Timestamp> {
        S::now(self).await
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

    async fn apply_deltas(&self, batch: DeltaBatch) -> Result<AppliedPosition> {
        S::apply_deltas(self, batch).await
    }

    async fn quarantined_deltas(&self) -> Result<(AppliedPosition, Vec<QuarantinedDelta>)> {
        S::quarantined_deltas(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::{AppliedPosition, is_refusal_for_good};
    use crate::ErrorKind;

    /// Tests NB-7: what may go away by itself puts no delta into quarantine.
    #[test]
    fn only_refusals_of_the_delta_itself_are_for_good() {
        for kind in [ErrorKind::Invalid, ErrorKind::Corrupt, ErrorKind::LimitExceeded, ErrorKind::AlreadyExists] {
            assert!(is_refusal_for_good(kind), "{kind:?}");
        }
        for kind in [ErrorKind::Unavailable, ErrorKind::StorageFull, ErrorKind::CommitUnknown, ErrorKind::Closed] {
            assert!(!is_refusal_for_good(kind), "{kind:?}");
        }
    }

    /// Tests NB-7 and NB-14.
    #[test]
    fn a_buffer_is_detached_only_if_nothing_is_left() {
        let position = AppliedPosition::new(Some("b".to_owned()), 7, 2);
        assert!(position.check_detachable("b", 7, 0).is_ok());
        for (buffer, at, quarantined) in [("c", 7, 0), ("b", 6, 0), ("b", 7, 1)] {
            let error = position.check_detachable(buffer, at, quarantined).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
}
