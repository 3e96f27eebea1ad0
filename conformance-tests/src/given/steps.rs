//! Steps that cases often take.

use std::sync::Arc;

use store_core::{Commit, Entry, EntryQuery, Expect, NewThread, PageRequest, Receipt, Thread, ThreadId};

use super::{Given, id, message_entry, read_all_pages};
use crate::check::Failure;

impl Given {
    /// Creates a thread with this id and no other fields.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub async fn create_empty_thread(&self, name: &str) -> Result<Thread, Failure> {
        Ok(self.threads()?.create_thread(NewThread::new(id(name))).await?)
    }

    /// Creates a thread by one commit, which has a user message for each text.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub async fn create_thread_with_messages(&self, name: &str, texts: &[&str]) -> Result<Thread, Failure> {
        let commit =
            Commit::new(id(name)).expecting(Expect::Absent).entries(texts.iter().map(|text| message_entry(text)));
        self.expect_accepted(commit).await?;
        self.thread(&id(name)).await
    }

    /// Commits, and returns the receipt.
    ///
    /// # Errors
    /// If the commit is refused.
    pub async fn commit(&self, commit: Commit) -> Result<Receipt, Failure> {
        Ok(self.commits()?.commit(commit).await?)
    }

    /// Commits, and checks that the commit is accepted.
    ///
    /// # Errors
    /// If the commit is refused.
    pub async fn expect_accepted(&self, commit: Commit) -> Result<(), Failure> {
        self.commit(commit).await.map(drop)
    }

    /// Loads a thread that must exist.
    ///
    /// # Errors
    /// If the thread does not exist.
    pub async fn thread(&self, thread: &ThreadId) -> Result<Thread, Failure> {
        let found = self.threads()?.load_thread(thread).await?;
        found.ok_or_else(|| Failure::new(format!("no thread `{thread}` where one was expected")))
    }

    /// The whole log of a thread, read page by page.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn read_log(&self, thread: &ThreadId) -> Result<Vec<Arc<Entry>>, Failure> {
        let threads = &self.threads()?;
        read_all_pages(PageRequest::first(100), |page| async move {
            threads.list_entries(thread, EntryQuery::all().with_page(page)).await
        })
        .await
    }
}
