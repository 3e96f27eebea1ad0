//! The data that a deletion leaves on the server (TH-20).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    AppendPending, ChildStrategy, Commit, DeleteRequest, IgnoreProgress, Json, Limits, Message, NewEntry, NewInput,
    NewThread, Progress, PruneRequest, StateChange, Store, TenantId, TenantStores, ThreadAdmin, ThreadFields, ThreadId,
};
use store_postgres::PostgresStore;
use tokio::time::timeout;

use crate::fixture::{SchemaGuard, server_url};

/// A text that all data of these tests contains.
const SECRET: &str = "birthday of the queen";

/// Returns the tables that contain the secret, each with the number of rows that contain it.
async fn tables_with_secret(test_schema: &SchemaGuard) -> Vec<(String, i64)> {
    let schema = test_schema.config().schema();
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let tables_sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables_sql).bind(schema).fetch_all(&mut connection).await.unwrap();
    let mut found = Vec::new();
    for table in tables {
        let count_sql = format!("SELECT count(*) FROM {schema}.{table} row WHERE row::text LIKE '%{SECRET}%'");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(count_sql)).fetch_one(&mut connection).await.unwrap();
        if rows > 0 {
            found.push((table, rows));
        }
    }
    found
}

async fn commit_secret(stores: &TenantStores, thread: &ThreadId, key: &str, entries: usize) {
    let secret = || Json::of(SECRET).unwrap();
    let secret_entries = (0..entries).map(|number| NewEntry::new(Message::user(format!("{SECRET}, {number}"))));
    let commit =
        Commit::new(thread.clone()).with_key(key.parse().unwrap()).with_state(StateChange::new().set("k", secret()));
    let commits = stores.commits.as_ref().unwrap();
    let _receipt = commits.commit(secret_entries.fold(commit, Commit::entry)).await.unwrap();
}

/// Tests TH-20 and TH-21: when a deletion returns, no table contains the text of the deleted threads. This is also true
/// for children, for a log that takes several batches, and after pruning.
#[tokio::test]
async fn a_deletion_leaves_no_message_text_behind() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let store = test_schema.open().await.unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let threads = stores.threads.as_ref().unwrap();
    let (long_thread, short_thread): (ThreadId, ThreadId) = ("long".parse().unwrap(), "short".parse().unwrap());
    for key in ["a", "b", "c"] {
        commit_secret(&stores, &long_thread, key, 900).await;
    }
    let child: ThreadId = "child".parse().unwrap();
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(long_thread.clone());
    let _made = threads.create_thread(NewThread::new(child.clone()).with_fields(fields)).await.unwrap();
    commit_secret(&stores, &child, "a", 1).await;
    let input = AppendPending::new(long_thread.clone(), [NewInput::message(Message::user(SECRET))]);
    stores.pending.as_ref().unwrap().append_pending(input).await.unwrap();
    assert!(tables_with_secret(&test_schema).await.iter().any(|(table, rows)| table == "entry" && *rows >= 2_700));
    let cascade = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
    assert_eq!(threads.delete_thread(&long_thread, cascade).await.unwrap().deleted.len(), 2);
    assert_eq!(tables_with_secret(&test_schema).await, []);
    commit_secret(&stores, &short_thread, "a", 1).await;
    test_schema.advance(Duration::from_secs(60)).await.unwrap();
    let idle = PruneRequest { idle: Duration::from_secs(1), limit: 10, dry_run: false };
    assert_eq!(threads.prune_threads(idle).await.unwrap().threads, [short_thread]);
    assert_eq!(tables_with_secret(&test_schema).await, []);
    store.close().await.unwrap();
}

/// Opens the store with connections of its own, as another process does.
async fn open_as_process(test_schema: &SchemaGuard) -> (PostgresStore, Arc<dyn ThreadAdmin>, TenantStores) {
    let store = test_schema.open().await.unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    (store, stores.threads.clone().unwrap(), stores)
}

/// Prevents all processes from removing entries until the returned connection is closed.
async fn block_removal_of_entries(test_schema: &SchemaGuard) -> PgConnection {
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let lock_sql = format!("BEGIN; LOCK TABLE {}.entry IN SHARE MODE", test_schema.config().schema());
    let _locked = sqlx::raw_sql(AssertSqlSafe(lock_sql)).execute(&mut connection).await.unwrap();
    connection
}

