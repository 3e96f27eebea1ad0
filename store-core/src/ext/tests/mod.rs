//! Tests of the extension traits, with a log in a vector, and with a queue and a channel that give fixed answers.

mod compare;
mod interval;
mod pending;
mod stream;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;

use crate::{
    BranchPoint, ContextRequest, Cursor, EntryId, EntryQuery, Error, Leaf, LogReader, Page, PageRequest, Result,
    Snapshot, ThreadContext, ThreadId, Timestamp,
    codec::Extra,
    log::{Body, Compaction, Direction, Entry, Interval, Message},
};

/// The log of the only thread. Entries are named by their numbers, and cursors are sequence numbers.
struct VecLog {
    entries: Vec<Arc<Entry>>,
    /// The number of pages read.
    pages_read: AtomicUsize,
}

impl VecLog {
    /// Makes a log from one word for each entry. The word begins with the parent (`-` for a root). For a compaction,
    /// `c` and the interval that it covers follow; `c` alone means that it covers nothing.
    fn new(text: &str) -> Self {
        let entries = text.split_whitespace().zip(1..).map(|(word, seq)| Arc::new(parse_entry(word, seq))).collect();
        Self { entries, pages_read: AtomicUsize::new(0) }
    }

    fn find(&self, id: &EntryId) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    fn path(&self, leaf: &EntryId) -> Vec<Arc<Entry>> {
        let mut path: Vec<_> =
            std::iter::successors(self.find(leaf), |entry| self.find(entry.parent.as_ref()?)).cloned().collect();
        path.reverse();
        path
    }
}

fn parse_entry(word: &str, seq: u64) -> Entry {
    let (parent, covers) = word.split_once('c').map_or((word, None), |(parent, covers)| (parent, Some(covers)));
    let body = match covers {
        None => Body::Message(Message::user(seq.to_string())),
        Some(covers) => {
            let covers = covers.split_once('-').map(|(from, to)| Interval::new(id(from), id(to)));
            Body::Compaction(Compaction { covers, ..Compaction::default() })
        }
    };
    Entry {
        id: id(&seq.to_string()),
        seq,
        parent: (parent != "-").then(|| id(parent)),
        side: false,
        timestamp: Timestamp::MIN,
        run: None,
        step: None,
        origin: None,
        body: Arc::new(body),
        extra: Extra::default(),
    }
}

fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

fn thread() -> ThreadId {
    ThreadId::new("t").unwrap()
}

#[async_trait]
impl LogReader for VecLog {
    async fn load_entry(&self, _thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        Ok(self.find(entry).cloned())
    }

    async fn list_entries(&self, _thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        self.pages_read.fetch_add(1, Ordering::SeqCst);
        let mut entries = query.path_of.as_ref().map_or_else(|| self.entries.clone(), |leaf| self.path(leaf));
        if query.direction == Direction::Backward {
            entries.reverse();
        }
        entries.retain(|entry| query.admits(entry));
        if let Some(cursor) = &query.page.cursor {
            let last_seq_read: u64 =
                cursor.as_str().parse().map_err(|_| Error::invalid_cursor("it is not a number"))?;
            let last_read_index = entries.iter().position(|entry| entry.seq == last_seq_read).unwrap();
            entries.drain(..=last_read_index);
        }
        let limit = query.page.checked_limit()?;
        let next = (entries.len() > limit).then(|| Cursor::from_text(entries[limit - 1].seq.to_string()));
        entries.truncate(limit);
        Ok(Page { items: entries, next })
    }

    async fn list_leaves(&self, _thread: &ThreadId, _page: PageRequest) -> Result<Page<Leaf>> {
        Ok(Page::empty())
    }

    async fn list_branch_points(&self, _thread: &ThreadId, _page: PageRequest) -> Result<Page<BranchPoint>> {
        Ok(Page::empty())
    }

    async fn list_snapshots(&self, _thread: &ThreadId, _page: PageRequest) -> Result<Page<Snapshot>> {
        Ok(Page::empty())
    }

    async fn load_context(&self, thread: &ThreadId, _request: ContextRequest) -> Result<ThreadContext> {
        Err(Error::not_found("thread", thread))
    }
}
