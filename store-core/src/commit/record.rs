//! The commit: everything that a turn writes, in one atomic step.

use crate::{
    claim::Fence,
    codec::{Codec, DecodeError, Extra, Fields, Object, record, serde_by_codec},
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

/// What is written to a thread in one atomic step: all of it or nothing (CM-1).
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
    /// Which thread; made if it does not exist and `expect` allows it.
    pub thread: ThreadId,
    /// The own fields of a thread that this commit makes; ignored if it exists.
    pub create: Option<ThreadFields>,
    /// What the thread's version must be.
    pub expect: Expect,
    /// The idempotency key, per thread: the same key and content again gives the first receipt (CM-10).
    pub key: Option<CommitKey>,
    /// The claim under which this is written.
    pub fence: Option<Fence>,
    /// How that claim ends, in the same atomic step (CM-33).
    pub settle: Option<Settlement>,
    /// When it is said to have happened, for imports and copies; not after store time (CM-41).
    pub at: Option<Timestamp>,
    /// Entries for the log.
    pub entries: Vec<NewEntry>,
    /// A new run, or a change of one.
    pub run: Option<RunChange>,
    /// Changes of the thread's state.
    pub state: Option<StateChange>,
    /// Pending inputs that become entries, before those of `entries`, in this order (CM-27).
    pub consume: Vec<InputRef>,
    /// Events that it causes: in the scope of the thread, of its run, or of another run of the thread (CM-21).
    pub events: Option<AppendEvents>,
    /// Rows to be delivered elsewhere.
    pub outbox: Vec<NewOutboxRow>,
}

impl Commit {
    /// A commit to `thread` with nothing in it yet.
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
            events: None,
            outbox: Vec::new(),
        }
    }

    /// The same commit with this guard.
    #[must_use]
    pub const fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// The same commit with this idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: CommitKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The same commit with one more entry.
    #[must_use]
    pub fn entry(mut self, entry: NewEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// The same commit with these entries at its end.
    #[must_use]
    pub fn entries(mut self, entries: impl IntoIterator<Item = NewEntry>) -> Self {
        self.entries.extend(entries);
        self
    }

    /// The same commit with this change of a run.
    #[must_use]
    pub fn with_run(mut self, run: RunChange) -> Self {
        self.run = Some(run);
        self
    }

    /// The same commit with these changes of the thread's state.
    #[must_use]
    pub fn with_state(mut self, state: StateChange) -> Self {
        self.state = Some(state);
        self
    }

    /// The same commit, consuming these pending inputs.
    #[must_use]
    pub fn consuming(mut self, inputs: impl IntoIterator<Item = InputRef>) -> Self {
        self.consume.extend(inputs);
        self
    }

    /// The same commit with these events.
    #[must_use]
    pub fn with_events(mut self, events: AppendEvents) -> Self {
        self.events = Some(events);
        self
    }

    /// The same commit with these rows for the outbox.
    #[must_use]
    pub fn with_outbox(mut self, rows: impl IntoIterator<Item = NewOutboxRow>) -> Self {
        self.outbox.extend(rows);
        self
    }

    /// The same commit, making the thread with these fields if it does not exist.
    #[must_use]
    pub fn creating(mut self, fields: ThreadFields) -> Self {
        self.create = Some(fields);
        self
    }

    /// The same commit under this claim.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = Some(fence);
        self
    }

    /// The same commit, ending the claim that it is written under.
    #[must_use]
    pub fn settling(mut self, settlement: Settlement) -> Self {
        self.settle = Some(settlement);
        self
    }

    /// The same commit, said to have happened at this time.
    #[must_use]
    pub const fn at(mut self, at: Timestamp) -> Self {
        self.at = Some(at);
        self
    }
}

/// Changes of a thread's state, key by key (CM-24). A key is named once (CM-25).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StateChange {
    /// What the state's revision must be (CM-40).
    pub expect_revision: Option<u64>,
    /// Remove everything first.
    pub clear: bool,
    /// What happens to which key, in order.
    pub changes: Vec<(String, StateOp)>,
}