/// The maximum time that a test waits until removals are blocked.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Waits until this many removals in the schema wait for locks. Panics if they do not wait in time.
async fn wait_for_blocked_removals(test_schema: &SchemaGuard, count: i64) {
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let count_waiting_sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.purge_step(%'",
        test_schema.config().schema()
    );
    let all_wait = async {
        while sqlx::query_scalar::<_, i64>(AssertSqlSafe(count_waiting_sql.clone()))
            .fetch_one(&mut connection)
            .await
            .unwrap()
            < count
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(MAX_WAIT, all_wait).await.expect("the removals do not wait for locks");
}

/// Tests TH-20: the data that an interrupted deletion has left is invisible. `purge_deleted` of another process removes
/// it. If a step of the first process is still running, the purge waits for it, and returns when nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_purge_removes_the_rest_of_an_interrupted_deletion() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (first_store, threads, stores) = open_as_process(&test_schema).await;
    let long_thread: ThreadId = "long".parse().unwrap();
    for key in ["a", "b", "c"] {
        commit_secret(&stores, &long_thread, key, 900).await;
    }
    let lock_connection = block_removal_of_entries(&test_schema).await;
    let interrupted_deletion = {
        let long_thread = long_thread.clone();
        tokio::spawn(async move { threads.delete_thread(&long_thread, DeleteRequest::default()).await })
    };
    wait_for_blocked_removals(&test_schema, 1).await;
    interrupted_deletion.abort();
    assert!(interrupted_deletion.await.unwrap_err().is_cancelled());
    let (second_store, threads, stores) = open_as_process(&test_schema).await;
    assert_eq!(stores.threads.unwrap().load_thread(&long_thread).await.unwrap(), None);
    // The purge waits for the removal that is still running, instead of reporting that nothing is left.
    let purge_task = tokio::spawn(async move { threads.purge_deleted(&IgnoreProgress).await });
    wait_for_blocked_removals(&test_schema, 2).await;
    assert!(!purge_task.is_finished());
    assert!(!tables_with_secret(&test_schema).await.is_empty());
    lock_connection.close().await.unwrap();
    let _purged = purge_task.await.unwrap().unwrap();
    assert_eq!(tables_with_secret(&test_schema).await, []);
    first_store.close().await.unwrap();
    second_store.close().await.unwrap();
}

/// Tests TH-20: the data that is left of a family of many small threads is removed in a few steps, not in one step for
/// each thread.
#[tokio::test(flavor = "multi_thread")]
async fn many_small_threads_are_removed_in_few_steps() {
    const CHILDREN: usize = 300;
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (store, threads, stores) = open_as_process(&test_schema).await;
    let parent: ThreadId = "parent".parse().unwrap();
    commit_secret(&stores, &parent, "a", 1).await;
    for number in 0..CHILDREN {
        let child: ThreadId = format!("child-{number}").parse().unwrap();
        let mut fields = ThreadFields::default();
        fields.parent_thread_id = Some(parent.clone());
        let _made = threads.create_thread(NewThread::new(child.clone()).with_fields(fields)).await.unwrap();
        commit_secret(&stores, &child, "a", 1).await;
    }
    let lock_connection = block_removal_of_entries(&test_schema).await;
    let interrupted_deletion = {
        let (threads, parent) = (Arc::clone(&threads), parent.clone());
        let cascade = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
        tokio::spawn(async move { threads.delete_thread(&parent, cascade).await })
    };
    wait_for_blocked_removals(&test_schema, 1).await;
    interrupted_deletion.abort();
    assert!(interrupted_deletion.await.unwrap_err().is_cancelled());
    lock_connection.close().await.unwrap();
    let steps = StepCounter::default();
    let _purged = threads.purge_deleted(&steps).await.unwrap();
    assert_eq!(tables_with_secret(&test_schema).await, []);
    let steps = steps.0.load(Ordering::Relaxed);
    assert!(steps < 10, "{steps} steps for {CHILDREN} threads");
    store.close().await.unwrap();
}

/// Counts steps.
#[derive(Debug, Default)]
struct StepCounter(AtomicUsize);

impl Progress for StepCounter {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        true
    }
}
