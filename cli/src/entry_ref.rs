//! References to entries on the command line: by id, or by sequence number.

use std::{fmt, str::FromStr};

use agentstore::{EntryId, EntryQuery, Error, PageRequest, ThreadId};

use crate::{failure::Result, session::Session};

/// The id of an entry, or `@N` for the entry with sequence number N, as `tree` and `show` print it.
#[derive(Debug, Clone)]
pub(crate) struct EntryRef(EntryId);

impl EntryRef {
    /// Returns the id of the entry.
    pub(crate) async fn resolve(&self, session: &Session, thread: &ThreadId) -> Result<EntryId> {
        let threads = session.threads()?;
        // An id may itself have the form `@N`, so the text is first looked up as an id.
        if let Some(entry) = threads.load_entry(thread, &self.0).await? {
            return Ok(entry.id.clone());
        }
        let number = self.0.as_str().strip_prefix('@').and_then(|number| number.parse().ok());
        if let Some(seq) = number {
            let mut query = EntryQuery::all().with_page(PageRequest::first(1));
            (query.from_seq, query.to_seq) = (Some(seq), Some(seq));
            if let Some(entry) = threads.list_entries(thread, query).await?.items.into_iter().next() {
                return Ok(entry.id.clone());
            }
        }
        session.require_thread(thread).await?;
        Err(Error::not_found("entry", &self.0).into())
    }
}

impl FromStr for EntryRef {
    type Err = Error;

    fn from_str(text: &str) -> agentstore::Result<Self> {
        EntryId::new(text).map(Self)
    }
}

impl fmt::Display for EntryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A thread, or an entry of a thread as `THREAD@ENTRY`.
#[derive(Debug, Clone)]
pub(crate) struct PointRef(String);

impl PointRef {
    /// Returns the thread, and the entry if one is named. `@ENTRY` alone means an entry of `default_thread`.
    ///
    /// An id of a thread may itself contain an `@`. Of the threads that the text may mean, the one with the longest id
    /// is used.
    pub(crate) async fn resolve(
        &self,
        session: &Session,
        default_thread: Option<&ThreadId>,
    ) -> Result<(ThreadId, Option<EntryId>)> {
        let threads = session.threads()?;
        let whole_id = ThreadId::new(&self.0)?;
        if threads.load_thread(&whole_id).await?.is_some() {
            return Ok((whole_id, None));
        }
        for (at, _) in self.0.rmatch_indices('@') {
            let (thread, entry) = self.0.split_at_checked(at).unwrap_or_default();
            let thread = match default_thread {
                Some(default_thread) if thread.is_empty() => default_thread.clone(),
                _ => match ThreadId::new(thread) {
                    Ok(thread) => thread,
                    Err(_) => continue,
                },
            };
            if threads.load_thread(&thread).await?.is_some() {
                let entry = resolve_after_at(session, &thread, entry).await?;
                return Ok((thread, Some(entry)));
            }
        }
        Err(Error::not_found("thread", &self.0).into())
    }
}

/// Returns the entry that `@ENTRY` means: the one with the id `ENTRY`, or else the one with this sequence number.
async fn resolve_after_at(session: &Session, thread: &ThreadId, at_entry: &str) -> Result<EntryId> {
    let text = at_entry.strip_prefix('@').unwrap_or(at_entry);
    let id = EntryId::new(text)?;
    if session.threads()?.load_entry(thread, &id).await?.is_some() {
        return Ok(id);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    EntryRef::from_str(if is_number { at_entry } else { text })?.resolve(session, thread).await
}

impl FromStr for PointRef {
    type Err = Error;

    fn from_str(text: &str) -> agentstore::Result<Self> {
        ThreadId::new(text).map(|_| Self(text.to_owned()))
    }
}
