//! Compactions of pi. Only the last compaction on a path counts. It names the first entry that it keeps, and replaces
//! the entries before that entry.

use std::collections::HashMap;

use store_core::{Block, Compaction, Interval, Message, NewBody, Role, Visibility, context::SUMMARY_MARKER};

use super::{
    LineData, SparseData,
    calls::{CallsSoFar, name_of_message, source_call_ids, source_result_id},
    edits::{self, Edits},
    message::{self, MessageSource},
};
use crate::{
    compact::BitSet,
    issue::Issues,
    json::Object,
    lines::{LinePosition, ObjectLine, note_bad_field},
    tree::{InheritedValues, PathOrder, Tree},
};

/// The first entry that a compaction keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FirstKept {
    /// The entry with this id.
    Id(String),
    /// The JSON object of the file with this number, where the header is 0.
    Object(u64),
    /// The compaction contains the messages that it keeps.
    RetainedTail,
    /// The compaction names no first entry.
    NotGiven,
}

impl FirstKept {
    pub(super) fn of(object: &Object<'_>) -> Self {
        if object.list("retainedTail").is_some() {
            Self::RetainedTail
        } else if let Some(id) = object.text("firstKeptEntryId") {
            Self::Id(id)
        } else {
            object.number("firstKeptEntryIndex").map_or(Self::NotGiven, Self::Object)
        }
    }
}

/// What a compaction covers on its path, as positions in the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// It covers nothing.
    #[default]
    Nothing,
    /// It covers the interval from the first to the second position.
    Covers(usize, usize),
    /// It covers everything before it, because the first entry that it keeps is not on its path.
    FirstKeptMissing(usize, usize),
    /// It covers everything before it. Its replacement contains the messages that it keeps: all messages from the root
    /// on, or those in the line of the compaction.
    Replaces(usize, usize),
}

impl Coverage {
    /// The last node that is covered.
    const fn end(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Covers(_, to) | Self::FirstKeptMissing(_, to) | Self::Replaces(_, to) => Some(to),
        }
    }
}

/// The compactions of a file, by the numbers of their lines.
#[derive(Debug, Default)]
pub(super) struct Compactions {
    first_kept: HashMap<u64, FirstKept>,
    coverage: HashMap<u64, Coverage>,
    /// The nodes on the paths of compactions whose replacements contain messages of earlier lines.
    needed_nodes: BitSet,
}

impl Compactions {
    /// Notes a compaction.
    pub(super) fn note(&mut self, line: u64, first_kept: FirstKept) {
        self.first_kept.insert(line, first_kept);
    }

    /// Whether the replacement of a compaction may contain the message of a node.
    pub(super) fn needs_message(&self, at: usize) -> bool {
        self.needed_nodes.contains(at)
    }
}

/// What the path of a node contains.
#[derive(Debug, Clone, Copy, Default)]
struct PathInfo {
    /// Whether the path contains a compaction.
    has_compaction: bool,
    /// The last node that the last compaction covers.
    covered_to: Option<usize>,
}

/// The nodes that may be the first entry that a compaction keeps.
fn nodes_of_first_kept(tree: &Tree<LineData>, sparse_data: &SparseData, first_kept: &FirstKept) -> Vec<usize> {
    match first_kept {
        FirstKept::Id(id) => tree.nodes_with_id(id),
        FirstKept::Object(object) => {
            let line = u32::try_from(*object).ok().and_then(|object| sparse_data.objects.get(object));
            line.and_then(|line| tree.position(u64::from(line))).into_iter().collect()
        }
        FirstKept::RetainedTail | FirstKept::NotGiven => Vec::new(),
    }
}

/// Finds out what each compaction covers, and which message each edit changes.
pub(super) fn resolve_coverage(tree: &Tree<LineData>, order: &PathOrder, sparse_data: &mut SparseData) {
    let (mut coverages, mut targets, mut needed_nodes) = (HashMap::new(), HashMap::new(), BitSet::default());
    let lines = sparse_data.compactions.first_kept.keys().copied().chain(sparse_data.edits.lines());
    let changes = lines.filter_map(|line| tree.position(line)).collect();
    let _paths = InheritedValues::of(tree, order, &changes, &mut |at, inherited: Option<PathInfo>| {
        let mut path = inherited.unwrap_or_default();
        let parent = tree.parent(at);
        let line = tree.line(at).unwrap_or_default();
        if let Some(candidates) = sparse_data.edits.candidates(tree, line) {
            let target = edits::find_target(tree, at, (&candidates, path.covered_to));
            targets.extend(target.map(|target| (line, target)));
        }
        if let Some(first_kept) = sparse_data.compactions.first_kept.get(&line) {
            let coverage = parent.map_or(Coverage::Nothing, |parent| {
                let kept = nodes_of_first_kept(tree, sparse_data, first_kept);
                coverage_of(tree, first_kept, (path, (at, parent), &kept))
            });
            if matches!(coverage, Coverage::Replaces(..)) && *first_kept != FirstKept::RetainedTail {
                for node in tree.path(at) {
                    if needed_nodes.contains(node) {
                        break;
                    }
                    needed_nodes.insert(node);
                }
            }
            path = PathInfo { has_compaction: true, covered_to: coverage.end() };
            coverages.insert(line, coverage);
        }
        Some(path)
    });
    (sparse_data.compactions.coverage, sparse_data.compactions.needed_nodes) = (coverages, needed_nodes);
    sparse_data.edits.set_targets(targets);
}

