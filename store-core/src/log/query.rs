//! Queries of a log, and the records that they return.

use serde::Serialize;

use super::{BodyKind, Entry, Role, Visibility};
use crate::{
    id::{EntryId, RunId},
    page::PageRequest,
    time::Timestamp,
};

/// The direction in which a list is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// From the first item to the last.
    #[default]
    Forward,
    /// From the last item to the first.
    Backward,
}

impl Direction {
    /// Returns the text that binds a cursor to this direction, or none for the default direction.
    pub(crate) fn cursor_binding(self) -> Option<String> {
        (self == Self::Backward).then(|| "backward".to_owned())
    }
}

/// A query of the entries of a log.
///
/// An entry must match every field that is set. If no field is set, all entries match (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EntryQuery {
    /// The lowest sequence number, included.
    pub from_seq: Option<u64>,
    /// The highest sequence number, included.
    pub to_seq: Option<u64>,
    /// Only entries on the path from the root to this entry, both included (EN-12).
    pub path_of: Option<EntryId>,
    /// Only children of this entry.
    pub children_of: Option<EntryId>,
    /// Only entries with a body of one of these kinds.
    pub kinds: Option<Vec<BodyKind>>,
    /// Only messages with this role.
    pub role: Option<Role>,
    /// Only messages with this visibility.
    pub visibility: Option<Visibility>,
    /// Only entries that this run produced.
    pub run: Option<RunId>,
    /// Only side entries (`true`), or only other entries (`false`).
    pub side: Option<bool>,
    /// The direction, by sequence number.
    pub direction: Direction,
    /// The page.
    pub page: PageRequest,
}

impl EntryQuery {
    /// Creates a query of all entries, by sequence number.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Creates a query of the path of `entry`, from its root.
    #[must_use]
    pub fn path_of(entry: EntryId) -> Self {
        Self { path_of: Some(entry), ..Self::default() }
    }

    /// Sets the direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Restricts the query to the entries after `entry`, in the direction of the query.
    ///
    /// A caller that stopped reading at `entry` continues with this query (EN-32).
    #[must_use]
    pub fn after_entry(mut self, entry: &Entry) -> Self {
        match self.direction {
            Direction::Forward => self.from_seq = self.from_seq.max(Some(entry.seq.saturating_add(1))),
            Direction::Backward => {
                let next_seq = entry.seq.saturating_sub(1);
                self.to_seq = Some(self.to_seq.map_or(next_seq, |to| to.min(next_seq)));
            }
        }
        self.page.cursor = None;
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// A leaf: an entry without children. Side entries are neither leaves nor children (EN-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Leaf {
    /// The id of the entry.
    pub entry: EntryId,
    /// The sequence number of the entry.
    pub seq: u64,
    /// The number of entries on the path of the entry, itself included.
    pub path_length: u64,
    /// The time of the entry.
    pub timestamp: Timestamp,
}

impl Leaf {
    /// Creates a leaf. For backends.
    #[must_use]
    pub const fn new(entry: EntryId, seq: u64, path_length: u64, timestamp: Timestamp) -> Self {
        Self { entry, seq, path_length, timestamp }
    }
}

/// A point where the log branches (EN-31).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BranchPoint {
    /// The entry that has several children. If absent, the point is before the first entry, because there are several
    /// roots.
    pub entry: Option<EntryId>,
    /// The number of children that are not side entries.
    pub children: u32,
}

impl BranchPoint {
    /// Creates a branch point. For backends.
    #[must_use]
    pub const fn new(entry: Option<EntryId>, children: u32) -> Self {
        Self { entry, children }
    }
}

/// A snapshot: a checkpoint that has a name (EN-30).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The current name of the checkpoint.
    pub name: String,
    /// The id of the checkpoint's entry.
    pub entry: EntryId,
    /// The sequence number of the entry.
    pub seq: u64,
    /// The number of the checkpoint.
    pub number: u64,
    /// The time of the entry.
    pub timestamp: Timestamp,
    /// The number of entries on the path of the entry, itself included.
    pub path_length: u64,
}

impl Snapshot {
    /// Creates a snapshot. `leaf` holds the id, the sequence number, the path length and the time of the checkpoint's
    /// entry. For backends.
    #[must_use]
    pub fn new(name: String, number: u64, leaf: Leaf) -> Self {
        let Leaf { entry, seq, path_length, timestamp } = leaf;
        Self { name, entry, seq, number, timestamp, path_length }
    }
}
