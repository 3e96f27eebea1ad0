//! Makes the context of a path (CX-1 to CX-10, CX-17) in several passes. Each pass applies a few rules.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    Block, BlockKind, Body, Compaction, Context, ContextMessage, ContextRequest, Entry, EntryId, Message, Origin,
    Repair, RepairKind, Role, Visibility, context::SUMMARY_MARKER,
};

use super::{budget::fit_to_budget, bug::Bug, entries::covered_range, pairing::pair_results, tree::LogTree};

/// A message of a context during its construction, with the entry that it comes from.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) entry: EntryId,
    /// Whether the message was made from a compaction or by a repair. Otherwise it is the body of an entry.
    pub(super) is_synthetic: bool,
    /// The entries whose messages were merged into this message.
    pub(super) merged_entries: Vec<EntryId>,
    pub(super) message: Message,
}

impl Piece {
    /// Returns the message that is the body of `entry`.
    pub(super) const fn of_entry(entry: EntryId, message: Message) -> Self {
        Self { entry, is_synthetic: false, merged_entries: Vec::new(), message }
    }

    /// Returns a message that was made from the compaction `entry`, or by a repair after `entry`.
    pub(super) const fn synthetic(entry: EntryId, message: Message) -> Self {
        Self { entry, is_synthetic: true, merged_entries: Vec::new(), message }
    }

    /// Returns whether the message replaces the interval of a compaction. The only other synthetic messages are tool
    /// messages with results that were added for open calls.
    pub(super) fn is_summary(&self) -> bool {
        self.is_synthetic && self.message.role != Role::Tool
    }
}

/// Returns the context of the path of `leaf`.
pub(super) fn context(
    tree: LogTree<'_>,
    leaf: Option<&EntryId>,
    request: &ContextRequest,
    bug: Option<Bug>,
) -> Context {
    let path = tree.path(leaf);
    let mut repairs = Vec::new();
    let pieces = pieces(tree, &path, bug);
    let pieces = merge_messages(pieces, &mut repairs);
    let pieces = pair_results(&pieces, request.open_calls, bug, &mut repairs);
    let (kept, empty): (Vec<_>, Vec<_>) = pieces.into_iter().partition(|piece| !piece.message.blocks.is_empty());
    let repair_for_empty = |piece: &Piece| Repair::new(piece.entry.clone(), RepairKind::EmptyMessageDropped, None);
    repairs.extend(empty.iter().map(repair_for_empty));
    let mut context = Context::default();
    let (kept, left_out) = fit_to_budget(kept, request.budget.as_ref());
    context.left_out = left_out;
    let to_context_message = |piece: Piece| ContextMessage::new(piece.entry, piece.is_synthetic, piece.message);
    context.messages = kept.into_iter().map(to_context_message).collect();
    context.repairs = repairs;
    context.origin = origin(&path);
    context
}

/// Returns the provider and the model of the last message on the path that names them. If no message does, returns
/// those of the last replacement message of a compaction that names them.
fn origin(path: &[&Arc<Entry>]) -> Option<Origin> {
    let origin_of_message = |message: &Message| message.provenance.as_ref()?.origin.clone();
    let origin_of_replacement = |entry: &&Arc<Entry>| match &*entry.body {
        Body::Compaction(compaction) => compaction.replacement.iter().flatten().rev().find_map(origin_of_message),
        _ => None,
    };
    let from_message = path.iter().rev().find_map(|entry| origin_of_message(entry.message()?));
    from_message.or_else(|| path.iter().rev().find_map(origin_of_replacement))
}

