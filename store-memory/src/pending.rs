//! Pending input.

use std::{fmt, ops::Bound, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendPending, Appended, CursorScope, EntryId, Page, PageBuilder, PageRequest, PendingBody, PendingInput,
    PendingQueue, PendingStore, PendingUpdate, Position, Reorder, Result, RunId, ThreadId,
    pending::{self, QueueChange, QueuePlan},
};

use crate::{
    slot::{Contents, Slot},
    tenant::{Events, Outbox, Tenant},
    view::{EventsView, View},
};

/// The pending input of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryPending {
    tenant: Arc<Tenant>,
}

impl MemoryPending {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }

    /// Plans a change of a queue and applies it.
    fn change<'a, T>(
        &self,
        thread: &ThreadId,
        runs: impl IntoIterator<Item = &'a RunId>,
        plan: impl FnOnce(&View<'_>, &Tenant) -> Result<QueueChange<T>>,
    ) -> Result<T> {
        let tenant = self.tenant.check_open()?;
        tenant.slots.write(thread, |slot| {
            // Only runs of this thread matter, and they do not change while the slot is locked.
            let external = tenant.index.read().external_runs(runs);
            let events = EventsView { events: &Events::default(), tenant };
            let view = View { slot, external: &external, events, outbox: &Outbox::default(), mailbox: None };
            let change = plan(&view, tenant)?;
            if let Some(plan) = change.plan {
                write(tenant, slot, *plan);
            }
            Ok(change.answer)
        })
    }
}

fn write(tenant: &Tenant, slot: &mut Slot, plan: QueuePlan) {
    let thread = Arc::new(plan.thread);
    let mut index = tenant.index.write();
    index.put_id(&thread.thread.id, slot, plan.id);
    index.put_thread(&thread);
    drop(index);
    let contents = slot.contents.get_or_insert_with(|| Box::new(Contents::new(Arc::clone(&thread))));
    contents.thread = thread;
    contents.queue.apply(plan.write);
}

#[async_trait]
impl PendingStore for MemoryPending {
    async fn append_pending(&self, request: AppendPending) -> Result<Appended> {
        let runs = request.inputs.iter().filter_map(|input| match &input.body {
            PendingBody::Decision(decision) => Some(&decision.run),
            PendingBody::Message(_) => None,
        });
        self.change(&request.thread, runs, |view, tenant| pending::append(view, &request, tenant.setting()))
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        Ok(self.tenant.check_open()?.slots.read(thread, |slot| match &slot.contents {
            Some(contents) => PendingQueue::new(contents.thread.queue.revision, contents.queue.inputs().cloned()),
            None => PendingQueue::new(0, []),
        }))
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        self.change(&request.thread, [], |view, tenant| pending::update(view, &request, tenant.setting()))
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        self.change(thread, [], |view, tenant| pending::retract(view, id, tenant.setting()))
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        self.change(&request.thread, [], |view, tenant| pending::reorder(view, &request, tenant.setting()))
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        let tenant = self.tenant.check_open()?;
        let mut found = PageBuilder::new(page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_threads_with_pending", "");
        let after = Position::open(&tenant.common.cursors, &scope, page.cursor.as_ref())?;
        let after = after.map(|after| ThreadId::new(&after.id)).transpose()?;
        let index = tenant.index.read();
        for thread in index.pending((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)) {
            if !found.offer(Position::new(0, thread.as_str()), 0, Some(thread.clone())) {
                break;
            }
        }
        drop(index);
        Ok(found.finish(|at| at.seal(&tenant.common.cursors, &scope)))
    }
}

impl fmt::Debug for MemoryPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPending").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store_core::{
        AppendPending, Commit, EntryId, Error, ErrorKind, Expect, IdSource, Message, NewInput, PendingStore, Store,
        TenantId, ThreadId,
    };

    use crate::{MemoryConfig, MemoryStore};

    /// An id source that always returns the same id.
    #[derive(Debug)]
    struct ConstantIds;

    impl IdSource for ConstantIds {
        fn next_id(&self) -> String {
            "same".to_owned()
        }
    }

    async fn append(pending: &dyn PendingStore, inputs: usize) -> Result<Vec<EntryId>, ErrorKind> {
        let inputs = (0..inputs).map(|_| NewInput::message(Message::user("a")));
        let request = AppendPending::new(ThreadId::new("t").unwrap(), inputs);
        let appended = pending.append_pending(request).await;
        appended
            .map(|appended| appended.inputs.into_iter().map(|input| input.id).collect())
            .map_err(|e: Error| e.kind())
    }

    #[tokio::test]
    async fn a_generated_id_that_is_in_use_is_refused() {
        let store = MemoryStore::open(MemoryConfig::default().with_ids(Arc::new(ConstantIds))).unwrap();
        let tenant = store.tenant(&TenantId::default_tenant()).unwrap();
        let pending = &*tenant.pending.unwrap();
        let taken = Err(ErrorKind::AlreadyExists);
        assert_eq!(append(pending, 2).await, taken);
        assert_eq!(append(pending, 1).await, Ok(vec![EntryId::new("same").unwrap()]));
        assert_eq!(append(pending, 1).await, taken);
        // An id that is already in the log is refused as well.
        let thread = ThreadId::new("t").unwrap();
        let version = tenant.threads.unwrap().load_thread(&thread).await.unwrap().unwrap().version;
        let queue = pending.load_queue(&thread).await.unwrap();
        let commit = Commit::new(thread).expecting(Expect::Version(version));
        let consuming = commit.consuming(queue.inputs.iter().map(store_core::PendingInput::as_ref));
        let _ = tenant.commits.unwrap().commit(consuming).await.unwrap();
        assert_eq!(append(pending, 1).await, taken);
    }
}
