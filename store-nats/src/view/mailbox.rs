//! The mailbox of a tenant, as derived from the log.

use std::collections::HashMap;

use store_core::{
    DispatchId, Result, ThreadId, Timestamp,
    codec::DecodeError,
    length,
    mailbox::{MailboxMap, MailboxPlan},
};

use super::{
    Change,
    garbage::{Messages, Told},
};
use crate::codec::{Apart, Deed};

/// The dispatches of a tenant, and the messages about them.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) map: MailboxMap,
    /// The places of the large parts of dispatches that have such parts.
    apart: HashMap<DispatchId, Apart>,
    messages: HashMap<ThreadId, Messages>,
    /// Unreadable messages, by thread.
    unreadable: HashMap<ThreadId, Vec<u64>>,
}

impl Mailbox {
    /// Returns an empty mailbox of this incarnation.
    pub(super) fn new(incarnation: u64) -> Self {
        Self { map: MailboxMap::new(incarnation), ..Self::default() }
    }

    /// Returns the places of the large parts of a dispatch.
    pub(crate) fn apart(&self, id: &DispatchId) -> Apart {
        self.apart.get(id).copied().unwrap_or_default()
    }

    /// Returns the last message about a thread. 0 if there is none.
    pub(crate) fn last_message(&self, thread: &ThreadId) -> u64 {
        self.messages.get(thread).map_or(0, Messages::last)
    }

    /// Applies a message about a thread.
    pub(super) fn apply(
        &mut self,
        thread: &ThreadId,
        (sequence, deed): (u64, Result<Deed, DecodeError>),
        change: &mut Change,
    ) {
        let messages = self.messages.entry(thread.clone()).or_default();
        let deed = match deed {
            Ok(deed) => deed,
            Err(why) => {
                change.garbage.extend(messages.add(sequence, vec![(Told::Unreadable(sequence), false)]));
                self.unreadable.entry(thread.clone()).or_default().push(sequence);
                return self.map.set_damaged(thread, format!("a decision in message {sequence}: {why}"));
            }
        };
        change.garbage.extend(messages.add(sequence, tells(&deed)));
        self.go_on(thread, &deed.without);
        for removed in deed.removed {
            self.map.remove(thread, &removed.id);
            change.data.extend(self.apart.remove(&removed.id).unwrap_or_default().data());
            change.ids.push(removed.id);
        }
        // A message without a record changed nothing.
        let Some(record) = deed.mailbox else { return };
        let mut plan = MailboxPlan::new(thread.clone(), record);
        for row in deed.rows {
            match row.apart == Apart::default() {
                true => self.apart.remove(row.stored.id()),
                false => self.apart.insert(row.stored.id().clone(), row.apart),
            };
            plan.dispatches.push(row.stored);
        }
        plan.interrupts = deed.interrupts;
        self.map.apply(plan);
        change.claimable_from = self.map.take_claimable_from();
    }

    /// Returns the message with which a damaged thread continues without its unreadable messages. `None` if all
    /// messages can be read.
    pub(crate) fn repair(&self, thread: &ThreadId, by: &str, now: Timestamp) -> Option<Deed> {
        let without = self.unreadable.get(thread)?.clone();
        let mailbox = Some(self.map.without(thread, length(without.len()), now));
        Some(Deed { by: by.to_owned(), mailbox, without, ..Deed::default() })
    }

    fn go_on(&mut self, thread: &ThreadId, without: &[u64]) {
        if let Some(left) = self.unreadable.get_mut(thread) {
            left.retain(|message| !without.contains(message));
            if left.is_empty() {
                self.unreadable.remove(thread);
                self.map.set_sound(thread);
            }
        }
    }

    /// Notes that a message about a thread was removed. Returns the messages that are no longer needed as a result.
    pub(crate) fn removed(&mut self, thread: &ThreadId, sequence: u64) -> Vec<u64> {
        self.messages.get_mut(thread).map(|messages| messages.remove(sequence)).unwrap_or_default()
    }
}

/// Returns the parts of a message, each with whether it records a removal.
fn tells(deed: &Deed) -> Vec<(Told, bool)> {
    let rows = deed.rows.iter().map(|row| (Told::Dispatch(row.stored.body.number), false));
    let removed = deed.removed.iter().map(|removed| (Told::Dispatch(removed.number), true));
    let interrupts = deed.interrupts.iter().map(|(epoch, kept)| (Told::Interrupt(*epoch), kept.is_none()));
    let record = deed.mailbox.as_ref().map(|_| (Told::Record, false));
    let without = deed.without.iter().map(|message| (Told::Unreadable(*message), true));
    rows.chain(removed).chain(interrupts).chain(record).chain(without).collect()
}
