//! The mailbox: enqueueing, claiming and settling dispatches, and waiting for them.

mod ids;
mod read;
mod wake;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

pub(crate) use self::ids::free_ids;
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchId, DispatchQuery, DispatchStatus, Enqueued,
    Error, ErrorKind, InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer,
    MailboxReader, NewDispatch, NotClaimedReason, Purge, Purged, Reclaimed, Requeue, RequeueChoice, Result, Settled,
    Settlement, ThreadId, UnreadableThread,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxDecision, SingleClaim},
};

use crate::{
    decide::{Answer, CancelledDispatch, CatchUpOnly, DecisionCall, Preparation},
    store::TenantHandle,
    tenant::Tenant,
    view::MailboxDraft,
};

/// The largest number of expired claims that one call of `claim` ends. The next call ends the rest.
const MAX_EXPIRED_CLAIMS: usize = 1_000;
/// The largest number of threads about which one call makes decisions at the same time.
const MAX_CONCURRENCY: usize = 16;
/// The largest number of rounds of a claim. A further round is needed if other callers change the ready threads first.
const MAX_CLAIM_ROUNDS: u32 = 50;

/// The mailbox of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct NatsMailbox {
    tenant: TenantHandle,
}

impl NatsMailbox {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    /// Makes one decision about a dispatch.
    async fn decide_one<T: Answer + 'static>(
        &self,
        id: &DispatchId,
        rule: impl Fn(&MailboxDraft<'_>, &DispatchId, DecisionContext<'_>) -> Result<MailboxDecision<T>>
        + Send
        + Sync
        + 'static,
    ) -> Result<T> {
        let items = vec![id.clone()];
        let call = |tenant: Arc<Tenant>| async move {
            let answers = decide_by_dispatch(&tenant, &items, DispatchId::clone, rule).await?;
            answers.into_iter().next().unwrap_or_else(|| Err(Error::closed()))
        };
        self.tenant.write(None, call).await
    }
}

/// Makes a decision about each item, with one call for each thread and several calls at the same time. The answers are
/// in the order of the items.
pub(crate) async fn decide_by_thread<I: Clone + Send + Sync, T: Answer>(
    tenant: &Tenant,
    items: &[I],
    (thread_of, preparation): (impl Fn(&I) -> Option<ThreadId> + Send, &impl Preparation<I>),
    rule: impl Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync,
) -> Vec<Result<T>> {
    let mut groups: Vec<(Option<ThreadId>, Vec<usize>)> = Vec::new();
    let mut group_indexes: HashMap<Option<ThreadId>, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let thread = thread_of(item);
        let group_index = *group_indexes.entry(thread.clone()).or_insert_with(|| {
            groups.push((thread, Vec::new()));
            groups.len() - 1
        });
        groups.iter_mut().skip(group_index).take(1).for_each(|(_, member_indexes)| member_indexes.push(index));
    }
    let rule = &rule;
    let decide = |(thread, member_indexes): (Option<ThreadId>, Vec<usize>)| async move {
        let group_items: Vec<I> = member_indexes.iter().filter_map(|index| items.get(*index).cloned()).collect();
        let call = DecisionCall { tenant, thread: thread.as_ref(), items: &group_items, rule, preparation };
        let answers = call.decide().await;
        member_indexes.into_iter().zip(answers).collect::<Vec<_>>()
    };
    let answers_by_group = stream::iter(groups).map(decide).buffer_unordered(MAX_CONCURRENCY).collect::<Vec<_>>().await;
    let mut answers: Vec<(usize, Result<T>)> = answers_by_group.into_iter().flatten().collect();
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Makes a decision about each item, which names a dispatch. The thread of the dispatch is looked up first.
async fn decide_by_dispatch<I: Clone + Send + Sync, T: Answer>(
    tenant: &Tenant,
    items: &[I],
    id_of: impl Fn(&I) -> DispatchId + Send + Sync,
    rule: impl Fn(&MailboxDraft<'_>, &I, DecisionContext<'_>) -> Result<MailboxDecision<T>> + Send + Sync,
) -> Result<Vec<Result<T>>> {
    tenant.log().catch_up().await?;
    let threads: HashMap<DispatchId, ThreadId> = {
        let view = tenant.log().view();
        let tenant_state = tenant.tenant_state(&view)?;
        let ids_and_threads = items.iter().map(&id_of).filter_map(|id| {
            let thread = tenant_state?.mailbox.records.get(&id)?.body.thread.clone();
            Some((id, thread))
        });
        ids_and_threads.collect()
    };
    Ok(decide_by_thread(tenant, items, (|item: &I| threads.get(&id_of(item)).cloned(), &CatchUpOnly), rule).await)
}

