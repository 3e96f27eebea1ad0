//! Writes the checkpoints of an answer while it is received.

use std::{fmt, sync::Arc, time::Duration};

use store_core::{
    Clock, Commit, Error, PartialAnswer, PutStreamCheckpoint, Result, RunId, StreamCheckpointLayer,
    StreamCheckpointOutcome, StreamCheckpointStore, TenantId, TenantStores, ThreadId, Timestamp,
    stream_checkpoint_removal,
};

use crate::Stores;

/// The least time between two checkpoints, unless the handler sets another one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// A sink for the checkpoints of one answer of a model, while the answer is received (SC).
///
/// The handler offers what it has received so far, as often as it likes. The sink puts a checkpoint if the last one is
/// old enough, so the rate of writes is bounded, and an answer that comes within one interval writes nothing. A put
/// that fails is remembered and never stops the answer or its commit (SC-7). The thread must exist.
///
/// ```
/// use agentstore::{Done, Failure, Message, NewEntry, PartialAnswer, Recovery, Work};
///
/// /// Receives an answer. A real handler would ask a model, and let it continue after the recovered text.
/// async fn answer(work: Work) -> Result<Done, Failure> {
///     let mut sink = work.stream_sink(1).await?;
///     let mut text = match sink.recovered().cloned().unwrap_or_default().recovery() {
///         Recovery::Continue { text } | Recovery::CutBeforeCall { text, .. } => text,
///         _ => String::new(),
///     };
///     for word in ["The ", "answer."] {
///         text.push_str(word);
///         sink.offer(&PartialAnswer::new(1).with_text(text.clone())).await;
///     }
///     let commit = work.new_commit().with_key(work.key("answer")?).entry(NewEntry::new(Message::assistant(text)));
///     let _receipt = work.commits()?.commit(sink.add_removal_to(commit)?).await?;
///     Ok(Done::ack())
/// }
/// ```
pub struct StreamSink {
    store: Arc<dyn StreamCheckpointStore>,
    clock: Arc<dyn Clock>,
    thread: ThreadId,
    run: RunId,
    step: u64,
    interval: Duration,
    recovered: Option<PartialAnswer>,
    /// The sequence of the last checkpoint of the run.
    sequence: u64,
    /// The time of the last put; at first that of the opening.
    last_put: Timestamp,
    /// Whether the run may have a checkpoint.
    may_be_stored: bool,
    last_error: Option<Error>,
}

/// What happened to an answer that was offered to a [`StreamSink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It is stored as the checkpoint of the run.
    Stored,
    /// Nothing was written, because the last checkpoint is not old enough.
    TooSoon,
    /// Nothing was written, because another writer has put a later checkpoint.
    Ignored,
    /// The put failed. [`StreamSink::last_error`] returns the error.
    Failed,
}

impl Stores {
    /// Returns a sink for the checkpoints of an answer that no worker receives (SC): that of one step of a run. It
    /// loads what an earlier process received of the same step. A handler uses
    /// [`Work::stream_sink`](super::Work::stream_sink) instead.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads or no documents; any error of reading.
    pub async fn stream_sink(&self, tenant: &TenantId, thread: ThreadId, run: RunId, step: u64) -> Result<StreamSink> {
        let stores = TenantStores::from_coordinator(self.commits(tenant)?);
        StreamSink::open(&stores, Arc::clone(self.clock()), (thread, run), step).await
    }
}

impl StreamSink {
    /// Opens the sink of a step of a run, and loads what an earlier attempt received.
    pub(super) async fn open(
        stores: &TenantStores,
        clock: Arc<dyn Clock>,
        (thread, run): (ThreadId, RunId),
        step: u64,
    ) -> Result<Self> {
        let store = Arc::new(StreamCheckpointLayer::new(stores)?);
        let loaded = store.load_stream_checkpoint(&thread, &run).await?;
        let (sequence, may_be_stored) = (loaded.as_ref().map_or(0, |loaded| loaded.sequence), loaded.is_some());
        // That of an earlier step was committed, or given up.
        let recovered = loaded.map(|loaded| loaded.answer).filter(|answer| answer.step == step);
        let (last_put, interval, last_error) = (clock.now(), DEFAULT_INTERVAL, None);
        Ok(Self { store, clock, thread, run, step, interval, recovered, sequence, last_put, may_be_stored, last_error })
    }

    /// Sets the least time between two checkpoints; 1 second by default. It is measured by the clock of the stores.
    #[must_use]
    pub const fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Returns what an earlier attempt received of the same step; none if there is nothing.
    /// [`PartialAnswer::recovery`] says how the answer goes on.
    #[must_use]
    pub const fn recovered(&self) -> Option<&PartialAnswer> {
        self.recovered.as_ref()
    }

    /// Returns the error of the last put that failed.
    #[must_use]
    pub const fn last_error(&self) -> Option<&Error> {
        self.last_error.as_ref()
    }

    /// Puts a checkpoint of what was received so far, unless the last put is less than the interval ago.
    pub async fn offer(&mut self, answer: &PartialAnswer) -> Offered {
        let now = self.clock.now();
        // If the clock went back, the time of the last put means nothing any more.
        if self.last_put <= now && now < self.last_put.saturating_add(self.interval) {
            return Offered::TooSoon;
        }
        self.put(answer).await
    }

    /// Puts a checkpoint at once, for example before a tool is called, or when the handler is told to stop. The step is
    /// that of the sink.
    pub async fn put(&mut self, answer: &PartialAnswer) -> Offered {
        let mut answer = answer.clone();
        answer.step = self.step;
        self.last_put = self.clock.now();
        self.sequence = self.sequence.saturating_add(1);
        // Also a put that fails may have an effect.
        self.may_be_stored = true;
        let request = PutStreamCheckpoint::new(self.thread.clone(), self.run.clone(), self.sequence, answer);
        match self.store.put_stream_checkpoint(request).await {
            Ok(StreamCheckpointOutcome::Stored) => Offered::Stored,
            Ok(StreamCheckpointOutcome::Ignored { .. }) => Offered::Ignored,
            Err(error) => {
                tracing::warn!(%error, kind = error.kind().name(), "a stream checkpoint was not written");
                self.last_error = Some(error);
                Offered::Failed
            }
        }
    }

    /// Adds the removal of the checkpoint to the commit that contains the answer (SC-3). Changes nothing if no
    /// checkpoint can be there.
    ///
    /// # Errors
    /// None for any run.
    pub fn add_removal_to(&self, commit: Commit) -> Result<Commit> {
        if !self.may_be_stored {
            return Ok(commit);
        }
        Ok(commit.with_documents(stream_checkpoint_removal(&self.thread, &self.run)?))
    }
}

impl fmt::Debug for StreamSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSink")
            .field("thread", &self.thread)
            .field("run", &self.run)
            .field("step", &self.step)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
