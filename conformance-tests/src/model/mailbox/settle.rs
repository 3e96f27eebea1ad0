//! The calls of the holder of a claim, and the check of a fence.

use std::time::Duration;

use serde_json::json;
use store_core::{
    AttemptEnd, ClaimRef, Detail, DispatchClaim, DispatchStatus, Error, Fence, InstanceId, Limits, Result, Settled,
    Settlement, ThreadId, Timestamp, check_limit,
};

use super::{StoredDispatch, TenantMailbox, claim::check_lease};
use crate::model::{bug::Bug, commit::Environment, model_data::record_from_json};

fn claim_lost(claim: &ClaimRef) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: claim.dispatch.to_string() })
}

fn stale_epoch(epoch: u64) -> Error {
    let expected = format!("epoch {epoch}");
    Error::new(Detail::StaleEpoch { expected, actual: "a later one".to_owned() })
}

/// Refuses a settlement with a result that is too large.
pub(in crate::model) fn check_settlement(settlement: &Settlement, limits: &Limits) -> Result<()> {
    match settlement {
        Settlement::Ack { result: Some(result) } => {
            check_limit("record bytes", result.as_str().len() as u64, limits.record_bytes)
        }
        _ => Ok(()),
    }
}

impl TenantMailbox {
    /// Returns the index of the dispatch whose current claim has this token. `Err(Some(index))` stands for a claim that
    /// an interrupt has ended or will end, and `Err(None)` for any other claim that is lost.
    fn find_held_dispatch(&self, claim: &ClaimRef, bug: Option<Bug>) -> std::result::Result<usize, Option<usize>> {
        let at = self.index_of(&claim.dispatch).ok_or(None)?;
        let Some(stored) = self.stored_dispatches.get(at) else { return Err(None) };
        let is_holder = stored.token.as_ref() == Some(&claim.token)
            || (bug == Some(Bug::TokenUnchecked) && stored.dispatch.status == DispatchStatus::Claimed);
        if is_holder {
            let is_stale = stored.dispatch.epoch < self.epoch(&stored.dispatch.thread);
            return if is_stale { Err(Some(at)) } else { Ok(at) };
        }
        let ended_claim = stored.ended_claims.iter().rev().find(|(token, ..)| *token == claim.token);
        let by_interrupt = ended_claim.is_some_and(|(_, end, _)| *end == AttemptEnd::Superseded);
        if by_interrupt { Err(Some(at)) } else { Err(None) }
    }

    /// Returns the index of the dispatch that a holder writes to, and the time of the write. If the thread was
    /// interrupted after the claim, the write is refused and supersedes the dispatch (MB-33).
    fn find_for_write(&mut self, claim: &ClaimRef, env: &Environment<'_>) -> Result<(usize, Timestamp)> {
        let time = |mailbox: &Self, at: usize| {
            mailbox
                .stored_dispatches
                .get(at)
                .map_or(env.now, |stored| mailbox.thread_time(&stored.dispatch.thread, env.now))
        };
        match self.find_held_dispatch(claim, env.bug) {
            Ok(at) => Ok((at, time(self, at))),
            Err(None) => Err(claim_lost(claim)),
            Err(Some(at)) => {
                let epoch = self.stored_dispatches.get(at).map_or(0, |stored| stored.dispatch.epoch);
                if self.stored_dispatches.get(at).is_some_and(|stored| stored.token.is_some()) {
                    let now = time(self, at);
                    self.supersede(at, now)?;
                }
                Err(stale_epoch(epoch))
            }
        }
    }

    fn stored_dispatch_mut(&mut self, at: usize) -> Result<&mut StoredDispatch> {
        self.stored_dispatches.get_mut(at).ok_or_else(|| Error::corrupt("a dispatch is missing"))
    }

