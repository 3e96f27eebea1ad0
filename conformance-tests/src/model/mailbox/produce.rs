//! The calls that enqueue, cancel, interrupt, requeue and purge.

use serde_json::json;
use store_core::{
    ClaimNumber, ClaimToken, DedupeKey, Dispatch, DispatchId, DispatchStatus, Enqueued, Error, Fence, Interrupt,
    Interrupted, NewDispatch, Purge, Requeue, RequeueChoice, Result, ThreadId, Timestamp, When, check_limit,
};

use super::{Job, Mail};
use crate::model::{bug::Bug, commit::Setting, world::record};

impl Mail {
    pub(super) fn enqueue(&mut self, new: &NewDispatch, setting: &Setting<'_>) -> Result<Enqueued> {
        if new.max_attempts == 0 {
            return Err(Error::invalid("max_attempts", "it must be at least 1"));
        }
        let bytes = new.payload.as_ref().map_or(0, |payload| payload.as_str().len() as u64);
        check_limit("record bytes", bytes, setting.limits.record_bytes)?;
        if let Some(job) = new.id.as_ref().and_then(|id| self.jobs.get(self.find(id)?)) {
            if job.given != *new || setting.bug == Some(Bug::EnqueueForgetsItsAnswer) {
                return Err(Error::already_exists("dispatch", &job.dispatch.id));
            }
            return answer(job, true);
        }
        let now = self.time(&new.thread, setting.now);
        if let (Some(key), Some(holder)) = (&new.dedupe_key, self.holder(new, now, setting.bug)?) {
            return Err(Error::key_taken(key, "dispatch", holder));
        }
        let id = match &new.id {
            Some(id) => id.clone(),
            None => DispatchId::new(setting.ids.next_id())?,
        };
        let thread_mailbox = self.thread_mailbox(&new.thread, now);
        thread_mailbox.last_number += 1;
        let (number, epoch) = (thread_mailbox.last_number, thread_mailbox.epoch);
        let available_at = match new.available {
            When::Now => now,
            When::At(time) => time,
            When::In(delay) => now.saturating_add(delay),
        };
        let mut dispatch: Dispatch = record(&json!({
            "id": id, "thread": new.thread, "run": new.run, "priority": new.priority, "available_at": available_at,
            "max_attempts": new.max_attempts, "attempts": 0, "epoch": epoch, "status": "queued", "created_at": now,
            "updated_at": now, "number": number,
        }))?;
        dispatch.payload.clone_from(&new.payload);
        dispatch.dedupe_key.clone_from(&new.dedupe_key);
        let job = Job { dispatch, given: new.clone(), first_epoch: epoch, token: None, ended: Vec::new() };
        let answer = answer(&job, false);
        self.jobs.push(job);
        self.touch(&new.thread, now, false);
        answer
    }

    /// Returns the dispatch that has the dedupe key of a new dispatch. If the lease of the dispatch has expired and the
    /// dispatch would not be queued again, its claim is ended, and the key is free.
    fn holder(&mut self, new: &NewDispatch, now: Timestamp, bug: Option<Bug>) -> Result<Option<DispatchId>> {
        let Some(key) = &new.dedupe_key else { return Ok(None) };
        let holds = |job: &Job| match bug {
            Some(Bug::KeyFreedByAClaim) => job.dispatch.status == DispatchStatus::Queued,
            Some(Bug::KeyNeverFreed) => true,
            _ => job.is_open(),
        };
        let is_key = |other: &DedupeKey| match bug {
            Some(Bug::DedupeKeysTrimmed) => other.as_str().trim() == key.as_str().trim(),
            _ => other == key,
        };
        let found = self.jobs.iter().position(|job| {
            job.dispatch.thread == new.thread && job.dispatch.dedupe_key.as_ref().is_some_and(is_key) && holds(job)
        });
        let Some((at, job)) = found.and_then(|at| Some((at, self.jobs.get(at)?))) else { return Ok(None) };
        let is_last = job.dispatch.attempts + 1 >= job.dispatch.max_attempts;
        let is_stale = job.dispatch.epoch < self.epoch(&new.thread);
        if job.is_over(now, bug) && (is_last || is_stale) {
            self.lapse(at, now, bug)?;
            return Ok(None);
        }
        Ok(Some(job.dispatch.id.clone()))
    }

