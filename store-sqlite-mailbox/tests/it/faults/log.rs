//! S9: another program reads for a long time (SQ-5). No write waits for that program, the store reports the size of the
//! log, and the log is short again afterwards.

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

/// If no other program reads for a long time, the log stays below this size in bytes. At 24 MiB no further read begins
/// until the log is restarted. What is written until the running reads have ended is less than the other 72 MiB.
const BOUND: u64 = 96 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_long_read_by_another_program_blocks_no_call() {
    let (folder, seconds) = (Folder::new(), TestLength::pick_by_env(2, 4, 60));
    let store = open(&folder.file()).await;
    enqueue(&*mailbox(&store), new_dispatch("t", "first")).await;
    let log = || fs::metadata(folder.file().with_file_name("mailbox.db-wal")).map_or(0, |log| log.len());
    let reader = Connection::open(folder.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let until = Instant::now() + Duration::from_secs(seconds);
    let long = Json::of(&"x".repeat(100_000)).unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (mailbox, long) = (mailbox(&store), long.clone());
            tokio::spawn(async move {
                let (mut at, mut slowest) = (0, Duration::ZERO);
                while Instant::now() < until || at < 250 {
                    let began = Instant::now();
                    let id = format!("{task}-{at}");
                    enqueue(&*mailbox, new_dispatch(format!("t-{task}"), &id).with_payload(long.clone())).await;
                    slowest = slowest.max(began.elapsed());
                    at += 1;
                    // The first writes have no pauses, so that the log becomes long. Later writes have pauses, so that
                    // the disk does not become full.
                    tokio::time::sleep(Duration::from_millis(if at < 250 { 0 } else { 100 })).await;
                }
                (at, slowest)
            })
        })
        .collect();
    // All writers end while the other program still reads, so none of them waits for it.
    let mut written = 0;
    let mut slowest = Duration::ZERO;
    for task in tasks {
        let (at, longest) = task.await.unwrap();
        (written, slowest) = (written + at, slowest.max(longest));
    }
    let log_bytes = log();
    assert!(log_bytes > 48 << 20, "the log has only {log_bytes} bytes: the read did not prevent its restart");
    assert!(store.held_log_bytes() > 48 << 20, "the store does not report the size of the log");
    // The first read waits for as long as a read of the store may take. The next read does not wait.
    for most in [8, 1] {
        let began = Instant::now();
        assert!(mailbox(&store).load_dispatch(&"first".parse().unwrap()).await.unwrap().is_some());
        assert!(began.elapsed() < Duration::from_secs(most), "a read waited for {:?}", began.elapsed());
    }
    reader.execute_batch("COMMIT").unwrap();
    for at in 0..3 {
        enqueue(&*mailbox(&store), new_dispatch("t", &format!("after-{at}"))).await;
    }
    let (after, reported) = (log(), store.held_log_bytes());
    println!(
        "{written} dispatches beside a read of {seconds} s: the slowest took {slowest:?}, the log had {log_bytes} bytes, then {after}"
    );
    assert!(after <= BOUND && reported == 0, "{after} bytes, {reported} reported");
    expect_no_findings(&store).await;
    store.close().await.unwrap();
}

/// If no other program reads for a long time, the log stays short, although the store itself reads all the time.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_stays_short_under_load() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    let reading: Vec<_> = (0..4)
        .map(|_| {
            let mailbox = mailbox(&store);
            tokio::spawn(async move {
                loop {
                    mailbox.list_dispatches(store_core::DispatchQuery::default()).await.unwrap();
                }
            })
        })
        .collect();
    let (mailbox, long) = (Arc::new(mailbox(&store)), Json::of(&"x".repeat(500_000)).unwrap());
    let mut longest = 0;
    for at in 0..TestLength::pick_by_env(100, 300, 2_000) {
        enqueue(&**mailbox, new_dispatch("t", &format!("{at}")).with_payload(long.clone())).await;
        longest = longest.max(fs::metadata(folder.file().with_file_name("mailbox.db-wal")).unwrap().len());
    }
    println!("the log had {longest} bytes at most");
    assert!(longest < BOUND, "{longest} bytes");
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    store.close().await.unwrap();
}
