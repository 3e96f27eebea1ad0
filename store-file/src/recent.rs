//! What the writer has read of the index and written to it lately, so that it need not read this again. The flush of
//! the journal, sweeps and repairs change the index, too. So the writer compares the version of the index when it
//! begins a round, and forgets this cache if anything else changed the index.
//!
//! Lists are known from their beginning up to some key. Queues are taken from there, and a step through a list of the
//! index costs as much as reading a dozen of its keys.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use crate::index::Changes;

/// A row of some type.
pub(crate) type Decoded = Box<dyn Any + Send>;

/// A generation of rows has about this many bytes. There are two.
const ROW_BYTES: usize = 4 << 20;
/// How many keys of lists are known at most. With more of them all are forgotten.
const LIST_KEYS: usize = 1 << 16;

/// Rows and beginnings of lists as the index has them.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// The version of the index that this is true of.
    version: u64,
    /// Rows that were used lately, and those that were before. Of a key in both, the first one counts.
    rows: [HashMap<Vec<u8>, Option<Vec<u8>>>; 2],
    row_bytes: usize,
    /// Rows that were decoded. They go when the rows that were used before do.
    decoded: HashMap<Vec<u8>, Decoded>,
    /// No list is below another one.
    lists: BTreeMap<Vec<u8>, Beginning>,
    list_keys: usize,
    /// The first bytes of lists: most keys are of none.
    sorts: BTreeSet<u8>,
}

/// The first keys of a list.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    keys: BTreeSet<Vec<u8>>,
    known: Known,
}

/// How much of a list is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing.
    #[default]
    Nothing,
    /// Everything up to a key, that key included.
    UpTo(Vec<u8>),
    /// The whole list.
    All,
}

impl Beginning {
    /// How much is known.
    pub(crate) const fn known(&self) -> &Known {
        &self.known
    }

    /// The known keys in a range, in order.
    pub(crate) fn range(&self, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = &Vec<u8>> {
        let end = to.max(from);
        self.keys.range::<[u8], _>((Bound::Included(from), Bound::Excluded(end)))
    }

    /// Whether every key that follows `from` directly is known, or the first unknown one follows it.
    pub(crate) fn reaches(&self, from: &[u8]) -> bool {
        match &self.known {
            Known::Nothing => false,
            // What follows a key directly is that key with a zero.
            Known::UpTo(last) => from <= last.as_slice() || from.strip_prefix(last.as_slice()) == Some(&[0][..]),
            Known::All => true,
        }
    }

    /// Adds the keys that follow what is known, and how much is known with them.
    pub(crate) fn extend(&mut self, keys: impl IntoIterator<Item = Vec<u8>>, known: Known) {
        self.keys.extend(keys);
        self.known = known;
    }

    fn covers(&self, key: &[u8]) -> bool {
        match &self.known {
            Known::Nothing => false,
            Known::UpTo(last) => key <= last.as_slice(),
            Known::All => true,
        }
    }
}

impl Recent {
    /// What is remembered, if it is true of this version of the index; else nothing.
    pub(crate) fn at(self, version: u64) -> Self {
        if self.version == version { self } else { Self { version, ..Self::default() } }
    }

    /// The row under a key, if it is known; `Some(None)` if there is none.
    pub(crate) fn row(&mut self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let [young, old] = &mut self.rows;
        if let Some(row) = young.get(key) {
            return Some(row.clone());
        }
        let (key, row) = old.remove_entry(key)?;
        self.put_row(key, row.clone());
        Some(row)
    }

    /// Remembers a row that was read.
    pub(crate) fn put_row(&mut self, key: Vec<u8>, row: Option<Vec<u8>>) {
        self.row_bytes += key.len() + row.as_ref().map_or(0, Vec::len) + 64;
        let [young, old] = &mut self.rows;
        young.insert(key, row);
        if self.row_bytes > ROW_BYTES {
            *old = std::mem::take(young);
            self.row_bytes = 0;
            self.decoded.clear();
        }
    }

    /// A row as it was decoded.
    pub(crate) fn decoded<T: 'static>(&self, key: &[u8]) -> Option<&T> {
        self.decoded.get(key)?.downcast_ref()
    }

    /// Remembers a row as it was decoded.
    pub(crate) fn put_decoded(&mut self, key: Vec<u8>, row: Decoded) {
        self.decoded.insert(key, row);
    }

    /// What is known of a list.
    pub(crate) fn list(&mut self, list: &[u8]) -> &mut Beginning {
        self.sorts.extend(list.first());
        self.lists.entry(list.to_vec()).or_default()
    }

    /// Whether no more keys of lists are to be remembered.
    pub(crate) const fn is_full(&self) -> bool {
        self.list_keys > LIST_KEYS
    }

