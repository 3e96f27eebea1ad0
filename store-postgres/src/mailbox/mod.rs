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
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader,
    NewDispatch, NotClaimedReason, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled, Settlement,
    commit::DecisionContext,
    in_flight::CallScope,
    length,
    mailbox::{self, MailboxDecision, MailboxView, SingleClaim},
};

use crate::{
    cache::{Lookup, MailboxDraft, MailboxLookup, RecordCache},
    decide::{CacheUpdate, RuleResult, decide_locked, decide_with_claims, decide_without_thread},
    store::TenantHandle,
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
const MAX_EXPIRED_LEASES: u32 = 1_000;

/// The mailbox of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresMailbox {
    tenant: TenantHandle,
}

impl PostgresMailbox {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    /// Makes one decision.
    async fn decide<T: Send + 'static>(
        &self,
        thread_of_call: CallScope,
        likely_records: MailboxLookup,
        decide: impl Fn(&MailboxDraft<'_>, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, likely_records, |draft, decision_context| {
                draft.change(|view| decide(view, decision_context))
            })
            .await?
        };
        self.tenant.run_write(thread_of_call, call).await
    }

    /// Makes a decision for the holder of a claim.
    async fn decide_for_holder<T: Send + 'static>(
        &self,
        id: DispatchId,
        decide: impl Fn(&MailboxDraft<'_>, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let call = |tenant: Arc<Tenant>| async move {
            decide_for_holder(&tenant, &[&id], |draft, decision_context| {
                decide_about_claim(draft, |view| decide(view, decision_context))
            })
            .await?
        };
        self.tenant.run_write(None, call).await
    }
}

fn decide_with_draft<T>(
    cache: &RecordCache,
    decision_context: DecisionContext<'_>,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<T>,
) -> Result<RuleResult<T>> {
    let mut draft = MailboxDraft::new(cache);
    let answer = rule(&mut draft, decision_context)?;
    let mut batch = Batch::default();
    batch.add_mailbox_changes(draft.into_changes());
    batch.require_claim_incarnation(cache.mailbox.incarnation_of_cached_claims());
    Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Nothing, answer })
}

/// Makes decisions that are written together.
async fn change<T: Send>(
    tenant: &Tenant,
    likely_records: MailboxLookup,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let likely_records = Lookup { mailbox: likely_records, ..Lookup::default() };
    decide_without_thread(tenant, likely_records, |cache, decision_context| {
        decide_with_draft(cache, decision_context, &rule)
    })
    .await
}

/// Does the same as `change`, and locks all rows that it loads. The rule runs again as long as it returns no answer.
async fn change_locked<T: Send>(
    tenant: &Tenant,
    likely_records: MailboxLookup,
    rule: impl Fn(&mut MailboxDraft<'_>, DecisionContext<'_>) -> Result<Option<T>> + Send + Sync,
) -> Result<T> {
    let likely_records = Lookup { mailbox: likely_records, ..Lookup::default() };
    decide_locked(tenant, likely_records, |cache, decision_context| decide_with_draft(cache, decision_context, &rule))
        .await
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
    let claimed = tenant.claim_cache.take(ids);
    let likely_records = Lookup { mailbox: dispatches_lookup(ids.iter().copied()), ..Lookup::default() };
    let rule = |draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>| {
        let answer = rule(draft, decision_context)?;
        Ok((answer, draft.changed_claims()))
    };
    let (answer, claimed) = decide_with_claims(tenant, claimed, likely_records, |cache, decision_context| {
        decide_with_draft(cache, decision_context, rule)
    })
    .await?;
    tenant.claim_cache.put(claimed);
    Ok(answer)
}

