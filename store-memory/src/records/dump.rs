//! Pages of records, in the order of their keys.

use store_core::{
    DocumentScope, ThreadId,
    mailbox::MailboxView,
    records::{NumbersGiven, RecordKey, RecordList, RecordPage, RecordQuery, StoredRecord, ThreadRecord, dump_mailbox},
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
        RecordList::Mailboxes | RecordList::Interrupts | RecordList::Dispatches => {
            dump_mailbox(&tenant.mailbox.read(), query, |_| 0)
        }
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

/// The lists whose keys begin with a thread.
fn of_threads(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    let mut page = RecordPage::new(query);
    let first = query.after.as_ref().map_or("", |after| after.text(0));
    for id in tenant.slots.ids().iter().filter(|id| id.as_str() >= first) {
        tenant.slots.read(id, |slot| of_slot(&mut page, id, slot));
        if page.is_full() {
            break;
        }
    }
    page.into_records()
}

fn of_slot(page: &mut RecordPage<'_>, id: &ThreadId, slot: &ThreadSlot) {
    if page.query().list == RecordList::Threads {
        let thread = slot.contents.as_ref().map(|contents| (*contents.thread).clone());
        // A caller may be about to use a blank slot.
        if !slot.is_blank() {
            let record = ThreadRecord { id: id.clone(), id_record: slot.id_record.clone(), thread };
            page.offer(StoredRecord::Thread(Box::new(record)), 1_024);
        }
        return;
    }
    let Some(contents) = &slot.contents else { return };
    match page.query().list {
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

fn entries(page: &mut RecordPage<'_>, id: &ThreadId, contents: &ThreadContents) {
    let after = page.query().after.as_ref().filter(|after| after.text(0) == id.as_str());
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

fn of_index(tenant: &Tenant, query: &RecordQuery) -> Vec<StoredRecord> {
    let index = tenant.index.read();
    match query.list {
        RecordList::Runs => RecordPage::of_unordered(
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
            RecordPage::of_unordered(
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
        RecordList::Scopes => RecordPage::of_unordered(
            query,
            index.events.scopes(),
            |(scope, state)| StoredRecord::Scope { scope: (*scope).clone(), state: (*state).clone() }.key(),
            |(scope, state)| (StoredRecord::Scope { scope: scope.clone(), state: state.clone() }, 128),
        ),
        RecordList::Events => RecordPage::of_unordered(
            query,
            index.events.stored(),
            |stored| RecordKey::of(stored.event.id.as_str()),
            |stored| {
                let bytes = stored.event.payload.as_ref().map_or(256, |payload| payload.as_str().len());
                (StoredRecord::Event(Box::new(stored.clone())), bytes)
            },
        ),
        RecordList::EventKeys => RecordPage::of_unordered(
            query,
            index.events.key_records(),
            |((writer, key), _)| RecordKey::of(writer.as_str()).and(key.as_str()),
            |((writer, key), record)| {
                let (writer, key, record) = (writer.clone(), key.clone(), Box::new(record.clone()));
                (StoredRecord::EventKey { writer, key, record }, 256)
            },
        ),
        _ => RecordPage::of_unordered(
            query,
            index.outbox.stored(),
            |(row, _)| RecordKey::of(row.id.as_str()),
            |(row, payload)| (StoredRecord::Outbox(Box::new((row.clone(), payload.clone()))), payload.as_str().len()),
        ),
    }
}
