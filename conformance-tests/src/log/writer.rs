//! A writer that makes commits to one thread, one after another, and reads the thread.

use std::sync::Arc;

use store_core::{
    Commit, ContextRequest, Entry, EntryQuery, Error, ErrorKind, Expect, NewEntry, PageRequest, Receipt, Thread,
    ThreadContext, ThreadId,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id, read_all_pages},
};

/// Commits to one thread of the tenant `default`, and reads it. The guard of each commit is the version that was loaded
/// just before it.
pub(crate) struct ThreadWriter<'a> {
    pub(crate) given: &'a Given,
    pub(crate) thread: ThreadId,
}

impl<'a> ThreadWriter<'a> {
    /// Returns a writer for the thread `name`, which the first commit creates.
    pub(crate) fn new(given: &'a Given, name: &str) -> Self {
        Self { given, thread: id(name) }
    }

    /// Creates the thread `name` with these entries, and returns a writer for it.
    pub(crate) async fn with_entries(
        given: &'a Given,
        name: &str,
        entries: impl IntoIterator<Item = NewEntry> + Send,
    ) -> Result<Self, Failure> {
        let writer = Self::new(given, name);
        writer.expect_accepted(entries).await?;
        Ok(writer)
    }

    /// Returns a commit without content. Its guard is the current version of the thread, or `Absent` if there is no
    /// thread.
    pub(crate) async fn guarded_commit(&self) -> Result<Commit, Failure> {
        let stored = self.given.threads()?.load_thread(&self.thread).await?;
        let expect = stored.map_or(Expect::Absent, |thread| Expect::Version(thread.version));
        Ok(Commit::new(self.thread.clone()).expecting(expect))
    }

    /// Commits these entries, and checks that they are accepted.
    pub(crate) async fn expect_accepted(&self, entries: impl IntoIterator<Item = NewEntry> + Send) -> Verdict {
        self.append(entries).await.map(drop)
    }

    /// Commits these entries, and returns the receipt.
    pub(crate) async fn append(&self, entries: impl IntoIterator<Item = NewEntry> + Send) -> Result<Receipt, Failure> {
        let commit = self.guarded_commit().await?.entries(entries);
        self.given.commit(commit).await
    }

    /// Checks that a commit of these entries is refused and changes nothing. Returns the error.
    pub(crate) async fn expect_refused(
        &self,
        entries: impl IntoIterator<Item = NewEntry> + Send,
        kind: ErrorKind,
    ) -> Result<Error, Failure> {
        let commit = self.guarded_commit().await?.entries(entries);
        self.expect_commit_refused(commit, kind).await
    }

    /// Checks that a commit is refused and changes nothing. Returns the error.
    pub(crate) async fn expect_commit_refused(&self, commit: Commit, kind: ErrorKind) -> Result<Error, Failure> {
        let before = self.given.threads()?.load_thread(&self.thread).await?;
        let log = self.given.read_log(&self.thread).await?;
        let error = expect_kind(self.given.commits()?.commit(commit).await, kind)?;
        expect_eq(self.given.threads()?.load_thread(&self.thread).await?, before)?;
        expect_eq(self.given.read_log(&self.thread).await?, log)?;
        Ok(error)
    }

    /// Loads the thread, which must exist.
    pub(crate) async fn load_thread(&self) -> Result<Thread, Failure> {
        self.given.thread(&self.thread).await
    }

    /// Returns the id of the head, or an empty text if there is none.
    pub(crate) async fn head_id(&self) -> Result<String, Failure> {
        Ok(self.load_thread().await?.head.map(|head| head.to_string()).unwrap_or_default())
    }

    /// Loads an entry, which must exist.
    pub(crate) async fn load_entry(&self, name: &str) -> Result<Arc<Entry>, Failure> {
        let found = self.given.threads()?.load_entry(&self.thread, &id(name)).await?;
        found.ok_or_else(|| Failure::new(format!("no entry `{name}` where one was expected")))
    }

    /// Returns the id of an entry's parent, or an empty text for a root.
    pub(crate) async fn parent_id(&self, name: &str) -> Result<String, Failure> {
        Ok(self.load_entry(name).await?.parent.clone().map(|parent| parent.to_string()).unwrap_or_default())
    }

    /// Returns the ids of the entries that a query finds, separated by spaces.
    pub(crate) async fn find_ids(&self, query: EntryQuery) -> Result<String, Failure> {
        let threads = &self.given.threads()?;
        let list = |page: PageRequest| threads.list_entries(&self.thread, query.clone().with_page(page));
        Ok(joined_ids(&read_all_pages(PageRequest::first(7), list).await?))
    }

    /// Returns the ids of the path of an entry, from its root, separated by spaces.
    pub(crate) async fn path_ids(&self, name: &str) -> Result<String, Failure> {
        self.find_ids(EntryQuery::path_of(id(name))).await
    }

    /// Returns the ids of the leaves by sequence number, separated by spaces.
    pub(crate) async fn leaf_ids(&self) -> Result<String, Failure> {
        let threads = &self.given.threads()?;
        let leaves = read_all_pages(PageRequest::first(2), |page| threads.list_leaves(&self.thread, page)).await?;
        Ok(join(leaves.iter().map(|leaf| leaf.entry.as_str())))
    }

    /// Loads the context of the head.
    pub(crate) async fn head_context(&self) -> Result<ThreadContext, Failure> {
        self.load_context(ContextRequest::head()).await
    }

    /// Loads a context.
    pub(crate) async fn load_context(&self, request: ContextRequest) -> Result<ThreadContext, Failure> {
        Ok(self.given.threads()?.load_context(&self.thread, request).await?)
    }

    /// Checks that the log has these entries, in this order.
    pub(crate) async fn expect_log_ids(&self, ids: &str) -> Verdict {
        expect_eq(joined_ids(&self.given.read_log(&self.thread).await?), ids)
    }
}

/// Closes the store and opens it again, if `wanted`.
pub(crate) async fn reopen_if(given: &Given, wanted: bool) -> Verdict {
    if wanted { given.reopen().await } else { Ok(()) }
}

/// Returns the ids of entries, separated by spaces.
pub(crate) fn joined_ids(entries: &[Arc<Entry>]) -> String {
    join(entries.iter().map(|entry| entry.id.as_str()))
}

/// Joins texts with spaces between them.
pub(crate) fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}
