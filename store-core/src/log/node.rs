//! Nodes: what a store knows about the position of an entry without reading the entry, and the algorithms that follow
//! paths over nodes.
//!
//! The plan of a commit derives a node for each new entry. The node never changes. With the jump pointers, any ancestor
//! is found in a number of steps that is logarithmic in the length of the path (PR-15, EN-10, EN-14).

use crate::{
    codec::{Extra, record},
    error::{Error, Result},
};

/// The position of an entry in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The sequence number of the entry.
    pub seq: u64,
    /// The sequence number of the parent.
    pub parent: Option<u64>,
    /// Whether the entry is a side entry.
    pub side: bool,
    /// The number of entries on the path, this entry included. For a side entry, the number on the path of its parent.
    pub depth: u64,
    /// The jump pointer: the sequence number of an ancestor, usually a distant one.
    ///
    /// The depth of that ancestor follows from the depth of this node alone ([`jump_depth`]).
    pub jump: Option<u64>,
    /// The sequence number of the nearest compaction on the path, this entry included.
    pub compaction: Option<u64>,
    /// The sequence number of the nearest checkpoint on the path, this entry included.
    pub checkpoint: Option<u64>,
    /// The number of that checkpoint.
    pub checkpoint_number: Option<u64>,
    /// The sequence number of the nearest message on the path that names its provider and model. It can be this entry.
    ///
    /// If no message names them, this is the nearest compaction whose replacement names them (CX-1).
    pub origin: Option<u64>,
    /// The newest context size that was recorded on the path after the last compaction, as of the commit of this entry
    /// (EN-29).
    pub context_size: Option<u64>,
    /// For a compaction: the depths of the first and the last entry that it covers. Both are 0 if it covers nothing.
    pub covers: Option<CoveredDepths>,
    /// For a rewind or a label: the sequence number of its target.
    pub target: Option<u64>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Node {
    seq: req,
    parent: opt,
    side: def,
    depth: req,
    jump: opt,
    compaction: opt,
    checkpoint: opt,
    checkpoint_number: opt,
    origin: opt,
    context_size: opt,
    covers: opt,
    target: opt,
});

/// The interval of depths that a compaction covers, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoveredDepths {
    /// The depth of the first covered entry. It is 1 for a root, and 0 if nothing is covered.
    pub from: u64,
    /// The depth of the last covered entry.
    pub to: u64,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(CoveredDepths { from: req, to: req });

