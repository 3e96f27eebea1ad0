//! The mailbox: giving work, taking it, ending it, and waiting for it.

mod read;
mod wake;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchFilter, DispatchId, DispatchStatus, Enqueued,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, Missed, NewDispatch,
    Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement, ThreadId,
    commit::Setting,
    length,
    mailbox::{self, ClaimOne, Found, MailboxChange, ReclaimedAs},
};

use crate::tenant::{Mailbox, Tenant, Walk};

/// How many claims whose lease is over one claim ends: what is left is there for the next one.
const LAPSES: usize = 1_000;

/// The mailbox of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryMailbox {
    tenant: Arc<Tenant>,
}

impl MemoryMailbox {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }

    /// Changes the mailbox, alone, and wakes who waits for what that brought.
    fn change<T>(&self, change: impl FnOnce(&mut Mailbox, Setting<'_>) -> Result<T>) -> Result<T> {
        let tenant = self.tenant.opened()?;
        let mut mailbox = tenant.mailbox.write();
        let changed = change(&mut mailbox, tenant.setting());
        let from = mailbox.take_claimable_from();
        drop(mailbox);
        if let Some(from) = from {
            tenant.bell.ring(from);
        }
        changed
    }

    /// Makes one decision.
    fn decide<T>(&self, decide: impl FnOnce(&Mailbox, Setting<'_>) -> Result<MailboxChange<T>>) -> Result<T> {
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
        let one = ClaimOne::of(&request)?;
        self.change(|mailbox, setting| match named(mailbox, &request) {
            Named::Thread(thread) => claim_of(mailbox, &thread, one, setting),
            Named::Unknown => {
                let mut claims = Claims::default();
                claims.missed = Some(Missed::Unknown);
                Ok(claims)
            }
            Named::Nothing => claim_any(mailbox, &request, one, setting),
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

/// What a claim names.
enum Named {
    Thread(ThreadId),
    Unknown,
    Nothing,
}

fn named(mailbox: &Mailbox, request: &ClaimRequest) -> Named {
    match (&request.dispatch, &request.thread) {
        (_, Some(thread)) => Named::Thread(thread.clone()),
        (Some(id), None) => mailbox.get(id).map_or(Named::Unknown, |stored| Named::Thread(stored.body.thread.clone())),
        (None, None) => Named::Nothing,
    }
}

fn claim_of(mailbox: &mut Mailbox, thread: &ThreadId, one: ClaimOne<'_>, setting: Setting<'_>) -> Result<Claims> {
    let mut claims = Claims::default();
    match mailbox.claim(thread, one, setting)? {
        Found::Claimed(claimed) => claims.claimed.push(claimed),
        Found::Nothing(missed) => claims.missed = missed,
    }
    Ok(claims)
}

/// Claims from ready threads, in their order.
fn claim_any(mailbox: &mut Mailbox, request: &ClaimRequest, one: ClaimOne<'_>, setting: Setting<'_>) -> Result<Claims> {
    for thread in mailbox.lapsed(setting.now, LAPSES) {
        mailbox.change(|view| mailbox::lapse(view, &thread, setting))?;
    }
    mailbox.turn_to(setting.now);
    let (mut claims, mut after) = (Claims::default(), None);
    while length(claims.claimed.len()) < u64::from(request.limit) {
        let Some(place) = mailbox.next_ready(after.as_ref()) else { break };
        if let Found::Claimed(claimed) = mailbox.claim(&place.2, one, setting)? {
            claims.claimed.push(claimed);
        }
        after = Some(place);
    }
    Ok(claims)
}

#[async_trait]
impl MailboxMaintenance for MemoryMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        self.change(|mailbox, setting| {
            let mut reclaimed = Reclaimed::default();
            for thread in mailbox.lapsed(setting.now, limit as usize) {
                match mailbox.change(|view| mailbox::lapse(view, &thread, setting))? {
                    Some(ReclaimedAs::Requeued(id)) => reclaimed.requeued.push(id),
                    Some(ReclaimedAs::DeadLettered(id)) => reclaimed.dead_lettered.push(id),
                    Some(ReclaimedAs::Superseded(id)) => reclaimed.superseded.push(id),
                    None => {}
                }
            }
            Ok(reclaimed)
        })
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.change(|mailbox, setting| {
            let ended = mailbox.by_end(None, store_core::Direction::Forward);
            let before = ended.take_while(|(end, _)| *end < request.before).take(request.limit as usize);
            let ids: Vec<_> = before.map(|(_, stored)| stored.id().clone()).collect();
            let mut removed = 0;
            for id in &ids {
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
                RequeueChoice::Filter { filter, limit } => dead_letters(mailbox, *filter, limit),
            };
            let one = |id: DispatchId| {
                let requeued = mailbox.change(|view| mailbox::requeue(view, &id, setting));
                (id, requeued)
            };
            Ok(ids.into_iter().map(one).collect())
        })
    }
}

/// The oldest dead letters that a filter lets through.
fn dead_letters(mailbox: &Mailbox, filter: DispatchFilter, limit: u32) -> Vec<DispatchId> {
    let filter = filter.in_status([DispatchStatus::DeadLetter]);
    let walk = Walk::over(None, None);
    let dead = mailbox.by_creation(&filter, &walk);
    let dead = dead.filter(|(_, stored)| mailbox::seen(mailbox, stored).is_ok_and(|seen| filter.admits(&seen)));
    dead.take(limit as usize).map(|(_, stored)| stored.id().clone()).collect()
}

impl fmt::Debug for MemoryMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMailbox").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
