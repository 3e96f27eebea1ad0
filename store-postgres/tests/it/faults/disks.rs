//! Tests P2 and P8 of docs/reliability.md: the power is cut under load, and the disk is full. Everything that was
//! acknowledged exists, and no commit is partial (PR-9, CM-1, PO-6, PO-7). Only root can mount the disks of these
//! tests. A test that cannot mount its disk prints that it was not run.

use std::time::Duration;

use conformance_tests::{Random, TestLength};
use sqlx::{Connection as _, PgConnection};
use store_core::{Commit, ErrorKind, Message, NewEntry, Store};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::{Disk, Postgres};
use tokio::time::sleep;

use super::{
    helpers::{commit_with_all_parts, commit_with_message, commits, stores, thread},
    kill::{WRITERS, write_during_fault},
};

/// Returns a disk with a server on it, or `None` if no disk can be mounted.
fn server_on_disk(name: &str, mib: u64, settings: &[&str]) -> Option<(Postgres, Disk)> {
    let disk = Disk::new_or_skip(name, mib)?;
    let server = Postgres::start_in(disk.folder().join("server"), settings).unwrap();
    disk.sync().unwrap();
    Some((server, disk))
}

fn cut_power(server: &mut Postgres, disk: &Disk) {
    disk.cut_power().unwrap();
    server.kill().unwrap();
    disk.power_on().unwrap();
    server.restart().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_power_cuts() {
    let cycles = TestLength::pick_by_env(1, 3, 20);
    let Some((mut server, disk)) = server_on_disk("power", 2_048, &[]) else { return };
    let store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
    let (mut random, mut commit_counts) = (Random::new(11), [0; WRITERS]);
    for _ in 0..cycles {
        write_during_fault(&store, &mut random, &mut commit_counts, || cut_power(&mut server, &disk)).await;
    }
    let all: u64 = commit_counts.iter().sum();
    println!("{cycles} power cuts, {all} commits: none lost, none partial");
    assert!(all > TestLength::pick_by_env(10, 100, 100));
    store.close().await.unwrap();
    drop(store);
    server.stop().unwrap();
}

/// The control: a server that acknowledges before it writes loses data that it acknowledged. A store refuses such a
/// server unless `allow_unsafe` is set.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_acknowledges_too_early_loses_commits() {
    let Some((mut server, disk)) =
        server_on_disk("control", 2_048, &["synchronous_commit=off", "wal_writer_delay=10s"])
    else {
        return;
    };
    let mut config = PostgresConfig::new(&server.url()).unwrap();
    assert!(PostgresStore::open(config.clone()).await.is_err());
    config.allow_unsafe = true;
    let store = PostgresStore::open(config).await.unwrap();
    // The power cut must not lose the schema.
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();
    sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await.unwrap();
    drop(connection);
    disk.sync().unwrap();
    let mut acknowledged = 0;
    for number in 1..50 {
        acknowledged =
            commits(&store).commit(commit_with_all_parts(&thread("t"), number)).await.unwrap().version.number();
    }
    cut_power(&mut server, &disk);
    let mut tries = 0;
    let found = loop {
        match stores(&store).threads.unwrap().load_thread(&thread("t")).await {
            Ok(found) => break found.map_or(0, |thread| thread.version.number()),
            Err(error) => assert!(tries < 2_000, "{error:?}"),
        }
        tries += 1;
        sleep(Duration::from_millis(5)).await;
    };
    println!("{found} of {acknowledged} acknowledged commits are left");
    assert!(found < acknowledged);
    store.close().await.unwrap();
    drop(store);
    server.stop().unwrap();
}

/// Returns a commit of half a megabyte. Its random digits cannot be compressed much.
fn large_commit(number: u64) -> Commit {
    let mut random = Random::new(number);
    let text: String = (0..62_500).map(|_| format!("{:08x}", random.below(1 << 32))).collect();
    commit_with_message(&thread("t"), &number.to_string()).entry(NewEntry::new(Message::user(text)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing() {
    let Some((mut server, disk)) = server_on_disk("full", 300, &[]) else { return };
    let store = PostgresStore::open(PostgresConfig::new(&server.url()).unwrap()).await.unwrap();
    let mut number = 0;
    for round in 0..2 {
        let filler = disk.fill(30).unwrap();
        // The server stops when it has no space for its log.
        let error = loop {
            number += 1;
            if let Err(error) = commits(&store).commit(large_commit(number)).await {
                break error;
            }
            assert!(number < 200, "the disk accepts more than its size");
        };
        let kinds = [ErrorKind::StorageFull, ErrorKind::CommitUnknown, ErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind()), "{error:?}");
        std::fs::remove_file(filler).unwrap();
        server.kill().unwrap();
        server.restart().unwrap();
        // The commit is repeated with its key. It then exists once, whatever happened to it before.
        let mut tries = 0;
        while let Err(error) = commits(&store).commit(large_commit(number)).await {
            tries += 1;
            assert!(tries < 500, "{round}: {error:?}");
            sleep(Duration::from_millis(10)).await;
        }
        let found = stores(&store).threads.unwrap().load_thread(&thread("t")).await.unwrap().unwrap();
        // Each commit appends two entries.
        assert_eq!(found.version.number(), 2 * number);
    }
    println!("the disk was full twice, {number} commits: none lost");
    store.close().await.unwrap();
    drop(store);
    server.stop().unwrap();
}
