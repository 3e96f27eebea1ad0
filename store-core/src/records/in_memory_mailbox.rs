//! The records of a mailbox that is kept in memory.

use super::{RecordKey, RecordList, RecordPage, RecordQuery, StoredRecord};
use crate::{
    id::DispatchId,
    mailbox::{InMemoryMailbox, MailboxView as _},
    records::NumbersGiven,
};

/// About how many bytes a record has without its payload.
const USUAL_BYTES: usize = 512;

/// Returns the next records of a list of a mailbox: none for a list that belongs to threads.
///
/// `other_bytes` says how many bytes of a dispatch are kept elsewhere, and are added to the record afterwards.
#[must_use]
pub fn dump_mailbox(
    mailbox: &InMemoryMailbox,
    query: &RecordQuery,
    other_bytes: impl Fn(&DispatchId) -> usize,
) -> Vec<StoredRecord> {
    match query.list {
        RecordList::Numbers => {
            let numbers = NumbersGiven { claim_incarnation: mailbox.claim_incarnation(), ..NumbersGiven::default() };
            query.after.is_none().then_some(StoredRecord::Numbers(numbers)).into_iter().collect()
        }
        RecordList::Mailboxes => RecordPage::of_unordered(
            query,
            mailbox.thread_records(),
            |(thread, _)| RecordKey::of(thread.as_str()),
            |(thread, record)| {
                (StoredRecord::Mailbox { thread: thread.clone(), record: Box::new(record.clone()) }, USUAL_BYTES)
            },
        ),
        RecordList::Interrupts => RecordPage::of_unordered(
            query,
            mailbox.interrupts(),
            |(thread, interrupt)| RecordKey::of(thread.as_str()).and(interrupt.epoch),
            |(thread, interrupt)| {
                let record = StoredRecord::Interrupt { thread: thread.clone(), interrupt: Box::new(interrupt.clone()) };
                (record, USUAL_BYTES)
            },
        ),
        RecordList::Dispatches => RecordPage::of_unordered(
            query,
            mailbox.stored_dispatches(),
            |stored| RecordKey::of(stored.body.id.as_str()),
            |stored| {
                let payload = stored.body.payload.as_ref().map_or(0, |payload| payload.as_str().len());
                let bytes = USUAL_BYTES + payload + other_bytes(&stored.body.id);
                (StoredRecord::Dispatch(Box::new(stored.clone())), bytes)
            },
        ),
        _ => Vec::new(),
    }
}
