//! Decisions that are written together. Each sees the changes of the earlier decisions.

use std::collections::{BTreeMap, HashMap};

use store_core::{
    DedupeKey, DispatchId, Result, ThreadId, Timestamp,
    codec::Codec,
    mailbox::{
        MailboxDecision, MailboxPlan, MailboxView, StoredDispatch, StoredInterrupt, StoredMailboxThread, queue_position,
    },
};

use super::Mailbox;
use crate::codec::{DecisionMessage, DispatchRecord, LargeParts, RemovedDispatch};

/// A mailbox with the changes of decisions about one of its threads. These decisions are not written yet.
pub(crate) struct MailboxDraft<'a> {
    base: &'a Mailbox,
    /// The thread that the decisions are about, and its record after them. `None` before the first change.
    thread_record: Option<(ThreadId, StoredMailboxThread)>,
    changed_dispatches: HashMap<DispatchId, StoredDispatch>,
    /// The ids of the changed dispatches, in the order of their first change.
    change_order: Vec<DispatchId>,
    /// The removed dispatches, each with its number.
    removed_numbers: HashMap<DispatchId, u64>,
    dispatch_by_dedupe_key: HashMap<DedupeKey, DispatchId>,
    /// Interrupts by the epoch that they began. `None` for an interrupt that is removed.
    interrupts: BTreeMap<u64, Option<StoredInterrupt>>,
    message_bytes: usize,
}

impl<'a> MailboxDraft<'a> {
    pub(crate) fn new(base: &'a Mailbox) -> Self {
        Self {
            base,
            thread_record: None,
            changed_dispatches: HashMap::new(),
            change_order: Vec::new(),
            removed_numbers: HashMap::new(),
            dispatch_by_dedupe_key: HashMap::new(),
            interrupts: BTreeMap::new(),
            message_bytes: 0,
        }
    }

    /// Makes a decision about the thread, and keeps its changes.
    pub(crate) fn change<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<T> {
        let decision = decide(self)?;
        if let Some(plan) = decision.plan {
            self.add_plan(*plan);
        }
        decision.answer
    }

    /// Adds the changes of a plan. The sizes of bodies and of removals are estimates.
    fn add_plan(&mut self, plan: MailboxPlan) {
        for stored in plan.dispatches {
            let id = stored.id().clone();
            if let (Some(_), Some(key)) = (queue_position(&stored), &stored.body.dedupe_key) {
                self.dispatch_by_dedupe_key.insert(key.clone(), id.clone());
            }
            self.message_bytes += stored.state.encode().len() + 1_024;
            if self.changed_dispatches.insert(id.clone(), stored).is_none() {
                self.change_order.push(id);
            }
        }
        if let Some(id) = plan.purged {
            let removed_dispatch = self.changed_dispatches.remove(&id).or_else(|| self.base.records.get(&id).cloned());
            self.removed_numbers.extend(removed_dispatch.map(|stored| (id, stored.body.number)));
            self.message_bytes += 512;
        }
        self.interrupts.extend(plan.interrupts);
        self.thread_record = Some((plan.thread, plan.mailbox));
    }

    /// Returns the approximate size in bytes that the message will have, without payloads.
    pub(crate) const fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Returns the message to be written, or `None` if nothing changed. It refers to the large parts that are already
    /// stored.
    pub(crate) fn into_message(mut self, decision_name: &str) -> Option<DecisionMessage> {
        let (_, thread_record) = self.thread_record?;
        let to_record = |id: &DispatchId| {
            let stored = self.changed_dispatches.remove(id)?;
            let old_dispatch =
                self.base.records.get(id).filter(|old_dispatch| old_dispatch.body.number == stored.body.number);
            let large_parts = old_dispatch.map(|_| self.base.large_parts(id)).unwrap_or_default();
            // If the status changed, a result that was stored before is no longer the result of the dispatch.
            let result = large_parts
                .result
                .filter(|_| old_dispatch.is_some_and(|old_dispatch| old_dispatch.state.status == stored.state.status));
            Some(DispatchRecord { stored, large_parts: LargeParts { result, ..large_parts } })
        };
        let dispatches = self.change_order.iter().filter_map(to_record).collect();
        let mut removed_dispatches: Vec<_> =
            self.removed_numbers.into_iter().map(|(id, number)| RemovedDispatch { id, number }).collect();
        removed_dispatches.sort_by_key(|removed_dispatch| removed_dispatch.number);
        let decision = DecisionMessage {
            decision_name: decision_name.to_owned(),
            thread_record: Some(thread_record),
            ..DecisionMessage::default()
        };
        Some(DecisionMessage { dispatches, removed_dispatches, interrupts: self.interrupts, ..decision })
    }

    fn is_about(&self, thread: &ThreadId) -> bool {
        self.thread_record.as_ref().is_some_and(|(changed_thread, _)| changed_thread == thread)
    }
}

impl MailboxView for MailboxDraft<'_> {
    fn claim_incarnation(&self) -> u64 {
        self.base.records.claim_incarnation()
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        match &self.thread_record {
            Some((changed_thread, record)) if changed_thread == thread => Ok(Some(record.clone())),
            _ => self.base.records.mailbox(thread),
        }
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        match self.changed_dispatches.get(id) {
            Some(stored) => Ok(Some(stored.clone())),
            None if self.removed_numbers.contains_key(id) => Ok(None),
            None => self.base.records.dispatch(id),
        }
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        match self.dispatch_by_dedupe_key.get(key).filter(|_| self.is_about(thread)) {
            Some(id) => Ok(Some(id.clone())),
            None => self.base.records.last_dispatch_with_key(thread, key),
        }
    }

    // Only a claim asks for this, and no call claims twice from one thread. So the draft has not changed the queue yet.
    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        self.base.records.first_available(thread, epoch, now)
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        match self.interrupts.get(&epoch).filter(|_| self.is_about(thread)) {
            Some(interrupt) => Ok(interrupt.clone()),
            None => self.base.records.interrupt(thread, epoch),
        }
    }
}
