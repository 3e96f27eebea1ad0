//! Pages, in the simplest way: the whole list is sorted, and a page begins after the key that its cursor stands for.

use std::sync::{Mutex, PoisonError};

use store_core::{Cursor, CursorKey, CursorScope, Direction, Error, Page, PageRequest, Position, Result};

use super::bug::Bug;

/// The positions of all cursors that were returned. A cursor contains the index of its position in this list.
#[derive(Debug)]
pub(super) struct CursorTable {
    key: CursorKey,
    positions: Mutex<Vec<Position>>,
}

impl CursorTable {
    /// Makes an empty list. The key authenticates the cursors.
    pub(super) const fn new(key: CursorKey) -> Self {
        Self { key, positions: Mutex::new(Vec::new()) }
    }

    /// Returns the key. It also authenticates the cursors of events, which contain their positions themselves.
    pub(super) const fn key(&self) -> &CursorKey {
        &self.key
    }

    fn encode(&self, scope: &CursorScope, position: Position) -> Cursor {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        positions.push(position);
        Position::new(positions.len() as u64 - 1, "").to_cursor(&self.key, scope)
    }

    fn decode(&self, scope: &CursorScope, cursor: Option<&Cursor>) -> Result<Option<Position>> {
        let Some(index_as_position) = Position::from_cursor(&self.key, scope, cursor)? else { return Ok(None) };
        let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let position = usize::try_from(index_as_position.rank).ok().and_then(|index| positions.get(index));
        position.cloned().map(Some).ok_or_else(|| Error::invalid_cursor("it is unknown"))
    }
}

/// One page of a list while it is read.
#[derive(Debug)]
pub(super) struct PageReader<'a> {
    /// The tenant, the method and the query that the cursors are bound to.
    scope: CursorScope,
    cursors: &'a CursorTable,
    request: &'a PageRequest,
    bug: Option<Bug>,
    /// The position after which the page begins. `None` for the first page.
    after: Option<Position>,
}

/// A record with the key that its list is sorted by.
pub(super) type Keyed<T> = ((u64, String), T);

impl<'a> PageReader<'a> {
    /// Checks the limit and the cursor of a request (PG-1, PG-6, PG-7).
    pub(super) fn open(
        scope: CursorScope,
        request: &'a PageRequest,
        cursors_and_bug: (&'a CursorTable, Option<Bug>),
    ) -> Result<Self> {
        let (cursors, bug) = cursors_and_bug;
        if request.limit.is_some_and(|limit| limit == 0 || limit > 1_000) {
            return Err(Error::invalid("page limit", "it must be from 1 to 1000"));
        }
        let after = cursors.decode(&scope, request.cursor.as_ref())?;
        Ok(Self { scope, cursors, request, bug, after })
    }

    /// Returns the number that the list stored in the cursor of the previous page; `None` for the first page.
    pub(super) fn stored_number(&self) -> Option<u64> {
        self.after.as_ref().map(|after| after.extra_number)
    }

    /// Sorts `records` by key and returns the page.
    pub(super) fn page<T>(self, records: Vec<Keyed<T>>, direction: Direction) -> Page<T> {
        self.page_with_number(records, direction, 0)
    }

    /// Sorts `records` by key and returns the page. Its cursor contains `number_to_store`, which
    /// [`stored_number`](Self::stored_number) returns for the next page.
    pub(super) fn page_with_number<T>(
        self,
        mut records: Vec<Keyed<T>>,
        direction: Direction,
        number_to_store: u64,
    ) -> Page<T> {
        if self.bug != Some(Bug::InsertionOrder) {
            records.sort_by(|(left_key, _), (right_key, _)| left_key.cmp(right_key));
        }
        if direction == Direction::Backward {
            records.reverse();
        }
        let mut following_records: Vec<_> =
            records.into_iter().filter(|(key, _)| self.is_after_cursor(key, direction)).collect();
        let limit = self.request.limit.unwrap_or(50) as usize;
        if following_records.len() <= limit || self.bug == Some(Bug::LimitIgnored) {
            return Page { items: following_records.into_iter().map(|(_, item)| item).collect(), next: None };
        }
        following_records.truncate(limit);
        let next = following_records.last().map(|(key, _)| self.cursor(key, number_to_store));
        Page { items: following_records.into_iter().map(|(_, item)| item).collect(), next }
    }

    fn is_after_cursor(&self, key: &(u64, String), direction: Direction) -> bool {
        let Some(after) = &self.after else { return true };
        let (rank, _) = key;
        let last_key = &(after.rank, after.id.clone());
        match self.bug {
            Some(Bug::CursorSkipsTies) if *rank == after.rank => false,
            Some(Bug::CursorRepeats) if key == last_key => true,
            _ if direction == Direction::Backward => key < last_key,
            _ => key > last_key,
        }
    }

    fn cursor(&self, (rank, id): &(u64, String), number_to_store: u64) -> Cursor {
        let mut position = Position::new(*rank, id.clone());
        position.extra_number = number_to_store;
        self.cursors.encode(&self.scope, position)
    }
}
