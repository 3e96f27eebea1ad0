//! Drafts: entries as a caller gives them, before the plan makes stored ones of them.

use super::{Compaction, Custom, Decision, ImportOrigin, Label, Message, UsageRecord};
use crate::{
    id::{EntryId, RunId},
    json::Json,
    time::Timestamp,
};

/// Where a new entry hangs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ParentRef {
    /// Below the head, or below the entry before it in the commit (EN-3).
    #[default]
    Head,
    /// Nowhere: a new root.
    Root,
    /// Below this entry, earlier in the thread or in the commit: a fork (EN-9).
    Entry(EntryId),
}

/// An entry to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEntry {
    /// Unique in the thread; generated if absent.
    pub id: Option<EntryId>,
    /// Where it hangs.
    pub parent: ParentRef,
    /// Whether it lies beside the path; absent: as usual for its body ([`NewBody::is_side_by_default`]).
    pub side: Option<bool>,
    /// When it happened; absent: the commit's `at`, else store time.
    pub timestamp: Option<Timestamp>,
    /// The run that produced it: one of this thread.
    pub run: Option<RunId>,
    /// The step of that run.
    pub step: Option<u32>,
    /// Where it was imported from.
    pub origin: Option<ImportOrigin>,
    /// What it holds.
    pub body: NewBody,
}

impl NewEntry {
    /// An entry of this body below the head, with everything else left to the store.
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

    /// The same entry with this id.
    #[must_use]
    pub fn with_id(mut self, id: EntryId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same entry hanging elsewhere.
    #[must_use]
    pub fn with_parent(mut self, parent: ParentRef) -> Self {
        self.parent = parent;
        self
    }

    /// The same entry below `parent`.
    #[must_use]
    pub fn below(self, parent: EntryId) -> Self {
        self.with_parent(ParentRef::Entry(parent))
    }

    /// The same entry on or beside the path.
    #[must_use]
    pub const fn with_side(mut self, side: bool) -> Self {
        self.side = Some(side);
        self
    }

    /// The same entry at this time.
    #[must_use]
    pub const fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The same entry, produced by `run`.
    #[must_use]
    pub fn with_run(mut self, run: RunId, step: Option<u32>) -> Self {
        self.run = Some(run);
        self.step = step;
        self
    }

    /// The same entry, imported from `origin`.
    #[must_use]
    pub fn with_origin(mut self, origin: ImportOrigin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Whether the entry lies beside the path.
    #[must_use]
    pub fn is_side(&self) -> bool {
        self.side.unwrap_or_else(|| self.body.is_side_by_default())
    }
}

/// What a new entry holds: as [`Body`](super::Body), with numbers and targets that the plan works out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each of them")]
pub enum NewBody {
    /// A message.
    Message(Message),
    /// A summary that stands for part of the path.
    Compaction(Compaction),
    /// A checkpoint; without a number it gets the next one of its path (EN-21).
    Checkpoint {
        /// The number, for imports.
        number: Option<u64>,
        /// The name that makes it a snapshot.
        label: Option<String>,
    },
    /// What was spent.
    Usage(UsageRecord),
    /// A name for another entry.
    Label(Label),
    /// Moves the head.
    Rewind(RewindTo),
    /// Anything of the application.
    Custom(Custom),
    /// A decision. It comes as pending input, and an entry of a commit is refused with it (RU-16).
    Decision(Decision),
    /// A kind of a newer release, copied as it is.
    Unknown {
        /// The name of the kind.
        kind: String,
        /// Its data.
        data: Json,
    },
}

impl NewBody {
    /// Usage, labels and rewinds lie beside the path unless the draft says otherwise; a rewind always does.
    #[must_use]
    pub const fn is_side_by_default(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::Label(_) | Self::Rewind(_))
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

/// Where a rewind moves the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindTo {
    /// Before the first entry: the next context is empty (EN-28).
    Start,
    /// To this entry, on any branch.
    Entry(EntryId),
    /// To before the nearest checkpoint of this number on the path of the head as it was before the commit (EN-22).
    Checkpoint(u64),
    /// To before the nearest checkpoint of this name on that path (EN-22).
    Label(String),
    /// To before the newest checkpoint of this name on any branch (EN-30).
    Snapshot(String),
}
