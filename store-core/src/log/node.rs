//! Nodes: what a store knows of an entry without reading it, and how paths are walked over them.
//!
//! A node is derived with its entry by the plan, once, and never changes. With its jump pointer any ancestor is found
//! in a logarithm of the path's length (PR-15, EN-10, EN-14).

use crate::{
    codec::{Extra, record},
    error::{Error, Result},
};

/// The position of an entry on the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// Sequence number of the entry.
    pub seq: u64,
    /// Sequence number of its parent.
    pub parent: Option<u64>,
    /// Whether the entry lies beside the path.
    pub side: bool,
    /// Number of entries on its path, itself included; of a side entry, of its parent's path.
    pub depth: u64,
    /// An ancestor further up; its depth follows from this node's alone ([`jump_depth`]).
    pub jump: Option<u64>,
    /// The nearest compaction on the path, itself included.
    pub compaction: Option<u64>,
    /// The nearest checkpoint on the path, itself included.
    pub checkpoint: Option<u64>,
    /// The number of that checkpoint.
    pub checkpoint_number: Option<u64>,
    /// The nearest message on the path, itself included, that says which provider and model it came from; if no message
    /// does, the nearest compaction whose replacement does (CX-1).
    pub origin: Option<u64>,
    /// The newest context size of the path since its last compaction, as of when the entry was committed (EN-29).
    pub context_size: Option<u64>,
    /// Of a compaction: the depths of the first and last entry that it covers; 0 and 0 for one that covers nothing.
    pub covers: Option<Cover>,
    /// Of a rewind or a label: the sequence number of its target.
    pub target: Option<u64>,
    /// Fields of a newer release.
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

/// The depths that a compaction covers, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cover {
    /// Depth of the first covered entry; 1 for a root, 0 if nothing is covered.
    pub from: u64,
    /// Depth of the last covered entry.
    pub to: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Cover { from: req, to: req });

impl Cover {
    /// From depth `from` to depth `to`.
    #[must_use]
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, extra: Extra::default() }
    }

    /// Whether the two overlap and neither lies inside the other.
    #[must_use]
    pub const fn cuts(&self, other: &Self) -> bool {
        let apart = self.to < other.from || other.to < self.from;
        !apart && !self.holds(other) && !other.holds(self)
    }

    /// Whether `other` lies inside.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// How a path algorithm asks a store for nodes.
pub trait Nodes {
    /// The node of the entry with this sequence number.
    ///
    /// # Errors
    /// `Corrupt` if there is none; else whatever reading ends with.
    fn node(&self, seq: u64) -> Result<Node>;
}

impl<F: Fn(u64) -> Result<Node>> Nodes for F {
    fn node(&self, seq: u64) -> Result<Node> {
        self(seq)
    }
}

/// The depth of the ancestor that an entry at `depth` jumps to; 0 for none.
///
/// Depths are split as skew binary numbers are (Myers 1983, "An applicative random-access stack"): the last and
/// smallest tree of the stack with `depth` elements is skipped as a whole.
#[must_use]
pub fn jump_depth(depth: u64) -> u64 {
    let mut rest = depth;
    let mut tree = 0;
    while rest > 0 {
        // The largest tree of 2^k - 1 elements that fits.
        tree = u64::MAX >> rest.saturating_add(1).leading_zeros();
        tree >>= 1;
        rest -= tree;
    }
    depth - tree
}

/// The jump pointer of a new entry below `parent`.
///
/// # Errors
/// What [`Nodes::node`] ends with.
pub fn jump_below(nodes: &(impl Nodes + ?Sized), parent: &Node) -> Result<Option<u64>> {
    ancestor(nodes, parent, jump_depth(parent.depth + 1)).map(|node| node.map(|node| node.seq))
}

/// The ancestor of `node` at `depth`, itself included; none at depth 0 or below the node.
///
/// # Errors
/// What [`Nodes::node`] ends with; `Corrupt` if the pointers do not lead there.
pub fn ancestor(nodes: &(impl Nodes + ?Sized), node: &Node, depth: u64) -> Result<Option<Node>> {
    if depth == 0 || depth > node.depth {
        return Ok(None);
    }
    let mut at = if node.side { parent_of(nodes, node)? } else { node.clone() };
    while at.depth > depth {
        let next = match at.jump {
            Some(jump) if jump_depth(at.depth) >= depth => nodes.node(jump)?,
            _ => parent_of(nodes, &at)?,
        };
        if next.depth >= at.depth {
            return Err(Error::corrupt(format!("entry {} of the log: its path does not lead to a root", at.seq)));
        }
        at = next;
    }
    Ok(Some(at))
}

/// The depth of the last entry on the path of `node`, itself included, whose sequence number is at most `seq`; 0 if
/// there is none. Sequence numbers grow along a path.
///
/// # Errors
/// What [`Nodes::node`] ends with.
pub fn depth_up_to(nodes: &(impl Nodes + ?Sized), node: &Node, seq: u64) -> Result<u64> {
    let mut next =
        if node.side { node.parent.map(|parent| nodes.node(parent)).transpose()? } else { Some(node.clone()) };
    while let Some(at) = next {
        if at.seq <= seq {
            return Ok(at.depth);
        }
        let up = at.jump.filter(|&jump| jump > seq).or(at.parent);
        next = up.map(|up| nodes.node(up)).transpose()?;
    }
    Ok(0)
}

