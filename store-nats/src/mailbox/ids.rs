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
//! To free the id of a purged dispatch, a message marks the id as being freed. A message about the thread must follow,
//! as after a takeover. Then the message about the id is removed.

use std::collections::{BTreeSet, HashSet};

use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use store_core::{
    DispatchId, Enqueued, Error, NewDispatch, Outcome, Result, TenantId, ThreadId,
    codec::Codec,
    commit::DecisionContext,
    length,
    mailbox::{self},
};
use tokio::time::Instant;

use super::decide_by_thread;
use crate::{
    codec::IdReservation,
    connection::WriteResult,
    decide::{Preparation, create_tenant, write_empty_message},
    log::Log,
    server_names::LogSubject,
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
    Reserve(IdReservation, u64),
    /// Write a message without changes about this thread, which had the id before, if the message with this number is
    /// still the last one about the thread.
    WriteEmptyMessage(ThreadId, u64),
}

fn next_step(tenant_state: &TenantState, id: &DispatchId, thread: &ThreadId) -> ReservationStep {
    if tenant_state.mailbox.records.get(id).is_some() {
        // The rule decides whether it is the same dispatch.
        return ReservationStep::Nothing;
    }
    let Some((record, sequence)) = tenant_state.reservations.get(id) else {
        return ReservationStep::Reserve(IdReservation { thread: thread.clone(), previous_thread: None }, 0);
    };
    let previous_thread = record
        .previous_thread
        .as_ref()
        .filter(|previous_thread| tenant_state.mailbox.last_message(previous_thread) < *sequence);
    if record.thread == *thread && !record.is_being_freed() {
        return match previous_thread {
            Some(previous_thread) => ReservationStep::WriteEmptyMessage(
                previous_thread.clone(),
                tenant_state.mailbox.last_message(previous_thread),
            ),
            None => ReservationStep::Nothing,
        };
    }
    // A record names only one previous thread, so an earlier takeover of the id is completed before the next one.
    match previous_thread {
        Some(previous_thread) if !record.is_being_freed() => ReservationStep::WriteEmptyMessage(
            previous_thread.clone(),
            tenant_state.mailbox.last_message(previous_thread),
        ),
        _ => {
            let previous_thread = Some(record.thread.clone()).filter(|previous_thread| previous_thread != thread);
            ReservationStep::Reserve(IdReservation { thread: thread.clone(), previous_thread }, *sequence)
        }
    }
}

/// The preparation of enqueues: reserves the ids that callers chose.
pub(super) struct ReserveIds;

impl Preparation<NewDispatch> for ReserveIds {
    fn prepare<'a>(&'a self, tenant: &'a Tenant, items: &'a [NewDispatch]) -> BoxFuture<'a, Result<()>> {
        reserve_ids(tenant, items).boxed()
    }

    fn is_still_valid(&self, tenant_state: Option<&TenantState>, draft: &NewDispatch, tenant: &Tenant) -> bool {
        let Some(id) = draft.id.as_ref().filter(|_| is_acceptable(tenant, draft)) else { return true };
        tenant_state
            .is_some_and(|tenant_state| matches!(next_step(tenant_state, id, &draft.thread), ReservationStep::Nothing))
    }
}

/// Whether the dispatch may be accepted. No id is reserved for a dispatch that is certain to be refused.
fn is_acceptable(tenant: &Tenant, draft: &NewDispatch) -> bool {
    let max_bytes = tenant.shared.config.limits.record_bytes;
    draft.max_attempts > 0 && draft.payload.as_ref().is_none_or(|payload| length(payload.as_str().len()) <= max_bytes)
}

