//! The contract of dumps and restores.

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;

use super::{RecordKey, RecordList, RecordPart, StoredRecord};
use crate::error::{Detail, Error, Result};

/// How many records a page of a dump has at most.
const MAX_PAGE_RECORDS: usize = 2_000;
/// A page of a dump ends with the record with which it has this many bytes.
const MAX_PAGE_BYTES: usize = 2 << 20;

/// Which records a dump returns next.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordQuery {
    /// The list.
    pub list: RecordList,
    /// The key after which the page begins; from the beginning of the list if absent.
    pub after: Option<RecordKey>,
    /// The maximum number of records of the page.
    pub limit: usize,
    /// The page ends with the record with which it has this many bytes.
    pub bytes: usize,
}

impl RecordQuery {
    /// Asks for the first page of a list.
    #[must_use]
    pub const fn new(list: RecordList) -> Self {
        Self { list, after: None, limit: MAX_PAGE_RECORDS, bytes: MAX_PAGE_BYTES }
    }

    /// Begins the page after a key.
    #[must_use]
    pub fn after(mut self, after: Option<RecordKey>) -> Self {
        self.after = after;
        self
    }

    /// Sets the maximum number of records of the page.
    #[must_use]
    pub const fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns whether a key comes after the one after which the page begins.
    #[must_use]
    pub fn admits(&self, key: &RecordKey) -> bool {
        self.after.as_ref().is_none_or(|after| key > after)
    }

    /// Returns whether a page with so many records of so many bytes is complete.
    #[must_use]
    pub const fn is_full(&self, records: usize, bytes: usize) -> bool {
        records >= self.limit || bytes >= self.bytes
    }
}

/// Keeps callers from writing to a tenant as long as it exists.
#[must_use = "callers can write again when it is dropped"]
pub struct WriteHold {
    guard: Option<Box<dyn Any + Send + Sync>>,
    is_exclusive: bool,
}

impl WriteHold {
    /// Makes a hold that ends when `guard` is dropped. Until then nothing of the tenant changes.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self { guard: Some(Box::new(guard)), is_exclusive: true }
    }

    /// Makes the hold of a store that cannot keep writers away. A copy then reads its source a second time, and so
    /// finds what was written in the meantime.
    pub const fn without_lock() -> Self {
        Self { guard: None, is_exclusive: false }
    }

    /// Makes a hold that ends when both end.
    pub fn and(self, other: Self) -> Self {
        let is_exclusive = self.is_exclusive && other.is_exclusive;
        Self { guard: Some(Box::new((self.guard, other.guard))), is_exclusive }
    }

    /// Returns whether nothing of the tenant can change until the hold is dropped.
    #[must_use]
    pub const fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }
}

impl fmt::Debug for WriteHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHold").field("is_exclusive", &self.is_exclusive).finish_non_exhaustive()
    }
}

/// The records of a tenant as the store keeps them. Copies use it (VF-6); applications use the other contracts.
///
/// # Guarantees
/// - What was dumped from one store and restored to another reads there as in the first one, and what was given, such
///   as keys, ids and numbers, is not given again (VF-3, VF-4).
/// - A restore of records is durable as a commit is. Restored again, the same records change nothing. It is atomic,
///   unless the store can only write the records of one thread at once: then a restore that failed may have written
///   those of some threads.
///
/// A restore makes no decision: it neither checks nor derives what records say about each other. While records are
/// restored, what readers of the tenant see is not complete, and nothing else may write to it.
#[async_trait]
pub trait RecordPort: Send + Sync {
    /// Returns whether the store has a list.
    fn holds(&self, list: RecordList) -> bool;

    /// Keeps other callers from writing to the tenant, in every process, until the hold is dropped or the process ends.
    ///
    /// A store without locks keeps no caller away, and its hold says so ([`WriteHold::is_exclusive`]).
    ///
    /// # Errors
    /// `Unavailable` if writes of others do not end in time; `Unsupported` if the store was opened only for reading and
    /// others may write to it.
    async fn hold_writes(&self) -> Result<WriteHold>;

