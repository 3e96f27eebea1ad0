//! Tests P5 and P9 of docs/reliability.md: a server that does not answer. Calls end in time, and the outcomes that they
//! report are true (PO-8, ER-4).

use std::time::Duration;

use store_core::{ClaimRequest, ErrorKind, Limits, NewDispatch, Outcome, ThreadFilter};
use store_postgres::{PostgresConfig, PostgresStore};
use tokio::time::{Instant, sleep, timeout};

use super::{
    helpers::{commit_with_message, commits, stores, thread},
    proxy::Proxy,
    unknown_outcome::server_socket,
};
use crate::fixture::SchemaGuard;

/// Opens a store that is connected through a proxy.
async fn open_through_proxy(
    test_schema: &SchemaGuard,
    change: impl FnOnce(&mut PostgresConfig),
) -> (Proxy, PostgresStore) {
    let proxy = Proxy::start(server_socket()).await;
    let mut config = PostgresConfig::new(&proxy.url()).unwrap().with_schema(test_schema.config().schema()).unwrap();
    config.uses_test_clock = true;
    change(&mut config);
    let store = PostgresStore::open(config).await.unwrap();
    (proxy, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_connection_fails_in_time() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (proxy, store) = open_through_proxy(&test_schema, |config| {
        (config.connections, config.acquire_timeout) = (1, Duration::from_millis(200));
    })
    .await;
    let commits = commits(&store);
    let _receipt = commits.commit(commit_with_message(&thread("warm"), "k")).await.unwrap();
    // Half of the calls below write to these threads. The store combines writes to existing threads, and runs at most
    // two of the combined statements at a time. So these calls also wait for each other. The other calls create their
    // threads, and wait only for the connection.
    for number in 0..50 {
        let _receipt = commits.commit(commit_with_message(&thread(format!("t-{number}")), "before")).await.unwrap();
    }
    proxy.set_silent(true);
    let first_call = {
        let commits = std::sync::Arc::clone(&commits);
        tokio::spawn(async move { commits.commit(commit_with_message(&thread("first"), "k")).await })
    };
    sleep(Duration::from_millis(50)).await;
    let calls = (0..100).map(|number| {
        let commits = std::sync::Arc::clone(&commits);
        tokio::spawn(async move {
            let began = Instant::now();
            let error =
                commits.commit(commit_with_message(&thread(format!("t-{number}")), "refused")).await.unwrap_err();
            (began.elapsed(), error.kind(), error.outcome())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (elapsed, kind, outcome) = call.await.unwrap();
        assert_eq!((kind, outcome), (ErrorKind::Unavailable, Outcome::NotApplied));
        assert!(elapsed <= Duration::from_millis(400), "{elapsed:?}");
    }
    proxy.set_silent(false);
    // The store itself may have used the connection, to look for notifications. Then this call also failed.
    let first_answer = first_call.await.unwrap();
    assert!(first_answer.as_ref().err().is_none_or(|error| error.outcome() == Outcome::NotApplied));
    let thread_count = stores(&store).threads.unwrap().count_threads(&ThreadFilter::default()).await.unwrap();
    assert_eq!(thread_count, 51 + u64::from(first_answer.is_ok()));
}

/// Enqueues to one thread wait for each other, and for a connection.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_without_a_connection_fails_in_time() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (proxy, store) = open_through_proxy(&test_schema, |config| {
        (config.connections, config.acquire_timeout) = (1, Duration::from_millis(200));
    })
    .await;
    let mailbox = stores(&store).mailbox.unwrap();
    let work = |of| NewDispatch::new(thread(of), "r".parse().unwrap());
    mailbox.enqueue(vec![work("t")]).await.unwrap().remove(0).unwrap();
    proxy.set_silent(true);
    let enqueue = || {
        let (mailbox, dispatches) = (std::sync::Arc::clone(&mailbox), vec![work("t"), work("u")]);
        tokio::spawn(async move {
            let began = Instant::now();
            let answer = mailbox.enqueue(dispatches).await;
            (began.elapsed(), answer.map_err(|error| (error.kind(), error.outcome())))
        })
    };
    let first_call = enqueue();
    sleep(Duration::from_millis(50)).await;
    for call in (0..100).map(|_| enqueue()).collect::<Vec<_>>() {
        let (elapsed, answer) = call.await.unwrap();
        assert_eq!(answer.unwrap_err(), (ErrorKind::Unavailable, Outcome::NotApplied));
        assert!(elapsed <= Duration::from_millis(400), "{elapsed:?}");
    }
    proxy.set_silent(false);
    // The store itself may have used the connection, to look for notifications. Then this call also failed.
    let (_, first_answer) = first_call.await.unwrap();
    assert!(first_answer.as_ref().err().is_none_or(|(_, outcome)| *outcome == Outcome::NotApplied));
    let queued = mailbox.count_dispatches(None).await.unwrap().queued;
    assert_eq!(queued, 1 + 2 * u64::from(first_answer.is_ok()));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_end_though_the_server_is_silent() {
    const DEADLINE: Duration = Duration::from_millis(500);
    const SLACK: Duration = Duration::from_millis(500);
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (proxy, store) = open_through_proxy(&test_schema, |config| {
        (config.answer_timeout, config.acquire_timeout) = (DEADLINE, DEADLINE);
    })
    .await;
    let (commits, stores) = (commits(&store), stores(&store));
    let (threads, mailbox) = (stores.threads.unwrap(), stores.mailbox.unwrap());
    let _receipt = commits.commit(commit_with_message(&thread("t"), "a")).await.unwrap();
    proxy.set_silent(true);
    // In the second round, no connection is left that looks usable.
    for round in 0..2 {
        let began = Instant::now();
        let commit = commits.commit(commit_with_message(&thread("t"), "b")).await.unwrap_err();
        assert!(began.elapsed() <= DEADLINE + SLACK, "a commit took {:?}", began.elapsed());
        assert!(matches!(commit.kind(), ErrorKind::CommitUnknown | ErrorKind::Unavailable), "{round}: {commit:?}");
        let began = Instant::now();
        assert_eq!(threads.load_thread(&thread("t")).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(began.elapsed() <= DEADLINE + SLACK, "a read took {:?}", began.elapsed());
        let began = Instant::now();
        let claim = ClaimRequest::new("w".parse().unwrap(), Duration::from_mins(1));
        assert!(mailbox.claim(claim).await.is_err());
        assert!(began.elapsed() <= DEADLINE + SLACK, "a claim took {:?}", began.elapsed());
    }
    proxy.set_silent(false);
    let repeated_commit = timeout(Duration::from_secs(10), async {
        loop {
            if let Ok(receipt) = commits.commit(commit_with_message(&thread("t"), "b")).await {
                return receipt;
            }
        }
    });
    assert_eq!(repeated_commit.await.unwrap().version.number(), 2);
}
