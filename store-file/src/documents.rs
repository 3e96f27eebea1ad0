//! Documents: reading and listing them, and handing their changes to the writer.

use async_trait::async_trait;
use store_core::{
    CollectionId, Document, DocumentQuery, DocumentRef, DocumentScope, DocumentStore, Error, ErrorKind, Page, Result,
    TenantId, WriteDocuments, WrittenDocuments,
    document::{self, DocumentLoad},
};

use crate::{
    codec::{DocumentRow, Rows, damaged},
    index::Snapshot,
    line,
    names::{Part, no_log_id},
    records, refresh,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::{Answer, Ask},
};

#[async_trait]
impl DocumentStore for Tenant {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        self.check_open()?;
        DocumentLoad::begin(documents, &self.shared.limits)?;
        let documents = documents.to_vec();
        self.read(None, move |shared, tenant| again_if_moved(shared, || load_all(shared, tenant, &documents))).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.read(None, move |shared, tenant| again_if_moved(shared, || list(shared, tenant, &query))).await
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        self.check_open()?;
        document::check_write(&request, &self.shared.limits)?;
        let thread = request.thread().cloned();
        let log = match &thread {
            Some(thread) => (thread.clone(), Part::Thread),
            None => (no_log_id()?, Part::Events),
        };
        let answer = self.write_to(log, thread, Ask::Documents(Box::new(request))).await?;
        self.rewrite_if_due();
        match answer {
            Answer::Documents(written) => Ok(*written),
            _ => Err(Error::closed()),
        }
    }
}

impl Tenant {
    /// Begins to rewrite logs of collections in the background, if a write found that one is due.
    pub(crate) fn rewrite_if_due(&self) {
        if self.state.take_rewrite_due() {
            self.purge_in_background();
        }
    }
}

/// Reads once more in a store that is open for reading, if a log is missing: its holder may have rewritten it since.
fn again_if_moved<T>(shared: &Shared, read: impl Fn() -> Result<T>) -> Result<T> {
    match read() {
        Err(error) if shared.config.read_only && error.kind() == ErrorKind::Corrupt => {
            refresh::refresh(shared)?;
            read()
        }
        answer => answer,
    }
}

/// The log under whose number the documents of a scope stand, and the generation of the thread. `None` if there is no
/// such thread.
fn home(
    shared: &Shared,
    tenant: &TenantId,
    snapshot: &Snapshot,
    (scope, collection): (&DocumentScope, &CollectionId),
) -> Result<Option<(u64, u64)>> {
    match scope {
        DocumentScope::Tenant => {
            shared.check_collection(tenant, collection)?;
            Ok(Some((0, 0)))
        }
        DocumentScope::Thread(thread) => {
            let row = shared.thread_row(snapshot, tenant, thread)?;
            Ok(row.map(|row| (row.log, row.stored.thread.generation())))
        }
    }
}

fn load_all(shared: &Shared, tenant: &TenantId, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
    let mut load = DocumentLoad::begin(documents, &shared.limits)?;
    let snapshot = shared.index.snapshot();
    for (index, document) in documents.iter().enumerate() {
        let of = (&document.scope, document.key.collection());
        let Some((log, _)) = home(shared, tenant, &snapshot, of)? else { continue };
        if let Some(row) = snapshot.document_row(&table::document(tenant, document, log))? {
            load.add(index, read(shared, row)?)?;
        }
    }
    Ok(load.finish())
}

fn read(shared: &Shared, row: DocumentRow) -> Result<Document> {
    records::read(shared, row.log, row.span, line::decode_document)
}

fn list(shared: &Shared, tenant: &TenantId, query: &DocumentQuery) -> Result<Page<Document>> {
    let snapshot = shared.index.snapshot();
    let home = home(shared, tenant, &snapshot, (&query.scope, &query.collection))?;
    let generation = home.map_or(0, |(_, generation)| generation);
    let (range, mut page) = query.begin_page(generation, (tenant, &shared.cursor_key))?;
    let Some((log, _)) = home.filter(|_| !range.is_empty()) else { return Ok(page.finish()) };
    let list = table::collection_documents(tenant, &query.scope, log, &query.collection);
    let (from, before) = (list.clone().text(&range.from), list.text(&range.before));
    for pair in snapshot.range(from.as_bytes(), before.as_bytes(), query.direction) {
        let row = DocumentRow::decode(&pair?.1).ok_or_else(|| damaged("document"))?;
        if !page.offer(read(shared, row)?) {
            break;
        }
    }
    Ok(page.finish())
}
