//! Claiming.

use std::collections::BTreeSet;

use store_core::{
    ClaimRequest, Claims, Error, ErrorKind, NotClaimedReason, Result, ThreadId, UnreadableThread,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxView, SingleClaim},
};

use crate::{rows::Rows, writer::NestedResult};

/// The largest number of expired claims that one call of `claim` ends, and the largest number of threads whose due
/// dispatches it makes available. The next call handles the remaining ones.
const MAX_EXPIRED_OR_DUE: u32 = 1_000;
/// The largest number of ready threads that one statement reads.
const READY_BATCH: u32 = 64;

/// Claims the dispatch that the request names, or a dispatch of the thread that it names. If the request names neither,
/// claims from the ready threads.
pub(super) fn claim(
    rows: &Rows<'_>,
    request: &ClaimRequest,
    decision_context: DecisionContext<'_>,
) -> NestedResult<Claims> {
    rows.set_payloads_included();
    let thread = match (&request.thread, &request.dispatch) {
        (None, None) => return claim_any(rows, request, decision_context),
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => match rows.dispatch(id) {
            Ok(found) => found.map(|stored| stored.body.thread.clone()),
            Err(error) => return Ok(Err(error)),
        },
    };
    let Some(thread) = thread else { return Ok(Ok(Claims::none(Some(NotClaimedReason::Unknown)))) };
    let single_claim = match SingleClaim::of(request) {
        Ok(single_claim) => single_claim,
        Err(refusal) => return Ok(Err(refusal)),
    };
    match claim_from_thread(rows, &thread, single_claim, decision_context)? {
        Err(error) if request.dispatch.is_none() => {
            let mut claims = Claims::default();
            claims.unreadable.push(unreadable_or_error(thread, error)?);
            Ok(Ok(claims))
        }
        found => Ok(found),
    }
}

/// Claims from one thread.
fn claim_from_thread(
    rows: &Rows<'_>,
    thread: &ThreadId,
    single_claim: SingleClaim<'_>,
    decision_context: DecisionContext<'_>,
) -> NestedResult<Claims> {
    if let Err(error) = rows.promote_due(thread, decision_context.now) {
        return answer_if_corrupt(error);
    }
    rows.decide(|view| mailbox::claim(view, thread, single_claim, decision_context))
}

/// If the error says that data is damaged, returns it as the answer for this thread only (the inner result). Any other
/// error fails the whole call (the outer result).
fn answer_if_corrupt<T>(error: Error) -> NestedResult<T> {
    if error.kind() == ErrorKind::Corrupt { Ok(Err(error)) } else { Err(error) }
}

/// If the error says that data of the thread is damaged, returns it as a report about the thread. A claim leaves such a
/// thread out (MB-55). Any other error is returned as an error.
fn unreadable_or_error(thread: ThreadId, error: Error) -> Result<UnreadableThread> {
    if error.kind() == ErrorKind::Corrupt { Ok(UnreadableThread::new(thread, error)) } else { Err(error) }
}

/// Claims from the ready threads, in their order.
///
/// Expired leases are ended and due dispatches are made available first, because their threads are also ready.
fn claim_any(rows: &Rows<'_>, request: &ClaimRequest, decision_context: DecisionContext<'_>) -> NestedResult<Claims> {
    let single_claim = match SingleClaim::of(request) {
        Ok(single_claim) => single_claim,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let (mut claims, mut left_out_threads) = (Claims::default(), BTreeSet::new());
    let mut leave_out = |claims: &mut Claims, thread: ThreadId, error: Error| -> Result<()> {
        if left_out_threads.insert(thread.clone()) {
            claims.unreadable.push(unreadable_or_error(thread, error)?);
        }
        Ok(())
    };
    if !rows.has_found_nothing_due(decision_context.now) {
        let (expired, due) = (
            rows.expired_leases(decision_context.now, None, MAX_EXPIRED_OR_DUE)?,
            rows.due_threads(decision_context.now, MAX_EXPIRED_OR_DUE)?,
        );
        if expired.is_empty() && due.is_empty() {
            rows.remember_nothing_due(decision_context.now);
        }
        for (_, thread) in expired {
            if let Err(error) = rows.decide(|view| mailbox::end_expired_claim(view, &thread, decision_context))? {
                leave_out(&mut claims, thread, error)?;
            }
        }
        for thread in due {
            if let Err(error) = rows.promote_due(&thread, decision_context.now) {
                leave_out(&mut claims, thread, error)?;
            }
        }
    }
    let (max_claims, mut after) = (u64::from(request.limit), None);
    while length(claims.claimed.len()) < max_claims {
        let remaining = u32::try_from(max_claims - length(claims.claimed.len())).unwrap_or(READY_BATCH);
        let ready_threads = rows.ready_threads(after.as_ref(), remaining.min(READY_BATCH))?;
        let Some(last) = ready_threads.last().cloned() else { break };
        for (_, _, thread) in ready_threads {
            match claim_from_thread(rows, &thread, single_claim, decision_context)? {
                // No dispatch of the thread is due any more, because the clock was set back.
                Ok(found) if found.claimed.is_empty() => rows.promote_and_demote(&thread, decision_context.now)?,
                Ok(found) => claims.claimed.extend(found.claimed),
                Err(error) => leave_out(&mut claims, thread, error)?,
            }
        }
        after = Some(last);
    }
    Ok(Ok(claims))
}
