//! The entries that a compaction of the older part of a context covers.

use std::sync::Arc;

use crate::{
    context::{ContextMessage, ContextSplit},
    error::{Error, Result},
    id::{EntryId, ThreadId},
    log::{Body, Entry, EntryQuery, Interval, LogReader},
    page::PageRequest,
};

/// Returns the interval from the beginning of the first older message to the entry before the first kept message.
///
/// It includes entries in between that are not messages of their own, for example those that were merged into an
/// earlier message.
pub(super) async fn load_compaction_interval<R: LogReader + ?Sized>(
    reader: &R,
    thread: &ThreadId,
    split: &ContextSplit<'_>,
) -> Result<Option<Interval>> {
    let (Some(first_older), Some(first_kept)) = (split.older.first(), split.kept.first()) else { return Ok(None) };
    let before_kept = first_entry_of(reader, thread, first_kept).await?.and_then(|entry| entry.parent.clone());
    let Some(to) = before_kept else { return Ok(None) };
    let from = match first_entry_of(reader, thread, first_older).await? {
        Some(entry) => entry.id.clone(),
        None => root_of_path(reader, thread, &to).await?,
    };
    Ok(Some(Interval::new(from, to)))
}

/// Returns the first entry of the log that a message of the context represents, or none for a summary that covers
/// nothing.
async fn first_entry_of<R: LogReader + ?Sized>(
    reader: &R,
    thread: &ThreadId,
    message: &ContextMessage,
) -> Result<Option<Arc<Entry>>> {
    let entry = load_existing_entry(reader, thread, &message.entry).await?;
    let Body::Compaction(compaction) = &*entry.body else { return Ok(Some(entry)) };
    match &compaction.covers {
        Some(covers) => load_existing_entry(reader, thread, &covers.from).await.map(Some),
        None => Ok(None),
    }
}

async fn root_of_path<R: LogReader + ?Sized>(reader: &R, thread: &ThreadId, leaf: &EntryId) -> Result<EntryId> {
    let query = EntryQuery::path_of(leaf.clone()).with_page(PageRequest::first(1));
    let page = reader.list_entries(thread, query).await?;
    page.items.first().map(|entry| entry.id.clone()).ok_or_else(|| Error::not_found("entry", leaf))
}

pub(super) async fn load_existing_entry<R: LogReader + ?Sized>(
    reader: &R,
    thread: &ThreadId,
    entry: &EntryId,
) -> Result<Arc<Entry>> {
    reader.load_entry(thread, entry).await?.ok_or_else(|| Error::not_found("entry", entry))
}
