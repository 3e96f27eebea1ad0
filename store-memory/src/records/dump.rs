//! Pages of records, in the order of their keys.

use std::collections::BTreeMap;

use store_core::{
    DocumentScope, ThreadId,
    mailbox::MailboxView,
    records::{NumbersGiven, RecordKey, RecordList, RecordQuery, StoredRecord, ThreadRecord},
};

use crate::{
    slot::{ThreadContents, ThreadSlot},
    tenant::Tenant,
};

/// Returns the next records of a list.
pub(super) fn dump(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    match query.list {
        RecordList::Numbers => numbers(tenant, query).into_iter().collect(),
        RecordList::Threads
        | RecordList::Entries
        | RecordList::State
        | RecordList::Inputs
        | RecordList::Decisions
        | RecordList::CommitKeys => of_threads(tenant, query),
        RecordList::Mailboxes | RecordList::Interrupts | RecordList::Dispatches => of_mailbox(tenant, query),
        _ => of_index(tenant, query),
    }
}

fn numbers(tenant: &Tenant, query: &RecordQuery) -> Option<StoredRecord> {
    let numbers = NumbersGiven {
        document_revision: *tenant.shared.newest_document_revision.lock(),
        claim_incarnation: tenant.mailbox.read().claim_incarnation(),
    };
    query.after.is_none().then_some(StoredRecord::Numbers(numbers))
}

/// A page while it is made.
struct PageOfRecords<'a> {
    query: &'a RecordQuery,
    records: Vec<StoredRecord>,
    bytes: usize,
}

