//! Enqueues, claims and settles dispatches.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchFilter, DispatchId, DispatchOrder, DispatchStatus,
    Enqueued, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, Missed,
    NewDispatch, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement, TenantId,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxChange, MailboxView, SingleClaim},
};

use crate::{data::TenantData, store::Shared};

/// The greatest number of expired leases that one claim ends. The rest is left to later claims.
const MAX_EXPIRED: usize = 1_000;

/// The mailbox of a tenant.
pub(crate) struct MapMailbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tenant: TenantId,
    incarnation: u64,
}

impl MapMailbox {
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
        decide: impl FnOnce(&TenantData, DecisionContext<'_>) -> Result<MailboxChange<T>>,
    ) -> Result<T> {
        self.with_data(|data, setting| data.apply_decision(|view| decide(view, setting)))
    }
}

#[async_trait]
impl MailboxProducer for MapMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.with_data(|data, setting| {
            mailbox::check_requests(dispatches.len(), setting.limits)?;
            let one = |new| data.apply_decision(|view| mailbox::enqueue(view, new, setting));
            Ok(dispatches.iter().map(one).collect())
        })
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.decide(|view, setting| mailbox::cancel(view, id, setting))
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.decide(|view, setting| mailbox::interrupt(view, &request, setting))
    }
}

#[async_trait]
impl MailboxConsumer for MapMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        let one = SingleClaim::of(&request)?;
        self.with_data(|data, setting| {
            let named = match (&request.thread, &request.dispatch) {
                (None, None) => return claim_any(data, &request, one, setting),
                (Some(thread), _) => Some(thread.clone()),
                (None, Some(id)) => data.dispatch(id)?.map(|stored| stored.body.thread.clone()),
            };
            match named {
                Some(thread) => data.apply_decision(|view| mailbox::claim(view, &thread, one, setting)),
                None => Ok(Claims::none(Some(Missed::Unknown))),
            }
        })
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.decide(|view, setting| mailbox::extend(view, claim, by, setting))
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.decide(|view, setting| mailbox::start(view, claim, &instance, setting))
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.with_data(|data, setting| {
            mailbox::check_requests(settlements.len(), setting.limits)?;
            let one = |(claim, settlement): &(ClaimRef, Settlement)| {
                data.apply_decision(|view| mailbox::settle(view, claim, settlement, setting))
            };
            Ok(settlements.iter().map(one).collect())
        })
    }
}

/// Claims from the threads that are ready, in their order. Expired leases are ended first, because that can make their
/// threads ready.
fn claim_any(
    data: &mut TenantData,
    request: &ClaimRequest,
    one: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Result<Claims> {
    for (_, thread) in data.expired_leases(setting.now).into_iter().take(MAX_EXPIRED) {
        data.apply_decision(|view| mailbox::lapse(view, &thread, setting))?;
    }
    let mut claims = Claims::default();
    for (_, _, thread) in data.ready(setting.now) {
        if length(claims.claimed.len()) >= u64::from(request.limit) {
            break;
        }
        claims.claimed.extend(data.apply_decision(|view| mailbox::claim(view, &thread, one, setting))?.claimed);
    }
    Ok(claims)
}

#[async_trait]
impl MailboxMaintenance for MapMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        self.with_data(|data, setting| {
            let mut reclaimed = Reclaimed::default();
            for (_, thread) in data.expired_leases(setting.now).into_iter().take(limit as usize) {
                reclaimed.extend(data.apply_decision(|view| mailbox::lapse(view, &thread, setting))?);
            }
            Ok(reclaimed)
        })
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.with_data(|data, setting| {
            let ended = data.list(&DispatchFilter::default(), DispatchOrder::End)?.into_values();
            let before = ended.take_while(|ended| ended.finished_at.is_some_and(|end| end < request.before));
            let mut removed = 0;
            for ended in before.take(request.limit as usize) {
                let purge = |view: &TenantData| mailbox::purge(view, &ended.id, request.before, setting);
                removed += u64::from(request.dry_run || data.apply_decision(purge)?);
            }
            Ok(Purged::new(removed))
        })
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.with_data(|data, setting| {
            request.check(setting.limits)?;
            let ids = match request.choice {
                RequeueChoice::Ids(ids) => ids,
                RequeueChoice::Filter { filter, limit } => {
                    let dead = filter.in_status([DispatchStatus::DeadLetter]);
                    let dead = data.list(&dead, DispatchOrder::Creation)?.into_values();
                    dead.take(limit as usize).map(|dispatch| dispatch.id).collect()
                }
            };
            let one = |id: DispatchId| {
                let requeued = data.apply_decision(|view| mailbox::requeue(view, &id, setting));
                (id, requeued)
            };
            Ok(ids.into_iter().map(one).collect())
        })
    }
}
