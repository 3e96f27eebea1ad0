//! Records that are written as they were in another store. Nothing is decided or derived but the lists.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{
    Error, Result, ThreadId,
    codec::Codec,
    length,
    records::{NumbersGiven, StoredRecord, ThreadRecord, mailbox_plan},
};

use crate::{
    slot::{LogEntry, ThreadContents},
    tenant::Tenant,
};

/// Refuses records of threads that neither exist nor come with them.
pub(super) fn check(tenant: &Tenant, records: &[StoredRecord]) -> Result<()> {
    let mut known: BTreeSet<&ThreadId> = BTreeSet::new();
    for record in records {
        if let StoredRecord::Thread(record) = record {
            known.extend(record.thread.as_ref().map(|_| &record.id));
        }
        // A document of a thread needs the thread, too.
        let Some(thread) = record.thread() else { continue };
        if known.insert(thread) && !tenant.slots.read(thread, |slot| slot.contents.is_some()) {
            return Err(Error::not_found("thread", thread));
        }
    }
    Ok(())
}

/// Writes a record.
pub(super) fn restore(tenant: &Tenant, record: StoredRecord) -> Result<()> {
    match record {
        StoredRecord::Numbers(numbers) => raise_numbers(tenant, numbers),
        StoredRecord::Thread(record) => thread(tenant, &record),
        StoredRecord::Entry { thread, entry, node, marks } => {
            let bytes = length(entry.encode().len());
            let log_entry = LogEntry { entry: Arc::from(entry), node: *node, marks, bytes };
            with_contents(tenant, &thread, |contents| contents.restore_entry(log_entry));
        }
        StoredRecord::Run(run) => {
            let (run, id) = (Arc::from(run.clone()), run.thread);
            with_contents(tenant, &id, |contents| {
                tenant.index.write().put_run(&run);
                contents.runs.insert(run.id.clone(), run);
            });
        }
        StoredRecord::State { thread, name, value } => {
            with_contents(tenant, &thread, |contents| drop(contents.state.insert(name, value)));
        }
        StoredRecord::Input(stored) => {
            let thread = stored.input.thread.clone();
            with_contents(tenant, &thread, |contents| contents.queue.restore_input(*stored));
        }
        StoredRecord::Decision { thread, run, ticket, record } => {
            with_contents(tenant, &thread, |contents| contents.queue.restore_decision((run, ticket), *record));
        }
        StoredRecord::CommitKey { thread, record } => {
            with_contents(tenant, &thread, |contents| contents.restore_commit_key(*record));
        }
        StoredRecord::Document(document) => {
            raise_numbers(tenant, NumbersGiven { document_revision: document.revision, ..NumbersGiven::default() });
            tenant.index.write().documents.restore(*document);
        }
        StoredRecord::Scope { scope, state } => tenant.index.write().events.restore_scope(scope, state),
        StoredRecord::Event(stored) => tenant.index.write().events.restore(*stored),
        StoredRecord::EventKey { writer, key, record } => {
            tenant.index.write().events.restore_key((writer, key), *record);
        }
        StoredRecord::Outbox(row) => tenant.index.write().outbox.restore(row.0, row.1)?,
        StoredRecord::Mailbox { .. } | StoredRecord::Interrupt { .. } | StoredRecord::Dispatch(_) => {
            let mut mailbox = tenant.mailbox.write();
            if let Some(plan) = mailbox_plan(&*mailbox, &record)? {
                mailbox.apply(plan);
            }
        }
    }
    Ok(())
}

fn raise_numbers(tenant: &Tenant, numbers: NumbersGiven) {
    let mut newest = tenant.shared.newest_document_revision.lock();
    *newest = numbers.document_revision.max(*newest);
    drop(newest);
    let mut newest = tenant.shared.newest_incarnation.lock();
    *newest = numbers.claim_incarnation.max(*newest);
    drop(newest);
    tenant.mailbox.write().raise_incarnation(numbers.claim_incarnation);
}

fn thread(tenant: &Tenant, record: &ThreadRecord) {
    tenant.slots.write(&record.id, |slot| {
        let mut index = tenant.index.write();
        index.put_id_record(&record.id, slot, record.id_record.clone());
        let Some(stored) = record.thread_in(0).map(Arc::new) else { return };
        index.put_thread(&stored);
        match &mut slot.contents {
            Some(contents) => contents.thread = stored,
            None => slot.contents = Some(Box::new(ThreadContents::new(stored))),
        }
    });
}

/// Changes a thread, which exists.
fn with_contents(tenant: &Tenant, thread: &ThreadId, change: impl FnOnce(&mut ThreadContents)) {
    tenant.slots.write(thread, |slot| slot.contents.as_deref_mut().map(change));
}
