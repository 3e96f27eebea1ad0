//! Enqueues, and ids that callers choose.
//!
//! A dispatch is enqueued by one message about its thread, but its id must be unique in the whole tenant. A caller that
//! chooses the id therefore reserves it first: it writes a message about the id, which names the thread. The decision
//! to enqueue is made at a position of the log at which the id is still reserved for that thread.
//!
//! If an id is reserved for a thread that has no dispatch with this id, another thread may take over the id. From then
//! on, a caller that has reserved the id for the previous thread must not enqueue under it any more. To ensure that, a
//! message about the previous thread must follow the takeover in the log. If no other message does, one without changes
//! is written. The server then refuses decisions about the previous thread that were made before the takeover.
//! Decisions that are made after it take it into account.
//!
//! An id whose dispatch was purged is freed in the same way. After that the message about the id is removed.

use std::collections::{BTreeSet, HashSet};

use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use store_core::{
    DispatchId, Enqueued, Error, NewDispatch, Outcome, Result, TenantId, ThreadId,
    codec::Codec,
    commit::Setting,
    length,
    mailbox::{self},
};
use tokio::time::Instant;

use super::grouped;
use crate::{
    codec::IdRecord,
    connection::Written,
    decide::{Prepare, create, fence},
    key::Key,
    log::Log,
    tenant::Tenant,
    view::{MailboxDraft, TenantState},
};

/// The largest number of ids that are written concurrently.
const MAX_CONCURRENCY: usize = 32;

/// The next step before a dispatch can be enqueued under an id.
#[derive(Debug)]
enum ReservationStep {
    /// No step is needed.
    Nothing,
    /// Write this record, if the message with this number is still the last one about the id.
    Reserve(IdRecord, u64),
    /// Write a message without changes about this thread, which had the id before, if the message with this number is
    /// still the last one about the thread.
    Fence(ThreadId, u64),
}

fn next(tenant_state: &TenantState, id: &DispatchId, thread: &ThreadId) -> ReservationStep {
    if tenant_state.mailbox.map.get(id).is_some() {
        // The rule decides whether it is the same dispatch.
        return ReservationStep::Nothing;
    }
    let Some((record, at)) = tenant_state.ids.get(id) else {
        return ReservationStep::Reserve(IdRecord { thread: thread.clone(), from: None }, 0);
    };
    let from = record.from.as_ref().filter(|from| tenant_state.mailbox.last_message(from) < *at);
    if record.thread == *thread && !record.is_free() {
        return match from {
            Some(from) => ReservationStep::Fence(from.clone(), tenant_state.mailbox.last_message(from)),
            None => ReservationStep::Nothing,
        };
    }
    match from {
        Some(from) if !record.is_free() => {
            ReservationStep::Fence(from.clone(), tenant_state.mailbox.last_message(from))
        }
        _ => {
            let from = Some(record.thread.clone()).filter(|from| from != thread);
            ReservationStep::Reserve(IdRecord { thread: thread.clone(), from }, *at)
        }
    }
}

/// The preparation of enqueues: reserves the ids that callers chose.
pub(super) struct Ids;

impl Prepare<NewDispatch> for Ids {
    fn before<'a>(&'a self, tenant: &'a Tenant, items: &'a [NewDispatch]) -> BoxFuture<'a, Result<()>> {
        prepare(tenant, items).boxed()
    }

    fn holds(&self, tenant_state: Option<&TenantState>, new: &NewDispatch, tenant: &Tenant) -> bool {
        let Some(id) = new.id.as_ref().filter(|_| is_acceptable(tenant, new)) else { return true };
        tenant_state.is_some_and(|tenant_state| matches!(next(tenant_state, id, &new.thread), ReservationStep::Nothing))
    }
}

/// Whether the dispatch may be accepted. For one that will be refused, no id is reserved.
fn is_acceptable(tenant: &Tenant, new: &NewDispatch) -> bool {
    let largest = tenant.common.config.limits.record_bytes;
    new.max_attempts > 0 && new.payload.as_ref().is_none_or(|payload| length(payload.as_str().len()) <= largest)
}

