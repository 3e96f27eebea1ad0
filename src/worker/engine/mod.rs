//! The loop that workers and relays have in common: claim, begin, keep, handle, settle.

mod attempt;
mod ending;
mod keep;
mod pool;
mod source;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use store_core::{Error, ErrorKind, Result};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub(super) use self::source::{Source, Standing};
use super::{Running, Summary, WorkerOptions};

/// A loop that was not started.
pub(super) struct Engine<S> {
    source: S,
    options: WorkerOptions,
    ends_when_idle: bool,
}

/// What the loop and its attempts share.
struct Shared<S> {
    source: S,
    options: WorkerOptions,
    ends_when_idle: bool,
    /// Nothing more is claimed.
    stopping: CancellationToken,
    /// Handlers had their time: the rest is given back.
    giving_up: CancellationToken,
    /// An attempt ended: there may be more of its thread.
    ended: Notify,
    tally: Mutex<Tally>,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Tally {
    summary: Summary,
    /// When the last of what failed here is due again.
    due: Option<Instant>,
}

impl<S: Source> Engine<S> {
    pub(super) const fn new(source: S, options: WorkerOptions) -> Self {
        Self { source, options, ends_when_idle: false }
    }

    pub(super) const fn options(&self) -> &WorkerOptions {
        &self.options
    }

    /// The same, ending when there is nothing to do.
    pub(super) fn until_idle(mut self) -> Self {
        self.ends_when_idle = true;
        self
    }

    pub(super) fn start(self) -> Result<Running> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|source| Error::unavailable("a worker runs on a tokio runtime").with_source(source))?;
        let shared = Arc::new(Shared {
            source: self.source,
            options: self.options,
            ends_when_idle: self.ends_when_idle,
            stopping: CancellationToken::new(),
            giving_up: CancellationToken::new(),
            ended: Notify::new(),
            tally: Mutex::default(),
        });
        let stopping = shared.stopping.clone();
        Ok(Running::new(runtime.spawn(pool::run(shared)), stopping))
    }
}

impl<S> Shared<S> {
    fn count(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner).summary);
    }

    /// Notes when something is due again that failed here.
    fn note_due(&self, after: Duration) {
        let due = Instant::now() + after;
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.due = Some(tally.due.map_or(due, |known| known.max(due)));
    }

    fn due(&self) -> Option<Instant> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).due
    }

    fn summary(&self) -> Summary {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).summary
    }
}

/// Whether the same call may succeed later: a worker waits for that, and does not end.
fn passes(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Corrupt)
}
