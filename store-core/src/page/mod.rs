//! Pages of lists.

mod cursor;
mod order;

use serde::Serialize;

pub(crate) use self::cursor::encode_query_parts;
pub use self::{
    cursor::{Cursor, CursorKey, CursorScope},
    order::{TimeOrderedSets, TimeWalk},
};
use crate::error::{Error, Result};

/// The largest number of records in a page.
pub const MAX_PAGE: u32 = 1_000;
/// The number of records in a page if the caller names no limit.
pub const DEFAULT_PAGE: u32 = 50;
/// The number of records read after which a page ends early (PG-10).
pub const MAX_RECORDS_READ: usize = 10_000;
/// The number of bytes read after which a page ends early (PG-10).
pub const MAX_BYTES_READ: u64 = 64 << 20;

/// The part of a list that a caller asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// The maximum number of records to return, 1 to [`MAX_PAGE`]; absent means [`DEFAULT_PAGE`].
    pub limit: Option<u32>,
    /// The position from which the list continues; absent means from the beginning.
    pub cursor: Option<Cursor>,
}

impl PageRequest {
    /// Returns a request for the first `limit` records.
    #[must_use]
    pub const fn first(limit: u32) -> Self {
        Self { limit: Some(limit), cursor: None }
    }

    /// Returns a request with the same limit that continues at `cursor`.
    #[must_use]
    pub fn after(&self, cursor: Cursor) -> Self {
        Self { limit: self.limit, cursor: Some(cursor) }
    }

    /// Returns the limit to use.
    ///
    /// # Errors
    /// `Invalid` for 0 and for more than [`MAX_PAGE`] (PG-1).
    pub fn checked_limit(&self) -> Result<usize> {
        match self.limit.unwrap_or(DEFAULT_PAGE) {
            limit @ 1..=MAX_PAGE => Ok(limit as usize),
            _ => Err(Error::invalid("page limit", "it must be from 1 to 1000")),
        }
    }
}

/// A part of a list.
///
/// A page may be shorter than its limit, or even empty, without being the last one. Only a missing cursor means that
/// the list has ended (PG-1, PG-10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// The position from which the list continues; absent at the end of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// Returns an empty page without a cursor: the end of a list.
    #[must_use]
    pub const fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }

    /// Converts each item and keeps the cursor.
    #[must_use]
    pub fn map<U>(self, map: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(map).collect(), next: self.next }
    }
}

/// The position of a record in a list. A cursor encodes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// The value that the list is ordered by: a time, a sequence number.
    pub rank: u64,
    /// The value that decides between equal ranks, such as an id or a name. If all ranks are equal, the list is ordered
    /// by it alone.
    pub id: String,
    /// A second number that some lists need: the rank above which records are left out (PG-5), a priority, or a
    /// sequence number. It is 0 in other lists.
    pub extra_number: u64,
}

impl Position {
    /// Makes the position of a record with this rank and id.
    #[must_use]
    pub fn new(rank: u64, id: impl Into<String>) -> Self {
        Self { rank, id: id.into(), extra_number: 0 }
    }

    /// Returns the cursor that continues after this position.
    #[must_use]
    pub fn to_cursor(&self, key: &CursorKey, scope: &CursorScope) -> Cursor {
        let mut bytes = Vec::with_capacity(16 + self.id.len());
        bytes.extend_from_slice(&self.rank.to_be_bytes());
        bytes.extend_from_slice(&self.extra_number.to_be_bytes());
        bytes.extend_from_slice(self.id.as_bytes());
        key.make_cursor(scope, &bytes)
    }

    /// Decodes the position after which a list continues. Returns none if there is no cursor: the list then starts with
    /// its first record.
    ///
    /// # Errors
    /// `InvalidCursor` if the cursor was not made by this key for this scope.
    pub fn from_cursor(key: &CursorKey, scope: &CursorScope, cursor: Option<&Cursor>) -> Result<Option<Self>> {
        let Some(cursor) = cursor else { return Ok(None) };
        let bytes = key.decode_cursor(scope, cursor)?;
        let read = || {
            let (rank, rest) = bytes.split_first_chunk::<8>()?;
            let (extra_number, id) = rest.split_first_chunk::<8>()?;
            let id = std::str::from_utf8(id).ok()?.to_owned();
            Some(Self { rank: u64::from_be_bytes(*rank), id, extra_number: u64::from_be_bytes(*extra_number) })
        };
        read().map(Some).ok_or_else(|| Error::invalid_cursor("it is malformed"))
    }

    /// Returns the rank in a cursor that the store has returned or accepted. Nothing is checked here, so it must not
    /// be used for a cursor that only a caller has given.
    pub(crate) fn unchecked_rank(cursor: &Cursor) -> Option<u64> {
        let bytes = cursor.unchecked_position()?;
        bytes.first_chunk::<8>().map(|rank| u64::from_be_bytes(*rank))
    }
}

/// Builds a page. The caller offers the records in the order of the list; the builder decides when the page is full
/// (PG-1, PG-10).
#[derive(Debug)]
pub struct PageBuilder<T> {
    items: Vec<T>,
    limit: usize,
    records_read: usize,
    bytes_read: u64,
    last_position: Option<Position>,
    has_more: bool,
}