/// Makes one decision about a claim. The inner result is the answer. A refusal that is based on cached records is
/// returned as an outer error instead, because the records may be outdated.
fn decide_about_claim<T>(
    draft: &mut MailboxDraft<'_>,
    decide: impl FnOnce(&MailboxDraft<'_>) -> Result<MailboxDecision<T>>,
) -> Result<Result<T>> {
    let answer = draft.change(decide)?;
    if draft.cache.is_certain() { Ok(answer) } else { answer.map(Ok) }
}

async fn settle(tenant: &Tenant, settlements: &[(ClaimRef, Settlement)]) -> Result<Vec<Result<Settled>>> {
    let ids: Vec<_> = settlements.iter().map(|(claim, _)| &claim.dispatch).collect();
    let rule = |draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>| {
        mailbox::check_item_count(settlements.len(), decision_context.limits)?;
        let settle_one = |(claim, settlement): &(ClaimRef, Settlement)| {
            decide_about_claim(draft, |view| mailbox::settle(view, claim, settlement, decision_context))
        };
        settlements.iter().map(settle_one).collect()
    };
    decide_for_holder(tenant, &ids, rule).await
}

#[async_trait]
impl MailboxProducer for PostgresMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.tenant.run_write(None, |tenant| async move { enqueue(&tenant, dispatches).await }).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        let (id, likely_records) = (id.clone(), dispatches_lookup([id]));
        self.decide(None, likely_records, move |view, decision_context| mailbox::cancel(view, &id, decision_context))
            .await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        let threads = [request.thread.clone()].into();
        // A takeover makes a claim.
        let likely_records = MailboxLookup { threads, makes_claims: request.take_over, ..MailboxLookup::default() };
        let thread_of_call = Some(request.thread.clone());
        self.decide(thread_of_call, likely_records, move |view, decision_context| {
            mailbox::interrupt(view, &request, decision_context)
        })
        .await
    }
}

#[async_trait]
impl MailboxConsumer for PostgresMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        // This only checks the request. The call below makes the claims.
        SingleClaim::of(&request)?;
        let call = |tenant: Arc<Tenant>| async move { claim(&tenant, &request).await };
        let release = |tenant: Arc<Tenant>, claims: Claims| async move {
            let releases: Vec<_> =
                claims.claimed.iter().map(|claimed| (claimed.claim(), Settlement::Release)).collect();
            if !releases.is_empty() {
                let _released = settle(&tenant, &releases).await;
            }
        };
        self.tenant.run_claim(call, release).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide_for_holder(claim.dispatch.clone(), move |view, decision_context| {
            mailbox::extend(view, &claim, by, decision_context)
        })
        .await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        let claim = claim.clone();
        self.decide_for_holder(claim.dispatch.clone(), move |view, decision_context| {
            mailbox::start(view, &claim, &instance, decision_context)
        })
        .await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.tenant.run_write(None, |tenant| async move { settle(&tenant, &settlements).await }).await
    }
}

async fn claim(tenant: &Tenant, request: &ClaimRequest) -> Result<Claims> {
    if request.dispatch.is_none() && request.thread.is_none() {
        let watermarks = tenant.scan_state.watermarks_for_claim();
        let likely_records = MailboxLookup {
            max_ready_threads: request.limit,
            max_expired_leases: MAX_EXPIRED_LEASES,
            watermarks,
            makes_claims: true,
            ..MailboxLookup::default()
        };
        let rule = |draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>| {
            let claims = claim_any(draft, request, decision_context)?;
            Ok(claims.map(|claims| (claims, draft.changed_claims(), draft.cache.mailbox.search.clone())))
        };
        let (claims, claimed, search) = change_locked(tenant, likely_records, rule).await?;
        tenant.claim_cache.put(claimed);
        search.iter().for_each(|search| tenant.scan_state.record(search));
        return Ok(claims);
    }
    let likely_records = MailboxLookup {
        threads: request.thread.iter().cloned().collect(),
        dispatches: request.dispatch.iter().cloned().collect(),
        makes_claims: true,
        ..MailboxLookup::default()
    };
    let rule = |draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>| {
        let claims = claim_named(draft, request, decision_context)?;
        Ok(Some((claims, draft.changed_claims())))
    };
    let (claims, claimed) = change_locked(tenant, likely_records, rule).await?;
    tenant.claim_cache.put(claimed);
    Ok(claims)
}

