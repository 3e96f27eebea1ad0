//! Records as the logs have them: dumps and restores, for copies. A dump finds them through the index; a restore writes
//! ordinary lines (`writer/restore.rs`).

mod of_tenant;
mod of_thread;

use async_trait::async_trait;
use store_core::{
    Detail, Error, Result, TenantId,
    records::{NumbersGiven, RecordKey, RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold},
};

use crate::{
    dispatch_rows::MailboxRows as _,
    index::{Direction, Key, Pairs, Snapshot},
    names::{Part, no_log_id},
    pages,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::{Answer, Ask},
};

#[async_trait]
impl RecordPort for Tenant {
    fn holds(&self, _list: RecordList) -> bool {
        true
    }

    /// Only the process that has the store open for writing can write to it. Its callers get `Unavailable`.
    async fn hold_writes(&self) -> Result<WriteHold> {
        self.check_open()?;
        if self.shared.config.read_only {
            let operation = "holding the writes of a store opened for reading";
            return Err(Error::new(Detail::Unsupported { operation }));
        }
        Ok(self.state.write_gate.hold().await)
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        let query = query.clone();
        self.read(None, move |shared, tenant| {
            shared.check_tenant(tenant)?;
            let snapshot = shared.index.snapshot();
            let dump = Dump { shared, tenant, snapshot: &snapshot, query: &query };
            let mut page = Page { query: &query, records: Vec::new(), bytes: 0 };
            dump.list(&mut page)?;
            Ok(page.records)
        })
        .await
    }

    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        match self.write_to((no_log_id()?, Part::Events), None, Ask::Restore(records)).await? {
            Answer::Done => {
                self.rewrite_if_due();
                Ok(())
            }
            _ => Err(Error::closed()),
        }
    }
}

/// A page while it is made.
struct Page<'a> {
    query: &'a RecordQuery,
    records: Vec<StoredRecord>,
    bytes: usize,
}

impl Page<'_> {
    const fn is_full(&self) -> bool {
        self.query.is_full(self.records.len(), self.bytes)
    }

    fn put(&mut self, record: StoredRecord, bytes: usize) {
        self.bytes += bytes;
        self.records.push(record);
    }
}

/// What a page is made from.
#[derive(Clone, Copy)]
struct Dump<'a> {
    shared: &'a Shared,
    tenant: &'a TenantId,
    snapshot: &'a Snapshot,
    query: &'a RecordQuery,
}

impl<'a> Dump<'a> {
    fn list(&self, page: &mut Page<'_>) -> Result<()> {
        match self.query.list {
            RecordList::Numbers => self.numbers(page),
            RecordList::Threads => self.threads(page),
            RecordList::Entries
            | RecordList::State
            | RecordList::Inputs
            | RecordList::Decisions
            | RecordList::CommitKeys
            | RecordList::ThreadDocuments => self.of_threads(page),
            RecordList::Runs => self.runs(page),
            RecordList::Documents => self.documents(page, &table::documents(self.tenant), 0),
            RecordList::Scopes => self.scopes(page),
            RecordList::Events => self.events(page),
            RecordList::EventKeys => self.event_keys(page),
            RecordList::Outbox => self.outbox(page),
            RecordList::Mailboxes => self.mailboxes(page),
            RecordList::Interrupts => self.interrupts(page),
            RecordList::Dispatches => self.dispatches(page),
        }
    }

    fn numbers(&self, page: &mut Page<'_>) -> Result<()> {
        let made = self.snapshot.number(&table::mailbox_made(self.tenant))?;
        let numbers = NumbersGiven {
            document_revision: self.newest_document_revision()?,
            claim_incarnation: made.map_or(0, |made| made + self.shared.meta.incarnation()),
        };
        if self.query.after.is_none() {
            page.put(StoredRecord::Numbers(numbers), 0);
        }
        Ok(())
    }

    /// The key after which the page begins.
    fn after(&self) -> Option<&'a RecordKey> {
        self.query.after.as_ref()
    }

    /// The rows of a list, after a key of it.
    fn rows(&self, list: &Key, after: Option<Key>) -> Pairs<'a> {
        pages::behind(self.snapshot, list, Direction::Forward, after.map(Key::into_bytes))
    }
}
