//! Finds the parts of a context: a pure function of a path (CX-1 to CX-9).

use std::collections::BTreeMap;

use crate::{
    error::Result,
    log::{
        EntryMarks, NodeSource,
        node::{self, Node},
    },
};

/// A part of a context: the sequence number of an entry, and how the context uses that entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextPart {
    /// The entry with this sequence number, unchanged.
    Entry(u64),
    /// The summary, or the replacement, of the compaction with this sequence number.
    Summary(u64),
    /// An entry that a summary covers, but that names the provider and the model that were last in effect. The
    /// context uses nothing else of the entry (CX-1).
    ModelSource(u64),
}

impl ContextPart {
    /// Returns the sequence number of the entry to load.
    #[must_use]
    pub const fn seq(self) -> u64 {
        match self {
            Self::Entry(seq) | Self::Summary(seq) | Self::ModelSource(seq) => seq,
        }
    }
}

/// Returns the parts of the context of `leaf`, from its beginning: the entries of its path, with summaries in place of
/// covered intervals (CX-3 to CX-5).
///
/// The cost grows with the length of the path after the last compaction whose interval begins at a root (CX-12).
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn parts(nodes: &(impl NodeSource + ?Sized), leaf: &Node) -> Result<Vec<ContextPart>> {
    let compactions = node::visible_compactions(nodes, leaf)?;
    let visible = outermost_compactions(&compactions);
    let mut parts = Vec::new();
    let mut next_node = node::ancestor(nodes, leaf, leaf.depth)?;
    while let Some(current) = next_node {
        // These intervals do not overlap, so only the last one that begins at or before the entry can cover it.
        let begun_count = visible.partition_point(|compaction| compaction.from <= current.depth);
        let last_begun = begun_count.checked_sub(1).and_then(|index| visible.get(index));
        next_node = if let Some(compaction) = last_begun.filter(|compaction| current.depth <= compaction.to) {
            parts.push(ContextPart::Summary(compaction.seq));
            node::ancestor(nodes, &current, compaction.from.saturating_sub(1))?
        } else {
            if current.covers.is_none() {
                parts.push(ContextPart::Entry(current.seq));
            }
            current.parent.map(|parent| nodes.node(parent)).transpose()?
        };
    }
    // The summary of a compaction that covers nothing comes before the first message. Only the newest such compaction
    // counts. `compactions` does not contain it if a newer compaction covers both it and the root.
    if let Some(first) = compactions.iter().find(|node| node.covers.as_ref().is_some_and(|cover| cover.to == 0)) {
        parts.push(ContextPart::Summary(first.seq));
    }
    if let Some(origin) = leaf.origin.filter(|origin| parts.iter().all(|part| part.seq() != *origin)) {
        parts.push(ContextPart::ModelSource(origin));
    }
    parts.reverse();
    Ok(parts)
}

/// A compaction that appears in the context, with the depths that it covers.
#[derive(Debug, Clone, Copy)]
struct VisibleCompaction {
    seq: u64,
    from: u64,
    to: u64,
}

/// Returns the compactions that appear, in the order of their intervals. Of those that begin at the same entry only the
/// newest appears. A compaction that lies inside another does not appear (CX-4). `compactions` has the newest first.
fn outermost_compactions(compactions: &[Node]) -> Vec<VisibleCompaction> {
    let mut by_start: BTreeMap<u64, VisibleCompaction> = BTreeMap::new();
    for node in compactions {
        if let Some(cover) = node.covers.as_ref().filter(|cover| cover.to > 0) {
            by_start.entry(cover.from).or_insert(VisibleCompaction { seq: node.seq, from: cover.from, to: cover.to });
        }
    }
    // Intervals never overlap partially (EN-24). So an interval lies inside another if it begins inside the other.
    let mut covered_to = 0;
    let mut visible: Vec<_> = by_start.into_values().collect();
    visible.retain(|compaction| {
        let is_outermost = compaction.from > covered_to;
        covered_to = covered_to.max(compaction.to);
        is_outermost
    });
    visible
}

/// Returns the newest context size that was recorded on the path of an entry after the last compaction (EN-29), for
/// [`ThreadContext::context_size`](super::ThreadContext::context_size).
#[must_use]
pub fn context_size(node: &Node, marks: &EntryMarks) -> Option<u64> {
    marks.context_size.or(node.context_size)
}

/// Returns the number of the next checkpoint below an entry (EN-21), for
/// [`ThreadContext::next_checkpoint`](super::ThreadContext::next_checkpoint). If the path has no entries, the
/// number is 0.
#[must_use]
pub fn next_checkpoint(node: &Node) -> u64 {
    node.checkpoint_number.map_or(0, |number| number.saturating_add(1))
}
