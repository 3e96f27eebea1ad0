//! The calls that enqueue, cancel, interrupt, requeue and purge.

use serde_json::json;
use store_core::{
    ClaimNumber, ClaimToken, DedupeKey, Dispatch, DispatchId, DispatchStatus, Enqueued, Error, Fence, Interrupt,
    Interrupted, NewDispatch, Purge, Requeue, RequeueChoice, Result, ThreadId, Timestamp, When, check_limit,
};

use super::{StoredDispatch, TenantMailbox};
use crate::model::{bug::Bug, commit::Environment, model_data::record_from_json};

impl TenantMailbox {
    pub(super) fn enqueue(&mut self, draft: &NewDispatch, env: &Environment<'_>) -> Result<Enqueued> {
        if draft.max_attempts == 0 {
            return Err(Error::invalid("max_attempts", "it must be at least 1"));
        }
        let bytes = draft.payload.as_ref().map_or(0, |payload| payload.as_str().len() as u64);
        check_limit("record bytes", bytes, env.limits.record_bytes)?;
        if let Some(stored) = draft.id.as_ref().and_then(|id| self.stored_dispatches.get(self.index_of(id)?)) {
            if stored.draft != *draft || env.bug == Some(Bug::RepeatedEnqueueRefused) {
                return Err(Error::already_exists("dispatch", &stored.dispatch.id));
            }
            return enqueue_answer(stored, true);
        }
        let now = self.thread_time(&draft.thread, env.now);
        if let (Some(key), Some(key_holder)) = (&draft.dedupe_key, self.key_holder(draft, now, env.bug)?) {
            return Err(Error::key_taken(key, "dispatch", key_holder));
        }
        let id = match &draft.id {
            Some(id) => id.clone(),
            None => DispatchId::new(env.id_source.next_id())?,
        };
        let thread_mailbox = self.thread_mailbox(&draft.thread, now);
        thread_mailbox.last_dispatch_number += 1;
        let (number, epoch) = (thread_mailbox.last_dispatch_number, thread_mailbox.epoch);
        let available_at = match draft.available {
            When::Now => now,
            When::At(time) => time,
            When::In(delay) => now.saturating_add(delay),
        };
        let mut dispatch: Dispatch = record_from_json(&json!({
            "id": id, "thread": draft.thread, "run": draft.run, "priority": draft.priority,
            "available_at": available_at, "max_attempts": draft.max_attempts, "attempts": 0, "epoch": epoch,
            "status": "queued", "created_at": now, "updated_at": now, "number": number,
        }))?;
        dispatch.payload.clone_from(&draft.payload);
        dispatch.dedupe_key.clone_from(&draft.dedupe_key);
        let stored = StoredDispatch {
            dispatch,
            draft: draft.clone(),
            enqueue_epoch: epoch,
            token: None,
            ended_claims: Vec::new(),
        };
        let answer = enqueue_answer(&stored, false);
        self.stored_dispatches.push(stored);
        self.record_write(&draft.thread, now, false);
        answer
    }

    /// Returns the dispatch that has the dedupe key of `draft`. If the lease of that dispatch has expired and it would
    /// not be queued again, ends its claim, which frees the key.
    fn key_holder(&mut self, draft: &NewDispatch, now: Timestamp, bug: Option<Bug>) -> Result<Option<DispatchId>> {
        let Some(key) = &draft.dedupe_key else { return Ok(None) };
        let holds_key = |stored: &StoredDispatch| match bug {
            Some(Bug::KeyFreedByAClaim) => stored.dispatch.status == DispatchStatus::Queued,
            Some(Bug::KeyNeverFreed) => true,
            _ => stored.is_open(),
        };
        let is_same_key = |other: &DedupeKey| match bug {
            Some(Bug::DedupeKeysTrimmed) => other.as_str().trim() == key.as_str().trim(),
            _ => other == key,
        };
        let found = self.stored_dispatches.iter().position(|stored| {
            stored.dispatch.thread == draft.thread
                && stored.dispatch.dedupe_key.as_ref().is_some_and(is_same_key)
                && holds_key(stored)
        });
        let Some((at, stored)) = found.and_then(|at| Some((at, self.stored_dispatches.get(at)?))) else {
            return Ok(None);
        };
        let is_last = stored.dispatch.attempts + 1 >= stored.dispatch.max_attempts;
        let is_stale = stored.dispatch.epoch < self.epoch(&draft.thread);
        if stored.has_expired(now, bug) && (is_last || is_stale) {
            self.end_expired_claim(at, now, bug)?;
            return Ok(None);
        }
        Ok(Some(stored.dispatch.id.clone()))
    }

