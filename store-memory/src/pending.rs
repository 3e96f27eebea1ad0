//! Pending input.

use std::{fmt, ops::Bound, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendPending, AppendedInputs, CursorScope, EntryId, Page, PageBuilder, PageRequest, PendingBody, PendingInput,
    PendingQueue, PendingStore, PendingUpdate, Position, Reorder, Result, RunId, ThreadId,
    pending::{self, QueueDecision, QueuePlan},
};

use crate::{
    slot::{ThreadContents, ThreadSlot},
    tenant::{Documents, Events, Outbox, Tenant},
    view::{PlanView, TenantEventsView},
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

    /// Plans a change of a queue and applies it. `runs` are the runs that the plan looks up.
    fn change<'a, T>(
        &self,
        thread: &ThreadId,
        runs: impl IntoIterator<Item = &'a RunId>,
        plan: impl FnOnce(&PlanView<'_>, &Tenant) -> Result<QueueDecision<T>>,
    ) -> Result<T> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        tenant.slots.write(thread, |slot| {
            // The index contains the runs of all threads. Only those of this thread matter for the plan, and they do
            // not change while the slot is locked. The plan reads no events, no outbox rows and no
            // documents.
            let index_records = tenant.index.read().runs_for_plan(runs);
            let events = TenantEventsView { events: &Events::default(), tenant };
            let view = PlanView {
                slot,
                index_records: &index_records,
                events,
                outbox: &Outbox::default(),
                documents: &Documents::default(),
                mailbox: None,
            };
            let decision = plan(&view, tenant)?;
            if let Some(plan) = decision.plan {
                apply_queue_plan(tenant, slot, *plan);
            }
            Ok(decision.answer)
        })
    }
}

fn apply_queue_plan(tenant: &Tenant, slot: &mut ThreadSlot, plan: QueuePlan) {
    let thread = Arc::new(plan.thread);
    let mut index = tenant.index.write();
    index.put_id_record(&thread.thread.id, slot, plan.id_record);
    index.put_thread(&thread);
    drop(index);
    let contents = slot.contents.get_or_insert_with(|| Box::new(ThreadContents::new(Arc::clone(&thread))));
    contents.thread = thread;
    contents.queue.apply(plan.write);
}

#[async_trait]
impl PendingStore for MemoryPending {
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs> {
        let runs = request.inputs.iter().filter_map(|input| match &input.body {
            PendingBody::Decision(decision) => Some(&decision.run),
            PendingBody::Message(_) => None,
        });
        self.change(&request.thread, runs, |view, tenant| pending::append(view, &request, tenant.decision_context()))
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        Ok(self.tenant.check_open()?.slots.read(thread, |slot| match &slot.contents {
            Some(contents) => PendingQueue::new(contents.thread.queue.revision, contents.queue.inputs().cloned()),
            None => PendingQueue::new(0, []),
        }))
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        self.change(&request.thread, [], |view, tenant| pending::update(view, &request, tenant.decision_context()))
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        self.change(thread, [], |view, tenant| pending::retract(view, id, tenant.decision_context()))
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        self.change(&request.thread, [], |view, tenant| pending::reorder(view, &request, tenant.decision_context()))
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        let tenant = self.tenant.check_open()?;
        let mut page_builder = PageBuilder::new(page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_threads_with_pending", "");
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, page.cursor.as_ref())?;
        let after = after.map(|after| ThreadId::new(&after.id)).transpose()?;
        let index = tenant.index.read();
        for thread in index.threads_with_pending((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)) {
            if !page_builder.offer(Position::new(0, thread.as_str()), 0, Some(thread.clone())) {
                break;
            }
        }
        drop(index);
        Ok(page_builder.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)))
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

    async fn append_messages(pending: &dyn PendingStore, inputs: usize) -> Result<Vec<EntryId>, ErrorKind> {
        let inputs = (0..inputs).map(|_| NewInput::message(Message::user("a")));
        let request = AppendPending::new(ThreadId::new("t").unwrap(), inputs);
        let result = pending.append_pending(request).await;
        result.map(|appended| appended.inputs.into_iter().map(|input| input.id).collect()).map_err(|e: Error| e.kind())
    }

    #[tokio::test]
    async fn a_generated_id_that_is_in_use_is_refused() {
        let store = MemoryStore::open(MemoryConfig::default().with_ids(Arc::new(ConstantIds))).unwrap();
        let tenant = store.tenant(&TenantId::default_tenant()).unwrap();
        let pending = &*tenant.pending.unwrap();
        let already_exists = Err(ErrorKind::AlreadyExists);
        assert_eq!(append_messages(pending, 2).await, already_exists);
        assert_eq!(append_messages(pending, 1).await, Ok(vec![EntryId::new("same").unwrap()]));
        assert_eq!(append_messages(pending, 1).await, already_exists);
        // An id that is already in the log is refused as well.
        let thread = ThreadId::new("t").unwrap();
        let version = tenant.threads.unwrap().load_thread(&thread).await.unwrap().unwrap().version;
        let queue = pending.load_queue(&thread).await.unwrap();
        let commit = Commit::new(thread).expecting(Expect::Version(version));
        let consuming_commit = commit.consuming(queue.inputs.iter().map(store_core::PendingInput::to_input_ref));
        let _ = tenant.commits.unwrap().commit(consuming_commit).await.unwrap();
        assert_eq!(append_messages(pending, 1).await, already_exists);
    }
}
