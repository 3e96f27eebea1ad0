//! The mailbox: enqueueing, claiming, settling, and waiting for work.

mod enqueue;
mod known;
mod passed;
mod read;
mod wake;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, DispatchQuery, DispatchStatus, Enqueued,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, Missed,
    NewDispatch, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement,
    commit::Setting,
    flight::About,
    length,
    mailbox::{self, ClaimOne, MailboxChange, MailboxView},
};

use crate::{
    decide::{After, Decided, decide_alone, decide_locked, decide_recalled},
    facts::{Facts, Look, MailboxDesk, MailboxLook},
    store::OpenTenant,
    tenant::Tenant,
    write::Batch,
};

use self::enqueue::enqueue;
pub(crate) use self::{
    enqueue::Enqueues,
    known::KnownClaims,
    passed::{Passed, Places, Search},
};

/// The maximum number of expired leases that a claim ends before it searches for work.
const LAPSES: u32 = 1_000;

/// The mailbox of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresMailbox {
    tenant: OpenTenant,
}

impl PostgresMailbox {
    pub(crate) const fn new(tenant: OpenTenant) -> Self {
        Self { tenant }
    }

    /// Makes one decision.
    async fn decide<T: Send + 'static>(
        &self,
        about: About,
        first: MailboxLook,
        decide: impl Fn(&MailboxDesk<'_>, Setting<'_>) -> Result<MailboxChange<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, first, |desk, setting| desk.change(|view| decide(view, setting))).await?
        };
        self.tenant.write(about, call).await
    }

    /// Makes a decision for the holder of a claim.
    async fn act<T: Send + 'static>(
        &self,
        id: DispatchId,
        decide: impl Fn(&MailboxDesk<'_>, Setting<'_>) -> Result<MailboxChange<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            act(&tenant, &[&id], |desk, setting| certain(desk, |view| decide(view, setting))).await?
        };
        self.tenant.write(None, call).await
    }
}

fn decided<T>(
    facts: &Facts,
    setting: Setting<'_>,
    rule: impl Fn(&mut MailboxDesk<'_>, Setting<'_>) -> Result<T>,
) -> Result<Decided<T>> {
    let mut desk = MailboxDesk::new(facts);
    let answer = rule(&mut desk, setting)?;
    let mut batch = Batch::default();
    batch.mailbox(desk.into_changes());
    batch.if_claims_are_numbered_above(facts.mailbox.recalled_above());
    Ok(Decided::Write { batch, after: After::Nothing, answer })
}

/// Makes decisions that are written together.
async fn change<T: Send>(
    tenant: &Tenant,
    first: MailboxLook,
    rule: impl Fn(&mut MailboxDesk<'_>, Setting<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let first = Look { mailbox: first, ..Look::default() };
    decide_alone(tenant, first, |facts, setting| decided(facts, setting, &rule)).await
}

/// Does the same, and locks everything it loads. Repeats as long as there is no answer.
async fn change_locked<T: Send>(
    tenant: &Tenant,
    first: MailboxLook,
    rule: impl Fn(&mut MailboxDesk<'_>, Setting<'_>) -> Result<Option<T>> + Send + Sync,
) -> Result<T> {
    let first = Look { mailbox: first, ..Look::default() };
    decide_locked(tenant, first, |facts, setting| decided(facts, setting, &rule)).await
}

fn of_dispatches<'a>(ids: impl IntoIterator<Item = &'a DispatchId>) -> MailboxLook {
    MailboxLook { dispatches: ids.into_iter().cloned().collect(), ..MailboxLook::default() }
}

