//! Documents under a claim. Reading is unrestricted; a write names the claim, and no other thread than that of the
//! claim.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{Document, DocumentQuery, DocumentRef, DocumentStore, Page, Result, WriteDocuments, WrittenDocuments};

use super::HeldClaim;

/// The documents of one claim.
pub(super) struct FencedDocuments {
    inner: Arc<dyn DocumentStore>,
    claim: HeldClaim,
}

impl FencedDocuments {
    pub(super) fn new(inner: Arc<dyn DocumentStore>, claim: HeldClaim) -> Self {
        Self { inner, claim }
    }
}

#[async_trait]
impl DocumentStore for FencedDocuments {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        self.inner.load_documents(documents).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.inner.list_documents(query).await
    }

    async fn write_documents(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        match request.thread() {
            Some(thread) => self.claim.check_thread_and_claim(thread)?,
            None => self.claim.check_not_lost()?,
        }
        let fence = self.claim.checked_fence(request.fence.take().map(|(_, fence)| fence))?;
        request.fence = fence.map(|fence| (self.claim.thread.clone(), fence));
        self.inner.write_documents(request).await
    }
}
