//! Merges messages that a provider sent as one message, but that were logged as several entries (CX-17).

use super::{
    Repair, RepairKind,
    message_draft::{MessageDraft, MessageKind},
};
use crate::log::{BlockKind, Message, Role};

/// Merges assistant messages that have the same message id of the same provider, if there are only results between
/// them. The merged message takes the position of the first.
pub(super) fn merge_split_messages(drafts: Vec<MessageDraft>, repairs: &mut Vec<Repair>) -> Vec<MessageDraft> {
    let mut merged_drafts: Vec<MessageDraft> = Vec::with_capacity(drafts.len());
    let mut continuable_index: Option<usize> = None;
    for draft in drafts {
        let first =
            continuable_index.and_then(|at| merged_drafts.get_mut(at)).filter(|first| continues_message(first, &draft));
        if let Some(first) = first {
            repairs.push(Repair::new(draft.entry.clone(), RepairKind::MessagesMerged, None));
            first.merged.push(draft.entry);
            append_content(&mut first.message, draft.message);
            continue;
        }
        if draft.role() != Role::Tool {
            continuable_index =
                (draft.kind == MessageKind::Logged && draft.role() == Role::Assistant).then_some(merged_drafts.len());
        }
        merged_drafts.push(draft);
    }
    merged_drafts
}

fn continues_message(first: &MessageDraft, next: &MessageDraft) -> bool {
    let is_mergeable = next.kind == MessageKind::Logged && next.role() == Role::Assistant;
    is_mergeable && message_id(&first.message).is_some() && message_id(&first.message) == message_id(&next.message)
}

/// Returns the provider of a message and the provider's own id of it.
fn message_id(message: &Message) -> Option<(Option<&str>, &str)> {
    let provenance = message.provenance.as_ref()?;
    let provider = provenance.origin.as_ref().map(|origin| origin.provider.as_str());
    Some((provider, provenance.message_id.as_deref()?))
}

/// Adds the content of `next` to `first`.
///
/// Usage, stop and metadata are about the whole message, so the last value counts. A call that `first` already has is
/// the same call written twice, and is not added.
fn append_content(first: &mut Message, next: Message) {
    for block in next.blocks {
        let is_known = match &block.kind {
            BlockKind::ToolUse(call) => has_call(first, &call.id),
            _ => false,
        };
        if !is_known {
            first.blocks.push(block);
        }
    }
    first.usage = next.usage.or(first.usage.take());
    first.stop = next.stop.or(first.stop.take());
    first.metadata.extend(next.metadata);
}

fn has_call(message: &Message, id: &str) -> bool {
    message.blocks.iter().any(|block| matches!(&block.kind, BlockKind::ToolUse(call) if call.id == id))
}
