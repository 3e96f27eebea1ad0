//! The rules of purges and requeues.

use super::{MailboxDecision, MailboxView, claim::check_call_limit, plan_builder::PlanBuilder, visible_dispatch};
use crate::{
    commit::DecisionContext,
    error::{Error, Result},
    id::DispatchId,
    limits::{Limits, check_limit, length},
    mailbox::{
        Dispatch, DispatchAct, DispatchStatus, Purge, Requeue, RequeueChoice, StoredDispatch, rules::check_item_count,
    },
    page::MAX_PAGE,
    time::Timestamp,
};

impl Purge {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range, and for a dry run that names dispatches; `LimitExceeded` for too many ids.
    pub fn check(&self) -> Result<()> {
        if self.dry_run && !self.ids.is_empty() {
            return Err(Error::invalid("purge", "a dry run names no dispatches"));
        }
        check_limit("dispatches of one purge", length(self.ids.len()), u64::from(MAX_PAGE))?;
        check_call_limit(self.limit)
    }
}

impl Requeue {
    /// Refuses a request with more ids than `limits` allow, or with a limit out of range.
    ///
    /// # Errors
    /// `LimitExceeded` for too many ids; `Invalid` for a limit out of range.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        match &self.choice {
            RequeueChoice::Ids(ids) => check_item_count(ids.len(), limits),
            RequeueChoice::Filter { limit, .. } => check_call_limit(*limit),
        }
    }
}

/// Returns whether a dispatch ended before `before` (MB-49).
///
/// # Errors
/// Any error of the view.
pub fn is_purgeable(view: &(impl MailboxView + ?Sized), stored: &StoredDispatch, before: Timestamp) -> Result<bool> {
    Ok(visible_dispatch(view, stored)?.finished_at.is_some_and(|end| end < before))
}

/// Removes a dispatch if it ended before `before`. The answer says whether it was removed.
///
/// # Errors
/// Any error of the view.
pub fn purge(
    view: &(impl MailboxView + ?Sized),
    id: &DispatchId,
    before: Timestamp,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<bool>> {
    let Some(stored) = view.dispatch(id)? else { return Ok(MailboxDecision::unchanged(Ok(false))) };
    if !is_purgeable(view, &stored, before)? {
        return Ok(MailboxDecision::unchanged(Ok(false)));
    }
    let mut builder = PlanBuilder::open(view, &stored.body.thread, decision_context.now)?;
    builder.purge(&stored)?;
    Ok(builder.finish(Ok(true)))
}

/// Puts a dead letter back into the queue, or returns why that is refused (MB-50).
///
/// # Errors
/// Any error of the view.
pub fn requeue(
    view: &(impl MailboxView + ?Sized),
    id: &DispatchId,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Dispatch>> {
    let refuse = |error| Ok(MailboxDecision::unchanged(Err(error)));
    let Some(mut stored) = view.dispatch(id)? else { return refuse(Error::not_found("dispatch", id)) };
    let mut builder = PlanBuilder::open(view, &stored.body.thread, decision_context.now)?;
    if let Err(error) = builder.apply_act(&mut stored, DispatchAct::Requeue) {
        return refuse(error);
    }
    if let Some(key) = &stored.body.dedupe_key
        && let Some(holder_id) =
            view.last_dispatch_with_key(&stored.body.thread, key)?.filter(|holder_id| holder_id != id)
        && let Some(holder) = view.dispatch(&holder_id)?
        && matches!(
            builder.machine_state(&holder).visible_status(),
            Some(DispatchStatus::Queued | DispatchStatus::Claimed)
        )
    {
        return refuse(Error::key_taken(key, "dispatch", holder_id));
    }
    let (now, epoch) = (builder.now, builder.mailbox().epoch);
    let state = &mut stored.state;
    state.attempts = 0;
    state.epoch = epoch;
    state.available_at = now;
    let dispatch = stored.to_dispatch();
    builder.put_dispatch(stored);
    Ok(builder.finish(Ok(dispatch)))
}
