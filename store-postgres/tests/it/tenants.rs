//! A deletion of a tenant whose caller drops the call (PR-16, TN-8).

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{Limits, NewThread, Store, TenantId, TenantStores, ThreadId};

use crate::fixture::{SchemaGuard, server_url};

fn thread() -> ThreadId {
    ThreadId::new("t").unwrap()
}

async fn write_thread(stores: &TenantStores) -> store_core::Result<()> {
    stores.threads.as_ref().unwrap().create_thread(NewThread::new(thread())).await.map(drop)
}

/// Every later call on the tenant waits for the deletion, although the caller of the deletion has dropped it. The data
/// that such a call writes is kept.
#[tokio::test]
async fn writes_after_a_dropped_tenant_deletion_are_kept() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let store = test_schema.open().await.unwrap();
    let tenant = TenantId::default_tenant();
    write_thread(&store.tenant(&tenant).unwrap()).await.unwrap();

    // Another connection holds the lock that a writer of the tenant takes, so the deletion waits on the server.
    let mut writer = PgConnection::connect(&server_url()).await.unwrap();
    let mut locking_transaction = writer.begin().await.unwrap();
    let schema = test_schema.config().schema();
    let lock_sql =
        format!("SELECT pg_advisory_xact_lock(hashtext('agentstore.{schema}'), hashtext('tenant {tenant}'))");
    sqlx::raw_sql(AssertSqlSafe(lock_sql)).execute(&mut *locking_transaction).await.unwrap();
    {
        let mut deletion = pin!(store.delete_tenant(&tenant));
        assert!(deletion.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    let new_stores = store.tenant(&tenant).unwrap();
    let mut write = pin!(write_thread(&new_stores));
    assert!(tokio::time::timeout(Duration::from_millis(200), write.as_mut()).await.is_err(), "the write ended");
    locking_transaction.rollback().await.unwrap();
    // Nothing of the deleted tenant is left, so the same thread id is new.
    write.await.unwrap();
    assert!(new_stores.threads.as_ref().unwrap().load_thread(&thread()).await.unwrap().is_some());
    store.close().await.unwrap();
}
