//! Claiming.

use std::collections::BTreeSet;

use store_core::{
    ClaimRequest, Claims, Error, ErrorKind, Missed, Result, ThreadId, Unreadable,
    commit::Setting,
    length,
    mailbox::{self, ClaimOne, MailboxView},
};

use crate::{rows::Rows, writer::Decided};

/// How many claims whose lease is over one claim ends, and how many threads it makes available: what is left is there
/// for the next one.
const LAPSES: u32 = 1_000;
/// How many ready threads are looked at in one go.
const AHEAD: u32 = 64;

/// What a claim names.
pub(super) fn claim(rows: &Rows<'_>, request: &ClaimRequest, setting: Setting<'_>) -> Decided<Claims> {
    rows.read_payloads();
    let thread = match (&request.thread, &request.dispatch) {
        (None, None) => return claim_any(rows, request, setting),
        (Some(thread), _) => Some(thread.clone()),
        (None, Some(id)) => match rows.dispatch(id) {
            Ok(found) => found.map(|stored| stored.body.thread.clone()),
            Err(error) => return Ok(Err(error)),
        },
    };
    let Some(thread) = thread else { return Ok(Ok(Claims::none(Some(Missed::Unknown)))) };
    let one = match ClaimOne::of(request) {
        Ok(one) => one,
        Err(refused) => return Ok(Err(refused)),
    };
    match claim_of(rows, &thread, one, setting)? {
        Err(error) if request.dispatch.is_none() => {
            let mut claims = Claims::default();
            claims.unreadable.push(readable(thread, error)?);
            Ok(Ok(claims))
        }
        found => Ok(found),
    }
}

/// Claims from one thread.
fn claim_of(rows: &Rows<'_>, thread: &ThreadId, one: ClaimOne<'_>, setting: Setting<'_>) -> Decided<Claims> {
    if let Err(error) = rows.turn(thread, setting.now, false) {
        return damaged(error);
    }
    rows.change(|view| mailbox::claim(view, thread, one, setting))
}

/// The error of a record is that of its thread; any other is one of the call.
fn damaged<T>(error: Error) -> Decided<T> {
    if error.kind() == ErrorKind::Corrupt { Ok(Err(error)) } else { Err(error) }
}

/// A thread that is left out (MB-55). What is no damage is an error of the call.
fn readable(thread: ThreadId, error: Error) -> Result<Unreadable> {
    if error.kind() == ErrorKind::Corrupt { Ok(Unreadable::new(thread, error)) } else { Err(error) }
}

/// Claims from the threads that are ready, in their order. Leases that are over are ended first, and what is due is
/// made available: their threads are ready, too.
fn claim_any(rows: &Rows<'_>, request: &ClaimRequest, setting: Setting<'_>) -> Decided<Claims> {
    let one = match ClaimOne::of(request) {
        Ok(one) => one,
        Err(refused) => return Ok(Err(refused)),
    };
    let (mut claims, mut left_out) = (Claims::default(), BTreeSet::new());
    let mut leave_out = |claims: &mut Claims, thread: ThreadId, error: Error| -> Result<()> {
        if left_out.insert(thread.clone()) {
            claims.unreadable.push(readable(thread, error)?);
        }
        Ok(())
    };
    if !rows.is_nothing_due(setting.now) {
        let (lapsed, due) = (rows.lapsed(setting.now, None, LAPSES)?, rows.due(setting.now, LAPSES)?);
        if lapsed.is_empty() && due.is_empty() {
            rows.nothing_is_due(setting.now);
        }
        for (_, thread) in lapsed {
            if let Err(error) = rows.change(|view| mailbox::lapse(view, &thread, setting))? {
                leave_out(&mut claims, thread, error)?;
            }
        }
        for thread in due {
            if let Err(error) = rows.turn(&thread, setting.now, false) {
                leave_out(&mut claims, thread, error)?;
            }
        }
    }
    let (wanted, mut after) = (u64::from(request.limit), None);
    while length(claims.claimed.len()) < wanted {
        let missing = u32::try_from(wanted - length(claims.claimed.len())).unwrap_or(AHEAD);
        let places = rows.ready(after.as_ref(), missing.min(AHEAD))?;
        let Some(last) = places.last().cloned() else { break };
        for (_, _, thread) in places {
            match claim_of(rows, &thread, one, setting)? {
                // It was made available in a time that is not there yet: the clock was set back.
                Ok(found) if found.claimed.is_empty() => rows.turn(&thread, setting.now, true)?,
                Ok(found) => claims.claimed.extend(found.claimed),
                Err(error) => leave_out(&mut claims, thread, error)?,
            }
        }
        after = Some(last);
    }
    Ok(Ok(claims))
}