/// Makes decisions for holders of claims. Claims that this process remembers are not loaded first.
async fn act<T: Send>(
    tenant: &Tenant,
    ids: &[&DispatchId],
    rule: impl Fn(&mut MailboxDesk<'_>, Setting<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let held = tenant.claims.take(ids);
    let first = Look { mailbox: of_dispatches(ids.iter().copied()), ..Look::default() };
    let rule = |desk: &mut MailboxDesk<'_>, setting: Setting<'_>| {
        let answer = rule(desk, setting)?;
        Ok((answer, desk.held()))
    };
    let (answer, held) = decide_recalled(tenant, held, first, |facts, setting| decided(facts, setting, rule)).await?;
    tenant.claims.put(held);
    Ok(answer)
}

/// Makes one decision about a claim. A refusal that rests on remembered facts is not returned as an answer, because
/// they may be outdated.
fn certain<T>(
    desk: &mut MailboxDesk<'_>,
    decide: impl FnOnce(&MailboxDesk<'_>) -> Result<MailboxChange<T>>,
) -> Result<Result<T>> {
    let answer = desk.change(decide)?;
    if desk.facts.is_certain() { Ok(answer) } else { answer.map(Ok) }
}

async fn settle(tenant: &Tenant, settlements: &[(ClaimRef, Settlement)]) -> Result<Vec<Result<Settled>>> {
    let ids: Vec<_> = settlements.iter().map(|(claim, _)| &claim.dispatch).collect();
    let rule = |desk: &mut MailboxDesk<'_>, setting: Setting<'_>| {
        mailbox::check_requests(settlements.len(), setting.limits)?;
        let one = |(claim, settlement): &(ClaimRef, Settlement)| {
            certain(desk, |view| mailbox::settle(view, claim, settlement, setting))
        };
        settlements.iter().map(one).collect()
    };
    act(tenant, &ids, rule).await
}

#[async_trait]
impl MailboxProducer for PostgresMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.tenant.write(None, |tenant| async move { enqueue(&tenant, dispatches).await }).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        let (id, first) = (id.clone(), of_dispatches([id]));
        self.decide(None, first, move |view, setting| mailbox::cancel(view, &id, setting)).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        let threads = [request.thread.clone()].into();
        // A takeover makes a claim.
        let first = MailboxLook { threads, numbers: request.take_over, ..MailboxLook::default() };
        let about = Some(request.thread.clone());
        self.decide(about, first, move |view, setting| mailbox::interrupt(view, &request, setting)).await
    }
}

#[async_trait]
impl MailboxConsumer for PostgresMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        ClaimOne::of(&request)?;
        let call = |tenant: Arc<Tenant>| async move { claim(&tenant, &request).await };
        let back = |tenant: Arc<Tenant>, claims: Claims| async move {
            let ends: Vec<_> = claims.claimed.iter().map(|held| (held.claim(), Settlement::Release)).collect();
            if !ends.is_empty() {
                let _given = settle(&tenant, &ends).await;
            }
        };
        self.tenant.claim(call, back).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.act(claim.dispatch.clone(), move |view, setting| mailbox::extend(view, &claim, by, setting)).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.act(claim.dispatch.clone(), move |view, setting| mailbox::start(view, &claim, &instance, setting)).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.tenant.write(None, |tenant| async move { settle(&tenant, &settlements).await }).await
    }
}

async fn claim(tenant: &Tenant, request: &ClaimRequest) -> Result<Claims> {
    if request.dispatch.is_none() && request.thread.is_none() {
        let passed = tenant.places.for_claim();
        let first =
            MailboxLook { claim: request.limit, lapse: LAPSES, passed, numbers: true, ..MailboxLook::default() };
        let rule = |desk: &mut MailboxDesk<'_>, setting: Setting<'_>| {
            let claims = claim_any(desk, request, setting)?;
            Ok(claims.map(|claims| (claims, desk.held(), desk.facts.mailbox.search.clone())))
        };
        let (claims, held, search) = change_locked(tenant, first, rule).await?;
        tenant.claims.put(held);
        search.iter().for_each(|search| tenant.places.tell(search));
        return Ok(claims);
    }
    let first = MailboxLook {
        threads: request.thread.iter().cloned().collect(),
        dispatches: request.dispatch.iter().cloned().collect(),
        numbers: true,
        ..MailboxLook::default()
    };
    let rule = |desk: &mut MailboxDesk<'_>, setting: Setting<'_>| {
        let claims = claim_named(desk, request, setting)?;
        Ok(Some((claims, desk.held())))
    };
    let (claims, held) = change_locked(tenant, first, rule).await?;
    tenant.claims.put(held);
    Ok(claims)
}

