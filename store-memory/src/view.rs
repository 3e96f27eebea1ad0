//! The views through which the rules of `store-core` read the stored data.

use store_core::{
    CommitKey, CursorKey, Document, DocumentRef, EntryId, EventId, EventKey, Json, OutboxId, Result, Run, RunId, Scope,
    TenantId, ThreadId, WriterId,
    commit::{CommitKeyRecord, CommitView, LogView},
    document::{DocumentState, DocumentView, DocumentWriteView},
    event::{EventKeyRecord, EventView, ScopeState, StoredEvent},
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::{InMemoryMailbox, MailboxView},
    outbox::{OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
    pending::{DecisionRecord, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

use crate::{
    slot::{ThreadContents, ThreadSlot},
    tenant::{Documents, Events, IndexRecords, Outbox, Tenant},
};

/// The stored data, in the form in which the rules read it while they plan a write.
pub(crate) struct PlanView<'a> {
    pub(crate) slot: &'a ThreadSlot,
    pub(crate) index_records: &'a IndexRecords,
    pub(crate) events: TenantEventsView<'a>,
    /// The mailbox, if the commit names a claim.
    pub(crate) mailbox: Option<&'a InMemoryMailbox>,
    pub(crate) outbox: &'a Outbox,
    pub(crate) documents: &'a Documents,
}

/// The stored data that the plan of a write of documents reads.
pub(crate) struct DocumentWritePlanView<'a> {
    /// The slot of the thread that the write is about, if it is about one.
    pub(crate) slot: Option<&'a ThreadSlot>,
    pub(crate) documents: &'a Documents,
    pub(crate) events: TenantEventsView<'a>,
    /// The mailbox, if the write names a claim.
    pub(crate) mailbox: Option<&'a InMemoryMailbox>,
}

/// The stored data that the plan of an append of events reads.
#[derive(Clone, Copy)]
pub(crate) struct TenantEventsView<'a> {
    pub(crate) events: &'a Events,
    pub(crate) tenant: &'a Tenant,
}

impl EventView for TenantEventsView<'_> {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        Ok(self.events.scope_state(scope))
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        Ok(self.events.key_record(writer, key).cloned())
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        Ok(self.events.get(id).cloned())
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        self.tenant.tenant_and_cursor_key()
    }
}

/// Implements the views of events and of documents for a plan that reads both.
macro_rules! event_and_document_views {
    ($($view:ident)*) => {$(
        impl EventView for $view<'_> {
            fn scope(&self, scope: &Scope) -> Result<ScopeState> {
                self.events.scope(scope)
            }

            fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
                self.events.event_key(writer, key)
            }

            fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
                self.events.event(id)
            }

            fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
                self.events.tenant_and_cursor_key()
            }
        }

        impl DocumentView for $view<'_> {
            fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
                Ok(self.documents.get(document).map(Document::state))
            }

            fn next_document_revision(&self) -> Result<u64> {
                Ok(self.events.tenant.shared.next_document_revision())
            }
        }
    )*};
}

event_and_document_views!(PlanView DocumentWritePlanView);

impl DocumentWriteView for DocumentWritePlanView<'_> {
    fn has_thread(&self, _thread: &ThreadId) -> Result<bool> {
        Ok(self.slot.is_some_and(|slot| slot.contents.is_some()))
    }

    fn id_record(&self, _thread: &ThreadId) -> Result<ThreadIdRecord> {
        Ok(self.slot.map(|slot| slot.id_record.clone()).unwrap_or_default())
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        self.mailbox.map(|mailbox| mailbox as &dyn MailboxView)
    }
}

impl OutboxView for PlanView<'_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.outbox.row(id)
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        self.outbox.next(list, after)
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        self.outbox.last(list)
    }
}

impl PlanView<'_> {
    fn contents(&self) -> Option<&ThreadContents> {
        self.slot.contents.as_deref()
    }
}

impl NodeSource for PlanView<'_> {
    fn node(&self, seq: u64) -> Result<Node> {
        self.contents().map_or_else(|| Err(store_core::Error::corrupt("a log does not exist")), |log| log.node(seq))
    }
}

impl MarkSource for PlanView<'_> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.contents().map_or_else(|| Ok(EntryMarks::default()), |log| log.marks(seq))
    }
}

impl LogView for PlanView<'_> {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        self.contents().map_or(Ok(None), |log| log.entry(id))
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        self.contents().map_or_else(|| Err(store_core::Error::corrupt("a log does not exist")), |log| log.entry_id(seq))
    }

    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        self.contents().map_or(Ok(None), |log| log.snapshot(name))
    }
}

impl CommitView for PlanView<'_> {
    fn incarnation(&self) -> u64 {
        0
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        self.mailbox.map(|mailbox| mailbox as &dyn MailboxView)
    }

    fn id_record(&self) -> Result<ThreadIdRecord> {
        Ok(self.slot.id_record.clone())
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        Ok(self.contents().map(|contents| StoredThread::clone(&contents.thread)))
    }

    fn key(&self, key: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        Ok(self.contents().and_then(|contents| contents.commit_key(key)).cloned())
    }

    fn thread_exists(&self, _parent: &ThreadId) -> Result<bool> {
        Ok(self.index_records.has_parent)
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>> {
        Ok(self.index_records.runs.get(id).map(|run| Run::clone(run)))
    }

    fn state(&self, key: &str) -> Result<Option<Json>> {
        Ok(self.contents().and_then(|contents| contents.state.get(key)).cloned())
    }

    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>> {
        Ok(self.contents().and_then(|contents| contents.queue.get(id)))
    }

    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        Ok(self.contents().and_then(|contents| contents.queue.decision(run, ticket)).cloned())
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        let inputs = self.contents().into_iter().flat_map(|contents| contents.queue.inputs());
        Ok(inputs.map(|input| input.id.clone()).collect())
    }
}
