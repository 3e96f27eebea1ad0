//! The tree of a log. Every search of the tree looks at every entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use store_core::{Body, BranchPoint, Entry, EntryId, Leaf, Snapshot, TokenCounts};

/// The log as a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogTree<'a> {
    pub(super) entries: &'a [Arc<Entry>],
}

impl<'a> LogTree<'a> {
    pub(super) const fn new(entries: &'a [Arc<Entry>]) -> Self {
        Self { entries }
    }

    /// Returns the entry with this id.
    pub(super) fn find(self, id: &EntryId) -> Option<&'a Arc<Entry>> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    /// Returns the head: the last entry that is not a side entry, or the target of a rewind after it (EN-5, EN-7).
    pub(super) fn head(self) -> Option<EntryId> {
        let mut head = None;
        for entry in self.entries {
            match &*entry.body {
                Body::Rewind(rewind) => head.clone_from(&rewind.to),
                _ if entry.side => {}
                _ => head = Some(entry.id.clone()),
            }
        }
        head
    }

    /// Returns the path of an entry, from its root (EN-12). For a side entry this is the path of its parent.
    pub(super) fn path(self, entry_id: Option<&EntryId>) -> Vec<&'a Arc<Entry>> {
        let by_id: BTreeMap<_, _> = self.entries.iter().map(|entry| (&entry.id, entry)).collect();
        let mut path = Vec::new();
        let mut next = entry_id;
        while let Some(entry) = next.and_then(|id| by_id.get(id).copied()) {
            if !entry.side {
                path.push(entry);
            }
            next = entry.parent.as_ref();
        }
        path.reverse();
        path
    }

    /// Returns the leaves, by sequence number (EN-11). A leaf is an entry that is not a side entry, and that has no
    /// child except side entries.
    pub(super) fn leaves(self) -> Vec<&'a Arc<Entry>> {
        let on_paths = || self.entries.iter().filter(|entry| !entry.side);
        let parents: BTreeSet<_> = on_paths().filter_map(|entry| entry.parent.as_ref()).collect();
        on_paths().filter(|entry| !parents.contains(&entry.id)).collect()
    }

    /// Returns an entry as a leaf, with the length of its path.
    pub(super) fn to_leaf(self, entry: &Entry) -> Leaf {
        let length = self.path(Some(&entry.id)).len() as u64;
        Leaf::new(entry.id.clone(), entry.seq, length, entry.timestamp)
    }

    /// Returns the branch points of the log, each with the sequence number by which the list is ordered (EN-31).
    pub(super) fn branch_points(self) -> Vec<(u64, BranchPoint)> {
        let mut child_counts: BTreeMap<Option<&EntryId>, u32> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.side) {
            *child_counts.entry(entry.parent.as_ref()).or_default() += 1;
        }
        let seq = |id: Option<&EntryId>| id.and_then(|id| self.find(id)).map_or(0, |entry| entry.seq);
        let parents_of_several = child_counts.into_iter().filter(|(_, count)| *count > 1);
        let mut points: Vec<_> =
            parents_of_several.map(|(id, count)| (seq(id), BranchPoint::new(id.cloned(), count))).collect();
        points.sort_by_key(|(seq, _)| *seq);
        points
    }

    /// Returns the current name of a checkpoint: the text of its newest label, or its own if it has no
    /// label (EN-25, EN-30).
    pub(super) fn checkpoint_name(self, checkpoint: &Entry) -> Option<String> {
        let Body::Checkpoint(body) = &*checkpoint.body else { return None };
        let label = self.entries.iter().rev().find_map(|entry| match &*entry.body {
            Body::Label(label) if label.target == checkpoint.id => Some(label.text.clone()),
            _ => None,
        });
        label.unwrap_or_else(|| body.label.clone())
    }

    /// Returns the checkpoints that have a name, by name and then by sequence number (EN-30).
    pub(super) fn snapshots(self) -> Vec<Snapshot> {
        let named_checkpoints = self.entries.iter().filter_map(|entry| match &*entry.body {
            Body::Checkpoint(body) => {
                Some(Snapshot::new(self.checkpoint_name(entry)?, body.number, self.to_leaf(entry)))
            }
            _ => None,
        });
        let mut snapshots: Vec<_> = named_checkpoints.collect();
        snapshots.sort_by(|a, b| (&a.name, a.seq).cmp(&(&b.name, b.seq)));
        snapshots
    }

    /// Returns the number that a new checkpoint below an entry gets (EN-21), or `None` if the nearest checkpoint above
    /// it has the largest possible number.
    pub(super) fn next_checkpoint(self, entry_id: Option<&EntryId>) -> Option<u64> {
        let nearest = self.path(entry_id).into_iter().rev().find_map(|entry| match &*entry.body {
            Body::Checkpoint(checkpoint) => Some(checkpoint.number),
            _ => None,
        });
        nearest.map_or(Some(0), |number| number.checked_add(1))
    }

    /// Returns the newest context size on a path after the last compaction (EN-29).
    ///
    /// Side entries of an entry on the path may have a size. Such a size counts only if its side entry was committed
    /// before the next entry of the path. If `entry_id` is itself a side entry, later side entries do not count.
    pub(super) fn context_size(self, entry_id: Option<&EntryId>) -> Option<u64> {
        let side_entry = entry_id.and_then(|entry_id| self.find(entry_id)).filter(|entry| entry.side);
        if let Some(Body::Usage(usage)) = side_entry.map(|entry| &*entry.body)
            && usage.context_size.is_some()
        {
            return usage.context_size;
        }
        let mut side_seq_limit = side_entry.map_or(u64::MAX, |entry| entry.seq);
        for entry in self.path(entry_id).into_iter().rev() {
            let size_of_side_entry = self.entries.iter().rev().find_map(|side_entry| match &*side_entry.body {
                Body::Usage(usage)
                    if side_entry.side
                        && side_entry.parent.as_ref() == Some(&entry.id)
                        && side_entry.seq < side_seq_limit =>
                {
                    usage.context_size
                }
                _ => None,
            });
            let size_of_entry = match &*entry.body {
                Body::Message(message) => {
                    message.usage.as_ref().map(|usage| total_context_size(&usage.tokens)).filter(|size| *size > 0)
                }
                Body::Usage(usage) => usage.context_size,
                _ => None,
            };
            if let Some(size) = size_of_side_entry.or(size_of_entry) {
                return Some(size);
            }
            if matches!(*entry.body, Body::Compaction(_)) {
                return None;
            }
            side_seq_limit = entry.seq;
        }
        None
    }
}

fn total_context_size(tokens: &TokenCounts) -> u64 {
    [tokens.cache_read, tokens.cache_write, tokens.output].into_iter().fold(tokens.input, u64::saturating_add)
}

/// Returns the tokens that an entry adds to the sums (EN-26).
pub(super) fn token_counts_of(entry: &Entry) -> Option<&TokenCounts> {
    match &*entry.body {
        Body::Message(message) => message.usage.as_ref().map(|usage| &usage.tokens),
        Body::Usage(usage) => usage.spent.as_ref(),
        _ => None,
    }
}

/// Adds up token counts.
pub(super) fn sum_token_counts<'a>(counts: impl Iterator<Item = &'a TokenCounts>) -> TokenCounts {
    let mut sum = TokenCounts::default();
    for count in counts {
        sum.input = sum.input.saturating_add(count.input);
        sum.output = sum.output.saturating_add(count.output);
        sum.cache_read = sum.cache_read.saturating_add(count.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(count.cache_write);
        sum.reasoning = sum.reasoning.saturating_add(count.reasoning);
    }
    sum
}
