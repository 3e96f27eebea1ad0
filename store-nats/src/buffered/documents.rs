//! Documents.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CommitCoordinator, Detail, Document, DocumentQuery, DocumentRef, DocumentStore, Error, Page, Result, ThreadId,
    WriteDocuments, WrittenDocuments,
    buffer::{Delta, keys_of_documents},
    commit::NeededKeys,
    document,
};

use super::{
    decide::{Decided, Write},
    events::name_of_scope,
    store::BufferedHandles,
    tenant::{BufferedTenant, Concerns},
};

fn documents_of(inner: &dyn CommitCoordinator) -> Result<Arc<dyn DocumentStore>> {
    inner.documents().ok_or_else(|| Error::new(Detail::Unsupported { operation: "documents" }))
}

#[async_trait]
impl DocumentStore for BufferedHandles {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        let documents = documents.to_vec();
        self.tenant
            .read_inner(
                Concerns::Tenant,
                |inner| async move { documents_of(&*inner)?.load_documents(&documents).await },
            )
            .await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.tenant
            .read_inner(Concerns::Tenant, |inner| async move { documents_of(&*inner)?.list_documents(query).await })
            .await
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        let scope = request.thread().cloned();
        self.tenant.write(scope, |tenant| async move { write(&tenant, &request).await }).await
    }
}

async fn write(tenant: &BufferedTenant, request: &WriteDocuments) -> Result<WrittenDocuments> {
    let mut needed = NeededKeys::default();
    needed.documents.extend(request.changes.iter().map(|change| change.document.clone()));
    let thread = request.thread().cloned().map_or_else(|| name_of_request(request), Ok)?;
    Write { tenant, thread: &thread, needed, as_of: None }
        .decide(|_, view, context| {
            let decision = document::plan_write(view, request, context)?;
            let keys = keys_of_documents(request, decision.plan.events.as_ref());
            Ok(Decided::Write(Delta::Documents(Box::new(decision.plan)), keys, decision.answer))
        })
        .await
}

/// Returns the name under which writes of documents of the tenant are ordered among those of this node: writes of one
/// document share it.
fn name_of_request(request: &WriteDocuments) -> Result<ThreadId> {
    match request.changes.first() {
        Some(change) => ThreadId::new(change.document.key.collection().as_str()),
        None => name_of_scope(request.events.as_ref().and_then(|events| events.drafts.first()?.scopes.first())),
    }
}
