//! Messages that a compaction keeps: newer versions of Claude Code do not summarise everything before it.
//!
//! The kept lines stay where they are in the file. The boundary names the first and the last of them, and the line
//! after which they continue the conversation:
//!
//! ```text
//! 1 ── 2 ── 3 ── 4 ── boundary ── summary     the boundary keeps 3 and 4 after the summary
//!                └─ 5                         the next line is a child of the last kept line
//! ```
//!
//! When it loads the file, Claude Code moves the kept lines behind the line that the boundary names. In the thread they
//! stay before the boundary, as stored entries cannot move. The compaction covers only the lines that it does not keep.
//! It contains the summary, so the line of the summary is not sent again.

use std::collections::HashMap;

use super::{
    line_format::{LineData, NodeKind},
    message,
};
use crate::{
    json::Object,
    lines::ObjectLine,
    tree::{Parents, Tree},
};

/// The lines that a boundary names in `compactMetadata.preservedSegment`, by their uuids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreservedSegment {
    first_kept_line: String,
    last_kept_line: String,
    anchor: String,
}

impl PreservedSegment {
    /// Reads the segment of a boundary. It is an error if the boundary names the lines that it keeps in an unknown
    /// form.
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
            (Some(first_kept_line), Some(last_kept_line), Some(anchor)) => {
                Ok(Some(Self { first_kept_line, last_kept_line, anchor }))
            }
            _ => Err("`preservedSegment` does not name the lines that it keeps"),
        }
    }

    /// The last kept line. It is the parent of a boundary that names no other parent.
    pub(super) fn last_kept_line(&self) -> &str {
        &self.last_kept_line
    }
}

/// What is known of a compaction: at its boundary, and at the line of its summary.
#[derive(Debug, Default)]
pub(super) struct CompactionData {
    /// At a boundary: the lines that it keeps.
    kept_segment: Option<PreservedSegment>,
    /// At a boundary: what it covers.
    pub(super) coverage: Coverage,
    /// At the summary: its text. At a boundary: the summary that the compaction contains.
    pub(super) summary: Option<String>,
}

impl CompactionData {
    /// The data of a line, if it is a boundary or a summary.
    fn of(line: &Object<'_>, kind: NodeKind) -> Option<Self> {
        let summary = message::compact_summary(line);
        if kind != NodeKind::Boundary && summary.is_none() {
            return None;
        }
        let kept_segment = PreservedSegment::of(line).ok().flatten().filter(|_| kind == NodeKind::Boundary);
        Some(Self { kept_segment, summary, ..Self::default() })
    }
}

/// What is known of the compactions of a file, by the lines of their boundaries and summaries.
#[derive(Debug, Default)]
pub(super) struct Compactions(HashMap<u64, CompactionData>);

impl Compactions {
    /// Notes what a line says about a compaction.
    pub(super) fn note(&mut self, line: &ObjectLine<'_>, kind: NodeKind) {
        if let Some(data) = CompactionData::of(&line.object, kind) {
            self.0.insert(line.number, data);
        }
    }

    /// The data of a line, if it is a boundary or a summary.
    pub(super) fn of_line(&self, line: u64) -> Option<&CompactionData> {
        self.0.get(&line)
    }

    fn of_node(&self, tree: &Tree<LineData>, at: usize) -> Option<&CompactionData> {
        self.of_line(tree.line(at)?)
    }

    fn of_node_mut(&mut self, tree: &Tree<LineData>, at: usize) -> Option<&mut CompactionData> {
        self.0.get_mut(&tree.line(at)?)
    }

    /// The lines that a boundary keeps.
    fn kept_segment(&self, tree: &Tree<LineData>, boundary: usize) -> Option<&PreservedSegment> {
        self.of_node(tree, boundary)?.kept_segment.as_ref()
    }

