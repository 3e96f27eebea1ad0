//! The handle of a loop that is running.

use std::fmt;

use serde::Serialize;
use store_core::{Error, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The handle of a worker, relay or maintenance that was started. Dropping it asks the loop to stop, and does not wait
/// for the loop to end.
#[must_use = "the loop stops if the handle is dropped"]
pub struct LoopHandle<T = WorkSummary> {
    task: Option<JoinHandle<Result<T>>>,
    stopping: CancellationToken,
    aborting_attempts: CancellationToken,
}

impl<T> LoopHandle<T> {
    pub(super) const fn new(
        task: JoinHandle<Result<T>>,
        stopping: CancellationToken,
        aborting_attempts: CancellationToken,
    ) -> Self {
        Self { task: Some(task), stopping, aborting_attempts }
    }

    /// Stops the loop and returns what it did.
    ///
    /// The loop claims nothing more, and lets handlers finish until
    /// [`stop_deadline`](super::WorkerOptions::stop_deadline) has passed. Then it tells the remaining handlers to stop,
    /// and releases their work without counting an attempt (WK-4).
    ///
    /// # Errors
    /// The error that had already ended the loop: an error of the store that waiting does not resolve, such as
    /// `Closed`.
    pub async fn stop(self) -> Result<T> {
        self.ask_to_stop();
        self.join().await
    }

    /// Asks the loop to stop, and does not wait. From then on it claims nothing more.
    pub fn ask_to_stop(&self) {
        self.stopping.cancel();
    }

    /// Asks the loop to stop as if `stop_deadline` had passed, and does not wait. Running handlers are told to stop,
    /// and are aborted after the [`grace`](super::WorkerOptions::grace).
    pub fn ask_to_abort_attempts(&self) {
        self.stopping.cancel();
        self.aborting_attempts.cancel();
    }

    /// Returns a token that can be kept without this handle. Cancelling it does the same as
    /// [`ask_to_stop`](Self::ask_to_stop).
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Waits until the loop has ended: because it was asked to stop, has nothing to do, or failed.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn join(mut self) -> Result<T> {
        self.wait().await
    }

    /// Waits like [`join`](Self::join), but keeps the handle, so that the loop can still be asked to stop. Once it
    /// has returned the result, later calls return `Closed`.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn wait(&mut self) -> Result<T> {
        let Some(task) = &mut self.task else { return Err(Error::closed()) };
        let result = task.await;
        self.task = None;
        result.map_err(|source| Error::unavailable("the worker's loop panicked or was aborted").with_source(source))?
    }
}

impl<T> Drop for LoopHandle<T> {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.stopping.cancel();
        }
    }
}

impl<T> fmt::Debug for LoopHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopHandle").field("stopping", &self.stopping.is_cancelled()).finish_non_exhaustive()
    }
}

/// What a worker or relay did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct WorkSummary {
    /// The number of claims.
    pub claimed: u64,
    /// Attempts after which the work had finished: it was acknowledged, or delivered.
    pub acked: u64,
    /// Failed attempts after which the work is tried again.
    pub retried: u64,
    /// Attempts that were snoozed.
    pub snoozed: u64,
    /// Attempts that were released.
    pub released: u64,
    /// Attempts that ended with a dead letter.
    pub dead_lettered: u64,
    /// Attempts after which the work was cancelled.
    pub cancelled: u64,
    /// Claims that were ended after their lease had expired, that an interrupt ended, or that could not be settled.
    pub lost: u64,
    /// Attempts whose end could not be determined.
    pub unknown: u64,
}

impl WorkSummary {
    /// Counts a settled attempt under its outcome.
    pub(super) fn count_outcome(&mut self, outcome: &str) {
        let count = match outcome {
            "acked" | "delivered" => &mut self.acked,
            "retried" => &mut self.retried,
            "snoozed" => &mut self.snoozed,
            "released" => &mut self.released,
            "dead_letter" => &mut self.dead_lettered,
            "cancelled" => &mut self.cancelled,
            _ => &mut self.lost,
        };
        *count += 1;
    }
}
