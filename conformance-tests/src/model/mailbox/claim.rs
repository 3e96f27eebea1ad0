//! Claims, and expired leases.

use std::time::Duration;

use serde_json::json;
use store_core::{
    ClaimNumber, ClaimRequest, ClaimToken, ClaimedDispatch, Claims, DispatchStatus, Error, NotClaimedReason,
    ReadyThread, Reclaimed, Result, ThreadId, Timestamp,
};

use super::{StoredDispatch, TenantMailbox, produce::check_batch_limit};
use crate::model::{bug::Bug, commit::Environment, model_data::record_from_json};

/// Refuses a lease of length zero, and one of more than 24 hours (MB-24).
pub(super) fn check_lease(lease: Duration) -> Result<()> {
    let fits = lease > Duration::ZERO && lease <= Duration::from_hours(24);
    if fits { Ok(()) } else { Err(Error::invalid("lease", "it must be above 0 and at most 24 hours")) }
}

impl TenantMailbox {
    pub(super) fn claim(&mut self, request: &ClaimRequest, env: &Environment<'_>) -> Result<Claims> {
        check_lease(request.lease)?;
        check_batch_limit(request.limit)?;
        let mut claims = Claims::default();
        if let Some(id) = &request.dispatch {
            let found = self.index_of(id).and_then(|at| Some((at, self.stored_dispatches.get(at)?)));
            let matching = found
                .filter(|(_, stored)| request.thread.as_ref().is_none_or(|thread| *thread == stored.dispatch.thread));
            let Some((at, stored)) = matching else {
                claims.missed = Some(NotClaimedReason::Unknown);
                return Ok(claims);
            };
            let thread = stored.dispatch.thread.clone();
            self.end_claim_if_expired(&thread, env)?;
            claims.missed = self.missed_reason(at);
            if claims.missed.is_none() {
                claims.claimed.push(self.claim_one(at, request, env)?);
            }
            return Ok(claims);
        }
        let threads: Vec<ThreadId> = match &request.thread {
            Some(thread) => vec![thread.clone()],
            None => self.threads.keys().cloned().collect(),
        };
        for thread in &threads {
            // A claim that names no thread compares leases with store time, because stores find expired leases in an
            // index. A claim that names a thread uses the time of the thread, which can be later.
            if request.thread.is_some() || self.lease_end_of(thread).is_some_and(|end| self.has_passed(end, env)) {
                self.end_claim_if_expired(thread, env)?;
            }
        }
        let mut ready: Vec<_> = threads.iter().filter_map(|thread| self.claim_order_key(thread, env)).collect();
        ready.sort();
        for (_, _, _, at) in ready.into_iter().take(request.limit as usize) {
            claims.claimed.push(self.claim_one(at, request, env)?);
        }
        Ok(claims)
    }

    /// Returns the end of the lease of a thread's claim, or `None` if the thread has no claim.
    fn lease_end_of(&self, thread: &ThreadId) -> Option<Timestamp> {
        let stored = self.stored_dispatches.get(self.claimed_index(thread)?)?;
        stored.dispatch.claim.as_ref().map(|claim| claim.lease_until)
    }

    /// Returns whether store time has reached the end of a lease.
    fn has_passed(&self, end: Timestamp, env: &Environment<'_>) -> bool {
        let early_millis = u64::from(env.bug == Some(Bug::LeaseExpiresEarly));
        end.as_millis() <= env.now.as_millis() + early_millis
    }

    /// Ends the claim of a thread if its lease has expired, and returns the index of the dispatch.
    fn end_claim_if_expired(&mut self, thread: &ThreadId, env: &Environment<'_>) -> Result<Option<usize>> {
        let now = self.thread_time(thread, env.now);
        let has_expired =
            |at: &usize| self.stored_dispatches.get(*at).is_some_and(|stored| stored.has_expired(now, env.bug));
        let Some(at) = self.claimed_index(thread).filter(has_expired) else { return Ok(None) };
        self.end_expired_claim(at, now, env.bug).map(|()| Some(at))
    }

    /// Returns why a dispatch cannot be claimed, or `None` if it can.
    fn missed_reason(&self, at: usize) -> Option<NotClaimedReason> {
        let stored = self.stored_dispatches.get(at)?;
        match self.claimed_index(&stored.dispatch.thread).and_then(|at| self.stored_dispatches.get(at)) {
            Some(other) if other.dispatch.id != stored.dispatch.id => {
                Some(NotClaimedReason::Busy(other.dispatch.id.clone()))
            }
            _ if stored.dispatch.status == DispatchStatus::Queued => None,
            _ => Some(NotClaimedReason::NotQueued(stored.dispatch.status)),
        }
    }

