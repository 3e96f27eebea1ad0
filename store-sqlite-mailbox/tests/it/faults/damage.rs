//! Test S7 of docs/reliability.md: bytes of the file are changed (SQ-6, MB-55, ER-8). Wrong data is never read, and a
//! damaged dispatch does not prevent others from being read, claimed and settled.

use std::fs;

use conformance_tests::{Random, TestLength};
use rusqlite::Connection;
use store_core::{DispatchQuery, DispatchStatus, ErrorKind, IgnoreProgress, PageRequest, Store, inspect::Inspector};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};

use super::{
    child_process::enqueue_many,
    helpers::{Folder, ack, claim_request, enqueue, expect_no_findings, mailbox, new_dispatch, open, settle},
};

const DISPATCH_COUNT: usize = 60;

/// Reads the dispatches with the `expected` ids. Checks that each has the expected text, is missing, or cannot be read.
/// Returns how many were read.
async fn count_readable(store: &SqliteMailbox, expected: &[(String, String)]) -> usize {
    let mut readable_count = 0;
    for (id, text) in expected {
        match mailbox(store).load_dispatch(&id.parse().unwrap()).await {
            Ok(Some(found)) => {
                assert_eq!(format!("{found:?}"), *text);
                readable_count += 1;
            }
            Ok(None) => {}
            Err(error) => assert!([ErrorKind::Corrupt, ErrorKind::Unavailable].contains(&error.kind()), "{error:?}"),
        }
    }
    readable_count
}

#[tokio::test(flavor = "multi_thread")]
async fn no_changed_bit_changes_the_data_that_is_read() {
    let (folder, flip_count) = (Folder::new(), TestLength::pick_by_env(60, 300, 10_000));
    let store = open(&folder.file()).await;
    enqueue_many(&store, "d", DISPATCH_COUNT).await;
    for _ in 0..10 {
        let claimed = mailbox(&store).claim(claim_request()).await.unwrap().claimed.remove(0);
        settle(&*mailbox(&store), &claimed, ack(claimed.dispatch.id.as_str())).await;
    }
    let query = DispatchQuery::default().with_page(PageRequest::first(1_000));
    let all = mailbox(&store).list_dispatches(query).await.unwrap().items;
    let expected: Vec<_> = all.iter().map(|found| (found.id.to_string(), format!("{found:?}"))).collect();
    assert_eq!(count_readable(&store, &expected).await, DISPATCH_COUNT);
    store.close().await.unwrap();
    let bytes = fs::read(folder.file()).unwrap();
    let (mut random, mut refused_openings, mut unreadable_count) = (Random::new(7), 0, 0);
    for _ in 0..flip_count {
        let (at, bit) = (random.below(bytes.len()), random.below(8));
        let mut changed_bytes = bytes.clone();
        changed_bytes[at] ^= 1 << bit;
        fs::write(folder.file(), changed_bytes).unwrap();
        match SqliteMailbox::open(SqliteConfig::new(folder.file())).await {
            Ok(store) => {
                unreadable_count += DISPATCH_COUNT - count_readable(&store, &expected).await;
                store.close().await.unwrap();
            }
            Err(_) => refused_openings += 1,
        }
    }
    println!(
        "{flip_count} changed bits: {refused_openings} openings refused, {unreadable_count} dispatches not read, \
         no wrong data read"
    );
    assert!(unreadable_count > 0);
}

/// Changes the file while no store has it open.
fn change_file(folder: &Folder, sql: &str) {
    let conn = Connection::open(folder.file()).unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0);
}

async fn load_error_kind(store: &SqliteMailbox, id: &str) -> Option<ErrorKind> {
    mailbox(store).load_dispatch(&id.parse().unwrap()).await.err().map(|error| error.kind())
}

/// If a payload is damaged, only its dispatch is `Corrupt`. A claim reports the thread of that dispatch, and returns
/// dispatches of other threads. After the dispatch is cancelled, its thread continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_payload_affects_only_its_dispatch() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    for (thread, id) in [("t", "bad"), ("t", "next"), ("u", "other")] {
        enqueue(&*mailbox(&store), new_dispatch(thread, id)).await;
    }
    store.close().await.unwrap();
    change_file(&folder, "UPDATE payloads SET payload = replace(payload, 'of bad', 'of baD')");
    let store = open(&folder.file()).await;
    assert_eq!(load_error_kind(&store, "bad").await, Some(ErrorKind::Corrupt));
    assert_eq!((load_error_kind(&store, "next").await, load_error_kind(&store, "other").await), (None, None));
    let found = store.verify(&IgnoreProgress).await.unwrap().findings;
    assert_eq!(found.iter().map(|finding| finding.place.as_str()).collect::<Vec<_>>(), ["dispatch `bad`"]);
    let claims = mailbox(&store).claim(claim_request().up_to(10)).await.unwrap();
    assert_eq!(claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect::<Vec<_>>(), ["other"]);
    assert_eq!(claims.unreadable.iter().map(|found| found.thread.as_str()).collect::<Vec<_>>(), ["t"]);
    let cancelled = mailbox(&store).cancel(&"bad".parse().unwrap()).await.unwrap();
    assert_eq!((cancelled.status, cancelled.payload), (DispatchStatus::Cancelled, None));
    let claims = mailbox(&store).claim(claim_request().up_to(10)).await.unwrap();
    assert_eq!(claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect::<Vec<_>>(), ["next"]);
    store.close().await.unwrap();
}

