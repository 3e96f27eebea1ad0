//! The source of jobs: a mailbox or an outbox, where jobs are claimed and settled.

use std::time::Duration;

use async_trait::async_trait;
use store_core::{Result, Settlement, WaitResult};

use crate::worker::{CancelReason, Cancellation, Done, Failure, telemetry::Telemetry};

/// What the store says about an attempt that this loop made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum AttemptState {
    /// The claim is held.
    Held,
    /// The attempt ended with this outcome.
    Ended(&'static str),
    /// The lease expired and the claim was ended, or the thread was interrupted.
    Lost(CancelReason),
    /// The store no longer knows the attempt.
    Forgotten,
}

/// A mailbox or an outbox, with the code that handles its jobs.
#[async_trait]
pub(in crate::worker) trait JobSource: Send + Sync + 'static {
    /// A claimed dispatch or row.
    type Job: Clone + Send + Sync + 'static;

    /// Claims up to `limit` jobs.
    async fn claim(&self, limit: u32) -> Result<Vec<Self::Job>>;

    /// Prepares an attempt before its handler is called. An error that names a part (`Error::part`) comes from taking
    /// over the thread. It does not mean that the claim of this attempt is lost.
    async fn prepare_attempt(&self, job: &Self::Job) -> Result<()>;

    /// Extends the claim.
    async fn extend(&self, job: &Self::Job) -> Result<()>;

    /// Runs the handler.
    async fn handle(&self, job: &Self::Job, cancellation: &Cancellation) -> Result<Done, Failure>;

    /// Settles the claim, and returns the name of the outcome.
    async fn settle(&self, job: &Self::Job, settlement: &Settlement) -> Result<&'static str>;

    /// Returns the state of the attempt. The loop calls this when the outcome of a settlement is unknown.
    async fn attempt_state(&self, job: &Self::Job) -> Result<AttemptState>;

    /// Returns whether a job that failed in this loop is still queued, unchanged since this attempt.
    async fn is_waiting_for_retry(&self, job: &Self::Job) -> Result<bool>;

    /// Returns the number of times that the job had failed before.
    fn failures(&self, job: &Self::Job) -> u32;

    /// Waits for a wake-up. Returns none if the source has no wake-ups.
    async fn wait(&self, timeout: Duration) -> Option<Result<WaitResult>>;

    /// Returns the recorder of metrics and spans.
    fn telemetry(&self) -> &Telemetry;
}
