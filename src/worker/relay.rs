//! Delivers outbox rows.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimedOutboxRow, Error, ExtendOutbox, LaneId, OutboxRow, OutboxSettlement, OutboxStatus, OutboxStore,
    OutboxTarget, Result, SettleOutbox, Settlement, TenantId, WaitResult, WorkerId,
};

use super::{
    Cancellation, Done, Failure, LoopHandle, WorkSummary, WorkerOptions,
    job_loop::{AttemptState, JobLoop, JobSource},
    telemetry::{self, Telemetry},
};
use crate::Stores;

/// Delivers the rows of one lane of a tenant's outbox, under the rules of a [`Worker`](super::Worker) (WK-10).
///
/// ```
/// use agentstore::{Commit, OutboxDelivery, Failure, Json, NewOutboxRow, Relay, TenantId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let (stores, tenant) = (agentstore::open("memory:").await?, TenantId::default_tenant());
/// let row = NewOutboxRow::new("webhook".parse()?, "https://example.org/hook".parse()?, Json::parse(r#"{"paid":1}"#)?);
/// stores.commits(&tenant)?.commit(Commit::new("t-1".parse()?).with_outbox([row])).await?;
///
/// let relay = Relay::new(&stores, &tenant, "webhook".parse()?, async |delivery: OutboxDelivery| {
///     let row = delivery.row();
///     println!("attempt {} to {}: {}", delivery.attempt(), row.target, row.payload.as_str());
///     Ok::<_, Failure>(())
/// })?;
/// assert_eq!(relay.run_until_idle().await?.acked, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
/// - Each row is claimed, delivered and settled. Its claim is extended after every third of the lease. Several
///   rows are delivered at once, but rows with the same order key are delivered one after another (OB-11).
/// - A row is delivered at least once. Its id is the same in every attempt, so that a receiver can recognise repeats
///   (OB-10).
/// - After a failure the row is tried again after a growing delay, in store time. If no attempts are left, it becomes a
///   dead letter, which `requeue_outbox` makes due again.
///
/// The outbox has no wake-ups: a new row is found within [`WorkerOptions::idle`]. Rows differ from dispatches in two
/// ways: [`Verdict::Snooze`](super::Verdict::Snooze) uses up an attempt, like a retry, and
/// [`Verdict::Cancel`](super::Verdict::Cancel) makes the row a dead letter.
pub struct Relay {
    source: OutboxSource,
    options: WorkerOptions,
}

impl Relay {
    /// Makes a relay for a lane, with the defaults of [`WorkerOptions`].
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads; `Closed` if the store was closed.
    pub fn new(stores: &Stores, tenant: &TenantId, lane: LaneId, deliver: impl Deliver) -> Result<Self> {
        let outbox = stores.commits(tenant)?.outbox();
        let options = WorkerOptions::default();
        let telemetry = Telemetry::new(&telemetry::OUTBOX_METRICS, stores.backend());
        let (worker, lease) = (options.name.clone(), options.lease);
        let source = OutboxSource { outbox, deliver: Arc::new(deliver), lane, target: None, worker, lease, telemetry };
        Ok(Self { source, options })
    }

    /// Sets the options.
    ///
    /// # Errors
    /// `Invalid` for a lease of zero or above 24 hours, and for a concurrency of 0 or above 1,000.
    pub fn with_options(mut self, options: WorkerOptions) -> Result<Self> {
        options.check()?;
        (self.source.worker, self.source.lease) = (options.name.clone(), options.lease);
        self.options = options;
        Ok(self)
    }

    /// Restricts the relay to rows for this target.
    #[must_use]
    pub fn for_target(mut self, target: OutboxTarget) -> Self {
        self.source.target = Some(target);
        self
    }

    /// Starts the relay on the current tokio runtime.
    ///
    /// # Errors
    /// `Unavailable` outside of a tokio runtime.
    pub fn start(self) -> Result<LoopHandle> {
        JobLoop::new(self.source, self.options).start()
    }

    /// Delivers until no row can be claimed, no delivery runs, and every row that failed in this relay has been tried
    /// again.
    ///
    /// # Errors
    /// The error that ended the relay before it was idle, as for [`LoopHandle::stop`].
    pub async fn run_until_idle(self) -> Result<WorkSummary> {
        JobLoop::new(self.source, self.options).until_idle().start()?.join().await
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("lane", &self.source.lane).field("options", &self.options).finish_non_exhaustive()
    }
}

/// The code that a relay calls for each row. Any `Fn(OutboxDelivery) -> impl Future<Output = Result<(), Failure>>` is
/// accepted.
#[async_trait]
pub trait Deliver: Send + Sync + 'static {
    /// Delivers a row. `Ok` means that the row has been delivered.
    ///
    /// # Errors
    /// Any error of the delivery. If the failure does not say what becomes of the row, the policy decides.
    async fn deliver(&self, delivery: OutboxDelivery) -> Result<(), Failure>;
}

#[async_trait]
impl<F, R> Deliver for F
where
    F: Fn(OutboxDelivery) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Failure>> + Send,
{
    async fn deliver(&self, delivery: OutboxDelivery) -> Result<(), Failure> {
        self(delivery).await
    }
}

/// One attempt to deliver a row. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutboxDelivery {
    row: Arc<OutboxRow>,
    cancellation: Cancellation,
}

