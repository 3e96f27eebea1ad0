//! The lines of a thread's log and of the root log, and how they are read back.

mod fact;
mod mailbox;
mod outbox;

use std::collections::BTreeMap;

use store_core::{
    ClaimNumber, CommitKey, DispatchId, Entry, EntryId, EventKey, Json, JsonMap, OutboxId, Receipt, ResourceId, Run,
    RunId, Scope, TenantId, ThreadId, Timestamp, WriterId,
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter},
    commit::StateWrite,
    event::{EventKeyRecord, EventPlan, StoredEvent},
    log::Node,
    mailbox::DispatchBody,
    outbox::StoredOutboxRow,
    pending::{QueueState, QueueWrite, StoredInput},
};

pub(crate) use self::{
    fact::{Fact, Named},
    mailbox::{
        DispatchLine, InterruptLine, MailboxLine, decode_dispatch_payload, dispatch, dispatch_gone, dispatch_state,
        interrupt, mailbox, mailbox_lines, mailbox_made,
    },
    outbox::{OutboxLine, decode_payload, outbox, outbox_gone, outbox_state},
};

/// The header of a thread's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadHeader {
    pub(crate) tenant: TenantId,
    pub(crate) thread: ThreadId,
    pub(crate) generation: u64,
    pub(crate) at: Timestamp,
}

impl ThreadHeader {
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.field("log", &"thread".to_owned()).field("v", &1_u64);
        object.field("tenant", &self.tenant).field("thread", &self.thread);
        object.field("generation", &self.generation).field("at", &self.at);
        object.close();
        out
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        if fields.take::<String>("log")? != "thread" {
            return Err(DecodeError::new("is not the log of a thread").within("log"));
        }
        Ok(Self {
            tenant: fields.take("tenant")?,
            thread: fields.take("thread")?,
            generation: fields.take("generation")?,
            at: fields.take("at")?,
        })
    }
}

/// A thread's own fields: when it is made, and when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadLine {
    pub(crate) resource_id: Option<ResourceId>,
    pub(crate) parent_thread_id: Option<ThreadId>,
    pub(crate) title: Option<String>,
    pub(crate) metadata: JsonMap,
    pub(crate) created_at: Timestamp,
    pub(crate) revision: u64,
    /// Fields of a newer release.
    pub(crate) extra: Extra,
}

impl ThreadLine {
    pub(crate) fn of(thread: &store_core::Thread) -> Self {
        Self {
            resource_id: thread.resource_id.clone(),
            parent_thread_id: thread.parent_thread_id.clone(),
            title: thread.title.clone(),
            metadata: thread.metadata.clone(),
            created_at: thread.created_at,
            revision: thread.revision.number(),
            extra: thread.extra.clone(),
        }
    }
}

/// What a change of the thread's state leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateLine {
    pub(crate) write: StateWrite,
    pub(crate) revision: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

/// What a change of the thread's queue leaves behind. Inputs that are put stand in lines of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueLine {
    pub(crate) state: QueueState,
    pub(crate) removed: Vec<EntryId>,
    pub(crate) ranks: Vec<(EntryId, u64)>,
}

/// A line of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A thread is made, or its own fields change.
    Thread(ThreadLine),
    /// An entry, with what is derived with it.
    Entry(Box<(Entry, Node)>),
    /// A run as it is now.
    Run(Box<Run>),
    /// A change of the thread's state.
    State(StateLine),
    /// A pending input as it is now.
    Input(Box<StoredInput>),
    /// A change of the thread's queue.
    Queue(QueueLine),
    /// An event.
    Event(Box<StoredEvent>),
    /// The key of an append of events, behind these.
    EventKey(Box<EventKeyLine>),
    /// The oldest events of a scope go.
    Trim(Scope, u64),
    /// A row of the outbox, with its payload.
    Outbox(Box<OutboxLine>),
    /// What became of a row of the outbox.
    OutboxState(Box<StoredOutboxRow>),
    /// Rows of the outbox that were purged.
    OutboxGone(Vec<OutboxId>),
    /// The mailbox of the tenant is made.
    MailboxMade(u64),
    /// A dispatch as it was enqueued.
    Dispatch(Box<DispatchBody>),
    /// How a dispatch stands now.
    DispatchState(Box<DispatchLine>),
    /// A dispatch was purged.
    DispatchGone(DispatchId),
    /// An interrupt of a thread.
    Interrupt(Box<InterruptLine>),
    /// The record of a thread's mailbox.
    Mailbox(Box<MailboxLine>),
    /// A kind of a newer release: kept, and nothing is derived from it.
    Unknown,
}

