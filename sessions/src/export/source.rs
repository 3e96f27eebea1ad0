//! The thread that is exported, as the formats read it.

use std::sync::Arc;

use store_core::{
    Entry, EntryId, EntryQuery, MAX_PAGE, PageRequest, ParentFilter, Thread, ThreadFilter, ThreadId, ThreadQuery,
    ThreadRunStore,
};

use crate::{error::Result, json::parse_json_string, options::ExportOptions, provenance::Provenance};

/// A thread that is exported.
pub(crate) struct ExportSource<'a> {
    pub(crate) threads: &'a dyn ThreadRunStore,
    pub(crate) thread: &'a Thread,
    pub(crate) options: &'a ExportOptions,
}

impl ExportSource<'_> {
    /// Every entry, in the order of the log.
    pub(crate) fn entries(&self) -> EntryPages<'_> {
        EntryPages::new(self.threads, &self.thread.id, EntryQuery::all())
    }

    /// The entries on the path from the root to an entry.
    pub(crate) fn path_of(&self, entry: &EntryId) -> EntryPages<'_> {
        EntryPages::new(self.threads, &self.thread.id, EntryQuery::path_of(entry.clone()))
    }

    /// The entry of every leaf, in the order of the store.
    pub(crate) async fn leaves(&self) -> Result<Vec<EntryId>> {
        let mut page = PageRequest::first(MAX_PAGE);
        let mut leaves = Vec::new();
        loop {
            let found = self.threads.list_leaves(&self.thread.id, page.clone()).await?;
            leaves.extend(found.items.into_iter().map(|leaf| leaf.entry));
            let Some(next) = found.next else { return Ok(leaves) };
            page = page.after(next);
        }
    }

    /// The newest provenance of the thread. The result is `None` if the thread has changed: an entry of it was not
    /// imported from this format.
    pub(crate) async fn unchanged_provenance(&self) -> Result<Option<Provenance>> {
        let format = self.options.format.name();
        let mut provenance = None;
        let mut pages = self.entries();
        while let Some(page) = pages.next().await? {
            for entry in &page {
                if entry.origin.as_ref().is_none_or(|origin| origin.format != format) {
                    return Ok(None);
                }
                provenance = Provenance::read(entry).or(provenance);
            }
        }
        Ok(provenance)
    }

    /// The working folder that the session names.
    pub(crate) fn working_folder(&self) -> String {
        if let Some(folder) = &self.options.working_folder {
            return folder.to_string_lossy().into_owned();
        }
        let imported = self.thread.metadata.get("cwd").and_then(|value| parse_json_string(value.as_str()));
        imported.unwrap_or_else(|| "/".to_owned())
    }

    /// The children of an entry that are not side entries. Only those on the first page of the store are returned.
    pub(crate) async fn first_children_of(&self, entry: &EntryId) -> Result<Vec<Arc<Entry>>> {
        let mut query = EntryQuery::all();
        (query.children_of, query.side) = (Some(entry.clone()), Some(false));
        let page = self.threads.list_entries(&self.thread.id, query).await?;
        Ok(page.items)
    }

    /// The threads that are children of this one, in the order of the store.
    pub(crate) async fn children(&self) -> Result<Vec<ThreadId>> {
        self.children_of(&self.thread.id).await
    }

    /// The threads that are children of a thread, in the order of the store.
    pub(crate) async fn children_of(&self, thread: &ThreadId) -> Result<Vec<ThreadId>> {
        let mut filter = ThreadFilter::default();
        filter.parent = Some(ParentFilter::Of(thread.clone()));
        let mut query = ThreadQuery::new(filter);
        query.page = PageRequest::first(MAX_PAGE);
        let mut children = Vec::new();
        loop {
            let page = self.threads.list_threads(query.clone()).await?;
            children.extend(page.items.into_iter().map(|thread| thread.id));
            let Some(next) = page.next else { return Ok(children) };
            query.page = query.page.after(next);
        }
    }
}

/// Entries of a thread, page by page.
pub(crate) struct EntryPages<'a> {
    threads: &'a dyn ThreadRunStore,
    thread: &'a ThreadId,
    query: Option<EntryQuery>,
}

impl<'a> EntryPages<'a> {
    fn new(threads: &'a dyn ThreadRunStore, thread: &'a ThreadId, query: EntryQuery) -> Self {
        Self { threads, thread, query: Some(query.with_page(PageRequest::first(MAX_PAGE))) }
    }

    /// The next page, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Entry>>>> {
        let Some(mut query) = self.query.take() else { return Ok(None) };
        let page = self.threads.list_entries(self.thread, query.clone()).await?;
        self.query = page.next.map(|next| {
            query.page = query.page.after(next);
            query
        });
        Ok(Some(page.items))
    }
}
