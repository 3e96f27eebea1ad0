//! Test P7 of docs/reliability.md: writers with slow transactions, and readers that follow them (EV-13).

use std::time::Duration;

use conformance_tests::{Random, TestLength};
use futures_util::StreamExt;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{AppendEvents, Commit, Limits, NewEvent, Scope, Subscribe, SubscriptionStart, TenantId};

use super::helpers::{stores, thread};
use crate::fixture::{SchemaGuard, server_url};

const WRITERS: usize = 32;

/// Returns how long a transaction waits before it is committed.
fn delay(random: &mut Random) -> Duration {
    Duration::from_millis(random.below(21) as u64)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_slow_writers_misses_nothing() {
    let commits_per_writer = TestLength::pick_by_env(20, 40, 1_563);
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (store, reader) = (test_schema.open().await.unwrap(), test_schema.open().await.unwrap());
    let thread_of = |number: usize| thread(format!("t-{}", number % 8));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (store, mut random) = (store.clone(), Random::new(writer as u64));
        writers.push(tokio::spawn(async move {
            let mut connection = PgConnection::connect(&server_url()).await.unwrap();
            for number in 0..commits_per_writer {
                let mut transaction = connection.begin().await.unwrap();
                let event =
                    NewEvent::new(format!("{writer}-{number}").parse().unwrap(), [Scope::Thread(thread_of(writer))]);
                let commit = Commit::new(thread_of(writer)).with_events(AppendEvents::new([event]));
                let tenant = TenantId::default_tenant();
                let _receipt = store.commit_in(&tenant, &mut transaction, commit).await.unwrap();
                tokio::time::sleep(delay(&mut random)).await;
                transaction.commit().await.unwrap();
            }
        }));
    }
    let events = stores(&reader).events.unwrap();
    let readers = (0..8).map(|number| {
        let events = std::sync::Arc::clone(&events);
        tokio::spawn(async move {
            let mut subscription = events
                .subscribe(Subscribe::new(Scope::Thread(thread_of(number)), SubscriptionStart::First))
                .await
                .unwrap()
                .events;
            let mut kinds = Vec::new();
            while kinds.len() < commits_per_writer * WRITERS / 8 {
                let next = tokio::time::timeout(Duration::from_secs(30), subscription.next()).await;
                kinds.push(next.expect("an event was missed").unwrap().unwrap().kind.to_string());
            }
            kinds
        })
    });
    for task in readers.collect::<Vec<_>>() {
        let kinds = task.await.unwrap();
        let mut distinct = kinds.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), kinds.len(), "an event was received twice");
        // The events of one writer arrive in the order in which it wrote them.
        for writer in 0..WRITERS {
            let numbers_of_writer =
                kinds.iter().filter_map(|kind| kind.strip_prefix(&format!("{writer}-"))?.parse::<usize>().ok());
            assert!(numbers_of_writer.is_sorted());
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// The control: a reader that relies on the numbers of a sequence misses some rows.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_a_sequence_are_not_in_the_order_of_commits() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let table = format!("{}.naive", test_schema.config().schema());
    let mut reader = PgConnection::connect(&server_url()).await.unwrap();
    let create_table = format!("CREATE TABLE {table} (position bigserial PRIMARY KEY)");
    sqlx::raw_sql(AssertSqlSafe(create_table)).execute(&mut reader).await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (table, mut random) = (table.clone(), Random::new(writer as u64));
            tokio::spawn(async move {
                let mut connection = PgConnection::connect(&server_url()).await.unwrap();
                for _ in 0..20 {
                    let mut transaction = connection.begin().await.unwrap();
                    let insert = format!("INSERT INTO {table} DEFAULT VALUES");
                    sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut *transaction).await.unwrap();
                    tokio::time::sleep(delay(&mut random)).await;
                    transaction.commit().await.unwrap();
                }
            })
        })
        .collect();
    let (mut found_count, mut last_position) = (0, 0_i64);
    while found_count < WRITERS * 20 {
        let all_done = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let query = format!("SELECT position FROM {table} WHERE position > {last_position} ORDER BY position");
        let found: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut reader).await.unwrap();
        found_count += found.len();
        last_position = found.last().copied().unwrap_or(last_position);
        if all_done {
            break;
        }
    }
    assert!(found_count < WRITERS * 20, "the control found all {found_count}: the test shows nothing");
}
