//! Threads. Each tenant has a thread with the id `own_id`, and its child `same`, which all tenants have.

use async_trait::async_trait;
use store_core::{
    ChildStrategy, DeleteRequest, ErrorKind, Expect, Json, NewThread, ParentFilter, ThreadFields, ThreadFilter,
    ThreadId, ThreadPatch, ThreadQuery, ThreadRunStore,
};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

pub(super) struct ThreadActions;

fn threads(tenant: &TenantUnderTest) -> Result<&dyn ThreadRunStore, crate::Failure> {
    require_store(tenant.stores.threads.as_ref())
}

fn thread_fields(parent: Option<ThreadId>) -> ThreadFields {
    let mut fields = ThreadFields::default();
    (fields.parent_thread_id, fields.resource_id) = (parent, Some(id("resource")));
    fields.metadata = [("k".to_owned(), Json::null())].into();
    fields
}

/// Checks that a list and a count with this filter show exactly these threads.
async fn expect_threads(tenant: &TenantUnderTest, filter: ThreadFilter, wanted: &[&str]) -> Verdict {
    expect_eq(threads(tenant)?.count_threads(&filter).await?, wanted.len() as u64)?;
    let mut found_threads = threads(tenant)?.list_threads(ThreadQuery::new(filter)).await?.items;
    found_threads.sort_by(|one, other| one.id.cmp(&other.id));
    expect_eq(found_threads.iter().map(|thread| thread.id.as_str()).collect::<Vec<_>>(), wanted)
}

#[async_trait]
impl TenantActions for ThreadActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let parent: ThreadId = id(&tenant.own_id);
        threads(tenant)?.create_thread(NewThread::new(parent.clone()).with_fields(thread_fields(None))).await?;
        threads(tenant)?.create_thread(NewThread::new(id("same")).with_fields(thread_fields(Some(parent)))).await?;
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let all = [tenant.own_id.as_str(), "same"];
        expect_threads(tenant, ThreadFilter::default(), &all).await?;
        let (mut by_resource, mut by_metadata) = (ThreadFilter::default(), ThreadFilter::default());
        by_resource.resource_id = Some(id("resource"));
        by_metadata.metadata = [("k".to_owned(), Json::null())].into();
        expect_threads(tenant, by_resource, &all).await?;
        expect_threads(tenant, by_metadata, &all).await?;
        let mut by_parent = ThreadFilter::default();
        by_parent.parent = Some(ParentFilter::Of(id(&tenant.own_id)));
        expect_threads(tenant, by_parent, &["same"]).await
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let (threads, other_thread_id): (_, ThreadId) = (threads(tenant)?, id(&other_tenant.own_id));
        expect_eq(threads.load_thread(&other_thread_id).await?, None)?;
        let mut children = ThreadFilter::default();
        children.parent = Some(ParentFilter::Of(other_thread_id.clone()));
        expect_eq(threads.count_threads(&children).await?, 0)?;
        let patch = ThreadPatch::default().with_title("x");
        expect_kind(threads.update_thread(&other_thread_id, patch, Expect::Any).await, ErrorKind::NotFound)?;
        expect_kind(threads.delete_thread(&other_thread_id, DeleteRequest::default()).await, ErrorKind::NotFound)?;
        let child_patch = ThreadPatch::default().with_parent(Some(other_thread_id.clone()));
        expect_kind(threads.update_thread(&id("same"), child_patch, Expect::Any).await, ErrorKind::NotFound)?;
        expect_kind(threads.validate_parent(&id("same"), &other_thread_id).await, ErrorKind::NotFound).map(drop)
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let patch = ThreadPatch::default().with_title("x");
        expect_eq(threads(tenant)?.update_thread(&id("same"), patch, Expect::Any).await?.revision.number(), 2)?;
        let cascade = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
        expect_eq(threads(tenant)?.delete_thread(&id(&tenant.own_id), cascade).await?.deleted.len(), 2)?;
        expect_threads(tenant, ThreadFilter::default(), &[]).await
    }
}
