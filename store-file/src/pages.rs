//! Where a page begins in a list of the index.

use store_core::{Direction, Position};

use crate::index::{Key, Pairs, Snapshot, after_prefix};

/// The places of a list from a position on, the position itself not included. Places are a number, then a text.
pub(crate) fn places<'a>(
    snapshot: &'a Snapshot,
    list: &Key,
    direction: Direction,
    from: Option<&Position>,
) -> Pairs<'a> {
    let at = from
        .filter(|position| position.rank > 0 || !position.id.is_empty())
        .map(|position| list.clone().number(position.rank).text(&position.id).into_bytes());
    behind(snapshot, list, direction, at)
}

/// The pairs below `list`, from the key `at` on, that key itself not included.
pub(crate) fn behind<'a>(snapshot: &'a Snapshot, list: &Key, direction: Direction, at: Option<Vec<u8>>) -> Pairs<'a> {
    let end = after_prefix(list.as_bytes());
    match (direction, at) {
        (_, None) => snapshot.range(list.as_bytes(), &end, direction),
        (Direction::Forward, Some(mut at)) => {
            // The least key after this one: keys end with a full part, so none begins with another one.
            at.push(0);
            snapshot.range(&at, &end, direction)
        }
        (Direction::Backward, Some(at)) => snapshot.range(list.as_bytes(), &at, direction),
    }
}
