//! Events under a claim. Reading and subscribing are unrestricted; only events of the claim's thread can be appended.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendedEvents, Event, EventFilter, EventId, EventQuery, EventReader, EventRetention, EventStore,
    EventSubscriber, EventWriter, Page, RedactEvent, Result, Scope, ScopeInfo, Subscribe, Subscription, TrimRequest,
    Trimmed,
};

use super::HeldClaim;
use crate::worker::unsupported_under_claim;

/// The event store of one claim.
pub(super) struct FencedEvents {
    inner: Arc<dyn EventStore>,
    claim: HeldClaim,
}

impl FencedEvents {
    pub(super) fn new(inner: Arc<dyn EventStore>, claim: HeldClaim) -> Self {
        Self { inner, claim }
    }
}

#[async_trait]
impl EventWriter for FencedEvents {
    async fn append_events(&self, mut request: AppendEvents) -> Result<AppendedEvents> {
        request.fence = self.claim.checked_fence(request.fence.take())?;
        // `fenced_thread` refuses events of several threads, or of none.
        if let Some(thread) = store_core::event::fenced_thread(&request)? {
            self.claim.check_thread_and_claim(&thread)?;
        }
        self.inner.append_events(request).await
    }
}

#[async_trait]
impl EventReader for FencedEvents {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        self.inner.load_event(id).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.inner.list_events(query).await
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        self.inner.count_events(scope, filter).await
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        self.inner.load_scope(scope).await
    }
}

#[async_trait]
impl EventSubscriber for FencedEvents {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        self.inner.subscribe(request).await
    }
}

#[async_trait]
impl EventRetention for FencedEvents {
    async fn trim_events(&self, _request: TrimRequest) -> Result<Trimmed> {
        Err(unsupported_under_claim("trimming events under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn redact_events(&self, _requests: Vec<RedactEvent>) -> Result<u64> {
        Err(unsupported_under_claim("redacting events under a claim (do it with a handle of `Stores` instead)"))
    }
}
