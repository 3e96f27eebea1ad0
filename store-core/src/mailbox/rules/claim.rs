//! The rules of claims and of expired leases.

use std::time::Duration;

use super::{MailboxChange, MailboxView, draft::MailboxDraft};
use crate::{
    claim::{ClaimToken, check_lease},
    codec::Extra,
    commit::DecisionContext,
    error::{Error, Result},
    id::{DispatchId, ThreadId, WorkerId},
    mailbox::{
        Act, AttemptEnd, ClaimRequest, ClaimedDispatch, Claims, CurrentClaim, DispatchClaim, DispatchStatus, Missed,
        ReadyThread, Reclaimed, StoredClaim, StoredDispatch,
    },
};

/// A claim of one dispatch of one thread.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SingleClaim<'a> {
    /// The worker that claims.
    pub worker: &'a WorkerId,
    /// The length of the lease.
    pub lease: Duration,
    /// The dispatch to claim; absent for the first available dispatch of the thread.
    pub dispatch: Option<&'a DispatchId>,
}

impl<'a> SingleClaim<'a> {
    /// Returns the claim that a request makes on each thread.
    ///
    /// # Errors
    /// `Invalid` for a lease (MB-24) or a limit out of range.
    pub fn of(request: &'a ClaimRequest) -> Result<Self> {
        check_lease(request.lease)?;
        check_batch(request.limit)?;
        Ok(Self { worker: &request.worker, lease: request.lease, dispatch: request.dispatch.as_ref() })
    }
}

/// Refuses a limit of 0 and a limit above 1,000.
///
/// # Errors
/// `Invalid`.
pub fn check_batch(limit: u32) -> Result<()> {
    match limit {
        1..=1_000 => Ok(()),
        _ => Err(Error::invalid("limit", "it must be from 1 to 1000")),
    }
}

