//! Builds the plan of a decision about the mailbox of a thread: collects all changes, and keeps the counters of the
//! thread up to date.

use super::{MailboxDecision, MailboxPlan, MailboxView, decision_time};
use crate::{
    claim::ClaimNumber,
    codec::Extra,
    error::{Error, Result},
    id::ThreadId,
    mailbox::{
        Attempt, AttemptEnd, DispatchAct, DispatchMachineState, DispatchStatus, StoredAttempt, StoredDispatch,
        StoredInterrupt, StoredMailboxThread, machine,
    },
    time::Timestamp,
};

/// The number of ended attempts that the history of a dispatch keeps.
const MAX_ATTEMPTS_KEPT: usize = 20;

/// The plan of one decision about the mailbox of a thread, while the decision is made.
pub(super) struct PlanBuilder<'a, V: ?Sized> {
    pub(super) view: &'a V,
    /// The time of the decision.
    pub(super) now: Timestamp,
    plan: MailboxPlan,
    has_changes: bool,
}

impl<'a, V: MailboxView + ?Sized> PlanBuilder<'a, V> {
    pub(super) fn open(view: &'a V, thread: &ThreadId, now: Timestamp) -> Result<Self> {
        let stored_record = view.mailbox(thread)?;
        let now = decision_time(stored_record.as_ref(), now);
        let mailbox =
            stored_record.unwrap_or_else(|| StoredMailboxThread { free_since: now, ..StoredMailboxThread::default() });
        let plan = MailboxPlan {
            thread: thread.clone(),
            mailbox,
            dispatches: Vec::new(),
            purged: None,
            interrupts: std::collections::BTreeMap::new(),
        };
        Ok(Self { view, now, plan, has_changes: false })
    }

    pub(super) const fn thread(&self) -> &ThreadId {
        &self.plan.thread
    }

    pub(super) const fn mailbox(&self) -> &StoredMailboxThread {
        &self.plan.mailbox
    }

    /// Returns a mutable reference to the record of the thread. The record will be written.
    pub(super) const fn mailbox_mut(&mut self) -> &mut StoredMailboxThread {
        self.has_changes = true;
        &mut self.plan.mailbox
    }

    pub(super) fn finish<T>(mut self, answer: Result<T>) -> MailboxDecision<T> {
        if !self.has_changes {
            return MailboxDecision::unchanged(answer);
        }
        self.plan.mailbox.revision += 1;
        self.plan.mailbox.last_time = self.now;
        MailboxDecision { plan: Some(Box::new(self.plan)), answer }
    }

    /// Takes the next claim number of the thread (MB-25).
    pub(super) fn take_claim_number(&mut self) -> ClaimNumber {
        let incarnation = self.view.claim_incarnation();
        let next = match self.plan.mailbox.last_claim {
            Some(last) if last.incarnation >= incarnation => ClaimNumber { counter: last.counter + 1, ..last },
            _ => ClaimNumber { incarnation, counter: 1 },
        };
        self.mailbox_mut().last_claim = Some(next);
        next
    }

    pub(super) fn machine_state(&self, stored: &StoredDispatch) -> DispatchMachineState {
        DispatchMachineState {
            status: Some(stored.state.status),
            is_stale: stored.state.epoch < self.plan.mailbox.epoch,
            is_last_attempt: stored.state.attempts.saturating_add(1) >= stored.body.max_attempts,
        }
    }

    /// Returns whether the lease of the claimed dispatch of the thread has expired. Exactly at its end, a lease has
    /// already expired (MB-30).
    pub(super) fn is_lease_expired(&self) -> bool {
        self.plan.mailbox.running.as_ref().is_some_and(|current_claim| current_claim.lease_until <= self.now)
    }

    /// Puts a new dispatch into the queue.
    pub(super) fn add_to_queue(&mut self, stored: StoredDispatch) {
        self.mailbox_mut().counts.queued += 1;
        self.put_dispatch(stored);
    }

    /// Adds a dispatch to the plan. It replaces an earlier version of the same dispatch in the plan.
    pub(super) fn put_dispatch(&mut self, stored: StoredDispatch) {
        self.has_changes = true;
        self.plan.dispatches.retain(|other| other.id() != stored.id());
        self.plan.dispatches.push(stored);
    }

