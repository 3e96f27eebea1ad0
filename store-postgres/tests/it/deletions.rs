//! What a deletion leaves on the server (TH-20).

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    AppendPending, Commit, DeleteRequest, Json, Limits, Message, NewEntry, NewInput, PruneRequest, StateChange, Store,
    TenantId, TenantStores, ThreadId,
};

use crate::fixture::{Place, server};

/// Stands in everything that is written.
const SECRET: &str = "birthday of the queen";

/// How many rows of each table show the secret; tables that show none are left out.
async fn shown(place: &Place) -> Vec<(String, i64)> {
    let schema = place.0.config().schema();
    let mut connection = PgConnection::connect(&server()).await.unwrap();
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 ORDER BY 1";
    let tables: Vec<String> = sqlx::query_scalar(tables).bind(schema).fetch_all(&mut connection).await.unwrap();
    let mut found = Vec::new();
    for table in tables {
        let rows = format!("SELECT count(*) FROM {schema}.{table} row WHERE row::text LIKE '%{SECRET}%'");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(rows)).fetch_one(&mut connection).await.unwrap();
        if rows > 0 {
            found.push((table, rows));
        }
    }
    found
}

async fn write(stores: &TenantStores, thread: &ThreadId, key: &str, entries: usize) {
    let secret = || Json::of(SECRET).unwrap();
    let said = (0..entries).map(|number| NewEntry::new(Message::user(format!("{SECRET}, {number}"))));
    let commit =
        Commit::new(thread.clone()).with_key(key.parse().unwrap()).with_state(StateChange::new().set("k", secret()));
    let commits = stores.commits.as_ref().unwrap();
    let _receipt = commits.commit(said.fold(commit, Commit::entry)).await.unwrap();
}

/// Shows TH-20 and TH-21: what was said is gone from every table when the deletion returns, also of children and of a
/// log that takes several batches; so it is after a pruning.
#[tokio::test]
async fn a_deletion_leaves_nothing_of_what_was_said() {
    let place = Place::new(Limits::default()).await.unwrap();
    let store = place.0.open().await.unwrap();
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let threads = stores.threads.as_ref().unwrap();
    let (long, short): (ThreadId, ThreadId) = ("long".parse().unwrap(), "short".parse().unwrap());
    for key in ["a", "b", "c"] {
        write(&stores, &long, key, 900).await;
    }
    let input = AppendPending::new(long.clone(), [NewInput::message(Message::user(SECRET))]);
    stores.pending.as_ref().unwrap().append_pending(input).await.unwrap();
    assert!(shown(&place).await.iter().any(|(table, rows)| table == "entry" && *rows >= 2_700));
    threads.delete_thread(&long, DeleteRequest::default()).await.unwrap();
    assert_eq!(shown(&place).await, []);
    write(&stores, &short, "a", 1).await;
    place.0.advance(Duration::from_secs(60)).await.unwrap();
    let idle = PruneRequest { idle: Duration::from_secs(1), limit: 10, dry_run: false };
    assert_eq!(threads.prune_threads(idle).await.unwrap().threads, [short]);
    assert_eq!(shown(&place).await, []);
    store.close().await.unwrap();
}
