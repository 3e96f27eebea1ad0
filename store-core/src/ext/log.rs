//! Reads that take several calls: streams, comparisons, the interval of a compaction.

use async_trait::async_trait;

use super::{EntryStream, LeafComparison, compare, interval};
use crate::{
    context::ContextSplit,
    error::Result,
    id::{EntryId, ThreadId},
    log::{EntryQuery, Interval, LogReader},
};

/// Reads that take several calls. A commit that is made between two of these calls is visible only to the later one.
#[async_trait]
pub trait LogReaderExt: LogReader {
    /// Returns all entries of a query, in order, in bounded memory (EN-32).
    ///
    /// The page limit of the query is the number of entries that are read at once. To continue after an entry, use
    /// [`EntryQuery::after_entry`] with it.
    ///
    /// ```
    /// use std::{future::poll_fn, pin::pin};
    /// use futures_core::Stream;
    /// use store_core::{EntryId, EntryQuery, LogReader, LogReaderExt, ThreadId};
    ///
    /// async fn path_length(log: &dyn LogReader, thread: &ThreadId, leaf: EntryId) -> store_core::Result<u64> {
    ///     let mut entries = pin!(log.stream_entries(thread, EntryQuery::path_of(leaf)));
    ///     let mut length = 0;
    ///     while let Some(entry) = poll_fn(|cx| entries.as_mut().poll_next(cx)).await {
    ///         length += u64::from(!entry?.side);
    ///     }
    ///     Ok(length)
    /// }
    /// ```
    fn stream_entries(&self, thread: &ThreadId, query: EntryQuery) -> EntryStream<'_, Self> {
        EntryStream::new(self, thread.clone(), query)
    }

    /// Finds where the paths of two leaves separate (CX-16). The time grows with the logarithm of the distance from the
    /// leaves to that place.
    ///
    /// # Errors
    /// `NotFound` for an unknown entry, which the error names.
    async fn compare_leaves(&self, thread: &ThreadId, left: &EntryId, right: &EntryId) -> Result<LeafComparison> {
        compare::compare_leaves(self, thread, left, right).await
    }

    /// Returns the interval that a compaction of `split.older` covers, up to the entry before the kept messages.
    ///
    /// It includes the interval of an earlier summary among the older messages. Returns none if there is nothing to
    /// compact.
    ///
    /// # Errors
    /// `NotFound` if an entry of the context does not belong to this thread.
    async fn load_compaction_interval(&self, thread: &ThreadId, split: &ContextSplit<'_>) -> Result<Option<Interval>> {
        interval::load_compaction_interval(self, thread, split).await
    }
}

impl<R: LogReader + ?Sized> LogReaderExt for R {}
