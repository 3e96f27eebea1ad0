//! Events.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use futures_util::StreamExt;
use store_core::{
    AppendEvents, AppendedEvents, Event, EventFilter, EventId, EventQuery, EventReader, EventRetention,
    EventSubscriber, EventWriter, Page, RedactEvent, Result, Scope, ScopeInfo, Subscribe, Subscription, ThreadId,
    TrimRequest, Trimmed,
    buffer::{Delta, keys_of_append},
    commit::{CommitView, NeededKeys},
    event::{self, AppendOptions},
};

use super::{
    decide::{Decided, Write},
    shared::Shared,
    store::{BufferedHandles, StoreState},
    tenant::{BufferedTenant, Concerns},
};

#[async_trait]
impl EventWriter for BufferedHandles {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let fenced = event::fenced_thread(&request)?;
        self.tenant
            .write(fenced.clone(), |tenant| async move { append(&tenant, &request, fenced.as_ref()).await })
            .await
    }
}

/// Counts a subscription until it is dropped, and keeps the buffer open as long (PR-8).
struct OpenSubscription {
    shared: Arc<Shared>,
    _store: Arc<StoreState>,
}

impl OpenSubscription {
    fn new(handles: &BufferedHandles) -> Self {
        handles.tenant.shared.subscriptions.fetch_add(1, Ordering::SeqCst);
        Self { shared: Arc::clone(&handles.tenant.shared), _store: Arc::clone(&handles.store) }
    }
}

impl Drop for OpenSubscription {
    fn drop(&mut self) {
        self.shared.subscriptions.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns the name under which writes of a scope are ordered among those of this node.
pub(crate) fn name_of_scope(scope: Option<&Scope>) -> Result<ThreadId> {
    match scope {
        Some(Scope::Thread(thread)) => Ok(thread.clone()),
        Some(Scope::Run(run)) => ThreadId::new(run.as_str()),
        Some(Scope::Topic(topic)) => ThreadId::new(topic.as_str()),
        None => ThreadId::new("-"),
    }
}

async fn append(tenant: &BufferedTenant, request: &AppendEvents, fenced: Option<&ThreadId>) -> Result<AppendedEvents> {
    let first_scope = request.drafts.first().and_then(|draft| draft.scopes.first());
    let thread = fenced.cloned().map_or_else(|| name_of_scope(first_scope), Ok)?;
    let mut needed = NeededKeys::default();
    needed.runs.extend(request.drafts.iter().flat_map(|draft| &draft.scopes).filter_map(|scope| match scope {
        Scope::Run(run) => Some(run.clone()),
        _ => None,
    }));
    Write { tenant, thread: &thread, needed, as_of: None }
        .decide(|_, view, context| {
            let mut id_record = if fenced.is_some() { Some(CommitView::id_record(view)?) } else { None };
            let options = AppendOptions { id_record: id_record.as_mut(), ..AppendOptions::default() };
            let decision = event::append(view, request, context, options)?;
            let Some(plan) = decision.plan else { return Ok(Decided::Answer(decision.answer)) };
            let keys = keys_of_append(request, fenced, &plan);
            let delta = Delta::of_events(plan, fenced.cloned().zip(id_record));
            Ok(Decided::Write(delta, keys, decision.answer))
        })
        .await
}

#[async_trait]
impl EventReader for BufferedHandles {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        let id = id.clone();
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.events().load_event(&id).await }).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.events().list_events(query).await }).await
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        let (scope, filter) = (scope.clone(), filter.clone());
        self.tenant
            .read_inner(Concerns::Tenant, |inner| async move { inner.events().count_events(&scope, &filter).await })
            .await
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        let scope = scope.clone();
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.events().load_scope(&scope).await }).await
    }
}

#[async_trait]
impl EventSubscriber for BufferedHandles {
    /// The events come from the inner store, so a subscriber sees an event when its delta is applied. While a
    /// subscription is open, this node applies deltas with events at once (NB-15).
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let open = OpenSubscription::new(self);
        let mut subscription = self
            .tenant
            .read_inner(Concerns::Tenant, |inner| async move { inner.events().subscribe(request).await })
            .await?;
        subscription.events = Box::pin(subscription.events.inspect(move |_| {
            let _counts_until_the_stream_is_dropped = &open;
        }));
        Ok(subscription)
    }
}

#[async_trait]
impl EventRetention for BufferedHandles {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        self.tenant.write_inner(|inner| async move { inner.events().trim_events(request).await }).await
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        self.tenant.write_inner(|inner| async move { inner.events().redact_events(requests).await }).await
    }
}
