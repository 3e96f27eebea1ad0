//! Changes of an index that take effect together.

use std::{collections::BTreeMap, ops::Bound};

use super::after_prefix;

/// Changes that take effect together.
///
/// Of several changes of one key the last one counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    pub(super) keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Changes {
    /// Sets the value of a key.
    pub(crate) fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.keys.insert(key.into(), Some(value.into()));
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.keys.insert(key.into(), None);
    }

    /// Leaves a key as it is.
    pub(crate) fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// What a key becomes; nothing if it does not change.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.keys.get(key).map(Option::as_deref)
    }

    /// The keys that start with `prefix` and change, and what they become.
    pub(crate) fn below(&self, prefix: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let changes = self.keys.range(prefix.to_vec()..after_prefix(prefix));
        changes.map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// The keys that get a value, from `from` on and below `to`, in order.
    pub(crate) fn puts(&self, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
        let range = (Bound::Included(from), Bound::Excluded(to.max(from)));
        self.keys.range::<[u8], _>(range).filter(|(_, value)| value.is_some()).map(|(key, _)| key.as_slice())
    }

    /// The keys that change, and what they become.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.keys.iter().map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// Whether nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys change.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}