/// Data that was written for another dispatch or for another tenant is `Corrupt`.
#[tokio::test(flavor = "multi_thread")]
async fn data_of_another_dispatch_or_tenant_is_not_read() {
    let other_body = "(SELECT body, body_crc FROM dispatches WHERE id = 'd-1')";
    for (sql, damaged_ids) in [
        ("UPDATE dispatches SET payload = 3 - payload".to_owned(), &["d-0", "d-1"][..]),
        (format!("UPDATE dispatches SET (body, body_crc) = {other_body} WHERE id = 'd-0'"), &["d-0"]),
        ("UPDATE dispatches SET tenant = 7".to_owned(), &["d-0", "d-1"]),
    ] {
        let folder = Folder::new();
        let store = open(&folder.file()).await;
        enqueue_many(&store, "d", 2).await;
        store.close().await.unwrap();
        change_file(&folder, &sql);
        // All rows of the tenant get the same new number, so that they are still found.
        if sql.ends_with('7') {
            change_file(&folder, "UPDATE mailboxes SET tenant = 7");
            change_file(&folder, "UPDATE tenants SET no = 7");
        }
        let store = open(&folder.file()).await;
        for id in damaged_ids {
            assert_eq!(load_error_kind(&store, id).await, Some(ErrorKind::Corrupt), "{sql}");
        }
        store.close().await.unwrap();
    }
}

/// A record that cannot be read blocks no claim of other threads. A repair takes its dispatch out of the queue, and the
/// thread continues, even if the dispatch was claimed.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_takes_unreadable_records_out_of_the_queue() {
    for is_claimed in [false, true] {
        let folder = Folder::new();
        let store = open(&folder.file()).await;
        enqueue(&*mailbox(&store), new_dispatch("t", "bad")).await;
        if is_claimed {
            assert_eq!(mailbox(&store).claim(claim_request()).await.unwrap().claimed.len(), 1);
        }
        enqueue(&*mailbox(&store), new_dispatch("t", "next")).await;
        enqueue(&*mailbox(&store), new_dispatch("u", "other")).await;
        store.close().await.unwrap();
        change_file(&folder, "UPDATE dispatches SET body = replace(body, '\"r\"', '\"q\"') WHERE id = 'bad'");
        let store = open(&folder.file()).await;
        assert_eq!(load_error_kind(&store, "bad").await, Some(ErrorKind::Corrupt));
        let claims = mailbox(&store).claim(claim_request().up_to(10)).await.unwrap();
        assert_eq!(claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect::<Vec<_>>(), ["other"]);
        let found = store.repair(true, &IgnoreProgress).await.unwrap().findings;
        assert!(!found.is_empty());
        assert_eq!(mailbox(&store).claim(claim_request()).await.unwrap().claimed.len(), 0, "a dry run changes nothing");
        store.repair(false, &IgnoreProgress).await.unwrap();
        let claims = mailbox(&store).claim(claim_request().up_to(10)).await.unwrap();
        assert_eq!(claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect::<Vec<_>>(), ["next"]);
        assert_eq!(load_error_kind(&store, "bad").await, Some(ErrorKind::Corrupt), "accepted data does not change");
        store.close().await.unwrap();
    }
}

/// Data that is derived from records is rebuilt (VF-1, VF-5).
#[tokio::test(flavor = "multi_thread")]
async fn data_derived_from_records_is_rebuilt() {
    for sql in [
        "UPDATE dispatches SET available = NULL WHERE id = 'd-1'",
        "UPDATE dispatches SET status = 2 WHERE id = 'd-1'",
        "UPDATE dispatches SET due = due + 1 WHERE id = 'd-2'",
        "UPDATE mailboxes SET priority = NULL, since = NULL WHERE thread = 'd-1'",
        "UPDATE mailboxes SET lease = 5 WHERE thread = 'd-2'",
    ] {
        let folder = Folder::new();
        let store = open(&folder.file()).await;
        enqueue_many(&store, "d", 5).await;
        store.close().await.unwrap();
        change_file(&folder, sql);
        let store = open(&folder.file()).await;
        assert!(!store.verify(&IgnoreProgress).await.unwrap().findings.is_empty(), "{sql}");
        store.repair(false, &IgnoreProgress).await.unwrap();
        expect_no_findings(&store).await;
        assert_eq!(mailbox(&store).claim(claim_request().up_to(10)).await.unwrap().claimed.len(), 5, "{sql}");
        store.close().await.unwrap();
    }
}
