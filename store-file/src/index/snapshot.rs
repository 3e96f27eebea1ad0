//! A view of an index as it is at one moment.

use std::sync::Arc;

use store_core::{Error, Result};

use super::{Direction, Pairs, after_prefix, disk::DiskView, fronts::Fronts, memory::MemoryView};

/// A consistent view of the index.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(super) view: View,
    pub(super) fronts: Arc<Fronts>,
    pub(super) ended: u64,
}

#[derive(Debug)]
pub(super) enum View {
    Disk(DiskView),
    Memory(MemoryView),
    Closed,
}

impl Snapshot {
    /// The value of a key.
    ///
    /// # Errors
    /// As [`Index::get`].
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.view {
            View::Disk(view) => view.get(key),
            View::Memory(view) => Ok(view.get(key)),
            View::Closed => Err(Error::closed()),
        }
    }

    /// The pairs with keys from `from` on and below `to`.
    pub(crate) fn range(&self, from: &[u8], to: &[u8], direction: Direction) -> Pairs<'_> {
        if from >= to {
            return Box::new(std::iter::empty());
        }
        match &self.view {
            View::Disk(view) => view.range(from, to, direction),
            View::Memory(view) => view.range(from, to, direction),
            View::Closed => Box::new(std::iter::once(Err(Error::closed()))),
        }
    }

    /// From where on there may be keys of a list. No list that this is asked of is below another one.
    pub(crate) fn front(&self, list: &[u8]) -> Vec<u8> {
        self.fronts.of(list, self.ended).unwrap_or_else(|| list.to_vec())
    }

    /// Remembers the first key of a list, or that it has none, for the next [`Self::front`].
    pub(crate) fn remember_front(&self, list: &[u8], first: Option<&[u8]>) {
        match first {
            Some(first) => self.fronts.remember(list, first, self.ended),
            None => self.fronts.remember(list, &after_prefix(list), self.ended),
        }
    }

    /// The pairs whose keys start with `prefix`.
    pub(crate) fn prefix(&self, prefix: &[u8], direction: Direction) -> Pairs<'_> {
        self.range(prefix, &after_prefix(prefix), direction)
    }
}
