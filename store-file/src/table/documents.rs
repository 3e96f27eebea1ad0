//! The keys of documents, and of their collections.

use store_core::{CollectionId, DocumentRef, DocumentScope, TenantId};

use super::{COLLECTION, DOCUMENT, DOCUMENT_BYTES, LOG_DOCUMENT, of_log, read_tenant_and_id};
use crate::index::Key;

/// The documents of all tenants, without those of threads.
pub(crate) fn all_documents() -> Key {
    Key::new(DOCUMENT)
}

/// The documents of a tenant, without those of its threads.
pub(crate) fn documents(tenant: &TenantId) -> Key {
    all_documents().text(tenant.as_str())
}

/// The tenant and the collection of such a key.
pub(crate) fn read_document(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(DOCUMENT, key)
}

/// The documents of a scope and a collection, by their encoded keys. `log` is the number of the thread's log; documents
/// of the tenant do not stand under the number of a log, as their log changes when it is rewritten.
pub(crate) fn collection_documents(
    tenant: &TenantId,
    scope: &DocumentScope,
    log: u64,
    collection: &CollectionId,
) -> Key {
    let scope = match scope {
        DocumentScope::Tenant => documents(tenant),
        DocumentScope::Thread(_) => of_log(LOG_DOCUMENT, log),
    };
    scope.text(collection.as_str())
}

/// Where a document stands. `log` is as for [`collection_documents`].
pub(crate) fn document(tenant: &TenantId, document: &DocumentRef, log: u64) -> Key {
    let key = &document.key;
    collection_documents(tenant, &document.scope, log, key.collection()).text(key.encoded())
}

/// The log of a collection.
pub(crate) fn collection(tenant: &TenantId, collection: &CollectionId) -> Key {
    collections(tenant).text(collection.as_str())
}

/// The logs of the collections of a tenant.
pub(crate) fn collections(tenant: &TenantId) -> Key {
    Key::new(COLLECTION).text(tenant.as_str())
}

/// The logs of the collections of all tenants.
pub(crate) fn all_collections() -> Key {
    Key::new(COLLECTION)
}

/// The collection of such a key.
pub(crate) fn read_collection(key: &[u8]) -> Option<String> {
    read_tenant_and_id(COLLECTION, key).map(|(_, collection)| collection)
}

/// How many bytes of the log of a collection are documents that exist.
pub(crate) fn document_bytes(log: u64) -> Key {
    of_log(DOCUMENT_BYTES, log)
}

/// Everything about documents that stands under the name of a tenant.
pub(crate) fn documents_of(tenant: &TenantId) -> [Key; 2] {
    [documents(tenant), collections(tenant)]
}

/// Whether a key is about documents of a tenant: while a log is rewritten, two logs say something of them.
pub(crate) fn is_of_documents(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(DOCUMENT | COLLECTION | DOCUMENT_BYTES)))
}
