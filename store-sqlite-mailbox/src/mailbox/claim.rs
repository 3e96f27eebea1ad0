//! Claiming.

use std::collections::BTreeSet;

use store_core::{
    ClaimRequest, Claims, Error, ErrorKind, Missed, Result, ThreadId, Unreadable,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxView, SingleClaim},
};

use crate::{rows::Rows, writer::Decided};

/// The largest number of expired leases that one claim ends, and of threads whose due dispatches it makes available.
/// The next claim handles the remaining ones.
const MAX_EXPIRED: u32 = 1_000;
/// The largest number of ready threads that one statement reads.
const READY_BATCH: u32 = 64;

/// Claims the dispatch that the request names, or a dispatch of the thread that it names. If the request names neither,
/// claims from the ready threads.
pub(super) fn claim(rows: &Rows<'_>, request: &ClaimRequest, setting: DecisionContext<'_>) -> Decided<Claims> {
    rows.include_payloads();
    let thread = match (&request.thread, &request.dispatch) {
        (None, None) => return claim_any(rows, request, setting),
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => match rows.dispatch(id) {
            Ok(found) => found.map(|stored| stored.body.thread.clone()),
            Err(error) => return Ok(Err(error)),
        },
    };
    let Some(thread) = thread else { return Ok(Ok(Claims::none(Some(Missed::Unknown)))) };
    let one = match SingleClaim::of(request) {
        Ok(one) => one,
        Err(refused) => return Ok(Err(refused)),
    };
    match claim_from_thread(rows, &thread, one, setting)? {
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
    one: SingleClaim<'_>,
    setting: DecisionContext<'_>,
) -> Decided<Claims> {
    if let Err(error) = rows.promote_due(thread, setting.now, false) {
        return answer_if_corrupt(error);
    }
    rows.change(|view| mailbox::claim(view, thread, one, setting))
}

/// Returns an error of damaged data as the answer for this thread only (the inner result). Any other error fails the
/// whole call (the outer result).
fn answer_if_corrupt<T>(error: Error) -> Decided<T> {
    if error.kind() == ErrorKind::Corrupt { Ok(Err(error)) } else { Err(error) }
}

/// Returns a thread that a claim leaves out because its data is damaged (MB-55). Any other error is returned as an
/// error.
fn unreadable_or_error(thread: ThreadId, error: Error) -> Result<Unreadable> {
    if error.kind() == ErrorKind::Corrupt { Ok(Unreadable::new(thread, error)) } else { Err(error) }
}

/// Claims from the ready threads, in their order.
///
/// Expired leases are ended and due dispatches are made available first, because their threads are ready, too.
fn claim_any(rows: &Rows<'_>, request: &ClaimRequest, setting: DecisionContext<'_>) -> Decided<Claims> {
    let one = match SingleClaim::of(request) {
        Ok(one) => one,
        Err(refused) => return Ok(Err(refused)),
    };
    let (mut claims, mut left_out) = (Claims::default(), BTreeSet::new());
    let mut leave_out = |claims: &mut Claims, thread: ThreadId, error: Error| -> Result<()> {
        if left_out.insert(thread.clone()) {
            claims.unreadable.push(unreadable_or_error(thread, error)?);
        }
        Ok(())
    };
    if !rows.is_nothing_due(setting.now) {
        let (lapsed, due) = (rows.lapsed(setting.now, None, MAX_EXPIRED)?, rows.due(setting.now, MAX_EXPIRED)?);
        if lapsed.is_empty() && due.is_empty() {
            rows.remember_nothing_due(setting.now);
        }
        for (_, thread) in lapsed {
            if let Err(error) = rows.change(|view| mailbox::lapse(view, &thread, setting))? {
                leave_out(&mut claims, thread, error)?;
            }
        }
        for thread in due {
            if let Err(error) = rows.promote_due(&thread, setting.now, false) {
                leave_out(&mut claims, thread, error)?;
            }
        }
    }
    let (wanted, mut after) = (u64::from(request.limit), None);
    while length(claims.claimed.len()) < wanted {
        let missing = u32::try_from(wanted - length(claims.claimed.len())).unwrap_or(READY_BATCH);
        let ready_threads = rows.ready(after.as_ref(), missing.min(READY_BATCH))?;
        let Some(last) = ready_threads.last().cloned() else { break };
        for (_, _, thread) in ready_threads {
            match claim_from_thread(rows, &thread, one, setting)? {
                // No dispatch of the thread is due any more, because the clock was set back.
                Ok(found) if found.claimed.is_empty() => rows.promote_due(&thread, setting.now, true)?,
                Ok(found) => claims.claimed.extend(found.claimed),
                Err(error) => leave_out(&mut claims, thread, error)?,
            }
        }
        after = Some(last);
    }
    Ok(Ok(claims))
}
