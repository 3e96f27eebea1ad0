//! Typed reads of the index.

use store_core::{
    CollectionId, CommitKey, EntryId, EventId, EventKey, Json, OutboxId, Result, RunId, Scope, TenantId, ThreadId,
    WriterId,
    event::ScopeState,
    log::{EntryMarks, MarkSource, Node, NodeSource},
    outbox::StoredOutboxRow,
    pending::DecisionRecord,
    thread::{StoredThread, ThreadIdRecord},
};

use super::{
    CollectionRow, DocumentRow, EventKeyRow, EventRow, Get, InputRow, LogRow, NodeRow, PlaceRow, RunRow, ThreadRow,
    damaged, read_payload_place,
};
use crate::{index::Key, log::Span, table};

/// Typed reads of the index.
pub(crate) trait Rows: Get {
    fn thread_row(&self, tenant: &TenantId, id: &ThreadId) -> Result<Option<ThreadRow>> {
        self.decoded("thread", &table::thread(tenant, id))
    }

    fn log_row(&self, log: u64) -> Result<Option<LogRow>> {
        self.decoded("log", &table::log(log))
    }

    /// The row of a log, also of one that waits for its purge.
    fn any_log_row(&self, log: u64) -> Result<Option<LogRow>> {
        match self.log_row(log)? {
            Some(row) => Ok(Some(row)),
            None => self.decoded("purge", &table::purge(log)),
        }
    }

    /// The number of the last change of a log's thread; 0 if it changed before the index was made.
    fn change_of(&self, log: u64) -> Result<u64> {
        let bytes = self.get(table::changed(log).as_bytes())?;
        Ok(bytes.and_then(|bytes| table::last_number(&bytes)).unwrap_or_default())
    }

    /// What is remembered of an id; that of a thread without a record of its own follows from the thread.
    fn id_record(&self, tenant: &TenantId, id: &ThreadId, stored: Option<&StoredThread>) -> Result<ThreadIdRecord> {
        let found: Option<ThreadIdRecord> = self.decoded("thread id", &table::id(tenant, id))?;
        let generation = stored.map_or(0, |stored| stored.thread.generation());
        Ok(found.unwrap_or_else(|| ThreadIdRecord { generation, ..ThreadIdRecord::default() }))
    }

    fn run_row(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRow>> {
        self.decoded("run", &table::run(tenant, id))
    }

    /// The row of a run whose thread was not deleted.
    fn live_run_row(&self, tenant: &TenantId, id: &RunId) -> Result<Option<RunRow>> {
        match self.run_row(tenant, id)? {
            Some(row) if self.get(table::log(row.log).as_bytes())?.is_some() => Ok(Some(row)),
            _ => Ok(None),
        }
    }

    fn node_row(&self, log: u64, seq: u64) -> Result<Option<NodeRow>> {
        self.unpacked("node", &table::node(log, seq), NodeRow::decode)
    }

    fn expect_node(&self, log: u64, seq: u64) -> Result<NodeRow> {
        self.node_row(log, seq)?.ok_or_else(|| damaged("node"))
    }

    fn entry_seq(&self, log: u64, id: &EntryId) -> Result<Option<u64>> {
        self.unpacked("entry", &table::entry(log, id), table::last_number)
    }

    fn marks_of(&self, log: u64, seq: u64) -> Result<EntryMarks> {
        Ok(self.decoded("marks", &table::marks(log, seq))?.unwrap_or_default())
    }

    fn state_value(&self, log: u64, key: &str) -> Result<Option<Json>> {
        self.decoded("state", &table::state(log, key))
    }

    fn input_rank(&self, log: u64, id: &EntryId) -> Result<Option<u64>> {
        self.unpacked("pending input", &table::input_rank(log, id), table::last_number)
    }

    fn expect_input(&self, log: u64, rank: u64) -> Result<InputRow> {
        let row = self.unpacked("pending input", &table::inputs(log).number(rank), InputRow::decode)?;
        row.ok_or_else(|| damaged("pending input"))
    }

    fn decision(&self, log: u64, run: &RunId, ticket: &str) -> Result<Option<DecisionRecord>> {
        self.decoded("decision", &table::decision(log, run, ticket))
    }

    fn scope_state(&self, tenant: &TenantId, scope: &Scope) -> Result<ScopeState> {
        Ok(self.decoded("scope", &table::scope(tenant, scope))?.unwrap_or_default())
    }

    fn event_row(&self, tenant: &TenantId, id: &EventId) -> Result<Option<EventRow>> {
        self.decoded("event", &table::event(tenant, id))
    }

    /// Whether an event is still in one of its scopes.
    fn is_in_scope(&self, tenant: &TenantId, row: &EventRow) -> Result<bool> {
        for (scope, seq) in &row.places {
            if *seq > self.scope_state(tenant, scope)?.floor {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn event_place(&self, tenant: &TenantId, scope: &Scope, seq: u64) -> Result<Option<PlaceRow>> {
        self.unpacked("place of an event", &table::event_places(tenant, scope).number(seq), PlaceRow::decode)
    }

    fn event_key_row(&self, tenant: &TenantId, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRow>> {
        self.decoded("event key", &table::event_key(tenant, writer, key))
    }

    /// The number of the log that holds the events of an id outside of its thread's.
    fn event_log(&self, tenant: &TenantId, id: &ThreadId) -> Result<Option<u64>> {
        self.unpacked("log of events", &table::event_log(tenant, id), table::last_number)
    }

    fn outbox_row(&self, tenant: &TenantId, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.decoded("outbox row", &table::outbox_row(tenant, id))
    }

    /// Where the payload of a row stands: in which log, and where there.
    fn outbox_payload(&self, tenant: &TenantId, id: &OutboxId) -> Result<Option<(u64, Span)>> {
        self.unpacked("outbox row", &table::outbox_payload(tenant, id), read_payload_place)
    }

    /// A document, by a key of [`table::document`].
    fn document_row(&self, key: &Key) -> Result<Option<DocumentRow>> {
        self.unpacked("document", key, DocumentRow::decode)
    }

    fn collection_row(&self, tenant: &TenantId, collection: &CollectionId) -> Result<Option<CollectionRow>> {
        self.unpacked("collection", &table::collection(tenant, collection), CollectionRow::decode)
    }

    /// How many bytes of the log of a collection are documents that exist.
    fn document_bytes(&self, log: u64) -> Result<u64> {
        Ok(self.unpacked("documents", &table::document_bytes(log), table::last_number)?.unwrap_or_default())
    }

    fn commit_span(&self, log: u64, key: &CommitKey) -> Result<Option<Span>> {
        self.unpacked("commit key", &table::commit_key(log, key), Span::decode)
    }
}

impl<G: Get> Rows for G {}

/// The nodes and marks of the log with this number.
pub(crate) struct StoredLog<'a, G>(pub(crate) &'a G, pub(crate) u64);

impl<G: Get> NodeSource for StoredLog<'_, G> {
    fn node(&self, seq: u64) -> Result<Node> {
        self.0.expect_node(self.1, seq).map(|row| row.node)
    }
}

impl<G: Get> MarkSource for StoredLog<'_, G> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.0.marks_of(self.1, seq)
    }
}
