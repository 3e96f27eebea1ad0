//! Pages of a dump, for stores that have their records in memory.

use std::collections::BTreeMap;

use super::{RecordKey, RecordQuery, StoredRecord};

/// A page of a dump while it is made.
#[derive(Debug)]
pub struct RecordPage<'a> {
    query: &'a RecordQuery,
    records: Vec<StoredRecord>,
    bytes: usize,
}

impl<'a> RecordPage<'a> {
    /// Begins the page that a query asks for.
    #[must_use]
    pub const fn new(query: &'a RecordQuery) -> Self {
        Self { query, records: Vec::new(), bytes: 0 }
    }

    /// Returns the query.
    #[must_use]
    pub const fn query(&self) -> &'a RecordQuery {
        self.query
    }

    /// Returns whether the page has as many records or bytes as the query allows.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.query.is_full(self.records.len(), self.bytes)
    }

    /// Adds a record of about so many bytes, if the page is not full and the record comes after the key of the query.
    pub fn offer(&mut self, record: StoredRecord, bytes: usize) {
        if !self.is_full() && self.query.admits(&record.key()) {
            self.bytes += bytes;
            self.records.push(record);
        }
    }

    /// Makes a page of the items that come next, of items in any order. `record` makes the record of an item, and says
    /// about how many bytes it has.
    #[must_use]
    pub fn of_unordered<T>(
        query: &'a RecordQuery,
        items: impl Iterator<Item = T>,
        key: impl Fn(&T) -> RecordKey,
        record: impl Fn(T) -> (StoredRecord, usize),
    ) -> Vec<StoredRecord> {
        let mut next: BTreeMap<RecordKey, T> = BTreeMap::new();
        for item in items {
            let key = key(&item);
            let is_later = next.len() >= query.limit && next.last_key_value().is_some_and(|(last, _)| key > *last);
            if is_later || !query.admits(&key) {
                continue;
            }
            next.insert(key, item);
            if next.len() > query.limit {
                next.pop_last();
            }
        }
        let mut page = Self::new(query);
        for item in next.into_values() {
            if page.is_full() {
                break;
            }
            let (record, bytes) = record(item);
            page.offer(record, bytes);
        }
        page.into_records()
    }

    /// Returns the records.
    #[must_use]
    pub fn into_records(self) -> Vec<StoredRecord> {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::RecordPage;
    use crate::{
        json::Json,
        records::{RecordKey, RecordList, RecordQuery, StoredRecord},
    };

    fn state(name: &str) -> StoredRecord {
        StoredRecord::State { thread: "t".parse().unwrap(), name: name.to_owned(), value: Json::null() }
    }

    fn names(query: &RecordQuery, items: &[&'static str]) -> Vec<String> {
        let key = |name: &&'static str| RecordKey::of("t").and(*name);
        let records = RecordPage::of_unordered(query, items.iter().copied(), key, |name| (state(name), 10));
        records.iter().map(|record| record.key().text(1).to_owned()).collect()
    }

    #[test]
    fn a_page_has_the_next_records_in_order_until_it_is_full() {
        let query = RecordQuery::new(RecordList::State);
        assert_eq!(names(&query, &["c", "a", "b"]), ["a", "b", "c"]);
        let after = query.clone().after(Some(RecordKey::of("t").and("a")));
        assert_eq!(names(&after, &["c", "a", "b"]), ["b", "c"]);
        assert_eq!(names(&query.clone().with_limit(2), &["c", "a", "b"]), ["a", "b"]);
        // A page ends with the record with which it has so many bytes.
        let small = RecordQuery { bytes: 15, ..query };
        assert_eq!(names(&small, &["c", "a", "b"]), ["a", "b"]);
    }
}