    pub(super) fn extend(&mut self, claim: &ClaimRef, by: Duration, env: &Environment<'_>) -> Result<DispatchClaim> {
        check_lease(by)?;
        if env.bug == Some(Bug::ExtendRevives)
            && let Some(stored) = self.index_of(&claim.dispatch).and_then(|at| self.stored_dispatches.get_mut(at))
            && stored.ended_claims.iter().any(|(token, ..)| *token == claim.token)
            && let Some(current_claim) = &stored.dispatch.claim
        {
            stored.token = Some(claim.token.clone());
            return Ok(current_claim.clone());
        }
        let (at, now) = self.find_for_write(claim, env)?;
        let stored = self.stored_dispatch_mut(at)?;
        stored.set_status(DispatchStatus::Claimed, now);
        let Some(current_claim) = &mut stored.dispatch.claim else { return Err(claim_lost(claim)) };
        current_claim.lease_until = now.saturating_add(by);
        let (current_claim, thread) = (current_claim.clone(), stored.dispatch.thread.clone());
        self.record_write(&thread, now, false);
        Ok(current_claim)
    }

    pub(super) fn start(
        &mut self,
        claim: &ClaimRef,
        instance: &InstanceId,
        env: &Environment<'_>,
    ) -> Result<DispatchClaim> {
        let (at, now) = self.find_for_write(claim, env)?;
        let stored = self.stored_dispatch_mut(at)?;
        let Some(current_claim) = &mut stored.dispatch.claim else { return Err(claim_lost(claim)) };
        if current_claim.instance.as_ref().is_some_and(|other| other != instance) {
            return Err(Error::invalid_transition("dispatch", &claim.dispatch, "started", "started"));
        }
        current_claim.instance = Some(instance.clone());
        current_claim.started_at = current_claim.started_at.or(Some(now));
        let current_claim = current_claim.clone();
        stored.set_status(DispatchStatus::Claimed, now);
        let thread = stored.dispatch.thread.clone();
        self.record_write(&thread, now, false);
        Ok(current_claim)
    }

    /// Returns the answer to an earlier, equal settlement with the same token (MB-39).
    fn find_first_answer(&self, claim: &ClaimRef, settlement: &Settlement) -> Option<Settled> {
        let stored = self.stored_dispatches.get(self.index_of(&claim.dispatch)?)?;
        let ended_claims = stored.ended_claims.iter().rev().filter(|(token, ..)| *token == claim.token);
        let mut answers = ended_claims.filter_map(|(.., settled)| settled.as_ref());
        let (_, first) = answers.find(|(earlier, _)| earlier == settlement)?;
        let mut repeated_answer = first.clone();
        repeated_answer.deduplicated = true;
        Some(repeated_answer)
    }
}

/// Settles a claim.
pub(in crate::model) fn settle(
    mailbox: &mut TenantMailbox,
    claim: &ClaimRef,
    settlement: &Settlement,
    env: &Environment<'_>,
) -> Result<Settled> {
    check_settlement(settlement, env.limits)?;
    if let Some(first) = mailbox.find_first_answer(claim, settlement) {
        if env.bug == Some(Bug::RepeatedSettlementCounted)
            && let Some(stored) = mailbox.index_of(&claim.dispatch).and_then(|at| mailbox.stored_dispatches.get_mut(at))
        {
            stored.dispatch.attempts += 1;
        }
        return Ok(first);
    }
    let (at, now) = mailbox.find_for_write(claim, env)?;
    let stored = mailbox.stored_dispatch_mut(at)?;
    let end = apply_settlement(stored, settlement, now, env);
    let dispatch = &stored.dispatch;
    let mut settled: Settled = record_from_json(&json!({
        "dispatch": dispatch.id, "status": dispatch.status, "attempts": dispatch.attempts, "deduplicated": false,
    }))?;
    settled.available_at = (dispatch.status == DispatchStatus::Queued).then_some(dispatch.available_at);
    stored.end_claim(end, Some((settlement.clone(), settled.clone())), now)?;
    let thread = stored.dispatch.thread.clone();
    mailbox.record_write(&thread, now, true);
    Ok(settled)
}

