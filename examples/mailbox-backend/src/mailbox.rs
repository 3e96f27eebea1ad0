//! Enqueues, claims and settles dispatches.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchFilter, DispatchId, DispatchOrder, DispatchStatus,
    Enqueued, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, Missed,
    NewDispatch, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement, TenantId,
    commit::Setting,
    length,
    mailbox::{self, ClaimOne, MailboxChange, MailboxView},
};

use crate::{rows::Rows, store::Shared};

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
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut Rows, Setting<'_>) -> Result<T>) -> Result<T> {
        self.shared.with(&self.tenant, self.incarnation, call)
    }

    /// Makes one decision, and writes its plan.
    fn decide<T>(&self, decide: impl FnOnce(&Rows, Setting<'_>) -> Result<MailboxChange<T>>) -> Result<T> {
        self.with(|rows, setting| rows.change(|view| decide(view, setting)))
    }
}

#[async_trait]
impl MailboxProducer for MapMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.with(|rows, setting| {
            mailbox::check_requests(dispatches.len(), setting.limits)?;
            let one = |new| rows.change(|view| mailbox::enqueue(view, new, setting));
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
        let one = ClaimOne::of(&request)?;
        self.with(|rows, setting| {
            let named = match (&request.thread, &request.dispatch) {
                (None, None) => return claim_any(rows, &request, one, setting),
                (Some(thread), _) => Some(thread.clone()),
                (None, Some(id)) => rows.dispatch(id)?.map(|stored| stored.body.thread.clone()),
            };
            match named {
                Some(thread) => rows.change(|view| mailbox::claim(view, &thread, one, setting)),
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
        self.with(|rows, setting| {
            mailbox::check_requests(settlements.len(), setting.limits)?;
            let one = |(claim, settlement): &(ClaimRef, Settlement)| {
                rows.change(|view| mailbox::settle(view, claim, settlement, setting))
            };
            Ok(settlements.iter().map(one).collect())
        })
    }
}

/// Claims from the threads that are ready, in their order. Expired leases are ended first, because that can make their
/// threads ready.
fn claim_any(rows: &mut Rows, request: &ClaimRequest, one: ClaimOne<'_>, setting: Setting<'_>) -> Result<Claims> {
    for (_, thread) in rows.lapsed(setting.now).into_iter().take(MAX_EXPIRED) {
        rows.change(|view| mailbox::lapse(view, &thread, setting))?;
    }
    let mut claims = Claims::default();
    for (_, _, thread) in rows.ready(setting.now) {
        if length(claims.claimed.len()) >= u64::from(request.limit) {
            break;
        }
        claims.claimed.extend(rows.change(|view| mailbox::claim(view, &thread, one, setting))?.claimed);
    }
    Ok(claims)
}

#[async_trait]
impl MailboxMaintenance for MapMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        self.with(|rows, setting| {
            let mut reclaimed = Reclaimed::default();
            for (_, thread) in rows.lapsed(setting.now).into_iter().take(limit as usize) {
                reclaimed.extend(rows.change(|view| mailbox::lapse(view, &thread, setting))?);
            }
            Ok(reclaimed)
        })
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.with(|rows, setting| {
            let ended = rows.list(&DispatchFilter::default(), DispatchOrder::End)?.into_values();
            let before = ended.take_while(|ended| ended.finished_at.is_some_and(|end| end < request.before));
            let mut removed = 0;
            for ended in before.take(request.limit as usize) {
                let purge = |view: &Rows| mailbox::purge(view, &ended.id, request.before, setting);
                removed += u64::from(request.dry_run || rows.change(purge)?);
            }
            Ok(Purged::new(removed))
        })
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.with(|rows, setting| {
            request.check(setting.limits)?;
            let ids = match request.choice {
                RequeueChoice::Ids(ids) => ids,
                RequeueChoice::Filter { filter, limit } => {
                    let dead = filter.in_status([DispatchStatus::DeadLetter]);
                    let dead = rows.list(&dead, DispatchOrder::Creation)?.into_values();
                    dead.take(limit as usize).map(|dispatch| dispatch.id).collect()
                }
            };
            let one = |id: DispatchId| {
                let requeued = rows.change(|view| mailbox::requeue(view, &id, setting));
                (id, requeued)
            };
            Ok(ids.into_iter().map(one).collect())
        })
    }
}
