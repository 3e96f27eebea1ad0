//! Documents, ordered by key: those of the tenant, and those of a thread. The id that a case gives to a record is the
//! segment of the key of the document.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CollectionId, Direction, Document, DocumentChange, DocumentKey, DocumentQuery, DocumentRef, DocumentScope,
    DocumentStore, Error, ErrorKind, Json, KeySegment, NewThread, Page, PageRequest, Result, TenantStores, ThreadId,
    WriteDocuments,
};

use super::{BOTH_DIRECTIONS, ListedRecord, RecordList};
use crate::given::id;

fn documents(stores: &TenantStores) -> Result<Arc<dyn DocumentStore>> {
    stores.documents.clone().ok_or_else(|| Error::unavailable("the store has no documents"))
}

fn collection() -> CollectionId {
    id("probe")
}

fn key(segment: &str) -> Result<DocumentKey> {
    DocumentKey::new(collection(), [KeySegment::id(segment)?])
}

async fn write(stores: &TenantStores, document: DocumentRef) -> Result<()> {
    let request = WriteDocuments::new([DocumentChange::put(document, Json::null())]);
    documents(stores)?.write_documents(request).await.map(drop)
}

async fn list(
    stores: &TenantStores,
    scope: DocumentScope,
    direction: Direction,
    page: PageRequest,
) -> Result<Page<ListedRecord>> {
    let query = DocumentQuery::new(collection()).in_scope(scope).with_direction(direction).with_page(page);
    let name = |document: &Document| document.key.segments().iter().map(ToString::to_string).collect::<String>();
    Ok(documents(stores)?.list_documents(query).await?.map(|document| ListedRecord::new(0, name(&document))))
}

pub(super) struct DocumentsOfTenant;

#[async_trait]
impl RecordList for DocumentsOfTenant {
    fn name(&self) -> &'static str {
        "documents"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        write(stores, key(id)?.into()).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(documents(stores)?.load_documents(&[key(id)?.into()]).await?.iter().any(Option::is_some))
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        list(stores, DocumentScope::Tenant, direction, page).await
    }
}

fn thread() -> ThreadId {
    id("documents")
}

pub(super) struct DocumentsOfThread;

#[async_trait]
impl RecordList for DocumentsOfThread {
    fn name(&self) -> &'static str {
        "documents of a thread"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        if let Some(threads) = &stores.threads {
            match threads.create_thread(NewThread::new(thread())).await {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        write(stores, key(id)?.in_thread(thread())).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        let document = key(id)?.in_thread(thread());
        Ok(documents(stores)?.load_documents(&[document]).await?.iter().any(Option::is_some))
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        list(stores, DocumentScope::Thread(thread()), direction, page).await
    }
}
