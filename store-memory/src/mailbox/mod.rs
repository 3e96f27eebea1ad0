//! The mailbox: enqueueing, claiming and settling dispatches, and waiting for them.

mod read;
mod wake;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, Enqueued, InstanceId, Interrupt, Interrupted,
    MailboxConsumer, MailboxMaintenance, MailboxProducer, Missed, NewDispatch, Purge, Purged, Reclaimed, Requeue,
    RequeueChoice, Result, Settled, Settlement, ThreadId,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxChange, MailboxMap, SingleClaim},
};

use crate::tenant::Tenant;

/// The maximum number of expired leases that one claim ends. The next claim ends the remaining ones.
const MAX_EXPIRED: usize = 1_000;

/// The mailbox of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryMailbox {
    tenant: Arc<Tenant>,
}

impl MemoryMailbox {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }

    /// Changes the mailbox under its exclusive lock. Then wakes the waiting workers if a dispatch has become claimable.
    fn change<T>(&self, change: impl FnOnce(&mut MailboxMap, DecisionContext<'_>) -> Result<T>) -> Result<T> {
        let tenant = self.tenant.check_open()?;
        let mut mailbox = tenant.mailbox.write();
        let changed = change(&mut mailbox, tenant.setting());
        let from = mailbox.take_claimable_from();
        drop(mailbox);
        if let Some(from) = from {
            tenant.notifier.notify(from);
        }
        changed
    }

    /// Makes one decision and applies it.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&MailboxMap, DecisionContext<'_>) -> Result<MailboxChange<T>>,
    ) -> Result<T> {
        self.change(|mailbox, setting| mailbox.change(|view| decide(view, setting)))
    }
}

#[async_trait]
impl MailboxProducer for MemoryMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.change(|mailbox, setting| {
            mailbox::check_requests(dispatches.len(), setting.limits)?;
            let one = |new| mailbox.change(|view| mailbox::enqueue(view, new, setting));
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
impl MailboxConsumer for MemoryMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        let one = SingleClaim::of(&request)?;
        self.change(|mailbox, setting| {
            let thread = match (&request.thread, &request.dispatch) {
                (None, None) => return claim_any(mailbox, &request, one, setting),
                (Some(thread), _) => Some(thread.clone()),
                (None, Some(id)) => mailbox.get(id).map(|stored| stored.body.thread.clone()),
            };
            thread.map_or_else(
                || Ok(Claims::none(Some(Missed::Unknown))),
                |thread| claim_of_thread(mailbox, &thread, one, setting),
            )
        })
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.decide(|view, setting| mailbox::extend(view, claim, by, setting))
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.decide(|view, setting| mailbox::start(view, claim, &instance, setting))
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.change(|mailbox, setting| {
            mailbox::check_requests(settlements.len(), setting.limits)?;
            let one = |(claim, settlement): &(ClaimRef, Settlement)| {
                mailbox.change(|view| mailbox::settle(view, claim, settlement, setting))
            };
            Ok(settlements.iter().map(one).collect())
        })
    }
}

/// Claims a dispatch of one thread.
fn claim_of_thread(
    mailbox: &mut MailboxMap,
    thread: &ThreadId,
    one: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Result<Claims> {
    mailbox.promote_due_of(thread, setting.now);
    mailbox.change(|view| mailbox::claim(view, thread, one, setting))
}

/// Claims dispatches of ready threads, in the order of the threads. Ends expired leases first, because a thread whose
/// lease has expired is ready, too.
fn claim_any(
    mailbox: &mut MailboxMap,
    request: &ClaimRequest,
    one: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Result<Claims> {
    lapse(mailbox, MAX_EXPIRED, setting)?;
    mailbox.promote_due(setting.now);
    let (mut claims, mut after) = (Claims::default(), None);
    while length(claims.claimed.len()) < u64::from(request.limit) {
        let Some(place) = mailbox.free(after.as_ref()).next().cloned() else { break };
        claims.claimed.extend(claim_of_thread(mailbox, &place.2, one, setting)?.claimed);
        after = Some(place);
    }
    Ok(claims)
}

/// Ends up to `most` expired leases.
fn lapse(mailbox: &mut MailboxMap, most: usize, setting: DecisionContext<'_>) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for thread in mailbox.lapsed(setting.now, most) {
        reclaimed.extend(mailbox.change(|view| mailbox::lapse(view, &thread, setting))?);
    }
    Ok(reclaimed)
}

#[async_trait]
impl MailboxMaintenance for MemoryMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        self.change(|mailbox, setting| lapse(mailbox, limit as usize, setting))
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.change(|mailbox, setting| {
            let mut removed = 0;
            for id in &mailbox.ended(&request) {
                let is_gone = match request.dry_run {
                    true => true,
                    false => mailbox.change(|view| mailbox::purge(view, id, request.before, setting))?,
                };
                removed += u64::from(is_gone);
            }
            Ok(Purged::new(removed))
        })
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.change(|mailbox, setting| {
            request.check(setting.limits)?;
            let ids = match request.choice {
                RequeueChoice::Ids(ids) => ids,
                RequeueChoice::Filter { filter, limit } => mailbox.dead_letters(*filter, limit),
            };
            let one = |id: DispatchId| {
                let requeued = mailbox.change(|view| mailbox::requeue(view, &id, setting));
                (id, requeued)
            };
            Ok(ids.into_iter().map(one).collect())
        })
    }
}

impl fmt::Debug for MemoryMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMailbox").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
