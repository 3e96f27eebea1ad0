//! The rules for the holder of a claim: extend, start and settle.

use std::time::Duration;

use super::{MailboxDecision, MailboxView, plan_builder::PlanBuilder};
use crate::{
    claim::check_lease,
    codec::{ObjectWriter, sha256_hex},
    commit::DecisionContext,
    error::{Detail, Error, Result},
    id::InstanceId,
    limits::{Limits, check_limit, length, truncate_text},
    mailbox::{
        AttemptEnd, ClaimRef, DispatchAct, DispatchClaim, DispatchStatus, Settled, Settlement, StoredAttempt,
        StoredDispatch,
    },
};

/// What a token proves about a dispatch.
pub(super) enum TokenStatus {
    /// The token proves the claim of the dispatch.
    Live,
    /// The token proves the claim of the dispatch, but the thread was interrupted.
    Stale,
    /// The token proved a claim that was ended because of an interrupt.
    Superseded,
    /// The token proves no claim of the dispatch.
    Lost,
}

/// Returns what the token with this digest proves about a dispatch.
pub(super) fn token_status<V: MailboxView + ?Sized>(
    builder: &PlanBuilder<'_, V>,
    stored: &StoredDispatch,
    token_digest: &str,
) -> TokenStatus {
    if stored.state.claim.as_ref().is_some_and(|claim| claim.token == token_digest) {
        return if builder.machine_state(stored).is_stale { TokenStatus::Stale } else { TokenStatus::Live };
    }
    let stored_attempt = stored.state.history.iter().rev().find(|stored_attempt| stored_attempt.token == token_digest);
    match stored_attempt {
        Some(stored_attempt) if stored_attempt.attempt.end == AttemptEnd::Superseded => TokenStatus::Superseded,
        _ => TokenStatus::Lost,
    }
}

pub(super) fn stale_error<V: MailboxView + ?Sized>(builder: &PlanBuilder<'_, V>, stored: &StoredDispatch) -> Error {
    let epoch = |number: u64| format!("epoch {number}");
    let actual = builder.mailbox().epoch.max(stored.state.epoch + 1);
    Error::new(Detail::StaleEpoch { expected: epoch(stored.state.epoch), actual: epoch(actual) })
}

pub(super) fn lost_error(claim: &ClaimRef) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: claim.dispatch.to_string() })
}

