//! Where work comes from, and where it is settled.

use std::time::Duration;

use async_trait::async_trait;
use store_core::{Result, Settlement, Waited};

use crate::worker::{Cancellation, Cancelled, Done, Failure, telemetry::Telemetry};

/// How an own attempt stands in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Standing {
    /// Its claim is held.
    Held,
    /// It ended like this.
    Ended(&'static str),
    /// Its lease was over and somebody took it, or its thread was interrupted.
    Lost(Cancelled),
    /// The store does not know it any more.
    Forgotten,
}

/// A mailbox or an outbox, with what is done for its jobs.
#[async_trait]
pub(in crate::worker) trait Source: Send + Sync + 'static {
    /// A claim.
    type Job: Clone + Send + Sync + 'static;

    /// Claims up to `limit`.
    async fn claim(&self, limit: u32) -> Result<Vec<Self::Job>>;

    /// What has to be done before the handler sees the job. An error that says nothing about the claim names its part.
    async fn begin(&self, job: &Self::Job) -> Result<()>;

    /// Prolongs the claim.
    async fn extend(&self, job: &Self::Job) -> Result<()>;

    /// Does the work.
    async fn handle(&self, job: &Self::Job, cancellation: &Cancellation) -> Result<Done, Failure>;

    /// Ends the claim, and says how that is called.
    async fn settle(&self, job: &Self::Job, settlement: &Settlement) -> Result<&'static str>;

    /// How the attempt stands, for who does not know what became of a settlement.
    async fn standing(&self, job: &Self::Job) -> Result<Standing>;

    /// Whether a job that failed here is queued as this attempt left it.
    async fn waits(&self, job: &Self::Job) -> Result<bool>;

    /// How often the job failed before.
    fn failures(&self, job: &Self::Job) -> u32;

    /// Waits for something to claim; absent where nothing wakes.
    async fn wait(&self, timeout: Duration) -> Option<Result<Waited>>;

    /// What is counted where.
    fn telemetry(&self) -> &Telemetry;
}
