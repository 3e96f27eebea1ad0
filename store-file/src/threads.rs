//! Threads: reading and listing them, and handing their changes to the writer.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use store_core::{
    CursorScope, DeleteRequest, Deletion, Direction, Error, Expect, NewThread, Page, PageBuilder, Position, Progress,
    PruneRequest, Pruned, Result, TenantId, Thread, ThreadAdmin, ThreadFilter, ThreadId, ThreadOrder, ThreadPatch,
    ThreadQuery, ThreadReader, length, thread,
};

use crate::{
    codec::Rows,
    deletion,
    index::Snapshot,
    mutex::guard,
    purge::{self, Step},
    records, rewrite,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::{Answer, Ask, shown},
};

#[async_trait]
impl ThreadReader for Tenant {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let id = id.clone();
        self.read(Some(id.clone()), move |shared, tenant| {
            Ok(shared.thread_row(&*shared.index, tenant, &id)?.map(|row| shown(shared, row.stored)))
        })
        .await
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &query)).await
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        let filter = filter.clone();
        self.read(None, move |shared, tenant| {
            let mut count = 0;
            let query = ThreadQuery::new(filter);
            walk(&shared.index.snapshot(), tenant, &query, None, |_, _, thread| {
                count += u64::from(query.filter.admits(thread));
                true
            })?;
            Ok(count)
        })
        .await
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        let (thread, parent) = (thread.clone(), parent.clone());
        self.read(None, move |shared, tenant| {
            if shared.thread_row(&*shared.index, tenant, &thread)?.is_none() {
                return Err(Error::not_found("thread", &thread));
            }
            thread::check_parent(&thread, &parent, &records::ancestors(shared, &*shared.index, tenant, &parent)?)
        })
        .await
    }
}

#[async_trait]
impl ThreadAdmin for Tenant {
    async fn create_thread(&self, thread: NewThread) -> Result<Thread> {
        let id = thread.id.clone();
        self.write_thread(id, Ask::Create(Box::new(thread))).await
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        self.write_thread(id.clone(), Ask::Update(patch, expect)).await
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        let id = id.clone();
        let deletion =
            self.change(move |shared, tenant| deletion::delete(shared, &(tenant.clone(), id), request)).await?;
        self.purge_in_background();
        Ok(deletion)
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        self.change(move |shared, tenant| deletion::prune(shared, tenant, request)).await
    }

    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64> {
        // What this could not do is reported after the purge.
        let rewritten = self.change(|shared, tenant| rewrite::all(shared, tenant)).await;
        let logs = self.change(|shared, tenant| purge::left_behind(shared, Some(tenant))).await?;
        let (mut purged, total) = (0, length(logs.len()));
        for (done, (log, row)) in (1..).zip(logs) {
            let row = Arc::new(row);
            loop {
                let of = Arc::clone(&row);
                let step = self.change(move |shared, _| purge::step(shared, log, &of)).await?;
                let goes = step == Step::Goes;
                purged += u64::from(step == Step::Ends);
                if !progress.advance(done - u64::from(goes), Some(total)) {
                    return Ok(purged);
                }
                if !goes {
                    break;
                }
            }
        }
        rewritten.map(|()| purged)
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        self.write(id.clone(), Ask::ResetFence).await.map(|_| ())
    }
}

impl Tenant {
    /// Removes what deletions left, and rewrites logs of collections. The caller does not wait for it. What fails is
    /// done by the next purge.
    pub(crate) fn purge_in_background(&self) {
        match &mut *guard(&self.shared.behind) {
            // One thread of the pool is enough: it takes this tenant next.
            Some(wanted) => {
                wanted.insert(self.id.clone());
                return;
            }
            none => *none = Some(BTreeSet::from([self.id.clone()])),
        }
        let shared = Arc::clone(&self.shared);
        drop(self.shared.pool.run(move || rewrite::behind(&shared)));
    }

    async fn write_thread(&self, id: ThreadId, ask: Ask) -> Result<Thread> {
        match self.write(id, ask).await? {
            Answer::Thread(thread) => Ok(*thread),
            _ => Err(Error::closed()),
        }
    }
}

fn list(shared: &Arc<Shared>, tenant: &TenantId, query: &ThreadQuery) -> Result<Page<Thread>> {
    let limit = query.page.checked_limit()?;
    let scope = CursorScope::new(tenant, "threads", &query.cursor_binding());
    let mut from = Position::from_cursor(&shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    if from.is_none() && query.order == ThreadOrder::LastActivity && query.direction == Direction::Forward {
        // What is written after the first page is left out of the walk (PG-5).
        from = Some(Position { extra_number: shared.last_change(), ..Position::default() });
    }
    let bound = from.as_ref().map_or(0, |position| position.extra_number);
    let mut page = PageBuilder::new(limit);
    walk(&shared.index.snapshot(), tenant, query, from.as_ref(), |time, bytes, thread| {
        let position = Position { extra_number: bound, ..Position::new(time, thread.id.as_str()) };
        let item = query.filter.admits(thread).then(|| {
            let mut thread = thread.clone();
            records::stamp_thread(&mut thread, shared.meta.incarnation());
            thread
        });
        page.offer(position, bytes, item)
    })?;
    Ok(page.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
}

/// Walks the list that a query is about, from a position on, as long as `each` wants more.
fn walk(
    snapshot: &Snapshot,
    tenant: &TenantId,
    query: &ThreadQuery,
    from: Option<&Position>,
    mut each: impl FnMut(u64, u64, &Thread) -> bool,
) -> Result<()> {
    let list = table::thread_list(tenant, query.filter.list_key(), query.order);
    let bound = from.map_or(0, |position| position.extra_number);
    for pair in crate::pages::places(snapshot, &list, query.direction, from) {
        let (key, _) = pair?;
        let (time, id) = table::read_place(&list, &key).ok_or_else(|| crate::codec::damaged("thread list"))?;
        let bytes = snapshot.get(table::thread(tenant, &ThreadId::new(id)?).as_bytes())?;
        let bytes = bytes.ok_or_else(|| crate::codec::damaged("thread list"))?;
        let row: crate::codec::ThreadRow = crate::codec::read("thread", &bytes)?;
        if bound > 0 && snapshot.change_of(row.log)? > bound {
            continue;
        }
        if !each(time, length(bytes.len()), &row.stored.thread) {
            break;
        }
    }
    Ok(())
}
