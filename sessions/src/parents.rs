//! Parents of threads. While a parent does not exist, the metadata of its child names it.

use std::collections::BTreeSet;

use store_core::{
    Direction, ErrorKind, Expect, Json, MAX_PAGE, PageRequest, ParentFilter, Thread, ThreadFields, ThreadFilter,
    ThreadId, ThreadOrder, ThreadPatch, ThreadQuery, ThreadRunStore,
};

use crate::{
    error::Result,
    json::{json_string, parse_json_string},
};

/// The metadata key of a thread that waits for its parent. Its value is the id of the parent. It is removed when the
/// parent is set, so that an import never undoes a later change of the parent.
pub(crate) const AWAITED_PARENT_KEY: &str = "import.parent";

/// If the parent in the fields of a new thread does not exist, moves it to the metadata: the thread waits for it.
pub(crate) async fn defer_missing_parent(threads: &dyn ThreadRunStore, fields: &mut ThreadFields) -> Result<()> {
    let Some(parent) = fields.parent_thread_id.take() else { return Ok(()) };
    if threads.load_thread(&parent).await?.is_some() {
        fields.parent_thread_id = Some(parent);
    } else {
        fields.metadata.insert(AWAITED_PARENT_KEY.to_owned(), json_string(parent.as_str()));
    }
    Ok(())
}

/// Sets the parents of the threads that an import has written to, and of older threads that wait for one of these. If
/// the import has written anything, this looks once through all threads of the store.
pub(crate) async fn set_waiting_parents(threads: &dyn ThreadRunStore, written: &BTreeSet<ThreadId>) -> Result<()> {
    if written.is_empty() {
        return Ok(());
    }
    let mut filter = ThreadFilter::default();
    filter.parent = Some(ParentFilter::Root);
    let query = ThreadQuery::new(filter).ordered(ThreadOrder::Creation, Direction::Forward);
    let mut query = query.with_page(PageRequest::first(MAX_PAGE));
    loop {
        let page = threads.list_threads(query.clone()).await?;
        for thread in &page.items {
            let is_concerned = |parent| written.contains(&parent) || written.contains(&thread.id);
            if awaited_parent(thread).is_some_and(is_concerned) {
                set_waiting_parent(threads, thread).await?;
            }
        }
        let Some(next) = page.next else { return Ok(()) };
        query.page = query.page.after(next);
    }
}

/// The parent that a thread without a parent waits for.
fn awaited_parent(thread: &Thread) -> Option<ThreadId> {
    if thread.parent_thread_id.is_some() {
        return None;
    }
    thread.metadata.get(AWAITED_PARENT_KEY).and_then(parse_thread_id)
}

/// Sets the parent of a thread that waits for it, if the parent exists. This does not count as activity.
pub(crate) async fn set_waiting_parent(threads: &dyn ThreadRunStore, thread: &Thread) -> Result<()> {
    let Some(parent) = awaited_parent(thread) else { return Ok(()) };
    let mut patch = ThreadPatch::default().with_parent(Some(parent)).at(thread.updated_at);
    patch.metadata.insert(AWAITED_PARENT_KEY.to_owned(), None);
    match threads.update_thread(&thread.id, patch, Expect::Version(thread.revision)).await {
        // The parent does not exist yet, it is a descendant of the thread, or another process has just changed the
        // thread. The thread then keeps waiting.
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Conflict) => Err(e.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The parent of a thread, even if it does not exist yet.
pub(crate) fn parent_of(thread: &Thread) -> Option<ThreadId> {
    let awaited = || thread.metadata.get(AWAITED_PARENT_KEY).and_then(parse_thread_id);
    thread.parent_thread_id.clone().or_else(awaited)
}

/// Sets the parent of a thread that lost it because the parent was replaced.
pub(crate) async fn set_parent(threads: &dyn ThreadRunStore, child: &ThreadId, parent: &ThreadId) -> Result<()> {
    let patch = ThreadPatch::default().with_parent(Some(parent.clone()));
    let _thread = threads.update_thread(child, patch, Expect::Any).await?;
    Ok(())
}

fn parse_thread_id(value: &Json) -> Option<ThreadId> {
    ThreadId::new(parse_json_string(value.as_str())?).ok()
}
