//! A view of a store that is not read, for decisions from an overlay alone.

use std::cell::Cell;

use crate::{
    commit::{CommitKeyRecord, CommitView, LogView},
    document::{DocumentRef, DocumentState, DocumentView},
    error::{Error, Result},
    event::{EventKeyRecord, EventView, Scope, ScopeState, StoredEvent},
    id::{CommitKey, EntryId, EventId, EventKey, OutboxId, RunId, TenantId, ThreadId, WriterId},
    json::Json,
    limits::Limits,
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::MailboxView,
    outbox::{OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
    page::CursorKey,
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{StoredThread, ThreadIdRecord},
};

/// What stays the same while a store is open, and that decisions need.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreConstants {
    /// The incarnation of the store.
    pub incarnation: u64,
    /// The key that authenticates cursors.
    pub cursor_key: CursorKey,
    /// The limits of the store.
    pub limits: Limits,
}

impl StoreConstants {
    /// Takes the constants from a view and a context of the store.
    #[must_use]
    pub fn of(view: &dyn CommitView, limits: &Limits) -> Self {
        let (_, cursor_key) = view.tenant_and_cursor_key();
        Self { incarnation: view.incarnation(), cursor_key: cursor_key.clone(), limits: limits.clone() }
    }
}

/// A store that is not read. It notes whether a rule has asked for a record. If not, the rule has decided from the
/// overlay alone, and its result is the same with the store (NB-6).
#[derive(Debug)]
pub struct UnreadStore<'a> {
    tenant: &'a TenantId,
    constants: &'a StoreConstants,
    was_asked: Cell<bool>,
}

impl<'a> UnreadStore<'a> {
    /// Makes the view.
    #[must_use]
    pub const fn new(tenant: &'a TenantId, constants: &'a StoreConstants) -> Self {
        Self { tenant, constants, was_asked: Cell::new(false) }
    }

    /// Returns whether a rule has asked for a record of the store.
    #[must_use]
    pub const fn was_asked(&self) -> bool {
        self.was_asked.get()
    }

    fn refuse<T>(&self) -> Result<T> {
        self.was_asked.set(true);
        Err(Error::unavailable("the record is only in the inner store of the write buffer"))
    }
}

/// Implements methods that would read.
macro_rules! refuse_reads {
    ($($trait:ident { $($method:ident($($name:ident: $argument:ty),*) -> $result:ty;)* })*) => {$(
        impl $trait for UnreadStore<'_> {
            $(fn $method(&self, $($name: $argument),*) -> Result<$result> {
                self.refuse()
            })*
        }
    )*};
}

refuse_reads! {
    NodeSource { node(_seq: u64) -> Node; }
    MarkSource { marks(_seq: u64) -> EntryMarks; }
    LogView {
        entry(_id: &EntryId) -> Option<u64>;
        entry_id(_seq: u64) -> EntryId;
        snapshot(_name: &str) -> Option<u64>;
    }
    DocumentView {
        document(_document: &DocumentRef) -> Option<DocumentState>;
        next_document_revision() -> u64;
    }
    OutboxView {
        row(_id: &OutboxId) -> Option<StoredOutboxRow>;
        next(_list: &OutboxList, _after: Option<&OutboxPosition>) -> Option<OutboxPosition>;
        last(_list: &OutboxList) -> Option<OutboxPosition>;
    }
}

impl EventView for UnreadStore<'_> {
    fn scope(&self, _scope: &Scope) -> Result<ScopeState> {
        self.refuse()
    }

    fn event_key(&self, _writer: &WriterId, _key: &EventKey) -> Result<Option<EventKeyRecord>> {
        self.refuse()
    }

    fn event(&self, _id: &EventId) -> Result<Option<StoredEvent>> {
        self.refuse()
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (self.tenant, &self.constants.cursor_key)
    }
}

impl CommitView for UnreadStore<'_> {
    fn incarnation(&self) -> u64 {
        self.constants.incarnation
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        None
    }

    fn id_record(&self) -> Result<ThreadIdRecord> {
        self.refuse()
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        self.refuse()
    }

    fn key(&self, _key: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        self.refuse()
    }

    fn thread_exists(&self, _id: &ThreadId) -> Result<bool> {
        self.refuse()
    }

    fn run(&self, _id: &RunId) -> Result<Option<Run>> {
        self.refuse()
    }

    fn state(&self, _key: &str) -> Result<Option<Json>> {
        self.refuse()
    }

    fn pending(&self, _id: &EntryId) -> Result<Option<StoredInput>> {
        self.refuse()
    }

    fn decision(&self, _run: &RunId, _ticket: &str) -> Result<Option<DecisionRecord>> {
        self.refuse()
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        self.refuse()
    }
}
