//! The loop that workers and relays share. It claims jobs, runs their handlers, extends their claims and settles them.

mod attempt;
mod claim_failures;
mod ending;
mod heartbeat;
mod main_loop;
mod source;

use std::sync::{Arc, Mutex, PoisonError};

use store_core::{Error, ErrorKind, Result};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(super) use self::source::{AttemptState, JobSource};
use super::{LoopHandle, WorkSummary, WorkerOptions};

/// A loop that has not been started.
pub(super) struct JobLoop<S> {
    source: S,
    options: WorkerOptions,
    ends_when_idle: bool,
}

/// The data that the loop and its attempts share.
struct LoopState<S: JobSource> {
    source: S,
    options: WorkerOptions,
    ends_when_idle: bool,
    /// Cancelled when the loop must stop claiming.
    stopping: CancellationToken,
    /// Cancelled when handlers still run at the stop deadline, or when a caller asks for it. The handlers are then told
    /// to stop, and aborted after the grace period. Their work is released.
    aborting_attempts: CancellationToken,
    /// Notified when an attempt ends: its thread may have more work.
    attempt_ended: Notify,
    summary: Mutex<WorkSummary>,
    /// Jobs that failed in this loop and are to be tried again. Used only by a loop that ends when it is idle.
    jobs_to_retry: Mutex<Vec<S::Job>>,
}

impl<S: JobSource> JobLoop<S> {
    pub(super) const fn new(source: S, options: WorkerOptions) -> Self {
        Self { source, options, ends_when_idle: false }
    }

    pub(super) const fn options(&self) -> &WorkerOptions {
        &self.options
    }

    pub(super) const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Makes the loop end when there is nothing to do.
    pub(super) fn until_idle(mut self) -> Self {
        self.ends_when_idle = true;
        self
    }

    pub(super) fn start(self) -> Result<LoopHandle> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|source| Error::unavailable("a worker needs a tokio runtime").with_source(source))?;
        let loop_state = Arc::new(LoopState {
            source: self.source,
            options: self.options,
            ends_when_idle: self.ends_when_idle,
            stopping: CancellationToken::new(),
            aborting_attempts: CancellationToken::new(),
            attempt_ended: Notify::new(),
            summary: Mutex::default(),
            jobs_to_retry: Mutex::default(),
        });
        let (stopping, aborting_attempts) = (loop_state.stopping.clone(), loop_state.aborting_attempts.clone());
        Ok(LoopHandle::new(runtime.spawn(main_loop::run(loop_state)), stopping, aborting_attempts))
    }
}

impl<S: JobSource> LoopState<S> {
    fn update_summary(&self, change: impl FnOnce(&mut WorkSummary)) {
        change(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Remembers a job that failed in this loop. Only a loop that ends when it is idle needs to know this.
    fn note_retry(&self, job: &S::Job) {
        if self.ends_when_idle {
            self.jobs_to_retry.lock().unwrap_or_else(PoisonError::into_inner).push(job.clone());
        }
    }

    /// Returns whether a job that failed in this loop still waits to be tried again.
    async fn has_jobs_waiting_for_retry(&self) -> Result<bool> {
        let jobs = std::mem::take(&mut *self.jobs_to_retry.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut waiting_jobs, mut first_error) = (Vec::new(), None);
        for job in jobs {
            // After an error nothing is known of the remaining jobs, so they are kept and checked again later.
            let is_waiting_for_retry =
                if first_error.is_none() { self.source.is_waiting_for_retry(&job).await } else { Ok(true) };
            if !matches!(is_waiting_for_retry, Ok(false)) {
                waiting_jobs.push(job);
            }
            first_error = first_error.or(is_waiting_for_retry.err());
        }
        let mut jobs_to_retry = self.jobs_to_retry.lock().unwrap_or_else(PoisonError::into_inner);
        jobs_to_retry.extend(waiting_jobs);
        first_error.map_or_else(|| Ok(!jobs_to_retry.is_empty()), Err)
    }

    fn summary(&self) -> WorkSummary {
        *self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the same call may succeed later. The worker then tries again instead of ending at once.
fn is_temporary(error: &Error) -> bool {
    error.is_retryable() || matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Corrupt)
}
