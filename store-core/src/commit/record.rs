//! Commits and their receipts.

use crate::{
    claim::Fence,
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    document::DocumentChange,
    event::{AppendEvents, EventRef},
    id::{CommitKey, EntryId, OutboxId, ThreadId},
    json::Json,
    log::{JsonMap, NewEntry},
    mailbox::Settlement,
    outbox::NewOutboxRow,
    pending::InputRef,
    run::{RunChange, RunStatus},
    thread::ThreadFields,
    time::Timestamp,
    version::{Expect, Version},
};

/// One atomic write to a thread: all of it takes effect, or nothing (CM-1).
///
/// ```
/// use store_core::{Commit, Expect, Message, NewEntry, ThreadId};
///
/// let commit = Commit::new(ThreadId::new("t-1")?)
///     .expecting(Expect::Absent)
///     .entry(NewEntry::new(Message::user("hello")))
///     .entry(NewEntry::new(Message::assistant("hi")));
/// assert_eq!(commit.entries.len(), 2);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// The thread. It is created if it does not exist and `expect` allows that.
    pub thread: ThreadId,
    /// The fields of a thread that this commit creates. Ignored if the thread exists.
    pub create: Option<ThreadFields>,
    /// The version that the thread must have.
    pub expect: Expect,
    /// The commit key. It belongs to the thread.
    ///
    /// A commit with the key and content of an earlier commit returns the first receipt (CM-10).
    pub key: Option<CommitKey>,
    /// The claim under which the commit is written.
    pub fence: Option<Fence>,
    /// How that claim is settled, in the same atomic step (CM-33).
    pub settle: Option<Settlement>,
    /// The time that the caller states for the commit, for imports and copies. It must not be later than store time
    /// (CM-41).
    pub at: Option<Timestamp>,
    /// New entries for the log.
    pub entries: Vec<NewEntry>,
    /// A new run, or a change of one.
    pub run: Option<RunChange>,
    /// Changes of the thread's state.
    pub state: Option<StateChange>,
    /// Pending inputs that become entries, in this order and before those of `entries` (CM-27).
    pub consume: Vec<InputRef>,
    /// Changes of documents, of the tenant and of this thread (DO-9).
    pub documents: Vec<DocumentChange>,
    /// Events to append, in the scope of the thread, of runs of the thread, or of topics (CM-21).
    pub events: Option<AppendEvents>,
    /// New rows of the outbox, to be delivered to other systems.
    pub outbox: Vec<NewOutboxRow>,
}

impl Commit {
    /// Creates an empty commit to `thread`.
    #[must_use]
    pub const fn new(thread: ThreadId) -> Self {
        Self {
            thread,
            create: None,
            expect: Expect::Any,
            key: None,
            fence: None,
            settle: None,
            at: None,
            entries: Vec::new(),
            run: None,
            state: None,
            consume: Vec::new(),
            documents: Vec::new(),
            events: None,
            outbox: Vec::new(),
        }
    }

    /// Sets the guard.
    #[must_use]
    pub const fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets the commit key.
    #[must_use]
    pub fn with_key(mut self, key: CommitKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Adds an entry.
    #[must_use]
    pub fn entry(mut self, entry: NewEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds entries.
    #[must_use]
    pub fn entries(mut self, entries: impl IntoIterator<Item = NewEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// Sets the change of a run.
    #[must_use]
    pub fn with_run(mut self, run: RunChange) -> Self {
        self.run = Some(run);
        self
    }

    /// Sets the changes of the thread's state.
    #[must_use]
    pub fn with_state(mut self, state: StateChange) -> Self {
        self.state = Some(state);
        self
    }

    /// Adds pending inputs to consume.
    #[must_use]
    pub fn consuming(mut self, inputs: impl IntoIterator<Item = InputRef>) -> Self {
        self.consume.extend(inputs);
        self
    }

    /// Adds changes of documents.
    #[must_use]
    pub fn with_documents(mut self, changes: impl IntoIterator<Item = DocumentChange>) -> Self {
        self.documents.extend(changes);
        self
    }

    /// Sets the events.
    #[must_use]
    pub fn with_events(mut self, events: AppendEvents) -> Self {
        self.events = Some(events);
        self
    }

    /// Adds rows for the outbox.
    #[must_use]
    pub fn with_outbox(mut self, rows: impl IntoIterator<Item = NewOutboxRow>) -> Self {
        self.outbox.extend(rows);
        self
    }

    /// Sets the fields with which the thread is created if it does not exist.
    #[must_use]
    pub fn creating(mut self, fields: ThreadFields) -> Self {
        self.create = Some(fields);
        self
    }

    /// Sets the claim under which the commit is written.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// Sets how the claim of the commit is settled.
    #[must_use]
    pub fn settling(mut self, settlement: Settlement) -> Self {
        self.settle = Some(settlement);
        self
    }

    /// Sets the time that the caller states for the commit.
    #[must_use]
    pub const fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }
}

/// Changes of a thread's state, key by key (CM-24).
///
/// A key must not be named twice (CM-25).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StateChange {
    /// The revision that the state must have (CM-40).
    pub expect_revision: Option<u64>,
    /// Whether all keys are removed before the changes are applied.
    pub clear: bool,
    /// The keys and their operations, in order.
    pub changes: Vec<(String, StateOp)>,
}

impl StateChange {
    /// Creates a change without operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation on a key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, op: StateOp) -> Self {
        self.changes.push((key.into(), op));
        self
    }

