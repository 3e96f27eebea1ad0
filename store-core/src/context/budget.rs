//! Makes a context fit a budget: leaves out its oldest turns (CX-19).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Budget,
    draft::{Draft, DraftKind},
};
use crate::{
    id::EntryId,
    log::{Message, Role},
};

/// Leaves out the oldest turns until the rest fits, and returns their entries. System messages, the last summary and
/// the newest turn stay, whatever their size.
///
/// A turn begins with user messages and ends before the next ones, so that no call is separated from its result. An
/// earlier summary is a turn of its own.
pub(super) fn drop_oldest_turns(drafts: Vec<Draft>, budget: Option<&Budget>) -> (Vec<Draft>, Vec<EntryId>) {
    let Some(budget) = budget else { return (drafts, Vec::new()) };
    let turns = turns(&drafts);
    let (mut sizes, mut rest) = (BTreeMap::new(), 0_u64);
    for (draft, turn) in drafts.iter().zip(&turns) {
        let size = budget.size(&draft.message);
        rest = rest.saturating_add(size);
        if let Some(turn) = *turn {
            let sum: &mut u64 = sizes.entry(turn).or_default();
            *sum = sum.saturating_add(size);
        }
    }
    // The newest turn always stays.
    sizes.pop_last();
    let mut last_gone = 0;
    for (turn, size) in sizes {
        if rest <= budget.max() {
            break;
        }
        rest = rest.saturating_sub(size);
        last_gone = turn;
    }
    let (mut kept, mut left_out, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (draft, turn) in drafts.into_iter().zip(turns) {
        if turn.is_none_or(|turn| turn > last_gone) {
            kept.push(draft);
            continue;
        }
        // The results of one entry may be in two messages.
        let entries = std::iter::once(draft.entry).chain(draft.merged);
        left_out.extend(entries.filter(|entry| seen.insert(entry.clone())));
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
fn turns(drafts: &[Draft]) -> Vec<Option<usize>> {
    let last_summary = drafts.iter().rfind(|draft| draft.part == DraftKind::Summary).map(|draft| &draft.entry);
    let mut turns = Vec::with_capacity(drafts.len());
    let mut begun = 0;
    let mut before: Option<&Draft> = None;
    for draft in drafts {
        let turn = match draft.role() {
            Role::System => None,
            // Results stay with their calls.
            Role::Tool => turns.last().copied().flatten(),
            Role::User | Role::Assistant => {
                begun += usize::from(before.is_none_or(|before| begins_turn(before, draft)));
                before = Some(draft);
                let stays = draft.part == DraftKind::Summary && last_summary == Some(&draft.entry);
                (!stays).then_some(begun)
            }
        };
        turns.push(turn);
    }
    turns
}

/// Returns whether a turn begins between two messages. The messages of one summary stay together.
fn begins_turn(before: &Draft, draft: &Draft) -> bool {
    let summary = |draft: &Draft| (draft.part == DraftKind::Summary).then(|| draft.entry.clone());
    let asks_again = draft.role() == Role::User && before.role() != Role::User;
    summary(before) != summary(draft) || (draft.part != DraftKind::Summary && asks_again)
}
