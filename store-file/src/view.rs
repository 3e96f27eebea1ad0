//! What the plan of a commit reads: the index with the changes of its round so far, and those of the round before.

use store_core::{
    CommitKey, CursorKey, DedupeKey, DispatchId, DocumentRef, DocumentScope, EntryId, EventId, EventKey, Json,
    OutboxId, Result, Run, RunId, Scope, TenantId, ThreadId, Timestamp, WriterId,
    codec::DecodeError,
    commit::{CommitKeyRecord, CommitView, LogView},
    document::{DocumentState, DocumentView, DocumentWriteView},
    event::{EventKeyRecord, EventView, ScopeState, StoredEvent},
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::{MailboxView, StoredDispatch, StoredInterrupt, StoredMailboxThread},
    outbox::{OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
    pending::{DecisionRecord, StoredInput},
    thread::{StoredThread, ThreadIdRecord},
};

use crate::{
    codec::{NodeRow, Rows, damaged},
    dispatches::MailboxTable,
    fold::Told,
    index::Direction,
    line::{self, CommitLine},
    log::Span,
    outbox_rows, records,
    shared::Shared,
    staged::Staged,
    table,
    tails::Tails,
};

/// The view of one thread in a round.
pub(crate) struct View<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) staged: &'a Staged<'a>,
    pub(crate) tails: &'a Tails,
    pub(crate) tenant: &'a TenantId,
    pub(crate) told: &'a Told,
    /// The number of the thread's log; none before its first group.
    pub(crate) log: Option<u64>,
    /// The revision of documents that are put.
    pub(crate) revision: u64,
}

impl View<'_> {
    fn read<T>(
        &self,
        log: u64,
        span: Span,
        decode: impl FnOnce(&str) -> std::result::Result<T, DecodeError>,
    ) -> Result<T> {
        records::read_beside(self.shared, self.tails, (log, span), decode)
    }

    fn row(&self, seq: u64) -> Result<NodeRow> {
        self.staged.expect_node(self.log.ok_or_else(|| damaged("log"))?, seq)
    }
}

impl NodeSource for View<'_> {
    fn node(&self, seq: u64) -> Result<Node> {
        self.row(seq).map(|row| row.node)
    }
}

impl MarkSource for View<'_> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.log.map_or_else(|| Ok(EntryMarks::default()), |log| self.staged.marks_of(log, seq))
    }
}

impl LogView for View<'_> {
    fn entry(&self, id: &EntryId) -> Result<Option<u64>> {
        self.log.map_or(Ok(None), |log| self.staged.entry_seq(log, id))
    }

    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        let head = self.told.stored.as_ref().filter(|stored| stored.head_seq == Some(seq));
        match head.and_then(|stored| stored.thread.head.clone()) {
            Some(id) => Ok(id),
            None => self.row(seq).map(|row| row.id),
        }
    }

    fn snapshot(&self, name: &str) -> Result<Option<u64>> {
        self.log.map_or(Ok(None), |log| self.staged.newest_snapshot(log, name))
    }
}

impl EventView for View<'_> {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        self.shared.check_scope(self.tenant, scope)?;
        self.staged.scope_state(self.tenant, scope)
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        Ok(self.staged.event_key_row(self.tenant, writer, key)?.map(|row| row.record))
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        match self.staged.event_row(self.tenant, id)? {
            Some(row) if self.staged.is_in_scope(self.tenant, &row)? => {
                self.read(row.log, row.span, line::decode_event).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (self.tenant, &self.shared.cursor_key)
    }
}

impl OutboxView for View<'_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.staged.outbox_row(self.tenant, id)
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        outbox_rows::place(self.staged, self.tenant, list, (after, Direction::Forward))
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        outbox_rows::place(self.staged, self.tenant, list, (None, Direction::Backward))
    }
}

impl View<'_> {
    /// The mailbox that a claim of the thread is of.
    fn table(&self) -> MailboxTable<'_, Staged<'_>> {
        MailboxTable::new(self.staged, self.shared, self.tenant).beside(self.tails)
    }
}

