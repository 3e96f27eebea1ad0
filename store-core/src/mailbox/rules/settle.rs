//! What the holder of a claim does: extending, starting, settling.

use std::time::Duration;

use super::{MailboxChange, MailboxView, desk::Desk};
use crate::{
    claim::check_lease,
    codec::{Object, sha256},
    commit::Setting,
    error::{Detail, Error, Result},
    id::InstanceId,
    limits::{Limits, check_limit, cut_text, length},
    mailbox::{
        Act, AttemptEnd, ClaimRef, DispatchClaim, DispatchStatus, Settled, Settlement, StoredAttempt, StoredDispatch,
    },
};

/// How a token stands to a dispatch.
pub(super) enum Hold {
    /// It holds it.
    Live,
    /// It holds it, but the thread was interrupted.
    Stale,
    /// It held it until an interrupt ended that.
    Superseded,
    /// It does not hold it.
    Lost,
}

/// How who has the token with this digest stands to a dispatch.
pub(super) fn hold<V: MailboxView + ?Sized>(desk: &Desk<'_, V>, stored: &StoredDispatch, digest: &str) -> Hold {
    if stored.state.claim.as_ref().is_some_and(|claim| claim.token == digest) {
        return if desk.standing(stored).is_stale { Hold::Stale } else { Hold::Live };
    }
    let ended = stored.state.history.iter().rev().find(|ended| ended.token == digest);
    match ended {
        Some(ended) if ended.attempt.end == AttemptEnd::Superseded => Hold::Superseded,
        _ => Hold::Lost,
    }
}

pub(super) fn stale<V: MailboxView + ?Sized>(desk: &Desk<'_, V>, stored: &StoredDispatch) -> Error {
    let epoch = |number: u64| format!("epoch {number}");
    let actual = desk.mailbox().epoch.max(stored.state.epoch + 1);
    Error::new(Detail::StaleEpoch { expected: epoch(stored.state.epoch), actual: epoch(actual) })
}

pub(super) fn lost(claim: &ClaimRef) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: claim.dispatch.to_string() })
}