/// Calls `act` if the token proves a live claim. A stale claim is ended instead, and the call is refused (MB-33).
fn act_under_claim<V: MailboxView + ?Sized, T>(
    view: &V,
    claim: &ClaimRef,
    decision_context: DecisionContext<'_>,
    act: impl FnOnce(&mut StoredDispatch, &mut PlanBuilder<'_, V>) -> Result<T>,
) -> Result<MailboxDecision<T>> {
    match view.dispatch(&claim.dispatch)? {
        Some(stored) => act_on_dispatch(view, stored, (claim, &claim.token.digest()), decision_context, act),
        None => Ok(MailboxDecision::unchanged(Err(lost_error(claim)))),
    }
}

/// Does the same as [`act_under_claim`], for a dispatch that was already read and a token whose digest was already
/// computed.
fn act_on_dispatch<V: MailboxView + ?Sized, T>(
    view: &V,
    mut stored: StoredDispatch,
    (claim, token_digest): (&ClaimRef, &str),
    decision_context: DecisionContext<'_>,
    act: impl FnOnce(&mut StoredDispatch, &mut PlanBuilder<'_, V>) -> Result<T>,
) -> Result<MailboxDecision<T>> {
    let mut builder = PlanBuilder::open(view, &stored.body.thread, decision_context.now)?;
    match token_status(&builder, &stored, token_digest) {
        TokenStatus::Live => match act(&mut stored, &mut builder) {
            Ok(answer) => {
                builder.put_dispatch(stored);
                Ok(builder.finish(Ok(answer)))
            }
            Err(error) => Ok(MailboxDecision::unchanged(Err(error))),
        },
        TokenStatus::Stale => {
            let error = stale_error(&builder, &stored);
            // Under a stale claim every act of the holder leads to the same status, so any of them can stand here.
            builder.supersede(&mut stored, DispatchAct::Extend)?;
            builder.put_dispatch(stored);
            Ok(builder.finish(Err(error)))
        }
        TokenStatus::Superseded => Ok(MailboxDecision::unchanged(Err(stale_error(&builder, &stored)))),
        TokenStatus::Lost => Ok(MailboxDecision::unchanged(Err(lost_error(claim)))),
    }
}

/// Extends a claim: its lease then ends at store time plus `by` (MB-32).
///
/// # Errors
/// Any error of the view.
pub fn extend(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    by: Duration,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<DispatchClaim>> {
    if let Err(error) = check_lease(by) {
        return Ok(MailboxDecision::unchanged(Err(error)));
    }
    act_under_claim(view, claim, decision_context, |stored, builder| {
        builder.apply_act(stored, DispatchAct::Extend)?;
        let lease_until = builder.now.saturating_add(by);
        if let Some(running) = &mut builder.mailbox_mut().running {
            running.lease_until = lease_until;
        }
        let current_claim = current_claim(stored)?;
        current_claim.lease_until = lease_until;
        Ok(current_claim.clone())
    })
}

/// Records the instance that works on a dispatch and when it began. Only one instance can start a claim. If that
/// instance starts it again, nothing changes (MB-35).
///
/// # Errors
/// Any error of the view.
pub fn start(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    instance: &InstanceId,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<DispatchClaim>> {
    act_under_claim(view, claim, decision_context, |stored, builder| {
        builder.apply_act(stored, DispatchAct::Start)?;
        let current_claim = current_claim(stored)?;
        if current_claim.instance.as_ref().is_some_and(|earlier_instance| earlier_instance != instance) {
            return Err(Error::invalid_transition(
                "dispatch",
                &claim.dispatch,
                "started",
                "started by another instance",
            ));
        }
        current_claim.started_at = current_claim.started_at.or(Some(builder.now));
        current_claim.instance = Some(instance.clone());
        Ok(current_claim.clone())
    })
}

fn current_claim(stored: &mut StoredDispatch) -> Result<&mut DispatchClaim> {
    let current_claim = stored.state.claim.as_mut().map(|current_claim| &mut current_claim.claim);
    current_claim.ok_or_else(|| Error::corrupt("a claimed dispatch has no claim"))
}

/// Refuses a settlement that no store with these limits can accept.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_settlement(settlement: &Settlement, limits: &Limits) -> Result<()> {
    match settlement {
        Settlement::Ack { result: Some(result) } => {
            check_limit("record bytes", length(result.as_str().len()), limits.record_bytes)
        }
        _ => Ok(()),
    }
}

/// Returns the digest of everything in a settlement.
pub(crate) fn settlement_digest(settlement: &Settlement) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
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
    format!("1:{}", sha256_hex(&text))
}

/// A settlement that a caller asks for, with its digest and that of the token.
///
/// The digests can be computed without the store. A backend in which one OS thread makes all decisions can compute them
/// in another thread.
#[derive(Debug)]
pub struct PreparedSettlement {
    claim: ClaimRef,
    settlement: Settlement,
    token_digest: String,
    settlement_digest: String,
}

impl PreparedSettlement {
    /// Computes the digests of a settlement that a caller asks for.
    #[must_use]
    pub fn of(claim: ClaimRef, settlement: Settlement) -> Self {
        let (token_digest, settlement_digest) = (claim.token.digest(), settlement_digest(&settlement));
        Self { claim, settlement, token_digest, settlement_digest }
    }
}

/// Ends an attempt (MB-38 to MB-43). A repeat of the settlement returns the first answer.
///
/// # Errors
/// Any error of the view.
pub fn settle(
    view: &(impl MailboxView + ?Sized),
    claim: &ClaimRef,
    settlement: &Settlement,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Settled>> {
    settle_prepared(view, &PreparedSettlement::of(claim.clone(), settlement.clone()), decision_context)
}

/// Ends an attempt with a settlement whose digests were computed before, in the same way as [`settle`].
///
/// # Errors
/// Any error of the view.
pub fn settle_prepared(
    view: &(impl MailboxView + ?Sized),
    prepared: &PreparedSettlement,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Settled>> {
    let PreparedSettlement { claim, settlement, token_digest, settlement_digest } = prepared;
    if let Err(error) = check_settlement(settlement, decision_context.limits) {
        return Ok(MailboxDecision::unchanged(Err(error)));
    }
    let Some(stored) = view.dispatch(&claim.dispatch)? else {
        return Ok(MailboxDecision::unchanged(Err(lost_error(claim))));
    };
    if let Some(first_answer) = answer_of_repeat(&stored, prepared) {
        return Ok(MailboxDecision::unchanged(Ok(first_answer)));
    }
    act_on_dispatch(view, stored, (claim, token_digest), decision_context, |stored, builder| {
        let end = apply_settlement(builder, stored, settlement, decision_context.limits)?;
        builder.end_attempt(stored, end, Some(settlement_digest.clone()));
        let settled = stored.state.history.last().map(|stored_attempt| settled_answer(claim, stored_attempt));
        settled.ok_or_else(|| Error::corrupt("a settled dispatch has no attempt"))
    })
}

/// Returns the answer to an earlier, equal settlement of the same attempt (MB-39).
fn answer_of_repeat(stored: &StoredDispatch, prepared: &PreparedSettlement) -> Option<Settled> {
    let is_same_settlement = |stored_attempt: &&StoredAttempt| {
        stored_attempt.token == prepared.token_digest
            && stored_attempt.settlement.as_deref() == Some(&*prepared.settlement_digest)
    };
    stored
        .state
        .history
        .iter()
        .rev()
        .find(is_same_settlement)
        .map(|stored_attempt| Settled { deduplicated: true, ..settled_answer(&prepared.claim, stored_attempt) })
}

fn settled_answer(claim: &ClaimRef, stored_attempt: &StoredAttempt) -> Settled {
    Settled {
        dispatch: claim.dispatch.clone(),
        status: stored_attempt.status,
        attempts: stored_attempt.attempts,
        available_at: stored_attempt.available_at,
        deduplicated: false,
    }
}

/// Applies a settlement to a dispatch, and returns how the attempt ended.
fn apply_settlement<V: MailboxView + ?Sized>(
    builder: &mut PlanBuilder<'_, V>,
    stored: &mut StoredDispatch,
    settlement: &Settlement,
    limits: &Limits,
) -> Result<AttemptEnd> {
    let truncated = |text: &String| {
        let mut text = text.clone();
        truncate_text(&mut text, limits);
        Some(text)
    };
    match settlement {
        Settlement::Ack { result } => {
            builder.apply_act(stored, DispatchAct::Ack)?;
            stored.state.result.clone_from(result);
            Ok(AttemptEnd::Acked)
        }
        Settlement::Retry { after, error } => {
            if builder.apply_act(stored, DispatchAct::Retry)? == DispatchStatus::Queued {
                stored.state.available_at = builder.now.saturating_add(*after);
            }
            stored.state.attempts = stored.state.attempts.saturating_add(1);
            stored.state.last_error = truncated(error);
            Ok(AttemptEnd::Retried)
        }
        Settlement::Snooze { after } => {
            builder.apply_act(stored, DispatchAct::Snooze)?;
            stored.state.available_at = builder.now.saturating_add(*after);
            Ok(AttemptEnd::Snoozed)
        }
        Settlement::Release => builder.apply_act(stored, DispatchAct::Release).map(|_| AttemptEnd::Released),
        Settlement::DeadLetter { error } => {
            builder.apply_act(stored, DispatchAct::DeadLetter)?;
            stored.state.last_error = truncated(error);
            Ok(AttemptEnd::DeadLettered)
        }
        Settlement::Cancel { reason } => {
            builder.apply_act(stored, DispatchAct::CancelByHolder)?;
            stored.state.reason = truncated(reason);
            Ok(AttemptEnd::Cancelled)
        }
    }
}
