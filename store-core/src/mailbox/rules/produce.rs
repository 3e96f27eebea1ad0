//! The rules of enqueues, cancels and interrupts.

use std::sync::Arc;

use super::{MailboxChange, MailboxView, draft::MailboxDraft, visible_dispatch};
use crate::{
    claim::{ClaimToken, Fence},
    codec::{Extra, ObjectWriter, sha256},
    commit::DecisionContext,
    error::{Error, Result},
    id::DispatchId,
    limits::{Limits, check_limit, cut_text},
    mailbox::{
        Act, AttemptEnd, Dispatch, DispatchBody, DispatchStatus, Enqueued, Interrupt, InterruptRef, Interrupted,
        NewDispatch, StoredDispatch, StoredInterrupt, TakeOver, When, rules::claim::end_lease,
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
    new: NewDispatch,
    digest: String,
}

impl PreparedEnqueue {
    /// Computes the digest of a dispatch that a caller wants to enqueue.
    #[must_use]
    pub fn of(new: NewDispatch) -> Self {
        // Computing the digest copies the payload. Every store refuses a payload above this limit, so that the digest
        // is not needed (ER-9).
        let may_be_accepted = new.payload_bytes() <= Limits::default().record_bytes;
        let digest = if may_be_accepted { digest(&new) } else { String::new() };
        Self { new, digest }
    }
}

/// Enqueues a dispatch, or returns why it is refused (MB-1 to MB-9).
///
/// # Errors
/// Any error of the view.
pub fn enqueue(
    view: &(impl MailboxView + ?Sized),
    new: &NewDispatch,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Enqueued>> {
    enqueue_prepared(view, &PreparedEnqueue::of(new.clone()), setting)
}

/// Enqueues a dispatch whose digest was computed before, in the same way as [`enqueue`].
///
/// # Errors
/// Any error of the view.
pub fn enqueue_prepared(
    view: &(impl MailboxView + ?Sized),
    prepared: &PreparedEnqueue,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Enqueued>> {
    let PreparedEnqueue { new, digest } = prepared;
    let refused = |error| Ok(MailboxChange::unchanged(Err(error)));
    if let Err(error) = check(new, setting.limits) {
        return refused(error);
    }
    if let Some(id) = &new.id
        && let Some(stored) = view.dispatch(id)?
    {
        return match stored.body.digest == *digest {
            true => Ok(MailboxChange::unchanged(Ok(enqueued_answer(&stored.body, true)))),
            false => refused(Error::already_exists("dispatch", id)),
        };
    }
    let mut draft = MailboxDraft::open(view, &new.thread, setting.now)?;
    if let (Some(key), Some(holder)) = (&new.dedupe_key, key_holder(&mut draft, new)?) {
        return refused(Error::key_taken(key, "dispatch", holder));
    }
    let id = match &new.id {
        Some(id) => id.clone(),
        None => DispatchId::new(setting.ids.next_id())?,
    };
    let now = draft.now;
    let mailbox = draft.mailbox_mut();
    mailbox.last_number += 1;
    let body = Arc::new(DispatchBody {
        id,
        thread: new.thread.clone(),
        run: new.run.clone(),
        payload: new.payload.clone(),
        priority: new.priority,
        dedupe_key: new.dedupe_key.clone(),
        available_at: new.available.to_time(now),
        max_attempts: new.max_attempts,
        epoch: mailbox.epoch,
        number: mailbox.last_number,
        created_at: now,
        digest: digest.clone(),
        extra: Extra::default(),
    });
    let enqueued = enqueued_answer(&body, false);
    draft.add(StoredDispatch::enqueued(body));
    Ok(draft.finish(Ok(enqueued)))
}

fn check(new: &NewDispatch, limits: &Limits) -> Result<()> {
    if new.max_attempts == 0 {
        return Err(Error::invalid("max_attempts", "it must be 1 or more"));
    }
    check_limit("record bytes", new.payload_bytes(), limits.record_bytes)
}

fn enqueued_answer(body: &DispatchBody, deduplicated: bool) -> Enqueued {
    Enqueued {
        id: body.id.clone(),
        thread: body.thread.clone(),
        number: body.number,
        epoch: body.epoch,
        available_at: body.available_at,
        created_at: body.created_at,
        deduplicated,
    }
}

/// Returns the digest of everything that the caller gave.
fn digest(new: &NewDispatch) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    object
        .field("thread", &new.thread)
        .field("run", &new.run)
        .maybe("payload", new.payload.as_ref())
        .field("priority", &new.priority)
        .maybe("dedupe_key", new.dedupe_key.as_ref())
        .field("max_attempts", &new.max_attempts);
    match new.available {
        When::Now => {}
        When::At(time) => drop(object.field("at", &time)),
        When::In(delay) => drop(object.field("in", &delay.as_nanos().to_string())),
    }
    object.close();
    format!("1:{}", sha256(&text))
}

/// Returns the dispatch that holds the dedupe key of a new one. If the lease of that dispatch has expired, its claim is
/// ended first, in the same way as by a claim (MB-29).
fn key_holder<V: MailboxView + ?Sized>(
    draft: &mut MailboxDraft<'_, V>,
    new: &NewDispatch,
) -> Result<Option<DispatchId>> {
    let Some(key) = &new.dedupe_key else { return Ok(None) };
    let Some(id) = draft.view.last_with_key(&new.thread, key)? else { return Ok(None) };
    let Some(stored) = draft.view.dispatch(&id)? else { return Ok(None) };
    let mut status = draft.machine_state(&stored).status();
    if status == Some(DispatchStatus::Claimed) && draft.lease_expired() {
        status = Some(end_lease(draft, stored)?.state.status);
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
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Dispatch>> {
    let Some(mut stored) = view.dispatch(id)? else {
        return Ok(MailboxChange::unchanged(Err(Error::not_found("dispatch", id))));
    };
    let mut draft = MailboxDraft::open(view, &stored.body.thread, setting.now)?;
    if let Err(error) = draft.apply(&mut stored, Act::Cancel) {
        return Ok(MailboxChange::unchanged(Err(error)));
    }
    let dispatch = visible_dispatch(view, &stored)?;
    draft.put(stored);
    Ok(draft.finish(Ok(dispatch)))
}

/// Interrupts a thread (MB-12, MB-13, MB-53).
///
/// # Errors
/// Any error of the view.
pub fn interrupt(
    view: &(impl MailboxView + ?Sized),
    request: &Interrupt,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Interrupted>> {
    let mut draft = MailboxDraft::open(view, &request.thread, setting.now)?;
    let before = draft.interrupt(draft.mailbox().epoch)?;
    let mut recent = before.as_ref().map(|before| before.recent.clone()).unwrap_or_default();
    let known = recent.iter().find(|known| Some(&known.key) == request.key.as_ref());
    if let Some(first) = known.map(|known| draft.interrupt(known.epoch)).transpose()?.flatten() {
        return Ok(MailboxChange::unchanged(Ok(interrupt_answer(&first, true))));
    }
    let running = draft.mailbox().running.clone();
    let (now, old) = (draft.now, draft.mailbox().epoch);
    let take_over = if request.take_over { Some(take_over(&mut draft, request, setting)?) } else { None };
    let mailbox = draft.mailbox_mut();
    let superseded = std::mem::take(&mut mailbox.counts.queued);
    mailbox.counts.superseded += superseded;
    mailbox.epoch += 1;
    let epoch = mailbox.epoch;
    let still_held = running.as_ref().is_some_and(|running| running.epoch == old && take_over.is_none());
    if let Some(key) = &request.key {
        recent.push(InterruptRef { key: key.clone(), epoch, extra: Extra::default() });
    }
    let forgotten = recent.drain(..recent.len().saturating_sub(MAX_INTERRUPT_KEYS)).map(|known| known.epoch);
    let maybe_unneeded: Vec<_> = forgotten.chain(before.map(|before| before.epoch)).collect();
    let interrupt = StoredInterrupt {
        epoch,
        at: now,
        reason: reason(request, setting.limits),
        superseded,
        claimed: running.map(|running| running.dispatch),
        take_over,
        holds: superseded + u64::from(still_held),
        recent,
        extra: Extra::default(),
    };
    let answer = interrupt_answer(&interrupt, false);
    draft.put_interrupt(epoch, Some(interrupt));
    for epoch in maybe_unneeded {
        if let Some(old) = draft.interrupt(epoch)?
            && !draft.is_needed(&old)?
        {
            draft.put_interrupt(epoch, None);
        }
    }
    Ok(draft.finish(Ok(answer)))
}

fn reason(request: &Interrupt, limits: &Limits) -> Option<String> {
    request.reason.clone().map(|mut reason| {
        cut_text(&mut reason, limits);
        reason
    })
}

/// Ends the claimed dispatch of the thread, if there is one, and takes the next claim number.
fn take_over<V: MailboxView + ?Sized>(
    draft: &mut MailboxDraft<'_, V>,
    request: &Interrupt,
    setting: DecisionContext<'_>,
) -> Result<TakeOver> {
    let running_dispatch = match &draft.mailbox().running {
        Some(running) => draft.view.dispatch(&running.dispatch)?,
        None => None,
    };
    let dispatch = match running_dispatch {
        Some(mut stored) if stored.state.epoch < draft.mailbox().epoch => {
            draft.supersede(&mut stored, Act::TakeOver)?;
            let id = stored.id().clone();
            draft.put(stored);
            id
        }
        Some(mut stored) => {
            draft.apply(&mut stored, Act::TakeOver)?;
            draft.end_attempt(&mut stored, AttemptEnd::Superseded, None);
            stored.state.reason = reason(request, setting.limits);
            let id = stored.id().clone();
            draft.put(stored);
            id
        }
        None => DispatchId::new(setting.ids.next_id())?,
    };
    let token = ClaimToken::new(setting.ids.next_id());
    Ok(TakeOver { dispatch, token, claim: draft.next_claim(), extra: Extra::default() })
}

fn interrupt_answer(interrupt: &StoredInterrupt, deduplicated: bool) -> Interrupted {
    let fence = interrupt
        .take_over
        .as_ref()
        .map(|over| Fence::new(over.dispatch.clone(), over.token.clone(), interrupt.epoch, over.claim));
    Interrupted {
        epoch: interrupt.epoch,
        superseded: interrupt.superseded,
        claimed: interrupt.claimed.clone(),
        fence,
        at: interrupt.at,
        deduplicated,
    }
}