    pub(super) fn cancel(&mut self, id: &DispatchId, now: Timestamp) -> Result<Dispatch> {
        let at = self.find(id).ok_or_else(|| Error::not_found("dispatch", id))?;
        let thread = self.jobs.get(at).map(|job| job.dispatch.thread.clone());
        let now = thread.as_ref().map_or(now, |thread| self.time(thread, now));
        let job = self.jobs.get_mut(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        if job.dispatch.status != DispatchStatus::Queued {
            return Err(Error::invalid_transition("dispatch", id, job.dispatch.status.name(), "cancelled"));
        }
        job.becomes(DispatchStatus::Cancelled, now);
        let dispatch = job.dispatch.clone();
        self.touch(&dispatch.thread, now, false);
        Ok(dispatch)
    }

    pub(super) fn interrupt(&mut self, request: &Interrupt, setting: &Setting<'_>) -> Result<Interrupted> {
        let thread = &request.thread;
        let now = self.time(thread, setting.now);
        let known = self.thread_mailbox(thread, now).keys.iter().find(|(key, _)| Some(key) == request.key.as_ref());
        if let Some((_, first)) = known {
            let mut again = first.clone();
            again.deduplicated = true;
            return Ok(again);
        }
        let running = self.running(thread);
        let claimed = running.and_then(|at| self.jobs.get(at)).map(|job| job.dispatch.id.clone());
        let thread_mailbox = self.thread_mailbox(thread, now);
        thread_mailbox.over = None;
        let old = thread_mailbox.epoch;
        if setting.bug != Some(Bug::InterruptLeavesTheEpoch) {
            thread_mailbox.epoch += 1;
        }
        let mut done = Interrupted::new(thread_mailbox.epoch, now);
        done.claimed.clone_from(&claimed);
        for job in self.jobs.iter_mut().filter(|job| job.dispatch.thread == *thread) {
            if job.dispatch.status == DispatchStatus::Queued {
                job.becomes(DispatchStatus::Superseded, now);
                job.dispatch.reason.clone_from(&request.reason);
                done.superseded += 1;
            } else if job.dispatch.status == DispatchStatus::Claimed && job.dispatch.epoch == old {
                // Reads of the dispatch show the reason only after its claim has ended.
                job.dispatch.reason.clone_from(&request.reason);
            }
        }
        if request.take_over {
            if let Some(at) = running {
                self.supersede(at, now)?;
            }
            done.fence = Some(self.take_over(thread, claimed, setting)?);
        }
        self.touch(thread, now, false);
        if let (Some(key), Some(thread_mailbox)) = (&request.key, self.threads.get_mut(thread)) {
            thread_mailbox.keys.push((key.clone(), done.clone()));
            let surplus = thread_mailbox.keys.len().saturating_sub(20);
            thread_mailbox.keys.drain(..surplus);
        }
        Ok(done)
    }

    /// Uses up a claim number, and returns the fence with this number (MB-53).
    fn take_over(&mut self, of: &ThreadId, claimed: Option<DispatchId>, setting: &Setting<'_>) -> Result<Fence> {
        let dispatch = match claimed {
            Some(id) => id,
            None => DispatchId::new(setting.ids.next_id())?,
        };
        let incarnation = self.incarnation;
        let thread_mailbox = self.thread_mailbox(of, setting.now);
        thread_mailbox.claims += 1;
        let claim = ClaimNumber { incarnation, counter: thread_mailbox.claims };
        let fence = Fence::new(dispatch, ClaimToken::new(setting.ids.next_id()), thread_mailbox.epoch, claim);
        thread_mailbox.over = Some(fence.clone());
        Ok(fence)
    }

    pub(super) fn requeue(&mut self, id: &DispatchId, now: Timestamp) -> Result<Dispatch> {
        let at = self.find(id).ok_or_else(|| Error::not_found("dispatch", id))?;
        let job = self.jobs.get(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        if job.dispatch.status != DispatchStatus::DeadLetter {
            return Err(Error::invalid_transition("dispatch", id, job.dispatch.status.name(), "queued"));
        }
        let (thread, key) = (job.dispatch.thread.clone(), job.dispatch.dedupe_key.clone());
        let rival = |other: &&Job| {
            other.dispatch.thread == thread && key.is_some() && other.dispatch.dedupe_key == key && other.is_open()
        };
        if let (Some(key), Some(other)) = (&key, self.jobs.iter().find(rival)) {
            return Err(Error::key_taken(key, "dispatch", &other.dispatch.id));
        }
        let (now, epoch) = (self.time(&thread, now), self.epoch(&thread));
        let job = self.jobs.get_mut(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        job.becomes(DispatchStatus::Queued, now);
        job.dispatch.attempts = 0;
        job.dispatch.epoch = epoch;
        job.dispatch.available_at = now;
        job.dispatch.reason = None;
        let dispatch = job.dispatch.clone();
        self.touch(&thread, now, false);
        Ok(dispatch)
    }

    /// Returns the ids of the dispatches that a requeue names or that its filter selects.
    pub(super) fn chosen(&self, request: &Requeue) -> Result<Vec<DispatchId>> {
        match &request.choice {
            RequeueChoice::Ids(ids) => check_limit("dispatches", ids.len() as u64, 1_000).map(|()| ids.clone()),
            RequeueChoice::Filter { filter, limit } => {
                check_batch(*limit)?;
                let filter = filter.as_ref().clone().in_status([DispatchStatus::DeadLetter]);
                let mut dead: Vec<_> = self.jobs.iter().filter(|job| filter.admits(&job.dispatch)).collect();
                dead.sort_by_key(|job| (job.dispatch.created_at, job.dispatch.id.clone()));
                Ok(dead.iter().take(*limit as usize).map(|job| job.dispatch.id.clone()).collect())
            }
        }
    }

    pub(super) fn purge(&mut self, request: &Purge, setting: &Setting<'_>) -> Result<u64> {
        check_batch(request.limit)?;
        let last = setting.bug == Some(Bug::PurgeTakesTheMoment);
        let is_old = |end: Timestamp| end < request.before || (last && end == request.before);
        let ended = self.jobs.iter().filter_map(|job| Some((job.dispatch.finished_at?, job.dispatch.id.clone())));
        let mut ended: Vec<_> = ended.filter(|(end, _)| is_old(*end)).collect();
        ended.sort();
        ended.truncate(request.limit as usize);
        if !request.dry_run {
            for (_, id) in &ended {
                let Some(at) = self.find(id) else { continue };
                let thread = self.jobs.remove(at).dispatch.thread;
                let now = self.time(&thread, setting.now);
                self.touch(&thread, now, false);
            }
        }
        Ok(ended.len() as u64)
    }
}

fn answer(job: &Job, deduplicated: bool) -> Result<Enqueued> {
    let dispatch = &job.dispatch;
    let available_at = match job.given.available {
        When::Now => dispatch.created_at,
        When::At(time) => time,
        When::In(delay) => dispatch.created_at.saturating_add(delay),
    };
    record(&json!({
        "id": dispatch.id, "thread": dispatch.thread, "number": dispatch.number, "epoch": job.first_epoch,
        "available_at": available_at, "created_at": dispatch.created_at, "deduplicated": deduplicated,
    }))
}

/// Refuses a limit of 0, and a limit above 1,000.
pub(super) fn check_batch(limit: u32) -> Result<()> {
    if (1..=1_000).contains(&limit) { Ok(()) } else { Err(Error::invalid("limit", "it must be from 1 to 1000")) }
}
