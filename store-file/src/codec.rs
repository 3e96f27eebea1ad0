//! The values of the index, and reading them whatever they are read through.

use store_core::{
    EntryId, EventId, EventKey, Json, OutboxId, Result, Run, RunId, RunPhase, Scope, TenantId, ThreadId, Timestamp,
    WriterId,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    event::{EventKeyRecord, ScopeState},
    log::{EntryMarks, Node},
    outbox::StoredOutboxRow,
    pending::DecisionRecord,
    thread::{StoredThread, ThreadIdRecord},
};

use crate::{
    error,
    index::{Index, Key, Snapshot},
    log::{Position, Span},
    table,
};

/// What is known of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    /// Up to where the index covers the log.
    pub(crate) end: Position,
}

impl Codec for LogRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("tenant", &self.tenant).field("thread", &self.thread).field("generation", &self.generation);
        object.field("end", &self.end.offset).field("crc", &self.end.crc);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            tenant: fields.take("tenant")?,
            thread: fields.take("thread")?,
            generation: fields.take("generation")?,
            end: Position { offset: fields.take("end")?, crc: fields.take("crc")? },
        })
    }
}

/// A thread and the number of its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    pub(crate) log: u64,
    pub(crate) stored: StoredThread,
}

impl Codec for ThreadRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("stored", &self.stored);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { log: fields.take("log")?, stored: fields.take("stored")? })
    }
}

/// Where a run stands, and what its places in lists are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    pub(crate) thread: ThreadId,
    pub(crate) status: RunPhase,
    pub(crate) parent_run: Option<RunId>,
    pub(crate) created_at: Timestamp,
}

impl RunRow {
    pub(crate) fn of(log: u64, span: Span, run: &Run) -> Self {
        Self {
            log,
            span,
            thread: run.thread.clone(),
            status: run.status.phase(),
            parent_run: run.parent_run.clone(),
            created_at: run.created_at,
        }
    }
}

impl Codec for RunRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log);
        object.field("span", &wide(self.span));
        object.field("thread", &self.thread).field("status", &self.status);
        object.maybe("parent_run", self.parent_run.as_ref()).field("created_at", &self.created_at);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let log = fields.take("log")?;
        Ok(Self {
            log,
            span: narrow(&fields.take::<Vec<u64>>("span")?)?,
            thread: fields.take("thread")?,
            status: fields.take("status")?,
            parent_run: fields.maybe("parent_run")?,
            created_at: fields.take("created_at")?,
        })
    }
}

/// Where an entry stands, its id and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) span: Span,
    pub(crate) id: EntryId,
    pub(crate) node: Node,
}

impl NodeRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.span.encode().to_vec();
        let id = self.id.as_str().as_bytes();
        // An id has at most 256 bytes, and at least one.
        out.push(u8::try_from(id.len() - 1).unwrap_or(u8::MAX));
        out.extend_from_slice(id);
        out.extend_from_slice(self.node.encode().as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (span, rest) = bytes.split_at_checked(Span::BYTES)?;
        let (len, rest) = rest.split_first()?;
        let (id, node) = rest.split_at_checked(usize::from(*len) + 1)?;
        Some(Self {
            span: Span::decode(span)?,
            id: EntryId::new(std::str::from_utf8(id).ok()?).ok()?,
            node: Node::read(std::str::from_utf8(node).ok()?).ok()?,
        })
    }
}

/// Where a pending input stands, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputRow {
    pub(crate) span: Span,
    pub(crate) id: EntryId,
}

impl InputRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.span.encode(), self.id.as_str().as_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (span, id) = bytes.split_at_checked(Span::BYTES)?;
        Some(Self { span: Span::decode(span)?, id: EntryId::new(std::str::from_utf8(id).ok()?).ok()? })
    }
}

/// Where an event stands: in its log, and in its scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    /// Its scopes, with its sequence number in each.
    pub(crate) places: Vec<(Scope, u64)>,
    /// The key that it was appended with.
    pub(crate) key: Option<(WriterId, EventKey)>,
}

impl Codec for EventRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("span", &wide(self.span));
        for (scope, seq) in &self.places {
            let (name, at) = match scope {
                Scope::Thread(thread) => (("thread", thread.to_string()), "thread_seq"),
                Scope::Run(run) => (("run", run.to_string()), "run_seq"),
                Scope::Topic(topic) => (("topic", topic.to_string()), "topic_seq"),
            };
            object.field(name.0, &name.1).field(at, seq);
        }
        if let Some((writer, key)) = &self.key {
            object.field("writer", writer).field("key", key);
        }
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let mut places = Vec::new();
        if let Some(thread) = fields.maybe("thread")? {
            places.push((Scope::Thread(thread), fields.take("thread_seq")?));
        }
        if let Some(run) = fields.maybe("run")? {
            places.push((Scope::Run(run), fields.take("run_seq")?));
        }
        let key = match fields.maybe("writer")? {
            Some(writer) => Some((writer, fields.take("key")?)),
            None => None,
        };
        Ok(Self { log: fields.take("log")?, span: narrow(&fields.take::<Vec<u64>>("span")?)?, places, key })
    }
}

/// What a scope has at a place: which event, and where that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlaceRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    pub(crate) id: EventId,
}

impl PlaceRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.log.to_be_bytes() as &[u8], &self.span.encode(), self.id.as_str().as_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (log, rest) = bytes.split_first_chunk::<8>()?;
        let (span, id) = rest.split_at_checked(Span::BYTES)?;
        let id = EventId::new(std::str::from_utf8(id).ok()?).ok()?;
        Some(Self { log: u64::from_be_bytes(*log), span: Span::decode(span)?, id })
    }
}

