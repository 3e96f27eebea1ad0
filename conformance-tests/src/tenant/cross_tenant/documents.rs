//! Documents. Each tenant has a document with the key `own_id`, and one with the key `same`, in a collection that all
//! tenants use.

use async_trait::async_trait;
use store_core::{
    Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentStore, DocumentStoreExt, ErrorKind,
    Json, KeySegment, WriteDocuments,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

pub(super) struct DocumentActions;

fn documents(tenant: &TenantUnderTest) -> Result<&dyn DocumentStore, Failure> {
    require_store(tenant.stores.documents.as_ref())
}

fn key(name: &str) -> DocumentKey {
    DocumentKey::new(id("same"), [KeySegment::Id(id(name))]).expect("a valid key")
}

fn all() -> DocumentQuery {
    DocumentQuery::new(id("same"))
}

#[async_trait]
impl TenantActions for DocumentActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let put = |name: &str| Ok::<_, Failure>(DocumentChange::put(key(name), Json::of(&tenant.own_id)?));
        let changes = [put(&tenant.own_id)?, put("same")?];
        let changes = changes.map(|change| change.expecting(DocumentExpect::Absent));
        let _written = documents(tenant)?.write_documents(WriteDocuments::new(changes)).await?;
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let found = documents(tenant)?.list_documents(all()).await?.items;
        expect_eq(
            found.iter().map(|found| found.key.clone()).collect::<Vec<_>>(),
            vec![key(&tenant.own_id), key("same")],
        )?;
        for document in &found {
            expect_eq(document.value.to::<String>()?, tenant.own_id.clone())?;
        }
        let refs: Vec<_> = found.iter().map(Document::to_ref).collect();
        let loaded = documents(tenant)?.load_documents(&refs).await?;
        expect_eq(loaded.into_iter().flatten().collect::<Vec<_>>(), found)?;
        expect_eq(documents(tenant)?.count_documents(all()).await?, 2)
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let other_key = || key(&other_tenant.own_id);
        expect_eq(documents(tenant)?.load_document(&other_key().into()).await?, None)?;
        let prefix = all().starting_with(other_key().segments());
        expect_eq(documents(tenant)?.list_documents(prefix).await?.items, vec![])?;
        for change in [DocumentChange::put(other_key(), Json::null()), DocumentChange::delete(other_key())] {
            let request = WriteDocuments::new([change.expecting(DocumentExpect::Present)]);
            expect_kind(documents(tenant)?.write_documents(request).await, ErrorKind::Conflict)?;
        }
        Ok(())
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let put = DocumentChange::put(key("same"), Json::null()).expecting(DocumentExpect::Present);
        let _written = documents(tenant)?.write_documents(WriteDocuments::new([put])).await?;
        let deletions = [key(&tenant.own_id), key("same")].map(DocumentChange::delete);
        let deletions = deletions.map(|change| change.expecting(DocumentExpect::Present));
        let _written = documents(tenant)?.write_documents(WriteDocuments::new(deletions)).await?;
        expect_eq(documents(tenant)?.list_documents(all()).await?.items, vec![])
    }
}
