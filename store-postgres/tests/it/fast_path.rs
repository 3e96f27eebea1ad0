//! Commits that share one statement with others, while another process changes records on which they depend.

use std::{sync::Arc, time::Duration};

use sqlx::{Connection as _, PgConnection};
use store_core::{
    ClaimRequest, Commit, CommitCoordinator, ErrorKind, Expect, Fence, Interrupt, Json, Limits, NewDispatch,
    NewOutboxRow, OutboxQuery, PageRequest, Receipt, Result, StateChange, Store, TenantId, ThreadFilter, ThreadId,
};

use crate::{
    faults::helpers::{commit_with_all_parts, commit_with_message, commits, stores, thread},
    fixture::{SchemaGuard, server_url},
};

const THREADS: usize = 16;

/// Two stores on one schema, and threads that the first one wrote to.
struct TwoStores {
    first_store: Arc<dyn Store>,
    second_store: Arc<dyn Store>,
    ids: Vec<ThreadId>,
    test_schema: SchemaGuard,
}

impl TwoStores {
    async fn new() -> Self {
        let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
        let (first_store, second_store) = (test_schema.store().await.unwrap(), test_schema.store().await.unwrap());
        let ids: Vec<_> = (0..THREADS).map(|at| thread(format!("t-{at}"))).collect();
        for id in &ids {
            let _known = commits(&*first_store).commit(commit_with_all_parts(id, 1)).await.unwrap();
        }
        Self { first_store, second_store, ids, test_schema }
    }
}