/// Claims a dispatch of a thread, if the thread is free and a dispatch is available (MB-17 to MB-29).
///
/// A claim whose lease has expired is ended first. The answer has one claimed dispatch at most.
///
/// # Errors
/// Any error of the view.
pub fn claim(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    request: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Claims>> {
    let mut draft = MailboxDraft::open(view, thread, setting.now)?;
    if let Some(id) = request.dispatch
        && view.dispatch(id)?.is_none_or(|stored| stored.body.thread != *thread)
    {
        return Ok(MailboxChange::unchanged(Ok(Claims::none(Some(Missed::Unknown)))));
    }
    let mut ended = None;
    if let Some(running) = draft.mailbox().running.clone() {
        if !draft.lease_expired() {
            let missed = request.dispatch.map(|id| match *id == running.dispatch {
                true => Missed::NotQueued(DispatchStatus::Claimed),
                false => Missed::Busy(running.dispatch),
            });
            return Ok(MailboxChange::unchanged(Ok(Claims::none(missed))));
        }
        ended = end_running_claim(&mut draft)?;
    }
    let chosen = choose(&draft, request, ended)?;
    let stored = match chosen {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(draft.finish(Ok(Claims::default()))),
        Err(missed) => return Ok(draft.finish(Ok(Claims::none(Some(missed))))),
    };
    let claimed = grant_claim(&mut draft, stored, request, setting)?;
    Ok(draft.finish(Ok(Claims { claimed: vec![claimed], ..Claims::default() })))
}

/// Chooses the dispatch to claim on a free thread.
///
/// `ended` is the dispatch whose expired claim this decision has ended. The view still shows it as claimed. The outer
/// error is one of the view. The inner result is the dispatch, none if no dispatch is available, or the reason why the
/// named dispatch cannot be claimed.
fn choose<V: MailboxView + ?Sized>(
    draft: &MailboxDraft<'_, V>,
    request: SingleClaim<'_>,
    ended: Option<StoredDispatch>,
) -> Result<std::result::Result<Option<StoredDispatch>, Missed>> {
    if let Some(id) = request.dispatch {
        let Some(stored) =
            ended.filter(|ended| ended.id() == id).map_or_else(|| draft.view.dispatch(id), |e| Ok(Some(e)))?
        else {
            return Ok(Err(Missed::Unknown));
        };
        return Ok(match draft.machine_state(&stored).status().unwrap_or_default() {
            DispatchStatus::Queued => Ok(Some(stored)),
            status => Err(Missed::NotQueued(status)),
        });
    }
    first_claimable(draft, ended).map(Ok)
}

/// Returns the first available dispatch.
fn first_claimable<V: MailboxView + ?Sized>(
    draft: &MailboxDraft<'_, V>,
    ended: Option<StoredDispatch>,
) -> Result<Option<StoredDispatch>> {
    let ended = ended.filter(|ended| ended.state.status == DispatchStatus::Queued);
    let waiting = match draft.view.first_available(draft.thread(), draft.mailbox().epoch, draft.now)? {
        Some(id) => draft.view.dispatch(&id)?,
        None => None,
    };
    let order = |stored: &StoredDispatch| (stored.body.priority, stored.body.number);
    Ok([ended, waiting].into_iter().flatten().min_by_key(order))
}

fn grant_claim<V: MailboxView + ?Sized>(
    draft: &mut MailboxDraft<'_, V>,
    mut stored: StoredDispatch,
    request: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Result<ClaimedDispatch> {
    draft.apply(&mut stored, Act::Claim)?;
    let (number, now) = (draft.next_claim(), draft.now);
    let token = ClaimToken::new(setting.ids.next_id());
    let lease_until = now.saturating_add(request.lease);
    let claim = DispatchClaim {
        worker: request.worker.clone(),
        number,
        claimed_at: now,
        lease_until,
        started_at: None,
        instance: None,
        extra: Extra::default(),
    };
    stored.state.claim = Some(StoredClaim { claim, token: token.digest(), extra: Extra::default() });
    draft.mailbox_mut().running = Some(CurrentClaim {
        dispatch: stored.id().clone(),
        epoch: stored.state.epoch,
        lease_until,
        extra: Extra::default(),
    });
    let dispatch = stored.to_dispatch();
    draft.put(stored);
    Ok(ClaimedDispatch::new(dispatch, token, number))
}

/// Ends the claim of a thread if its lease has expired (MB-29, MB-36).
///
/// # Errors
/// Any error of the view.
pub fn lapse(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    setting: DecisionContext<'_>,
) -> Result<MailboxChange<Reclaimed>> {
    let mut draft = MailboxDraft::open(view, thread, setting.now)?;
    let ended = if draft.lease_expired() { end_running_claim(&mut draft)? } else { None };
    let mut reclaimed = Reclaimed::default();
    if let Some(stored) = ended {
        let ended = match stored.state.status {
            DispatchStatus::Queued => &mut reclaimed.requeued,
            DispatchStatus::Superseded => &mut reclaimed.superseded,
            _ => &mut reclaimed.dead_lettered,
        };
        ended.push(stored.id().clone());
    }
    Ok(draft.finish(Ok(reclaimed)))
}

fn end_running_claim<V: MailboxView + ?Sized>(draft: &mut MailboxDraft<'_, V>) -> Result<Option<StoredDispatch>> {
    let Some(running) = &draft.mailbox().running else { return Ok(None) };
    let stored = draft.view.dispatch(&running.dispatch)?;
    let stored = stored.ok_or_else(|| Error::corrupt("a claimed dispatch does not exist"))?;
    end_lease(draft, stored).map(Some)
}

/// Ends an attempt whose lease has expired. Returns the dispatch after that.
pub(super) fn end_lease<V: MailboxView + ?Sized>(
    draft: &mut MailboxDraft<'_, V>,
    mut stored: StoredDispatch,
) -> Result<StoredDispatch> {
    if draft.machine_state(&stored).is_stale {
        draft.supersede(&mut stored, Act::Lapse)?;
    } else {
        draft.apply(&mut stored, Act::Lapse)?;
        let state = &mut stored.state;
        state.attempts = state.attempts.saturating_add(1);
        state.last_error = Some("lease expired".to_owned());
        state.available_at = draft.now;
        draft.end_attempt(&mut stored, AttemptEnd::LeaseExpired, None);
    }
    draft.put(stored.clone());
    Ok(stored)
}

/// Returns the dispatch that a claim of a thread would get now, or `None` if it would get none (MB-47).
///
/// # Errors
/// Any error of the view.
pub fn ready_thread(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    setting: DecisionContext<'_>,
) -> Result<Option<ReadyThread>> {
    let mut draft = MailboxDraft::open(view, thread, setting.now)?;
    let mut ended = None;
    if draft.mailbox().running.is_some() {
        if !draft.lease_expired() {
            return Ok(None);
        }
        ended = end_running_claim(&mut draft)?;
    }
    let found = first_claimable(&draft, ended)?;
    Ok(found.map(|stored| ReadyThread::new(thread.clone(), stored.id().clone(), stored.body.priority)))
}
