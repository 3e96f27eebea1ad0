//! Shortens a context so that it fits its budget (CX-19).

use store_core::{Budget, EntryId, Role};

use super::context::Piece;

/// Leaves out the oldest turns (see [`turns`]) until the rest fits. The newest turn is kept, whatever its size.
/// Returns the messages that are kept, and the entries of the others.
pub(super) fn fit_to_budget(pieces: Vec<Piece>, budget: Option<&Budget>) -> (Vec<Piece>, Vec<EntryId>) {
    let Some(budget) = budget else { return (pieces, Vec::new()) };
    let size = |piece: &Piece| match budget {
        Budget::Tokens { counter, .. } => counter(&piece.message),
        _ => 1,
    };
    let max = match budget {
        Budget::Messages(max) | Budget::Tokens { max, .. } => *max,
        _ => u64::MAX,
    };
    let mut kept_pieces: Vec<_> = turns(&pieces).into_iter().zip(pieces).collect();
    let newest = kept_pieces.iter().filter_map(|(turn, _)| *turn).max();
    let mut left_out_entries = Vec::new();
    while kept_pieces.iter().fold(0, |sum: u64, (_, piece)| sum.saturating_add(size(piece))) > max {
        let oldest = kept_pieces.iter().filter_map(|(turn, _)| *turn).min();
        if oldest == newest {
            break;
        }
        for (_, piece) in kept_pieces.iter().filter(|(turn, _)| *turn == oldest) {
            left_out_entries.extend(std::iter::once(&piece.entry).chain(&piece.merged_entries).cloned());
        }
        kept_pieces.retain(|(turn, _)| *turn != oldest);
    }
    let mut left_out_ids: Vec<EntryId> = Vec::new();
    for entry in left_out_entries {
        if !left_out_ids.contains(&entry) {
            left_out_ids.push(entry);
        }
    }
    (kept_pieces.into_iter().map(|(_, piece)| piece).collect(), left_out_ids)
}

/// Returns the number of the turn of each message, counted from 0. Messages that are always kept have no number: system
/// messages and the last summary.
///
/// A turn begins with a user message that comes after a message of another role. A tool message belongs to the turn
/// of the message before it. Each summary before the last one is a turn of its own. The messages before and after the
/// last summary belong to different turns.
fn turns(pieces: &[Piece]) -> Vec<Option<usize>> {
    let last_summary = pieces.iter().rfind(|piece| piece.is_summary()).map(|piece| &piece.entry);
    let mut turns: Vec<Option<usize>> = Vec::new();
    let mut turn = 0;
    let mut previous: Option<&Piece> = None;
    for piece in pieces {
        let is_last_summary = piece.is_summary() && Some(&piece.entry) == last_summary;
        if piece.message.role == Role::System {
            turns.push(None);
            continue;
        }
        if piece.message.role == Role::Tool {
            turns.push(turns.last().copied().flatten());
            continue;
        }
        let summary_entry = |piece: &Piece| piece.is_summary().then(|| piece.entry.clone());
        let begins_turn = previous.is_some_and(|previous| {
            let is_new_request = piece.message.role == Role::User && previous.message.role != Role::User;
            summary_entry(previous) != summary_entry(piece) || (is_new_request && !piece.is_summary())
        });
        turn += usize::from(begins_turn);
        previous = Some(piece);
        turns.push((!is_last_summary).then_some(turn));
    }
    turns
}
