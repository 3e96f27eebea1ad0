//! Test P1 of docs/reliability.md: the server is killed under load. Everything that it acknowledged exists, no commit
//! is partial, and the store continues by itself (PR-9, CM-1, PO-7, EV-18).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use conformance_tests::{Random, TestLength};
use futures_util::StreamExt;
use store_core::{
    AppendEvents, CommitCoordinator, Direction, EventKey, EventQuery, IgnoreProgress, NewEvent, OutboxQuery,
    PageRequest, Scope, Store, Subscribe, SubscriptionStart, ThreadId, WriterId, inspect::Inspector,
};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::Postgres;
use tokio::time::{Instant, sleep, timeout};

use super::helpers::{commit_with_all_parts, commits, stores, thread, was_not_applied};

pub(super) const WRITERS: usize = 16;

/// Makes one commit after another until one fails. Then repeats that commit with its key until it succeeds, at most
/// 10 s after the server is back. `number` is the number of the previous commit. Returns the number of the last commit.
async fn write_until_after_fault(
    commits: Arc<dyn CommitCoordinator>,
    id: ThreadId,
    mut number: u64,
    restarted_at: Arc<OnceLock<Instant>>,
) -> u64 {
    let mut was_never_applied = loop {
        number += 1;
        let answer = commits.commit(commit_with_all_parts(&id, number)).await;
        if answer.is_err() {
            break was_not_applied(&answer);
        }
    };
    loop {
        let answer = commits.commit(commit_with_all_parts(&id, number)).await;
        if let Ok(receipt) = &answer {
            assert!(!(was_never_applied && receipt.deduplicated), "{id}: a commit that was `NotApplied` exists");
            return number;
        }
        was_never_applied &= was_not_applied(&answer);
        let waited = restarted_at.get().map(Instant::elapsed).unwrap_or_default();
        assert!(waited < Duration::from_secs(10), "the store does not recover: {answer:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Lets all writers write, and calls `cause_fault`, which causes a fault of the server. Each writer continues until a
/// commit succeeds after the fault. Then checks what was written. `commit_counts` contains the number of commits of
/// each writer.
pub(super) async fn write_during_fault(
    store: &PostgresStore,
    random: &mut Random,
    commit_counts: &mut [u64],
    cause_fault: impl FnOnce(),
) {
    let restarted_at = Arc::new(OnceLock::new());
    let begin = |(writer, number): (usize, &u64)| {
        tokio::spawn(write_until_after_fault(
            commits(store),
            thread(format!("t-{writer}")),
            *number,
            Arc::clone(&restarted_at),
        ))
    };
    let writers: Vec<_> = commit_counts.iter().enumerate().map(begin).collect();
    sleep(Duration::from_millis(50 + random.below(250) as u64)).await;
    cause_fault();
    restarted_at.set(Instant::now()).unwrap();
    for (number, writer) in commit_counts.iter_mut().zip(writers) {
        *number = writer.await.unwrap();
    }
    expect_all_commits_exist(store, commit_counts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_kills() {
    let cycles = TestLength::pick_by_env(2, 5, 40);
    let mut server = Postgres::start(&[]).unwrap();
    let store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
    let (mut random, mut commit_counts) = (Random::new(7), [0; WRITERS]);
    for _ in 0..cycles {
        write_during_fault(&store, &mut random, &mut commit_counts, || {
            server.kill().unwrap();
            server.restart().unwrap();
        })
        .await;
    }
    let all: u64 = commit_counts.iter().sum();
    println!("{cycles} kills, {all} commits: none lost, none partial");
    assert!(all > TestLength::pick_by_env(10, 100, 100));
    store.close().await.unwrap();
    drop(store);
    server.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_continue_after_kills() {
    let cycles = TestLength::pick_by_env(1, 3, 20);
    let mut server = Postgres::start(&[]).unwrap();
    let config = PostgresConfig::new(&server.url()).unwrap();
    let (store, other_store) =
        (PostgresStore::open(config.clone()).await.unwrap(), PostgresStore::open(config).await.unwrap());
    let scope = Scope::Thread(thread("t"));
    let follow = Subscribe::new(scope.clone(), SubscriptionStart::First);
    let mut events = stores(&store).events.unwrap().subscribe(follow).await.unwrap().events;
    for number in 1..=cycles {
        server.kill().unwrap();
        server.restart().unwrap();
        let began = Instant::now();
        loop {
            let key = EventKey::new(number.to_string()).unwrap();
            let event = NewEvent::new(format!("n-{number}").parse().unwrap(), [scope.clone()]);
            let append = AppendEvents::new([event]).with_key(WriterId::new("w").unwrap(), key);
            match stores(&other_store).events.unwrap().append_events(append).await {
                Ok(_) => break,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error:?}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
        let received = timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(received.kind.as_str(), format!("n-{number}"));
    }
    println!("{cycles} kills: a subscription received every event once");
}

/// Checks that every part of every commit, up to the last commit of each writer, exists exactly once.
async fn expect_all_commits_exist(store: &PostgresStore, commit_counts: &[u64]) {
    let found = store.verify(&IgnoreProgress).await.unwrap();
    assert_eq!(found.findings, []);
    let stores = stores(store);
    let outbox = stores.outbox.as_ref().unwrap();
    let (mut row_count, mut page) = (0, PageRequest::first(1_000));
    loop {
        let found = outbox.list_outbox(OutboxQuery::default().with_page(page)).await.unwrap();
        row_count += found.items.len() as u64;
        let Some(next) = found.next else { break };
        page = PageRequest::first(1_000).after(next);
    }
    assert_eq!(row_count, commit_counts.iter().sum::<u64>());
    for (writer, number) in commit_counts.iter().enumerate() {
        let id = thread(format!("t-{writer}"));
        let found = stores.threads.as_ref().unwrap().load_thread(&id).await.unwrap().unwrap();
        assert_eq!(found.version.number(), *number);
        let query =
            EventQuery::new(Scope::Thread(id)).with_direction(Direction::Backward).with_page(PageRequest::first(1));
        let last_page = stores.events.as_ref().unwrap().list_events(query).await.unwrap();
        assert_eq!(last_page.items[0].kind.as_str(), format!("n-{number}"));
    }
}
