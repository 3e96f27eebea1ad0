//! The mailbox: enqueueing, claiming and settling dispatches, and waiting for them.

mod read;
mod wake;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, Enqueued, InstanceId, Interrupt, Interrupted,
    MailboxConsumer, MailboxMaintenance, MailboxProducer, NewDispatch, NotClaimedReason, Purge, Purged, Reclaimed,
    Requeue, RequeueChoice, Result, Settled, Settlement, ThreadId,
    commit::DecisionContext,
    length,
    mailbox::{self, InMemoryMailbox, MailboxDecision, SingleClaim},
};

use crate::tenant::Tenant;

/// The maximum number of expired claims that one call of `claim` ends. The next call ends the rest.
const MAX_EXPIRED_CLAIMS: usize = 1_000;

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
    fn change<T>(&self, change: impl FnOnce(&mut InMemoryMailbox, DecisionContext<'_>) -> Result<T>) -> Result<T> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut mailbox = tenant.mailbox.write();
        let result = change(&mut mailbox, tenant.decision_context());
        let earliest_claim_time = mailbox.take_claimable_from();
        drop(mailbox);
        if let Some(earliest_claim_time) = earliest_claim_time {
            tenant.worker_notifier.notify(earliest_claim_time);
        }
        result
    }

    /// Makes one decision and applies it.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&InMemoryMailbox, DecisionContext<'_>) -> Result<MailboxDecision<T>>,
    ) -> Result<T> {
        self.change(|mailbox, decision_context| mailbox.apply_decision(|view| decide(view, decision_context)))
    }
}

#[async_trait]
impl MailboxProducer for MemoryMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.change(|mailbox, decision_context| {
            mailbox::check_item_count(dispatches.len(), decision_context.limits)?;
            let enqueue_one = |draft| mailbox.apply_decision(|view| mailbox::enqueue(view, draft, decision_context));
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
impl MailboxConsumer for MemoryMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        // What the request claims on each thread.
        let single_claim = SingleClaim::of(&request)?;
        self.change(|mailbox, decision_context| {
            let thread = match (&request.thread, &request.dispatch) {
                (None, None) => return claim_any(mailbox, &request, single_claim, decision_context),
                (Some(thread), _) => Some(thread.clone()),
                (None, Some(id)) => mailbox.get(id).map(|stored| stored.body.thread.clone()),
            };
            thread.map_or_else(
                || Ok(Claims::none(Some(NotClaimedReason::Unknown))),
                |thread| claim_from_thread(mailbox, &thread, single_claim, decision_context),
            )
        })
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.decide(|view, decision_context| mailbox::extend(view, claim, by, decision_context))
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.decide(|view, decision_context| mailbox::start(view, claim, &instance, decision_context))
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.change(|mailbox, decision_context| {
            mailbox::check_item_count(settlements.len(), decision_context.limits)?;
            let settle_one = |(claim, settlement): &(ClaimRef, Settlement)| {
                mailbox.apply_decision(|view| mailbox::settle(view, claim, settlement, decision_context))
            };
            Ok(settlements.iter().map(settle_one).collect())
        })
    }
}

/// Claims a dispatch of one thread.
fn claim_from_thread(
    mailbox: &mut InMemoryMailbox,
    thread: &ThreadId,
    single_claim: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> Result<Claims> {
    mailbox.promote_due_of(thread, decision_context.now);
    mailbox.apply_decision(|view| mailbox::claim(view, thread, single_claim, decision_context))
}

/// Claims dispatches of ready threads, in the order in which `ready_threads` returns the threads. Ends expired claims
/// first, so that their threads are ready as well.
fn claim_any(
    mailbox: &mut InMemoryMailbox,
    request: &ClaimRequest,
    single_claim: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> Result<Claims> {
    end_expired_claims(mailbox, MAX_EXPIRED_CLAIMS, decision_context)?;
    mailbox.promote_due(decision_context.now);
    let (mut claims, mut after) = (Claims::default(), None);
    while length(claims.claimed.len()) < u64::from(request.limit) {
        let Some(position) = mailbox.ready_threads(after.as_ref()).next().cloned() else { break };
        let (_, _, thread) = &position;
        claims.claimed.extend(claim_from_thread(mailbox, thread, single_claim, decision_context)?.claimed);
        after = Some(position);
    }
    Ok(claims)
}

/// Ends up to `max_count` claims whose lease has expired.
fn end_expired_claims(
    mailbox: &mut InMemoryMailbox,
    max_count: usize,
    decision_context: DecisionContext<'_>,
) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for thread in mailbox.threads_with_expired_lease(decision_context.now, max_count) {
        reclaimed.extend(mailbox.apply_decision(|view| mailbox::end_expired_claim(view, &thread, decision_context))?);
    }
    Ok(reclaimed)
}

#[async_trait]
impl MailboxMaintenance for MemoryMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        self.change(|mailbox, decision_context| end_expired_claims(mailbox, limit as usize, decision_context))
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        self.change(|mailbox, decision_context| {
            let mut removed_count = 0;
            for id in &mailbox.dispatches_to_purge(&request) {
                let is_purged = match request.dry_run {
                    true => true,
                    false => {
                        mailbox.apply_decision(|view| mailbox::purge(view, id, request.before, decision_context))?
                    }
                };
                removed_count += u64::from(is_purged);
            }
            Ok(Purged::new(removed_count))
        })
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.change(|mailbox, decision_context| {
            request.check(decision_context.limits)?;
            let ids = match request.choice {
                RequeueChoice::Ids(ids) => ids,
                RequeueChoice::Filter { filter, limit } => mailbox.dead_letters(*filter, limit),
            };
            let requeue_one = |id: DispatchId| {
                let result = mailbox.apply_decision(|view| mailbox::requeue(view, &id, decision_context));
                (id, result)
            };
            Ok(ids.into_iter().map(requeue_one).collect())
        })
    }
}

impl fmt::Debug for MemoryMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMailbox").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