    /// The summary, if the boundary names it as the line after which the kept lines continue.
    fn summary_after(&self, tree: &Tree<LineData>, boundary: usize) -> Option<usize> {
        let segment = self.kept_segment(tree, boundary)?;
        let at = tree.nodes_with_id(&segment.anchor).into_iter().find(|found| *found > boundary)?;
        self.of_node(tree, at)?.summary.is_some().then_some(at)
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
    /// The interval of everything before the boundary. The lines that it should keep are not on its path.
    KeptLinesMissing(usize, usize),
}

/// The boundaries of a tree.
fn boundaries(tree: &Tree<LineData>) -> Vec<usize> {
    tree.iter().filter(|(_, data)| data.kind == NodeKind::Boundary).map(|(at, _)| at).collect()
}

/// The last node with this id among the ancestors of a node.
fn ancestor_with_id(tree: &Tree<LineData>, id: &str, below: usize) -> Option<usize> {
    tree.nodes_with_id(id).into_iter().rev().find(|at| *at != below && tree.is_on_path(below, *at))
}

/// After a compaction, lines may name the last kept line as their parent. They get the summary as their parent instead.
/// Returns the parents of all nodes, or `None` if no parent changes.
pub(super) fn adjust_parents(tree: &Tree<LineData>, compactions: &Compactions) -> Option<Parents> {
    let moves = boundaries(tree).into_iter().filter_map(|boundary| {
        let segment = compactions.kept_segment(tree, boundary)?;
        Some((ancestor_with_id(tree, &segment.last_kept_line, boundary)?, compactions.summary_after(tree, boundary)?))
    });
    let moves: Vec<_> = moves.collect();
    if moves.is_empty() {
        return None;
    }
    let mut parents = Parents::default();
    for (at, data) in tree.iter() {
        let mut parent = tree.parent(at);
        for (last_kept_line, summary) in &moves {
            if parent == Some(*last_kept_line) && at > *summary && data.kind != NodeKind::Boundary {
                parent = Some(*summary);
            }
        }
        parents.push(parent);
    }
    Some(parents)
}

/// Derives what each boundary covers.
pub(super) fn derive_coverage(tree: &Tree<LineData>, compactions: &mut Compactions) {
    for at in boundaries(tree) {
        let found = coverage(tree, at, compactions.kept_segment(tree, at));
        if let Some(compaction) = compactions.of_node_mut(tree, at) {
            compaction.coverage = found;
        }
    }
}

/// What a boundary covers. `segment` are the lines that it keeps.
fn coverage(tree: &Tree<LineData>, at: usize, segment: Option<&PreservedSegment>) -> Coverage {
    let Some(parent) = tree.parent(at) else { return Coverage::Nothing };
    let root = tree.root(parent);
    let Some(segment) = segment else { return Coverage::Covers(root, parent) };
    let everything = Coverage::KeptLinesMissing(root, parent);
    let last_kept_line = ancestor_with_id(tree, &segment.last_kept_line, at);
    let first_kept_line =
        last_kept_line.and_then(|last_kept_line| match segment.last_kept_line == segment.first_kept_line {
            true => Some(last_kept_line),
            false => ancestor_with_id(tree, &segment.first_kept_line, last_kept_line),
        });
    let Some((first_kept_line, last_kept_line)) = first_kept_line.zip(last_kept_line) else { return everything };
    if !tree.nodes_with_id(&segment.anchor).contains(&at) {
        return tree.parent(first_kept_line).map_or(Coverage::Nothing, |before| Coverage::Covers(root, before));
    }
    // It keeps the beginning, and summarises what comes after it.
    let mut first = None;
    for above in tree.path(parent).take_while(|above| *above != last_kept_line) {
        if tree.data(above).is_some_and(|data| data.kind == NodeKind::Boundary) {
            return everything;
        }
        first = Some(above);
    }
    first.map_or(Coverage::Nothing, |first| Coverage::Covers(first, parent))
}

/// Finds the summaries that compactions contain, so that their own lines are not sent. `is_stored` says which nodes are
/// stored: a compaction that was stored before its summary does not contain it.
pub(super) fn mark_contained_summaries(
    tree: &mut Tree<LineData>,
    compactions: &mut Compactions,
    is_stored: &dyn Fn(usize) -> bool,
) {
    for boundary in boundaries(tree) {
        let found = compactions.of_node(tree, boundary);
        let keeps_end = found.is_some_and(|found| matches!(found.coverage, Coverage::Covers(..)));
        let Some(summary) = compactions.summary_after(tree, boundary).filter(|_| keeps_end) else { continue };
        let is_too_late = is_stored(boundary) && !is_stored(summary);
        let text = compactions.of_node(tree, summary).and_then(|found| found.summary.clone());
        let text = text.filter(|_| !is_too_late);
        if let Some(data) = tree.data_mut(summary) {
            data.is_contained = text.is_some();
        }
        if let Some(found) = compactions.of_node_mut(tree, boundary) {
            found.summary = text;
        }
    }
}