/// Makes the commits at the same time. Returns their answers in the order of the commits.
async fn commit_concurrently(commits: &Arc<dyn CommitCoordinator>, all: Vec<Commit>) -> Vec<Result<Receipt>> {
    let tasks: Vec<_> = all
        .into_iter()
        .map(|commit| {
            let commits = Arc::clone(commits);
            tokio::spawn(async move { commits.commit(commit).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

/// CM-31, PO-4: if another process ends a claim, the commits that the claim fences are refused, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_lost_in_another_process_refuses_only_its_own_commits() {
    let two_stores = TwoStores::new().await;
    let (first_commits, mailbox) =
        (commits(&*two_stores.first_store), stores(&*two_stores.first_store).mailbox.unwrap());
    let work = two_stores.ids.iter().map(|id| NewDispatch::new(id.clone(), "r".parse().unwrap())).collect();
    mailbox.enqueue(work).await.unwrap().into_iter().for_each(|queued| drop(queued.unwrap()));
    let request = ClaimRequest::new("w".parse().unwrap(), Duration::from_mins(10)).up_to(100);
    let claims = mailbox.claim(request).await.unwrap().claimed;
    let fence = |id: &ThreadId| -> Fence { claims.iter().find(|it| it.dispatch.thread == *id).unwrap().fence() };
    for round in 0..10 {
        if round == 3 {
            let other_mailbox = stores(&*two_stores.second_store).mailbox.unwrap();
            other_mailbox.interrupt(Interrupt::new(two_stores.ids[5].clone())).await.unwrap();
        }
        let fenced_commits =
            two_stores.ids.iter().map(|id| commit_with_message(id, &format!("round-{round}")).fenced(fence(id)));
        for (at, answer) in commit_concurrently(&first_commits, fenced_commits.collect()).await.into_iter().enumerate()
        {
            let refusal = answer.err().map(|error| error.kind());
            let expected = (at == 5 && round >= 3).then_some(ErrorKind::StaleEpoch);
            assert_eq!(refusal, expected, "round {round}, thread {at}");
        }
    }
    let threads = stores(&*two_stores.second_store).threads.unwrap();
    for (at, id) in two_stores.ids.iter().enumerate() {
        let found = threads.load_thread(id).await.unwrap().unwrap().version.number();
        assert_eq!(found, if at == 5 { 4 } else { 11 }, "{id}");
    }
}

/// TN-8, CM-5: threads that another process deleted do not come back, although this process still has them in its
/// cache.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_deleted_by_another_process_stays_deleted() {
    let two_stores = TwoStores::new().await;
    let first_commits = commits(&*two_stores.first_store);
    let threads = stores(&*two_stores.first_store).threads.unwrap();
    let mut requested = Vec::new();
    for id in &two_stores.ids {
        let version = threads.load_thread(id).await.unwrap().unwrap().version;
        requested.push(commit_with_message(id, "late").expecting(Expect::Version(version)));
    }
    two_stores.second_store.delete_tenant(&TenantId::default_tenant()).await.unwrap();
    for answer in commit_concurrently(&first_commits, requested).await {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert_eq!(threads.count_threads(&ThreadFilter::default()).await.unwrap(), 0);
}

/// CM-5, PO-4: commits that wait for a thread do not overwrite what another transaction writes to it.
#[tokio::test(flavor = "multi_thread")]
async fn writes_of_others_while_commits_wait_are_not_overwritten() {
    const ROUNDS: u64 = 5;
    let two_stores = TwoStores::new().await;
    let second_store = two_stores.test_schema.open().await.unwrap();
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let contended_thread = two_stores.ids.last().unwrap();
    for round in 0..ROUNDS {
        let mut transaction = connection.begin().await.unwrap();
        let commit = commit_with_message(contended_thread, &format!("round-{round}"));
        let _receipt = second_store.commit_in(&TenantId::default_tenant(), &mut transaction, commit).await.unwrap();
        let state = |id: &ThreadId| Commit::new(id.clone()).with_state(StateChange::new().set("n", Json::null()));
        let (first_commits, requested) =
            (commits(&*two_stores.first_store), two_stores.ids.iter().map(state).collect());
        let waiting_commits = tokio::spawn(async move { commit_concurrently(&first_commits, requested).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting_commits.is_finished());
        transaction.commit().await.unwrap();
        waiting_commits.await.unwrap().into_iter().for_each(|answer| drop(answer.unwrap()));
    }
    let threads = stores(&*two_stores.second_store).threads.unwrap();
    assert_eq!(threads.load_thread(contended_thread).await.unwrap().unwrap().version.number(), 1 + ROUNDS);
}

/// OB-11: rows of one order key get a number each, even if many threads and two processes write them at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_order_key_are_numbered_across_threads_and_processes() {
    const ROUNDS: usize = 20;
    let two_stores = TwoStores::new().await;
    let (lane, target, key) = ("o".parse().unwrap(), "x".parse().unwrap(), "k".parse().unwrap());
    let row = NewOutboxRow::new(lane, target, Json::null()).with_order_key(key);
    let writers = two_stores.ids.iter().enumerate().map(|(at, id)| {
        let commits = commits(if at % 2 == 0 { &*two_stores.first_store } else { &*two_stores.second_store });
        let commit = Commit::new(id.clone()).with_outbox([row.clone()]);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let _receipt = commits.commit(commit.clone()).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let query = OutboxQuery::default().with_page(PageRequest::first(1_000));
    let rows = stores(&*two_stores.first_store).outbox.unwrap().list_outbox(query).await.unwrap().items;
    // An index of the table makes the numbers of a key unique.
    assert_eq!(rows.iter().filter(|row| row.order_key.is_some()).count(), THREADS * ROUNDS);
}

/// PO-4: in a schema for which the server has no statistics yet, a group commit looks up the rows that it changes by
/// their keys, and reads no other rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_commit_reads_only_the_rows_that_it_changes() {
    const FIRST_STORE_THREADS: usize = 1_000;
    const CONCURRENT_COMMITS: usize = 200;
    const ROUNDS: usize = 8;
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let mut total_rows_read = Vec::new();
    for rounds in [1, ROUNDS] {
        let store = test_schema.store().await.unwrap();
        let commits = commits(&*store);
        for round in 0..rounds {
            // The first store writes many threads that the second one does not touch.
            let count = if rounds == 1 { FIRST_STORE_THREADS } else { THREADS };
            let number = u64::try_from(rounds + round).unwrap();
            let requested: Vec<_> =
                (0..count).map(|at| commit_with_all_parts(&thread(format!("t-{at}")), number)).collect();
            for requested in requested.chunks(CONCURRENT_COMMITS) {
                commit_concurrently(&commits, requested.to_vec())
                    .await
                    .into_iter()
                    .for_each(|answer| drop(answer.unwrap()));
            }
        }
        store.close().await.unwrap();
        total_rows_read.push(rows_read(&test_schema).await);
    }
    let rows_per_commit = (total_rows_read[1] - total_rows_read[0]) / i64::try_from(ROUNDS * THREADS).unwrap();
    assert!(rows_per_commit < 20, "each commit read {rows_per_commit} rows");
}

/// Returns the total number of rows of threads, runs and scopes that were read through indexes. Waits until the
/// connections that read them have ended, because the server may count their rows only then.
async fn rows_read(test_schema: &SchemaGuard) -> i64 {
    const HAS_SESSIONS_SQL: &str =
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND strpos(query, $1) > 0)";
    const ROWS_READ_SQL: &str = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes \
        WHERE schemaname = $1 AND relname IN ('thread', 'run', 'scope')";
    let mut connection = PgConnection::connect(&server_url()).await.unwrap();
    let schema = test_schema.config().schema();
    while sqlx::query_scalar(HAS_SESSIONS_SQL).bind(schema).fetch_one(&mut connection).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sqlx::query_scalar(ROWS_READ_SQL).bind(schema).fetch_one(&mut connection).await.unwrap()
}