fn parent_of(nodes: &(impl Nodes + ?Sized), node: &Node) -> Result<Node> {
    match node.parent {
        Some(parent) => nodes.node(parent),
        None => Err(Error::corrupt(format!("entry {} of the log: its parent is missing", node.seq))),
    }
}

/// Whether `seq`, at `depth`, lies on the path of `node`.
///
/// # Errors
/// What [`Nodes::node`] ends with.
pub fn is_on_path(nodes: &(impl Nodes + ?Sized), node: &Node, seq: u64, depth: u64) -> Result<bool> {
    Ok(ancestor(nodes, node, depth)?.is_some_and(|found| found.seq == seq))
}

/// The compactions on the path of `node`, itself included, the nearest first.
///
/// # Errors
/// What [`Nodes::node`] ends with.
pub fn compactions(nodes: &(impl Nodes + ?Sized), node: &Node) -> Result<Vec<Node>> {
    compactions_while(nodes, node, |_| true)
}

/// Those of [`compactions`] that can show in a context: one whose entry lies inside of what the newest one that begins
/// at the root covers is not looked at, so that the cost does not grow with what is hidden (CX-12).
///
/// # Errors
/// What [`Nodes::node`] ends with.
pub fn visible_compactions(nodes: &(impl Nodes + ?Sized), node: &Node) -> Result<Vec<Node>> {
    let mut hidden_up_to = None;
    compactions_while(nodes, node, |compaction| {
        if hidden_up_to.is_some_and(|hidden| compaction.depth <= hidden) {
            return false;
        }
        // The newest that begins at the root is the one that shows (CX-4); an older and longer one hides nothing.
        if let Some(cover) = compaction.covers.as_ref().filter(|cover| cover.from == 1) {
            hidden_up_to.get_or_insert(cover.to);
        }
        true
    })
}

fn compactions_while(
    nodes: &(impl Nodes + ?Sized),
    node: &Node,
    mut take: impl FnMut(&Node) -> bool,
) -> Result<Vec<Node>> {
    let mut found = Vec::new();
    let mut next = node.compaction;
    while let Some(seq) = next {
        let compaction = nodes.node(seq)?;
        if !take(&compaction) {
            break;
        }
        next = match compaction.parent {
            Some(parent) => nodes.node(parent)?.compaction,
            None => None,
        };
        found.push(compaction);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Cover, Node, ancestor, depth_up_to, is_on_path, jump_below, jump_depth};
    use crate::{codec::Codec, error::Result};

    fn at(log: &[Node], seq: u64) -> Node {
        log[usize::try_from(seq).unwrap() - 1].clone()
    }

    fn grow(parents: &[Option<u64>]) -> Vec<Node> {
        let mut log: Vec<Node> = Vec::new();
        for (index, parent) in parents.iter().enumerate() {
            let nodes = |seq: u64| -> Result<Node> { Ok(at(&log, seq)) };
            let above = parent.map(|seq| at(&log, seq));
            let jump = above.as_ref().and_then(|above| jump_below(&nodes, above).unwrap());
            let depth = above.map_or(1, |above| above.depth + 1);
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
        let parents: Vec<_> = (0..2000).map(|at| (at > 0).then_some(at)).collect();
        let log = grow(&parents);
        for depth in 1..=2000 {
            let steps = std::cell::Cell::new(0);
            let nodes = |seq: u64| -> Result<Node> {
                steps.set(steps.get() + 1);
                Ok(at(&log, seq))
            };
            assert_eq!(ancestor(&nodes, &log[1999], depth).unwrap().unwrap().seq, depth);
            // Three steps for each binary digit of the length.
            assert!(steps.get() <= 33, "{} steps to {depth}", steps.get());
            // On a path without branches an entry is as deep as its number says.
            steps.set(0);
            assert_eq!(depth_up_to(&nodes, &log[1999], depth).unwrap(), depth);
            assert!(steps.get() <= 33, "{} steps up to {depth}", steps.get());
        }
    }

    #[test]
    fn a_window_ends_where_its_number_says() {
        let mut parents: Vec<_> = (0..100_u64).map(|at| (at > 0).then_some(at)).collect();
        parents.push(Some(40));
        parents.extend((101..180).map(Some));
        let log = grow(&parents);
        let nodes = |seq: u64| -> Result<Node> { Ok(at(&log, seq)) };
        for seq in 0..=180_u64 {
            let depth = if seq <= 40 { seq } else { 40 + seq.saturating_sub(100) };
            assert_eq!(depth_up_to(&nodes, &log[179], seq).unwrap(), depth, "{seq}");
        }
    }

    #[test]
    fn an_entry_of_another_branch_is_on_no_path_of_this_one() {
        let mut parents: Vec<_> = (0..100_u64).map(|at| (at > 0).then_some(at)).collect();
        parents.push(Some(40));
        parents.extend((101..180).map(Some));
        let log = grow(&parents);
        let nodes = |seq: u64| -> Result<Node> { Ok(at(&log, seq)) };
        assert!(is_on_path(&nodes, &log[179], 40, 40).unwrap());
        assert!(!is_on_path(&nodes, &log[179], 41, 41).unwrap());
    }

    #[test]
    fn covers_cut_each_other_only_in_part() {
        let cover = Cover::new(3, 6);
        for (from, to, cuts) in
            [(3, 6, false), (4, 5, false), (1, 9, false), (1, 2, false), (7, 9, false), (5, 8, true), (1, 3, true)]
        {
            assert_eq!(cover.cuts(&Cover::new(from, to)), cuts, "{from} to {to}");
        }
    }
}
