//! What a copy relies on: writers are kept away, and a record that was changed in a table is found.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    AppendEvents, Commit, DocumentChange, DocumentKey, IgnoreProgress, Json, KeySegment, Limits, Message, NewDispatch,
    NewEntry, NewEvent, NewThread, Scope, Store, TenantId, TenantStores, WriteDocuments,
    inspect::Inspector,
    records::{CopyOptions, DifferenceKind, compare_tenants, copy_tenant, digest_tenant},
};

use crate::fixture::{SchemaGuard, server_url};

/// Makes a commit with a key of its own.
fn commit(thread: &str) -> Commit {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let key = format!("k{}", COUNT.fetch_add(1, Ordering::Relaxed));
    Commit::new(thread.parse().unwrap()).entry(NewEntry::new(Message::user("x"))).with_key(key.parse().unwrap())
}

async fn write_to_everything(stores: &TenantStores, thread: &str) -> store_core::Result<()> {
    stores.commits.as_ref().unwrap().commit(commit(thread)).await.map(drop)
}

/// While the writes of a tenant are held, no write of any contract ends, neither of this process nor of another. Other
/// tenants, and reads, are not held. When the hold is dropped, the writes go on (VF-6).
#[tokio::test]
async fn a_hold_keeps_all_writers_of_a_tenant_away_vf_6() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (store, other_process) = (test_schema.open().await.unwrap(), test_schema.open().await.unwrap());
    let tenant = TenantId::default_tenant();
    let (stores, others) = (store.tenant(&tenant).unwrap(), other_process.tenant(&tenant).unwrap());
    write_to_everything(&stores, "t").await.unwrap();
    write_to_everything(&others, "t").await.unwrap();
    let hold = stores.records.as_ref().unwrap().hold_writes().await.unwrap();
    write_to_everything(&store.tenant(&"another".parse().unwrap()).unwrap(), "t").await.unwrap();
    let thread = "t".parse().unwrap();
    assert!(stores.threads.as_ref().unwrap().load_thread(&thread).await.unwrap().is_some());

    let mut existing = pin!(write_to_everything(&others, "t"));
    let mut new = pin!(write_to_everything(&others, "new"));
    let threads = others.threads.clone().unwrap();
    let mut create = pin!(threads.create_thread(NewThread::new("made".parse().unwrap())));
    let events = others.events.clone().unwrap();
    let scope = Scope::Topic("topic".parse().unwrap());
    let mut append = pin!(events.append_events(AppendEvents::new([NewEvent::new("k".parse().unwrap(), [scope])])));
    let mailbox = others.mailbox.clone().unwrap();
    let mut enqueue = pin!(mailbox.enqueue(vec![NewDispatch::new(thread, "r".parse().unwrap())]));
    let documents = others.documents.clone().unwrap();
    let key = DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(1)]).unwrap();
    let mut put = pin!(documents.write_documents(WriteDocuments::new([DocumentChange::put(key, Json::null())])));
    let short = Duration::from_millis(100);
    assert!(tokio::time::timeout(short, existing.as_mut()).await.is_err(), "a commit to a thread that exists");
    assert!(tokio::time::timeout(short, new.as_mut()).await.is_err(), "a commit that creates a thread");
    assert!(tokio::time::timeout(short, create.as_mut()).await.is_err(), "a thread");
    assert!(tokio::time::timeout(short, append.as_mut()).await.is_err(), "an event");
    assert!(tokio::time::timeout(short, enqueue.as_mut()).await.is_err(), "a dispatch");
    assert!(tokio::time::timeout(short, put.as_mut()).await.is_err(), "a document");
    drop(hold);
    existing.await.unwrap();
    new.await.unwrap();
    create.await.unwrap();
    append.await.unwrap();
    enqueue.await.unwrap().remove(0).unwrap();
    put.await.unwrap();
    store.close().await.unwrap();
    other_process.close().await.unwrap();
}

/// A record that was changed in a table is found by a comparison, and the copy itself has nothing that an inspection
/// finds (VF-1, VF-3).
#[tokio::test]
async fn a_record_that_was_changed_behind_the_store_is_found_vf_3() {
    let (from, to) =
        (SchemaGuard::new(Limits::default()).await.unwrap(), SchemaGuard::new(Limits::default()).await.unwrap());
    let (source, target) = (from.open().await.unwrap(), to.open().await.unwrap());
    let tenant = TenantId::default_tenant();
    let (stores, copy) = (source.tenant(&tenant).unwrap(), target.tenant(&tenant).unwrap());
    for _ in 0..3 {
        write_to_everything(&stores, "t").await.unwrap();
    }
    let options = CopyOptions::new("source");
    let report = copy_tenant(&stores, &copy, &options, &IgnoreProgress).await.unwrap();
    assert_eq!(report.difference_count, 0, "{:?}", report.differences);
    assert_eq!(target.verify(&IgnoreProgress).await.unwrap().findings, Vec::new());
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let sql = format!("UPDATE {}.entry SET body = replace(body, '\"x\"', '\"y\"') WHERE seq = 2", to.config().schema());
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    let report = compare_tenants(&stores, &copy, &options, &IgnoreProgress).await.unwrap();
    let found: Vec<_> = report.differences.iter().map(|found| (found.list, found.key.as_str())).collect();
    assert_eq!(found, [("entries", "t 2")]);
    assert_ne!(report.source, report.target);
    assert_ne!(Some(digest_tenant(&copy, &IgnoreProgress).await.unwrap()), report.source);
    // What is not as other rows say is found without the source, too.
    let sql = format!("DELETE FROM {}.entry WHERE seq = 2", to.config().schema());
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    let report = compare_tenants(&stores, &copy, &options, &IgnoreProgress).await.unwrap();
    let found: Vec<_> = report.differences.iter().map(|found| (found.key.as_str(), found.kind)).collect();
    assert_eq!(found, [("t 2", DifferenceKind::Missing)]);
    assert_ne!(target.verify(&IgnoreProgress).await.unwrap().findings, Vec::new());
    source.close().await.unwrap();
    target.close().await.unwrap();
}