impl OutboxDelivery {
    /// Returns the row: lane, target, payload, and the id by which a receiver recognises repeats.
    #[must_use]
    pub fn row(&self) -> &OutboxRow {
        &self.row
    }

    /// Returns the number of this attempt: 1 for the first one. After a release the number stays the same.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.row.attempts.saturating_add(1)
    }

    /// Returns the signal that tells the delivery to stop.
    #[must_use]
    pub const fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}

/// A lane of an outbox, with the code that delivers its rows.
struct OutboxSource {
    outbox: Arc<dyn OutboxStore>,
    deliver: Arc<dyn Deliver>,
    lane: LaneId,
    target: Option<OutboxTarget>,
    worker: WorkerId,
    lease: Duration,
    telemetry: Telemetry,
}

/// A claimed row.
pub(super) struct ClaimedRow {
    row: Arc<OutboxRow>,
    token: store_core::ClaimToken,
}

/// Translates a settlement of a dispatch into one of an outbox row.
fn outbox_settlement(settlement: &Settlement) -> OutboxSettlement {
    match settlement.clone() {
        Settlement::Ack { .. } => OutboxSettlement::Delivered,
        Settlement::Retry { after, error } => OutboxSettlement::Retry { after, error },
        Settlement::Snooze { after } => OutboxSettlement::Retry { after, error: "the delivery was snoozed".to_owned() },
        Settlement::DeadLetter { error } | Settlement::Cancel { reason: error } => {
            OutboxSettlement::DeadLetter { error }
        }
        _ => OutboxSettlement::Release,
    }
}

#[async_trait]
impl JobSource for OutboxSource {
    type Job = Arc<ClaimedRow>;

    async fn claim(&self, limit: u32) -> Result<Vec<Self::Job>> {
        let mut request = ClaimOutbox::new(self.lane.clone(), self.worker.clone(), limit).with_lease(self.lease);
        request.target.clone_from(&self.target);
        let answer = self.outbox.claim_outbox(request).await?;
        if !answer.unreadable.is_empty() {
            tracing::error!(rows = answer.unreadable.len(), "outbox rows were skipped: they cannot be read");
        }
        let to_job = |ClaimedOutboxRow { row, token, .. }| {
            // A row does not contain the time of its claim, only the end of the lease.
            let lease_until = row.claim.as_ref().map_or(row.available_at, |claim| claim.lease_until);
            let claimed_at = lease_until.saturating_sub(self.lease).as_millis();
            self.telemetry.record_claim(Duration::from_millis(claimed_at.saturating_sub(row.available_at.as_millis())));
            Arc::new(ClaimedRow { row: Arc::new(row), token })
        };
        Ok(answer.rows.into_iter().map(to_job).collect())
    }

    async fn prepare_attempt(&self, _job: &Self::Job) -> Result<()> {
        Ok(())
    }

    async fn extend(&self, job: &Self::Job) -> Result<()> {
        let request = ExtendOutbox::new(job.row.id.clone(), job.token.clone(), self.lease);
        self.outbox.extend_outbox(request).await.map(drop)
    }

    async fn handle(&self, job: &Self::Job, cancellation: &Cancellation) -> Result<Done, Failure> {
        let delivery = OutboxDelivery { row: Arc::clone(&job.row), cancellation: cancellation.clone() };
        self.deliver.deliver(delivery).await.map(|()| Done::ack())
    }

    async fn settle(&self, job: &Self::Job, settlement: &Settlement) -> Result<&'static str> {
        let request = SettleOutbox::new(job.row.id.clone(), job.token.clone(), outbox_settlement(settlement));
        let answer = self.outbox.settle_outbox(vec![request]).await?.into_iter().next();
        // A store answers each settlement. If an answer is missing, the outcome is unknown.
        let status = answer.unwrap_or_else(|| Err(Error::commit_unknown(None)))?;
        Ok(match (status, settlement) {
            (OutboxStatus::Pending, Settlement::Release) => "released",
            (OutboxStatus::Pending, _) => "retried",
            (status, _) => status.name(),
        })
    }

    /// Derives the state from the row, which keeps no history of its attempts. If the row has ended, or has one more
    /// failure than when it was claimed, this counts as the result of this attempt.
    async fn attempt_state(&self, job: &Self::Job) -> Result<AttemptState> {
        let Some(row) = self.outbox.load_outbox(&job.row.id).await? else { return Ok(AttemptState::Forgotten) };
        Ok(match row.status {
            OutboxStatus::Delivered => AttemptState::Ended("delivered"),
            OutboxStatus::DeadLetter => AttemptState::Ended("dead_letter"),
            OutboxStatus::Pending if row.attempts == job.row.attempts.saturating_add(1) => {
                AttemptState::Ended("retried")
            }
            _ => AttemptState::Forgotten,
        })
    }

    async fn is_waiting_for_retry(&self, job: &Self::Job) -> Result<bool> {
        let row = self.outbox.load_outbox(&job.row.id).await?;
        let failures_after_attempt = job.row.attempts.saturating_add(1);
        Ok(row.is_some_and(|row| row.status == OutboxStatus::Pending && row.attempts == failures_after_attempt))
    }

    fn failures(&self, job: &Self::Job) -> u32 {
        job.row.attempts
    }

    async fn wait(&self, _timeout: Duration) -> Option<Result<WaitResult>> {
        None
    }

    fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }
}
