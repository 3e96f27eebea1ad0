//! Makes the context of a leaf from its parts, or from the context of an earlier entry of its path. Both are pure
//! functions, which all backends use (CX-1 to CX-10, CX-17, CX-19).

use std::sync::Arc;

use super::{
    Context, ContextMessage, ContextPart, ContextRequest, Repair, RepairKind, budget, merge,
    message_draft::{self, MessageDraft},
    pair,
};
use crate::log::{BodyKind, Entry, Origin};

/// Makes the context of a leaf from its [`parts`](super::parts), each with its entry, in order from the root. The entry
/// of a summary is its compaction.
///
/// The steps, in this order: select the messages for the model, merge entries that form one message, put results
/// directly after their calls, leave out empty messages, and leave out the oldest turns that exceed the budget.
#[must_use]
pub fn build(parts: Vec<(ContextPart, Arc<Entry>)>, request: &ContextRequest) -> Context {
    let origin = last_origin(&parts);
    let drafts = parts.into_iter().flat_map(|(part, entry)| message_draft::drafts_of_part(part, entry)).collect();
    finish_context(drafts, origin, request)
}

/// Extends the context `base` of an earlier entry of a path by the `entries` that follow, in order. The result is the
/// context that [`build`] makes of the whole path.
///
/// Returns none if messages of `base` were repaired or left out, or if one of the entries is a compaction. The context
/// must then be made from the whole path.
#[must_use]
pub fn extend(base: &Context, entries: &[Arc<Entry>], request: &ContextRequest) -> Option<Context> {
    let is_unchanged = base.repairs.is_empty() && base.left_out.is_empty();
    if !is_unchanged || entries.iter().any(|entry| entry.kind() == BodyKind::Compaction) {
        return None;
    }
    let added_entries = || entries.iter().filter(|entry| !entry.side);
    let origin = added_entries().rev().find_map(|entry| entry.body.origin()).or(base.origin.as_ref()).cloned();
    let drafts_of =
        |entry: &Arc<Entry>| message_draft::drafts_of_part(ContextPart::Entry(entry.seq), Arc::clone(entry));
    let base_drafts = base.messages.iter().cloned().map(MessageDraft::from);
    Some(finish_context(base_drafts.chain(added_entries().flat_map(drafts_of)).collect(), origin, request))
}

/// Makes the context of messages that are in the order of their path.
fn finish_context(drafts: Vec<MessageDraft>, origin: Option<Origin>, request: &ContextRequest) -> Context {
    let mut repairs = Vec::new();
    let drafts = merge::merge_split_messages(drafts, &mut repairs);
    let drafts = pair::pair_calls_with_results(drafts, request.open_calls, &mut repairs);
    let drafts = drop_empty_messages(drafts, &mut repairs);
    let (drafts, left_out) = budget::drop_oldest_turns(drafts, request.budget.as_ref());
    Context { messages: drafts.into_iter().map(ContextMessage::from).collect(), repairs, left_out, origin }
}

/// Returns the provider and model that were last in effect (CX-1): those of the last message that names them, or else
/// of the last compaction that names them.
fn last_origin(parts: &[(ContextPart, Arc<Entry>)]) -> Option<Origin> {
    let entries_with_origin = parts.iter().map(|(_, entry)| entry).filter(|entry| entry.body.origin().is_some());
    let last_entry = entries_with_origin.max_by_key(|entry| (entry.message().is_some(), entry.seq))?;
    last_entry.body.origin().cloned()
}

/// Leaves out messages without blocks (CX-9).
fn drop_empty_messages(drafts: Vec<MessageDraft>, repairs: &mut Vec<Repair>) -> Vec<MessageDraft> {
    let (kept, empty): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| !draft.message.blocks.is_empty());
    let dropped = empty.into_iter().map(|draft| Repair::new(draft.entry, RepairKind::EmptyMessageDropped, None));
    repairs.extend(dropped);
    kept
}
