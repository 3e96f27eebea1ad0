//! The rules of enqueues, cancels and interrupts.

use std::sync::Arc;

use super::{MailboxDecision, MailboxView, plan_builder::PlanBuilder, visible_dispatch};
use crate::{
    claim::{ClaimToken, Fence},
    codec::{Extra, ObjectWriter, sha256_hex},
    commit::DecisionContext,
    error::{Error, Result},
    id::DispatchId,
    limits::{Limits, check_limit, truncate_text},
    mailbox::{
        AttemptEnd, Dispatch, DispatchAct, DispatchBody, DispatchStatus, Enqueued, Interrupt, InterruptRef,
        Interrupted, NewDispatch, StoredDispatch, StoredInterrupt, TakeOver, When, rules::claim::end_lease,
    },
};

/// The number of interrupt keys that are remembered for a thread (MB-12).
const MAX_INTERRUPT_KEYS: usize = 20;

/// A dispatch to be enqueued, with the digest of everything that the caller gave.
///
/// The digest can be computed without the store. A backend in which one OS thread makes all decisions can compute it in
/// another thread.
#[derive(Debug)]
pub struct PreparedEnqueue {
    draft: NewDispatch,
    digest: String,
}

impl PreparedEnqueue {
    /// Computes the digest of a dispatch that a caller wants to enqueue.
    #[must_use]
    pub fn of(draft: NewDispatch) -> Self {
        // Computing the digest copies the payload. Every store refuses a payload above this limit, so its digest is
        // never needed (ER-9).
        let may_be_accepted = draft.payload_bytes() <= Limits::default().record_bytes;
        let digest = if may_be_accepted { new_dispatch_digest(&draft) } else { String::new() };
        Self { draft, digest }
    }
}