/// What a compaction at `at` covers. `kept` are the nodes that may be the first entry that it keeps.
fn coverage_of(
    tree: &Tree<LineData>,
    first_kept: &FirstKept,
    (path, (at, parent), kept): (PathInfo, (usize, usize), &[usize]),
) -> Coverage {
    let root = tree.root(parent);
    if *first_kept == FirstKept::RetainedTail {
        return Coverage::Replaces(root, parent);
    }
    match kept.iter().rev().copied().find(|kept| tree.is_on_path(parent, *kept)) {
        // A compaction that names itself keeps nothing.
        None if kept.contains(&at) => Coverage::Covers(root, parent),
        None => Coverage::FirstKeptMissing(root, parent),
        Some(kept) => match tree.parent(kept) {
            Some(before) => Coverage::Covers(root, before),
            // Everything is kept, so there is nothing to cover. Only the effect of an earlier compaction must be
            // undone.
            None if path.has_compaction => Coverage::Replaces(root, parent),
            None => Coverage::Nothing,
        },
    }
}

/// Makes the body of a compaction.
pub(super) fn read_body(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    sparse_data: &SparseData,
    issues: &mut Issues,
) -> Result<NewBody, String> {
    let summary = line.object.text("summary").ok_or("`summary` is not a string")?;
    let coverage = sparse_data.compactions.coverage.get(&line.number).ok_or("a compaction outside of the tree")?;
    let mut compaction = Compaction::default();
    if !summary.is_empty() {
        compaction.summary = vec![Block::text(summary)];
    }
    let (from, to) = match *coverage {
        Coverage::Nothing => return Ok(compaction.into()),
        Coverage::Covers(from, to) => (from, to),
        Coverage::FirstKeptMissing(from, to) => {
            note_bad_field(
                issues,
                line.number,
                "the first entry that it keeps is not on its path: nothing before it is kept",
            );
            (from, to)
        }
        Coverage::Replaces(from, to) => {
            compaction.replacement = Some(replacement(line, position, &compaction.summary, (sparse_data, issues)));
            (from, to)
        }
    };
    let ends = position.id_of(from).zip(position.id_of(to));
    compaction.covers = ends.map(|(from, to)| Interval::new(from, to));
    Ok(compaction.into())
}

/// Makes the replacement: the summary, and the messages that are kept.
fn replacement(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    summary: &[Block],
    (sparse_data, issues): (&SparseData, &mut Issues),
) -> Vec<Message> {
    let marker = std::iter::once(Block::text(SUMMARY_MARKER));
    let mut messages = Vec::new();
    if !summary.is_empty() {
        messages.push(Message::new(Role::User, marker.chain(summary.iter().cloned()).collect()));
    }
    match line.object.list("retainedTail") {
        Some(tail) => messages.extend(read_tail(line, &tail, issues)),
        None => messages.extend(kept_messages(position, &sparse_data.edits)),
    }
    messages.retain(|message| message.visibility != Visibility::Aside);
    messages
}

/// Reads the messages that the compaction itself contains.
fn read_tail(line: &ObjectLine<'_>, tail: &[&str], issues: &mut Issues) -> Vec<Message> {
    let compaction_name = name_of_message(line.object.text("id").as_deref(), line.number);
    let mut calls = CallsSoFar::default();
    let mut messages = Vec::new();
    for (at, raw) in tail.iter().enumerate() {
        let Some(object) = Object::parse(raw) else {
            note_bad_field(issues, line.number, "a kept message that is not an object");
            continue;
        };
        let name = format!("{compaction_name}.{at}");
        calls.add(&source_call_ids(&object), &name);
        let answered_call = source_result_id(&object).and_then(|id| calls.answer(&id));
        let source = MessageSource {
            line: line.number,
            name: &name,
            answered_call: answered_call.as_deref(),
            ..MessageSource::default()
        };
        match message::read(source, &object, issues) {
            Ok(message) => messages.push(message),
            Err(detail) => note_bad_field(issues, line.number, detail),
        }
    }
    messages
}

/// The messages on the path, after the edits on the path.
fn kept_messages(position: &LinePosition<'_, LineData>, edits: &Edits) -> Vec<Message> {
    let Some(at) = position.at else { return Vec::new() };
    let newest_edits = edits::newest_edits(edits, position.tree, at);
    let mut nodes: Vec<_> = position.tree.path(at).collect();
    nodes.reverse();
    let message = |at: usize| match newest_edits.get(&at) {
        Some(edit) => position.earlier.replacements.get(edit).cloned().unwrap_or_default(),
        None => position.earlier.messages.get(&at).cloned().into_iter().collect(),
    };
    nodes.into_iter().flat_map(message).collect()
}
