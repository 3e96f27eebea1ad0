//! What all tenants of a buffer share, and applying deltas to the inner store.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use store_core::{
    Error, Result, TenantId, ThreadId,
    buffer::{
        AppliedPosition, BufferTarget, DeltaBatch, DeltaKeys, QuarantinedDelta, ReadDelta, StoreConstants,
        is_refusal_for_good, key_of_thread,
    },
    codec::Codec,
};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, RwLock},
    time::{Instant, sleep, timeout},
};

use super::{
    config::BufferConfig,
    message::DeltaMessage,
    state::{NextBatch, StreamState, WINDOW},
    stream::DeltaStream,
};

/// The number of applied messages after which messages that no node needs are removed from the stream.
const REMOVE_AFTER: u64 = WINDOW / 8;

/// How often a node asks the inner store for a quarantine that is not empty.
const QUARANTINE_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the error for a change of the quarantine that would apply a delta before one that it relies on, or without
/// it.
fn relies_on(later: u64, earlier: u64) -> Error {
    Error::invalid("quarantine", format!("write {later} relies on write {earlier}: name both, or begin with that one"))
}

/// What all tenants of a buffer share.
pub(crate) struct Shared {
    pub(crate) inner: Arc<dyn BufferTarget>,
    pub(crate) stream: Arc<DeltaStream>,
    pub(crate) config: BufferConfig,
    /// The id of the buffer.
    pub(crate) buffer: String,
    /// The constants of the inner store, as soon as a decision has read it.
    pub(crate) constants: OnceLock<StoreConstants>,
    pub(crate) runtime: Handle,
    pub(crate) is_closed: AtomicBool,
    /// A call that writes holds this lock for reading. Closing waits for these calls.
    pub(crate) ongoing_writes: RwLock<()>,
    /// Held while this node applies deltas, so that it does not compete with itself.
    flushing: AsyncMutex<()>,
    /// The position up to which messages were removed from the stream.
    removed_upto: AtomicU64,
    /// The number of subscriptions that are open on this node.
    pub(crate) subscriptions: AtomicUsize,
    /// Why deltas could not be applied, if the last attempt failed.
    flush_error: Mutex<Option<String>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("buffer", &self.buffer).field("config", &self.config).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(
        inner: Arc<dyn BufferTarget>,
        stream: Arc<DeltaStream>,
        config: BufferConfig,
        buffer: String,
    ) -> Self {
        Self {
            inner,
            stream,
            config,
            buffer,
            constants: OnceLock::new(),
            runtime: Handle::current(),
            is_closed: AtomicBool::new(false),
            ongoing_writes: RwLock::new(()),
            flushing: AsyncMutex::default(),
            removed_upto: AtomicU64::default(),
            subscriptions: AtomicUsize::default(),
            flush_error: Mutex::default(),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { self.check_attached() }
    }

    /// Refuses a call on a node that had the buffer open when it was detached (NB-14).
    pub(crate) fn check_attached(&self) -> Result<()> {
        match self.stream.state().was_detached() {
            true => Err(Error::unavailable("the write buffer was detached from the store: open the store again")),
            false => Ok(()),
        }
    }

    /// Returns why deltas could not be applied, if the last attempt failed.
    pub(crate) fn flush_error(&self) -> Option<String> {
        self.flush_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads everything that was written before the call, and returns the end of the stream.
    pub(crate) async fn catch_up(&self) -> Result<u64> {
        let end = self.stream.catch_up().await?;
        self.learn_applied().await?;
        Ok(end)
    }

    /// Asks for the position of the inner store and its quarantine, if messages were removed from the stream before
    /// this node read them, or if the quarantine may have changed.
    pub(crate) async fn learn_applied(&self) -> Result<()> {
        if self.stream.state().must_ask() {
            self.ask_inner().await?;
        }
        Ok(())
    }

    /// Asks for the position of the inner store and its quarantine.
    pub(crate) async fn ask_inner(&self) -> Result<AppliedPosition> {
        let read_upto = self.stream.state().position();
        let position = self.inner.applied_position().await?;
        self.learn(&position).await?;
        self.stream.state_mut().set_asked(read_upto);
        Ok(position)
    }

    /// Takes over a position of the inner store, and its quarantine if that has changed.
    async fn learn(&self, position: &AppliedPosition) -> Result<()> {
        position.check(&self.buffer)?;
        if position.quarantine_revision == self.stream.state().quarantine().revision() {
            self.stream.state_mut().set_applied(position.position);
            return Ok(());
        }
        let (position, quarantined) = self.inner.quarantined_deltas().await?;
        position.check(&self.buffer)?;
        self.stream.state_mut().set_quarantine(&position, quarantined)
    }

    /// Refuses what needs everything in the inner store, if anything is in quarantine (NB-7).
    pub(crate) fn check_no_quarantine(&self) -> Result<()> {
        match self.stream.state().quarantine().iter().next() {
            Some(quarantined) => Err(quarantined.refusal()),
            None => Ok(()),
        }
    }

    /// Refuses a thread to which a write is in quarantine, as far as this node knows.
    pub(crate) fn check_thread(&self, tenant: &TenantId, thread: &ThreadId) -> Result<()> {
        let state = self.stream.state();
        if state.quarantine().len() == 0 {
            return Ok(());
        }
        let keys = DeltaKeys::from_lists(vec![key_of_thread(thread)], Vec::new());
        state.quarantine().relied_on(tenant, &keys).map_or(Ok(()), |quarantined| Err(quarantined.refusal()))
    }

    /// Refuses what needs the delta with this sequence number in the inner store, if it is in quarantine (NB-7).
    pub(crate) fn check_not_quarantined(&self, sequence: u64) -> Result<()> {
        match self.stream.state().quarantine().get(sequence) {
            Some(quarantined) => Err(quarantined.refusal()),
            None => Ok(()),
        }
    }

    /// Refuses a write if too much waits to be applied (NB-13).
    pub(crate) fn check_backlog(&self) -> Result<()> {
        let (waiting, limit) = (self.stream.state().waiting_bytes(), self.config.backlog_bytes);
        if waiting <= limit {
            return Ok(());
        }
        let reason = self.flush_error().map_or_else(String::new, |error| format!(": {error}"));
        Err(Error::unavailable(format!(
            "the write buffer holds {waiting} bytes that the inner store has not taken, more than {limit}{reason}"
        )))
    }

    /// Applies all deltas up to a position that this node has read, and returns when the inner store has them. Waits at
    /// most for the deadline of flushes.
    pub(crate) async fn flush(&self, upto: u64) -> Result<()> {
        let apply = async {
            while self.stream.state().has_waiting(upto) {
                self.apply_batch().await?;
            }
            Ok(())
        };
        match timeout(self.config.flush_deadline, apply).await {
            Ok(result) => result,
            Err(_) => {
                let reason = self.flush_error().unwrap_or_else(|| "it is too slow".to_owned());
                Err(Error::unavailable(format!("the inner store has not taken what the write buffer holds: {reason}")))
            }
        }
    }

    /// Applies the next deltas, if any wait.
    async fn apply_batch(&self) -> Result<()> {
        let _flushing = self.flushing.lock().await;
        let result = self.apply_next().await;
        let error = result.as_ref().err().map(ToString::to_string);
        *self.flush_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        result
    }

    /// Applies the next deltas. If the inner store refuses one for good, it goes into quarantine, and so does each
    /// delta that relies on it (NB-7).
    async fn apply_next(&self) -> Result<()> {
        let mut limit = self.config.batch;
        loop {
            let (next, expected) = {
                let state = self.stream.state();
                (state.next_batch(limit), self.expected(&state))
            };
            let batch = match next {
                None => return Ok(()),
                Some(NextBatch::Quarantine(sequence, message, earlier)) => {
                    let reason = format!("it relies on write {earlier}, which is in quarantine");
                    self.quarantine(expected, (sequence, &message), reason).await?
                }
                Some(NextBatch::Apply(upto, deltas)) => {
                    let (count, first) = (deltas.len(), deltas.first().map(|read| read.sequence));
                    match self.inner.apply_deltas(DeltaBatch::new(expected.clone(), upto, deltas)).await {
                        Ok(applied) => return self.learn(&applied).await,
                        Err(error) if !is_refusal_for_good(error.kind()) => return Err(error),
                        // One of them is refused. Fewer at a time are tried until it is the only one.
                        Err(_) if count > 1 => {
                            limit = count / 2;
                            continue;
                        }
                        Err(error) => {
                            let sequence = first.ok_or_else(Error::closed)?;
                            let message = self.stream.state().waiting_message(sequence);
                            let Some(message) = message else { return Ok(()) };
                            self.quarantine(expected, (sequence, &message), error.to_string()).await?
                        }
                    }
                }
            };
            // If another node has changed the position, this one learns it.
            let applied = self.inner.apply_deltas(batch).await?;
            return self.learn(&applied).await;
        }
    }

    fn expected(&self, state: &StreamState) -> AppliedPosition {
        AppliedPosition::new(Some(self.buffer.clone()), state.applied(), state.quarantine().revision())
    }

    /// Returns the batch that puts a delta into quarantine.
    async fn quarantine(
        &self,
        expected: AppliedPosition,
        (sequence, message): (u64, &DeltaMessage),
        reason: String,
    ) -> Result<DeltaBatch> {
        let (tenant, now) = (message.tenant.clone(), self.inner.now().await?);
        let delta = QuarantinedDelta::new(sequence, tenant, reason, now, message.encode());
        Ok(DeltaBatch::new(expected, sequence, Vec::new()).quarantining(delta))
    }

    /// Applies a delta that is in quarantine. It stays there if the inner store refuses it again.
    pub(crate) async fn retry_quarantined(&self, sequence: u64) -> Result<()> {
        let _flushing = self.flushing.lock().await;
        self.change_quarantine(|state| {
            let Some(quarantined) = state.quarantine().get(sequence) else { return Ok(None) };
            if let Some(earlier) = state.quarantine().relied_on_by(quarantined).first() {
                return Err(relies_on(sequence, *earlier));
            }
            let (tenant, delta) = (quarantined.record.tenant.clone(), Arc::clone(&quarantined.delta));
            Ok(Some((vec![ReadDelta::new(sequence, tenant, delta)], vec![sequence])))
        })
        .await
    }

    /// Removes deltas from the quarantine without applying them. All others that rely on them must be among them.
    pub(crate) async fn discard_quarantined(&self, sequences: &[u64]) -> Result<()> {
        let _flushing = self.flushing.lock().await;
        self.change_quarantine(|state| {
            if let Some((later, earlier)) = state.quarantine().left_behind(sequences) {
                return Err(relies_on(later, earlier));
            }
            let left: Vec<_> =
                sequences.iter().copied().filter(|sequence| state.quarantine().get(*sequence).is_some()).collect();
            Ok((!left.is_empty()).then_some((Vec::new(), left)))
        })
        .await
    }

    /// Releases deltas from the quarantine, and applies deltas in the same step, until a change takes effect or
    /// `choose` finds nothing to do.
    async fn change_quarantine(
        &self,
        choose: impl Fn(&StreamState) -> Result<Option<(Vec<ReadDelta>, Vec<u64>)>> + Send,
    ) -> Result<()> {
        self.ask_inner().await?;
        loop {
            let batch = {
                let state = self.stream.state();
                let Some((deltas, released)) = choose(&state)? else { return Ok(()) };
                DeltaBatch::new(self.expected(&state), state.applied(), deltas).releasing(released)
            };
            let afterwards = batch.position_afterwards();
            let applied = self.inner.apply_deltas(batch).await?;
            self.learn(&applied).await?;
            if applied == afterwards {
                return Ok(());
            }
        }
    }

    /// Applies deltas in the background: when enough wait, and after the flush interval.
    pub(crate) async fn flush_in_background(self: Arc<Self>) {
        loop {
            self.wait_for_deltas().await;
            if self.check_attached().is_err() {
                sleep(self.config.flush_interval).await;
                continue;
            }
            let upto = self.stream.state().position();
            if self.flush(upto).await.is_err() {
                // The reason is kept for callers that wait; the next round tries again.
                sleep(self.config.flush_interval).await;
            }
            // Another node may have retried or discarded what is in quarantine.
            if self.stream.state().quarantine().len() > 0 {
                let _result = self.ask_inner().await;
            }
            let applied = self.stream.state().applied();
            if applied >= self.removed_upto.load(Ordering::Relaxed) + WINDOW + REMOVE_AFTER
                && self.stream.remove_applied(applied).await.is_ok()
            {
                self.removed_upto.store(applied - WINDOW, Ordering::Relaxed);
            }
        }
    }

    /// Waits until deltas are to be applied, or the quarantine is to be read again.
    async fn wait_for_deltas(&self) {
        while self.stream.state().waiting_count() == 0 {
            if self.stream.state().quarantine().len() > 0 {
                if timeout(QUARANTINE_INTERVAL, self.stream.has_new_delta.notified()).await.is_err() {
                    return;
                }
            } else {
                self.stream.has_new_delta.notified().await;
            }
        }
        let until = Instant::now() + self.config.flush_interval;
        while self.stream.state().waiting_count() < self.config.batch {
            if self.subscriptions.load(Ordering::SeqCst) > 0 && self.stream.state().has_waiting_events() {
                return;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || timeout(left, self.stream.has_new_delta.notified()).await.is_err() {
                return;
            }
        }
    }
}
