//! The fence of a commit: a claim under which data outside of the mailbox is written.

use super::{
    MailboxPlan, MailboxView,
    plan_builder::PlanBuilder,
    settle::{TokenStatus, lost_error, settle, stale_error, token_status},
};
use crate::{
    claim::Fence,
    commit::DecisionContext,
    error::{Error, Result},
    id::ThreadId,
    mailbox::{ClaimRef, Settlement},
};

/// Refuses a write to `thread` under a claim of this mailbox that is lost or stale (CM-31). The check changes nothing.
///
/// A claim that this mailbox never made belongs to another mailbox. The store of the thread cannot ask that mailbox, so
/// this function accepts such a claim. The plan of the write still checks the claim number (CM-32).
///
/// # Errors
/// `ClaimLost`, `StaleEpoch`; any error of the view.
pub fn check_claim(view: &(impl MailboxView + ?Sized), thread: &ThreadId, fence: &Fence) -> Result<()> {
    let claim = ClaimRef::from(fence);
    let Some(mailbox) = view.mailbox(thread)? else {
        return match view.dispatch(&fence.dispatch)? {
            Some(_) => Err(lost_error(&claim)),
            None => Ok(()),
        };
    };
    // The fence that the newest interrupt returned is valid until the thread is claimed again.
    if mailbox.last_claim == Some(fence.claim)
        && let Some(newest_interrupt) = view.interrupt(thread, mailbox.epoch)?
        && newest_interrupt
            .take_over
            .is_some_and(|take_over| take_over.token == fence.token && take_over.claim == fence.claim)
    {
        return Ok(());
    }
    let Some(stored) = view.dispatch(&fence.dispatch)? else {
        return if mailbox.last_claim >= Some(fence.claim) { Err(lost_error(&claim)) } else { Ok(()) };
    };
    let builder = PlanBuilder::open(view, thread, mailbox.last_time)?;
    let is_fenced_claim = |number| number == fence.claim;
    let token = fence.token.digest();
    let proves_current_claim = stored.state.claim.as_ref().is_some_and(|claim| claim.token == token);
    if stored.body.thread != *thread
        || proves_current_claim && !stored.state.claim.as_ref().is_some_and(|claim| is_fenced_claim(claim.claim.number))
    {
        return Err(lost_error(&claim));
    }
    match token_status(&builder, &stored, &token) {
        TokenStatus::Live => Ok(()),
        TokenStatus::Stale | TokenStatus::Superseded => Err(stale_error(&builder, &stored)),
        TokenStatus::Lost => Err(lost_error(&claim)),
    }
}

/// Returns the plan of the settlement that a commit contains. The claim of the commit must have been checked before
/// (CM-33).
///
/// # Errors
/// The error of a refused settlement; any error of the view.
pub fn settle_in_commit(
    view: &(impl MailboxView + ?Sized),
    fence: &Fence,
    settlement: &Settlement,
    decision_context: DecisionContext<'_>,
) -> Result<Box<MailboxPlan>> {
    let claim = ClaimRef::from(fence);
    let decision = settle(view, &claim, settlement, decision_context)?;
    decision.answer?;
    // If there is no plan, the same settlement was made before, so the claim is lost.
    decision.plan.ok_or_else(|| lost_error(&claim)).map_err(|error: Error| error.in_part("settle"))
}
