//! Pending input.

use async_trait::async_trait;
use store_core::{
    AppendPending, AppendedInputs, EntryId, Page, PageRequest, PendingBody, PendingInput, PendingQueue, PendingStore,
    PendingUpdate, Reorder, Result, ThreadId,
    buffer::{Delta, OverlayView, keys_of_thread},
    commit::{DecisionContext, NeededKeys},
    pending::{self, QueueDecision},
};

use super::{
    decide::{Decided, Write},
    store::BufferedHandles,
    tenant::Concerns,
};

impl BufferedHandles {
    /// Changes a queue as a rule decides. `needed` are the inputs and runs that the rule reads.
    async fn change<T: Send + 'static>(
        &self,
        thread: &ThreadId,
        needed: NeededKeys,
        rule: impl Fn(&OverlayView<'_>, DecisionContext<'_>) -> Result<QueueDecision<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let thread = thread.clone();
        self.tenant
            .write(Some(thread.clone()), |tenant| async move {
                Write { tenant: &tenant, thread: &thread, needed, as_of: None }
                    .decide(|_, view, context| {
                        let QueueDecision { plan, answer } = rule(view, context)?;
                        let Some(plan) = plan else { return Ok(Decided::Answer(answer)) };
                        let parent = plan.thread.thread.parent_thread_id.clone();
                        let delta = Delta::of_queue(*plan);
                        let keys = keys_of_thread(&delta, parent.as_ref());
                        Ok(Decided::Write(delta, keys, answer))
                    })
                    .await
            })
            .await
    }
}

fn needs_inputs<'a>(ids: impl IntoIterator<Item = &'a EntryId>) -> NeededKeys {
    let mut needed = NeededKeys::default();
    needed.pending = ids.into_iter().cloned().collect();
    needed.entries.clone_from(&needed.pending);
    needed
}

#[async_trait]
impl PendingStore for BufferedHandles {
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs> {
        let mut needed = needs_inputs(request.inputs.iter().filter_map(|input| input.id.as_ref()));
        needed.runs.extend(request.inputs.iter().filter_map(|input| match &input.body {
            PendingBody::Decision(decision) => Some(decision.run.clone()),
            PendingBody::Message(_) => None,
        }));
        let thread = request.thread.clone();
        self.change(&thread, needed, move |view, context| pending::append(view, &request, context)).await
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant.read_inner(concerns, |inner| async move { inner.pending().load_queue(&thread).await }).await
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        let (thread, needed) = (request.thread.clone(), needs_inputs([&request.id]));
        self.change(&thread, needed, move |view, context| pending::update(view, &request, context)).await
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        let (needed, id) = (needs_inputs([id]), id.clone());
        self.change(thread, needed, move |view, context| pending::retract(view, &id, context)).await
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        let (thread, needed) = (request.thread.clone(), needs_inputs(&request.order));
        self.change(&thread, needed, move |view, context| pending::reorder(view, &request, context)).await
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        self.tenant
            .read_inner(Concerns::Tenant, |inner| async move { inner.pending().list_threads_with_pending(page).await })
            .await
    }
}