/// Returns the messages of the path, with a summary in place of each covered interval (CX-2 to CX-5).
fn pieces(tree: LogTree<'_>, path: &[&Arc<Entry>], bug: Option<Bug>) -> Vec<Piece> {
    let compaction_of = |entry: &Arc<Entry>| match &*entry.body {
        Body::Compaction(compaction) => Some((Arc::clone(entry), compaction.clone())),
        _ => None,
    };
    let compactions: Vec<_> = match bug {
        Some(Bug::ForeignCompaction) => tree.entries.iter().filter_map(compaction_of).collect(),
        _ => path.iter().copied().filter_map(compaction_of).collect(),
    };
    // For the first index of each interval: its last index, and the compaction that covers it. Of several compactions
    // whose intervals begin at the same entry, the last one counts (CX-4).
    let mut outermost_compactions: BTreeMap<usize, (usize, &Arc<Entry>, &Compaction)> = BTreeMap::new();
    for (entry, compaction) in &compactions {
        if let Some((from, to)) = covered_range(path, compaction) {
            outermost_compactions.insert(from, (to, entry, compaction));
        }
    }
    let intervals: Vec<_> = outermost_compactions.iter().map(|(from, (to, ..))| (*from, *to)).collect();
    let is_inside = |from: usize, to: usize| {
        intervals
            .iter()
            .any(|&(other_from, other_to)| (other_from, other_to) != (from, to) && other_from <= from && to <= other_to)
    };
    // An interval inside another one is covered by the summary of the other one.
    outermost_compactions.retain(|from, (to, ..)| !is_inside(*from, *to));
    let mut pieces = Vec::new();
    let root_interval_end = outermost_compactions.get(&0).map(|(to, ..)| *to);
    if let Some((entry, compaction)) = compaction_at_start(path, &compactions, root_interval_end) {
        pieces.extend(summary_messages(entry, compaction));
    }
    for (index, entry) in path.iter().enumerate() {
        let covering_compaction =
            outermost_compactions.range(..=index).next_back().filter(|(_, (to, ..))| index <= *to);
        match (covering_compaction, &*entry.body) {
            (Some((from, (_, compaction_entry, compaction))), _) if *from == index => {
                pieces.extend(summary_messages(compaction_entry, compaction));
            }
            (Some(_), _) => {}
            (None, Body::Message(message)) => {
                pieces.push(Piece::of_entry(entry.id.clone(), message.clone()));
            }
            (None, _) => {}
        }
    }
    pieces.retain(|piece| piece.message.visibility != Visibility::Aside || bug == Some(Bug::AsideInContext));
    pieces
}

/// Returns the compaction whose summary comes before the first message: the latest one without `covers`. Returns `None`
/// if this compaction is itself in a covered interval that begins at the root of the path.
fn compaction_at_start<'a>(
    path: &[&Arc<Entry>],
    compactions: &'a [(Arc<Entry>, Compaction)],
    root_interval_end: Option<usize>,
) -> Option<&'a (Arc<Entry>, Compaction)> {
    let found = compactions.iter().rev().find(|(_, compaction)| compaction.covers.is_none())?;
    let (compaction_entry, _) = found;
    let index = path.iter().position(|entry| entry.id == compaction_entry.id)?;
    root_interval_end.is_none_or(|to| to < index).then_some(found)
}

/// Returns the messages that replace a covered interval.
fn summary_messages(entry: &Arc<Entry>, compaction: &Compaction) -> Vec<Piece> {
    let messages = match &compaction.replacement {
        Some(messages) => messages.clone(),
        None if compaction.summary.is_empty() => Vec::new(),
        None => {
            let mut blocks = vec![Block::text(SUMMARY_MARKER)];
            blocks.extend(compaction.summary.iter().cloned());
            vec![Message::new(Role::User, blocks)]
        }
    };
    let to_piece = |message| Piece::synthetic(entry.id.clone(), message);
    messages.into_iter().map(to_piece).collect()
}

/// Merges assistant entries that are parts of one message of a provider, if there are only results between them
/// (CX-17).
fn merge_messages(pieces: Vec<Piece>, repairs: &mut Vec<Repair>) -> Vec<Piece> {
    let mut merged_pieces: Vec<Piece> = Vec::new();
    for piece in pieces {
        let last_index = merged_pieces.iter().rposition(|earlier| earlier.message.role != Role::Tool);
        let target =
            last_index.and_then(|at| merged_pieces.get_mut(at)).filter(|earlier| is_same_message(earlier, &piece));
        let Some(target) = target else {
            merged_pieces.push(piece);
            continue;
        };
        repairs.push(Repair::new(piece.entry.clone(), RepairKind::MessagesMerged, None));
        target.merged_entries.push(piece.entry);
        let known_calls = call_ids(&target.message);
        let is_new = |block: &Block| match &block.kind {
            BlockKind::ToolUse(call) => !known_calls.contains(&call.id),
            _ => true,
        };
        target.message.blocks.extend(piece.message.blocks.into_iter().filter(is_new));
        target.message.usage = piece.message.usage.or(target.message.usage.take());
        target.message.stop = piece.message.stop.or(target.message.stop.take());
        target.message.metadata.extend(piece.message.metadata);
    }
    merged_pieces
}

fn is_same_message(one: &Piece, other: &Piece) -> bool {
    let provider_message = |piece: &Piece| {
        let provenance = piece.message.provenance.clone()?;
        Some((provenance.origin.map(|origin| origin.provider), provenance.message_id?))
    };
    let is_assistant_entry = |piece: &Piece| !piece.is_synthetic && piece.message.role == Role::Assistant;
    is_assistant_entry(one)
        && is_assistant_entry(other)
        && provider_message(one).is_some()
        && provider_message(one) == provider_message(other)
}

fn call_ids(message: &Message) -> Vec<String> {
    let call_id = |block: &Block| match &block.kind {
        BlockKind::ToolUse(call) => Some(call.id.clone()),
        _ => None,
    };
    message.blocks.iter().filter_map(call_id).collect()
}
