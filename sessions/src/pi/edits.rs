//! Edits of the context: lines that leave an earlier message out of the context or replace its content. The log keeps
//! the message.

use std::collections::{HashMap, HashSet};

use store_core::{BlockKind, Compaction, Interval, Message, NewBody, Role};

use super::{
    LineData, blocks,
    calls::{name_of_message, source_call_ids, unique_call_ids},
};
use crate::{
    blocks::MessageBlocks,
    issue::Issues,
    json::Object,
    lines::{LinePosition, ObjectLine},
    tree::Tree,
};

/// The message that an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditTarget {
    /// The node at this position.
    Message(usize),
    /// A compaction before the edit covers the message, so the message is not in the context.
    Covered,
}

/// The edits of a file, by the numbers of their lines.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// The ids that the edits name.
    target_ids: HashMap<u64, String>,
    targets: HashMap<u64, EditTarget>,
    /// The messages that the edits change.
    edited_messages: HashSet<usize>,
}

impl Edits {
    /// Notes an edit, and the id that it names.
    pub(super) fn note(&mut self, line: u64, target_id: Option<String>) {
        self.target_ids.extend(target_id.map(|target_id| (line, target_id)));
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = u64> {
        self.target_ids.keys().copied()
    }

    /// The nodes that an edit may mean. Returns `None` if the line is not an edit.
    pub(super) fn candidates(&self, tree: &Tree<LineData>, line: u64) -> Option<Vec<usize>> {
        self.target_ids.get(&line).map(|target_id| tree.nodes_with_id(target_id))
    }

    /// Sets the targets of the edits.
    pub(super) fn set_targets(&mut self, targets: HashMap<u64, EditTarget>) {
        let message = |target: &EditTarget| match target {
            EditTarget::Message(at) => Some(*at),
            EditTarget::Covered => None,
        };
        self.edited_messages = targets.values().filter_map(message).collect();
        self.targets = targets;
    }

    /// Whether an edit changes a message.
    pub(super) fn needs_message(&self, at: usize) -> bool {
        self.edited_messages.contains(&at)
    }
}

/// Finds the target of an edit on its path. `covered_to` is the last node that the last compaction before the
/// edit covers.
pub(super) fn find_target(
    tree: &Tree<LineData>,
    at: usize,
    (candidates, covered_to): (&[usize], Option<usize>),
) -> Option<EditTarget> {
    let parent = tree.parent(at)?;
    let target = candidates.iter().rev().copied().find(|target| tree.is_on_path(parent, *target))?;
    // An edit becomes a compaction of one message. If an earlier compaction begins at the root, an edit of the root
    // would hide it: of the compactions that begin at the root, only the newest applies. An edit of any other
    // covered message lies inside the earlier compaction and has no effect.
    let is_covered = tree.parent(target).is_none() && covered_to.is_some_and(|to| tree.is_on_path(to, target));
    Some(if is_covered { EditTarget::Covered } else { EditTarget::Message(target) })
}

/// For each edited message: the node of its newest edit on the path of a node.
pub(super) fn newest_edits(edits: &Edits, tree: &Tree<LineData>, at: usize) -> HashMap<usize, usize> {
    let mut newest = HashMap::new();
    if edits.targets.is_empty() {
        return newest;
    }
    for node in tree.path(at) {
        if let Some(EditTarget::Message(target)) = tree.line(node).and_then(|line| edits.targets.get(&line)) {
            newest.entry(*target).or_insert(node);
        }
    }
    newest
}

/// Makes the body of an edit: a compaction that covers only the message and contains what replaces it. The result is
/// `None` for an edit that has no effect.
pub(super) fn read_body(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    edits: &Edits,
    issues: &mut Issues,
) -> Result<Option<NewBody>, String> {
    let target_id = line.object.text("targetId").ok_or("`targetId` is not a string")?;
    let target = match edits.targets.get(&line.number) {
        None => return Err(format!("`{target_id}` is not on the path of its edit")),
        Some(EditTarget::Covered) => return Ok(None),
        Some(EditTarget::Message(target)) => *target,
    };
    let message = position.earlier.messages.get(&target).ok_or_else(|| format!("`{target_id}` is not a message"))?;
    let id = position.id_of(target).ok_or("the edited line has no id")?;
    let replacement = match line.object.raw("replacement") {
        None => return Err("`replacement` is missing".to_owned()),
        Some("null") => Vec::new(),
        Some(raw) => {
            let target_line = position.tree.line(target).unwrap_or_default();
            let name = name_of_message(position.tree.source_id(target).as_deref(), target_line);
            vec![edited_message(message, raw, (line.number, &name, issues))?]
        }
    };
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id.clone(), id));
    compaction.replacement = Some(replacement);
    Ok(Some(compaction.into()))
}

/// The message with other content: `{"content": …}`, a text, or a list of blocks.
fn edited_message(
    message: &Message,
    replacement: &str,
    (line, message_name, issues): (u64, &str, &mut Issues),
) -> Result<Message, String> {
    let wrapped;
    let object = match Object::parse(replacement) {
        Some(object) => object,
        None => {
            wrapped = format!("{{\"content\":{replacement}}}");
            Object::parse(&wrapped).ok_or("`replacement` is not JSON")?
        }
    };
    let origin = message.provenance.as_ref().and_then(|provenance| provenance.origin.clone());
    let mut list = MessageBlocks::new(line, origin.unwrap_or_else(|| store_core::Origin::new("pi")), issues);
    let is_assistant = message.role == Role::Assistant;
    let call_ids = unique_call_ids(&source_call_ids(&object), message_name);
    blocks::read_content(&object, is_assistant.then_some(call_ids), &mut list)?;
    let mut message = message.clone();
    let content = list.list;
    match message.blocks.iter_mut().find_map(|block| match &mut block.kind {
        BlockKind::ToolResult(result) => Some(result),
        _ => None,
    }) {
        Some(result) => result.blocks = content,
        None => message.blocks = content,
    }
    Ok(message)
}
