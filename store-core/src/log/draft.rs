//! Drafts: entries as the caller passes them. The plan of a commit turns them into stored entries.

use super::{Body, Compaction, Custom, Decision, ImportOrigin, Label, Message, UsageRecord};
use crate::{
    id::{EntryId, RunId},
    json::Json,
    time::Timestamp,
};

/// The parent of a new entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ParentRef {
    /// The entry before the new one in the commit. Side entries do not count. For the first entry of a commit this is
    /// the head of the thread. For the first entry after a rewind it is the target of the rewind (EN-3).
    #[default]
    Head,
    /// No parent: the new entry is a root.
    Root,
    /// This entry of the thread, or this earlier entry of the commit: a fork (EN-9).
    Entry(EntryId),
}

/// The draft of an entry to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEntry {
    /// The id, unique in the thread. It is generated if absent.
    pub id: Option<EntryId>,
    /// The parent.
    pub parent: ParentRef,
    /// Whether this is a side entry. If absent, the body decides ([`NewBody::is_side_by_default`]).
    pub side: Option<bool>,
    /// When the entry happened. If absent, this is the commit's `at`, or store time if there is no `at`.
    pub timestamp: Option<Timestamp>,
    /// The run that produced the entry. It must be a run of this thread.
    pub run: Option<RunId>,
    /// The step of that run.
    pub step: Option<u32>,
    /// Where the entry was imported from.
    pub origin: Option<ImportOrigin>,
    /// The body.
    pub body: NewBody,
}

impl NewEntry {
    /// Creates an entry with this body, whose parent is the head. The store determines all other fields.
    #[must_use]
    pub fn new(body: impl Into<NewBody>) -> Self {
        Self {
            id: None,
            parent: ParentRef::Head,
            side: None,
            timestamp: None,
            run: None,
            step: None,
            origin: None,
            body: body.into(),
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the parent.
    #[must_use]
    pub fn with_parent(mut self, parent: ParentRef) -> Self {
        self.parent = parent;
        self
    }

    /// Sets the entry `parent` as the parent.
    #[must_use]
    pub fn below(self, parent: EntryId) -> Self {
        self.with_parent(ParentRef::Entry(parent))
    }

    /// Sets whether this is a side entry.
    #[must_use]
    pub const fn with_side(mut self, side: bool) -> Self {
        self.side = Some(side);
        self
    }

    /// Sets the time.
    #[must_use]
    pub const fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets the run that produced the entry, and the step of that run.
    #[must_use]
    pub fn with_run(mut self, run: RunId, step: Option<u32>) -> Self {
        self.run = Some(run);
        self.step = step;
        self
    }

    /// Sets where the entry was imported from.
    #[must_use]
    pub fn with_origin(mut self, origin: ImportOrigin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Returns whether this is a side entry.
    #[must_use]
    pub fn is_side(&self) -> bool {
        self.side.unwrap_or_else(|| self.body.is_side_by_default())
    }
}

/// The body of a new entry.
///
/// It corresponds to [`Body`](super::Body). Stored bodies also contain numbers and targets, which the plan of the
/// commit determines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all bodies are messages, and each of them would need a box")]
pub enum NewBody {
    /// A message.
    Message(Message),
    /// A summary that replaces part of the path in the context.
    Compaction(Compaction),
    /// A checkpoint. Without a number it gets the next number of its path (EN-21).
    Checkpoint {
        /// The number, for imports.
        number: Option<u64>,
        /// The name. A checkpoint that has a name is a snapshot.
        /// [`LogReader::list_snapshots`](super::LogReader::list_snapshots) lists it, and a rewind can find it by its
        /// name.
        label: Option<String>,
    },
    /// A usage record: token counts, context size and cost.
    Usage(UsageRecord),
    /// A label, which gives another entry a name.
    Label(Label),
    /// A rewind, which moves the head.
    Rewind(RewindTo),
    /// Data of the application.
    Custom(Custom),
    /// A decision on a [`Ticket`](crate::Ticket), which is a question that a waiting run asks.
    ///
    /// A decision can be added only as pending input. A commit that has a decision among its entries is refused
    /// (RU-16).
    Decision(Decision),
    /// A kind that this release does not know. It is stored unchanged.
    Unknown {
        /// The name of the kind.
        kind: String,
        /// The data of the body.
        data: Json,
    },
}

impl NewBody {
    /// Returns whether an entry with this body is a side entry if the draft does not specify it.
    ///
    /// This is the case for usage records, labels and rewinds. A rewind is always a side entry: a draft that says
    /// otherwise is refused.
    #[must_use]
    pub const fn is_side_by_default(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Label(_) | Self::Rewind(_))
    }
}

/// Makes a draft of a stored body, for a copy of its entry. Numbers and targets stay.
impl From<Body> for NewBody {
    fn from(body: Body) -> Self {
        match body {
            Body::Message(message) => Self::Message(message),
            Body::Compaction(compaction) => Self::Compaction(compaction),
            Body::Checkpoint(checkpoint) => {
                Self::Checkpoint { number: Some(checkpoint.number), label: checkpoint.label }
            }
            Body::Usage(usage) => Self::Usage(usage),
            Body::Label(label) => Self::Label(label),
            Body::Rewind(rewind) => Self::Rewind(rewind.to.map_or(RewindTo::Start, RewindTo::Entry)),
            Body::Custom(custom) => Self::Custom(custom),
            Body::Decision(decision) => Self::Decision(decision),
            Body::Unknown { kind, data } => Self::Unknown { kind, data },
        }
    }
}

impl From<Message> for NewBody {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<Compaction> for NewBody {
    fn from(compaction: Compaction) -> Self {
        Self::Compaction(compaction)
    }
}

impl From<UsageRecord> for NewBody {
    fn from(usage: UsageRecord) -> Self {
        Self::Usage(usage)
    }
}

impl From<Label> for NewBody {
    fn from(label: Label) -> Self {
        Self::Label(label)
    }
}

impl From<RewindTo> for NewBody {
    fn from(to: RewindTo) -> Self {
        Self::Rewind(to)
    }
}

impl From<Custom> for NewBody {
    fn from(custom: Custom) -> Self {
        Self::Custom(custom)
    }
}

/// The target of a rewind: where the head is moved to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindTo {
    /// Before the first entry. The next context is then empty (EN-28).
    Start,
    /// This entry, on any branch.
    Entry(EntryId),
    /// The entry before the nearest checkpoint with this number (EN-22).
    ///
    /// Only checkpoints on the path of the head before the commit are considered.
    Checkpoint(u64),
    /// The entry before the nearest checkpoint with this name (EN-22).
    ///
    /// Only checkpoints on the path of the head before the commit are considered.
    Label(String),
    /// The entry before the newest checkpoint with this name, on any branch (EN-30).
    Snapshot(String),
}