pub(super) async fn enqueue(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<Vec<Result<Enqueued>>> {
    let rule = |view: &MailboxDraft<'_>, draft: &NewDispatch, decision_context: DecisionContext<'_>| {
        mailbox::enqueue(view, draft, decision_context)
    };
    let thread = |draft: &NewDispatch| Some(draft.thread.clone());
    let mut chosen_ids: HashSet<&DispatchId> = HashSet::new();
    let has_duplicates = dispatches.iter().filter_map(|draft| draft.id.as_ref()).any(|id| !chosen_ids.insert(id));
    if !has_duplicates {
        return Ok(decide_by_thread(tenant, dispatches, (thread, &ReserveIds), rule).await);
    }
    // If an id occurs twice, the dispatches are enqueued one after another, so that the first of them gets the id.
    let mut answers = Vec::new();
    for single_dispatch in dispatches.chunks(1) {
        answers.extend(decide_by_thread(tenant, single_dispatch, (thread, &ReserveIds), rule).await);
    }
    Ok(answers)
}

async fn reserve_ids(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<()> {
    let ids_to_reserve = dispatches.iter().filter(|draft| is_acceptable(tenant, draft));
    let ids_to_reserve: Vec<_> =
        ids_to_reserve.filter_map(|draft| Some((draft.id.clone()?, draft.thread.clone()))).collect();
    let started_at = Instant::now();
    loop {
        tenant.log().catch_up().await?;
        if ids_to_reserve.is_empty() {
            return Ok(());
        }
        let Some((incarnation, steps)) = needed_steps(tenant, &ids_to_reserve)? else {
            create_tenant(tenant, 0).await?;
            continue;
        };
        if steps.is_empty() {
            return Ok(());
        }
        if started_at.elapsed() > tenant.shared.config.answer_timeout {
            return Err(Error::unavailable("the ids could not be reserved in time"));
        }
        let execute = |(id, step)| execute(tenant.log(), (&tenant.name, incarnation), id, step);
        for result in stream::iter(steps).map(execute).buffer_unordered(MAX_CONCURRENCY).collect::<Vec<_>>().await {
            match result {
                // The log shows whether the message was written.
                Err(error) if error.outcome() == Outcome::Unknown => {}
                result => result?,
            }
        }
    }
}

/// The steps that are needed, each with its id.
type Steps = Vec<(DispatchId, ReservationStep)>;

/// Returns the incarnation of the tenant and the next step of each id that needs one. Returns `None` if the tenant does
/// not exist.
fn needed_steps(tenant: &Tenant, ids_to_reserve: &[(DispatchId, ThreadId)]) -> Result<Option<(u64, Steps)>> {
    let view = tenant.log().view();
    let Some(tenant_state) = tenant.tenant_state(&view)? else { return Ok(None) };
    let steps = ids_to_reserve.iter().map(|(id, thread)| (id.clone(), next_step(tenant_state, id, thread)));
    Ok(Some((
        tenant_state.record.incarnation,
        steps.filter(|(_, step)| !matches!(step, ReservationStep::Nothing)).collect(),
    )))
}

/// Executes a step. Afterwards the log shows whether the step took effect, or whether another process wrote first.
async fn execute(
    log: &Log,
    (tenant, incarnation): (&TenantId, u64),
    id: DispatchId,
    step: ReservationStep,
) -> Result<()> {
    match step {
        ReservationStep::Nothing => Ok(()),
        ReservationStep::WriteEmptyMessage(thread, last) => {
            write_empty_message(log, &LogSubject::Thread(tenant.clone(), incarnation, thread), last).await.map(drop)
        }
        ReservationStep::Reserve(record, last) => {
            let log_subject = LogSubject::ReservedId(tenant.clone(), incarnation, id.clone());
            let result = log.write(&log_subject, last, record.encode()).await?;
            let (connection, names) = (&log.connection, &log.connection.names);
            if last > 0
                && matches!(result, WriteResult::Conflict)
                && connection.load_last(&names.log_stream(), &names.subject_text(&log_subject)).await?.is_none()
                && let Some(tenant_state) = log.view_mut().tenant_state_mut(tenant, incarnation)
            {
                // The message was removed because the id was freed. The log does not show removals.
                tenant_state.forget_id(&id, last);
            }
            Ok(())
        }
    }
}

/// Removes the messages about ids under which no dispatch exists any more.
pub(crate) async fn free_ids(
    log: &std::sync::Arc<Log>,
    tenant: &TenantId,
    incarnation: u64,
    ids: &[DispatchId],
) -> Result<()> {
    let tenant_and_incarnation = (tenant, incarnation);
    log.catch_up().await?;
    let freeing_step = |tenant_state: &TenantState, id: &DispatchId| {
        let (record, sequence) =
            tenant_state.reservations.get(id).filter(|_| tenant_state.mailbox.records.get(id).is_none())?;
        let is_takeover_complete = record
            .previous_thread
            .as_ref()
            .is_none_or(|previous_thread| tenant_state.mailbox.last_message(previous_thread) > *sequence);
        let freeing_record = IdReservation::being_freed(record.thread.clone());
        (is_takeover_complete && !record.is_being_freed())
            .then_some(ReservationStep::Reserve(freeing_record, *sequence))
    };
    execute_each(log, tenant_and_incarnation, ids, freeing_step).await?;
    log.catch_up().await?;
    // One message for each thread is enough.
    let chosen_threads = std::sync::Mutex::new(BTreeSet::new());
    let empty_message_step = |tenant_state: &TenantState, id: &DispatchId| {
        let (record, sequence) = tenant_state.reservations.get(id).filter(|(record, _)| record.is_being_freed())?;
        let last = tenant_state.mailbox.last_message(&record.thread);
        let mut chosen_threads = chosen_threads.lock().ok()?;
        (last < *sequence && chosen_threads.insert(record.thread.clone()))
            .then(|| ReservationStep::WriteEmptyMessage(record.thread.clone(), last))
    };
    execute_each(log, tenant_and_incarnation, ids, empty_message_step).await?;
    log.catch_up().await?;
    let removable_ids: Vec<(DispatchId, u64)> = {
        let view = log.view();
        let Some(tenant_state) = view.tenant_state(tenant, incarnation) else { return Ok(()) };
        let removable_ids = ids.iter().filter_map(|id| {
            let (record, sequence) =
                tenant_state.reservations.get(id).filter(|_| tenant_state.mailbox.records.get(id).is_none())?;
            let has_later_message =
                record.is_being_freed() && tenant_state.mailbox.last_message(&record.thread) > *sequence;
            has_later_message.then(|| (id.clone(), *sequence))
        });
        removable_ids.collect()
    };
    let remove = |(id, sequence): (DispatchId, u64)| async move {
        log.connection.remove(&log.connection.names.log_stream(), sequence).await?;
        if let Some(tenant_state) = log.view_mut().tenant_state_mut(tenant, incarnation) {
            tenant_state.forget_id(&id, sequence);
        }
        Ok(())
    };
    stream::iter(removable_ids)
        .map(remove)
        .buffer_unordered(MAX_CONCURRENCY)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect()
}

/// Executes a step for each id that needs one.
async fn execute_each(
    log: &Log,
    tenant_and_incarnation: (&TenantId, u64),
    ids: &[DispatchId],
    step_for: impl Fn(&TenantState, &DispatchId) -> Option<ReservationStep> + Send,
) -> Result<()> {
    let (tenant, incarnation) = tenant_and_incarnation;
    let steps: Steps = {
        let view = log.view();
        let Some(tenant_state) = view.tenant_state(tenant, incarnation) else {
            return Ok(());
        };
        ids.iter().filter_map(|id| Some((id.clone(), step_for(tenant_state, id)?))).collect()
    };
    let results = stream::iter(steps)
        .map(|(id, step)| execute(log, tenant_and_incarnation, id, step))
        .buffer_unordered(MAX_CONCURRENCY);
    results.collect::<Vec<_>>().await.into_iter().collect()
}
