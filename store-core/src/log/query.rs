//! What can be asked of a log.

use serde::Serialize;

use super::{BodyKind, Entry, Role, Visibility};
use crate::{
    id::{EntryId, RunId},
    page::PageRequest,
    time::Timestamp,
};

/// In which direction a list is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// From the first to the last.
    #[default]
    Forward,
    /// From the last to the first.
    Backward,
}

impl Direction {
    pub(crate) fn binding(self) -> Option<String> {
        (self == Self::Backward).then(|| "backward".to_owned())
    }
}

/// Which entries of a log are wanted. Everything that is set must hold; nothing set means all (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EntryQuery {
    /// Sequence numbers from here on, included.
    pub from_seq: Option<u64>,
    /// Sequence numbers up to here, included.
    pub to_seq: Option<u64>,
    /// Entries of the path from the root to this entry, included (EN-12).
    pub path_of: Option<EntryId>,
    /// Entries that hang below this one.
    pub children_of: Option<EntryId>,
    /// Entries of one of these kinds.
    pub kinds: Option<Vec<BodyKind>>,
    /// Messages of this role.
    pub role: Option<Role>,
    /// Messages of this visibility.
    pub visibility: Option<Visibility>,
    /// Entries that this run produced.
    pub run: Option<RunId>,
    /// Entries beside the path, or on it.
    pub side: Option<bool>,
    /// By sequence: forward or backward.
    pub direction: Direction,
    /// Which page.
    pub page: PageRequest,
}

impl EntryQuery {
    /// All entries, by sequence.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// The path of `entry`, from its root.
    #[must_use]
    pub fn path_of(entry: EntryId) -> Self {
        Self { path_of: Some(entry), ..Self::default() }
    }

    /// The same query in this direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// The rest of the same query behind `entry`, in its direction: how a walk goes on that was left there (EN-32).
    #[must_use]
    pub fn behind(mut self, entry: &Entry) -> Self {
        match self.direction {
            Direction::Forward => self.from_seq = self.from_seq.max(Some(entry.seq.saturating_add(1))),
            Direction::Backward => {
                let before = entry.seq.saturating_sub(1);
                self.to_seq = Some(self.to_seq.map_or(before, |to| to.min(before)));
            }
        }
        self.page.cursor = None;
        self
    }

    /// The same query for this page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// The end of a branch: an entry of a path that has no child on a path (EN-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Leaf {
    /// The entry.
    pub entry: EntryId,
    /// Its sequence number.
    pub seq: u64,
    /// How many entries its path has, itself included.
    pub path_length: u64,
    /// Its time.
    pub timestamp: Timestamp,
}

impl Leaf {
    /// For stores.
    #[must_use]
    pub const fn new(entry: EntryId, seq: u64, path_length: u64, timestamp: Timestamp) -> Self {
        Self { entry, seq, path_length, timestamp }
    }
}

/// Where a log branches (EN-31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BranchPoint {
    /// The entry with several children; absent: before the first entry, where there are several roots.
    pub entry: Option<EntryId>,
    /// How many children on paths.
    pub children: u32,
}

impl BranchPoint {
    /// For stores.
    #[must_use]
    pub const fn new(entry: Option<EntryId>, children: u32) -> Self {
        Self { entry, children }
    }
}

/// A checkpoint with a name (EN-30).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name in force.
    pub name: String,
    /// The checkpoint.
    pub entry: EntryId,
    /// Its sequence number.
    pub seq: u64,
    /// Its checkpoint number.
    pub number: u64,
    /// Its time.
    pub timestamp: Timestamp,
    /// How many entries its path has, itself included.
    pub path_length: u64,
}

impl Snapshot {
    /// For stores: the snapshot that `leaf` describes.
    #[must_use]
    pub fn new(name: String, number: u64, leaf: Leaf) -> Self {
        let Leaf { entry, seq, path_length, timestamp } = leaf;
        Self { name, entry, seq, number, timestamp, path_length }
    }
}
