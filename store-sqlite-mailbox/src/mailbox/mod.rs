//! The mailbox: enqueueing, claiming and settling dispatches, and waiting for them.

mod claim;
mod read;
mod wake;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, DispatchOrder, DispatchStatus, Enqueued,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, NewDispatch, Purge,
    Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement,
    commit::DecisionContext,
    in_flight::CallScope,
    mailbox::{self, MailboxDecision, PreparedEnqueue, PreparedSettlement, SingleClaim},
};

use self::read::Selection;
use crate::{rows::Rows, store::TenantHandle, tenant::Tenant, writer::NestedResult};

/// The mailbox of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct TenantMailbox {
    tenant: TenantHandle,
}

impl TenantMailbox {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    /// Makes one decision.
    async fn decide<T: Send + 'static>(
        &self,
        thread_of_call: CallScope,
        mut decide: impl FnMut(&Rows<'_>, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + 'static,
    ) -> Result<T> {
        self.tenant
            .write(thread_of_call, move |rows, decision_context| rows.decide(|view| decide(view, decision_context)))
            .await
    }
}

/// Makes a decision about each item. The result contains an answer for each item. An error while reading or writing
/// rows ends the whole call.
fn decide_each<I, T>(items: &[I], mut decide: impl FnMut(&I) -> NestedResult<T>) -> NestedResult<Vec<Result<T>>> {
    let answers: Result<Vec<_>> = items.iter().map(&mut decide).collect();
    answers.map(Ok)
}

fn settle(
    rows: &Rows<'_>,
    settlements: &[PreparedSettlement],
    decision_context: DecisionContext<'_>,
) -> NestedResult<Vec<Result<Settled>>> {
    decide_each(settlements, |settlement| {
        rows.decide(|view| mailbox::settle_prepared(view, settlement, decision_context))
    })
}

#[async_trait]
impl MailboxProducer for TenantMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        mailbox::check_item_count(dispatches.len(), &self.tenant.store_context().limits)?;
        let thread_of_call = match &*dispatches {
            [dispatch] => Some(dispatch.thread.clone()),
            _ => None,
        };
        let dispatches: Vec<_> = dispatches.into_iter().map(PreparedEnqueue::of).collect();
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            decide_each(&dispatches, |dispatch| {
                rows.decide(|view| mailbox::enqueue_prepared(view, dispatch, decision_context))
            })
        };
        self.tenant.write(thread_of_call, call).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        let id = id.clone();
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            let answer = rows.decide(|view| mailbox::cancel(view, &id, decision_context))?;
            // A dispatch that is no longer readable can still be cancelled (MB-55).
            Ok(answer.map(|mut cancelled| {
                let _damaged = rows.load_payload(&mut cancelled);
                cancelled
            }))
        };
        self.tenant.write(None, call).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        let thread_of_call = Some(request.thread.clone());
        self.decide(thread_of_call, move |view, decision_context| mailbox::interrupt(view, &request, decision_context))
            .await
    }
}

#[async_trait]
impl MailboxConsumer for TenantMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        // This only checks the request. The call below makes the claims.
        SingleClaim::of(&request)?;
        let tenant = Arc::clone(&self.tenant);
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            let claims = claim::claim(rows, &request, decision_context)?;
            Ok(claims.map(|claims| UndeliveredClaims { claims: Some(claims), tenant: Arc::clone(&tenant) }))
        };
        let mut undelivered = self.tenant.write(None, call).await?;
        Ok(undelivered.claims.take().unwrap_or_default())
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide(None, move |view, decision_context| mailbox::extend(view, &claim, by, decision_context)).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide(None, move |view, decision_context| mailbox::start(view, &claim, &instance, decision_context)).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        mailbox::check_item_count(settlements.len(), &self.tenant.store_context().limits)?;
        let settlements: Vec<_> =
            settlements.into_iter().map(|(claim, settlement)| PreparedSettlement::of(claim, settlement)).collect();
        self.tenant.write(None, move |rows, decision_context| settle(rows, &settlements, decision_context)).await
    }
}

/// Claims that are not yet returned to the caller. If this value is dropped before that, they are released (PR-11).
struct UndeliveredClaims {
    claims: Option<Claims>,
    tenant: Arc<Tenant>,
}

impl Drop for UndeliveredClaims {
    fn drop(&mut self) {
        let claims = self.claims.take().map(|claims| claims.claimed).unwrap_or_default();
        let releases: Vec<_> =
            claims.iter().map(|claimed| PreparedSettlement::of(claimed.claim(), Settlement::Release)).collect();
        if !releases.is_empty() {
            self.tenant
                .write_first(move |rows, decision_context| Ok(settle(rows, &releases, decision_context)?.map(drop)));
        }
    }
}

#[async_trait]
impl MailboxMaintenance for TenantMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            let mut reclaimed = Reclaimed::default();
            for (_, thread) in rows.expired_leases(decision_context.now, None, limit)? {
                // An unreadable thread does not prevent the others from being reclaimed.
                if let Ok(ended) = rows.decide(|view| mailbox::end_expired_claim(view, &thread, decision_context))? {
                    reclaimed.extend(ended);
                }
            }
            Ok(Ok(reclaimed))
        };
        self.tenant.write(None, call).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            let mut removed = 0;
            for id in read::dispatches_to_purge(rows, &request)? {
                let is_removed = match request.dry_run {
                    true => Ok(true),
                    false => rows.decide(|view| mailbox::purge(view, &id, request.before, decision_context))?,
                };
                match is_removed {
                    Ok(is_removed) => removed += u64::from(is_removed),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(Purged::new(removed)))
        };
        self.tenant.write(None, call).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        let call = move |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
            if let Err(refusal) = request.check(decision_context.limits) {
                return Ok(Err(refusal));
            }
            let ids = match &request.choice {
                RequeueChoice::Ids(ids) => ids.clone(),
                RequeueChoice::Filter { filter, limit } => {
                    let filter = (**filter).clone().in_status([DispatchStatus::DeadLetter]);
                    let selection = Selection { filter: &filter, order: DispatchOrder::Creation };
                    selection.first_ids(rows, *limit as usize, |dispatch| filter.admits(dispatch))?
                }
            };
            rows.set_payloads_included();
            let answers = decide_each(&ids, |id| rows.decide(|view| mailbox::requeue(view, id, decision_context)))?;
            Ok(answers.map(|answers| ids.into_iter().zip(answers).collect()))
        };
        self.tenant.write(None, call).await
    }
}