/// Lets the holder of a claim act; a stale one loses it by that (MB-33).
fn act<V: MailboxView + ?Sized, T>(
    view: &V,
    claim: &ClaimRef,
    setting: Setting<'_>,
    act: impl FnOnce(&mut StoredDispatch, &mut Desk<'_, V>) -> Result<T>,
) -> Result<MailboxChange<T>> {
    match view.dispatch(&claim.dispatch)? {
        Some(stored) => act_on(view, stored, (claim, &claim.token.digest()), setting, act),
        None => Ok(MailboxChange::unchanged(Err(lost(claim)))),
    }
}

/// The same with the dispatch that is claimed, and the digest of the token.
fn act_on<V: MailboxView + ?Sized, T>(
    view: &V,
    mut stored: StoredDispatch,
    (claim, token): (&ClaimRef, &str),
    setting: Setting<'_>,
    act: impl FnOnce(&mut StoredDispatch, &mut Desk<'_, V>) -> Result<T>,
) -> Result<MailboxChange<T>> {
    let mut desk = Desk::open(view, &stored.body.thread, setting.now)?;
    match hold(&desk, &stored, token) {
        Hold::Live => match act(&mut stored, &mut desk) {
            Ok(answer) => {
                desk.put(stored);
                Ok(desk.finish(Ok(answer)))
            }
            Err(error) => Ok(MailboxChange::unchanged(Err(error))),
        },
        Hold::Stale => {
            let error = stale(&desk, &stored);
            desk.supersede(&mut stored, Act::Extend)?;
            desk.put(stored);
            Ok(desk.finish(Err(error)))
        }
        Hold::Superseded => Ok(MailboxChange::unchanged(Err(stale(&desk, &stored)))),
        Hold::Lost => Ok(MailboxChange::unchanged(Err(lost(claim)))),
    }
}

/// Prolongs a claim to store time and `by` (MB-32).
///
/// # Errors
/// What the view ends with.
pub fn extend(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    by: Duration,
    setting: Setting<'_>,
) -> Result<MailboxChange<DispatchClaim>> {
    if let Err(error) = check_lease(by) {
        return Ok(MailboxChange::unchanged(Err(error)));
    }
    act(view, claim, setting, |stored, desk| {
        desk.apply(stored, Act::Extend)?;
        let lease_until = desk.now.saturating_add(by);
        if let Some(running) = &mut desk.mailbox_mut().running {
            running.lease_until = lease_until;
        }
        let held = held(stored)?;
        held.lease_until = lease_until;
        Ok(held.clone())
    })
}

/// Records what works on a dispatch, and since when, once (MB-35).
///
/// # Errors
/// What the view ends with.
pub fn start(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    instance: &InstanceId,
    setting: Setting<'_>,
) -> Result<MailboxChange<DispatchClaim>> {
    act(view, claim, setting, |stored, desk| {
        desk.apply(stored, Act::Start)?;
        let held = held(stored)?;
        if held.instance.as_ref().is_some_and(|started| started != instance) {
            return Err(Error::invalid_transition(
                "dispatch",
                &claim.dispatch,
                "started",
                "started by another instance",
            ));
        }
        held.started_at = held.started_at.or(Some(desk.now));
        held.instance = Some(instance.clone());
        Ok(held.clone())
    })
}

fn held(stored: &mut StoredDispatch) -> Result<&mut DispatchClaim> {
    let held = stored.state.claim.as_mut().map(|held| &mut held.claim);
    held.ok_or_else(|| Error::corrupt("a claimed dispatch has no claim"))
}

/// Refuses a settlement that no store can accept.
pub(crate) fn check_settlement(settlement: &Settlement, limits: &Limits) -> Result<()> {
    match settlement {
        Settlement::Ack { result: Some(result) } => {
            check_limit("record bytes", length(result.as_str().len()), limits.record_bytes)
        }
        _ => Ok(()),
    }
}

/// What a settlement says, as it was given.
pub(crate) fn settlement_digest(settlement: &Settlement) -> String {
    let mut text = String::new();
    let mut object = Object::open(&mut text);
    let nanos = |after: &Duration| after.as_nanos().to_string();
    match settlement {
        Settlement::Ack { result } => object.field("act", &"ack".to_owned()).maybe("result", result.as_ref()),
        Settlement::Retry { after, error } => {
            object.field("act", &"retry".to_owned()).field("after", &nanos(after)).field("error", error)
        }
        Settlement::Snooze { after } => object.field("act", &"snooze".to_owned()).field("after", &nanos(after)),
        Settlement::Release => object.field("act", &"release".to_owned()),
        Settlement::DeadLetter { error } => object.field("act", &"dead_letter".to_owned()).field("error", error),
        Settlement::Cancel { reason } => object.field("act", &"cancel".to_owned()).field("reason", reason),
    };
    object.close();
    format!("1:{}", sha256(&text))
}

/// A settlement with its digests. They need nothing of the store: whoever has one thread that decides makes them
/// elsewhere.
#[derive(Debug)]
pub struct SettleOne {
    claim: ClaimRef,
    settlement: Settlement,
    token: String,
    digest: String,
}

impl SettleOne {
    /// What a caller asks for.
    #[must_use]
    pub fn of(claim: ClaimRef, settlement: Settlement) -> Self {
        let (token, digest) = (claim.token.digest(), settlement_digest(&settlement));
        Self { claim, settlement, token, digest }
    }
}

/// Ends an attempt (MB-38 to MB-43). The same settlement again gets the first answer.
///
/// # Errors
/// What the view ends with.
pub fn settle(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    settlement: &Settlement,
    setting: Setting<'_>,
) -> Result<MailboxChange<Settled>> {
    settle_one(view, &SettleOne::of(claim.clone(), settlement.clone()), setting)
}

/// The same of a settlement whose digests were made.
///
/// # Errors
/// What the view ends with.
pub fn settle_one(
    view: &(impl MailboxView + ?Sized),
    one: &SettleOne,
    setting: Setting<'_>,
) -> Result<MailboxChange<Settled>> {
    let SettleOne { claim, settlement, token, digest } = one;
    if let Err(error) = check_settlement(settlement, setting.limits) {
        return Ok(MailboxChange::unchanged(Err(error)));
    }
    let Some(stored) = view.dispatch(&claim.dispatch)? else {
        return Ok(MailboxChange::unchanged(Err(lost(claim))));
    };
    if let Some(first) = repeated(&stored, one) {
        return Ok(MailboxChange::unchanged(Ok(first)));
    }
    act_on(view, stored, (claim, token), setting, |stored, desk| {
        let end = end(desk, stored, settlement, setting.limits)?;
        desk.end_attempt(stored, end, Some(digest.clone()));
        let settled = stored.state.history.last().map(|ended| settled(claim, ended, false));
        settled.ok_or_else(|| Error::corrupt("a claimed dispatch has no claim"))
    })
}

/// The answer to an equal settlement of the same attempt (MB-39).
fn repeated(stored: &StoredDispatch, one: &SettleOne) -> Option<Settled> {
    let same = |ended: &&StoredAttempt| ended.token == one.token && ended.settlement.as_deref() == Some(&*one.digest);
    stored.state.history.iter().rev().find(same).map(|ended| settled(&one.claim, ended, true))
}

fn settled(claim: &ClaimRef, ended: &StoredAttempt, deduplicated: bool) -> Settled {
    Settled {
        dispatch: claim.dispatch.clone(),
        status: ended.status,
        attempts: ended.attempts,
        available_at: ended.available_at,
        deduplicated,
    }
}

/// What a settlement makes of a dispatch.
fn end<V: MailboxView + ?Sized>(
    desk: &mut Desk<'_, V>,
    stored: &mut StoredDispatch,
    settlement: &Settlement,
    limits: &Limits,
) -> Result<AttemptEnd> {
    let cut = |text: &String| {
        let mut text = text.clone();
        cut_text(&mut text, limits);
        Some(text)
    };
    match settlement {
        Settlement::Ack { result } => {
            desk.apply(stored, Act::Ack)?;
            stored.state.result.clone_from(result);
            Ok(AttemptEnd::Acked)
        }
        Settlement::Retry { after, error } => {
            if desk.apply(stored, Act::Retry)? == DispatchStatus::Queued {
                stored.state.available_at = desk.now.saturating_add(*after);
            }
            stored.state.attempts = stored.state.attempts.saturating_add(1);
            stored.state.last_error = cut(error);
            Ok(AttemptEnd::Retried)
        }
        Settlement::Snooze { after } => {
            desk.apply(stored, Act::Snooze)?;
            stored.state.available_at = desk.now.saturating_add(*after);
            Ok(AttemptEnd::Snoozed)
        }
        Settlement::Release => desk.apply(stored, Act::Release).map(|_| AttemptEnd::Released),
        Settlement::DeadLetter { error } => {
            desk.apply(stored, Act::DeadLetter)?;
            stored.state.last_error = cut(error);
            Ok(AttemptEnd::DeadLettered)
        }
        Settlement::Cancel { reason } => {
            desk.apply(stored, Act::GiveUp)?;
            stored.state.reason = cut(reason);
            Ok(AttemptEnd::Cancelled)
        }
    }
}
