//! The handle of a tenant: enqueues, claims and settles dispatches.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchFilter, DispatchId, DispatchOrder, DispatchStatus,
    Enqueued, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, NewDispatch,
    NotClaimedReason, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement, TenantId,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxDecision, MailboxView, SingleClaim},
};

use crate::{data::TenantData, store::Shared};

/// The maximum number of expired claims that one call of `claim` ends. Later calls end the others.
const MAX_EXPIRED: usize = 1_000;

/// The handle of a tenant. It implements every contract that the store has.
#[derive(Clone)]
pub(crate) struct MapTenant {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tenant: TenantId,
    incarnation: u64,
}

impl MapTenant {
    pub(crate) const fn new(shared: Arc<Shared>, tenant: TenantId, incarnation: u64) -> Self {
        Self { shared, tenant, incarnation }
    }

    /// Calls a function with the data of the tenant, unless the tenant is closed.
    pub(crate) fn with_data<T>(
        &self,
        call: impl FnOnce(&mut TenantData, DecisionContext<'_>) -> Result<T>,
    ) -> Result<T> {
        self.shared.with_data(&self.tenant, self.incarnation, call)
    }

    /// Makes one decision, and writes its plan.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&TenantData, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    ) -> Result<T> {
        self.with_data(|data, decision_context| data.apply_decision(|view| decide(view, decision_context)))
    }
}

#[async_trait]
impl MailboxProducer for MapTenant {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.with_data(|data, decision_context| {
            mailbox::check_item_count(dispatches.len(), decision_context.limits)?;
            let enqueue_one = |new| data.apply_decision(|view| mailbox::enqueue(view, new, decision_context));
            Ok(dispatches.iter().map(enqueue_one).collect())
        })
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.decide(|view, decision_context| mailbox::cancel(view, id, decision_context))
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.decide(|view, decision_context| mailbox::interrupt(view, &request, decision_context))
    }
}

#[async_trait]
impl MailboxConsumer for MapTenant {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        let single_claim = SingleClaim::of(&request)?;
        self.with_data(|data, decision_context| {
            let named_thread = match (&request.thread, &request.dispatch) {
                (None, None) => return claim_any(data, &request, single_claim, decision_context),
                (Some(thread), _) => Some(thread.clone()),
                (None, Some(id)) => data.dispatch(id)?.map(|stored| stored.body.thread.clone()),
            };
            match named_thread {
                Some(thread) => {
                    data.apply_decision(|view| mailbox::claim(view, &thread, single_claim, decision_context))
                }
                None => Ok(Claims::none(Some(NotClaimedReason::Unknown))),
            }
        })
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.decide(|view, decision_context| mailbox::extend(view, claim, by, decision_context))
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.decide(|view, decision_context| mailbox::start(view, claim, &instance, decision_context))
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.with_data(|data, decision_context| {
            mailbox::check_item_count(settlements.len(), decision_context.limits)?;
            let settle_one = |(claim, settlement): &(ClaimRef, Settlement)| {
                data.apply_decision(|view| mailbox::settle(view, claim, settlement, decision_context))
            };
            Ok(settlements.iter().map(settle_one).collect())
        })
    }
}

/// Claims from the threads that are ready, in their order. Expired leases are ended first, because that can make their
/// threads ready.
fn claim_any(
    data: &mut TenantData,
    request: &ClaimRequest,
    single_claim: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> Result<Claims> {
    for (_, thread) in data.expired_leases(decision_context.now).into_iter().take(MAX_EXPIRED) {
        data.apply_decision(|view| mailbox::end_expired_claim(view, &thread, decision_context))?;
    }
    let mut claims = Claims::default();
    for (_, _, thread) in data.ready_threads(decision_context.now) {
        if length(claims.claimed.len()) >= u64::from(request.limit) {
            break;
        }
        claims
            .claimed
            .extend(data.apply_decision(|view| mailbox::claim(view, &thread, single_claim, decision_context))?.claimed);
    }
    Ok(claims)
}

#[async_trait]
impl MailboxMaintenance for MapTenant {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        self.with_data(|data, decision_context| {
            let mut reclaimed = Reclaimed::default();
            for (_, thread) in data.expired_leases(decision_context.now).into_iter().take(limit as usize) {
                reclaimed
                    .extend(data.apply_decision(|view| mailbox::end_expired_claim(view, &thread, decision_context))?);
            }
            Ok(reclaimed)
        })
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.with_data(|data, decision_context| {
            let mut removed_count = 0;
            for id in &request.ids {
                let purge = |view: &TenantData| mailbox::purge(view, id, request.before, decision_context);
                removed_count += u64::from(data.apply_decision(purge)?);
            }
            if !request.ids.is_empty() {
                return Ok(Purged::new(removed_count));
            }
            let finished = data.list_dispatches(&DispatchFilter::default(), DispatchOrder::End)?.into_values();
            let old_dispatches =
                finished.take_while(|dispatch| dispatch.finished_at.is_some_and(|end| end < request.before));
            for dispatch in old_dispatches.take(request.limit as usize) {
                let purge = |view: &TenantData| mailbox::purge(view, &dispatch.id, request.before, decision_context);
                removed_count += u64::from(request.dry_run || data.apply_decision(purge)?);
            }
            Ok(Purged::new(removed_count))
        })
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.with_data(|data, decision_context| {
            request.check(decision_context.limits)?;
            let ids = match request.choice {
                RequeueChoice::Ids(ids) => ids,
                RequeueChoice::Filter { filter, limit } => {
                    let filter = filter.in_status([DispatchStatus::DeadLetter]);
                    let dead_letters = data.list_dispatches(&filter, DispatchOrder::Creation)?.into_values();
                    dead_letters.take(limit as usize).map(|dispatch| dispatch.id).collect()
                }
            };
            let requeue_one = |id: DispatchId| {
                let requeued = data.apply_decision(|view| mailbox::requeue(view, &id, decision_context));
                (id, requeued)
            };
            Ok(ids.into_iter().map(requeue_one).collect())
        })
    }
}
