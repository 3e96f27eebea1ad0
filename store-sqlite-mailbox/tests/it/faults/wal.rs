//! Test S9 of docs/reliability.md: another program reads for a long time (SQ-5). No write waits for that program, the
//! store reports the size of the write-ahead log of SQLite (the WAL), and the WAL is short again afterwards.

#![expect(clippy::disallowed_methods, reason = "the test measures real time")]

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use conformance_tests::TestLength;
use rusqlite::Connection;
use store_core::{Json, Store};

use super::helpers::{Folder, enqueue, expect_no_findings, mailbox, new_dispatch, open};

/// The greatest size of the WAL in bytes as long as no other program reads for a long time. When the WAL has 24 MiB,
/// the store begins no new read until the WAL is restarted. While the running reads end, callers write less than the
/// remaining 72 MiB.
const MAX_WAL_BYTES: u64 = 96 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_read_by_another_program_blocks_no_call() {
    let (folder, seconds) = (Folder::new(), TestLength::pick_by_env(2, 4, 60));
    let store = open(&folder.file()).await;
    enqueue(&*mailbox(&store), new_dispatch("t", "first")).await;
    let wal_file_bytes = || fs::metadata(folder.file().with_file_name("mailbox.db-wal")).map_or(0, |wal| wal.len());
    let reader = Connection::open(folder.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let large_payload = Json::of(&"x".repeat(100_000)).unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (mailbox, large_payload) = (mailbox(&store), large_payload.clone());
            tokio::spawn(async move {
                let (mut count, mut slowest) = (0, Duration::ZERO);
                while Instant::now() < until || count < 250 {
                    let began = Instant::now();
                    let id = format!("{task}-{count}");
                    enqueue(&*mailbox, new_dispatch(format!("t-{task}"), &id).with_payload(large_payload.clone()))
                        .await;
                    slowest = slowest.max(began.elapsed());
                    count += 1;
                    // The first writes have no pauses, so that the WAL becomes long. Later writes have pauses, so that
                    // the disk does not become full.
                    tokio::time::sleep(Duration::from_millis(if count < 250 { 0 } else { 100 })).await;
                }
                (count, slowest)
            })
        })
        .collect();
    // All writers end although the other program still reads. So none of them waits for that program.
    let mut total_count = 0;
    let mut slowest = Duration::ZERO;
    for task in tasks {
        let (count, slowest_of_task) = task.await.unwrap();
        (total_count, slowest) = (total_count + count, slowest.max(slowest_of_task));
    }
    let wal_bytes = wal_file_bytes();
    assert!(wal_bytes > 48 << 20, "the WAL has only {wal_bytes} bytes: the read did not prevent its restart");
    assert!(store.wal_bytes_in_use_by_readers() > 48 << 20, "the store does not report the size of the WAL");
    // The first read waits for the restart of the WAL, for as long as a read may take. The store then knows that
    // another program prevents the restart, so the next read does not wait.
    for max_seconds in [8, 1] {
        let began = Instant::now();
        assert!(mailbox(&store).load_dispatch(&"first".parse().unwrap()).await.unwrap().is_some());
        assert!(began.elapsed() < Duration::from_secs(max_seconds), "a read waited for {:?}", began.elapsed());
    }
    reader.execute_batch("COMMIT").unwrap();
    for at in 0..3 {
        enqueue(&*mailbox(&store), new_dispatch("t", &format!("after-{at}"))).await;
    }
    let (bytes_after_read, reported_bytes) = (wal_file_bytes(), store.wal_bytes_in_use_by_readers());
    println!(
        "{total_count} dispatches written during a read of {seconds} s: the slowest took {slowest:?}, the WAL had \
         {wal_bytes} bytes, and {bytes_after_read} bytes after the read"
    );
    assert!(
        bytes_after_read <= MAX_WAL_BYTES && reported_bytes == 0,
        "{bytes_after_read} bytes, {reported_bytes} reported"
    );
    expect_no_findings(&store).await;
    store.close().await.unwrap();
}

/// If no other program reads for a long time, the WAL stays short, although the store itself reads all the time.
#[tokio::test(flavor = "multi_thread")]
async fn the_wal_stays_short_under_load() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    let read_tasks: Vec<_> = (0..4)
        .map(|_| {
            let mailbox = mailbox(&store);
            tokio::spawn(async move {
                loop {
                    mailbox.list_dispatches(store_core::DispatchQuery::default()).await.unwrap();
                }
            })
        })
        .collect();
    let (mailbox, large_payload) = (Arc::new(mailbox(&store)), Json::of(&"x".repeat(500_000)).unwrap());
    let mut longest_wal = 0;
    for at in 0..TestLength::pick_by_env(100, 300, 2_000) {
        enqueue(&**mailbox, new_dispatch("t", &format!("{at}")).with_payload(large_payload.clone())).await;
        longest_wal = longest_wal.max(fs::metadata(folder.file().with_file_name("mailbox.db-wal")).unwrap().len());
    }
    println!("the WAL had {longest_wal} bytes at most");
    assert!(longest_wal < MAX_WAL_BYTES, "{longest_wal} bytes");
    read_tasks.iter().for_each(tokio::task::JoinHandle::abort);
    store.close().await.unwrap();
}
