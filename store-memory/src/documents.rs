//! Documents: loading, listing, writing.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Document, DocumentQuery, DocumentRef, DocumentStore, Page, Result, WriteDocuments, WrittenDocuments,
    document::{self, DocumentLoad},
};

use crate::{
    slot::ThreadSlot,
    tenant::Tenant,
    view::{DocumentWritePlanView, TenantEventsView},
};

/// The documents of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryDocuments {
    tenant: Arc<Tenant>,
}

impl MemoryDocuments {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl DocumentStore for MemoryDocuments {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        let tenant = self.tenant.check_open()?;
        let mut load = DocumentLoad::begin(documents, tenant.decision_context().limits)?;
        let stored = tenant.index.read();
        for (index, document) in documents.iter().enumerate() {
            if let Some(document) = stored.documents.get(document) {
                load.add(index, document.clone())?;
            }
        }
        Ok(load.finish())
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        let tenant = self.tenant.check_open()?;
        let index = tenant.index.read();
        let generation = query.scope.thread().map_or(0, |thread| index.generation(thread));
        let (range, mut page) = query.begin_page(generation, tenant.tenant_and_cursor_key())?;
        for document in index.documents.walk((&query.scope, &query.collection), &range, query.direction) {
            if !page.offer(document.clone()) {
                break;
            }
        }
        Ok(page.finish())
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        document::check_write(&request, tenant.decision_context().limits)?;
        match request.thread() {
            Some(thread) => tenant.slots.write(thread, |slot| plan_and_apply(tenant, Some(slot), &request)),
            None => plan_and_apply(tenant, None, &request),
        }
    }
}

/// Plans a write and applies it. The caller has locked the slot of the thread that the write is about, if there is one.
fn plan_and_apply(
    tenant: &Tenant,
    mut slot: Option<&mut ThreadSlot>,
    request: &WriteDocuments,
) -> Result<WrittenDocuments> {
    let mailbox = request.fence.is_some().then(|| tenant.mailbox.read());
    let mut index = tenant.index.write();
    let view = DocumentWritePlanView {
        slot: slot.as_deref(),
        documents: &index.documents,
        events: TenantEventsView { events: &index.events, tenant },
        mailbox: mailbox.as_deref(),
    };
    let decision = document::plan_write(&view, request, tenant.decision_context())?;
    if let (Some((thread, record)), Some(slot)) = (decision.plan.id_record, &mut slot) {
        index.put_id_record(&thread, slot, record);
    }
    index.documents.apply(decision.plan.documents);
    if let Some(events) = decision.plan.events {
        index.events.apply(events);
    }
    Ok(decision.answer)
}

impl fmt::Debug for MemoryDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDocuments").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
