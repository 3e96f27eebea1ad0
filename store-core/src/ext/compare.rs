//! Finds where the paths of two leaves separate, and what follows on each path (CX-16).

use std::sync::Arc;

use super::interval::load_existing_entry;
use crate::{
    error::Result,
    id::{EntryId, ThreadId},
    log::{Direction, Entry, EntryQuery, LogReader},
    page::PageRequest,
};

/// The comparison of two leaves. The part of a path after the shared entry can be long, so it is returned as a query
/// that lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeafComparison {
    /// The last entry that both paths have; none if they have different roots.
    pub shared: Option<Arc<Entry>>,
    /// Lists the entries of the left path after the shared entry.
    pub left: EntryQuery,
    /// Lists the entries of the right path after the shared entry.
    pub right: EntryQuery,
}

/// Finds the last sequence number up to which the paths agree, first in growing steps from their ends, then by
/// bisection. This works because the paths agree up to the place where they separate and nowhere after it.
pub(super) async fn compare_leaves<R: LogReader + ?Sized>(
    reader: &R,
    thread: &ThreadId,
    left: &EntryId,
    right: &EntryId,
) -> Result<LeafComparison> {
    let (left_end, right_end) =
        (load_existing_entry(reader, thread, left).await?, load_existing_entry(reader, thread, right).await?);
    // Up to `agrees_to` the paths have the same entries. From `differs_from` on they have no entry in common.
    let mut differs_from = left_end.seq.min(right_end.seq) + 1;
    let (mut agrees_to, mut shared) = (0, None);
    let mut step = 1;
    while differs_from > agrees_to + 1 {
        let middle = agrees_to + (differs_from - agrees_to) / 2;
        let tried_seq = differs_from.saturating_sub(step).max(middle);
        let left_last = last_entry_up_to(reader, thread, (left, tried_seq)).await?;
        let right_last = last_entry_up_to(reader, thread, (right, tried_seq)).await?;
        if left_last.as_ref().map(|entry| entry.seq) == right_last.as_ref().map(|entry| entry.seq) {
            (agrees_to, shared) = (tried_seq, left_last);
        } else {
            // Neither path has an entry between the later of these two entries and `tried_seq`. So the paths differ
            // from that entry on.
            differs_from = left_last.into_iter().chain(right_last).map(|entry| entry.seq).fold(1, u64::max);
            step *= 2;
        }
    }
    let path_after_shared = |leaf: &EntryId| {
        let path = EntryQuery::path_of(leaf.clone());
        shared.as_deref().map_or_else(|| path.clone(), |shared| path.clone().after_entry(shared))
    };
    Ok(LeafComparison { left: path_after_shared(left), right: path_after_shared(right), shared })
}

/// Returns the last entry of the path of `leaf` whose sequence number is at most `max_seq`.
async fn last_entry_up_to<R: LogReader + ?Sized>(
    reader: &R,
    thread: &ThreadId,
    (leaf, max_seq): (&EntryId, u64),
) -> Result<Option<Arc<Entry>>> {
    let mut query = EntryQuery::path_of(leaf.clone()).with_direction(Direction::Backward);
    query.to_seq = Some(max_seq);
    query.page = PageRequest::first(1);
    loop {
        let page = reader.list_entries(thread, query.clone()).await?;
        match (page.items.into_iter().next(), page.next) {
            (Some(entry), _) => return Ok(Some(entry)),
            (None, Some(cursor)) => query.page = query.page.after(cursor),
            (None, None) => return Ok(None),
        }
    }
}