/// Claims the dispatch that the request names, or a dispatch of the thread that it names.
fn claim_named(
    draft: &mut MailboxDraft<'_>,
    request: &ClaimRequest,
    decision_context: DecisionContext<'_>,
) -> Result<Claims> {
    let thread = match (&request.thread, &request.dispatch) {
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => draft.dispatch(id)?.map(|stored| stored.body.thread.clone()),
        (None, None) => None,
    };
    let Some(thread) = thread else { return Ok(Claims::none(Some(NotClaimedReason::Unknown))) };
    let single_claim = SingleClaim::of(request)?;
    draft.change(|view| mailbox::claim(view, &thread, single_claim, decision_context))?
}

/// Claims dispatches of the first ready threads, except threads that other calls have locked. If there are expired
/// leases, this function ends them instead and returns `None`. The next decision then includes their threads.
fn claim_any(
    draft: &mut MailboxDraft<'_>,
    request: &ClaimRequest,
    decision_context: DecisionContext<'_>,
) -> Result<Option<Claims>> {
    if !draft.cache.mailbox.threads_with_expired_leases.is_empty() {
        end_expired_leases(draft, decision_context)?;
        return Ok(None);
    }
    let (mut claims, single_claim) = (Claims::default(), SingleClaim::of(request)?);
    for thread in draft.cache.mailbox.ready_threads.clone() {
        claims
            .claimed
            .extend(draft.change(|view| mailbox::claim(view, &thread, single_claim, decision_context))??.claimed);
    }
    Ok(Some(claims))
}

/// Ends expired leases.
fn end_expired_leases(draft: &mut MailboxDraft<'_>, decision_context: DecisionContext<'_>) -> Result<Reclaimed> {
    let mut reclaimed = Reclaimed::default();
    for thread in draft.cache.mailbox.threads_with_expired_leases.clone() {
        reclaimed.extend(draft.change(|view| mailbox::end_expired_claim(view, &thread, decision_context))??);
    }
    Ok(reclaimed)
}

#[async_trait]
impl MailboxMaintenance for PostgresMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        let likely_records = MailboxLookup { max_expired_leases: limit, ..MailboxLookup::default() };
        let call = |tenant: Arc<Tenant>| async move {
            change_locked(&tenant, likely_records, |draft, decision_context| {
                end_expired_leases(draft, decision_context).map(Some)
            })
            .await
        };
        self.tenant.run_write(None, call).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        let call = |tenant: Arc<Tenant>| async move {
            let ids = read::ended_before(&tenant, &request).await?;
            if request.dry_run {
                return Ok(Purged::new(length(ids.len())));
            }
            change(&tenant, dispatches_lookup(&ids), |draft, decision_context| {
                let mut removed = 0;
                for id in &ids {
                    let is_removed =
                        draft.change(|view| mailbox::purge(view, id, request.before, decision_context))??;
                    removed += u64::from(is_removed);
                }
                Ok(Purged::new(removed))
            })
            .await
        };
        self.tenant.run_write(None, call).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        request.check(&self.tenant.shared.config.limits)?;
        let ids = match request.choice {
            RequeueChoice::Ids(ids) => ids,
            RequeueChoice::Filter { filter, limit } => {
                let query = DispatchQuery::new(filter.in_status([DispatchStatus::DeadLetter]));
                let page = store_core::PageRequest::first(limit);
                let dead_letters = self.list_dispatches(query.with_page(page)).await?;
                dead_letters.items.into_iter().map(|dispatch| dispatch.id).collect()
            }
        };
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, dispatches_lookup(&ids), |draft, decision_context| {
                let requeue_one = |id: &DispatchId| {
                    let requeued = draft.change(|view| mailbox::requeue(view, id, decision_context))?;
                    Ok((id.clone(), requeued))
                };
                ids.iter().map(requeue_one).collect()
            })
            .await
        };
        self.tenant.run_write(None, call).await
    }
}