/// Changes a dispatch as a settlement says, and returns how the attempt ended.
fn apply_settlement(
    stored: &mut StoredDispatch,
    settlement: &Settlement,
    now: Timestamp,
    env: &Environment<'_>,
) -> AttemptEnd {
    let truncate_text = |text: &String| {
        let max_bytes = usize::try_from(env.limits.text_bytes).unwrap_or(usize::MAX);
        let mut kept = text.clone();
        while kept.len() > max_bytes || (kept.len() < text.len() && kept.len() + '…'.len_utf8() > max_bytes) {
            kept.pop();
        }
        if kept.len() < text.len() { format!("{kept}…") } else { kept }
    };
    match settlement {
        Settlement::Ack { result } => {
            stored.set_status(DispatchStatus::Acked, now);
            stored.dispatch.result.clone_from(result);
            AttemptEnd::Acked
        }
        Settlement::Retry { after, error } => {
            stored.dispatch.attempts += 1;
            let is_last = stored.dispatch.attempts >= stored.dispatch.max_attempts;
            stored.set_status(if is_last { DispatchStatus::DeadLetter } else { DispatchStatus::Queued }, now);
            let after = if env.bug == Some(Bug::RetriedDispatchNotDelayed) { Duration::ZERO } else { *after };
            if !is_last {
                stored.dispatch.available_at = now.saturating_add(after);
            }
            stored.dispatch.last_error = Some(truncate_text(error));
            AttemptEnd::Retried
        }
        Settlement::Snooze { after } => {
            stored.set_status(DispatchStatus::Queued, now);
            stored.dispatch.available_at = now.saturating_add(*after);
            AttemptEnd::Snoozed
        }
        Settlement::DeadLetter { error } => {
            stored.set_status(DispatchStatus::DeadLetter, now);
            stored.dispatch.last_error = Some(truncate_text(error));
            AttemptEnd::DeadLettered
        }
        Settlement::Cancel { reason } => {
            stored.set_status(DispatchStatus::Cancelled, now);
            stored.dispatch.reason = Some(truncate_text(reason));
            AttemptEnd::Cancelled
        }
        _ => {
            stored.set_status(DispatchStatus::Queued, now);
            AttemptEnd::Released
        }
    }
}

/// Refuses a write to a thread under a claim of this mailbox that is lost or from an earlier epoch (CM-31). Accepts a
/// claim that is not from this mailbox, because another mailbox decides about it.
pub(in crate::model) fn check_fence(
    mailbox: &TenantMailbox,
    thread: &ThreadId,
    fence: Option<&Fence>,
    bug: Option<Bug>,
) -> Result<()> {
    let Some(fence) = fence.filter(|_| bug != Some(Bug::FenceOfLostClaimAccepted)) else { return Ok(()) };
    let (claim, thread_mailbox) = (ClaimRef::from(fence), mailbox.threads.get(thread));
    if thread_mailbox
        .and_then(|thread_mailbox| thread_mailbox.takeover_fence.as_ref())
        .is_some_and(|takeover| takeover == fence)
    {
        return Ok(());
    }
    let Some(stored) = mailbox.index_of(&fence.dispatch).and_then(|at| mailbox.stored_dispatches.get(at)) else {
        // This mailbox has given out all claim numbers up to its last one. So a claim with such a number is one of its
        // own, and the dispatch was purged.
        let last_claim = thread_mailbox
            .map(|thread_mailbox| (mailbox.incarnation, thread_mailbox.claim_count))
            .filter(|(_, claims)| *claims > 0);
        let is_of_this_mailbox = last_claim >= Some((fence.claim.incarnation, fence.claim.counter));
        return if is_of_this_mailbox { Err(claim_lost(&claim)) } else { Ok(()) };
    };
    let is_other_claim = |current_claim: &DispatchClaim| {
        stored.token.as_ref() == Some(&fence.token) && current_claim.number != fence.claim
    };
    if stored.dispatch.thread != *thread || stored.dispatch.claim.as_ref().is_some_and(is_other_claim) {
        return Err(claim_lost(&claim));
    }
    match mailbox.find_held_dispatch(&claim, None) {
        Ok(_) => Ok(()),
        Err(Some(_)) => Err(stale_epoch(stored.dispatch.epoch)),
        Err(None) => Err(claim_lost(&claim)),
    }
}
