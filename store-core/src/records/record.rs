//! Records as stores keep them.

use super::{RecordKey, RecordList};
use crate::{
    codec::{Codec, ObjectWriter},
    commit::CommitKeyRecord,
    document::Document,
    event::{EventKeyRecord, Scope, ScopeState, StoredEvent},
    id::{EventKey, RunId, ThreadId, WriterId},
    json::Json,
    log::{Entry, EntryMarks, Node},
    mailbox::{StoredDispatch, StoredInterrupt, StoredMailboxThread},
    outbox::StoredOutboxRow,
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{StoredThread, ThreadIdRecord},
    version::Version,
};

/// Numbers that a store has given and must not give again. A restore raises its own numbers to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NumbersGiven {
    /// The largest revision of a document (DO-3).
    pub document_revision: u64,
    /// The incarnation of the tenant's claim numbers (MB-25).
    pub claim_incarnation: u64,
}

impl NumbersGiven {
    /// Returns the larger of each two numbers.
    #[must_use]
    pub fn max_of(self, other: Self) -> Self {
        Self {
            document_revision: self.document_revision.max(other.document_revision),
            claim_incarnation: self.claim_incarnation.max(other.claim_incarnation),
        }
    }
}

/// What a store keeps about the id of a thread, with the thread if it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadRecord {
    /// The id.
    pub id: ThreadId,
    /// What is kept about the id.
    pub id_record: ThreadIdRecord,
    /// The thread.
    pub thread: Option<StoredThread>,
}

impl ThreadRecord {
    /// Returns the thread with versions of this incarnation of a store (FI-12): that of the store that restores it.
    #[must_use]
    pub fn thread_in(&self, incarnation: u64) -> Option<StoredThread> {
        let mut stored = self.thread.clone()?;
        stored.thread.version = of_incarnation(stored.thread.version, incarnation);
        stored.thread.revision = of_incarnation(stored.thread.revision, incarnation);
        Some(stored)
    }
}

/// A record as a store keeps it, with everything that the store knows about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredRecord {
    /// The numbers that were given.
    Numbers(NumbersGiven),
    /// The id of a thread. The thread already has the counters that its log leads to, although its entries come later.
    Thread(Box<ThreadRecord>),
    /// An entry with what is derived from the log for it: its node, and the marks that it has at the end of the log.
    Entry {
        /// The thread.
        thread: ThreadId,
        /// The entry.
        entry: Box<Entry>,
        /// The node.
        node: Box<Node>,
        /// The marks.
        marks: EntryMarks,
    },
    /// A run.
    Run(Box<Run>),
    /// A value of the state of a thread.
    State {
        /// The thread.
        thread: ThreadId,
        /// The name.
        name: String,
        /// The value.
        value: Json,
    },
    /// A pending input.
    Input(Box<StoredInput>),
    /// What is kept about a decision, also after its input was consumed.
    Decision {
        /// The thread.
        thread: ThreadId,
        /// The run.
        run: RunId,
        /// The ticket.
        ticket: String,
        /// The record.
        record: Box<DecisionRecord>,
    },
    /// The key of a commit.
    CommitKey {
        /// The thread.
        thread: ThreadId,
        /// The record.
        record: Box<CommitKeyRecord>,
    },
    /// A document.
    Document(Box<Document>),
    /// A scope of events.
    Scope {
        /// The scope.
        scope: Scope,
        /// Its state.
        state: ScopeState,
    },
    /// An event, with its number in each of its scopes.
    Event(Box<StoredEvent>),
    /// The key of an append of events.
    EventKey {
        /// The writer.
        writer: WriterId,
        /// The key.
        key: EventKey,
        /// The record.
        record: Box<EventKeyRecord>,
    },
    /// A row of the outbox, with its payload.
    Outbox(Box<(StoredOutboxRow, Json)>),
    /// The mailbox of a thread.
    Mailbox {
        /// The thread.
        thread: ThreadId,
        /// The record.
        record: Box<StoredMailboxThread>,
    },
    /// An interrupt of a thread.
    Interrupt {
        /// The thread.
        thread: ThreadId,
        /// The interrupt.
        interrupt: Box<StoredInterrupt>,
    },
    /// A dispatch.
    Dispatch(Box<StoredDispatch>),
}

impl StoredRecord {
    /// Returns the list of the record.
    #[must_use]
    pub fn list(&self) -> RecordList {
        match self {
            Self::Numbers(_) => RecordList::Numbers,
            Self::Thread(_) => RecordList::Threads,
            Self::Entry { .. } => RecordList::Entries,
            Self::Run(_) => RecordList::Runs,
            Self::State { .. } => RecordList::State,
            Self::Input(_) => RecordList::Inputs,
            Self::Decision { .. } => RecordList::Decisions,
            Self::CommitKey { .. } => RecordList::CommitKeys,
            Self::Document(document) => match document.scope.thread() {
                Some(_) => RecordList::ThreadDocuments,
                None => RecordList::Documents,
            },
            Self::Scope { .. } => RecordList::Scopes,
            Self::Event(_) => RecordList::Events,
            Self::EventKey { .. } => RecordList::EventKeys,
            Self::Outbox(_) => RecordList::Outbox,
            Self::Mailbox { .. } => RecordList::Mailboxes,
            Self::Interrupt { .. } => RecordList::Interrupts,
            Self::Dispatch(_) => RecordList::Dispatches,
        }
    }

