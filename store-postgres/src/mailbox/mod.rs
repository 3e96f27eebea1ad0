//! The mailbox: enqueueing, claiming, settling, and waiting for work.

mod claim_cache;
mod enqueue;
mod read;
mod wake;
mod watermarks;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, DispatchQuery, DispatchStatus, Enqueued,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, Missed,
    NewDispatch, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement,
    commit::DecisionContext,
    in_flight::CallScope,
    length,
    mailbox::{self, MailboxChange, MailboxView, SingleClaim},
};

use crate::{
    cache::{Lookup, MailboxDraft, MailboxLookup, RecordCache},
    decide::{CacheUpdate, RuleResult, decide_locked, decide_with_claims, decide_without_thread},
    store::OpenTenant,
    tenant::Tenant,
    write::Batch,
};

use self::enqueue::enqueue;
pub(crate) use self::{
    claim_cache::ClaimCache,
    enqueue::Enqueues,
    watermarks::{ScanState, Search, Watermarks},
};

/// The maximum number of expired leases that a claim ends before it searches for work.
const MAX_EXPIRED: u32 = 1_000;

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
        about: CallScope,
        first: MailboxLookup,
        decide: impl Fn(&MailboxDraft<'_>, DecisionContext<'_>) -> Result<MailboxChange<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, first, |draft, setting| draft.change(|view| decide(view, setting))).await?
        };
        self.tenant.write(about, call).await
    }

    /// Makes a decision for the holder of a claim.
    async fn decide_for_holder<T: Send + 'static>(
        &self,
        id: DispatchId,
        decide: impl Fn(&MailboxDraft<'_>, DecisionContext<'_>) -> Result<MailboxChange<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            decide_for_holder(&tenant, &[&id], |draft, setting| decide_about_claim(draft, |view| decide(view, setting)))
                .await?
        };
        self.tenant.write(None, call).await
    }
}

fn decide_with_draft<T>(
    cache: &RecordCache,
    setting: DecisionContext<'_>,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<T>,
) -> Result<RuleResult<T>> {
    let mut draft = MailboxDraft::new(cache);
    let answer = rule(&mut draft, setting)?;
    let mut batch = Batch::default();
    batch.mailbox(draft.into_changes());
    batch.require_claims_numbered_above(cache.mailbox.claims_numbered_above());
    Ok(RuleResult::Write { batch, after: CacheUpdate::Nothing, answer })
}

/// Makes decisions that are written together.
async fn change<T: Send>(
    tenant: &Tenant,
    first: MailboxLookup,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let first = Lookup { mailbox: first, ..Lookup::default() };
    decide_without_thread(tenant, first, |cache, setting| decide_with_draft(cache, setting, &rule)).await
}

/// Does the same as `change`, and locks all rows that it loads. The rule runs again as long as it returns no answer.
async fn change_locked<T: Send>(
    tenant: &Tenant,
    first: MailboxLookup,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<Option<T>> + Send + Sync,
) -> Result<T> {
    let first = Lookup { mailbox: first, ..Lookup::default() };
    decide_locked(tenant, first, |cache, setting| decide_with_draft(cache, setting, &rule)).await
}

fn dispatches_lookup<'a>(ids: impl IntoIterator<Item = &'a DispatchId>) -> MailboxLookup {
    MailboxLookup { dispatches: ids.into_iter().cloned().collect(), ..MailboxLookup::default() }
}

/// Makes decisions for holders of claims. Claims in the cache of this process are not loaded first.
async fn decide_for_holder<T: Send>(
    tenant: &Tenant,
    ids: &[&DispatchId],
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let claimed = tenant.claims.take(ids);
    let first = Lookup { mailbox: dispatches_lookup(ids.iter().copied()), ..Lookup::default() };
    let rule = |draft: &mut MailboxDraft<'_>, setting: DecisionContext<'_>| {
        let answer = rule(draft, setting)?;
        Ok((answer, draft.claimed()))
    };
    let (answer, claimed) =
        decide_with_claims(tenant, claimed, first, |cache, setting| decide_with_draft(cache, setting, rule)).await?;
    tenant.claims.put(claimed);
    Ok(answer)
}

/// Makes one decision about a claim. The inner result is the answer. A refusal that is based on cached records is
/// returned as an outer error instead, because the records may be outdated.
fn decide_about_claim<T>(
    draft: &mut MailboxDraft<'_>,
    decide: impl FnOnce(&MailboxDraft<'_>) -> Result<MailboxChange<T>>,
) -> Result<Result<T>> {
    let answer = draft.change(decide)?;
    if draft.cache.is_certain() { Ok(answer) } else { answer.map(Ok) }
}

async fn settle(tenant: &Tenant, settlements: &[(ClaimRef, Settlement)]) -> Result<Vec<Result<Settled>>> {
    let ids: Vec<_> = settlements.iter().map(|(claim, _)| &claim.dispatch).collect();
    let rule = |draft: &mut MailboxDraft<'_>, setting: DecisionContext<'_>| {
        mailbox::check_requests(settlements.len(), setting.limits)?;
        let one = |(claim, settlement): &(ClaimRef, Settlement)| {
            decide_about_claim(draft, |view| mailbox::settle(view, claim, settlement, setting))
        };
        settlements.iter().map(one).collect()
    };
    decide_for_holder(tenant, &ids, rule).await
}

#[async_trait]
impl MailboxProducer for PostgresMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.tenant.write(None, |tenant| async move { enqueue(&tenant, dispatches).await }).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        let (id, first) = (id.clone(), dispatches_lookup([id]));
        self.decide(None, first, move |view, setting| mailbox::cancel(view, &id, setting)).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        let threads = [request.thread.clone()].into();
        // A takeover makes a claim.
        let first = MailboxLookup { threads, makes_claims: request.take_over, ..MailboxLookup::default() };
        let about = Some(request.thread.clone());
        self.decide(about, first, move |view, setting| mailbox::interrupt(view, &request, setting)).await
    }
}

