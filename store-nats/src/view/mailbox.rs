//! The mailbox of a tenant, as derived from the log.

use std::collections::HashMap;

use store_core::{
    DispatchId, Result, ThreadId, Timestamp,
    codec::DecodeError,
    length,
    mailbox::{InMemoryMailbox, MailboxPlan},
};

use super::{
    Change,
    superseded::{Part, PartKey, ThreadMessages},
};
use crate::codec::{DecisionMessage, LargeParts};

/// The dispatches of a tenant, and the messages about them.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) records: InMemoryMailbox,
    /// Where the large parts of dispatches are stored.
    large_parts: HashMap<DispatchId, LargeParts>,
    messages: HashMap<ThreadId, ThreadMessages>,
    /// Unreadable messages, by thread.
    unreadable_messages: HashMap<ThreadId, Vec<u64>>,
}

impl Mailbox {
    /// Returns an empty mailbox of this incarnation.
    pub(super) fn new(incarnation: u64) -> Self {
        Self { records: InMemoryMailbox::new(incarnation), ..Self::default() }
    }

    /// Returns where the large parts of a dispatch are stored.
    pub(crate) fn large_parts(&self, id: &DispatchId) -> LargeParts {
        self.large_parts.get(id).copied().unwrap_or_default()
    }

    /// Returns the sequence number of the last message about a thread, or 0 if there is none.
    pub(crate) fn last_message(&self, thread: &ThreadId) -> u64 {
        self.messages.get(thread).map_or(0, ThreadMessages::last_message)
    }

    /// Applies a message about a thread.
    pub(super) fn apply(
        &mut self,
        thread: &ThreadId,
        (sequence, decision): (u64, Result<DecisionMessage, DecodeError>),
        change: &mut Change,
    ) {
        let messages = self.messages.entry(thread.clone()).or_default();
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => {
                let part = Part::Written(PartKey::Unreadable(sequence));
                change.superseded_messages.extend(messages.add(sequence, vec![part]));
                self.unreadable_messages.entry(thread.clone()).or_default().push(sequence);
                return self.records.mark_unreadable(thread, format!("a decision in message {sequence}: {error}"));
            }
        };
        change.superseded_messages.extend(messages.add(sequence, parts_of(&decision)));
        self.continue_without(thread, &decision.skipped_messages);
        for removed_dispatch in decision.removed_dispatches {
            self.records.remove(thread, &removed_dispatch.id);
            change.unneeded_data.extend(self.large_parts.remove(&removed_dispatch.id).unwrap_or_default().data());
            change.unused_ids.push(removed_dispatch.id);
        }
        // A message without a record of the thread changed nothing.
        let Some(thread_record) = decision.thread_record else { return };
        let mut plan = MailboxPlan::new(thread.clone(), thread_record);
        for record in decision.dispatches {
            match record.large_parts == LargeParts::default() {
                true => self.large_parts.remove(record.stored.id()),
                false => self.large_parts.insert(record.stored.id().clone(), record.large_parts),
            };
            plan.dispatches.push(record.stored);
        }
        plan.interrupts = decision.interrupts;
        self.records.apply(plan);
        change.claimable_from = self.records.take_claimable_from();
    }

    /// Returns the message to be written so that a damaged thread continues without its unreadable messages, or `None`
    /// if all its messages can be read.
    pub(crate) fn repair_message(
        &self,
        thread: &ThreadId,
        decision_name: &str,
        now: Timestamp,
    ) -> Option<DecisionMessage> {
        let skipped_messages = self.unreadable_messages.get(thread)?.clone();
        let thread_record = Some(self.records.recovered_record(thread, length(skipped_messages.len()), now));
        Some(DecisionMessage {
            decision_name: decision_name.to_owned(),
            thread_record,
            skipped_messages,
            ..DecisionMessage::default()
        })
    }

    /// Forgets unreadable messages that are skipped. If none is left, the thread is readable again.
    fn continue_without(&mut self, thread: &ThreadId, skipped_messages: &[u64]) {
        if let Some(messages) = self.unreadable_messages.get_mut(thread) {
            messages.retain(|message| !skipped_messages.contains(message));
            if messages.is_empty() {
                self.unreadable_messages.remove(thread);
                self.records.mark_readable(thread);
            }
        }
    }

    /// Notes that a message about a thread was removed. Returns the messages that are no longer needed as a result.
    pub(crate) fn note_removed(&mut self, thread: &ThreadId, sequence: u64) -> Vec<u64> {
        self.messages.get_mut(thread).map(|messages| messages.remove(sequence)).unwrap_or_default()
    }
}

/// Returns the parts of a message.
fn parts_of(decision: &DecisionMessage) -> Vec<Part> {
    let dispatches =
        decision.dispatches.iter().map(|record| Part::Written(PartKey::Dispatch(record.stored.body.number)));
    let removed_dispatches = decision
        .removed_dispatches
        .iter()
        .map(|removed_dispatch| Part::Removed(PartKey::Dispatch(removed_dispatch.number)));
    let interrupts = decision.interrupts.iter().map(|(epoch, interrupt)| match interrupt {
        Some(_) => Part::Written(PartKey::Interrupt(*epoch)),
        None => Part::Removed(PartKey::Interrupt(*epoch)),
    });
    let record = decision.thread_record.as_ref().map(|_| Part::Written(PartKey::Record));
    let skipped_messages = decision.skipped_messages.iter().map(|message| Part::Removed(PartKey::Unreadable(*message)));
    dispatches.chain(removed_dispatches).chain(interrupts).chain(record).chain(skipped_messages).collect()
}
