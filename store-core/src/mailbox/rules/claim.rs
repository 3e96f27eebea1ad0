//! The rules of claims and of expired leases.

use std::time::Duration;

use super::{MailboxDecision, MailboxView, plan_builder::PlanBuilder};
use crate::{
    claim::{ClaimToken, check_lease},
    codec::Extra,
    commit::DecisionContext,
    error::{Error, Result},
    id::{DispatchId, ThreadId, WorkerId},
    mailbox::{
        AttemptEnd, ClaimRequest, ClaimedDispatch, Claims, CurrentClaim, DispatchAct, DispatchClaim, DispatchStatus,
        NotClaimedReason, ReadyThread, Reclaimed, StoredClaim, StoredDispatch,
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
        check_call_limit(request.limit)?;
        Ok(Self { worker: &request.worker, lease: request.lease, dispatch: request.dispatch.as_ref() })
    }
}

/// Refuses a limit of 0 and a limit above 1,000.
///
/// # Errors
/// `Invalid`.
pub fn check_call_limit(limit: u32) -> Result<()> {
    match limit {
        1..=1_000 => Ok(()),
        _ => Err(Error::invalid("limit", "it must be from 1 to 1000")),
    }
}

/// Claims a dispatch of a thread, if the thread is free and a dispatch is available (MB-17 to MB-29).
///
/// A claim whose lease has expired is ended first. The answer has at most one claimed dispatch.
///
/// # Errors
/// Any error of the view.
pub fn claim(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    request: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Claims>> {
    let mut builder = PlanBuilder::open(view, thread, decision_context.now)?;
    if let Some(id) = request.dispatch
        && view.dispatch(id)?.is_none_or(|stored| stored.body.thread != *thread)
    {
        return Ok(MailboxDecision::unchanged(Ok(Claims::none(Some(NotClaimedReason::Unknown)))));
    }
    let mut reclaimed_dispatch = None;
    if let Some(current_claim) = builder.mailbox().running.clone() {
        if !builder.is_lease_expired() {
            let missed = request.dispatch.map(|id| match *id == current_claim.dispatch {
                true => NotClaimedReason::NotQueued(DispatchStatus::Claimed),
                false => NotClaimedReason::Busy(current_claim.dispatch),
            });
            return Ok(MailboxDecision::unchanged(Ok(Claims::none(missed))));
        }
        reclaimed_dispatch = end_running_claim(&mut builder)?;
    }
    let selection = select_dispatch(&builder, request, reclaimed_dispatch)?;
    let stored = match selection {
        Ok(Some(stored)) => stored,
        Ok(None) => return Ok(builder.finish(Ok(Claims::default()))),
        Err(missed) => return Ok(builder.finish(Ok(Claims::none(Some(missed))))),
    };
    let claimed_dispatch = grant_claim(&mut builder, stored, request, decision_context)?;
    Ok(builder.finish(Ok(Claims { claimed: vec![claimed_dispatch], ..Claims::default() })))
}

/// Chooses the dispatch to claim on a free thread.
///
/// `reclaimed_dispatch` is the dispatch whose expired claim this decision has ended. The view still shows it as
/// claimed. The outer error is an error of the view. The inner result is the dispatch, or none if no dispatch is
/// available. If the request names a dispatch that cannot be claimed, the inner error is the reason.
fn select_dispatch<V: MailboxView + ?Sized>(
    builder: &PlanBuilder<'_, V>,
    request: SingleClaim<'_>,
    reclaimed_dispatch: Option<StoredDispatch>,
) -> Result<std::result::Result<Option<StoredDispatch>, NotClaimedReason>> {
    if let Some(id) = request.dispatch {
        let Some(stored) = reclaimed_dispatch
            .filter(|reclaimed_dispatch| reclaimed_dispatch.id() == id)
            .map_or_else(|| builder.view.dispatch(id), |stored| Ok(Some(stored)))?
        else {
            return Ok(Err(NotClaimedReason::Unknown));
        };
        return Ok(match builder.machine_state(&stored).visible_status().unwrap_or_default() {
            DispatchStatus::Queued => Ok(Some(stored)),
            status => Err(NotClaimedReason::NotQueued(status)),
        });
    }
    first_claimable(builder, reclaimed_dispatch).map(Ok)
}

/// Returns the first available dispatch. `reclaimed_dispatch`, whose expired claim this decision has ended, counts too
/// if it is queued again.
fn first_claimable<V: MailboxView + ?Sized>(
    builder: &PlanBuilder<'_, V>,
    reclaimed_dispatch: Option<StoredDispatch>,
) -> Result<Option<StoredDispatch>> {
    let reclaimed_dispatch =
        reclaimed_dispatch.filter(|reclaimed_dispatch| reclaimed_dispatch.state.status == DispatchStatus::Queued);
    let first_queued = match builder.view.first_available(builder.thread(), builder.mailbox().epoch, builder.now)? {
        Some(id) => builder.view.dispatch(&id)?,
        None => None,
    };
    let order = |stored: &StoredDispatch| (stored.body.priority, stored.body.number);
    Ok([reclaimed_dispatch, first_queued].into_iter().flatten().min_by_key(order))
}

fn grant_claim<V: MailboxView + ?Sized>(
    builder: &mut PlanBuilder<'_, V>,
    mut stored: StoredDispatch,
    request: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> Result<ClaimedDispatch> {
    builder.apply_act(&mut stored, DispatchAct::Claim)?;
    let (number, now) = (builder.take_claim_number(), builder.now);
    let token = ClaimToken::new(decision_context.ids.next_id());
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
    builder.mailbox_mut().running = Some(CurrentClaim {
        dispatch: stored.id().clone(),
        epoch: stored.state.epoch,
        lease_until,
        extra: Extra::default(),
    });
    let dispatch = stored.to_dispatch();
    builder.put_dispatch(stored);
    Ok(ClaimedDispatch::new(dispatch, token, number))
}

/// Ends the claim of a thread if its lease has expired (MB-29, MB-36).
///
/// # Errors
/// Any error of the view.
pub fn end_expired_claim(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    decision_context: DecisionContext<'_>,
) -> Result<MailboxDecision<Reclaimed>> {
    let mut builder = PlanBuilder::open(view, thread, decision_context.now)?;
    let reclaimed_dispatch = if builder.is_lease_expired() { end_running_claim(&mut builder)? } else { None };
    let mut reclaimed = Reclaimed::default();
    if let Some(stored) = reclaimed_dispatch {
        let list = match stored.state.status {
            DispatchStatus::Queued => &mut reclaimed.requeued,
            DispatchStatus::Superseded => &mut reclaimed.superseded,
            _ => &mut reclaimed.dead_lettered,
        };
        list.push(stored.id().clone());
    }
    Ok(builder.finish(Ok(reclaimed)))
}

/// Ends the claim of the thread, whose lease must have expired. Returns the changed dispatch, or none if the thread is
/// free.
fn end_running_claim<V: MailboxView + ?Sized>(builder: &mut PlanBuilder<'_, V>) -> Result<Option<StoredDispatch>> {
    let Some(current_claim) = &builder.mailbox().running else { return Ok(None) };
    let stored = builder.view.dispatch(&current_claim.dispatch)?;
    let stored = stored.ok_or_else(|| Error::corrupt("a claimed dispatch does not exist"))?;
    end_lease(builder, stored).map(Some)
}

/// Ends an attempt whose lease has expired. Returns the changed dispatch.
pub(super) fn end_lease<V: MailboxView + ?Sized>(
    builder: &mut PlanBuilder<'_, V>,
    mut stored: StoredDispatch,
) -> Result<StoredDispatch> {
    if builder.machine_state(&stored).is_stale {
        builder.supersede(&mut stored, DispatchAct::Lapse)?;
    } else {
        builder.apply_act(&mut stored, DispatchAct::Lapse)?;
        let state = &mut stored.state;
        state.attempts = state.attempts.saturating_add(1);
        state.last_error = Some("lease expired".to_owned());
        state.available_at = builder.now;
        builder.end_attempt(&mut stored, AttemptEnd::LeaseExpired, None);
    }
    builder.put_dispatch(stored.clone());
    Ok(stored)
}

/// Returns the dispatch that a claim of a thread would get now, or `None` if it would get none (MB-47).
///
/// # Errors
/// Any error of the view.
pub fn ready_thread(
    view: &(impl MailboxView + ?Sized),
    thread: &ThreadId,
    decision_context: DecisionContext<'_>,
) -> Result<Option<ReadyThread>> {
    let mut builder = PlanBuilder::open(view, thread, decision_context.now)?;
    let mut reclaimed_dispatch = None;
    if builder.mailbox().running.is_some() {
        if !builder.is_lease_expired() {
            return Ok(None);
        }
        reclaimed_dispatch = end_running_claim(&mut builder)?;
    }
    let first_dispatch = first_claimable(&builder, reclaimed_dispatch)?;
    Ok(first_dispatch.map(|stored| ReadyThread::new(thread.clone(), stored.id().clone(), stored.body.priority)))
}
