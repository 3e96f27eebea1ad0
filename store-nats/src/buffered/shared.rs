//! What all tenants of a buffer share, and applying deltas to the inner store.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use store_core::{
    Error, Result,
    buffer::{BufferTarget, DeltaBatch, StoreConstants},
};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, RwLock},
    time::{Instant, sleep, timeout},
};

use super::{config::BufferConfig, state::WINDOW, stream::DeltaStream};

/// The number of applied messages after which messages that no node needs are removed from the stream.
const REMOVE_AFTER: u64 = WINDOW / 8;

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
            flush_error: Mutex::default(),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
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

    /// Asks for the position of the inner store, if messages were removed from the stream before this node read them.
    pub(crate) async fn learn_applied(&self) -> Result<()> {
        if self.stream.state().has_missed() {
            let applied = self.inner.applied_position().await?.position;
            self.stream.state_mut().set_applied(applied);
        }
        Ok(())
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
        let Some((positions, deltas)) = self.stream.state().next_batch(self.config.batch) else { return Ok(()) };
        let result = self.inner.apply_deltas(DeltaBatch::new(self.buffer.clone(), positions, deltas)).await;
        let error = result.as_ref().err().map(ToString::to_string);
        *self.flush_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        // If another node has applied these deltas, this is its position.
        let applied = result?;
        self.stream.state_mut().set_applied(applied);
        Ok(())
    }

    /// Applies deltas in the background: when enough wait, and after the flush interval.
    pub(crate) async fn flush_in_background(self: Arc<Self>) {
        loop {
            self.wait_for_deltas().await;
            let upto = self.stream.state().position();
            if self.flush(upto).await.is_err() {
                // The reason is kept for callers that wait; the next round tries again.
                sleep(self.config.flush_interval).await;
            }
            let applied = self.stream.state().applied();
            if applied >= self.removed_upto.load(Ordering::Relaxed) + WINDOW + REMOVE_AFTER
                && self.stream.remove_applied(applied).await.is_ok()
            {
                self.removed_upto.store(applied - WINDOW, Ordering::Relaxed);
            }
        }
    }

    async fn wait_for_deltas(&self) {
        while self.stream.state().waiting_count() == 0 {
            self.stream.has_new_delta.notified().await;
        }
        let until = Instant::now() + self.config.flush_interval;
        while self.stream.state().waiting_count() < self.config.batch {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || timeout(left, self.stream.has_new_delta.notified()).await.is_err() {
                return;
            }
        }
    }
}