/// Enqueues a dispatch, or returns why it is refused (MB-1 to MB-9).
///
/// # Errors
/// Any error of the view.
pub fn enqueue(
    view: &(impl MailboxView + ?Sized),
    draft: &NewDispatch,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Enqueued>> {
    enqueue_prepared(view, &PreparedEnqueue::of(draft.clone()), decision_context)
}

/// Enqueues a dispatch whose digest was computed before, in the same way as [`enqueue`].
///
/// # Errors
/// Any error of the view.
pub fn enqueue_prepared(
    view: &(impl MailboxView + ?Sized),
    prepared: &PreparedEnqueue,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Enqueued>> {
    let PreparedEnqueue { draft, digest } = prepared;
    let refuse = |error| Ok(MailboxDecision::unchanged(Err(error)));
    if let Err(error) = check_new_dispatch(draft, decision_context.limits) {
        return refuse(error);
    }
    if let Some(id) = &draft.id
        && let Some(stored) = view.dispatch(id)?
    {
        return match stored.body.digest == *digest {
            true => {
                Ok(MailboxDecision::unchanged(Ok(Enqueued { deduplicated: true, ..enqueued_answer(&stored.body) })))
            }
            false => refuse(Error::already_exists("dispatch", id)),
        };
    }
    let mut builder = PlanBuilder::open(view, &draft.thread, decision_context.now)?;
    if let (Some(key), Some(holder)) = (&draft.dedupe_key, key_holder(&mut builder, draft)?) {
        return refuse(Error::key_taken(key, "dispatch", holder));
    }
    let id = match &draft.id {
        Some(id) => id.clone(),
        None => DispatchId::new(decision_context.ids.next_id())?,
    };
    let now = builder.now;
    let mailbox = builder.mailbox_mut();
    mailbox.last_number += 1;
    let body = Arc::new(DispatchBody {
        id,
        thread: draft.thread.clone(),
        run: draft.run.clone(),
        payload: draft.payload.clone(),
        priority: draft.priority,
        dedupe_key: draft.dedupe_key.clone(),
        available_at: draft.available.to_time(now),
        max_attempts: draft.max_attempts,
        epoch: mailbox.epoch,
        number: mailbox.last_number,
        created_at: now,
        digest: digest.clone(),
        extra: Extra::default(),
    });
    let enqueued = enqueued_answer(&body);
    builder.add_to_queue(StoredDispatch::enqueued(body));
    Ok(builder.finish(Ok(enqueued)))
}

/// Refuses a dispatch that no store with these limits can accept.
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check_new_dispatch(draft: &NewDispatch, limits: &Limits) -> Result<()> {
    if draft.max_attempts == 0 {
        return Err(Error::invalid("max_attempts", "it must be 1 or more"));
    }
    check_limit("record bytes", draft.payload_bytes(), limits.record_bytes)
}

fn enqueued_answer(body: &DispatchBody) -> Enqueued {
    Enqueued {
        id: body.id.clone(),
        thread: body.thread.clone(),
        number: body.number,
        epoch: body.epoch,
        available_at: body.available_at,
        created_at: body.created_at,
        deduplicated: false,
    }
}

/// Returns the digest of everything that the caller gave.
fn new_dispatch_digest(draft: &NewDispatch) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    object
        .field("thread", &draft.thread)
        .field("run", &draft.run)
        .maybe("payload", draft.payload.as_ref())
        .field("priority", &draft.priority)
        .maybe("dedupe_key", draft.dedupe_key.as_ref())
        .field("max_attempts", &draft.max_attempts);
    match draft.available {
        When::Now => {}
        When::At(time) => drop(object.field("at", &time)),
        When::In(delay) => drop(object.field("in", &delay.as_nanos().to_string())),
    }
    object.close();
    format!("1:{}", sha256_hex(&text))
}

/// Returns the dispatch that holds the dedupe key of a new dispatch. If the lease of that dispatch has expired, its
/// attempt is ended first, as it would be by a new claim (MB-29).
fn key_holder<V: MailboxView + ?Sized>(
    builder: &mut PlanBuilder<'_, V>,
    draft: &NewDispatch,
) -> Result<Option<DispatchId>> {
    let Some(key) = &draft.dedupe_key else { return Ok(None) };
    let Some(id) = builder.view.last_dispatch_with_key(&draft.thread, key)? else { return Ok(None) };
    let Some(stored) = builder.view.dispatch(&id)? else { return Ok(None) };
    let mut status = builder.machine_state(&stored).visible_status();
    if status == Some(DispatchStatus::Claimed) && builder.is_lease_expired() {
        status = Some(end_lease(builder, stored)?.state.status);
    }
    let is_held = matches!(status, Some(DispatchStatus::Queued | DispatchStatus::Claimed));
    Ok(is_held.then_some(id))
}

/// Cancels a queued dispatch, or returns why that is refused (MB-11).
///
/// # Errors
/// Any error of the view.
pub fn cancel(
    view: &(impl MailboxView + ?Sized),
    id: &DispatchId,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Dispatch>> {
    let Some(mut stored) = view.dispatch(id)? else {
        return Ok(MailboxDecision::unchanged(Err(Error::not_found("dispatch", id))));
    };
    let mut builder = PlanBuilder::open(view, &stored.body.thread, decision_context.now)?;
    if let Err(error) = builder.apply_act(&mut stored, DispatchAct::Cancel) {
        return Ok(MailboxDecision::unchanged(Err(error)));
    }
    let dispatch = visible_dispatch(view, &stored)?;
    builder.put_dispatch(stored);
    Ok(builder.finish(Ok(dispatch)))
}

/// Interrupts a thread (MB-12, MB-13, MB-53).
///
/// # Errors
/// Any error of the view.
pub fn interrupt(
    view: &(impl MailboxView + ?Sized),
    request: &Interrupt,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Interrupted>> {
    let mut builder = PlanBuilder::open(view, &request.thread, decision_context.now)?;
    let previous_interrupt = builder.interrupt(builder.mailbox().epoch)?;
    let mut recent_keys =
        previous_interrupt.as_ref().map(|previous_interrupt| previous_interrupt.recent.clone()).unwrap_or_default();
    let interrupt_ref = recent_keys.iter().find(|interrupt_ref| Some(&interrupt_ref.key) == request.key.as_ref());
    if let Some(first_interrupt) =
        interrupt_ref.map(|interrupt_ref| builder.interrupt(interrupt_ref.epoch)).transpose()?.flatten()
    {
        let answer = Interrupted { deduplicated: true, ..interrupt_answer(&first_interrupt) };
        return Ok(MailboxDecision::unchanged(Ok(answer)));
    }
    let current_claim = builder.mailbox().running.clone();
    let (now, old_epoch) = (builder.now, builder.mailbox().epoch);
    let take_over = if request.take_over { Some(take_over(&mut builder, request, decision_context)?) } else { None };
    let mailbox = builder.mailbox_mut();
    let superseded = std::mem::take(&mut mailbox.counts.queued);
    mailbox.counts.superseded += superseded;
    mailbox.epoch += 1;
    let epoch = mailbox.epoch;
    // A claim of the old epoch needs this interrupt: when the claim ends, its dispatch shows the reason.
    let is_still_held =
        current_claim.as_ref().is_some_and(|current_claim| current_claim.epoch == old_epoch && take_over.is_none());
    let kept = if request.forget { usize::from(request.key.is_some()) } else { MAX_INTERRUPT_KEYS };
    if let Some(key) = &request.key {
        recent_keys.push(InterruptRef { key: key.clone(), epoch, extra: Extra::default() });
    }
    // These interrupts may not be needed any more: those whose keys are forgotten now, and the one that was the newest.
    let forgotten_epochs =
        recent_keys.drain(..recent_keys.len().saturating_sub(kept)).map(|interrupt_ref| interrupt_ref.epoch);
    let epochs_to_check: Vec<_> =
        forgotten_epochs.chain(previous_interrupt.map(|previous_interrupt| previous_interrupt.epoch)).collect();
    let interrupt = StoredInterrupt {
        epoch,
        at: now,
        reason: truncated_reason(request, decision_context.limits),
        superseded,
        claimed: current_claim.map(|current_claim| current_claim.dispatch),
        take_over,
        holds: superseded + u64::from(is_still_held),
        recent: recent_keys,
        extra: Extra::default(),
    };
    let answer = interrupt_answer(&interrupt);
    builder.put_interrupt(epoch, Some(interrupt));
    for epoch in epochs_to_check {
        if let Some(earlier_interrupt) = builder.interrupt(epoch)?
            && !builder.is_interrupt_needed(&earlier_interrupt)?
        {
            builder.put_interrupt(epoch, None);
        }
    }
    Ok(builder.finish(Ok(answer)))
}

fn truncated_reason(request: &Interrupt, limits: &Limits) -> Option<String> {
    request.reason.clone().map(|mut reason| {
        truncate_text(&mut reason, limits);
        reason
    })
}

/// Ends the claimed dispatch of the thread, if there is one, and takes the next claim number.
fn take_over<V: MailboxView + ?Sized>(
    builder: &mut PlanBuilder<'_, V>,
    request: &Interrupt,
    decision_context: DecisionContext<'_>,
) -> Result<TakeOver> {
    let running_dispatch = match &builder.mailbox().running {
        Some(current_claim) => builder.view.dispatch(&current_claim.dispatch)?,
        None => None,
    };
    let dispatch = match running_dispatch {
        Some(mut stored) if stored.state.epoch < builder.mailbox().epoch => {
            // An earlier interrupt has made the claim stale. The dispatch shows the reason of that interrupt.
            builder.supersede(&mut stored, DispatchAct::TakeOver)?;
            let id = stored.id().clone();
            builder.put_dispatch(stored);
            id
        }
        Some(mut stored) => {
            builder.apply_act(&mut stored, DispatchAct::TakeOver)?;
            builder.end_attempt(&mut stored, AttemptEnd::Superseded, None);
            stored.state.reason = truncated_reason(request, decision_context.limits);
            let id = stored.id().clone();
            builder.put_dispatch(stored);
            id
        }
        None => DispatchId::new(decision_context.ids.next_id())?,
    };
    let token = ClaimToken::new(decision_context.ids.next_id());
    Ok(TakeOver { dispatch, token, claim: builder.take_claim_number(), extra: Extra::default() })
}

fn interrupt_answer(interrupt: &StoredInterrupt) -> Interrupted {
    let fence = interrupt.take_over.as_ref().map(|take_over| {
        Fence::new(take_over.dispatch.clone(), take_over.token.clone(), interrupt.epoch, take_over.claim)
    });
    Interrupted {
        epoch: interrupt.epoch,
        superseded: interrupt.superseded,
        claimed: interrupt.claimed.clone(),
        fence,
        at: interrupt.at,
        deduplicated: false,
    }
}
