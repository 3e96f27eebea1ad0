//! Messages that a compaction keeps: newer versions of Claude Code do not summarise everything before it.
//!
//! The kept lines stay where they are in the file. The boundary names the first and the last of them, and the line
//! after which they continue the conversation:
//!
//! ```text
//! 1 ── 2 ── 3 ── 4 ── boundary ── summary     the boundary keeps 3 and 4 after the summary
//!                └─ 5                         what follows hangs below the last kept line
//! ```
//!
//! When it loads the file, Claude Code moves the kept lines behind the line that the boundary names. In the thread they
//! stay before the boundary, as stored entries cannot move. The compaction covers only what it does not keep, and
//! contains the summary, and the line of the summary is not sent once more.

use std::collections::HashMap;

use super::line_format::{LineData, NodeKind};
use crate::{json::Object, tree::Tree};

/// The lines that a boundary names in `compactMetadata.preservedSegment`, by their uuids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreservedSegment {
    head: String,
    tail: String,
    anchor: String,
}

impl PreservedSegment {
    /// Reads the segment of a boundary. It is an error if the boundary keeps lines in a form that is not known.
    pub(super) fn of(boundary: &Object<'_>) -> Result<Option<Self>, &'static str> {
        let Some(metadata) = boundary.object("compactMetadata") else { return Ok(None) };
        let Some(segment) = metadata.object("preservedSegment") else {
            let is_unknown = ["preservedSegment", "preservedMessages"]
                .iter()
                .any(|name| metadata.raw(name).is_some_and(|raw| raw != "null"));
            return if is_unknown { Err("it does not name the lines that it keeps in a known form") } else { Ok(None) };
        };
        let id = |name: &str| segment.text(name).filter(|id| !id.is_empty());
        match (id("headUuid"), id("tailUuid"), id("anchorUuid")) {
            (Some(head), Some(tail), Some(anchor)) => Ok(Some(Self { head, tail, anchor })),
            _ => Err("`preservedSegment` does not name the lines that it keeps"),
        }
    }

    /// The last kept line, below which the boundary hangs if it does not say where.
    pub(super) fn tail(&self) -> &str {
        &self.tail
    }
}

/// What a boundary covers on its path, as positions in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coverage {
    /// It is a root, or it keeps everything.
    #[default]
    Nothing,
    /// The interval from the first to the second position.
    Covers(usize, usize),
    /// The same. The lines that it keeps are not on its path, so that it covers everything before it.
    KeptLinesMissing(usize, usize),
}

/// Finds the nodes that boundaries name.
pub(super) struct Positions(HashMap<String, Vec<usize>>);

impl Positions {
    /// Returns `None` if no boundary names nodes.
    pub(super) fn of(tree: &Tree<LineData>) -> Option<Self> {
        tree.iter().find(|(_, node)| node.data.preserved.is_some())?;
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, node) in tree.iter() {
            if let Some(id) = &node.source_id {
                positions.entry(id.clone()).or_default().push(at);
            }
        }
        Some(Self(positions))
    }

    /// The last node with this id that is on the path of a node.
    fn on_path(&self, tree: &Tree<LineData>, id: &str, below: usize) -> Option<usize> {
        let candidates = self.0.get(id)?;
        candidates.iter().rev().copied().find(|at| *at != below && tree.is_on_path(below, *at))
    }

    /// The first node with this id after a node.
    fn after(&self, id: &str, at: usize) -> Option<usize> {
        self.0.get(id)?.iter().copied().find(|found| *found > at)
    }

    /// The summary that a boundary names as the line before those that it keeps.
    fn summary_after(&self, tree: &Tree<LineData>, boundary: usize) -> Option<usize> {
        let segment = tree.get(boundary)?.data.preserved.as_ref()?;
        let at = self.after(&segment.anchor, boundary)?;
        tree.get(at).filter(|node| node.data.summary.is_some()).map(|_| at)
    }
}

/// Hangs what follows the last kept line after a compaction below the summary. Returns the parents of all nodes, or
/// `None` if no parent changes.
pub(super) fn adjust_parents(tree: &Tree<LineData>) -> Option<Vec<Option<usize>>> {
    let positions = Positions::of(tree)?;
    let mut parents: Vec<_> = tree.iter().map(|(_, node)| node.parent).collect();
    for (boundary, node) in tree.iter() {
        let Some(segment) = &node.data.preserved else { continue };
        let Some(summary) = positions.summary_after(tree, boundary) else { continue };
        let Some(tail) = positions.on_path(tree, &segment.tail, boundary) else { continue };
        for (at, parent) in parents.iter_mut().enumerate().skip(summary + 1) {
            if *parent == Some(tail) && tree.get(at).is_some_and(|node| node.data.kind != NodeKind::Boundary) {
                *parent = Some(summary);
            }
        }
    }
    Some(parents)
}

/// What a boundary covers. `root` is the root of its path.
pub(super) fn coverage(tree: &Tree<LineData>, positions: Option<&Positions>, (at, root): (usize, usize)) -> Coverage {
    let (Some(node), Some(parent)) = (tree.get(at), tree.parent(at)) else { return Coverage::Nothing };
    let Some((segment, positions)) = node.data.preserved.as_deref().zip(positions) else {
        return Coverage::Covers(root, parent);
    };
    let all = Coverage::KeptLinesMissing(root, parent);
    let tail = positions.on_path(tree, &segment.tail, at);
    let head = tail.and_then(|tail| match tree.get(tail)?.source_id.as_ref() == Some(&segment.head) {
        true => Some(tail),
        false => positions.on_path(tree, &segment.head, tail),
    });
    let Some((head, tail)) = head.zip(tail) else { return all };
    if node.source_id.as_ref() != Some(&segment.anchor) {
        return tree.parent(head).map_or(Coverage::Nothing, |before| Coverage::Covers(root, before));
    }
    // It keeps the beginning, and summarises what comes after it.
    let mut first = None;
    for above in tree.path(parent).take_while(|above| *above != tail) {
        if tree.get(above).is_some_and(|node| node.data.kind == NodeKind::Boundary) {
            return all;
        }
        first = Some(above);
    }
    first.map_or(Coverage::Nothing, |first| Coverage::Covers(first, parent))
}

/// Finds the summaries that compactions contain, so that their own lines are not sent. `is_stored` says which nodes are
/// stored: a compaction that was stored before its summary does not contain it.
pub(super) fn mark_contained_summaries(
    tree: &mut Tree<LineData>,
    positions: &Positions,
    is_stored: &dyn Fn(usize) -> bool,
) {
    for boundary in 0..tree.len() {
        let keeps_end = tree.get(boundary).is_some_and(|node| matches!(node.data.coverage, Coverage::Covers(..)));
        let Some(summary) = positions.summary_after(tree, boundary).filter(|_| keeps_end) else { continue };
        let is_too_late = is_stored(boundary) && !is_stored(summary);
        let text = tree.get(summary).and_then(|node| node.data.summary.clone()).filter(|_| !is_too_late);
        if let Some(data) = tree.data_mut(summary) {
            data.is_contained = text.is_some();
        }
        if let Some(data) = tree.data_mut(boundary) {
            data.summary = text;
        }
    }
}
