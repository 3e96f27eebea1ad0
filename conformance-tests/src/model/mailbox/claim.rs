//! Claims, and expired leases.

use std::time::Duration;

use serde_json::json;
use store_core::{
    ClaimNumber, ClaimRequest, ClaimToken, ClaimedDispatch, Claims, DispatchStatus, Error, Missed, ReadyThread,
    Reclaimed, Result, ThreadId, Timestamp,
};

use super::{Job, Mail, produce::check_batch};
use crate::model::{bug::Bug, commit::Setting, world::record};

/// Refuses a lease of length zero, and one of more than 24 hours (MB-24).
pub(super) fn check_lease(lease: Duration) -> Result<()> {
    let fits = lease > Duration::ZERO && lease <= Duration::from_hours(24);
    if fits { Ok(()) } else { Err(Error::invalid("lease", "it must be above 0 and at most 24 hours")) }
}

impl Mail {
    pub(super) fn claim(&mut self, request: &ClaimRequest, setting: &Setting<'_>) -> Result<Claims> {
        check_lease(request.lease)?;
        check_batch(request.limit)?;
        let mut claims = Claims::default();
        if let Some(id) = &request.dispatch {
            let found = self.find(id).and_then(|at| Some((at, self.jobs.get(at)?)));
            let own = found.filter(|(_, job)| request.thread.as_ref().is_none_or(|of| *of == job.dispatch.thread));
            let Some((at, job)) = own else {
                claims.missed = Some(Missed::Unknown);
                return Ok(claims);
            };
            let thread = job.dispatch.thread.clone();
            self.end_lease(&thread, setting)?;
            claims.missed = self.objection(at);
            if claims.missed.is_none() {
                claims.claimed.push(self.give(at, request, setting)?);
            }
            return Ok(claims);
        }
        let threads: Vec<ThreadId> = match &request.thread {
            Some(thread) => vec![thread.clone()],
            None => self.threads.keys().cloned().collect(),
        };
        for thread in &threads {
            // A claim from any thread compares a lease with store time, because stores find expired leases in an index.
            // A claim from a named thread uses the time of the thread, which can be later.
            if request.thread.is_some() || self.lease_of(thread).is_some_and(|end| self.is_past(end, setting)) {
                self.end_lease(thread, setting)?;
            }
        }
        let mut ready: Vec<_> = threads.iter().filter_map(|thread| self.ready_place(thread, setting)).collect();
        ready.sort();
        for (_, _, _, at) in ready.into_iter().take(request.limit as usize) {
            claims.claimed.push(self.give(at, request, setting)?);
        }
        Ok(claims)
    }

    /// Returns the time at which the lease of a thread ends.
    fn lease_of(&self, thread: &ThreadId) -> Option<Timestamp> {
        let job = self.jobs.get(self.running(thread)?)?;
        job.dispatch.claim.as_ref().map(|claim| claim.lease_until)
    }

    fn is_past(&self, end: Timestamp, setting: &Setting<'_>) -> bool {
        let early = u64::from(setting.bug == Some(Bug::LeaseJudgedEarly));
        end.as_millis() <= setting.now.as_millis() + early
    }

    /// Ends the claim of a thread if its lease has expired, and returns the index of the dispatch.
    fn end_lease(&mut self, thread: &ThreadId, setting: &Setting<'_>) -> Result<Option<usize>> {
        let now = self.time(thread, setting.now);
        let is_over = |at: &usize| self.jobs.get(*at).is_some_and(|job| job.is_over(now, setting.bug));
        let Some(at) = self.running(thread).filter(is_over) else { return Ok(None) };
        self.lapse(at, now, setting.bug).map(|()| Some(at))
    }

    /// Returns why a dispatch cannot be claimed, or `None` if it can.
    fn objection(&self, at: usize) -> Option<Missed> {
        let job = self.jobs.get(at)?;
        match self.running(&job.dispatch.thread).and_then(|at| self.jobs.get(at)) {
            Some(other) if other.dispatch.id != job.dispatch.id => Some(Missed::Busy(other.dispatch.id.clone())),
            _ if job.dispatch.status == DispatchStatus::Queued => None,
            _ => Some(Missed::NotQueued(job.dispatch.status)),
        }
    }

