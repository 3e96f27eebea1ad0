//! The lines of a thread's log and of the root log, and how they are read back.

mod commit;
mod document;
mod entry;
mod event;
mod fact;
mod mailbox;
mod outbox;
mod pending;
mod restored;
mod thread;

use store_core::{
    DispatchId, Document, DocumentRef, Entry, OutboxId, Run, Scope,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    event::{ScopeState, StoredEvent},
    log::Node,
    mailbox::DispatchBody,
    outbox::StoredOutboxRow,
    pending::StoredInput,
};

pub(crate) use self::{
    commit::CommitLine,
    document::{CollectionLine, DamagedDocumentLine, decode_document},
    entry::{decode_entry, decode_run, entry},
    event::{EventKeyLine, decode_event, event_lines},
    fact::{Fact, Named},
    mailbox::{DispatchLine, InterruptLine, MailboxLine, decode_dispatch_payload, mailbox_lines},
    outbox::{OutboxLine, decode_payload},
    pending::{QueueLine, decode_input, queue_lines},
    restored::{DecisionLine, RestoredLine},
    thread::{StateLine, ThreadHeader, ThreadLine},
};

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
    /// The key of an append of events, after the events.
    EventKey(Box<EventKeyLine>),
    /// The oldest events of a scope go.
    Trim(Scope, u64),
    /// A scope has given so many numbers. The events stand in other logs.
    Count(Scope, u64),
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
    /// The log of a collection begins.
    Collection(CollectionLine),
    /// A document as it was put.
    Document(Box<Document>),
    /// A document whose line was damaged when its log was rewritten.
    DamagedDocument(Box<DamagedDocumentLine>),
    /// A document was deleted.
    DocumentGone(Box<DocumentRef>),
    /// What a thread has besides its own fields and its entries.
    Restored(Box<RestoredLine>),
    /// A decision whose input is not in the log.
    Decision(Box<DecisionLine>),
    /// How a scope of events stands.
    Scope(Box<(Scope, ScopeState)>),
    /// A kind of a newer release: kept, and nothing is derived from it.
    Unknown,
}

impl Line {
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Thread(line) => line.encode(),
            Self::Entry(both) => entry(&both.0.encode(), &both.1),
            Self::Run(line) => with_field("run", "run", line),
            Self::State(line) => line.encode(),
            Self::Input(line) => pending::input(line),
            Self::Queue(line) => line.encode(),
            Self::Event(line) => event::event(line),
            Self::EventKey(line) => event::event_key(line),
            Self::Trim(scope, floor) => event::trim(scope, *floor),
            Self::Count(scope, count) => event::count(scope, *count),
            Self::Outbox(line) => outbox::outbox(line),
            Self::OutboxState(line) => with_field("outbox_state", "row", line),
            Self::OutboxGone(ids) => with_field("outbox_gone", "rows", ids),
            Self::MailboxMade(claims) => with_field("mailbox_made", "claims", claims),
            Self::Dispatch(line) => with_field("dispatch", "dispatch", line),
            Self::DispatchState(line) => mailbox::dispatch_state(line),
            Self::DispatchGone(id) => with_field("dispatch_gone", "id", id),
            Self::Interrupt(line) => mailbox::interrupt(line),
            Self::Mailbox(line) => mailbox::mailbox(line),
            Self::Collection(line) => line.encode(),
            Self::Document(line) => with_field("document", "document", line),
            Self::DamagedDocument(line) => line.encode(),
            Self::DocumentGone(line) => document::document_gone(line),
            Self::Restored(line) => line.encode(),
            Self::Decision(line) => line.encode(),
            Self::Scope(line) => restored::scope(&line.0, &line.1),
            Self::Unknown => "{}".to_owned(),
        }
    }

    pub(crate) fn decode(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let kind = fields.take::<String>("t")?;
        if let Some(line) = mailbox::decode(&kind, &mut fields)? {
            return Ok(line);
        }
        Ok(match kind.as_str() {
            "thread" => Self::Thread(ThreadLine::read(fields)?),
            "entry" => Self::Entry(Box::new(decode_entry(raw)?)),
            "run" => Self::Run(Box::new(fields.take("run")?)),
            "state" => Self::State(StateLine::read(fields)?),
            "input" => Self::Input(Box::new(pending::read_input(fields)?)),
            "queue" => Self::Queue(QueueLine::read(fields)?),
            "event" => Self::Event(Box::new(event::read_event(fields)?)),
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
            "collection" => Self::Collection(CollectionLine {
                collection: fields.take("collection")?,
                rewrites: fields.take("rewrites")?,
            }),
            "document" => Self::Document(Box::new(fields.take("document")?)),
            "document_damaged" => Self::DamagedDocument(Box::new(DamagedDocumentLine::read(fields)?)),
            "document_gone" => Self::DocumentGone(Box::new(fields.take("document")?)),
            "restored" => Self::Restored(Box::new(RestoredLine::read(fields)?)),
            "decision" => Self::Decision(Box::new(DecisionLine::read(fields)?)),
            "scope" => Self::Scope(Box::new((fields.take("scope")?, fields.take("state")?))),
            "trim" => Self::Trim(fields.take("scope")?, fields.take("floor")?),
            "count" => Self::Count(fields.take("scope")?, fields.take("count")?),
            _ => Self::Unknown,
        })
    }
}

/// Writes a line of a kind: an object whose first field is the kind.
fn tagged(kind: &str, fields: impl FnOnce(&mut ObjectWriter<'_>)) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::open(&mut out);
    object.field("t", &kind.to_owned());
    fields(&mut object);
    object.close();
    out
}

/// Writes a line of a kind with one more field.
fn with_field(kind: &str, name: &str, value: &impl Codec) -> String {
    tagged(kind, |object| {
        object.field(name, value);
    })
}
