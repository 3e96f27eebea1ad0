//! The tree of a log, walked in the plainest way: every question looks at every entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use store_core::{Body, BranchPoint, Entry, EntryId, Leaf, Snapshot, TokenCounts};

/// The log as a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree<'a>(pub(super) &'a [Arc<Entry>]);

impl<'a> Tree<'a> {
    /// An entry.
    pub(super) fn find(self, id: &EntryId) -> Option<&'a Arc<Entry>> {
        self.0.iter().find(|entry| entry.id == *id)
    }

    /// Where the next entry hangs: the last entry on a path, or where the last rewind went (EN-5, EN-7).
    pub(super) fn head(self) -> Option<EntryId> {
        let mut head = None;
        for entry in self.0 {
            match &*entry.body {
                Body::Rewind(rewind) => head.clone_from(&rewind.to),
                _ if entry.side => {}
                _ => head = Some(entry.id.clone()),
            }
        }
        head
    }

    /// The path of an entry, from its root (EN-12). A side entry lies on no path: its path is that of its parent.
    pub(super) fn path(self, at: Option<&EntryId>) -> Vec<&'a Arc<Entry>> {
        let by_id: BTreeMap<_, _> = self.0.iter().map(|entry| (&entry.id, entry)).collect();
        let mut path = Vec::new();
        let mut next = at;
        while let Some(entry) = next.and_then(|id| by_id.get(id).copied()) {
            if !entry.side {
                path.push(entry);
            }
            next = entry.parent.as_ref();
        }
        path.reverse();
        path
    }

    /// Entries on paths without a child on one, by sequence (EN-11).
    pub(super) fn leaves(self) -> Vec<&'a Arc<Entry>> {
        let on_paths = || self.0.iter().filter(|entry| !entry.side);
        let parents: BTreeSet<_> = on_paths().filter_map(|entry| entry.parent.as_ref()).collect();
        on_paths().filter(|entry| !parents.contains(&entry.id)).collect()
    }

    /// What is said of an entry that ends a path.
    pub(super) fn describe(self, entry: &Entry) -> Leaf {
        let length = self.path(Some(&entry.id)).len() as u64;
        Leaf::new(entry.id.clone(), entry.seq, length, entry.timestamp)
    }

    /// Where the log branches, with the sequence number that the list is ordered by (EN-31).
    pub(super) fn branch_points(self) -> Vec<(u64, BranchPoint)> {
        let mut children: BTreeMap<Option<&EntryId>, u32> = BTreeMap::new();
        for entry in self.0.iter().filter(|entry| !entry.side) {
            *children.entry(entry.parent.as_ref()).or_default() += 1;
        }
        let seq = |id: Option<&EntryId>| id.and_then(|id| self.find(id)).map_or(0, |entry| entry.seq);
        let several = children.into_iter().filter(|(_, count)| *count > 1);
        let mut points: Vec<_> = several.map(|(id, count)| (seq(id), BranchPoint::new(id.cloned(), count))).collect();
        points.sort_by_key(|(seq, _)| *seq);
        points
    }

    /// The name of a checkpoint that is in force: the newest label's, else its own (EN-25, EN-30).
    pub(super) fn name(self, checkpoint: &Entry) -> Option<String> {
        let Body::Checkpoint(body) = &*checkpoint.body else { return None };
        let label = self.0.iter().rev().find_map(|entry| match &*entry.body {
            Body::Label(label) if label.target == checkpoint.id => Some(label.text.clone()),
            _ => None,
        });
        label.unwrap_or_else(|| body.label.clone())
    }

    /// Checkpoints with a name, by name, then by sequence (EN-30).
    pub(super) fn snapshots(self) -> Vec<Snapshot> {
        let named = self.0.iter().filter_map(|entry| match &*entry.body {
            Body::Checkpoint(body) => Some(Snapshot::new(self.name(entry)?, body.number, self.describe(entry))),
            _ => None,
        });
        let mut snapshots: Vec<_> = named.collect();
        snapshots.sort_by(|a, b| (&a.name, a.seq).cmp(&(&b.name, b.seq)));
        snapshots
    }

    /// The number of the next checkpoint below an entry (EN-21); none behind the largest number.
    pub(super) fn next_checkpoint(self, at: Option<&EntryId>) -> Option<u64> {
        let nearest = self.path(at).into_iter().rev().find_map(|entry| match &*entry.body {
            Body::Checkpoint(checkpoint) => Some(checkpoint.number),
            _ => None,
        });
        nearest.map_or(Some(0), |number| number.checked_add(1))
    }

    /// The newest context size of a path since its last compaction (EN-29). What was recorded beside the path counts
    /// for the entries that were committed after it; of a side entry that is up to itself.
    pub(super) fn context_size(self, at: Option<&EntryId>) -> Option<u64> {
        let side = at.and_then(|at| self.find(at)).filter(|entry| entry.side);
        if let Some(Body::Usage(usage)) = side.map(|entry| &*entry.body)
            && usage.context_size.is_some()
        {
            return usage.context_size;
        }
        let mut before = side.map_or(u64::MAX, |entry| entry.seq);
        for entry in self.path(at).into_iter().rev() {
            let beside = self.0.iter().rev().find_map(|side| match &*side.body {
                Body::Usage(usage) if side.side && side.parent.as_ref() == Some(&entry.id) && side.seq < before => {
                    usage.context_size
                }
                _ => None,
            });
            let own = match &*entry.body {
                Body::Message(message) => {
                    message.usage.as_ref().map(|usage| context_size(&usage.tokens)).filter(|size| *size > 0)
                }
                Body::Usage(usage) => usage.context_size,
                _ => None,
            };
            if let Some(size) = beside.or(own) {
                return Some(size);
            }
            if matches!(*entry.body, Body::Compaction(_)) {
                return None;
            }
            before = entry.seq;
        }
        None
    }
}

fn context_size(tokens: &TokenCounts) -> u64 {
    [tokens.cache_read, tokens.cache_write, tokens.output].into_iter().fold(tokens.input, u64::saturating_add)
}

/// What an entry adds to sums (EN-26).
pub(super) fn spent(entry: &Entry) -> Option<&TokenCounts> {
    match &*entry.body {
        Body::Message(message) => message.usage.as_ref().map(|usage| &usage.tokens),
        Body::Usage(usage) => usage.spent.as_ref(),
        _ => None,
    }
}

/// A sum of token counts.
pub(super) fn sum<'a>(counts: impl Iterator<Item = &'a TokenCounts>) -> TokenCounts {
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
