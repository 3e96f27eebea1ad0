//! One message of a provider, logged as several entries, becomes one again (CX-17).

use super::{
    Repair, RepairKind,
    draft::{Draft, Part},
};
use crate::log::{BlockKind, Message, Role};

/// Merges assistant messages of one provider's message id, with nothing but results between them, at the place of the
/// first.
pub(super) fn merge(drafts: Vec<Draft>, repairs: &mut Vec<Repair>) -> Vec<Draft> {
    let mut out: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut open: Option<usize> = None;
    for draft in drafts {
        let first = open.and_then(|at| out.get_mut(at)).filter(|first| is_same(first, &draft));
        if let Some(first) = first {
            repairs.push(Repair::new(draft.entry.clone(), RepairKind::MessagesMerged, None));
            first.merged.push(draft.entry);
            absorb(&mut first.message, draft.message);
            continue;
        }
        if draft.role() != Role::Tool {
            open = (draft.part == Part::Logged && draft.role() == Role::Assistant).then_some(out.len());
        }
        out.push(draft);
    }
    out
}

fn is_same(first: &Draft, next: &Draft) -> bool {
    let mergeable = next.part == Part::Logged && next.role() == Role::Assistant;
    mergeable && message_id(&first.message).is_some() && message_id(&first.message) == message_id(&next.message)
}

/// The provider and its own id of the message.
fn message_id(message: &Message) -> Option<(Option<&str>, &str)> {
    let provenance = message.provenance.as_ref()?;
    let provider = provenance.origin.as_ref().map(|origin| origin.provider.as_str());
    Some((provider, provenance.message_id.as_deref()?))
}

/// Adds what `next` says to `first`. Of what a provider tells about the whole message the last word counts; a call that
/// stands there already is the same call, written twice.
fn absorb(first: &mut Message, next: Message) {
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
