//! The calls of the holder of a claim, and the check of a fence.

use std::time::Duration;

use serde_json::json;
use store_core::{
    AttemptEnd, ClaimRef, Detail, DispatchClaim, DispatchStatus, Error, Fence, InstanceId, Limits, Result, Settled,
    Settlement, ThreadId, Timestamp, check_limit,
};

use super::{Job, Mail, claim::check_lease};
use crate::model::{bug::Bug, commit::Setting, world::record};

fn lost(claim: &ClaimRef) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: claim.dispatch.to_string() })
}

fn stale(epoch: u64) -> Error {
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

impl Mail {
    /// Returns the index of the dispatch whose current claim has this token. `Err(Some(index))` stands for a claim that
    /// an interrupt has ended or will end, and `Err(None)` for any other claim that is lost.
    fn held(&self, claim: &ClaimRef, bug: Option<Bug>) -> std::result::Result<usize, Option<usize>> {
        let at = self.find(&claim.dispatch).ok_or(None)?;
        let Some(job) = self.jobs.get(at) else { return Err(None) };
        let holds = job.token.as_ref() == Some(&claim.token)
            || (bug == Some(Bug::TokenUnchecked) && job.dispatch.status == DispatchStatus::Claimed);
        if holds {
            let is_stale = job.dispatch.epoch < self.epoch(&job.dispatch.thread);
            return if is_stale { Err(Some(at)) } else { Ok(at) };
        }
        let ended = job.ended.iter().rev().find(|(token, ..)| *token == claim.token);
        let by_interrupt = ended.is_some_and(|(_, end, _)| *end == AttemptEnd::Superseded);
        if by_interrupt { Err(Some(at)) } else { Err(None) }
    }

    /// Returns the index of the dispatch that a holder writes to, and store time for its thread. If the thread was
    /// interrupted after the claim, the write is refused and supersedes the dispatch (MB-33).
    fn writing(&mut self, claim: &ClaimRef, setting: &Setting<'_>) -> Result<(usize, Timestamp)> {
        let time = |mail: &Self, at: usize| {
            mail.jobs.get(at).map_or(setting.now, |job| mail.time(&job.dispatch.thread, setting.now))
        };
        match self.held(claim, setting.bug) {
            Ok(at) => Ok((at, time(self, at))),
            Err(None) => Err(lost(claim)),
            Err(Some(at)) => {
                let epoch = self.jobs.get(at).map_or(0, |job| job.dispatch.epoch);
                if self.jobs.get(at).is_some_and(|job| job.token.is_some()) {
                    let now = time(self, at);
                    self.supersede(at, now)?;
                }
                Err(stale(epoch))
            }
        }
    }

    fn job(&mut self, at: usize) -> Result<&mut Job> {
        self.jobs.get_mut(at).ok_or_else(|| Error::corrupt("a dispatch is missing"))
    }

    pub(super) fn extend(&mut self, claim: &ClaimRef, by: Duration, setting: &Setting<'_>) -> Result<DispatchClaim> {
        check_lease(by)?;
        if setting.bug == Some(Bug::ExtendRevives)
            && let Some(job) = self.find(&claim.dispatch).and_then(|at| self.jobs.get_mut(at))
            && job.ended.iter().any(|(token, ..)| *token == claim.token)
            && let Some(held) = &job.dispatch.claim
        {
            job.token = Some(claim.token.clone());
            return Ok(held.clone());
        }
        let (at, now) = self.writing(claim, setting)?;
        let job = self.job(at)?;
        job.becomes(DispatchStatus::Claimed, now);
        let Some(held) = &mut job.dispatch.claim else { return Err(lost(claim)) };
        held.lease_until = now.saturating_add(by);
        let (held, thread) = (held.clone(), job.dispatch.thread.clone());
        self.touch(&thread, now, false);
        Ok(held)
    }

    pub(super) fn start(
        &mut self,
        claim: &ClaimRef,
        instance: &InstanceId,
        setting: &Setting<'_>,
    ) -> Result<DispatchClaim> {
        let (at, now) = self.writing(claim, setting)?;
        let job = self.job(at)?;
        let Some(held) = &mut job.dispatch.claim else { return Err(lost(claim)) };
        if held.instance.as_ref().is_some_and(|other| other != instance) {
            return Err(Error::invalid_transition("dispatch", &claim.dispatch, "started", "started"));
        }
        held.instance = Some(instance.clone());
        held.started_at = held.started_at.or(Some(now));
        let held = held.clone();
        job.becomes(DispatchStatus::Claimed, now);
        let thread = job.dispatch.thread.clone();
        self.touch(&thread, now, false);
        Ok(held)
    }

    /// Returns the first answer to an equal settlement with the same token (MB-39).
    fn first_answer(&self, claim: &ClaimRef, settlement: &Settlement) -> Option<Settled> {
        let job = self.jobs.get(self.find(&claim.dispatch)?)?;
        let ended = job.ended.iter().rev().filter(|(token, ..)| *token == claim.token);
        let mut answers = ended.filter_map(|(.., settled)| settled.as_ref());
        let (_, first) = answers.find(|(given, _)| given == settlement)?;
        let mut again = first.clone();
        again.deduplicated = true;
        Some(again)
    }
}

/// Settles a claim.
pub(in crate::model) fn settle(
    mail: &mut Mail,
    claim: &ClaimRef,
    settlement: &Settlement,
    setting: &Setting<'_>,
) -> Result<Settled> {
    check_settlement(settlement, setting.limits)?;
    if let Some(first) = mail.first_answer(claim, settlement) {
        if setting.bug == Some(Bug::SettledTwice)
            && let Some(job) = mail.find(&claim.dispatch).and_then(|at| mail.jobs.get_mut(at))
        {
            job.dispatch.attempts += 1;
        }
        return Ok(first);
    }
    let (at, now) = mail.writing(claim, setting)?;
    let job = mail.job(at)?;
    let end = apply(job, settlement, now, setting);
    let dispatch = &job.dispatch;
    let mut settled: Settled = record(&json!({
        "dispatch": dispatch.id, "status": dispatch.status, "attempts": dispatch.attempts, "deduplicated": false,
    }))?;
    settled.available_at = (dispatch.status == DispatchStatus::Queued).then_some(dispatch.available_at);
    job.ends(end, Some((settlement.clone(), settled.clone())), now)?;
    let thread = job.dispatch.thread.clone();
    mail.touch(&thread, now, true);
    Ok(settled)
}

/// Changes a dispatch as a settlement says, and returns how the attempt ended.
fn apply(job: &mut Job, settlement: &Settlement, now: Timestamp, setting: &Setting<'_>) -> AttemptEnd {
    let cut = |text: &String| {
        let most = usize::try_from(setting.limits.text_bytes).unwrap_or(usize::MAX);
        let mut kept = text.clone();
        while kept.len() > most || (kept.len() < text.len() && kept.len() + '…'.len_utf8() > most) {
            kept.pop();
        }
        if kept.len() < text.len() { format!("{kept}…") } else { kept }
    };
    match settlement {
        Settlement::Ack { result } => {
            job.becomes(DispatchStatus::Acked, now);
            job.dispatch.result.clone_from(result);
            AttemptEnd::Acked
        }
        Settlement::Retry { after, error } => {
            job.dispatch.attempts += 1;
            let is_last = job.dispatch.attempts >= job.dispatch.max_attempts;
            job.becomes(if is_last { DispatchStatus::DeadLetter } else { DispatchStatus::Queued }, now);
            let after = if setting.bug == Some(Bug::RetryComesEarly) { Duration::ZERO } else { *after };
            if !is_last {
                job.dispatch.available_at = now.saturating_add(after);
            }
            job.dispatch.last_error = Some(cut(error));
            AttemptEnd::Retried
        }
        Settlement::Snooze { after } => {
            job.becomes(DispatchStatus::Queued, now);
            job.dispatch.available_at = now.saturating_add(*after);
            AttemptEnd::Snoozed
        }
        Settlement::DeadLetter { error } => {
            job.becomes(DispatchStatus::DeadLetter, now);
            job.dispatch.last_error = Some(cut(error));
            AttemptEnd::DeadLettered
        }
        Settlement::Cancel { reason } => {
            job.becomes(DispatchStatus::Cancelled, now);
            job.dispatch.reason = Some(cut(reason));
            AttemptEnd::Cancelled
        }
        _ => {
            job.becomes(DispatchStatus::Queued, now);
            AttemptEnd::Released
        }
    }
}

/// Refuses a write to a thread under a claim of this mailbox that is lost or from an earlier epoch (CM-31). Accepts a
/// claim that is not from this mailbox, because another mailbox decides about it.
pub(in crate::model) fn check_fence(
    mail: &Mail,
    thread: &ThreadId,
    fence: Option<&Fence>,
    bug: Option<Bug>,
) -> Result<()> {
    let Some(fence) = fence.filter(|_| bug != Some(Bug::ClaimUnchecked)) else { return Ok(()) };
    let (claim, thread_mailbox) = (ClaimRef::from(fence), mail.threads.get(thread));
    if thread_mailbox.and_then(|thread_mailbox| thread_mailbox.over.as_ref()).is_some_and(|over| over == fence) {
        return Ok(());
    }
    let Some(job) = mail.find(&fence.dispatch).and_then(|at| mail.jobs.get(at)) else {
        let last = thread_mailbox
            .map(|thread_mailbox| (mail.incarnation, thread_mailbox.claims))
            .filter(|(_, claims)| *claims > 0);
        let is_own = last >= Some((fence.claim.incarnation, fence.claim.counter));
        return if is_own { Err(lost(&claim)) } else { Ok(()) };
    };
    let is_other = |held: &DispatchClaim| job.token.as_ref() == Some(&fence.token) && held.number != fence.claim;
    if job.dispatch.thread != *thread || job.dispatch.claim.as_ref().is_some_and(is_other) {
        return Err(lost(&claim));
    }
    match mail.held(&claim, None) {
        Ok(_) => Ok(()),
        Err(Some(_)) => Err(stale(job.dispatch.epoch)),
        Err(None) => Err(lost(&claim)),
    }
}
