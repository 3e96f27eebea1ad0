//! Tests of one store and of compositions of two: settling in a commit, deleting and listing tenants, and closing.

use store_core::{ErrorKind, NewDispatch, PageRequest, Settlement, TenantId};

use super::{
    new_dispatch, options_without_delays,
    test_bed::{TestBed, message_commit},
};
use crate::{Done, Failure, Work, Worker};

/// Tests CP-2 and CM-33: in one store a commit can settle the dispatch. In a composition such a commit is refused.
pub(super) async fn a_commit_can_settle_its_attempt_only_within_one_store(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let is_one_store = bed.stores.backend() == bed.stores.mailbox_backend();
    assert_eq!(bed.stores.capabilities().fenced, is_one_store);
    let handler = move |work: Work| async move {
        assert_eq!(work.can_settle_in_commit(), is_one_store);
        let settling_commit =
            message_commit(&work.dispatch().thread, "answer").settling(Settlement::Ack { result: None });
        let answer = work.commits()?.commit(settling_commit).await;
        if work.can_settle_in_commit() {
            let _receipt = answer?;
            return Ok::<_, Failure>(Done::Committed);
        }
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unsupported);
        let _receipt = work.commits()?.commit(message_commit(&work.dispatch().thread, "answer")).await?;
        Ok(Done::ack())
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1, "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!(bed.entry_count("t").await, 1);
}

/// Commits a message in a tenant if `parts` contains `t`, and enqueues a dispatch if it contains `m`.
async fn fill_tenant(bed: &TestBed, tenant: &TenantId, parts: &str) {
    if parts.contains('t') {
        let _receipt =
            bed.stores.commits(tenant).unwrap().commit(message_commit(&"t".parse().unwrap(), "hi")).await.unwrap();
    }
    if parts.contains('m') {
        let work = NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap());
        bed.stores.mailbox(tenant).unwrap().enqueue(vec![work]).await.unwrap().remove(0).unwrap();
    }
}

/// Tests CP-2 and TN-8: a deletion removes the tenant from both stores, closes its handles, and does not change other
/// tenants.
pub(super) async fn a_tenant_is_deleted_from_both_stores(bed: &TestBed) {
    let (deleted_tenant, kept_tenant) = (TenantId::new("gone").unwrap(), TenantId::new("kept").unwrap());
    for tenant in [&deleted_tenant, &kept_tenant] {
        fill_tenant(bed, tenant, "tm").await;
    }
    let handles = bed.stores.tenant(&deleted_tenant).unwrap();
    let store = bed.stores.store();
    // A deletion can be repeated, because the second call finishes a first one that was interrupted.
    store.delete_tenant(&deleted_tenant).await.unwrap();
    store.delete_tenant(&deleted_tenant).await.unwrap();
    assert_eq!(store.list_tenants(PageRequest::default()).await.unwrap().items, std::slice::from_ref(&kept_tenant));
    assert_eq!(handles.mailbox.unwrap().load_epoch(&"t".parse().unwrap()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(
        handles.commits.unwrap().commit(message_commit(&"t".parse().unwrap(), "x")).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    for (tenant, expected_count) in [(deleted_tenant, 0), (kept_tenant, 1)] {
        let queued = bed.stores.mailbox(&tenant).unwrap().count_dispatches(None).await.unwrap().queued;
        let threads = bed.stores.threads(&tenant).unwrap().count_threads(&Default::default()).await.unwrap();
        assert_eq!((queued, threads), (expected_count, expected_count), "{tenant}");
    }
}

/// Tests CP-2 and TN-8: the list is ordered by name and contains each tenant once, with pages of any size.
pub(super) async fn tenants_of_both_stores_are_listed_together(bed: &TestBed) {
    let parts = ["t", "m", "tm", "m", "m", "t", "t", "tm", "m"];
    let names: Vec<_> = (0..parts.len()).map(|at| TenantId::new(format!("n-{at}")).unwrap()).collect();
    for (name, parts) in names.iter().zip(parts) {
        fill_tenant(bed, name, parts).await;
    }
    let store = bed.stores.store();
    for limit in [1, 2, 3, 4, 9, 50] {
        let (mut found, mut page) = (Vec::new(), PageRequest::first(limit));
        loop {
            let listed = store.list_tenants(page.clone()).await.unwrap();
            assert!(listed.items.len() <= limit as usize);
            found.extend(listed.items);
            let Some(next) = listed.next else { break };
            page = page.after(next);
        }
        assert_eq!(found, names, "pages of {limit}");
    }
    for text in ["x", "3.c", "1.bb", "9.bb", "1.ee", "2.cxcy"] {
        let page = PageRequest::first(5).after(store_core::Cursor::from_text(text));
        let answer = store.list_tenants(page).await;
        // In a composition, `1.bb` is a valid cursor: both lists are at their beginning.
        if text != "1.bb" || bed.stores.capabilities().fenced {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::InvalidCursor, "{text}");
        }
    }
    let kind = store.list_tenants(PageRequest::first(0)).await.unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Invalid);
}

/// Tests CP-2 and PR-8: after `close` the handles of both stores are closed. `close` can be repeated.
pub(super) async fn closing_closes_both_stores(bed: &TestBed) {
    let (mailbox, threads) = (bed.mailbox(), bed.commits().threads());
    let other_handles = bed.handles_for_other_runtime().await;
    bed.stores.close().await.unwrap();
    bed.stores.close().await.unwrap();
    assert_eq!(mailbox.load_epoch(&"t".parse().unwrap()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(threads.load_thread(&"t".parse().unwrap()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bed.stores.tenant(&bed.tenant).unwrap_err().kind(), ErrorKind::Closed);
    drop(other_handles);
}
