//! Everything that is stored, for dumps, and records that are written as they are (VF-6).

use super::InMemoryMailbox;
use crate::{
    id::ThreadId,
    mailbox::{StoredDispatch, StoredInterrupt, StoredMailboxThread},
};

impl InMemoryMailbox {
    /// Returns the records of all threads, in no particular order.
    pub fn thread_records(&self) -> impl Iterator<Item = (&ThreadId, &StoredMailboxThread)> {
        // A thread whose record was never written has revision 0.
        let records = self.threads.iter().map(|(thread, thread_mailbox)| (thread, &thread_mailbox.record));
        records.filter(|(_, record)| record.revision > 0)
    }

    /// Returns all interrupts, in no particular order.
    pub fn interrupts(&self) -> impl Iterator<Item = (&ThreadId, &StoredInterrupt)> {
        let interrupts_of = |thread| move |interrupt| (thread, interrupt);
        self.threads
            .iter()
            .flat_map(move |(thread, thread_mailbox)| thread_mailbox.interrupts.values().map(interrupts_of(thread)))
    }

    /// Returns all dispatches, in no particular order.
    pub fn stored_dispatches(&self) -> impl Iterator<Item = &StoredDispatch> {
        self.dispatches_by_id.values()
    }

    /// Raises the incarnation of claim numbers to this one, if it is lower.
    pub fn raise_incarnation(&mut self, incarnation: u64) {
        self.incarnation = self.incarnation.max(incarnation);
    }
}