async fn settle(tenant: &Tenant, settlements: &[(ClaimRef, Settlement)]) -> Result<Vec<Result<Settled>>> {
    decide_by_dispatch(
        tenant,
        settlements,
        |(claim, _)| claim.dispatch.clone(),
        |view, (claim, settlement), decision_context| mailbox::settle(view, claim, settlement, decision_context),
    )
    .await
}

#[async_trait]
impl MailboxProducer for NatsMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        mailbox::check_item_count(dispatches.len(), &self.tenant.shared.config.limits)?;
        self.tenant.write(None, |tenant| async move { ids::enqueue(&tenant, &dispatches).await }).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        let rule = |view: &MailboxDraft<'_>, id: &DispatchId, decision_context: DecisionContext<'_>| {
            mailbox::cancel(view, id, decision_context).map(|decision| decision.map(CancelledDispatch))
        };
        self.decide_one(id, rule).await.map(|CancelledDispatch(dispatch)| dispatch)
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        let thread_of_call = Some(request.thread.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let items = [request];
            let rule = |view: &MailboxDraft<'_>, request: &Interrupt, decision_context: DecisionContext<'_>| {
                mailbox::interrupt(view, request, decision_context)
            };
            let thread = items.first().map(|request| &request.thread);
            let answers =
                DecisionCall { tenant: &tenant, thread, items: &items, rule, preparation: &CatchUpOnly }.decide().await;
            answers.into_iter().next().unwrap_or_else(|| Err(Error::closed()))
        };
        self.tenant.write(thread_of_call, call).await
    }
}

#[async_trait]
impl MailboxConsumer for NatsMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        // This only checks the request. The call below makes the claims.
        SingleClaim::of(&request)?;
        let call = |tenant: Arc<Tenant>| async move { claim(&tenant, &request).await };
        let release = |tenant: Arc<Tenant>, claims: Claims| async move {
            let releases: Vec<_> =
                claims.claimed.iter().map(|claimed_dispatch| (claimed_dispatch.claim(), Settlement::Release)).collect();
            if !releases.is_empty() {
                let _results = settle(&tenant, &releases).await;
            }
        };
        self.tenant.claim(call, release).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        let claim_ref = claim.clone();
        self.decide_one(&claim.dispatch, move |view, _, decision_context| {
            mailbox::extend(view, &claim_ref, by, decision_context)
        })
        .await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        let claim_ref = claim.clone();
        self.decide_one(&claim.dispatch, move |view, _, decision_context| {
            mailbox::start(view, &claim_ref, &instance, decision_context)
        })
        .await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        mailbox::check_item_count(settlements.len(), &self.tenant.shared.config.limits)?;
        self.tenant.write(None, |tenant| async move { settle(&tenant, &settlements).await }).await
    }
}

async fn claim(tenant: &Tenant, request: &ClaimRequest) -> Result<Claims> {
    let named_thread = match (&request.thread, &request.dispatch) {
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => {
            tenant.log().catch_up().await?;
            let view = tenant.log().view();
            let stored = tenant.tenant_state(&view)?.and_then(|tenant_state| tenant_state.mailbox.records.get(id));
            let Some(stored) = stored else { return Ok(Claims::none(Some(NotClaimedReason::Unknown))) };
            Some(stored.body.thread.clone())
        }
        (None, None) => None,
    };
    let Some(thread) = named_thread else { return claim_any(tenant, request).await };
    let rule = |view: &MailboxDraft<'_>, request: &ClaimRequest, decision_context: DecisionContext<'_>| {
        mailbox::claim(view, &thread, SingleClaim::of(request)?, decision_context)
    };
    let items = std::slice::from_ref(request);
    let answers = DecisionCall { tenant, thread: Some(&thread), items, rule, preparation: &CatchUpOnly }.decide().await;
    answers.into_iter().next().unwrap_or_else(|| Err(Error::closed()))
}