impl MailboxView for View<'_> {
    /// Nothing is claimed with a commit.
    fn claim_incarnation(&self) -> u64 {
        0
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        self.table().mailbox(thread)
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        self.table().dispatch(id)
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        self.table().last_dispatch_with_key(thread, key)
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        self.table().first_available(thread, epoch, now)
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        self.table().interrupt(thread, epoch)
    }
}

impl DocumentView for View<'_> {
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
        let log = match (&document.scope, self.log) {
            (DocumentScope::Tenant, _) => {
                self.shared.check_collection(self.tenant, document.key.collection())?;
                0
            }
            (DocumentScope::Thread(_), Some(log)) => log,
            (DocumentScope::Thread(_), None) => return Ok(None),
        };
        let row = self.staged.document_row(&table::document(self.tenant, document, log))?;
        Ok(row.map(|row| row.state))
    }

    fn next_document_revision(&self) -> Result<u64> {
        Ok(self.revision)
    }
}

impl DocumentWriteView for View<'_> {
    fn has_thread(&self, _thread: &ThreadId) -> Result<bool> {
        // The view is that of this thread. The index may not have it yet.
        Ok(self.told.stored.is_some())
    }

    fn id_record(&self, _thread: &ThreadId) -> Result<ThreadIdRecord> {
        Ok(self.told.id.clone())
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }
}

impl CommitView for View<'_> {
    fn incarnation(&self) -> u64 {
        self.shared.meta.incarnation()
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }

    fn id_record(&self) -> Result<ThreadIdRecord> {
        Ok(self.told.id.clone())
    }

    fn thread(&self) -> Result<Option<StoredThread>> {
        Ok(self.told.stored.clone().map(|stored| records::stamp(stored, self.incarnation())))
    }

    fn key(&self, key: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        let Some(log) = self.log else { return Ok(None) };
        let Some(span) = self.staged.commit_span(log, key)? else { return Ok(None) };
        let commit = self.read(log, span, CommitLine::decode)?;
        let Some((key, digest, receipt)) = commit.key else { return Err(damaged("commit key")) };
        Ok(Some(CommitKeyRecord::new(key, digest, receipt)))
    }

    fn thread_exists(&self, id: &ThreadId) -> Result<bool> {
        Ok(self.shared.known_thread(self.staged, self.tenant, id)?.is_some())
    }

    fn run(&self, id: &RunId) -> Result<Option<Run>> {
        match self.staged.run_row(self.tenant, id)? {
            // A run of a deleted thread counts as gone. The index may not have the log of this thread yet.
            Some(row) if self.log == Some(row.log) || self.staged.log_row(row.log)?.is_some() => {
                self.read(row.log, row.span, line::decode_run).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn state(&self, key: &str) -> Result<Option<Json>> {
        self.log.map_or(Ok(None), |log| self.staged.state_value(log, key))
    }

    fn pending(&self, id: &EntryId) -> Result<Option<StoredInput>> {
        let Some(log) = self.log else { return Ok(None) };
        let Some(rank) = self.staged.input_rank(log, id)? else { return Ok(None) };
        let row = self.staged.expect_input(log, rank)?;
        let stored = self.read(log, row.span, line::decode_input)?;
        Ok(Some(StoredInput::new(stored.input, rank)))
    }

    fn decision(&self, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        self.log.map_or(Ok(None), |log| self.staged.decision(log, run, ticket))
    }

    fn queue(&self) -> Result<Vec<EntryId>> {
        let Some(log) = self.log else { return Ok(Vec::new()) };
        let ranks = self.staged.keys(&table::inputs(log))?;
        let rank = |key: Vec<u8>| table::last_number(&key).ok_or_else(|| damaged("pending input"));
        ranks.into_iter().map(|key| Ok(self.staged.expect_input(log, rank(key)?)?.id)).collect()
    }
}
