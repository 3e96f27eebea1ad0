//! The threads of a tenant: reading, creating and changing them.

mod admin;
mod delete;
mod prune;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Error, Page, PageBuilder, Position, Result, Thread, ThreadFilter, ThreadId, ThreadOrder,
    ThreadQuery, ThreadReader, TimeWalk, Timestamp, length, thread,
};

pub(crate) use self::delete::delete_all;
use crate::tenant::{Tenant, ThreadListKey};

/// The threads of a tenant, with their logs and runs.
#[derive(Clone)]
pub(crate) struct MemoryThreads {
    tenant: Arc<Tenant>,
}

impl MemoryThreads {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }

    /// Returns the tenant, or an error if it was closed.
    pub(crate) fn tenant(&self) -> Result<&Tenant> {
        self.tenant.check_open()
    }
}

impl fmt::Debug for MemoryThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryThreads").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl ThreadReader for MemoryThreads {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let thread = self.tenant()?.slots.read(id, |slot| Some(Arc::clone(&slot.contents.as_ref()?.thread)));
        Ok(thread.map(|stored| stored.thread.clone()))
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        let tenant = self.tenant()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_threads", &query.cursor_binding());
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, query.page.cursor.as_ref())?;
        let walk = walk_of_query(&query, after.as_ref())?;
        let index = tenant.index.read();
        // A list that ascends by activity would return a thread a second time if the thread is written while the list
        // is read. So the list leaves out threads that have changed since its first page. It compares change numbers
        // and not times, because a commit may state an earlier time.
        let ascends_by_activity = (query.order, query.direction) == (ThreadOrder::LastActivity, Direction::Forward);
        let max_change_number = if ascends_by_activity {
            after.map_or_else(|| index.change_count(), |after| after.extra_number)
        } else {
            u64::MAX
        };
        for (time, row) in index.walk_threads(&query.filter.list_key().into(), query.order, &walk) {
            let thread = &row.thread.thread;
            let is_listed = row.change_number <= max_change_number && query.filter.admits(thread);
            let position =
                Position { extra_number: max_change_number, ..Position::new(time.as_millis(), thread.id.as_str()) };
            if !page.offer(position, approximate_bytes(thread), is_listed.then(|| Arc::clone(&row.thread))) {
                break;
            }
        }
        drop(index);
        Ok(page
            .finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope))
            .map(|stored| stored.thread.clone()))
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        let index = self.tenant()?.index.read();
        let key = ThreadListKey::from(filter.list_key());
        if *filter == ThreadFilter::default() {
            return Ok(length(index.count_threads(&key)));
        }
        let walk = TimeWalk::between(filter.created_after, filter.created_before);
        let threads = index.walk_threads(&key, ThreadOrder::Creation, &walk);
        Ok(length(threads.filter(|(_, row)| filter.admits(&row.thread.thread)).count()))
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        let index = self.tenant()?.index.read();
        if index.thread(thread).is_none() {
            return Err(Error::not_found("thread", thread));
        }
        thread::check_parent(thread, parent, &index.lineage(parent))
    }
}

/// Returns the part of an order that a query reads, and the direction.
fn walk_of_query(query: &ThreadQuery, after: Option<&Position>) -> Result<TimeWalk<ThreadId>> {
    let filter = &query.filter;
    let (from, before) = match query.order {
        ThreadOrder::LastActivity => (filter.active_after, filter.active_before),
        ThreadOrder::Creation => (filter.created_after, filter.created_before),
    };
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    let decode_position =
        |position: &Position| Ok((Timestamp::from_millis(position.rank)?, ThreadId::new(&position.id)?));
    let after = after.map(decode_position).transpose().map_err(malformed)?;
    Ok(TimeWalk { direction: query.direction, after, from, before })
}

/// Returns the size in bytes of the parts of a thread that may be large.
fn approximate_bytes(thread: &Thread) -> u64 {
    length(thread.metadata.iter().map(|(key, value)| key.len() + value.as_str().len()).sum())
}

#[cfg(test)]
mod tests {
    use store_core::{Json, NewThread, Store, TenantId, ThreadFields, ThreadId};

    use crate::{MemoryConfig, MemoryStore};

    #[tokio::test]
    async fn the_size_of_metadata_counts_names_and_values() {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let threads = store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
        let mut fields = ThreadFields::default();
        fields.metadata.insert("key".to_owned(), Json::parse("12345").unwrap());
        fields.metadata.insert("k".to_owned(), Json::null());
        let draft = NewThread::new(ThreadId::new("t").unwrap()).with_fields(fields);
        let thread = threads.create_thread(draft).await.unwrap();
        assert_eq!(super::approximate_bytes(&thread), 13);
    }
}