    /// Changes the status of a dispatch as the state machine says for `act`. The caller sets the other fields that the
    /// act changes, and then adds the dispatch to the plan with [`put_dispatch`](Self::put_dispatch).
    pub(super) fn apply_act(&mut self, stored: &mut StoredDispatch, act: DispatchAct) -> Result<DispatchStatus> {
        let machine_state = self.machine_state(stored);
        let to = machine::next_status(machine_state, act).ok_or_else(|| {
            let from = machine_state.visible_status().map_or("nothing", DispatchStatus::name);
            Error::invalid_transition("dispatch", stored.id(), from, act.target_word())
        })?;
        let (now, from) = (self.now, machine_state.visible_status().unwrap_or_default());
        let mailbox = self.mailbox_mut();
        let count = mailbox.counts.of_mut(from);
        *count = count.saturating_sub(1);
        *mailbox.counts.of_mut(to) += 1;
        if from == DispatchStatus::Claimed && to != DispatchStatus::Claimed {
            mailbox.running = None;
            mailbox.free_since = now;
        }
        let state = &mut stored.state;
        state.status = to;
        state.revision += 1;
        state.updated_at = state.updated_at.max(now);
        state.finished_at = to.is_final().then_some(now);
        Ok(to)
    }

    /// Ends the attempt of a dispatch that was claimed. Before this call, the caller sets the status, the number of
    /// attempts and the `available_at` that the dispatch has from now on; the history keeps them.
    pub(super) fn end_attempt(&self, stored: &mut StoredDispatch, end: AttemptEnd, settlement: Option<String>) {
        let state = &mut stored.state;
        let Some(ended_claim) = state.claim.take() else { return };
        let attempt = Attempt {
            claim: ended_claim.claim.number,
            worker: ended_claim.claim.worker,
            claimed_at: ended_claim.claim.claimed_at,
            ended_at: self.now,
            end,
            extra: Extra::default(),
        };
        let available_at = (state.status == DispatchStatus::Queued).then_some(state.available_at);
        state.history.push(StoredAttempt {
            attempt,
            token: ended_claim.token,
            settlement,
            status: state.status,
            attempts: state.attempts,
            available_at,
            extra: Extra::default(),
        });
        let surplus = state.history.len().saturating_sub(MAX_ATTEMPTS_KEPT);
        state.history.drain(..surplus);
    }

    /// Ends a claimed dispatch of an older epoch. The dispatch then shows the reason for which its thread was
    /// interrupted.
    pub(super) fn supersede(&mut self, stored: &mut StoredDispatch, act: DispatchAct) -> Result<()> {
        self.apply_act(stored, act)?;
        self.end_attempt(stored, AttemptEnd::Superseded, None);
        let epoch_of_interrupt = stored.state.epoch + 1;
        stored.state.reason = self.interrupt(epoch_of_interrupt)?.and_then(|interrupt| interrupt.reason);
        self.release_interrupt(epoch_of_interrupt)
    }

    /// Returns the interrupt that began an epoch, with the changes of this decision.
    pub(super) fn interrupt(&self, epoch: u64) -> Result<Option<StoredInterrupt>> {
        match self.plan.interrupts.get(&epoch) {
            Some(planned_interrupt) => Ok(planned_interrupt.clone()),
            None => self.view.interrupt(&self.plan.thread, epoch),
        }
    }

    /// Adds an interrupt to the plan, to be written (`Some`) or removed (`None`).
    pub(super) fn put_interrupt(&mut self, epoch: u64, interrupt: Option<StoredInterrupt>) {
        self.has_changes = true;
        self.plan.interrupts.insert(epoch, interrupt);
    }

    /// Records that one dispatch fewer needs the interrupt that began this epoch.
    pub(super) fn release_interrupt(&mut self, epoch: u64) -> Result<()> {
        let Some(mut interrupt) = self.interrupt(epoch)? else { return Ok(()) };
        interrupt.holds = interrupt.holds.saturating_sub(1);
        let is_needed = self.is_interrupt_needed(&interrupt)?;
        self.put_interrupt(epoch, is_needed.then_some(interrupt));
        Ok(())
    }

    /// Returns whether an interrupt must be kept. It must if a dispatch that it superseded needs it, if its key is
    /// still remembered, or if it is the newest interrupt.
    pub(super) fn is_interrupt_needed(&self, interrupt: &StoredInterrupt) -> Result<bool> {
        let newest_epoch = self.plan.mailbox.epoch;
        if interrupt.holds > 0 || interrupt.epoch == newest_epoch {
            return Ok(true);
        }
        let recent_keys =
            self.interrupt(newest_epoch)?.map(|newest_interrupt| newest_interrupt.recent).unwrap_or_default();
        Ok(recent_keys.iter().any(|interrupt_ref| interrupt_ref.epoch == interrupt.epoch))
    }

    /// Adds the removal of a dispatch to the plan.
    pub(super) fn purge(&mut self, stored: &StoredDispatch) -> Result<()> {
        let machine_state = self.machine_state(stored);
        let status = machine_state.visible_status().unwrap_or_default();
        let count = self.mailbox_mut().counts.of_mut(status);
        *count = count.saturating_sub(1);
        self.plan.purged = Some(stored.id().clone());
        if stored.state.status == DispatchStatus::Queued {
            self.release_interrupt(stored.state.epoch + 1)?;
        }
        Ok(())
    }
}