    /// Adds an operation that sets a key.
    #[must_use]
    pub fn set(self, key: impl Into<String>, value: Json) -> Self {
        self.with(key, StateOp::Set(value))
    }

    /// Adds an operation that removes a key.
    #[must_use]
    pub fn remove(self, key: impl Into<String>) -> Self {
        self.with(key, StateOp::Remove)
    }

    /// Returns whether this changes nothing.
    ///
    /// An expected revision alone is a guard, not a change.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.clear && self.changes.is_empty()
    }

    /// Sets the revision that the state must have.
    #[must_use]
    pub const fn expecting(mut self, revision: u64) -> Self {
        self.expect_revision = Some(revision);
        self
    }
}

/// An operation on one key of a thread's state.
///
/// It is checked and applied in the atomic step of the commit (CM-39).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateOp {
    /// Sets the value.
    Set(Json),
    /// Removes the key. A missing key is not an error.
    Remove,
    /// Adds to an integer. A missing key counts as 0.
    Add(i64),
    /// Appends to a list. A missing key counts as an empty list.
    Append(Vec<Json>),
    /// Raises an integer to this value if it is lower. A missing key is set to this value.
    Max(i64),
    /// Sets the fields of this object in the stored object, one level deep. A missing key counts as an empty object.
    Merge(Json),
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a receipt contains the new version of the thread"]
pub struct Receipt {
    /// The thread.
    pub thread: ThreadId,
    /// The version of the thread after the commit. It is the guard of the next commit.
    pub version: Version,
    /// The sequence number of the first entry of the commit. Absent if the commit had no entries.
    pub first_seq: Option<u64>,
    /// The ids of the commit's entries in the order of the log: first the consumed inputs, then the new entries.
    pub entry_ids: Vec<EntryId>,
    /// The ids of the inputs that the commit consumed, in the order given.
    pub consumed: Vec<EntryId>,
    /// The revision of the documents that the commit put; absent if it put none.
    pub document_revision: Option<u64>,
    /// The events that the commit appended, in the order given (CM-20).
    pub events: Vec<EventRef>,
    /// The ids of the commit's outbox rows, in the order given.
    ///
    /// If the dedupe key of a row was in use, this is the id of the earlier row (OB-2).
    pub outbox: Vec<OutboxId>,
    /// The head after the commit.
    pub head: Option<EntryId>,
    /// The revision of the state after the commit.
    pub state_revision: u64,
    /// The status of the run that the commit wrote.
    pub run_status: Option<RunStatus>,
    /// Store time of the commit.
    pub time: Timestamp,
    /// Whether this is the receipt of an earlier commit with the same key.
    pub deduplicated: bool,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

/// A version is written as number, generation and, unless it is 0, incarnation.
impl Codec for Receipt {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object
            .field("thread", &self.thread)
            .field("version", &self.version.number())
            .field("generation", &self.version.generation());
        if self.version.incarnation() != 0 {
            object.field("incarnation", &self.version.incarnation());
        }
        object
            .maybe("first_seq", self.first_seq.as_ref())
            .field("entry_ids", &self.entry_ids)
            .field_unless_default("consumed", &self.consumed)
            .maybe("document_revision", self.document_revision.as_ref())
            .field_unless_default("events", &self.events)
            .field_unless_default("outbox", &self.outbox)
            .maybe("head", self.head.as_ref())
            .field("state_revision", &self.state_revision)
            .maybe("run_status", self.run_status.as_ref())
            .field("time", &self.time)
            .field("deduplicated", &self.deduplicated)
            .extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            thread: fields.take("thread")?,
            version: Version::new(
                fields.take("version")?,
                fields.take("generation")?,
                fields.maybe("incarnation")?.unwrap_or_default(),
            ),
            first_seq: fields.maybe("first_seq")?,
            entry_ids: fields.take("entry_ids")?,
            consumed: fields.maybe("consumed")?.unwrap_or_default(),
            document_revision: fields.maybe("document_revision")?,
            events: fields.maybe("events")?.unwrap_or_default(),
            outbox: fields.maybe("outbox")?.unwrap_or_default(),
            head: fields.maybe("head")?,
            state_revision: fields.take("state_revision")?,
            run_status: fields.maybe("run_status")?,
            time: fields.take("time")?,
            deduplicated: fields.take("deduplicated")?,
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(Receipt);

/// The record of a commit with a key, kept as long as its thread exists (CM-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitKeyRecord {
    /// The commit key.
    pub key: CommitKey,
    /// The digest of the content, with the version of the digest (CM-11).
    pub digest: String,
    /// The receipt.
    pub receipt: Receipt,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(CommitKeyRecord { key: req, digest: req, receipt: req });

impl CommitKeyRecord {
    /// Creates the record of a commit. For backends.
    #[must_use]
    pub fn new(key: CommitKey, digest: String, receipt: Receipt) -> Self {
        Self { key, digest, receipt, extra: Extra::default() }
    }
}

/// The state of a thread as a map, for readers.
pub type ThreadState = JsonMap;

#[cfg(test)]
mod tests {
    use super::Receipt;
    use crate::codec::Codec;

    #[test]
    fn an_incarnation_is_written_unless_it_is_0() {
        for incarnation in ["", r#","incarnation":7"#] {
            let text = format!(
                r#"{{"thread":"t","version":1,"generation":1{incarnation},"entry_ids":[],"state_revision":0,"time":5,"deduplicated":false}}"#
            );
            assert_eq!(Receipt::read(&text).unwrap().encode(), text);
        }
    }
}
