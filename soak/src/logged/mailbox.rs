//! A mailbox that records claims, and the writes under them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentstore::{
    ClaimRef, ClaimRequest, ClaimedDispatch, Claims, Dispatch, DispatchClaim, DispatchCounts, DispatchId,
    DispatchQuery, Enqueued, Error, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance,
    MailboxProducer, MailboxReader, MailboxStore, NewDispatch, Page, PageRequest, Purge, Purged, ReadyThread,
    Reclaimed, Requeue, Result, Settled, Settlement, ThreadId,
};
use async_trait::async_trait;

use super::{AcceptedAnswer, CallLog};
use crate::record::{Claim, ClaimCall, LogLine, LoggedAction, host_nanos, thread_number};

pub(super) struct LoggedMailbox {
    inner: Arc<dyn MailboxStore>,
    call_log: CallLog,
    /// The claims of this process, by token.
    claims_by_token: Mutex<HashMap<String, Claim>>,
}

impl LoggedMailbox {
    pub(super) fn new(inner: Arc<dyn MailboxStore>, call_log: CallLog) -> Self {
        Self { inner, call_log, claims_by_token: Mutex::default() }
    }

    fn claims_by_token(&self) -> MutexGuard<'_, HashMap<String, Claim>> {
        self.claims_by_token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the claim that a token proves, if this process made it.
    fn claim_of(&self, claim: &ClaimRef) -> Result<Claim> {
        let known_claim = self.claims_by_token().get(claim.token.as_str()).copied();
        known_claim.ok_or_else(|| Error::invalid("token", "it is not a token of this process"))
    }

    /// Makes a call that returns the lease of a claim, and records it.
    async fn record_lease_call(
        &self,
        claim: Claim,
        act: ClaimCall,
        call: impl Future<Output = Result<DispatchClaim>>,
    ) -> Result<DispatchClaim> {
        let called = self.call_log.record_call(claim, act);
        let answer = call.await;
        let accepted_answer = |lease: &DispatchClaim| AcceptedAnswer {
            lease_end: Some(lease.lease_until.as_millis()),
            deduplicated: false,
        };
        self.call_log.record_answer((claim, act), called, answer.as_ref().map(accepted_answer));
        answer
    }
}

fn claim_and_action(claimed_dispatch: &ClaimedDispatch) -> Option<(Claim, LoggedAction)> {
    let ClaimedDispatch { dispatch, number, .. } = claimed_dispatch;
    let claim = Claim {
        thread: thread_number(&dispatch.thread).ok()?,
        number: *number,
        dispatch: dispatch.id.as_str().parse().ok()?,
        epoch: dispatch.epoch,
    };
    let lease = dispatch.claim.as_ref()?;
    let (since, until) = (lease.claimed_at.as_millis(), lease.lease_until.as_millis());
    Some((claim, LoggedAction::Claimed { claim, since, until }))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxConsumer for LoggedMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        let called = host_nanos();
        let claims = self.inner.claim(request).await?;
        let answered = host_nanos();
        let mut lines = Vec::new();
        for claimed_dispatch in &claims.claimed {
            let (claim, did) = claim_and_action(claimed_dispatch)
                .ok_or_else(|| Error::invalid("dispatch", "it is not from the soak"))?;
            self.claims_by_token().insert(claimed_dispatch.token.as_str().to_owned(), claim);
            lines.push(LogLine { called, answered, did });
        }
        self.call_log.append(&lines);
        Ok(claims)
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.record_lease_call(self.claim_of(claim)?, ClaimCall::Extend, self.inner.extend(claim, by)).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.record_lease_call(self.claim_of(claim)?, ClaimCall::Start, self.inner.start(claim, instance)).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        let mut recorded_calls = Vec::new();
        for (claim, settlement) in &settlements {
            let act = if matches!(settlement, Settlement::Ack { .. }) { ClaimCall::Ack } else { ClaimCall::Release };
            let claim = self.claim_of(claim)?;
            recorded_calls.push((claim, act, self.call_log.record_call(claim, act)));
        }
        let answers = self.inner.settle(settlements).await?;
        for ((claim, act, called), answer) in recorded_calls.into_iter().zip(&answers) {
            let accepted_answer =
                |settled: &Settled| AcceptedAnswer { lease_end: None, deduplicated: settled.deduplicated };
            self.call_log.record_answer((claim, act), called, answer.as_ref().map(accepted_answer));
        }
        Ok(answers)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxProducer for LoggedMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.inner.enqueue(dispatches).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.inner.cancel(id).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.inner.interrupt(request).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxReader for LoggedMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.inner.load_dispatch(id).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.inner.list_dispatches(query).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.inner.count_dispatches(thread).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.inner.list_ready_threads(page).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.inner.load_epoch(thread).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxMaintenance for LoggedMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        self.inner.reclaim(limit).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        self.inner.purge(request).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.inner.requeue(request).await
    }
}
