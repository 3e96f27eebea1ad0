//! Makes the context of a leaf from its parts. This is a pure function, which all backends use (CX-1 to CX-10, CX-17,
//! CX-19).

use std::sync::Arc;

use super::{
    Context, ContextMessage, ContextPart, ContextRequest, Repair, RepairKind, budget, merge,
    message_draft::{self, MessageDraft},
    pair,
};
use crate::log::{Entry, Origin};

/// Makes the context of a leaf from its [`parts`](super::parts), each with its entry, in order from the root. The entry
/// of a summary is its compaction.
///
/// The steps, in this order: select the messages for the model, merge entries that are one message, put results
/// directly after their calls, leave out empty messages, and leave out the oldest turns that exceed the budget.
#[must_use]
pub fn build(parts: Vec<(ContextPart, Arc<Entry>)>, request: &ContextRequest) -> Context {
    let mut repairs = Vec::new();
    let origin = origin(&parts);
    let drafts = parts.into_iter().flat_map(|(part, entry)| message_draft::drafts_of_part(part, entry)).collect();
    let drafts = merge::merge_split_messages(drafts, &mut repairs);
    let drafts = pair::pair_calls_with_results(drafts, request.open_calls, &mut repairs);
    let drafts = drop_empty(drafts, &mut repairs);
    let (drafts, left_out) = budget::drop_oldest_turns(drafts, request.budget.as_ref());
    Context { messages: drafts.into_iter().map(ContextMessage::from).collect(), repairs, left_out, origin }
}

/// Returns the provider and model that were last in effect (CX-1): those of the last message that names them, or else
/// of the last compaction that names them.
fn origin(parts: &[(ContextPart, Arc<Entry>)]) -> Option<Origin> {
    let named = parts.iter().map(|(_, entry)| entry).filter(|entry| entry.body.origin().is_some());
    let last = named.max_by_key(|entry| (entry.message().is_some(), entry.seq))?;
    last.body.origin().cloned()
}

/// Leaves out messages without blocks (CX-9).
fn drop_empty(drafts: Vec<MessageDraft>, repairs: &mut Vec<Repair>) -> Vec<MessageDraft> {
    let (kept, empty): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| !draft.message.blocks.is_empty());
    let dropped = empty.into_iter().map(|draft| Repair::new(draft.entry, RepairKind::EmptyMessageDropped, None));
    repairs.extend(dropped);
    kept
}