    /// Returns the thread that the record belongs to, if it is in a list of records of threads: an entry, a run, a
    /// value of a state, an input, a decision, a commit key, a document of a thread.
    #[must_use]
    pub fn thread(&self) -> Option<&ThreadId> {
        match self {
            Self::Entry { thread, .. }
            | Self::State { thread, .. }
            | Self::Decision { thread, .. }
            | Self::CommitKey { thread, .. } => Some(thread),
            Self::Run(run) => Some(&run.thread),
            Self::Input(stored) => Some(&stored.input.thread),
            Self::Document(document) => document.scope.thread(),
            _ => None,
        }
    }

    /// Returns the thread whose mailbox the record belongs to, if it is a record of a mailbox.
    #[must_use]
    pub fn mailbox_thread(&self) -> Option<&ThreadId> {
        match self {
            Self::Mailbox { thread, .. } | Self::Interrupt { thread, .. } => Some(thread),
            Self::Dispatch(stored) => Some(&stored.body.thread),
            _ => None,
        }
    }

    /// Returns the key of the record in its list.
    #[must_use]
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Numbers(_) => RecordKey::default(),
            Self::Thread(record) => RecordKey::of(record.id.as_str()),
            Self::Entry { thread, entry, .. } => RecordKey::of(thread.as_str()).and(entry.seq),
            Self::Run(run) => RecordKey::of(run.id.as_str()),
            Self::State { thread, name, .. } => RecordKey::of(thread.as_str()).and(name.as_str()),
            Self::Input(stored) => RecordKey::of(stored.input.thread.as_str()).and(stored.rank),
            Self::Decision { thread, run, ticket, .. } => {
                RecordKey::of(thread.as_str()).and(run.as_str()).and(ticket.as_str())
            }
            Self::CommitKey { thread, record } => RecordKey::of(thread.as_str()).and(record.key.as_str()),
            Self::Document(document) => {
                let (collection, encoded) = (document.key.collection().as_str(), document.key.encoded());
                match document.scope.thread() {
                    Some(thread) => RecordKey::of(thread.as_str()).and(collection).and(encoded),
                    None => RecordKey::of(collection).and(encoded),
                }
            }
            Self::Scope { scope, .. } => scope_key(scope),
            Self::Event(stored) => RecordKey::of(stored.event.id.as_str()),
            Self::EventKey { writer, key, .. } => RecordKey::of(writer.as_str()).and(key.as_str()),
            Self::Outbox(row) => RecordKey::of(row.0.id.as_str()),
            Self::Mailbox { thread, .. } => RecordKey::of(thread.as_str()),
            Self::Interrupt { thread, interrupt } => RecordKey::of(thread.as_str()).and(interrupt.epoch),
            Self::Dispatch(stored) => RecordKey::of(stored.body.id.as_str()),
        }
    }

    /// Returns the text that the digest and the comparison use: the same for equal records, whatever store keeps them.
    ///
    /// It has everything but what differs between two stores with the same data: the numbers that a store has given
    /// beyond its records, the incarnation of the store, and what is derived from the log (nodes and marks), which a
    /// check of the store derives again (VF-1).
    #[must_use]
    pub fn canonical(&self) -> String {
        match self {
            Self::Numbers(_) => String::new(),
            Self::Thread(record) => canonical_thread(record),
            Self::Entry { entry, .. } => entry.encode(),
            Self::Run(run) => run.encode(),
            Self::State { value, .. } => value.encode(),
            Self::Input(stored) => stored.input.encode(),
            Self::Decision { record, .. } => record.encode(),
            Self::CommitKey { record, .. } => {
                let mut record = CommitKeyRecord::clone(record);
                record.receipt.version = of_incarnation(record.receipt.version, 0);
                record.encode()
            }
            Self::Document(document) => document.encode(),
            Self::Scope { state, .. } => state.encode(),
            Self::Event(stored) => canonical_event(stored),
            Self::EventKey { record, .. } => record.encode(),
            Self::Outbox(row) => join(&[("row", row.0.encode()), ("payload", row.1.encode())]),
            Self::Mailbox { record, .. } => record.encode(),
            Self::Interrupt { interrupt, .. } => interrupt.encode(),
            Self::Dispatch(stored) => join(&[("body", stored.body.encode()), ("state", stored.state.encode())]),
        }
    }
}

/// Returns the key of a scope in its list.
#[must_use]
pub(crate) fn scope_key(scope: &Scope) -> RecordKey {
    match scope {
        Scope::Run(id) => RecordKey::of("run").and(id.as_str()),
        Scope::Thread(id) => RecordKey::of("thread").and(id.as_str()),
        Scope::Topic(id) => RecordKey::of("topic").and(id.as_str()),
    }
}

const fn of_incarnation(version: Version, incarnation: u64) -> Version {
    Version::new(version.number(), version.generation(), incarnation)
}

fn canonical_thread(record: &ThreadRecord) -> String {
    let mut parts = vec![("id", record.id_record.encode())];
    parts.extend(record.thread_in(0).map(|stored| ("thread", stored.encode())));
    join(&parts)
}

fn canonical_event(stored: &StoredEvent) -> String {
    let numbers = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let topics: Vec<String> = stored.topic_seqs.iter().map(u64::to_string).collect();
    let seqs = format!(r#""{} {} {}""#, numbers(stored.thread_seq), numbers(stored.run_seq), topics.join(" "));
    join(&[("numbers", seqs), ("event", stored.event.encode())])
}

fn join(parts: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::open(&mut out);
    for (name, text) in parts {
        object.key(name).push_str(text);
    }
    object.close();
    out
}