#[async_trait]
impl MailboxConsumer for PostgresMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        SingleClaim::of(&request)?;
        let call = |tenant: Arc<Tenant>| async move { claim(&tenant, &request).await };
        let release = |tenant: Arc<Tenant>, claims: Claims| async move {
            let ends: Vec<_> = claims.claimed.iter().map(|claimed| (claimed.claim(), Settlement::Release)).collect();
            if !ends.is_empty() {
                let _given = settle(&tenant, &ends).await;
            }
        };
        self.tenant.claim(call, release).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide_for_holder(claim.dispatch.clone(), move |view, setting| mailbox::extend(view, &claim, by, setting))
            .await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide_for_holder(claim.dispatch.clone(), move |view, setting| {
            mailbox::start(view, &claim, &instance, setting)
        })
        .await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.tenant.write(None, |tenant| async move { settle(&tenant, &settlements).await }).await
    }
}

async fn claim(tenant: &Tenant, request: &ClaimRequest) -> Result<Claims> {
    if request.dispatch.is_none() && request.thread.is_none() {
        let watermarks = tenant.scan_state.for_claim();
        let first = MailboxLookup {
            claim: request.limit,
            lapse: MAX_EXPIRED,
            watermarks,
            makes_claims: true,
            ..MailboxLookup::default()
        };
        let rule = |draft: &mut MailboxDraft<'_>, setting: DecisionContext<'_>| {
            let claims = claim_any(draft, request, setting)?;
            Ok(claims.map(|claims| (claims, draft.claimed(), draft.cache.mailbox.search.clone())))
        };
        let (claims, claimed, search) = change_locked(tenant, first, rule).await?;
        tenant.claims.put(claimed);
        search.iter().for_each(|search| tenant.scan_state.record(search));
        return Ok(claims);
    }
    let first = MailboxLookup {
        threads: request.thread.iter().cloned().collect(),
        dispatches: request.dispatch.iter().cloned().collect(),
        makes_claims: true,
        ..MailboxLookup::default()
    };
    let rule = |draft: &mut MailboxDraft<'_>, setting: DecisionContext<'_>| {
        let claims = claim_named(draft, request, setting)?;
        Ok(Some((claims, draft.claimed())))
    };
    let (claims, claimed) = change_locked(tenant, first, rule).await?;
    tenant.claims.put(claimed);
    Ok(claims)
}

/// Claims the dispatch that the request names, or a dispatch of the thread that it names.
fn claim_named(draft: &mut MailboxDraft<'_>, request: &ClaimRequest, setting: DecisionContext<'_>) -> Result<Claims> {
    let thread = match (&request.thread, &request.dispatch) {
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => draft.dispatch(id)?.map(|stored| stored.body.thread.clone()),
        (None, None) => None,
    };
    let Some(thread) = thread else { return Ok(Claims::none(Some(Missed::Unknown))) };
    let one = SingleClaim::of(request)?;
    draft.change(|view| mailbox::claim(view, &thread, one, setting))?
}

/// Claims dispatches of the first ready threads, except threads that other calls have locked. If there are expired
/// leases, this function ends them instead and returns `None`. The next decision then includes their threads.
fn claim_any(
    draft: &mut MailboxDraft<'_>,
    request: &ClaimRequest,
    setting: DecisionContext<'_>,
) -> Result<Option<Claims>> {
    if !draft.cache.mailbox.lapsed.is_empty() {
        lapse(draft, setting)?;
        return Ok(None);
    }
    let (mut claims, one) = (Claims::default(), SingleClaim::of(request)?);
    for thread in draft.cache.mailbox.ready.clone() {
        claims.claimed.extend(draft.change(|view| mailbox::claim(view, &thread, one, setting))??.claimed);
    }
    Ok(Some(claims))
}

/// Ends expired leases.
fn lapse(draft: &mut MailboxDraft<'_>, setting: DecisionContext<'_>) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for thread in draft.cache.mailbox.lapsed.clone() {
        reclaimed.extend(draft.change(|view| mailbox::lapse(view, &thread, setting))??);
    }
    Ok(reclaimed)
}

#[async_trait]
impl MailboxMaintenance for PostgresMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_batch(limit)?;
        let first = MailboxLookup { lapse: limit, ..MailboxLookup::default() };
        let call = |tenant: Arc<Tenant>| async move {
            change_locked(&tenant, first, |draft, setting| lapse(draft, setting).map(Some)).await
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
            change(&tenant, dispatches_lookup(&ids), |draft, setting| {
                let mut removed = 0;
                for id in &ids {
                    let gone = draft.change(|view| mailbox::purge(view, id, request.before, setting))??;
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
            change(&tenant, dispatches_lookup(&ids), |draft, setting| {
                let one = |id: &DispatchId| {
                    let requeued = draft.change(|view| mailbox::requeue(view, id, setting))?;
                    Ok((id.clone(), requeued))
                };
                ids.iter().map(one).collect()
            })
            .await
        };
        self.tenant.write(None, call).await
    }
}
