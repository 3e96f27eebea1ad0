//! The rules of purges and requeues.

use super::{MailboxChange, MailboxView, claim::check_batch, draft::MailboxDraft, visible_dispatch};
use crate::{
    commit::DecisionContext,
    error::{Error, Result},
    id::DispatchId,
    limits::Limits,
    mailbox::{Act, Dispatch, DispatchStatus, Purge, Requeue, RequeueChoice, StoredDispatch, rules::check_requests},
    time::Timestamp,
};

impl Purge {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range.
    pub fn check(&self) -> Result<()> {
        check_batch(self.limit)
    }
}

impl Requeue {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// `LimitExceeded` for too many ids; `Invalid` for a limit out of range.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        match &self.choice {
            RequeueChoice::Ids(ids) => check_requests(ids.len(), limits),
            RequeueChoice::Filter { limit, .. } => check_batch(*limit),
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
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<bool>> {
    let Some(stored) = view.dispatch(id)? else { return Ok(MailboxChange::unchanged(Ok(false))) };
    if !is_purgeable(view, &stored, before)? {
        return Ok(MailboxChange::unchanged(Ok(false)));
    }
    let mut draft = MailboxDraft::open(view, &stored.body.thread, setting.now)?;
    draft.purge(&stored)?;
    Ok(draft.finish(Ok(true)))
}

/// Puts a dead letter back into the queue, or returns why that is refused (MB-50).
///
/// # Errors
/// Any error of the view.
pub fn requeue(
    view: &(impl MailboxView + ?Sized),
    id: &DispatchId,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Dispatch>> {
    let refused = |error| Ok(MailboxChange::unchanged(Err(error)));
    let Some(mut stored) = view.dispatch(id)? else { return refused(Error::not_found("dispatch", id)) };
    let mut draft = MailboxDraft::open(view, &stored.body.thread, setting.now)?;
    if let Err(error) = draft.apply(&mut stored, Act::Requeue) {
        return refused(error);
    }
    if let Some(key) = &stored.body.dedupe_key
        && let Some(holder) = view.last_with_key(&stored.body.thread, key)?.filter(|holder| holder != id)
        && let Some(other) = view.dispatch(&holder)?
        && matches!(draft.machine_state(&other).status(), Some(DispatchStatus::Queued | DispatchStatus::Claimed))
    {
        return refused(Error::key_taken(key, "dispatch", holder));
    }
    let (now, epoch) = (draft.now, draft.mailbox().epoch);
    let state = &mut stored.state;
    state.attempts = 0;
    state.epoch = epoch;
    state.available_at = now;
    let dispatch = stored.to_dispatch();
    draft.put(stored);
    Ok(draft.finish(Ok(dispatch)))
}