/// Claims dispatches of ready threads, in the order in which `ready_threads` returns the threads. Ends expired claims
/// first, so that their threads are ready as well.
async fn claim_any(tenant: &Tenant, request: &ClaimRequest) -> Result<Claims> {
    let mut claims = Claims::default();
    tenant.log().catch_up().await?;
    if !end_expired_claims(tenant, MAX_EXPIRED_CLAIMS).await?.is_empty() {
        tenant.log().catch_up().await?;
    }
    let (mut tried_threads, mut left_out_threads) = (HashSet::new(), HashSet::new());
    for _ in 0..MAX_CLAIM_ROUNDS {
        let max_count = request.limit as usize - claims.claimed.len();
        let threads = ready_threads(tenant, max_count, |thread| {
            !tried_threads.contains(thread) && !left_out_threads.contains(thread)
        })?;
        // Either no thread is ready, or the call already has claims and need not try the same threads again.
        if threads.is_empty() && (tried_threads.is_empty() || !claims.claimed.is_empty()) {
            break;
        }
        if threads.is_empty() {
            // Other callers changed all ready threads first. Some of these threads may still be ready.
            tried_threads.clear();
            tenant.log().catch_up().await?;
            continue;
        }
        let mut last_error = None;
        for (thread, result) in claim_from_each(tenant, request, threads).await {
            match result {
                Ok(claims_of_thread) => claims.claimed.extend(claims_of_thread.unwrap_or_default().claimed),
                // The payload, or another visible part of the dispatch, is lost (MB-55).
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    claims.unreadable.push(UnreadableThread::new(thread.clone(), error));
                    left_out_threads.insert(thread);
                    continue;
                }
                Err(error) => last_error = Some(error),
            }
            tried_threads.insert(thread);
        }
        match last_error {
            Some(error) if claims.claimed.is_empty() => return Err(error),
            // The claims made so far are returned. The next claim finds the remaining threads again.
            Some(_) => return Ok(claims),
            None => {}
        }
        if claims.claimed.len() >= request.limit as usize {
            break;
        }
    }
    let view = tenant.log().view();
    claims
        .unreadable
        .extend(tenant.tenant_state(&view)?.iter().flat_map(|tenant_state| tenant_state.mailbox.records.unreadable()));
    Ok(claims)
}

/// Returns the first ready threads for which `is_wanted` returns true, at most `max_count` of them.
fn ready_threads(tenant: &Tenant, max_count: usize, is_wanted: impl Fn(&ThreadId) -> bool) -> Result<Vec<ThreadId>> {
    let now = tenant.log().now()?;
    let Some(incarnation) =
        tenant.tenant_state(&tenant.log().view())?.map(|tenant_state| tenant_state.record.incarnation)
    else {
        return Ok(Vec::new());
    };
    let mut view = tenant.log().view_mut();
    let Some(tenant_state) = view.tenant_state_mut(&tenant.name, incarnation) else { return Err(Error::closed()) };
    tenant_state.mailbox.records.promote_due(now);
    let threads = tenant_state.mailbox.records.ready_threads(None).map(|(_, _, thread)| thread);
    Ok(threads.filter(|thread| is_wanted(thread)).take(max_count).cloned().collect())
}