/// Claims work of a thread, or one dispatch.
fn claim_named(desk: &mut MailboxDesk<'_>, request: &ClaimRequest, setting: Setting<'_>) -> Result<Claims> {
    let thread = match (&request.thread, &request.dispatch) {
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => desk.dispatch(id)?.map(|stored| stored.body.thread.clone()),
        (None, None) => None,
    };
    let Some(thread) = thread else { return Ok(Claims::none(Some(Missed::Unknown))) };
    let one = ClaimOne::of(request)?;
    desk.change(|view| mailbox::claim(view, &thread, one, setting))?
}

/// Claims the first ready work among the threads that no other call decides about. If there are expired leases, this
/// ends them and returns `None`. The next decision then includes their threads.
fn claim_any(desk: &mut MailboxDesk<'_>, request: &ClaimRequest, setting: Setting<'_>) -> Result<Option<Claims>> {
    if !desk.facts.mailbox.lapsed.is_empty() {
        lapse(desk, setting)?;
        return Ok(None);
    }
    let (mut claims, one) = (Claims::default(), ClaimOne::of(request)?);
    for thread in desk.facts.mailbox.ready.clone() {
        claims.claimed.extend(desk.change(|view| mailbox::claim(view, &thread, one, setting))??.claimed);
    }
    Ok(Some(claims))
}

/// Ends expired leases.
fn lapse(desk: &mut MailboxDesk<'_>, setting: Setting<'_>) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for thread in desk.facts.mailbox.lapsed.clone() {
        reclaimed.extend(desk.change(|view| mailbox::lapse(view, &thread, setting))??);
    }
    Ok(reclaimed)
}

#[async_trait]
impl MailboxMaintenance for PostgresMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        let first = MailboxLook { lapse: limit, ..MailboxLook::default() };
        let call = |tenant: Arc<Tenant>| async move {
            change_locked(&tenant, first, |desk, setting| lapse(desk, setting).map(Some)).await
        };
        self.tenant.write(None, call).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        let call = |tenant: Arc<Tenant>| async move {
            let ids = read::ended(&tenant, &request).await?;
            if request.dry_run {
                return Ok(Purged::new(length(ids.len())));
            }
            change(&tenant, of_dispatches(&ids), |desk, setting| {
                let mut removed = 0;
                for id in &ids {
                    let gone = desk.change(|view| mailbox::purge(view, id, request.before, setting))??;
                    removed += u64::from(gone);
                }
                Ok(Purged::new(removed))
            })
            .await
        };
        self.tenant.write(None, call).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        request.check(&self.tenant.common.config.limits)?;
        let ids = match request.choice {
            RequeueChoice::Ids(ids) => ids,
            RequeueChoice::Filter { filter, limit } => {
                let query = DispatchQuery::new(filter.in_status([DispatchStatus::DeadLetter]));
                let page = store_core::PageRequest::first(limit);
                let dead = self.list_dispatches(query.with_page(page)).await?;
                dead.items.into_iter().map(|dispatch| dispatch.id).collect()
            }
        };
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, of_dispatches(&ids), |desk, setting| {
                let one = |id: &DispatchId| {
                    let requeued = desk.change(|view| mailbox::requeue(view, id, setting))?;
                    Ok((id.clone(), requeued))
                };
                ids.iter().map(one).collect()
            })
            .await
        };
        self.tenant.write(None, call).await
    }
}
