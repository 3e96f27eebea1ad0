//! The contract of documents on the handle of a tenant, and planted bugs that need several steps.

use async_trait::async_trait;
use store_core::{
    Commit, Document, DocumentExpect, DocumentQuery, DocumentRef, DocumentStore, Page, Receipt, Result, WriteDocuments,
    WrittenDocuments, check_limit,
};

use super::{
    bug::Bug,
    commit, documents,
    handle::{TenantHandle, yield_to_others},
    model_data::TenantData,
};

impl TenantHandle {
    fn copy_of_tenant(&self) -> TenantData {
        self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default()
    }

    /// Writes documents, but checks their expectations before it takes the lock for the write.
    async fn write_with_early_expectations(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        let mut copy = self.copy_of_tenant();
        self.write(|_, env| documents::write(&mut copy, &request, &env)).map(drop)?;
        yield_to_others().await;
        request.changes.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
        self.write(|tenant, env| documents::write(tenant, &request, &env))
    }

    /// Writes documents, but checks whether their thread exists some time before it takes the lock for the write.
    async fn write_with_early_thread(&self, request: &WriteDocuments) -> Result<WrittenDocuments> {
        let mut copy = self.copy_of_tenant();
        self.write(|_, env| documents::write(&mut copy, request, &env)).map(drop)?;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        self.write(|tenant, env| {
            let thread = request.thread().and_then(|thread| copy.threads.get(thread)).cloned();
            let is_missing = thread.as_ref().is_some_and(|data| !tenant.threads.contains_key(&data.thread.id));
            if !is_missing {
                return documents::write(tenant, request, &env);
            }
            tenant.documents.apply(&request.changes, &env);
            Ok(WrittenDocuments::new(Some(tenant.documents.last_revision), Vec::new(), env.now))
        })
    }

    /// Writes the first change in a step of its own.
    async fn write_one_by_one(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        let mut copy = self.copy_of_tenant();
        self.write(|_, env| documents::write(&mut copy, &request, &env)).map(drop)?;
        let first = WriteDocuments::new(request.changes.iter().take(1).cloned());
        self.write(|tenant, env| documents::write(tenant, &first, &env)).map(drop)?;
        yield_to_others().await;
        let mut others = request.clone();
        others.changes.drain(..1);
        if others.changes.is_empty() && others.events.is_none() {
            others.changes = request.changes;
        }
        self.write(|tenant, env| documents::write(tenant, &others, &env))
    }

    /// Commits, but checks the expectations of its documents before it takes the lock for the write.
    pub(super) async fn commit_with_early_documents(&self, mut commit: Commit) -> Result<Receipt> {
        let mut copy = self.copy_of_tenant();
        let early_receipt = self.write(|_, env| commit::commit(&mut copy, &commit, env))?;
        if early_receipt.deduplicated || commit.documents.is_empty() {
            return self.write(|tenant, env| commit::commit(tenant, &commit, env));
        }
        yield_to_others().await;
        commit.documents.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
        self.write(|tenant, env| commit::commit(tenant, &commit, env))
    }

    async fn load_one_by_one(&self, wanted: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        let mut found = Vec::new();
        for document in wanted {
            found.push(self.read(|view| Ok(view.tenant.documents.find(document, view.bug).cloned()))?);
            yield_to_others().await;
        }
        Ok(found)
    }
}

/// Refuses values that are too large together. The first one alone is never too large.
fn check_bytes(found: &[Option<Document>], max: u64) -> Result<()> {
    let (mut bytes, mut is_first) = (0, true);
    for (at, document) in found.iter().enumerate() {
        let Some(document) = document else { continue };
        bytes += document.value.as_str().len() as u64;
        if !is_first {
            check_limit("load bytes", bytes, max).map_err(|error| error.in_part(format!("documents[{at}]")))?;
        }
        is_first = false;
    }
    Ok(())
}

#[async_trait]
impl DocumentStore for TenantHandle {
    async fn load_documents(&self, wanted: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        let bug = self.shared.bug;
        if bug != Some(Bug::LoadUnlimited) {
            self.check_usable()?;
            check_limit("documents", wanted.len() as u64, self.shared.limits.commit_documents)?;
        }
        if bug == Some(Bug::DocumentsLoadedOneByOne) {
            return self.load_one_by_one(wanted).await;
        }
        self.read(|view| {
            let mut wanted = wanted.to_vec();
            if bug == Some(Bug::DocumentsLoadedInKeyOrder) {
                wanted.sort();
            }
            let mut found: Vec<_> =
                wanted.iter().map(|document| view.tenant.documents.find(document, bug).cloned()).collect();
            if bug != Some(Bug::LoadBytesUnlimited) {
                check_bytes(&found, self.shared.limits.load_bytes)?;
            }
            if bug == Some(Bug::MissingDocumentsLeftOut) {
                found.retain(Option::is_some);
            }
            Ok(found)
        })
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>> {
        self.read(|view| documents::list(&view, &query))
    }

    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments> {
        match self.shared.bug {
            Some(Bug::DocumentGuardOutsideTheLock) => self.write_with_early_expectations(request).await,
            Some(Bug::ThreadOfDocumentCheckedEarly) => self.write_with_early_thread(&request).await,
            Some(Bug::DocumentsOneByOne) if request.changes.len() > 1 => self.write_one_by_one(request).await,
            _ => self.write(|tenant, env| documents::write(tenant, &request, &env)),
        }
    }
}