impl Line {
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Thread(line) => thread(line),
            Self::Entry(both) => entry(&both.0.encode(), &both.1),
            Self::Run(line) => run(line),
            Self::State(line) => state(line),
            Self::Input(line) => input(line),
            Self::Queue(line) => queue(line),
            Self::Event(line) => event(line),
            Self::EventKey(line) => event_key(line),
            Self::Trim(scope, floor) => trim(scope, *floor),
            Self::Outbox(line) => outbox(line),
            Self::OutboxState(line) => outbox_state(line),
            Self::OutboxGone(ids) => outbox_gone(ids),
            Self::MailboxMade(claims) => mailbox_made(*claims),
            Self::Dispatch(line) => dispatch(line),
            Self::DispatchState(line) => dispatch_state(line),
            Self::DispatchGone(id) => dispatch_gone(id),
            Self::Interrupt(line) => interrupt(line),
            Self::Mailbox(line) => mailbox(line),
            Self::Unknown => "{}".to_owned(),
        }
    }
}

/// What is remembered of an append of events with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventKeyLine {
    pub(crate) writer: WriterId,
    pub(crate) key: EventKey,
    pub(crate) record: EventKeyRecord,
}

pub(crate) fn event(stored: &StoredEvent) -> String {
    tagged("event", |object| {
        object.maybe("thread_seq", stored.thread_seq.as_ref()).maybe("run_seq", stored.run_seq.as_ref());
        object.field("event", &stored.event);
    })
}

pub(crate) fn event_key(line: &EventKeyLine) -> String {
    tagged("event_key", |object| {
        object.field("writer", &line.writer).field("key", &line.key).field("record", &line.record);
    })
}

pub(crate) fn trim(scope: &Scope, floor: u64) -> String {
    tagged("trim", |object| {
        object.field("scope", scope).field("floor", &floor);
    })
}

/// The lines of an append of events.
pub(crate) fn event_lines(plan: EventPlan) -> Vec<Line> {
    let EventPlan { events, key, .. } = plan;
    let key = key.map(|(writer, key, record)| Line::EventKey(Box::new(EventKeyLine { writer, key, record })));
    events.into_iter().map(|stored| Line::Event(Box::new(stored))).chain(key).collect()
}

pub(crate) fn thread(line: &ThreadLine) -> String {
    tagged("thread", |object| {
        object
            .maybe("resource_id", line.resource_id.as_ref())
            .maybe("parent_thread_id", line.parent_thread_id.as_ref())
            .maybe("title", line.title.as_ref())
            .field("metadata", &line.metadata)
            .field("created_at", &line.created_at)
            .field("revision", &line.revision)
            .extra(&line.extra);
    })
}

