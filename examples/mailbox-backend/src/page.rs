//! Pages of lists.

use store_core::{CursorKey, CursorScope, Direction, Page, PageBuilder, PageRequest, Position, Result};

/// The sort key of a listed record: `extra_number`, `rank` and `id` of its [`Position`], in the order in which they are
/// compared.
pub(crate) type SortKey = (u64, u64, String);

/// A list, and the part of it that is requested.
pub(crate) struct ListRequest {
    pub(crate) scope: CursorScope,
    pub(crate) direction: Direction,
    pub(crate) page: PageRequest,
}

impl ListRequest {
    /// Builds the page. `records` are all records in the order of the list, each with its sort key and its size in
    /// bytes.
    pub(crate) fn build_page<T>(
        self,
        key: &CursorKey,
        records: impl DoubleEndedIterator<Item = (SortKey, u64, T)>,
    ) -> Result<Page<T>> {
        let mut page = PageBuilder::new(self.page.checked_limit()?);
        let after = Position::from_cursor(key, &self.scope, self.page.cursor.as_ref())?;
        let after = after.map(|at| (at.extra_number, at.rank, at.id));
        let mut offer = |(sort_key, bytes, record): (SortKey, u64, T)| {
            let is_on_earlier_page = after.as_ref().is_some_and(|after| match self.direction {
                Direction::Forward => sort_key <= *after,
                Direction::Backward => sort_key >= *after,
            });
            let (extra_number, rank, id) = sort_key;
            is_on_earlier_page || page.offer(Position { rank, id, extra_number }, bytes, Some(record))
        };
        // `all` stops at the first record that does not fit. It borrows the iterator mutably, which `records` does not
        // allow. The braces move `records` into a temporary value, which can be borrowed so.
        let _is_last = match self.direction {
            Direction::Forward => { records }.all(&mut offer),
            Direction::Backward => records.rev().all(&mut offer),
        };
        Ok(page.finish(|at| at.to_cursor(key, &self.scope)))
    }
}