    /// Returns the next records of a list, ordered by their keys. The list has ended if there are none.
    ///
    /// Memory is bounded by the page. A store that can only return the whole list returns it in pages, too.
    ///
    /// # Errors
    /// `Unsupported` for a list that the store does not have; `Corrupt` for a record that cannot be read.
    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>>;

    /// Writes records unchanged. They come in the order of the lists, and of their keys.
    ///
    /// # Errors
    /// `Unsupported` for a list that the store does not have; `LimitExceeded` for a record that the store cannot keep;
    /// any error of writing. After an `Unknown` outcome, restore the same records again. A store that is not atomic
    /// here may have written some of them after any error.
    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()>;
}

/// Returns the error for a list that a store does not have.
#[must_use]
pub fn no_list(list: RecordList) -> Error {
    Error::new(Detail::Unsupported { operation: list.operation() })
}

/// The records of a composition: each part from its own store.
#[derive(Clone)]
pub struct JoinedRecords {
    threads: Option<Arc<dyn RecordPort>>,
    mailbox: Option<Arc<dyn RecordPort>>,
}

impl JoinedRecords {
    /// Takes the mailbox from one store, and everything else from another.
    #[must_use]
    pub fn new(threads: Option<Arc<dyn RecordPort>>, mailbox: Option<Arc<dyn RecordPort>>) -> Self {
        Self { threads, mailbox }
    }

    fn part(&self, list: RecordList) -> Option<&Arc<dyn RecordPort>> {
        match list.part() {
            RecordPart::Threads => self.threads.as_ref(),
            RecordPart::Mailbox => self.mailbox.as_ref(),
        }
    }
}

#[async_trait]
impl RecordPort for JoinedRecords {
    fn holds(&self, list: RecordList) -> bool {
        match list {
            RecordList::Numbers => true,
            _ => self.part(list).is_some_and(|part| part.holds(list)),
        }
    }

    async fn hold_writes(&self) -> Result<WriteHold> {
        let mut hold: Option<WriteHold> = None;
        for part in self.threads.iter().chain(&self.mailbox) {
            let next = part.hold_writes().await?;
            hold = Some(match hold {
                Some(hold) => hold.and(next),
                None => next,
            });
        }
        Ok(hold.unwrap_or_else(WriteHold::without_lock))
    }

    /// Of the numbers, each part gives its own: the claim numbers belong to the mailbox.
    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        if query.list != RecordList::Numbers {
            return self.part(query.list).ok_or_else(|| no_list(query.list))?.dump_records(query).await;
        }
        let mut records = Vec::new();
        for part in self.threads.iter().chain(&self.mailbox) {
            records.extend(part.dump_records(query).await?);
        }
        let largest = records.into_iter().fold(None, |largest: Option<super::NumbersGiven>, record| match record {
            StoredRecord::Numbers(numbers) => Some(largest.unwrap_or_default().max_of(numbers)),
            _ => largest,
        });
        Ok(largest.map(StoredRecord::Numbers).into_iter().collect())
    }

    /// The mailbox comes first: the thread store has the mark of the copy, which must not be ahead of it.
    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        let (mut mailbox, mut threads) = (Vec::new(), Vec::new());
        for record in records {
            match (record.list(), record.list().part()) {
                (RecordList::Numbers, _) => {
                    mailbox.push(record.clone());
                    threads.push(record);
                }
                (_, RecordPart::Mailbox) => mailbox.push(record),
                (_, RecordPart::Threads) => threads.push(record),
            }
        }
        for (part, records) in [(&self.mailbox, mailbox), (&self.threads, threads)] {
            match (part, records.first()) {
                (_, None) => {}
                (Some(part), Some(_)) => part.restore_records(records).await?,
                (None, Some(StoredRecord::Numbers(_))) if records.len() == 1 => {}
                (None, Some(first)) => return Err(no_list(records.last().unwrap_or(first).list())),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for JoinedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinedRecords")
            .field("threads", &self.threads.is_some())
            .field("mailbox", &self.mailbox.is_some())
            .finish()
    }
}