    /// Returns the key by which ready threads are ordered, with the index of the dispatch to claim as the last part.
    /// Returns `None` if the thread is not ready.
    fn ready_place(&self, thread: &ThreadId, setting: &Setting<'_>) -> Option<(u8, Timestamp, ThreadId, usize)> {
        if self.running(thread).is_some() && setting.bug != Some(Bug::BusyThreadsGiveMore) {
            return None;
        }
        let now = self.time(thread, setting.now);
        let is_waiting = |job: &Job| match setting.bug {
            Some(Bug::SupersededIsGivenOut) if job.dispatch.status == DispatchStatus::Superseded => true,
            _ => job.dispatch.status == DispatchStatus::Queued,
        };
        let all = self.jobs.iter().enumerate().filter(|(_, job)| job.dispatch.thread == *thread && is_waiting(job));
        let available: Vec<_> = all.filter(|(_, job)| job.dispatch.available_at <= now).collect();
        let priority = |job: &Job| match setting.bug {
            Some(Bug::PriorityIgnored) => 0,
            _ => job.dispatch.priority,
        };
        let (at, first) = available.iter().min_by_key(|(_, job)| (priority(job), job.dispatch.number))?;
        let since = |job: &Job| job.dispatch.available_at.max(job.dispatch.created_at);
        let earliest = available.iter().map(|(_, job)| since(job)).min()?;
        let since = earliest.max(self.threads.get(thread)?.free_since);
        Some((first.dispatch.priority, since, thread.clone(), *at))
    }

    fn give(&mut self, at: usize, request: &ClaimRequest, setting: &Setting<'_>) -> Result<ClaimedDispatch> {
        let gone = || Error::corrupt("a dispatch is missing");
        let thread = self.jobs.get(at).ok_or_else(gone)?.dispatch.thread.clone();
        let (now, incarnation) = (self.time(&thread, setting.now), self.incarnation);
        let thread_mailbox = self.thread_mailbox(&thread, now);
        thread_mailbox.claims += 1;
        thread_mailbox.over = None;
        let number = ClaimNumber { incarnation, counter: thread_mailbox.claims };
        let token = ClaimToken::new(setting.ids.next_id());
        let job = self.jobs.get_mut(at).ok_or_else(gone)?;
        job.becomes(DispatchStatus::Claimed, now);
        job.token = Some(token.clone());
        job.dispatch.claim = Some(record(&json!({
            "worker": request.worker, "number": number, "claimed_at": now,
            "lease_until": now.saturating_add(request.lease),
        }))?);
        let dispatch = job.dispatch.clone();
        self.touch(&thread, now, false);
        Ok(ClaimedDispatch::new(dispatch, token, number))
    }

    /// Counts the attempts whose lease has expired. Only the planted bug `ReclaimInTwoSteps` calls this.
    pub(super) fn count_lost(&mut self, setting: &Setting<'_>) {
        let over = self.jobs.iter_mut().filter(|job| job.is_over(setting.now, setting.bug));
        over.for_each(|job| job.dispatch.attempts += 1);
    }

    pub(super) fn reclaim(&mut self, limit: u32, setting: &Setting<'_>) -> Result<Reclaimed> {
        check_batch(limit)?;
        let mut over: Vec<_> = self.jobs.iter().filter(|job| job.is_over(setting.now, setting.bug)).collect();
        over.sort_by_key(|job| (job.dispatch.claim.as_ref().map(|claim| claim.lease_until), &job.dispatch.thread));
        let threads: Vec<_> = over.iter().take(limit as usize).map(|job| job.dispatch.thread.clone()).collect();
        let mut reclaimed = Reclaimed::default();
        for thread in threads {
            let Some(job) = self.end_lease(&thread, setting)?.and_then(|at| self.jobs.get(at)) else { continue };
            let list = match job.dispatch.status {
                DispatchStatus::Queued => &mut reclaimed.requeued,
                DispatchStatus::Superseded => &mut reclaimed.superseded,
                _ => &mut reclaimed.dead_lettered,
            };
            list.push(job.dispatch.id.clone());
        }
        Ok(reclaimed)
    }

    /// Returns the threads from which a claim would get a dispatch now, each with its key in the list.
    pub(super) fn ready(&self, setting: &Setting<'_>) -> Result<Vec<((u64, String), ReadyThread)>> {
        let mut ready = Vec::new();
        for thread in self.threads.keys() {
            let mut copy = self.clone();
            let lease = copy.lease_of(thread);
            if lease.is_some_and(|end| !copy.is_past(end, setting)) {
                continue;
            }
            copy.end_lease(thread, setting)?;
            let Some((priority, since, _, at)) = copy.ready_place(thread, setting) else { continue };
            let Some(job) = copy.jobs.get(at) else { continue };
            let (first, then) = lease.map_or((u64::from(priority), since), |end| (256, end));
            let place = ((first << 48) + then.as_millis(), thread.to_string());
            ready.push((place, ReadyThread::new(thread.clone(), job.dispatch.id.clone(), job.dispatch.priority)));
        }
        Ok(ready)
    }
}
