//! Steps through lists of the index, one key after the other, also with changes that readers do not see yet.

use store_core::Result;

use crate::{
    codec::Rows,
    index::{Direction, Key, Snapshot, after_prefix},
};

/// Something that lists are walked through.
pub(crate) trait Walk: Rows {
    /// The first key in a direction that starts with `list`, or the first one after `after`.
    fn next(&self, list: &Key, after: Option<Vec<u8>>, direction: Direction) -> Result<Option<Vec<u8>>>;
}

/// The bounds of the keys of `list` that come after `after` in a direction, that one not included.
pub(crate) fn bounds(list: &Key, after: Option<Vec<u8>>, direction: Direction) -> (Vec<u8>, Vec<u8>) {
    let (first, end) = (list.as_bytes().to_vec(), after_prefix(list.as_bytes()));
    match (after, direction) {
        (Some(after), Direction::Forward) => ([after, vec![0]].concat(), end),
        (Some(after), Direction::Backward) => (first, after),
        (None, _) => (first, end),
    }
}

impl Walk for Snapshot {
    fn next(&self, list: &Key, after: Option<Vec<u8>>, direction: Direction) -> Result<Option<Vec<u8>>> {
        let is_first = after.is_none() && direction == Direction::Forward;
        let (mut from, to) = bounds(list, after, direction);
        if is_first {
            from = self.front(list.as_bytes());
        }
        let found = self.range(&from, &to, direction).next().transpose()?.map(|(key, _)| key);
        if is_first {
            self.remember_front(list.as_bytes(), found.as_deref());
        }
        Ok(found)
    }
}

/// The keys of a list after one of them. After an error the walk has ended.
pub(crate) fn keys<R: Walk>(
    rows: &R,
    list: Key,
    after: Option<Vec<u8>>,
    direction: Direction,
) -> impl Iterator<Item = Result<Vec<u8>>> + use<'_, R> {
    let mut at = Some(after);
    std::iter::from_fn(move || match rows.next(&list, at.take()?, direction) {
        Ok(key) => {
            let key = key?;
            at = Some(Some(key.clone()));
            Some(Ok(key))
        }
        Err(error) => Some(Err(error)),
    })
}
