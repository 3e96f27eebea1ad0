//! The loop that workers and relays have in common: claim, begin, keep, handle, settle.

mod attempt;
mod ending;
mod failures;
mod keep;
mod pool;
mod source;

use std::sync::{Arc, Mutex, PoisonError};

use store_core::{Error, ErrorKind, Result};
use tokio::sync::Notify;
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
struct Shared<S: Source> {
    source: S,
    options: WorkerOptions,
    ends_when_idle: bool,
    /// Nothing more is claimed.
    stopping: CancellationToken,
    /// Handlers had their time: the rest is given back.
    giving_up: CancellationToken,
    /// An attempt ended: there may be more of its thread.
    ended: Notify,
    summary: Mutex<Summary>,
    /// What failed here and is to be tried again, for a loop that ends when it is idle.
    retried: Mutex<Vec<S::Job>>,
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
            summary: Mutex::default(),
            retried: Mutex::default(),
        });
        let (stopping, giving_up) = (shared.stopping.clone(), shared.giving_up.clone());
        Ok(Running::new(runtime.spawn(pool::run(shared)), stopping, giving_up))
    }
}

impl<S: Source> Shared<S> {
    fn count(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Remembers what failed here, if that decides when the loop is idle.
    fn note_retry(&self, job: &S::Job) {
        if self.ends_when_idle {
            self.retried.lock().unwrap_or_else(PoisonError::into_inner).push(job.clone());
        }
    }

    /// Whether something that failed here still waits to be tried again.
    async fn has_retries(&self) -> Result<bool> {
        let jobs = std::mem::take(&mut *self.retried.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut waiting, mut failed) = (Vec::new(), None);
        for job in jobs {
            // After an error nothing is known of the others: they are looked at again.
            let waits = if failed.is_none() { self.source.waits(&job).await } else { Ok(true) };
            if !matches!(waits, Ok(false)) {
                waiting.push(job);
            }
            failed = failed.or(waits.err());
        }
        let mut retried = self.retried.lock().unwrap_or_else(PoisonError::into_inner);
        retried.extend(waiting);
        failed.map_or_else(|| Ok(!retried.is_empty()), Err)
    }

    fn summary(&self) -> Summary {
        *self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the same call may succeed later: a worker tries again, and does not end at once.
fn passes(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Corrupt)
}