/// What is remembered of a key of events, and in which log that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventKeyRow {
    pub(crate) log: u64,
    pub(crate) record: EventKeyRecord,
}

impl Codec for EventKeyRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("record", &self.record);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { log: fields.take("log")?, record: fields.take("record")? })
    }
}

/// Where a payload stands.
pub(crate) fn payload_place(log: u64, span: Span) -> Vec<u8> {
    [&log.to_be_bytes() as &[u8], &span.encode()].concat()
}

fn read_payload_place(bytes: &[u8]) -> Option<(u64, Span)> {
    let (log, span) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*log), Span::decode(span)?))
}

/// A span as numbers.
pub(crate) fn wide(span: Span) -> Vec<u64> {
    vec![span.offset, u64::from(span.len), u64::from(span.crc)]
}

pub(crate) fn narrow(wide: &[u64]) -> std::result::Result<Span, DecodeError> {
    let error = || DecodeError::new("is not a span").within("span");
    let &[offset, len, crc] = wide else { return Err(error()) };
    let narrow = |number: u64| u32::try_from(number).map_err(|_| error());
    Ok(Span { offset, len: narrow(len)?, crc: narrow(crc)? })
}

/// Something that values of the index are read through.
pub(crate) trait Get {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// The value of a key that is JSON, decoded.
    fn decoded<T: Row>(&self, what: &'static str, key: &Key) -> Result<Option<T>> {
        self.get(key.as_bytes())?.map(|bytes| read(what, &bytes)).transpose()
    }
}

/// A value that is JSON.
pub(crate) trait Row: Codec + Clone + Send + 'static {}

impl<T: Codec + Clone + Send + 'static> Row for T {}

impl Get for Index {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Self::get(self, key)
    }
}

impl Get for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Self::get(self, key)
    }
}

/// A value that does not read as what it should be: the index is damaged, and can be rebuilt.
pub(crate) fn damaged(what: &'static str) -> store_core::Error {
    error::corrupt(format!("index, {what}"), None)
}

/// Reads a value that is JSON.
pub(crate) fn read<T: Codec>(what: &'static str, bytes: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(bytes).map_err(|e| damaged(what).with_source(e))?;
    T::read(text).map_err(|e| damaged(what).with_source(e))
}

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
        let bytes = self.get(table::node(log, seq).as_bytes())?;
        bytes.map(|bytes| NodeRow::decode(&bytes).ok_or_else(|| damaged("node"))).transpose()
    }

    fn expect_node(&self, log: u64, seq: u64) -> Result<NodeRow> {
        self.node_row(log, seq)?.ok_or_else(|| damaged("node"))
    }

    fn entry_seq(&self, log: u64, id: &EntryId) -> Result<Option<u64>> {
        let bytes = self.get(table::entry(log, id).as_bytes())?;
        bytes.map(|bytes| table::last_number(&bytes).ok_or_else(|| damaged("entry"))).transpose()
    }

    fn marks_of(&self, log: u64, seq: u64) -> Result<EntryMarks> {
        Ok(self.decoded("marks", &table::marks(log, seq))?.unwrap_or_default())
    }

    fn state_value(&self, log: u64, key: &str) -> Result<Option<Json>> {
        self.decoded("state", &table::state(log, key))
    }

    fn input_rank(&self, log: u64, id: &EntryId) -> Result<Option<u64>> {
        let bytes = self.get(table::input_rank(log, id).as_bytes())?;
        bytes.map(|bytes| table::last_number(&bytes).ok_or_else(|| damaged("pending input"))).transpose()
    }

    fn expect_input(&self, log: u64, rank: u64) -> Result<InputRow> {
        let bytes = self.get(table::inputs(log).number(rank).as_bytes())?;
        bytes.and_then(|bytes| InputRow::decode(&bytes)).ok_or_else(|| damaged("pending input"))
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
        let bytes = self.get(table::event_places(tenant, scope).number(seq).as_bytes())?;
        bytes.map(|bytes| PlaceRow::decode(&bytes).ok_or_else(|| damaged("place of an event"))).transpose()
    }

    fn event_key_row(&self, tenant: &TenantId, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRow>> {
        self.decoded("event key", &table::event_key(tenant, writer, key))
    }

    /// The number of the log that holds the events of an id outside of its thread's.
    fn event_log(&self, tenant: &TenantId, id: &ThreadId) -> Result<Option<u64>> {
        let bytes = self.get(table::event_log(tenant, id).as_bytes())?;
        bytes.map(|bytes| table::last_number(&bytes).ok_or_else(|| damaged("log of events"))).transpose()
    }

    fn outbox_row(&self, tenant: &TenantId, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.decoded("outbox row", &table::outbox_row(tenant, id))
    }

    /// Where the payload of a row stands: in which log, and where there.
    fn outbox_payload(&self, tenant: &TenantId, id: &OutboxId) -> Result<Option<(u64, Span)>> {
        let bytes = self.get(table::outbox_payload(tenant, id).as_bytes())?;
        bytes.map(|bytes| read_payload_place(&bytes).ok_or_else(|| damaged("outbox row"))).transpose()
    }

    fn commit_span(&self, log: u64, key: &store_core::CommitKey) -> Result<Option<Span>> {
        let bytes = self.get(table::commit_key(log, key).as_bytes())?;
        bytes.map(|bytes| Span::decode(&bytes).ok_or_else(|| damaged("commit key"))).transpose()
    }
}

impl<G: Get> Rows for G {}
