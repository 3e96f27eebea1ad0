//! A list with an item for each line of a file.

use std::{iter::Flatten, ops::Range, slice::Iter};

const CHUNK_BYTES: usize = 64 << 10;

/// A list that grows in chunks of about 64 KiB. Growing does not copy the items, and leaves no free memory behind that
/// is too small for the next growth. A file of a GiB needs many such lists at the same time.
#[derive(Debug)]
pub(crate) struct List<T> {
    /// All chunks but the last are full.
    chunks: Vec<Vec<T>>,
    len: usize,
}

/// The items of a list.
pub(crate) type Items<'a, T> = Flatten<Iter<'a, Vec<T>>>;

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> List<T> {
    /// The number of items in a full chunk.
    const CHUNK_LEN: usize = if size_of::<T>() == 0 { CHUNK_BYTES } else { CHUNK_BYTES.div_ceil(size_of::<T>()) };

    pub(crate) fn push(&mut self, item: T) {
        match self.chunks.last_mut().filter(|last| last.len() < Self::CHUNK_LEN) {
            Some(last) => last.push(item),
            None => {
                // Most files are small, so the first chunk is as large as it needs to be.
                let capacity = if self.chunks.is_empty() { 0 } else { Self::CHUNK_LEN };
                let mut chunk = Vec::with_capacity(capacity);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
        self.len += 1;
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / Self::CHUNK_LEN)?.get(at % Self::CHUNK_LEN)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.chunks.get_mut(at / Self::CHUNK_LEN)?.get_mut(at % Self::CHUNK_LEN)
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.chunks.last_mut()?.last_mut()
    }

    pub(crate) fn iter(&self) -> Items<'_, T> {
        self.chunks.iter().flatten()
    }

    /// The items from a position on.
    pub(crate) fn iter_from(&self, at: usize) -> impl Iterator<Item = &T> + Clone {
        let in_chunk = self.chunks.get(at / Self::CHUNK_LEN).and_then(|chunk| chunk.get(at % Self::CHUNK_LEN..));
        in_chunk.into_iter().flatten().chain(self.chunks.iter().skip(at / Self::CHUNK_LEN + 1).flatten())
    }

    /// The number of items at the beginning for which `predicate` is true. The items must be sorted so that it is false
    /// for all others.
    pub(crate) fn partition_point(&self, predicate: impl FnMut(&T) -> bool) -> usize {
        self.partition_point_in(0..self.len, predicate)
    }

    /// The position in `range` before which `predicate` is true for all items of the range. The items of the range must
    /// be sorted so that it is false for all others.
    pub(crate) fn partition_point_in(&self, range: Range<usize>, mut predicate: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&mut predicate) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The first item with this key. The items must be sorted by their keys.
    pub(crate) fn find_by_key<K: Ord>(&self, key: &K, key_of: impl Fn(&T) -> K) -> Option<&T> {
        self.get(self.partition_point(|item| key_of(item) < *key)).filter(|item| key_of(item) == *key)
    }
}

impl<T: Clone> List<T> {
    /// A list of `len` copies of an item.
    pub(crate) fn filled(item: &T, len: usize) -> Self {
        let mut list = Self::default();
        (0..len).for_each(|_| list.push(item.clone()));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    #[test]
    fn a_list_of_many_chunks_is_like_a_vector() {
        let vector: Vec<_> = (0..40_000_u64).map(|number| number / 2).collect();
        let mut list = List::default();
        vector.iter().for_each(|number| list.push(*number));
        assert!(list.iter().eq(&vector) && list.iter().rev().eq(vector.iter().rev()));
        for at in [0, 1, 8_191, 8_192, 8_193, 16_384, 39_999, 40_000, 50_000] {
            let expected = vector.get(at).copied();
            assert_eq!((list.get(at).copied(), list.get_mut(at).copied()), (expected, expected));
            assert!(list.iter_from(at).eq(vector.iter().skip(at)), "{at}");
        }
        for number in [0, 1, 4_095, 4_096, 19_999, 20_000] {
            let expected = vector.partition_point(|other| *other < number);
            assert_eq!(list.partition_point(|other| *other < number), expected);
            let found = list.find_by_key(&number, |number| *number).copied();
            assert_eq!(found, vector.contains(&number).then_some(number));
        }
        assert_eq!((list.last_mut().copied(), list.len()), (Some(19_999), 40_000));
        assert_eq!(List::filled(&7, 3).iter().sum::<u64>(), 21);
    }
}