impl StateChange {
    /// No change yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same changes and one more.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, op: StateOp) -> Self {
        self.changes.push((key.into(), op));
        self
    }

    /// The same changes and a value set.
    #[must_use]
    pub fn set(self, key: impl Into<String>, value: Json) -> Self {
        self.with(key, StateOp::Set(value))
    }

    /// The same changes and a key removed.
    #[must_use]
    pub fn remove(self, key: impl Into<String>) -> Self {
        self.with(key, StateOp::Remove)
    }

    /// Whether it changes nothing: an expected revision alone is a guard, not a change.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.clear && self.changes.is_empty()
    }

    /// The same changes, if the state's revision is `revision`.
    #[must_use]
    pub const fn expecting(mut self, revision: u64) -> Self {
        self.expect_revision = Some(revision);
        self
    }
}

/// What happens to a key of a thread's state, judged in the atomic step (CM-39).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateOp {
    /// Sets the value.
    Set(Json),
    /// Removes the key; one that is missing is no error.
    Remove,
    /// Adds to a whole number; a missing key counts as 0.
    Add(i64),
    /// Appends to a list; a missing key counts as an empty one.
    Append(Vec<Json>),
    /// Raises a whole number to at least this; sets a missing key.
    Max(i64),
    /// Sets the fields of this object in an object, one level deep; a missing key counts as an empty one.
    Merge(Json),
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a receipt says where the thread stands now"]
pub struct Receipt {
    /// The thread.
    pub thread: ThreadId,
    /// Its version after the commit: the guard of the next one.
    pub version: Version,
    /// The sequence number of the first entry of this commit; absent if it had none.
    pub first_seq: Option<u64>,
    /// The ids of its entries in the order of the log: those consumed, then those given.
    pub entry_ids: Vec<EntryId>,
    /// The ids of the inputs that it consumed, in the order given.
    pub consumed: Vec<EntryId>,
    /// The events that it appended, in the order given (CM-20).
    pub events: Vec<EventRef>,
    /// The ids of its outbox rows, in the order given: that of an earlier row where its key was taken (OB-2).
    pub outbox: Vec<OutboxId>,
    /// The head after the commit.
    pub head: Option<EntryId>,
    /// The state's revision after the commit.
    pub state_revision: u64,
    /// The status of the run that it wrote.
    pub run_status: Option<RunStatus>,
    /// Store time of the commit.
    pub time: Timestamp,
    /// Whether this is the receipt of an earlier commit with the same key.
    pub deduplicated: bool,
    /// Fields of a newer release.
    pub extra: Extra,
}

/// Versions stand as number, generation and, if it is not the first, incarnation.
impl Codec for Receipt {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
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
            .unless_default("consumed", &self.consumed)
            .unless_default("events", &self.events)
            .unless_default("outbox", &self.outbox)
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

/// What is remembered of a commit with a key, as long as its thread (CM-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// The key.
    pub key: CommitKey,
    /// The digest of the content, with its version (CM-11).
    pub digest: String,
    /// The receipt.
    pub receipt: Receipt,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(KeyRecord { key: req, digest: req, receipt: req });

impl KeyRecord {
    /// For stores: what is remembered of a commit.
    #[must_use]
    pub fn new(key: CommitKey, digest: String, receipt: Receipt) -> Self {
        Self { key, digest, receipt, extra: Extra::default() }
    }
}

/// The thread's state as a map, for whoever reads it.
pub type ThreadState = JsonMap;

#[cfg(test)]
mod tests {
    use super::Receipt;
    use crate::codec::Codec;

    #[test]
    fn an_incarnation_is_written_if_it_is_not_the_first() {
        for incarnation in ["", r#","incarnation":7"#] {
            let text = format!(
                r#"{{"thread":"t","version":1,"generation":1{incarnation},"entry_ids":[],"state_revision":0,"time":5,"deduplicated":false}}"#
            );
            assert_eq!(Receipt::read(&text).unwrap().encode(), text);
        }
    }
}
