//! Test P4 of docs/reliability.md: calls are dropped after any number of polls. The next call finds no open transaction
//! and no locks (PO-9, PR-16).

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use conformance_tests::TestLength;
use store_core::{ClaimRequest, DeleteRequest, Limits, NewDispatch, Result, Store, TenantStores};
use store_postgres::PostgresStore;

use super::helpers::{commit_with_message, stores, thread};
use crate::fixture::SchemaGuard;

type Call = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Returns a call of one of three kinds: one statement, a transaction with locks, or a transaction about a family.
fn call_of_kind(stores: &TenantStores, kind: usize, number: usize) -> Call {
    let id = thread(format!("t-{}", number % 7));
    match kind {
        0 => {
            let commits = Arc::clone(stores.commits.as_ref().unwrap());
            Box::pin(async move { commits.commit(commit_with_message(&id, &number.to_string())).await.map(drop) })
        }
        1 => {
            let mailbox = Arc::clone(stores.mailbox.as_ref().unwrap());
            let claim = ClaimRequest::new("w".parse().unwrap(), Duration::from_mins(1));
            Box::pin(async move { mailbox.claim(claim).await.map(drop) })
        }
        _ => {
            let commits = Arc::clone(stores.commits.as_ref().unwrap());
            Box::pin(async move {
                let threads = commits.threads();
                threads.delete_thread(&id, DeleteRequest::default()).await.map(drop)
            })
        }
    }
}

/// Polls a call `polls` times at most, and drops it. Returns whether it had ended.
async fn drop_after(mut call: Call, polls: usize) -> bool {
    for _ in 0..polls {
        if poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
        // Every other call gets more time, so that it has made more progress when it is dropped.
        if polls.is_multiple_of(2) {
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_leaves_its_connection_clean() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let mut config = test_schema.config().clone();
    config.connections = 1;
    let store = PostgresStore::open(config).await.unwrap();
    let stores = stores(&store);
    let mailbox = stores.mailbox.as_ref().unwrap();
    let mut dropped_calls = 0;
    for number in 0..TestLength::pick_by_env(30, 90, 500) {
        let work = NewDispatch::new(thread(format!("t-{}", number % 7)), "r".parse().unwrap());
        let _queued = mailbox.enqueue(vec![work]).await.unwrap();
        dropped_calls += usize::from(!drop_after(call_of_kind(&stores, number % 3, number), number / 3 % 12).await);
        // The only connection must be free, and in no transaction of the dropped call.
        let commits = stores.commits.as_ref().unwrap();
        let next = commits.commit(commit_with_message(&thread("next"), &number.to_string()));
        let next = tokio::time::timeout(Duration::from_secs(1), next).await;
        let _receipt = next.expect("the connection was not returned").unwrap();
    }
    println!("{dropped_calls} calls were dropped");
    assert!(dropped_calls > TestLength::pick_by_env(5, 30, 30));
    store.close().await.unwrap();
}
