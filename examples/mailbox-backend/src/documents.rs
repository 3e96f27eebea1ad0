//! Documents: loading, listing, writing.

use std::collections::BTreeMap;

use async_trait::async_trait;
use store_core::{
    Direction, Document, DocumentQuery, DocumentRef, DocumentStore, Page, Result, ThreadId, WriteDocuments,
    WrittenDocuments,
    document::{self, DocumentLoad, DocumentState, DocumentView, DocumentWrite, DocumentWritePlan, DocumentWriteView},
    event::EventView,
    mailbox::MailboxView,
    thread::ThreadIdRecord,
};

use crate::{data::TenantData, mailbox::MapTenant};

/// The documents of a tenant, in the order of scope, collection and key.
#[derive(Debug, Default)]
pub(crate) struct StoredDocuments {
    pub(crate) by_name: BTreeMap<DocumentRef, Document>,
    /// The revision of the last write, also of an earlier tenant with this name.
    pub(crate) last_revision: u64,
    /// For each thread, the highest claim under which something was written.
    pub(crate) id_records: BTreeMap<ThreadId, ThreadIdRecord>,
}

/// What the rule of a write reads, in addition to events.
impl DocumentView for TenantData {
    fn document(&self, document: &DocumentRef) -> Result<Option<DocumentState>> {
        Ok(self.documents.by_name.get(document).map(Document::state))
    }

    fn next_document_revision(&self) -> Result<u64> {
        Ok(self.documents.last_revision + 1)
    }
}

impl DocumentWriteView for TenantData {
    /// Returns true: the store keeps no threads, so it accepts documents of any thread, as its mailbox does.
    fn has_thread(&self, _thread: &ThreadId) -> Result<bool> {
        Ok(true)
    }

    fn id_record(&self, thread: &ThreadId) -> Result<ThreadIdRecord> {
        Ok(self.documents.id_records.get(thread).cloned().unwrap_or_default())
    }

    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        Some(self)
    }
}

impl TenantData {
    /// Writes a plan. The caller holds the lock, so no reader sees only a part of the plan.
    fn write_documents(&mut self, plan: DocumentWritePlan) {
        let stored = &mut self.documents;
        stored.last_revision = plan.documents.revision.unwrap_or(stored.last_revision);
        for change in plan.documents.changes {
            let name = change.document;
            match change.write {
                DocumentWrite::Put(value) => drop(stored.by_name.insert(name.clone(), Document::new(name, value))),
                DocumentWrite::Delete => drop(stored.by_name.remove(&name)),
                DocumentWrite::Keep => {}
            }
        }
        stored.id_records.extend(plan.id_record);
        plan.events.into_iter().for_each(|events| self.events.write(events));
    }
}

#[async_trait]
impl DocumentStore for MapTenant {
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        self.with_data(|data, decision_context| {
            let mut load = DocumentLoad::begin(documents, decision_context.limits)?;
            for (index, name) in documents.iter().enumerate() {
                if let Some(document) = data.documents.by_name.get(name) {
                    load.add(index, document.clone())?;
                }
            }
            Ok(load.finish())
        })
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.with_data(|data, _| {
            let (range, mut page) = query.begin_page(0, data.tenant_and_cursor_key())?;
            let in_range = data.documents.by_name.values().filter(|document| {
                document.scope == query.scope
                    && *document.key.collection() == query.collection
                    && range.contains(document.key.encoded())
            });
            let mut in_order: Vec<_> = in_range.collect();
            if query.direction == Direction::Backward {
                in_order.reverse();
            }
            let _is_last = in_order.into_iter().all(|document| page.offer(document.clone()));
            Ok(page.finish())
        })
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        self.with_data(|data, decision_context| {
            let decision = document::plan_write(data, &request, decision_context)?;
            data.write_documents(decision.plan);
            Ok(decision.answer)
        })
    }
}
