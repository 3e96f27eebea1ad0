//! The mailbox as a source of work for the loop.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    AttemptEnd, ClaimRequest, ClaimedDispatch, Clock, Commit, DispatchStatus, EffectKind, Error, ErrorKind, InstanceId,
    MailboxStore, Result, Settlement, TenantId, TenantStores, WaitResult, WorkerId,
};

use super::{
    CancelReason, Cancellation, Done, Failure, Handler, Reconciler, Work, WorkerOptions,
    effects::Reconcilers,
    job_loop::{AttemptState, JobSource},
    telemetry::{self, Telemetry},
};
use crate::{Stores, options::unsupported};

/// The part (`Error::part`) that an error of the takeover names. It distinguishes errors about the thread from errors
/// about the claim.
const TAKE_OVER_PART: &str = "take-over";

/// The mailbox of a tenant, with the handler for its dispatches.
pub(super) struct MailboxSource {
    stores: TenantStores,
    mailbox: Arc<dyn MailboxStore>,
    handler: Arc<dyn Handler>,
    reconcilers: Reconcilers,
    worker: WorkerId,
    instance: InstanceId,
    lease: Duration,
    /// Whether threads and mailbox are in one store, so that each commit checks the claim in the mailbox.
    is_one_store: bool,
    clock: Arc<dyn Clock>,
    telemetry: Telemetry,
}

impl MailboxSource {
    pub(super) fn new(
        stores: &Stores,
        tenant: &TenantId,
        handler: Arc<dyn Handler>,
        options: &WorkerOptions,
    ) -> Result<Self> {
        let WorkerOptions { name: worker, instance, lease, .. } = options.clone();
        let tenant_stores = stores.tenant(tenant)?;
        let mailbox = tenant_stores.mailbox.clone().ok_or_else(|| unsupported("working without a mailbox"))?;
        let telemetry = Telemetry::new(&telemetry::MAILBOX_METRICS, stores.mailbox_backend());
        let (is_one_store, clock) = (stores.capabilities().fenced, Arc::clone(stores.clock()));
        let (stores, reconcilers) = (tenant_stores, Reconcilers::default());
        Ok(Self { stores, mailbox, handler, reconcilers, worker, instance, lease, is_one_store, clock, telemetry })
    }

    /// Sets the reconciler of the effects of a kind.
    pub(super) fn set_reconciler(&mut self, kind: EffectKind, reconciler: Arc<dyn Reconciler>) {
        self.reconcilers.set(kind, reconciler);
    }

    /// Takes the thread over. From then on the thread refuses every earlier claim (CM-32, WK-6). If the threads and the
    /// mailbox are in one store, the thread has refused them since this claim was made, and there is nothing to do.
    async fn take_over(&self, claimed_dispatch: &ClaimedDispatch) -> Result<()> {
        let Some(commits) = self.stores.commits.as_ref().filter(|_| !self.is_one_store) else { return Ok(()) };
        let answer = commits
            .commit(Commit::new(claimed_dispatch.dispatch.thread.clone()).fenced(claimed_dispatch.fence()))
            .await;
        match answer {
            // A deleted thread accepts no writes, so no earlier claim can write to it.
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.in_part(TAKE_OVER_PART)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl JobSource for MailboxSource {
    type Job = Arc<ClaimedDispatch>;

    async fn claim(&self, limit: u32) -> Result<Vec<Self::Job>> {
        let request = ClaimRequest::new(self.worker.clone(), self.lease).up_to(limit);
        let claims = self.mailbox.claim(request).await?;
        for unreadable in &claims.unreadable {
            tracing::error!(error = %unreadable.error, "a thread was skipped: its dispatches cannot be read");
        }
        for claimed_dispatch in &claims.claimed {
            let available_since =
                claimed_dispatch.dispatch.available_at.max(claimed_dispatch.dispatch.created_at).as_millis();
            let claimed_at =
                claimed_dispatch.dispatch.claim.as_ref().map_or(available_since, |claim| claim.claimed_at.as_millis());
            self.telemetry.record_claim(Duration::from_millis(claimed_at.saturating_sub(available_since)));
        }
        Ok(claims.claimed.into_iter().map(Arc::new).collect())
    }

    async fn prepare_attempt(&self, job: &Self::Job) -> Result<()> {
        self.mailbox.start(&job.claim(), self.instance.clone()).await?;
        self.take_over(job).await
    }

    async fn extend(&self, job: &Self::Job) -> Result<()> {
        self.mailbox.extend(&job.claim(), self.lease).await.map(drop)
    }

    async fn handle(&self, job: &Self::Job, cancellation: &Cancellation) -> Result<Done, Failure> {
        let can_settle_and_clock = (self.is_one_store, Arc::clone(&self.clock));
        let work = Work::new(ClaimedDispatch::clone(job), &self.stores, cancellation.clone(), can_settle_and_clock);
        work.meet_effects_in_doubt(&self.reconcilers).await?;
        self.handler.handle(work).await
    }

    async fn settle(&self, job: &Self::Job, settlement: &Settlement) -> Result<&'static str> {
        let answers = self.mailbox.settle(vec![(job.claim(), settlement.clone())]).await?;
        let answer = answers.into_iter().next();
        // A store answers each settlement. If an answer is missing, the outcome is unknown.
        let settled = answer.unwrap_or_else(|| Err(Error::commit_unknown(None)))?;
        Ok(match (settled.status, settlement) {
            (DispatchStatus::Queued, Settlement::Snooze { .. }) => "snoozed",
            (DispatchStatus::Queued, Settlement::Release) => "released",
            (DispatchStatus::Queued, _) => "retried",
            (status, _) => status.name(),
        })
    }

    async fn attempt_state(&self, job: &Self::Job) -> Result<AttemptState> {
        let Some(dispatch) = self.mailbox.load_dispatch(&job.dispatch.id).await? else {
            return Ok(AttemptState::Forgotten);
        };
        if dispatch.claim.is_some_and(|claim| claim.number == job.number) {
            return Ok(AttemptState::Held);
        }
        let attempt = dispatch.history.iter().find(|attempt| attempt.claim == job.number);
        Ok(match attempt.map(|attempt| attempt.end) {
            None => AttemptState::Forgotten,
            Some(AttemptEnd::DeadLettered) => AttemptState::Ended("dead_letter"),
            Some(AttemptEnd::LeaseExpired) => AttemptState::Lost(CancelReason::Lost),
            Some(AttemptEnd::Superseded) => AttemptState::Lost(CancelReason::Superseded),
            Some(end) => AttemptState::Ended(end.name()),
        })
    }

    async fn is_waiting_for_retry(&self, job: &Self::Job) -> Result<bool> {
        let found = self.mailbox.load_dispatch(&job.dispatch.id).await?;
        Ok(found.is_some_and(|dispatch| {
            let last_claim = dispatch.history.last().map(|attempt| attempt.claim);
            dispatch.status == DispatchStatus::Queued && last_claim == Some(job.number)
        }))
    }

    fn failures(&self, job: &Self::Job) -> u32 {
        job.dispatch.attempts
    }

    async fn wait(&self, timeout: Duration) -> Option<Result<WaitResult>> {
        let wake_ups = self.stores.wake_ups()?;
        Some(wake_ups.wait(timeout).await)
    }

    fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }
}