    /// Returns the key by which ready threads are ordered, with the index of the dispatch to claim as the last part.
    /// Returns `None` if the thread is not ready.
    fn claim_order_key(&self, thread: &ThreadId, env: &Environment<'_>) -> Option<(u8, Timestamp, ThreadId, usize)> {
        if self.claimed_index(thread).is_some() && env.bug != Some(Bug::BusyThreadClaimed) {
            return None;
        }
        let now = self.thread_time(thread, env.now);
        let is_waiting = |stored: &StoredDispatch| match env.bug {
            Some(Bug::SupersededClaimed) if stored.dispatch.status == DispatchStatus::Superseded => true,
            _ => stored.dispatch.status == DispatchStatus::Queued,
        };
        let waiting_dispatches = self
            .stored_dispatches
            .iter()
            .enumerate()
            .filter(|(_, stored)| stored.dispatch.thread == *thread && is_waiting(stored));
        let available_dispatches: Vec<_> =
            waiting_dispatches.filter(|(_, stored)| stored.dispatch.available_at <= now).collect();
        let priority = |stored: &StoredDispatch| match env.bug {
            Some(Bug::PriorityIgnored) => 0,
            _ => stored.dispatch.priority,
        };
        let (at, first) =
            available_dispatches.iter().min_by_key(|(_, stored)| (priority(stored), stored.dispatch.number))?;
        let available_since = |stored: &StoredDispatch| stored.dispatch.available_at.max(stored.dispatch.created_at);
        let earliest = available_dispatches.iter().map(|(_, stored)| available_since(stored)).min()?;
        let waiting_since = earliest.max(self.threads.get(thread)?.free_since);
        Some((first.dispatch.priority, waiting_since, thread.clone(), *at))
    }

    fn claim_one(&mut self, at: usize, request: &ClaimRequest, env: &Environment<'_>) -> Result<ClaimedDispatch> {
        let missing_dispatch = || Error::corrupt("a dispatch is missing");
        let thread = self.stored_dispatches.get(at).ok_or_else(missing_dispatch)?.dispatch.thread.clone();
        let (now, incarnation) = (self.thread_time(&thread, env.now), self.incarnation);
        let thread_mailbox = self.thread_mailbox(&thread, now);
        thread_mailbox.claim_count += 1;
        thread_mailbox.takeover_fence = None;
        let number = ClaimNumber { incarnation, counter: thread_mailbox.claim_count };
        let token = ClaimToken::new(env.id_source.next_id());
        let stored = self.stored_dispatches.get_mut(at).ok_or_else(missing_dispatch)?;
        stored.set_status(DispatchStatus::Claimed, now);
        stored.token = Some(token.clone());
        stored.dispatch.claim = Some(record_from_json(&json!({
            "worker": request.worker, "number": number, "claimed_at": now,
            "lease_until": now.saturating_add(request.lease),
        }))?);
        let dispatch = stored.dispatch.clone();
        self.record_write(&thread, now, false);
        Ok(ClaimedDispatch::new(dispatch, token, number))
    }

    /// Counts the attempts whose lease has expired. Only the planted bug `ReclaimInTwoSteps` calls this.
    pub(super) fn count_lost_attempts(&mut self, env: &Environment<'_>) {
        let expired = self.stored_dispatches.iter_mut().filter(|stored| stored.has_expired(env.now, env.bug));
        expired.for_each(|stored| stored.dispatch.attempts += 1);
    }

    pub(super) fn reclaim(&mut self, limit: u32, env: &Environment<'_>) -> Result<Reclaimed> {
        check_batch_limit(limit)?;
        let mut expired: Vec<_> =
            self.stored_dispatches.iter().filter(|stored| stored.has_expired(env.now, env.bug)).collect();
        expired.sort_by_key(|stored| {
            (stored.dispatch.claim.as_ref().map(|claim| claim.lease_until), &stored.dispatch.thread)
        });
        let threads: Vec<_> =
            expired.iter().take(limit as usize).map(|stored| stored.dispatch.thread.clone()).collect();
        let mut reclaimed = Reclaimed::default();
        for thread in threads {
            let Some(stored) = self.end_claim_if_expired(&thread, env)?.and_then(|at| self.stored_dispatches.get(at))
            else {
                continue;
            };
            let list = match stored.dispatch.status {
                DispatchStatus::Queued => &mut reclaimed.requeued,
                DispatchStatus::Superseded => &mut reclaimed.superseded,
                _ => &mut reclaimed.dead_lettered,
            };
            list.push(stored.dispatch.id.clone());
        }
        Ok(reclaimed)
    }

    /// Returns the threads from which a claim would get a dispatch now, each with its sort key.
    pub(super) fn ready_threads_with_keys(&self, env: &Environment<'_>) -> Result<Vec<((u64, String), ReadyThread)>> {
        let mut ready = Vec::new();
        for thread in self.threads.keys() {
            let mut copy = self.clone();
            let lease_end = copy.lease_end_of(thread);
            if lease_end.is_some_and(|end| !copy.has_passed(end, env)) {
                continue;
            }
            copy.end_claim_if_expired(thread, env)?;
            let Some((priority, waiting_since, _, at)) = copy.claim_order_key(thread, env) else { continue };
            let Some(stored) = copy.stored_dispatches.get(at) else { continue };
            // Threads with an expired claim come after all others, in the order in which their leases ended. Their rank
            // is 256, because the highest priority number is 255.
            let (rank, order_time) = lease_end.map_or((u64::from(priority), waiting_since), |end| (256, end));
            let key = ((rank << 48) + order_time.as_millis(), thread.to_string());
            ready.push((key, ReadyThread::new(thread.clone(), stored.dispatch.id.clone(), stored.dispatch.priority)));
        }
        Ok(ready)
    }
}