    pub(super) fn cancel(&mut self, id: &DispatchId, now: Timestamp) -> Result<Dispatch> {
        let at = self.index_of(id).ok_or_else(|| Error::not_found("dispatch", id))?;
        let thread = self.stored_dispatches.get(at).map(|stored| stored.dispatch.thread.clone());
        let now = thread.as_ref().map_or(now, |thread| self.thread_time(thread, now));
        let stored = self.stored_dispatches.get_mut(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        if stored.dispatch.status != DispatchStatus::Queued {
            return Err(Error::invalid_transition("dispatch", id, stored.dispatch.status.name(), "cancelled"));
        }
        stored.set_status(DispatchStatus::Cancelled, now);
        let dispatch = stored.dispatch.clone();
        self.record_write(&dispatch.thread, now, false);
        Ok(dispatch)
    }

    pub(super) fn interrupt(&mut self, request: &Interrupt, env: &Environment<'_>) -> Result<Interrupted> {
        let thread = &request.thread;
        let now = self.thread_time(thread, env.now);
        let first_interrupt = self
            .thread_mailbox(thread, now)
            .interrupt_answers
            .iter()
            .find(|(key, _)| Some(key) == request.key.as_ref());
        if let Some((_, first)) = first_interrupt {
            let mut repeated_answer = first.clone();
            repeated_answer.deduplicated = true;
            return Ok(repeated_answer);
        }
        let claimed_index = self.claimed_index(thread);
        let claimed =
            claimed_index.and_then(|at| self.stored_dispatches.get(at)).map(|stored| stored.dispatch.id.clone());
        let thread_mailbox = self.thread_mailbox(thread, now);
        thread_mailbox.takeover_fence = None;
        let old_epoch = thread_mailbox.epoch;
        if env.bug != Some(Bug::InterruptLeavesTheEpoch) {
            thread_mailbox.epoch += 1;
        }
        let mut interrupted = Interrupted::new(thread_mailbox.epoch, now);
        interrupted.claimed.clone_from(&claimed);
        for stored in self.stored_dispatches.iter_mut().filter(|stored| stored.dispatch.thread == *thread) {
            if stored.dispatch.status == DispatchStatus::Queued {
                stored.set_status(DispatchStatus::Superseded, now);
                stored.dispatch.reason.clone_from(&request.reason);
                interrupted.superseded += 1;
            } else if stored.dispatch.status == DispatchStatus::Claimed && stored.dispatch.epoch == old_epoch {
                // Reads of the dispatch show the reason only after its claim has ended.
                stored.dispatch.reason.clone_from(&request.reason);
            }
        }
        if request.take_over {
            if let Some(at) = claimed_index {
                self.supersede(at, now)?;
            }
            interrupted.fence = Some(self.take_over(thread, claimed, env)?);
        }
        self.record_write(thread, now, false);
        if let Some(thread_mailbox) =
            self.threads.get_mut(thread).filter(|_| request.forget && env.bug != Some(Bug::InterruptForgetsNothing))
        {
            thread_mailbox.interrupt_answers.clear();
        }
        if let (Some(key), Some(thread_mailbox)) = (&request.key, self.threads.get_mut(thread)) {
            thread_mailbox.interrupt_answers.push((key.clone(), interrupted.clone()));
            let surplus = thread_mailbox.interrupt_answers.len().saturating_sub(20);
            thread_mailbox.interrupt_answers.drain(..surplus);
        }
        Ok(interrupted)
    }

    /// Uses up the next claim number, and returns the fence with this number (MB-53).
    fn take_over(&mut self, thread: &ThreadId, claimed: Option<DispatchId>, env: &Environment<'_>) -> Result<Fence> {
        let dispatch = match claimed {
            Some(id) => id,
            None => DispatchId::new(env.id_source.next_id())?,
        };
        let incarnation = self.incarnation;
        let thread_mailbox = self.thread_mailbox(thread, env.now);
        thread_mailbox.claim_count += 1;
        let claim = ClaimNumber { incarnation, counter: thread_mailbox.claim_count };
        let fence = Fence::new(dispatch, ClaimToken::new(env.id_source.next_id()), thread_mailbox.epoch, claim);
        thread_mailbox.takeover_fence = Some(fence.clone());
        Ok(fence)
    }

    pub(super) fn requeue(&mut self, id: &DispatchId, now: Timestamp) -> Result<Dispatch> {
        let at = self.index_of(id).ok_or_else(|| Error::not_found("dispatch", id))?;
        let stored = self.stored_dispatches.get(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        if stored.dispatch.status != DispatchStatus::DeadLetter {
            return Err(Error::invalid_transition("dispatch", id, stored.dispatch.status.name(), "queued"));
        }
        let (thread, key) = (stored.dispatch.thread.clone(), stored.dispatch.dedupe_key.clone());
        let holds_same_key = |other: &&StoredDispatch| {
            other.dispatch.thread == thread && key.is_some() && other.dispatch.dedupe_key == key && other.is_open()
        };
        if let (Some(key), Some(other)) = (&key, self.stored_dispatches.iter().find(holds_same_key)) {
            return Err(Error::key_taken(key, "dispatch", &other.dispatch.id));
        }
        let (now, epoch) = (self.thread_time(&thread, now), self.epoch(&thread));
        let stored = self.stored_dispatches.get_mut(at).ok_or_else(|| Error::not_found("dispatch", id))?;
        stored.set_status(DispatchStatus::Queued, now);
        stored.dispatch.attempts = 0;
        stored.dispatch.epoch = epoch;
        stored.dispatch.available_at = now;
        stored.dispatch.reason = None;
        let dispatch = stored.dispatch.clone();
        self.record_write(&thread, now, false);
        Ok(dispatch)
    }

    /// Returns the ids of the dispatches that a requeue names or that its filter selects.
    pub(super) fn requeue_targets(&self, request: &Requeue) -> Result<Vec<DispatchId>> {
        match &request.choice {
            RequeueChoice::Ids(ids) => check_limit("dispatches", ids.len() as u64, 1_000).map(|()| ids.clone()),
            RequeueChoice::Filter { filter, limit } => {
                check_batch_limit(*limit)?;
                let filter = filter.as_ref().clone().in_status([DispatchStatus::DeadLetter]);
                let mut dead_letters: Vec<_> =
                    self.stored_dispatches.iter().filter(|stored| filter.admits(&stored.dispatch)).collect();
                dead_letters.sort_by_key(|stored| (stored.dispatch.created_at, stored.dispatch.id.clone()));
                Ok(dead_letters.iter().take(*limit as usize).map(|stored| stored.dispatch.id.clone()).collect())
            }
        }
    }

    pub(super) fn purge(&mut self, request: &Purge, env: &Environment<'_>) -> Result<u64> {
        check_batch_limit(request.limit)?;
        request.check()?;
        let includes_bound = env.bug == Some(Bug::PurgeIncludesItsTime);
        let is_old = |end: Timestamp| end < request.before || (includes_bound && end == request.before);
        let finished = self
            .stored_dispatches
            .iter()
            .filter_map(|stored| Some((stored.dispatch.finished_at?, stored.dispatch.id.clone())));
        let names_all = request.ids.is_empty() || env.bug == Some(Bug::PurgeIgnoresIds);
        let is_named = |id: &DispatchId| names_all || request.ids.contains(id);
        let mut to_remove: Vec<_> = finished.filter(|(end, id)| is_old(*end) && is_named(id)).collect();
        to_remove.sort();
        to_remove.truncate(request.limit as usize);
        if !request.dry_run {
            for (_, id) in &to_remove {
                let Some(at) = self.index_of(id) else { continue };
                let thread = self.stored_dispatches.remove(at).dispatch.thread;
                let now = self.thread_time(&thread, env.now);
                self.record_write(&thread, now, false);
            }
        }
        Ok(to_remove.len() as u64)
    }
}

fn enqueue_answer(stored: &StoredDispatch, deduplicated: bool) -> Result<Enqueued> {
    let dispatch = &stored.dispatch;
    let available_at = match stored.draft.available {
        When::Now => dispatch.created_at,
        When::At(time) => time,
        When::In(delay) => dispatch.created_at.saturating_add(delay),
    };
    record_from_json(&json!({
        "id": dispatch.id, "thread": dispatch.thread, "number": dispatch.number, "epoch": stored.enqueue_epoch,
        "available_at": available_at, "created_at": dispatch.created_at, "deduplicated": deduplicated,
    }))
}

/// Refuses a limit of 0, and a limit above 1,000.
pub(super) fn check_batch_limit(limit: u32) -> Result<()> {
    if (1..=1_000).contains(&limit) { Ok(()) } else { Err(Error::invalid("limit", "it must be from 1 to 1000")) }
}