impl<T> PageBuilder<T> {
    /// Makes an empty page of at most `limit` records.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { items: Vec::new(), limit, records_read: 0, bytes_read: 0, last_position: None, has_more: false }
    }

    /// Returns whether the page is full. If the page is full, the caller need not load the content of the next record.
    /// It offers that record only to show that the list continues.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.reached_read_limit()
    }

    fn reached_read_limit(&self) -> bool {
        self.records_read >= MAX_RECORDS_READ || self.bytes_read >= MAX_BYTES_READ
    }

    /// Offers the next record of the list, whose size is `bytes`. `item` is what the page shows for it, or `None` if
    /// the record does not pass the filters. Returns false when the page needs no more records.
    pub fn offer(&mut self, position: Position, bytes: u64, item: Option<T>) -> bool {
        if self.reached_read_limit() || (item.is_some() && self.items.len() >= self.limit) {
            self.has_more = true;
            return false;
        }
        self.records_read += 1;
        self.bytes_read = self.bytes_read.saturating_add(bytes);
        // Once the page has all its items, the builder only checks whether another one follows. The cursor stays at the
        // last item.
        if self.items.len() < self.limit {
            self.last_position = Some(position);
        }
        self.items.extend(item);
        true
    }

    /// Returns the page. `make_cursor` makes its cursor.
    pub fn finish(self, make_cursor: impl FnOnce(&Position) -> Cursor) -> Page<T> {
        let next = self.last_position.filter(|_| self.has_more).map(|position| make_cursor(&position));
        Page { items: self.items, next }
    }
}

/// Merges several ordered lists into one. `precedes(a, b)` returns whether `a` comes before `b`.
pub fn merge_ordered<I: Iterator>(
    lists: impl IntoIterator<Item = I>,
    precedes: impl Fn(&I::Item, &I::Item) -> bool,
) -> impl Iterator<Item = I::Item> {
    let mut lists: Vec<_> = lists.into_iter().map(|mut list| (list.next(), list)).collect();
    std::iter::from_fn(move || {
        let first =
            lists.iter_mut().filter(|(next, _)| next.is_some()).reduce(|first, other| match (&first.0, &other.0) {
                (Some(a), Some(b)) if precedes(b, a) => other,
                _ => first,
            });
        let (next, list) = first?;
        std::mem::replace(next, list.next())
    })
}

#[cfg(test)]
mod tests {
    use super::{Cursor, MAX_BYTES_READ, PageBuilder, PageRequest, Position, merge_ordered};
    use crate::ErrorKind;

    fn build_page(record_count: usize, limit: usize, admits: impl Fn(usize) -> bool) -> (Vec<usize>, Option<String>) {
        let mut builder = PageBuilder::new(limit);
        for index in 0..record_count {
            if !builder.offer(Position::new(index as u64, ""), 1, admits(index).then_some(index)) {
                break;
            }
        }
        let page = builder.finish(|position| Cursor::from_text(position.rank.to_string()));
        (page.items, page.next.map(|cursor| cursor.as_str().to_owned()))
    }

    #[test]
    fn a_page_has_a_cursor_if_and_only_if_more_records_follow() {
        assert_eq!(build_page(0, 2, |_| true), (vec![], None));
        assert_eq!(build_page(2, 2, |_| true), (vec![0, 1], None));
        assert_eq!(build_page(3, 2, |_| true), (vec![0, 1], Some("1".into())));
        assert_eq!(build_page(9, 2, |index| index < 2), (vec![0, 1], None));
        assert_eq!(build_page(9, 2, |index| index % 4 == 0), (vec![0, 4], Some("4".into())));
    }

    #[test]
    fn a_page_ends_early_when_many_records_were_read() {
        assert_eq!(build_page(10_000, 2, |_| false), (vec![], None));
        assert_eq!(build_page(10_001, 2, |_| false), (vec![], Some("9999".into())));
    }

    #[test]
    fn limits_are_checked() {
        assert_eq!(PageRequest::default().checked_limit().unwrap(), 50);
        assert_eq!(PageRequest::first(1000).checked_limit().unwrap(), 1000);
        for limit in [0, 1001, u32::MAX] {
            assert_eq!(PageRequest::first(limit).checked_limit().unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn lists_are_merged_in_order() {
        let expect_merged = |lists: [&[u32]; 3], expected: &[u32]| {
            let merged: Vec<_> = merge_ordered(lists.map(<[u32]>::iter), |a, b| a < b).copied().collect();
            assert_eq!(merged, expected);
        };
        expect_merged([&[1, 4, 9], &[], &[2, 3, 10]], &[1, 2, 3, 4, 9, 10]);
        expect_merged([&[], &[], &[]], &[]);
        expect_merged([&[5], &[1], &[3]], &[1, 3, 5]);
    }

    #[test]
    fn a_full_page_accepts_no_more_records() {
        let mut page = PageBuilder::new(1);
        assert!(!page.is_full());
        page.offer(Position::new(0, ""), 1, Some("x"));
        assert!(page.is_full());
        let mut page_at_byte_limit = PageBuilder::<()>::new(1);
        page_at_byte_limit.offer(Position::new(0, ""), MAX_BYTES_READ, None);
        assert!(page_at_byte_limit.is_full());
    }
}