/// `entry` is the JSON of the entry.
pub(crate) fn entry(entry: &str, node: &Node) -> String {
    let inner = entry.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    let mut out = String::with_capacity(entry.len() + 96);
    out.push_str(r#"{"t":"entry","#);
    out.push_str(inner);
    out.push_str(r#","ix":"#);
    node.write(&mut out);
    out.push('}');
    out
}

pub(crate) fn run(run: &Run) -> String {
    tagged("run", |object| {
        object.field("run", run);
    })
}

pub(crate) fn state(line: &StateLine) -> String {
    tagged("state", |object| {
        object.field("revision", &line.revision).field("keys", &line.keys).field("bytes", &line.bytes);
        if line.write.clear {
            object.field("clear", &true);
        }
        let set: BTreeMap<String, Json> =
            line.write.values.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        let removed = line.write.values.iter().filter(|(_, value)| value.is_none());
        object.field("set", &set).field("remove", &removed.map(|(key, _)| key.clone()).collect::<Vec<_>>());
    })
}

pub(crate) fn input(stored: &StoredInput) -> String {
    tagged("input", |object| {
        object.field("rank", &stored.rank).field("input", &stored.input);
    })
}

pub(crate) fn queue(line: &QueueLine) -> String {
    tagged("queue", |object| {
        object.field("queue", &line.state).field_unless_default("removed", &line.removed);
        if !line.ranks.is_empty() {
            let mut ranks = ObjectWriter::open(object.key("ranks"));
            for (id, rank) in &line.ranks {
                ranks.field(id.as_str(), rank);
            }
            ranks.close();
        }
    })
}

/// The lines of a change of a thread's queue; none if it does not change.
pub(crate) fn queue_lines(state: &QueueState, write: QueueWrite) -> Vec<Line> {
    if write.is_empty() {
        return Vec::new();
    }
    let QueueWrite { put, removed, ranks } = write;
    let inputs = put.into_iter().map(|stored| Line::Input(Box::new(stored)));
    inputs.chain([Line::Queue(QueueLine { state: state.clone(), removed, ranks })]).collect()
}

fn tagged(kind: &str, fields: impl FnOnce(&mut ObjectWriter<'_>)) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::open(&mut out);
    object.field("t", &kind.to_owned());
    fields(&mut object);
    object.close();
    out
}

impl Line {
    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let kind = fields.take::<String>("t")?;
        if let Some(line) = mailbox::decode(&kind, &mut fields)? {
            return Ok(line);
        }
        Ok(match kind.as_str() {
            "thread" => Self::Thread(ThreadLine {
                resource_id: fields.maybe("resource_id")?,
                parent_thread_id: fields.maybe("parent_thread_id")?,
                title: fields.maybe("title")?,
                metadata: fields.take("metadata")?,
                created_at: fields.take("created_at")?,
                revision: fields.take("revision")?,
                extra: fields.rest()?,
            }),
            "entry" => {
                let (entry, node) = decode_entry(raw)?;
                Self::Entry(Box::new((entry, node)))
            }
            "run" => Self::Run(Box::new(fields.take("run")?)),
            "state" => {
                let set: BTreeMap<String, Json> = fields.take("set")?;
                let removed: Vec<String> = fields.take("remove")?;
                let set = set.into_iter().map(|(key, value)| (key, Some(value)));
                let values = set.chain(removed.into_iter().map(|key| (key, None))).collect();
                let clear = fields.maybe("clear")?.unwrap_or_default();
                Self::State(StateLine {
                    write: StateWrite { clear, values },
                    revision: fields.take("revision")?,
                    keys: fields.take("keys")?,
                    bytes: fields.take("bytes")?,
                })
            }
            "input" => Self::Input(Box::new(read_input(fields)?)),
            "queue" => {
                let ranks = fields.maybe::<BTreeMap<String, u64>>("ranks")?.unwrap_or_default();
                let named = |(id, rank): (String, u64)| EntryId::new(id).map(|id| (id, rank)).ok();
                Self::Queue(QueueLine {
                    state: fields.take("queue")?,
                    removed: fields.maybe("removed")?.unwrap_or_default(),
                    ranks: ranks
                        .into_iter()
                        .map(named)
                        .collect::<Option<_>>()
                        .ok_or(DecodeError::new("contains an invalid entry id"))?,
                })
            }
            "event" => Self::Event(Box::new(read_event(fields)?)),
            "event_key" => Self::EventKey(Box::new(EventKeyLine {
                writer: fields.take("writer")?,
                key: fields.take("key")?,
                record: fields.take("record")?,
            })),
            "outbox" => {
                Self::Outbox(Box::new(OutboxLine { stored: fields.take("row")?, payload: fields.take("payload")? }))
            }
            "outbox_state" => Self::OutboxState(Box::new(fields.take("row")?)),
            "outbox_gone" => Self::OutboxGone(fields.take("rows")?),
            "trim" => Self::Trim(fields.take("scope")?, fields.take("floor")?),
            _ => Self::Unknown,
        })
    }
}

fn read_event(mut fields: Fields<'_>) -> Result<StoredEvent, DecodeError> {
    let (thread_seq, run_seq) = (fields.maybe("thread_seq")?, fields.maybe("run_seq")?);
    Ok(StoredEvent::new(fields.take("event")?, thread_seq, run_seq))
}

/// The event of a line.
pub(crate) fn decode_event(raw: &str) -> Result<StoredEvent, DecodeError> {
    read_event(Fields::parse(raw)?)
}

fn read_input(mut fields: Fields<'_>) -> Result<StoredInput, DecodeError> {
    Ok(StoredInput::new(fields.take("input")?, fields.take("rank")?))
}

/// The pending input of a line.
pub(crate) fn decode_input(raw: &str) -> Result<StoredInput, DecodeError> {
    read_input(Fields::parse(raw)?)
}

/// The entry of a line, without what stands there for the log alone.
pub(crate) fn decode_entry(raw: &str) -> Result<(Entry, Node), DecodeError> {
    let mut fields = Fields::parse(raw)?;
    fields.take_raw("t");
    let node = fields.take("ix")?;
    let mut text = String::with_capacity(raw.len());
    let mut object = ObjectWriter::open(&mut text);
    for (name, value) in fields.into_pairs() {
        object.key(&name).push_str(value);
    }
    object.close();
    Ok((Entry::read(&text)?, node))
}

/// The run of a line.
pub(crate) fn decode_run(raw: &str) -> Result<Run, DecodeError> {
    Fields::parse(raw)?.take("run")
}

/// What a commit line says of its group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CommitLine {
    /// Store time.
    pub(crate) time: Timestamp,
    /// The thread's `updated_at` after the group.
    pub(crate) updated_at: Timestamp,
    /// The highest claim number after the group.
    pub(crate) fence: Option<ClaimNumber>,
    /// The run that the commit named.
    pub(crate) run: Option<RunId>,
    /// Key, digest and receipt of a commit with a key.
    pub(crate) key: Option<(CommitKey, String, Receipt)>,
}

impl CommitLine {
    /// The fields as an object.
    pub(crate) fn encode(&self) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::open(&mut out);
        object.field("time", &self.time).field("updated_at", &self.updated_at);
        object.maybe("fence", self.fence.as_ref()).maybe("run", self.run.as_ref());
        if let Some((key, digest, receipt)) = &self.key {
            object.field("key", key).field("digest", digest).field("receipt", receipt);
        }
        object.close();
        out
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let key = match fields.maybe("key")? {
            Some(key) => Some((key, fields.take("digest")?, fields.take("receipt")?)),
            None => None,
        };
        Ok(Self {
            time: fields.take("time")?,
            updated_at: fields.take("updated_at")?,
            fence: fields.maybe("fence")?,
            run: fields.maybe("run")?,
            key,
        })
    }
}