pub(super) async fn enqueue(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<Vec<Result<Enqueued>>> {
    let rule = |view: &MailboxDraft<'_>, new: &NewDispatch, setting: Setting<'_>| mailbox::enqueue(view, new, setting);
    let thread = |new: &NewDispatch| Some(new.thread.clone());
    let mut given: HashSet<&DispatchId> = HashSet::new();
    let is_twice = dispatches.iter().filter_map(|new| new.id.as_ref()).any(|id| !given.insert(id));
    if !is_twice {
        return Ok(grouped(tenant, dispatches, (thread, &Ids), rule).await);
    }
    // If an id occurs twice, the dispatches are enqueued one after the other, so that the first one gets the id.
    let mut answers = Vec::new();
    for new in dispatches.chunks(1) {
        answers.extend(grouped(tenant, new, (thread, &Ids), rule).await);
    }
    Ok(answers)
}

async fn prepare(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<()> {
    let wanted = dispatches.iter().filter(|new| is_acceptable(tenant, new));
    let wanted: Vec<_> = wanted.filter_map(|new| Some((new.id.clone()?, new.thread.clone()))).collect();
    let begun = Instant::now();
    loop {
        tenant.log().catch_up().await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let Some((incarnation, steps)) = steps(tenant, &wanted)? else {
            create(tenant).await?;
            continue;
        };
        if steps.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > tenant.common.config.deadline {
            return Err(Error::unavailable("other callers kept using the same ids"));
        }
        let make = |(id, next)| make(tenant.log(), (&tenant.name, incarnation), id, next);
        for made in stream::iter(steps).map(make).buffer_unordered(MAX_CONCURRENCY).collect::<Vec<_>>().await {
            match made {
                // The log shows whether it was written.
                Err(error) if error.outcome() == Outcome::Unknown => {}
                made => made?,
            }
        }
    }
}

type Steps = Vec<(DispatchId, ReservationStep)>;

fn steps(tenant: &Tenant, wanted: &[(DispatchId, ThreadId)]) -> Result<Option<(u64, Steps)>> {
    let view = tenant.log().view();
    let Some(tenant_state) = tenant.tenant_state(&view)? else { return Ok(None) };
    let steps = wanted.iter().map(|(id, thread)| (id.clone(), next(tenant_state, id, thread)));
    Ok(Some((
        tenant_state.record.incarnation,
        steps.filter(|(_, next)| !matches!(next, ReservationStep::Nothing)).collect(),
    )))
}

/// Executes a step. Afterwards the log shows whether the step took effect, or whether another process wrote first.
async fn make(log: &Log, (tenant, incarnation): (&TenantId, u64), id: DispatchId, next: ReservationStep) -> Result<()> {
    match next {
        ReservationStep::Nothing => Ok(()),
        ReservationStep::Fence(thread, last) => {
            fence(log, &Key::Thread(tenant.clone(), incarnation, thread), last).await.map(drop)
        }
        ReservationStep::Reserve(record, last) => {
            let key = Key::Id(tenant.clone(), incarnation, id.clone());
            let written = log.write(&key, last, record.encode()).await?;
            let (connection, keys) = (&log.connection, &log.connection.keys);
            if last > 0
                && matches!(written, Written::Conflict)
                && connection.load_last(&keys.log(), &keys.subject(&key)).await?.is_none()
                && let Some(tenant_state) = log.view_mut().tenant_state_mut(tenant, incarnation)
            {
                // The message was removed because the id was freed, which the log does not show.
                tenant_state.forget_id(&id, last);
            }
            Ok(())
        }
    }
}

/// Removes the messages about ids under which no dispatch exists any more.
pub(crate) async fn free(
    log: &std::sync::Arc<Log>,
    tenant: &TenantId,
    incarnation: u64,
    ids: &[DispatchId],
) -> Result<()> {
    let of = (tenant, incarnation);
    log.catch_up().await?;
    let say = |tenant_state: &TenantState, id: &DispatchId| {
        let (record, at) = tenant_state.ids.get(id).filter(|_| tenant_state.mailbox.map.get(id).is_none())?;
        let from = Some(record.thread.clone());
        let is_settled = record.from.as_ref().is_none_or(|from| tenant_state.mailbox.last_message(from) > *at);
        let free = IdRecord { thread: record.thread.clone(), from };
        (is_settled && !record.is_free()).then_some(ReservationStep::Reserve(free, *at))
    };
    each(log, of, ids, say).await?;
    log.catch_up().await?;
    let fenced = std::sync::Mutex::new(BTreeSet::new());
    let fence = |tenant_state: &TenantState, id: &DispatchId| {
        let (record, at) = tenant_state.ids.get(id).filter(|(record, _)| record.is_free())?;
        let last = tenant_state.mailbox.last_message(&record.thread);
        let mut fenced = fenced.lock().ok()?;
        (last < *at && fenced.insert(record.thread.clone()))
            .then(|| ReservationStep::Fence(record.thread.clone(), last))
    };
    each(log, of, ids, fence).await?;
    log.catch_up().await?;
    let unused: Vec<(DispatchId, u64)> = {
        let view = log.view();
        let Some(tenant_state) = view.tenant_state(tenant, incarnation) else { return Ok(()) };
        let unused = ids.iter().filter_map(|id| {
            let (record, at) = tenant_state.ids.get(id).filter(|_| tenant_state.mailbox.map.get(id).is_none())?;
            let is_fenced = record.is_free() && tenant_state.mailbox.last_message(&record.thread) > *at;
            is_fenced.then(|| (id.clone(), *at))
        });
        unused.collect()
    };
    let remove = |(id, at): (DispatchId, u64)| async move {
        log.connection.remove(&log.connection.keys.log(), at).await?;
        if let Some(tenant_state) = log.view_mut().tenant_state_mut(tenant, incarnation) {
            tenant_state.forget_id(&id, at);
        }
        Ok(())
    };
    stream::iter(unused).map(remove).buffer_unordered(MAX_CONCURRENCY).collect::<Vec<_>>().await.into_iter().collect()
}

/// Executes a step for each id that needs one.
async fn each(
    log: &Log,
    of: (&TenantId, u64),
    ids: &[DispatchId],
    next: impl Fn(&TenantState, &DispatchId) -> Option<ReservationStep> + Send,
) -> Result<()> {
    let steps: Steps = {
        let view = log.view();
        let Some(tenant_state) = view.tenant_state(of.0, of.1) else { return Ok(()) };
        ids.iter().filter_map(|id| Some((id.clone(), next(tenant_state, id)?))).collect()
    };
    let made = stream::iter(steps).map(|(id, next)| make(log, of, id, next)).buffer_unordered(MAX_CONCURRENCY);
    made.collect::<Vec<_>>().await.into_iter().collect()
}
