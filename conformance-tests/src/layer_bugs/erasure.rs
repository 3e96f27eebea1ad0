//! Erasures with planted bugs, and the stores that they change for it.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendedEvents, Document, DocumentOp, DocumentQuery, DocumentRef, DocumentStore, EraseResource,
    EraseThread, Erased, ErasureLayer, ErasureStore, Error, Event, EventFilter, EventId, EventQuery, EventReader,
    EventRetention, EventStore, EventSubscriber, EventWriter, Expect, IgnoreProgress, Page, Progress, RedactEvent,
    Result, Scope, ScopeInfo, Subscribe, Subscription, TenantStores, ThreadFilter, ThreadId, ThreadPatch, ThreadQuery,
    TrimRequest, Trimmed, WriteDocuments, WrittenDocuments, length,
};

use super::LayerBug;

/// Erasures with a planted bug.
pub(super) struct BuggyErasure {
    stores: TenantStores,
    inner: ErasureLayer,
    bug: LayerBug,
}

impl BuggyErasure {
    pub(super) fn new(stores: TenantStores, bug: LayerBug) -> Result<Self> {
        let mut changed = stores.clone();
        match bug {
            LayerBug::ErasureKeepsDispatches => changed.mailbox = None,
            LayerBug::ErasureKeepsOutboxRows => changed.outbox = None,
            _ => {}
        }
        changed.events = changed.events.map(|events| Arc::new(FaultyEvents { events, bug }) as _);
        changed.documents = changed.documents.map(|documents| Arc::new(KeptDocuments { documents, bug }) as _);
        Ok(Self { stores, inner: ErasureLayer::new(changed, None)?, bug })
    }

    async fn all_threads(&self) -> Result<Vec<store_core::Thread>> {
        let threads = self.stores.threads.as_ref().ok_or_else(Error::closed)?;
        Ok(threads.list_threads(ThreadQuery::default()).await?.items)
    }

    async fn update_all(&self, patch: ThreadPatch, is_meant: impl Fn(&store_core::Thread) -> bool) -> Result<()> {
        let threads = self.stores.threads.as_ref().ok_or_else(Error::closed)?;
        for thread in self.all_threads().await?.into_iter().filter(is_meant) {
            let _thread = threads.update_thread(&thread.id, patch.clone(), Expect::Any).await?;
        }
        Ok(())
    }

    async fn exists(&self, thread: &ThreadId) -> Result<bool> {
        let threads = self.stores.threads.as_ref().ok_or_else(Error::closed)?;
        Ok(threads.load_thread(thread).await?.is_some())
    }
}

#[async_trait]
impl ErasureStore for BuggyErasure {
    async fn erase_thread(&self, mut request: EraseThread, progress: &dyn Progress) -> Result<Erased> {
        match self.bug {
            LayerBug::ErasureKeepsTheThread => request.dry_run = true,
            LayerBug::ErasureDryRunErases => request.dry_run = false,
            LayerBug::ErasureIgnoresNamedStreams => request.replay.clear(),
            LayerBug::ErasureAuditHasContent => request.audit = request.audit.with_error("a title"),
            LayerBug::ErasureRefusesUnknown if !self.exists(&request.thread).await? => {
                return Err(Error::not_found("thread", &request.thread));
            }
            LayerBug::ErasureLeavesLeftovers if !self.exists(&request.thread).await? => return Ok(Erased::default()),
            LayerBug::ErasureKeepsDescendants => {
                let mut patch = ThreadPatch::default();
                patch.parent_thread_id = Some(None);
                self.update_all(patch, |thread| thread.parent_thread_id.is_some()).await?;
            }
            LayerBug::ErasureIgnoresResources => {
                let mut patch = ThreadPatch::default();
                patch.resource_id = Some(None);
                self.update_all(patch, |thread| thread.resource_id.is_some()).await?;
            }
            _ => {}
        }
        let erased = self.inner.erase_thread(request.clone(), progress).await?;
        if self.bug == LayerBug::ErasureTakesOthers {
            for thread in self.all_threads().await? {
                self.inner.erase_thread(EraseThread::new(thread.id, request.audit.clone()), progress).await?;
            }
        }
        Ok(erased)
    }

    async fn erase_resource(&self, mut request: EraseResource, progress: &dyn Progress) -> Result<Erased> {
        match self.bug {
            LayerBug::ErasureDryRunErases => request.dry_run = false,
            LayerBug::ErasureCannotBeStopped => return self.inner.erase_resource(request, &IgnoreProgress).await,
            LayerBug::ErasureOfOneThread => {
                let mut filter = ThreadFilter::default();
                filter.resource_id = Some(request.resource.clone());
                let threads = self.stores.threads.as_ref().ok_or_else(Error::closed)?;
                let first = threads.list_threads(ThreadQuery::new(filter)).await?.items.pop();
                let thread = first.map_or_else(|| "none".parse(), |thread| Ok(thread.id))?;
                return self.inner.erase_thread(EraseThread::new(thread, request.audit), progress).await;
            }
            _ => {}
        }
        self.inner.erase_resource(request, progress).await
    }
}

/// Events of which an erasure leaves something.
struct FaultyEvents {
    events: Arc<dyn EventStore>,
    bug: LayerBug,
}

#[async_trait]
impl EventWriter for FaultyEvents {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        self.events.append_events(request).await
    }
}

#[async_trait]
impl EventReader for FaultyEvents {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        self.events.load_event(id).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.events.list_events(query).await
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        self.events.count_events(scope, filter).await
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        self.events.load_scope(scope).await
    }
}

#[async_trait]
impl EventSubscriber for FaultyEvents {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        self.events.subscribe(request).await
    }
}

#[async_trait]
impl EventRetention for FaultyEvents {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let request = if self.bug == LayerBug::ErasureKeepsEvents { request.dry() } else { request };
        self.events.trim_events(request).await
    }

    async fn redact_events(&self, mut requests: Vec<RedactEvent>) -> Result<u64> {
        let count = length(requests.len());
        match self.bug {
            LayerBug::ErasureKeepsContents => requests.retain(|request| request.payload.is_some()),
            LayerBug::ErasureKeepsAuditValues => requests.retain(|request| request.payload.is_none()),
            _ => {}
        }
        self.events.redact_events(requests).await.map(|_| count)
    }
}

/// Documents of which an erasure leaves some.
struct KeptDocuments {
    documents: Arc<dyn DocumentStore>,
    bug: LayerBug,
}

impl KeptDocuments {
    const fn kept(&self) -> Option<&'static str> {
        match self.bug {
            LayerBug::ErasureKeepsReplay => Some("layer.replay.records"),
            LayerBug::ErasureKeepsEntries => Some("layer.effects.order"),
            LayerBug::ErasureKeepsProfiles => Some("layer.profiles"),
            _ => None,
        }
    }
}

#[async_trait]
impl DocumentStore for KeptDocuments {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        self.documents.load_documents(documents).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        if self.kept() == Some(query.collection.as_str()) {
            return Ok(Page { items: Vec::new(), next: None });
        }
        self.documents.list_documents(query).await
    }

    async fn write_documents(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        if self.bug == LayerBug::ErasureKeepsBytes {
            request.changes.retain(|change| {
                !(matches!(change.op, DocumentOp::Put(_))
                    && change.document.key.collection().as_str() == "layer.replay.records")
            });
        }
        self.documents.write_documents(request).await
    }
}