    /// Counts keys of lists that became known.
    pub(crate) fn count_keys(&mut self, count: usize) {
        self.list_keys += count + 1;
    }

    /// Takes over changes that the index gets, and what of them is decoded.
    pub(crate) fn note(&mut self, changes: &Changes, decoded: HashMap<Vec<u8>, Decoded>) {
        for (key, value) in changes.iter() {
            self.decoded.remove(key);
            let is_known = self.rows.iter().any(|rows| rows.contains_key(key));
            // Places in lists have no value, and are never read as rows.
            if is_known || value.is_some_and(|value| !value.is_empty()) {
                self.put_row(key.to_vec(), value.map(<[u8]>::to_vec));
            }
            if key.first().is_none_or(|sort| !self.sorts.contains(sort)) {
                continue;
            }
            // What is before it in order is the one list that it can be of.
            let upto = (Bound::Unbounded, Bound::Included(key));
            let Some((list, beginning)) = self.lists.range_mut::<[u8], _>(upto).next_back() else { continue };
            if !key.starts_with(list) || !beginning.covers(key) {
                continue;
            }
            if value.is_none() {
                beginning.keys.remove(key);
            } else if beginning.keys.insert(key.to_vec()) {
                self.list_keys += 1;
            }
        }
        self.decoded.extend(decoded);
        if self.is_full() {
            self.lists.clear();
            self.sorts.clear();
            self.list_keys = 0;
        }
    }

    /// What is remembered, now true of the index with the changes that were noted.
    pub(crate) fn advanced(self) -> Self {
        Self { version: self.version + 1, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Known, Recent};
    use crate::index::Changes;

    fn changes(puts: &[(&str, &str)], deleted: &[&str]) -> Changes {
        let mut changes = Changes::default();
        puts.iter().for_each(|(key, value)| changes.put(*key, *value));
        deleted.iter().for_each(|key| changes.delete(*key));
        changes
    }

    fn keys(recent: &mut Recent, list: &str) -> Vec<String> {
        let range = recent.list(list.as_bytes()).range(b"", b"~").cloned();
        range.map(|key| String::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn rows_follow_changes_and_a_foreign_change_forgets_them() {
        let mut recent = Recent::default().at(7);
        recent.put_row(b"a".to_vec(), None);
        recent.note(&changes(&[("a", "1"), ("b", "2"), ("place", "")], &["c"]), HashMap::new());
        let mut recent = recent.advanced();
        assert_eq!(recent.row(b"a"), Some(Some(b"1".to_vec())));
        assert_eq!(recent.row(b"b"), Some(Some(b"2".to_vec())));
        assert_eq!((recent.row(b"c"), recent.row(b"place")), (None, None));
        recent.note(&changes(&[], &["a"]), HashMap::new());
        let mut recent = recent.advanced().at(9);
        assert_eq!(recent.row(b"a"), Some(None));
        assert_eq!(recent.at(10).row(b"a"), None, "something else changed the index");
    }

    #[test]
    fn rows_that_were_used_lately_stay() {
        let mut recent = Recent::default();
        recent.put_row(b"used".to_vec(), Some(b"x".to_vec()));
        recent.put_row(b"unused".to_vec(), Some(b"x".to_vec()));
        for number in 0..1_000_u32 {
            recent.put_row(number.to_be_bytes().to_vec(), Some(vec![0; 16 << 10]));
            assert!(recent.row(b"used").is_some());
        }
        assert_eq!(recent.row(b"unused"), None);
        let kept: usize = recent.rows.iter().flatten().map(|(_, row)| row.as_ref().map_or(0, Vec::len)).sum();
        assert!(kept <= 9 << 20, "{kept}");
    }

    #[test]
    fn a_list_is_known_up_to_a_key() {
        let mut recent = Recent::default();
        recent.list(b"l").extend(vec![b"l2".to_vec(), b"l4".to_vec()], Known::UpTo(b"l4".to_vec()));
        recent.note(&changes(&[("l1", ""), ("l5", ""), ("k", ""), ("m", "")], &["l2"]), HashMap::new());
        assert_eq!(keys(&mut recent, "l"), ["l1", "l4"]);
        let list = recent.list(b"l");
        assert!(list.reaches(b"l") && list.reaches(b"l4") && list.reaches(b"l4\0") && !list.reaches(b"l5"));
        list.extend(vec![b"l5".to_vec()], Known::All);
        assert!(list.reaches(b"l9"));
        recent.note(&changes(&[("l7", "")], &["l4", "l5"]), HashMap::new());
        assert_eq!(keys(&mut recent, "l"), ["l1", "l7"]);
    }
}