/// Claims from each of these threads. The results are in the order of the threads. The result is `None` for a thread
/// that another caller is changing.
async fn claim_from_each(
    tenant: &Tenant,
    request: &ClaimRequest,
    threads: Vec<ThreadId>,
) -> Vec<(ThreadId, Result<Option<Claims>>)> {
    let claim_one = |thread: ThreadId| async move {
        let lock = tenant.decision_lock(&thread);
        let Ok(_guard) = lock.try_lock() else { return (thread, Ok(None)) };
        let rule = |view: &MailboxDraft<'_>, request: &ClaimRequest, decision_context: DecisionContext<'_>| {
            mailbox::claim(view, &thread, SingleClaim::of(request)?, decision_context)
        };
        let items = std::slice::from_ref(request);
        let result =
            DecisionCall { tenant, thread: Some(&thread), items, rule, preparation: &CatchUpOnly }.decide_once().await;
        (thread, result)
    };
    stream::iter(threads).map(claim_one).buffered(MAX_CONCURRENCY).collect().await
}

/// Ends claims whose lease has expired. If another caller ends a claim at the same time, the result of this call does
/// not contain its dispatch.
async fn end_expired_claims(tenant: &Tenant, limit: usize) -> Result<Reclaimed> {
    let now = tenant.log().now()?;
    let expired_threads = {
        let view = tenant.log().view();
        tenant
            .tenant_state(&view)?
            .map(|tenant_state| tenant_state.mailbox.records.threads_with_expired_lease(now, limit))
            .unwrap_or_default()
    };
    let end_one = |thread: ThreadId| async move {
        let lock = tenant.decision_lock(&thread);
        let _guard = lock.lock().await;
        let rule = |view: &MailboxDraft<'_>, thread: &ThreadId, decision_context: DecisionContext<'_>| {
            mailbox::end_expired_claim(view, thread, decision_context)
        };
        let items = std::slice::from_ref(&thread);
        DecisionCall { tenant, thread: Some(&thread), items, rule, preparation: &CatchUpOnly }.decide_once().await
    };
    let results = stream::iter(expired_threads).map(end_one).buffered(MAX_CONCURRENCY).collect::<Vec<_>>().await;
    let mut reclaimed = Reclaimed::default();
    let mut last_error = None;
    for result in results {
        match result {
            Ok(reclaimed_dispatches) => reclaimed.extend(reclaimed_dispatches.unwrap_or_default()),
            // An unreadable thread does not prevent the others from being reclaimed.
            Err(error) if error.kind() == ErrorKind::Corrupt => {}
            Err(error) => last_error = Some(error),
        }
    }
    match last_error {
        // If some claims were ended, the call reports them and drops the error.
        Some(error) if reclaimed.is_empty() => Err(error),
        _ => Ok(reclaimed),
    }
}

#[async_trait]
impl MailboxMaintenance for NatsMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        let call = |tenant: Arc<Tenant>| async move {
            tenant.log().catch_up().await?;
            end_expired_claims(&tenant, limit as usize).await
        };
        self.tenant.write(None, call).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        request.check()?;
        let call = |tenant: Arc<Tenant>| async move {
            tenant.log().catch_up().await?;
            let ids = read::dispatches_to_purge(&tenant, &request)?;
            if request.dry_run {
                return Ok(Purged::new(length(ids.len())));
            }
            let before = request.before;
            let rule = |view: &MailboxDraft<'_>, id: &DispatchId, decision_context: DecisionContext<'_>| {
                mailbox::purge(view, id, before, decision_context)
            };
            let (mut removed_count, mut last_error) = (0, None);
            for result in decide_by_dispatch(&tenant, &ids, DispatchId::clone, rule).await? {
                match result {
                    Ok(is_removed) => removed_count += u64::from(is_removed),
                    Err(error) => last_error = Some(error),
                }
            }
            match last_error {
                Some(error) if removed_count == 0 => Err(error),
                _ => Ok(Purged::new(removed_count)),
            }
        };
        self.tenant.write(None, call).await
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
            let rule = |view: &MailboxDraft<'_>, id: &DispatchId, decision_context: DecisionContext<'_>| {
                mailbox::requeue(view, id, decision_context)
            };
            let answers = decide_by_dispatch(&tenant, &ids, DispatchId::clone, rule).await?;
            Ok(ids.into_iter().zip(answers).collect())
        };
        self.tenant.write(None, call).await
    }
}
