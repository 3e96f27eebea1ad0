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
