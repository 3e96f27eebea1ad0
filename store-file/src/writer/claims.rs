//! Claims of dispatches: which ones a worker gets, and the end of those whose lease is over.

use store_core::{
    ClaimRequest, Claims, Error, ErrorKind, NotClaimedReason, Reclaimed, Result, ThreadId, Timestamp, length,
    mailbox::{self, SingleClaim, UnreadableThread},
};

use super::Round;
use crate::{
    codec::damaged,
    dispatch_lists::lapsed,
    dispatch_rows::MailboxRows,
    fold::mailbox::{turn, turn_all},
    index::Direction,
    table::{self, MailboxList},
    walk::Walk,
};

/// How many expired claims one claim ends. The next claim ends the others.
const LAPSES: usize = 1_000;

impl Round<'_> {
    /// Claims what a request names, or ready threads in their order.
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Result<Claims> {
        let one = SingleClaim::of(request)?;
        let named = match (&request.dispatch, &request.thread) {
            (_, Some(thread)) => Some(thread.clone()),
            (Some(id), None) => match self.staged.dispatch_row(&self.key.0, id)? {
                Some(row) => Some(row.body.thread),
                None => return Ok(Claims::none(Some(NotClaimedReason::Unknown))),
            },
            (None, None) => None,
        };
        match named {
            Some(thread) => self.claim_of(&thread, one, now)?,
            None => self.claim_any((request.limit, one), now),
        }
    }

    fn claim_of(&mut self, thread: &ThreadId, one: SingleClaim<'_>, now: Timestamp) -> Result<Result<Claims>> {
        turn(&mut self.staged, &self.key.0, thread, now)?;
        self.change_whole(now, |view, setting| mailbox::claim(view, thread, one, setting))
    }

    /// Claims from ready threads, in their order.
    fn claim_any(&mut self, what: (u32, SingleClaim<'_>), now: Timestamp) -> Result<Claims> {
        let (mut claims, (limit, one)) = (Claims::default(), what);
        let tenant = self.key.0.clone();
        for thread in lapsed(&self.staged, &tenant, now, LAPSES)? {
            if let Err(error) = self.change(now, |view, setting| mailbox::end_expired_claim(view, &thread, setting))? {
                claims.unreadable.push(UnreadableThread::new(thread, bad(error)?));
            }
        }
        turn_all(&mut self.staged, &tenant, now)?;
        let list = table::mailbox_list(&tenant, MailboxList::Ready);
        let mut after = None;
        while length(claims.claimed.len()) < u64::from(limit) {
            let Some(key) = self.staged.next(&list, after, Direction::Forward)? else { break };
            let (_, _, thread) = table::read_ready_place(&list, &key).ok_or_else(|| damaged("ready thread"))?;
            after = Some(key);
            match self.claim_of(&thread, one, now)? {
                Ok(found) => claims.claimed.extend(found.claimed),
                // Nothing of the thread was changed (MB-55).
                Err(error) => claims.unreadable.push(UnreadableThread::new(thread, bad(error)?)),
            }
        }
        Ok(claims)
    }

    /// Ends claims whose lease is over, at most so many.
    pub(super) fn reclaim(&mut self, limit: u32, now: Timestamp) -> Result<Reclaimed> {
        mailbox::check_call_limit(limit)?;
        let mut reclaimed = Reclaimed::default();
        for thread in lapsed(&self.staged, &self.key.0, now, limit as usize)? {
            let lapsed = self.change(now, |view, setting| mailbox::end_expired_claim(view, &thread, setting))?;
            reclaimed.extend(lapsed.or_else(|error| bad(error).map(|_| Reclaimed::default()))?);
        }
        Ok(reclaimed)
    }
}

/// Returns the error of a thread whose records are damaged: it does not concern other threads.
fn bad(error: Error) -> Result<Error> {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::InvalidTransition => Ok(error),
        _ => Err(error),
    }
}