impl<'a> PageOfRecords<'a> {
    const fn new(query: &'a RecordQuery) -> Self {
        Self { query, records: Vec::new(), bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.query.is_full(self.records.len(), self.bytes)
    }

    /// Adds a record of so many bytes if it comes after the key of the query.
    fn offer(&mut self, record: StoredRecord, bytes: usize) {
        if !self.is_full() && self.query.admits(&record.key()) {
            self.bytes += bytes;
            self.records.push(record);
        }
    }
}

/// The lists whose keys begin with a thread.
fn of_threads(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    let mut page = PageOfRecords::new(query);
    let first = query.after.as_ref().map_or("", |after| after.text(0));
    for id in tenant.slots.ids().iter().filter(|id| id.as_str() >= first) {
        tenant.slots.read(id, |slot| of_slot(&mut page, id, slot));
        if page.is_full() {
            break;
        }
    }
    page.records
}

fn of_slot(page: &mut PageOfRecords<'_>, id: &ThreadId, slot: &ThreadSlot) {
    if page.query.list == RecordList::Threads {
        let thread = slot.contents.as_ref().map(|contents| (*contents.thread).clone());
        // A caller may be about to use a blank slot.
        if !slot.is_blank() {
            let record = ThreadRecord { id: id.clone(), id_record: slot.id_record.clone(), thread };
            page.offer(StoredRecord::Thread(Box::new(record)), 1_024);
        }
        return;
    }
    let Some(contents) = &slot.contents else { return };
    match page.query.list {
        RecordList::Entries => entries(page, id, contents),
        RecordList::State => {
            for (name, value) in &contents.state {
                let bytes = value.as_str().len();
                page.offer(StoredRecord::State { thread: id.clone(), name: name.clone(), value: value.clone() }, bytes);
            }
        }
        RecordList::Inputs => {
            for stored in contents.queue.stored_inputs() {
                page.offer(StoredRecord::Input(Box::new(stored)), 1_024);
            }
        }
        RecordList::Decisions => {
            for (run, ticket, record) in contents.queue.decisions() {
                let (run, ticket, record) = (run.clone(), ticket.to_owned(), Box::new(record.clone()));
                page.offer(StoredRecord::Decision { thread: id.clone(), run, ticket, record }, 256);
            }
        }
        _ => {
            for record in contents.commit_keys() {
                let record = Box::new(record.clone());
                page.offer(StoredRecord::CommitKey { thread: id.clone(), record }, 1_024);
            }
        }
    }
}

fn entries(page: &mut PageOfRecords<'_>, id: &ThreadId, contents: &ThreadContents) {
    let after = page.query.after.as_ref().filter(|after| after.text(0) == id.as_str());
    let skipped = after.map_or(0, |after| usize::try_from(after.number(1)).unwrap_or(usize::MAX));
    for log_entry in contents.log.iter().skip(skipped) {
        if page.is_full() {
            return;
        }
        let record = StoredRecord::Entry {
            thread: id.clone(),
            entry: Box::new((*log_entry.entry).clone()),
            node: Box::new(log_entry.node.clone()),
            marks: log_entry.marks.clone(),
        };
        page.offer(record, usize::try_from(log_entry.bytes).unwrap_or(usize::MAX));
    }
}

/// Takes from items in any order those that come next, and makes their records.
fn in_order<T>(
    query: &RecordQuery,
    items: impl Iterator<Item = T>,
    key: impl Fn(&T) -> RecordKey,
    record: impl Fn(T) -> (StoredRecord, usize),
) -> Vec<StoredRecord> {
    let mut next: BTreeMap<RecordKey, T> = BTreeMap::new();
    for item in items {
        let key = key(&item);
        let is_later = next.len() >= query.limit && next.last_key_value().is_some_and(|(last, _)| key > *last);
        if is_later || !query.admits(&key) {
            continue;
        }
        next.insert(key, item);
        if next.len() > query.limit {
            next.pop_last();
        }
    }
    let mut page = PageOfRecords::new(query);
    for item in next.into_values() {
        if page.is_full() {
            break;
        }
        let (record, bytes) = record(item);
        page.offer(record, bytes);
    }
    page.records
}

fn of_index(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    let index = tenant.index.read();
    match query.list {
        RecordList::Runs => in_order(
            query,
            index.runs(),
            |run| RecordKey::of(run.id.as_str()),
            |run| (StoredRecord::Run(Box::new((**run).clone())), 2_048),
        ),
        RecordList::ThreadDocuments | RecordList::Documents => {
            let is_of_tenant = query.list == RecordList::Documents;
            let scopes =
                index.documents.scopes().filter(|(scope, _)| (**scope == DocumentScope::Tenant) == is_of_tenant);
            let record = |document: &store_core::Document| StoredRecord::Document(Box::new(document.clone()));
            in_order(
                query,
                scopes.flat_map(|(_, documents)| documents.iter()),
                |document| {
                    let (collection, encoded) = (document.key.collection().as_str(), document.key.encoded());
                    let key = document.scope.thread().map_or_else(RecordKey::default, |id| RecordKey::of(id.as_str()));
                    key.and(collection).and(encoded)
                },
                |document| (record(document), document.value.as_str().len()),
            )
        }
        RecordList::Scopes => in_order(
            query,
            index.events.scopes(),
            |(scope, state)| StoredRecord::Scope { scope: (*scope).clone(), state: (*state).clone() }.key(),
            |(scope, state)| (StoredRecord::Scope { scope: scope.clone(), state: state.clone() }, 128),
        ),
        RecordList::Events => in_order(
            query,
            index.events.stored(),
            |stored| RecordKey::of(stored.event.id.as_str()),
            |stored| {
                let bytes = stored.event.payload.as_ref().map_or(256, |payload| payload.as_str().len());
                (StoredRecord::Event(Box::new(stored.clone())), bytes)
            },
        ),
        RecordList::EventKeys => in_order(
            query,
            index.events.key_records(),
            |((writer, key), _)| RecordKey::of(writer.as_str()).and(key.as_str()),
            |((writer, key), record)| {
                let (writer, key, record) = (writer.clone(), key.clone(), Box::new(record.clone()));
                (StoredRecord::EventKey { writer, key, record }, 256)
            },
        ),
        _ => in_order(
            query,
            index.outbox.stored(),
            |(row, _)| RecordKey::of(row.id.as_str()),
            |(row, payload)| (StoredRecord::Outbox(Box::new((row.clone(), payload.clone()))), payload.as_str().len()),
        ),
    }
}

fn of_mailbox(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    let mailbox = tenant.mailbox.read();
    match query.list {
        RecordList::Mailboxes => in_order(
            query,
            mailbox.thread_records(),
            |(thread, _)| RecordKey::of(thread.as_str()),
            |(thread, record)| {
                (StoredRecord::Mailbox { thread: thread.clone(), record: Box::new(record.clone()) }, 512)
            },
        ),
        RecordList::Interrupts => in_order(
            query,
            mailbox.interrupts(),
            |(thread, interrupt)| RecordKey::of(thread.as_str()).and(interrupt.epoch),
            |(thread, interrupt)| {
                (StoredRecord::Interrupt { thread: thread.clone(), interrupt: Box::new(interrupt.clone()) }, 512)
            },
        ),
        _ => in_order(
            query,
            mailbox.stored_dispatches(),
            |stored| RecordKey::of(stored.body.id.as_str()),
            |stored| {
                let bytes = stored.body.payload.as_ref().map_or(512, |payload| payload.as_str().len());
                (StoredRecord::Dispatch(Box::new(stored.clone())), bytes)
            },
        ),
    }
}
