//! Pages, in the plainest way: the whole list is sorted, and a page begins behind the key that its cursor stands for.

use std::sync::{Mutex, PoisonError};

use store_core::{Cursor, CursorKey, CursorScope, Error, Page, PageRequest, Position, Result};

use super::bug::Bug;

/// The cursors that were given out: each holds the number of a position in this list, sealed.
#[derive(Debug)]
pub(super) struct Cursors {
    key: CursorKey,
    positions: Mutex<Vec<Position>>,
}

impl Cursors {
    /// No cursors yet, sealed by this key.
    pub(super) const fn new(key: CursorKey) -> Self {
        Self { key, positions: Mutex::new(Vec::new()) }
    }

    /// What seals cursors of events, which say where they stand themselves.
    pub(super) const fn key(&self) -> &CursorKey {
        &self.key
    }

    fn seal(&self, scope: &CursorScope, position: Position) -> Cursor {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        positions.push(position);
        Position::new(positions.len() as u64 - 1, "").seal(&self.key, scope)
    }

    fn open(&self, scope: &CursorScope, cursor: Option<&Cursor>) -> Result<Option<Position>> {
        let Some(number) = Position::open(&self.key, scope, cursor)? else { return Ok(None) };
        let positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let position = usize::try_from(number.rank).ok().and_then(|number| positions.get(number));
        position.cloned().map(Some).ok_or_else(|| Error::invalid_cursor("it is unknown"))
    }
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    /// What cursors are bound to.
    scope: CursorScope,
    cursors: &'a Cursors,
    request: &'a PageRequest,
    bug: Option<Bug>,
    /// Where the page begins.
    after: Option<Position>,
}

/// A record with the key that its list is sorted by.
pub(super) type Keyed<T> = ((u64, String), T);

impl<'a> Walk<'a> {
    /// Checks limit and cursor (PG-1, PG-6, PG-7).
    pub(super) fn open(scope: CursorScope, request: &'a PageRequest, with: (&'a Cursors, Option<Bug>)) -> Result<Self> {
        let (cursors, bug) = with;
        if request.limit.is_some_and(|limit| limit == 0 || limit > 1_000) {
            return Err(Error::invalid("page limit", "it must be from 1 to 1000"));
        }
        let after = cursors.open(&scope, request.cursor.as_ref())?;
        Ok(Self { scope, cursors, request, bug, after })
    }

    /// What [`page`](Self::page) was told to leave out on the first page of this walk.
    pub(super) fn bound(&self) -> Option<u64> {
        self.after.as_ref().map(|after| after.bound)
    }

    /// The page of `records`: sorted by key, and from the last to the first if `backward`.
    pub(super) fn page<T>(self, mut records: Vec<Keyed<T>>, backward: bool, bound: u64) -> Page<T> {
        if self.bug != Some(Bug::InsertionOrder) {
            records.sort_by(|a, b| a.0.cmp(&b.0));
        }
        if backward {
            records.reverse();
        }
        let mut rest: Vec<_> = records.into_iter().filter(|(key, _)| self.is_behind(key, backward)).collect();
        let limit = self.request.limit.unwrap_or(50) as usize;
        if rest.len() <= limit || self.bug == Some(Bug::LimitIgnored) {
            return Page { items: rest.into_iter().map(|(_, item)| item).collect(), next: None };
        }
        rest.truncate(limit);
        let next = rest.last().map(|(key, _)| self.cursor(key, bound));
        Page { items: rest.into_iter().map(|(_, item)| item).collect(), next }
    }

    fn is_behind(&self, key: &(u64, String), backward: bool) -> bool {
        let Some(after) = &self.after else { return true };
        let last = &(after.rank, after.id.clone());
        match self.bug {
            Some(Bug::CursorSkipsTies) if key.0 == last.0 => false,
            Some(Bug::CursorRepeats) if key == last => true,
            _ if backward => key < last,
            _ => key > last,
        }
    }

    fn cursor(&self, key: &(u64, String), bound: u64) -> Cursor {
        let mut position = Position::new(key.0, key.1.clone());
        position.bound = bound;
        self.cursors.seal(&self.scope, position)
    }
}