impl CoveredDepths {
    /// Creates the interval from depth `from` to depth `to`.
    #[must_use]
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, extra: Extra::default() }
    }

    /// Returns whether the two intervals overlap without one of them lying inside the other.
    #[must_use]
    pub const fn overlaps_partially(&self, other: &Self) -> bool {
        let are_disjoint = self.to < other.from || other.to < self.from;
        !are_disjoint && !self.contains(other) && !other.contains(self)
    }

    /// Returns whether `other` lies inside this interval.
    #[must_use]
    pub const fn contains(&self, other: &Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// A source of nodes for the path algorithms.
pub trait NodeSource {
    /// Returns the node of the entry with this sequence number.
    ///
    /// # Errors
    /// `Corrupt` if there is no such entry; otherwise any error of the read.
    fn node(&self, seq: u64) -> Result<Node>;
}

impl<F: Fn(u64) -> Result<Node>> NodeSource for F {
    fn node(&self, seq: u64) -> Result<Node> {
        self(seq)
    }
}

/// Returns the depth of the ancestor that an entry at `depth` jumps to, or 0 if there is none.
///
/// Depths are split in the same way as skew binary numbers (Myers 1983, "An applicative random-access stack"). In the
/// terms of that article, the jump skips the last and smallest tree of a stack with `depth` elements.
#[must_use]
pub fn jump_depth(depth: u64) -> u64 {
    let mut uncounted = depth;
    let mut tree_size = 0;
    while uncounted > 0 {
        // The largest number 2^k - 1 that is not above `uncounted`: the size of the next tree.
        tree_size = u64::MAX >> uncounted.saturating_add(1).leading_zeros();
        tree_size >>= 1;
        uncounted -= tree_size;
    }
    depth - tree_size
}

/// Returns the jump pointer of a new entry below `parent`.
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn jump_pointer_below(nodes: &(impl NodeSource + ?Sized), parent: &Node) -> Result<Option<u64>> {
    ancestor(nodes, parent, jump_depth(parent.depth + 1)).map(|node| node.map(|node| node.seq))
}

/// Returns the ancestor of `node` at `depth`, or the node itself if it has that depth. For a side
/// entry, the search begins at its parent.
///
/// Returns none for depth 0 and for a depth greater than that of the node.
///
/// # Errors
/// Any error of [`NodeSource::node`]; `Corrupt` if the pointers do not lead to the ancestor.
pub fn ancestor(nodes: &(impl NodeSource + ?Sized), node: &Node, depth: u64) -> Result<Option<Node>> {
    if depth == 0 || depth > node.depth {
        return Ok(None);
    }
    let mut current_node = if node.side { parent_of(nodes, node)? } else { node.clone() };
    while current_node.depth > depth {
        let next = match current_node.jump {
            Some(jump) if jump_depth(current_node.depth) >= depth => nodes.node(jump)?,
            _ => parent_of(nodes, &current_node)?,
        };
        if next.depth >= current_node.depth {
            return Err(Error::corrupt(format!(
                "entry {} of the log: its path does not lead to a root",
                current_node.seq
            )));
        }
        current_node = next;
    }
    Ok(Some(current_node))
}

/// Returns the depth of the last entry on the path of `node` whose sequence number is at most `seq`.
///
/// The node itself counts as part of its path, unless it is a side entry. The depth is 0 if there is no such entry.
/// Sequence numbers grow along a path.
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn depth_at_seq(nodes: &(impl NodeSource + ?Sized), node: &Node, seq: u64) -> Result<u64> {
    let mut next =
        if node.side { node.parent.map(|parent| nodes.node(parent)).transpose()? } else { Some(node.clone()) };
    while let Some(current_node) = next {
        if current_node.seq <= seq {
            return Ok(current_node.depth);
        }
        let next_seq = current_node.jump.filter(|&jump| jump > seq).or(current_node.parent);
        next = next_seq.map(|seq| nodes.node(seq)).transpose()?;
    }
    Ok(0)
}

fn parent_of(nodes: &(impl NodeSource + ?Sized), node: &Node) -> Result<Node> {
    match node.parent {
        Some(parent) => nodes.node(parent),
        None => Err(Error::corrupt(format!("entry {} of the log: its parent is missing", node.seq))),
    }
}

/// Returns whether the entry with sequence number `seq`, at `depth`, is on the path of `node`.
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn is_on_path(nodes: &(impl NodeSource + ?Sized), node: &Node, seq: u64, depth: u64) -> Result<bool> {
    Ok(ancestor(nodes, node, depth)?.is_some_and(|ancestor| ancestor.seq == seq))
}

/// Returns the compactions on the path of `node`, itself included, nearest first.
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn compactions(nodes: &(impl NodeSource + ?Sized), node: &Node) -> Result<Vec<Node>> {
    compactions_while(nodes, node, |_| true)
}

/// Returns the compactions on the path of `node` that can appear in a context.
///
/// The newest compaction whose interval begins at the root hides every compaction entry inside that interval. The
/// search ends at the first hidden compaction, so that the cost does not grow with the number of hidden compactions
/// (CX-12).
///
/// # Errors
/// Any error of [`NodeSource::node`].
pub fn visible_compactions(nodes: &(impl NodeSource + ?Sized), node: &Node) -> Result<Vec<Node>> {
    let mut hidden_up_to = None;
    compactions_while(nodes, node, |compaction| {
        if hidden_up_to.is_some_and(|hidden| compaction.depth <= hidden) {
            return false;
        }
        // Of the compactions whose interval begins at the root, only the newest appears (CX-4). An older one hides
        // nothing, even if it is longer.
        if let Some(cover) = compaction.covers.as_ref().filter(|cover| cover.from == 1) {
            hidden_up_to.get_or_insert(cover.to);
        }
        true
    })
}

fn compactions_while(
    nodes: &(impl NodeSource + ?Sized),
    node: &Node,
    mut accept: impl FnMut(&Node) -> bool,
) -> Result<Vec<Node>> {
    let mut compactions = Vec::new();
    let mut next = node.compaction;
    while let Some(seq) = next {
        let compaction = nodes.node(seq)?;
        if !accept(&compaction) {
            break;
        }
        next = match compaction.parent {
            Some(parent) => nodes.node(parent)?.compaction,
            None => None,
        };
        compactions.push(compaction);
    }
    Ok(compactions)
}

#[cfg(test)]
mod tests {
    use super::{CoveredDepths, Node, ancestor, depth_at_seq, is_on_path, jump_depth, jump_pointer_below};
    use crate::{codec::Codec, error::Result};

    fn node_at(log: &[Node], seq: u64) -> Node {
        log[usize::try_from(seq).unwrap() - 1].clone()
    }

    fn build_log(parents: &[Option<u64>]) -> Vec<Node> {
        let mut log: Vec<Node> = Vec::new();
        for (index, parent) in parents.iter().enumerate() {
            let nodes = |seq: u64| -> Result<Node> { Ok(node_at(&log, seq)) };
            let parent_node = parent.map(|seq| node_at(&log, seq));
            let jump = parent_node.as_ref().and_then(|parent| jump_pointer_below(&nodes, parent).unwrap());
            let depth = parent_node.map_or(1, |parent| parent.depth + 1);
            let text = format!(r#"{{"seq":{},"depth":{depth}}}"#, index + 1);
            log.push(Node { parent: *parent, jump, ..Node::read(&text).unwrap() });
        }
        log
    }

    #[test]
    fn jumps_follow_from_the_depth() {
        let depths: Vec<_> = (1..=15).map(jump_depth).collect();
        assert_eq!(depths, [0, 1, 0, 3, 4, 3, 0, 7, 8, 7, 10, 11, 10, 7, 0]);
    }

    #[test]
    fn every_ancestor_is_found_in_few_steps() {
        let parents: Vec<_> = (0..2000).map(|index| (index > 0).then_some(index)).collect();
        let log = build_log(&parents);
        for depth in 1..=2000 {
            let steps = std::cell::Cell::new(0);
            let nodes = |seq: u64| -> Result<Node> {
                steps.set(steps.get() + 1);
                Ok(node_at(&log, seq))
            };
            assert_eq!(ancestor(&nodes, &log[1999], depth).unwrap().unwrap().seq, depth);
            // At most three steps for each binary digit of the length.
            assert!(steps.get() <= 33, "{} steps to {depth}", steps.get());
            // On a path without branches, the depth of an entry equals its sequence number.
            steps.set(0);
            assert_eq!(depth_at_seq(&nodes, &log[1999], depth).unwrap(), depth);
            assert!(steps.get() <= 33, "{} steps up to {depth}", steps.get());
        }
    }

    #[test]
    fn the_depth_at_a_sequence_number_is_found() {
        let mut parents: Vec<_> = (0..100_u64).map(|index| (index > 0).then_some(index)).collect();
        parents.push(Some(40));
        parents.extend((101..180).map(Some));
        let log = build_log(&parents);
        let nodes = |seq: u64| -> Result<Node> { Ok(node_at(&log, seq)) };
        for seq in 0..=180_u64 {
            let depth = if seq <= 40 { seq } else { 40 + seq.saturating_sub(100) };
            assert_eq!(depth_at_seq(&nodes, &log[179], seq).unwrap(), depth, "{seq}");
        }
    }

    #[test]
    fn an_entry_of_another_branch_is_not_on_the_path() {
        let mut parents: Vec<_> = (0..100_u64).map(|index| (index > 0).then_some(index)).collect();
        parents.push(Some(40));
        parents.extend((101..180).map(Some));
        let log = build_log(&parents);
        let nodes = |seq: u64| -> Result<Node> { Ok(node_at(&log, seq)) };
        assert!(is_on_path(&nodes, &log[179], 40, 40).unwrap());
        assert!(!is_on_path(&nodes, &log[179], 41, 41).unwrap());
    }

    #[test]
    fn separate_and_nested_intervals_do_not_overlap_partially() {
        let cover = CoveredDepths::new(3, 6);
        for (from, to, overlaps_partially) in
            [(3, 6, false), (4, 5, false), (1, 9, false), (1, 2, false), (7, 9, false), (5, 8, true), (1, 3, true)]
        {
            assert_eq!(cover.overlaps_partially(&CoveredDepths::new(from, to)), overlaps_partially, "{from} to {to}");
        }
    }
}
