//! Data derived from a log so that lists need not read the log: ids, children, leaves, branch points, names.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use store_core::{Body, BodyKind, EntryId, log::assigned_name};

use super::{LogEntry, contents::entry_at};

/// Maps and ordered sets derived from a log. With them, the cost of a page of any list depends only on the page.
///
/// They are updated with each append. Deriving them from the whole log gives the same result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DerivedLogData {
    seq_by_id: HashMap<EntryId, u64>,
    /// Pairs of parent and child, side entries included.
    children: BTreeSet<(u64, u64)>,
    /// Entries that are on a path and have no child on a path.
    leaves: BTreeSet<u64>,
    /// Entries with several children on paths. 0 stands for the position before the first entry.
    branch_points: BTreeSet<u64>,
    has_root: bool,
    /// For each name and checkpoint, the sequence number of the entry that gave the name.
    snapshots: BTreeMap<(String, u64), u64>,
    /// The current name of each checkpoint.
    name_by_checkpoint: HashMap<u64, String>,
}

impl DerivedLogData {
    /// Derives everything from a log.
    pub(crate) fn of(log: &[LogEntry]) -> Self {
        let mut derived = Self::default();
        for log_entry in log {
            derived.append(log, log_entry);
        }
        derived
    }

    /// Adds an entry. `log` holds at least all earlier entries.
    pub(crate) fn append(&mut self, log: &[LogEntry], log_entry: &LogEntry) {
        let (entry, node) = (&log_entry.entry, &log_entry.node);
        self.seq_by_id.insert(entry.id.clone(), node.seq);
        self.children.extend(node.parent.map(|parent| (parent, node.seq)));
        if !node.side {
            self.leaves.insert(node.seq);
            let is_first = match node.parent {
                Some(parent) => self.leaves.remove(&parent),
                None => !std::mem::replace(&mut self.has_root, true),
            };
            if !is_first {
                self.branch_points.insert(node.parent.unwrap_or_default());
            }
        }
        let named_checkpoint = match &*entry.body {
            Body::Checkpoint(_) => Some(node.seq),
            Body::Label(_) => node.target.filter(|&target| {
                entry_at(log, target).is_some_and(|log_entry| log_entry.entry.kind() == BodyKind::Checkpoint)
            }),
            _ => None,
        };
        if let Some(checkpoint) = named_checkpoint {
            self.set_name(checkpoint, assigned_name(entry), node.seq);
        }
    }

    /// Sets or removes the name of a checkpoint. `naming_seq` is the number of the entry that does this.
    fn set_name(&mut self, checkpoint: u64, name: Option<&str>, naming_seq: u64) {
        if let Some(old_name) = self.name_by_checkpoint.remove(&checkpoint) {
            self.snapshots.remove(&(old_name, checkpoint));
        }
        if let Some(name) = name {
            self.snapshots.insert((name.to_owned(), checkpoint), naming_seq);
            self.name_by_checkpoint.insert(checkpoint, name.to_owned());
        }
    }

    pub(crate) fn seq_of(&self, id: &EntryId) -> Option<u64> {
        self.seq_by_id.get(id).copied()
    }

    /// Returns the children of `parent` from `first` to `last`.
    pub(crate) fn children(&self, parent: u64, first: u64, last: u64) -> impl DoubleEndedIterator<Item = u64> {
        // A range that ends before it starts would panic.
        let last = last.max(first.saturating_sub(1));
        let from = Bound::Included((parent, first));
        self.children.range((from, Bound::Excluded((parent, last.saturating_add(1))))).map(|&(_, child)| child)
    }

    pub(crate) fn leaves_after(&self, seq: u64) -> impl Iterator<Item = u64> {
        self.leaves.range(seq.saturating_add(1)..).copied()
    }

    /// Returns the branch points from `first` on. 0 stands for the position before the first entry.
    pub(crate) fn branch_points_from(&self, first: u64) -> impl Iterator<Item = u64> {
        self.branch_points.range(first..).copied()
    }

    /// Returns the names that come after the given name and checkpoint, each with its checkpoint and the entry that
    /// gave the name.
    pub(crate) fn snapshots_after(&self, after: Option<(String, u64)>) -> impl Iterator<Item = (&str, u64, u64)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.snapshots
            .range((after, Bound::Unbounded))
            .map(|((name, seq), naming_seq)| (name.as_str(), *seq, *naming_seq))
    }

    pub(crate) fn newest_snapshot(&self, name: &str) -> Option<u64> {
        let (first, last) = ((name.to_owned(), 0), (name.to_owned(), u64::MAX));
        self.snapshots.range(first..=last).next_back().map(|((_, seq), _)| *seq)
    }

    /// Removes the data derived from an entry. This is for deleted threads, whose entries are removed in batches.
    pub(crate) fn remove_entry(&mut self, log_entry: &LogEntry) {
        let (seq, parent) = (log_entry.node.seq, log_entry.node.parent);
        self.seq_by_id.remove(&log_entry.entry.id);
        self.children.remove(&(parent.unwrap_or_default(), seq));
        self.leaves.remove(&seq);
        self.branch_points.remove(&seq);
        self.set_name(seq, None, seq);
    }
}
