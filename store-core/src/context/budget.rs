//! Makes a context fit a budget: leaves out its oldest turns (CX-19).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Budget,
    message_draft::{MessageDraft, MessageKind},
};
use crate::{
    id::EntryId,
    log::{Message, Role},
};

/// Leaves out the oldest turns until the remaining messages fit. Returns the messages that stay, and the entries of the
/// messages that were left out. System messages, the last summary and the newest turn stay, whatever their size.
///
/// A turn begins with user messages and ends before the next ones, so that no call is separated from its result. An
/// earlier summary is a turn of its own.
pub(super) fn drop_oldest_turns(
    drafts: Vec<MessageDraft>,
    budget: Option<&Budget>,
) -> (Vec<MessageDraft>, Vec<EntryId>) {
    let Some(budget) = budget else { return (drafts, Vec::new()) };
    let turns = turns(&drafts);
    let (mut sizes, mut remaining_size) = (BTreeMap::new(), 0_u64);
    for (draft, turn) in drafts.iter().zip(&turns) {
        let size = budget.size(&draft.message);
        remaining_size = remaining_size.saturating_add(size);
        if let Some(turn) = *turn {
            let sum: &mut u64 = sizes.entry(turn).or_default();
            *sum = sum.saturating_add(size);
        }
    }
    // The newest turn always stays.
    sizes.pop_last();
    let mut last_dropped = 0;
    for (turn, size) in sizes {
        if remaining_size <= budget.max() {
            break;
        }
        remaining_size = remaining_size.saturating_sub(size);
        last_dropped = turn;
    }
    let (mut kept, mut left_out, mut seen_entries) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (draft, turn) in drafts.into_iter().zip(turns) {
        if turn.is_none_or(|turn| turn > last_dropped) {
            kept.push(draft);
            continue;
        }
        // One entry with several results can be the source of several messages.
        let entries = std::iter::once(draft.entry).chain(draft.merged);
        left_out.extend(entries.filter(|entry| seen_entries.insert(entry.clone())));
    }
    (kept, left_out)
}

impl Budget {
    fn max(&self) -> u64 {
        match self {
            Self::Messages(max) | Self::Tokens { max, .. } => *max,
        }
    }

    fn size(&self, message: &Message) -> u64 {
        match self {
            Self::Messages(_) => 1,
            Self::Tokens { counter, .. } => counter(message),
        }
    }
}

/// Returns the turn of each message, counted from 1, or none for a message that always stays.
fn turns(drafts: &[MessageDraft]) -> Vec<Option<usize>> {
    let last_summary = drafts.iter().rfind(|draft| draft.kind == MessageKind::Summary).map(|draft| &draft.entry);
    let mut turns = Vec::with_capacity(drafts.len());
    let mut turn_count = 0;
    let mut previous: Option<&MessageDraft> = None;
    for draft in drafts {
        let turn = match draft.role() {
            Role::System => None,
            // Results stay with their calls.
            Role::Tool => turns.last().copied().flatten(),
            Role::User | Role::Assistant => {
                turn_count += usize::from(previous.is_none_or(|previous| begins_turn(previous, draft)));
                previous = Some(draft);
                let is_last_summary = draft.kind == MessageKind::Summary && last_summary == Some(&draft.entry);
                (!is_last_summary).then_some(turn_count)
            }
        };
        turns.push(turn);
    }
    turns
}

/// Returns whether a turn begins between two messages. The messages of one summary stay together.
fn begins_turn(previous: &MessageDraft, draft: &MessageDraft) -> bool {
    let summary_entry = |draft: &MessageDraft| (draft.kind == MessageKind::Summary).then(|| draft.entry.clone());
    let user_follows_assistant = draft.role() == Role::User && previous.role() != Role::User;
    summary_entry(previous) != summary_entry(draft) || (draft.kind != MessageKind::Summary && user_follows_assistant)
}
