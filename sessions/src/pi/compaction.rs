//! Compactions of pi. Only the last compaction on a path counts. It names the first entry that it keeps, and replaces
//! the entries before that entry.

use std::collections::HashMap;

use store_core::{Block, Compaction, Interval, Message, NewBody, Origin, Role, Visibility, context::SUMMARY_MARKER};

use super::{LineData, message};
use crate::{
    issue::Issues,
    json::Object,
    lines::{LinePosition, ObjectLine, note_bad_field},
    tree::Tree,
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
    /// The compaction does not say.
    Nothing,
}

impl FirstKept {
    pub(super) fn of(object: &Object<'_>) -> Self {
        if object.list("retainedTail").is_some() {
            Self::RetainedTail
        } else if let Some(id) = object.text("firstKeptEntryId") {
            Self::Id(id)
        } else {
            object.number("firstKeptEntryIndex").map_or(Self::Nothing, Self::Object)
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
    /// It covers everything before it, and its replacement contains what it keeps: everything from the root on, or
    /// the messages in the compaction.
    Replaces(usize, usize),
}

/// Finds out what each compaction covers. Returns whether the replacement of one of them contains messages of earlier
/// lines.
pub(super) fn resolve_coverage(tree: &mut Tree<LineData>, order: &[usize]) -> bool {
    let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
    let mut by_object: HashMap<usize, usize> = HashMap::new();
    for (at, node) in tree.iter() {
        by_object.insert(node.data.object, at);
        if let Some(source_id) = &node.source_id {
            by_id.entry(source_id.clone()).or_default().push(at);
        }
    }
    // For each node: the root of its path, and whether the path contains a compaction.
    let mut above: HashMap<usize, (usize, bool)> = HashMap::new();
    let mut restores_messages = false;
    for &at in order {
        let parent = tree.parent(at);
        let (root, has_compaction) = parent.and_then(|parent| above.get(&parent).copied()).unwrap_or((at, false));
        let first_kept = tree.get(at).and_then(|node| node.data.first_kept.clone());
        above.insert(at, (root, has_compaction || first_kept.is_some()));
        let Some(first_kept) = first_kept else { continue };
        let Some(parent) = parent else {
            if let Some(data) = tree.data_mut(at) {
                data.coverage = Coverage::Nothing;
            }
            continue;
        };
        let candidates = match &first_kept {
            FirstKept::Id(id) => by_id.get(id).cloned().unwrap_or_default(),
            FirstKept::Object(object) => {
                usize::try_from(*object).ok().and_then(|object| by_object.get(&object)).copied().into_iter().collect()
            }
            FirstKept::RetainedTail | FirstKept::Nothing => Vec::new(),
        };
        let kept = candidates.into_iter().rev().find(|kept| tree.is_on_path(parent, *kept));
        let coverage = match kept {
            _ if first_kept == FirstKept::RetainedTail => Coverage::Replaces(root, parent),
            None => Coverage::FirstKeptMissing(root, parent),
            Some(kept) => match tree.parent(kept) {
                Some(before) => Coverage::Covers(root, before),
                // Everything is kept, so there is nothing to cover. Only the effect of an earlier compaction must be
                // undone.
                None if has_compaction => {
                    restores_messages = true;
                    Coverage::Replaces(root, parent)
                }
                None => Coverage::Nothing,
            },
        };
        if let Some(data) = tree.data_mut(at) {
            data.coverage = coverage;
        }
    }
    restores_messages
}

/// Makes the body of a compaction.
pub(super) fn read_body(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    issues: &mut Issues,
) -> Result<NewBody, String> {
    let summary = line.object.text("summary").ok_or("`summary` is not a string")?;
    let data = position.data().ok_or("a compaction outside of the tree")?;
    let mut compaction = Compaction::default();
    if !summary.is_empty() {
        compaction.summary = vec![Block::text(summary)];
    }
    let (from, to) = match data.coverage {
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
            compaction.replacement = Some(replacement(line, position, &compaction.summary, issues));
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
    issues: &mut Issues,
) -> Vec<Message> {
    let marker = std::iter::once(Block::text(SUMMARY_MARKER));
    let mut messages = Vec::new();
    if !summary.is_empty() {
        messages.push(Message::new(Role::User, marker.chain(summary.iter().cloned()).collect()));
    }
    match line.object.list("retainedTail") {
        Some(tail) => {
            for raw in tail {
                let message = Object::parse(raw).ok_or_else(|| "a kept message that is not an object".to_owned());
                let read = |object: Object<'_>| message::read(line.number, &object, None::<&Origin>, issues);
                match message.and_then(read) {
                    Ok(message) => messages.push(message),
                    Err(detail) => note_bad_field(issues, line.number, detail),
                }
            }
        }
        None => {
            let mut kept: Vec<_> = position.at.into_iter().flat_map(|at| position.tree.path(at)).collect();
            kept.reverse();
            messages.extend(kept.iter().filter_map(|at| position.earlier.messages.get(at)).cloned());
        }
    }
    messages.retain(|message| message.visibility != Visibility::Aside);
    messages
}
