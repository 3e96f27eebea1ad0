//! Parents of threads: one that is not there yet is remembered in the metadata until it comes.

use store_core::{
    Direction, ErrorKind, Expect, Json, MAX_PAGE, PageRequest, ParentFilter, Thread, ThreadFields, ThreadFilter,
    ThreadId, ThreadOrder, ThreadPatch, ThreadQuery, ThreadRunStore,
};

use crate::{
    error::Result,
    json::{quote, text},
};

/// The metadata of a thread that waits for its parent: the parent's id. It goes when the parent is set, so what is
/// changed by hand after that stays.
const WAITS_FOR: &str = "import.parent";

/// Makes the fields of a new thread wait for the parent that they name, if that is not there.
pub(crate) async fn wait(threads: &dyn ThreadRunStore, fields: &mut ThreadFields) -> Result<()> {
    let Some(parent) = fields.parent_thread_id.take() else { return Ok(()) };
    if threads.load_thread(&parent).await?.is_some() {
        fields.parent_thread_id = Some(parent);
    } else {
        fields.metadata.insert(WAITS_FOR.to_owned(), quote(parent.as_str()));
    }
    Ok(())
}

/// Gives every thread that waits for its parent the parent, if that is there.
pub(crate) async fn link_all(threads: &dyn ThreadRunStore) -> Result<()> {
    let mut filter = ThreadFilter::default();
    filter.parent = Some(ParentFilter::Root);
    let query = ThreadQuery::new(filter).ordered(ThreadOrder::Creation, Direction::Forward);
    let mut query = query.with_page(PageRequest::first(MAX_PAGE));
    loop {
        let page = threads.list_threads(query.clone()).await?;
        for thread in &page.items {
            link(threads, thread).await?;
        }
        let Some(next) = page.next else { return Ok(()) };
        query.page = query.page.after(next);
    }
}

/// Gives a thread that waits for its parent the parent, if that is there.
pub(crate) async fn link(threads: &dyn ThreadRunStore, thread: &Thread) -> Result<()> {
    let Some(parent) = thread.metadata.get(WAITS_FOR).filter(|_| thread.parent_thread_id.is_none()).and_then(id) else {
        return Ok(());
    };
    let mut patch = ThreadPatch::default().with_parent(Some(parent));
    patch.metadata.insert(WAITS_FOR.to_owned(), None);
    match threads.update_thread(&thread.id, patch, Expect::Version(thread.revision)).await {
        // It is not there yet, it is a descendant, or somebody else changed the thread just now.
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Conflict) => Err(e.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn id(value: &Json) -> Option<ThreadId> {
    ThreadId::new(text(value.as_str())?).ok()
}
