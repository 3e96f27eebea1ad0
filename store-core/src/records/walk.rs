//! A walk through a list of records, page after page.

use std::collections::VecDeque;

use super::{RecordKey, RecordList, RecordPort, RecordQuery, StoredRecord, is_copy_mark};
use crate::{
    error::{Error, Result},
    thread::ThreadIdRecord,
};

/// The records of a list, without the mark of a copy, and without ids of which nothing is kept.
pub(super) struct RecordWalk<'a> {
    port: &'a dyn RecordPort,
    query: RecordQuery,
    page: VecDeque<StoredRecord>,
    has_ended: bool,
}

/// Whether a record says nothing: some stores keep a row for an id of which nothing is known any more.
fn is_blank(record: &StoredRecord) -> bool {
    match record {
        StoredRecord::Thread(record) => record.thread.is_none() && record.id_record == ThreadIdRecord::default(),
        _ => false,
    }
}

impl<'a> RecordWalk<'a> {
    pub(super) fn new(port: &'a dyn RecordPort, list: RecordList, after: Option<RecordKey>) -> Self {
        let has_ended = !port.holds(list);
        Self { port, query: RecordQuery::new(list).after(after), page: VecDeque::new(), has_ended }
    }

    /// Returns the next records, which are never empty before the end. They are read from the store at once.
    pub(super) async fn next_page(&mut self) -> Result<Vec<StoredRecord>> {
        while !self.has_ended {
            let mut records = self.port.dump_records(&self.query).await?;
            self.has_ended = records.is_empty();
            for record in &records {
                let key = record.key();
                if self.query.after.as_ref().is_some_and(|before| *before >= key) {
                    return Err(Error::corrupt(format!("list of {}: `{key}` is not in order", self.query.list)));
                }
                self.query.after = Some(key);
            }
            records.retain(|record| !is_copy_mark(record) && !is_blank(record));
            if !records.is_empty() {
                return Ok(records);
            }
        }
        Ok(Vec::new())
    }

    /// Returns the next record.
    pub(super) async fn next(&mut self) -> Result<Option<StoredRecord>> {
        if self.page.is_empty() {
            self.page = self.next_page().await?.into();
        }
        Ok(self.page.pop_front())
    }
}
