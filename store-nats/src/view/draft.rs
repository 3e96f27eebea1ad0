//! Decisions that are written together. Each sees the changes of the earlier ones.

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

/// A mailbox as it is after decisions about one of its threads. These decisions are not written yet.
pub(crate) struct MailboxDraft<'a> {
    base: &'a Mailbox,
    record: Option<(ThreadId, StoredMailboxThread)>,
    rows: HashMap<DispatchId, StoredDispatch>,
    /// The changed dispatches, in the order of their first change.
    order: Vec<DispatchId>,
    removed: HashMap<DispatchId, u64>,
    keys: HashMap<DedupeKey, DispatchId>,
    interrupts: BTreeMap<u64, Option<StoredInterrupt>>,
    message_bytes: usize,
}

impl<'a> MailboxDraft<'a> {
    pub(crate) fn new(base: &'a Mailbox) -> Self {
        Self {
            base,
            record: None,
            rows: HashMap::new(),
            order: Vec::new(),
            removed: HashMap::new(),
            keys: HashMap::new(),
            interrupts: BTreeMap::new(),
            message_bytes: 0,
        }
    }

    /// Makes a decision about the thread, and keeps its changes.
    pub(crate) fn change<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<T> {
        let change = decide(self)?;
        if let Some(plan) = change.plan {
            self.add_plan(*plan);
        }
        change.answer
    }

    /// Adds the changes of a plan.
    fn add_plan(&mut self, plan: MailboxPlan) {
        for stored in plan.dispatches {
            let id = stored.id().clone();
            if let (Some(_), Some(key)) = (queue_position(&stored), &stored.body.dedupe_key) {
                self.keys.insert(key.clone(), id.clone());
            }
            self.message_bytes += stored.state.encode().len() + 1_024;
            if self.rows.insert(id.clone(), stored).is_none() {
                self.order.push(id);
            }
        }
        if let Some(id) = plan.purged {
            let known = self.rows.remove(&id).or_else(|| self.base.in_memory.get(&id).cloned());
            self.removed.extend(known.map(|stored| (id, stored.body.number)));
            self.message_bytes += 512;
        }
        self.interrupts.extend(plan.interrupts);
        self.record = Some((plan.thread, plan.mailbox));
    }

    /// Returns the approximate size in bytes that the message will have, without payloads.
    pub(crate) const fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Returns the message to be written, or `None` if nothing changed. It refers to the large parts that are already
    /// stored.
    pub(crate) fn into_message(mut self, decision_name: &str) -> Option<DecisionMessage> {
        let (_, mailbox) = self.record?;
        let row = |id: &DispatchId| {
            let stored = self.rows.remove(id)?;
            let old = self.base.in_memory.get(id).filter(|old| old.body.number == stored.body.number);
            let large_parts = old.map(|_| self.base.large_parts(id)).unwrap_or_default();
            let result = large_parts.result.filter(|_| old.is_some_and(|old| old.state.status == stored.state.status));
            Some(DispatchRecord { stored, large_parts: LargeParts { result, ..large_parts } })
        };
        let rows = self.order.iter().filter_map(row).collect();
        let mut removed: Vec<_> = self.removed.into_iter().map(|(id, number)| RemovedDispatch { id, number }).collect();
        removed.sort_by_key(|removed| removed.number);
        let decision = DecisionMessage {
            decision_name: decision_name.to_owned(),
            mailbox: Some(mailbox),
            ..DecisionMessage::default()
        };
        Some(DecisionMessage { rows, removed, interrupts: self.interrupts, ..decision })
    }

    fn is_about(&self, thread: &ThreadId) -> bool {
        self.record.as_ref().is_some_and(|(changed_thread, _)| changed_thread == thread)
    }
}

impl MailboxView for MailboxDraft<'_> {
    fn claim_incarnation(&self) -> u64 {
        self.base.in_memory.claim_incarnation()
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        match &self.record {
            Some((changed_thread, record)) if changed_thread == thread => Ok(Some(record.clone())),
            _ => self.base.in_memory.mailbox(thread),
        }
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        match self.rows.get(id) {
            Some(stored) => Ok(Some(stored.clone())),
            None if self.removed.contains_key(id) => Ok(None),
            None => self.base.in_memory.dispatch(id),
        }
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        match self.keys.get(key).filter(|_| self.is_about(thread)) {
            Some(id) => Ok(Some(id.clone())),
            None => self.base.in_memory.last_dispatch_with_key(thread, key),
        }
    }

    // Only a claim asks for this, and no call claims twice from one thread. So the draft has not changed the queue yet.
    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        self.base.in_memory.first_available(thread, epoch, now)
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        match self.interrupts.get(&epoch).filter(|_| self.is_about(thread)) {
            Some(interrupt) => Ok(interrupt.clone()),
            None => self.base.in_memory.interrupt(thread, epoch),
        }
    }
}
