//! A deletion of a tenant whose caller has gone (PR-16, TN-8).

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use store_core::{NewThread, Store, TenantId, ThreadId};
use store_file::{FileConfig, FileStore};

/// Repeated, it takes nothing of what is written afterwards.
#[tokio::test]
async fn writes_after_a_dropped_tenant_deletion_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let store = FileStore::open(root.path(), FileConfig::default()).unwrap();
    let (tenant, thread) = (TenantId::default_tenant(), ThreadId::new("t").unwrap());
    let threads = || store.tenant(&tenant).unwrap().threads.unwrap();
    for round in 0..200 {
        {
            let mut dropped = pin!(store.delete_tenant(&tenant));
            assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        store.delete_tenant(&tenant).await.unwrap();
        let created = threads().create_thread(NewThread::new(thread.clone())).await;
        assert!(created.is_ok(), "round {round}: {created:?}");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        assert!(threads().load_thread(&thread).await.unwrap().is_some(), "round {round}: it is gone");
    }
    store.close().await.unwrap();
}
