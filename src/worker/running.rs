//! A loop that runs.

use std::fmt;

use serde::Serialize;
use store_core::{Error, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A worker, relay or maintenance that was started. Dropping it asks it to stop and does not wait.
#[must_use = "what is dropped stops"]
pub struct Running<T = Summary> {
    task: Option<JoinHandle<Result<T>>>,
    stopping: CancellationToken,
    giving_up: CancellationToken,
}

impl<T> Running<T> {
    pub(super) const fn new(
        task: JoinHandle<Result<T>>,
        stopping: CancellationToken,
        giving_up: CancellationToken,
    ) -> Self {
        Self { task: Some(task), stopping, giving_up }
    }

    /// Claims nothing more, lets handlers finish until the deadline of the options, then tells those that are left to
    /// stop, and gives their work back without counting an attempt (WK-4).
    ///
    /// # Errors
    /// What ended the loop before: an error of the store that does not pass, such as `Closed`.
    pub async fn stop(self) -> Result<T> {
        self.ask_to_stop();
        self.ended().await
    }

    /// Asks it to stop, and does not wait: claims nothing more from here on.
    pub fn ask_to_stop(&self) {
        self.stopping.cancel();
    }

    /// Asks it to stop as if the deadline of the options were over, and does not wait: handlers are told to stop.
    pub fn ask_to_give_up(&self) {
        self.stopping.cancel();
        self.giving_up.cancel();
    }

    /// What asks it to stop, to be kept apart: cancelling it is [`ask_to_stop`](Self::ask_to_stop).
    #[must_use]
    pub fn stop_token(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Waits until it has ended: because it was asked to, has nothing to do, or failed.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn ended(mut self) -> Result<T> {
        self.wait().await
    }

    /// The same without giving it away, so that it can still be asked to stop. After it has answered once it is
    /// `Closed`.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn wait(&mut self) -> Result<T> {
        let Some(task) = &mut self.task else { return Err(Error::closed()) };
        let ended = task.await;
        self.task = None;
        ended.map_err(|source| Error::unavailable("the loop of the worker was ended").with_source(source))?
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.stopping.cancel();
        }
    }
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("stopping", &self.stopping.is_cancelled()).finish_non_exhaustive()
    }
}

/// What a loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Claims.
    pub claimed: u64,
    /// Attempts after which the work was over: acked, or delivered.
    pub acked: u64,
    /// Failures that are tried again.
    pub retried: u64,
    /// Put off.
    pub snoozed: u64,
    /// Given back as they were.
    pub released: u64,
    /// Given up.
    pub dead_lettered: u64,
    /// Not to be done.
    pub cancelled: u64,
    /// Claims that somebody else took, that an interrupt ended, or that could not be settled.
    pub lost: u64,
    /// Attempts of which nobody could tell how they ended.
    pub unknown: u64,
}

impl Summary {
    /// Counts an attempt that was settled.
    pub(super) fn add(&mut self, outcome: &str) {
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
