//! Commits in a transaction of the caller (PO-5).

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use store_core::{
    Commit, CommitKey, ErrorKind, Expect, Limits, Message, NewEntry, Receipt, Result, RunChange, RunStatus, Store,
    TenantId, Thread, ThreadId,
};
use store_postgres::PostgresStore;

use crate::fixture::{SchemaGuard, server_url};

/// A store, and a caller with a table of its own in the same schema.
struct Caller {
    test_schema: SchemaGuard,
    store: PostgresStore,
    connection: PgConnection,
}

fn tenant() -> TenantId {
    TenantId::default_tenant()
}

fn commit_with_message(text: &str) -> Commit {
    Commit::new("t".parse().unwrap()).with_key(CommitKey::new(text).unwrap()).entry(NewEntry::new(Message::user(text)))
}

/// How the caller ends its transaction.
#[derive(Clone, Copy)]
enum TransactionEnd {
    Commit,
    Rollback,
}

impl Caller {
    async fn new() -> Self {
        let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
        let store = test_schema.open().await.unwrap();
        let mut connection = PgConnection::connect(&server_url()).await.unwrap();
        let table = format!("CREATE TABLE {}.orders (id bigint PRIMARY KEY)", test_schema.config().schema());
        sqlx::raw_sql(AssertSqlSafe(table)).execute(&mut connection).await.unwrap();
        Self { test_schema, store, connection }
    }

    /// Inserts an order and makes the commits in one transaction. Returns the answers of the commits.
    async fn write(&mut self, order: i64, commits: &[Commit], end: TransactionEnd) -> Vec<Result<Receipt>> {
        let mut transaction = self.connection.begin().await.unwrap();
        let insert = format!("INSERT INTO {}.orders VALUES ({order})", self.test_schema.config().schema());
        sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut *transaction).await.unwrap();
        let mut answers = Vec::new();
        for commit in commits {
            answers.push(self.store.commit_in(&tenant(), &mut transaction, commit.clone()).await);
        }
        match end {
            TransactionEnd::Commit => transaction.commit().await.unwrap(),
            TransactionEnd::Rollback => transaction.rollback().await.unwrap(),
        }
        answers
    }

    async fn count_orders(&mut self) -> i64 {
        let count = format!("SELECT count(*) FROM {}.orders", self.test_schema.config().schema());
        sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(&mut self.connection).await.unwrap()
    }

    async fn thread(&self) -> Option<Thread> {
        let threads = self.store.tenant(&tenant()).unwrap().threads.unwrap();
        threads.load_thread(&ThreadId::new("t").unwrap()).await.unwrap()
    }

    async fn version(&self) -> u64 {
        self.thread().await.map_or(0, |thread| thread.version.number())
    }
}

#[tokio::test]
async fn a_rolled_back_commit_leaves_nothing() {
    let mut caller = Caller::new().await;
    let [Ok(receipt)] = &caller.write(1, &[commit_with_message("a")], TransactionEnd::Rollback).await[..] else {
        panic!("the commit was refused")
    };
    assert_eq!((receipt.version.number(), receipt.deduplicated), (1, false));
    assert_eq!((caller.count_orders().await, caller.thread().await), (0, None));
    // The key of the commit is not stored either.
    let second_answer = &caller.write(1, &[commit_with_message("a")], TransactionEnd::Commit).await[0];
    assert!(!second_answer.as_ref().unwrap().deduplicated);
    assert_eq!((caller.count_orders().await, caller.version().await), (1, 1));
    let third_answer = &caller.write(2, &[commit_with_message("a")], TransactionEnd::Commit).await[0];
    assert!(third_answer.as_ref().unwrap().deduplicated);
}

/// Each transaction of the caller contains two commits, and another commit to the same thread follows it. The second
/// transaction is rolled back.
#[tokio::test]
async fn commits_in_transactions_and_other_commits_get_consecutive_versions() {
    let mut caller = Caller::new().await;
    let commits = caller.store.tenant(&tenant()).unwrap().commits.unwrap();
    for round in 0..3_u64 {
        let keyed_commit = |name: &str| commit_with_message(&format!("{name}-{round}"));
        let end = if round == 1 { TransactionEnd::Rollback } else { TransactionEnd::Commit };
        let answers = caller.write(round.try_into().unwrap(), &[keyed_commit("a"), keyed_commit("b")], end).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let receipt = commits.commit(keyed_commit("c")).await.unwrap();
        assert_eq!(receipt.version.number(), caller.version().await);
    }
    assert_eq!((caller.count_orders().await, caller.version().await), (2, 7));
}

#[tokio::test]
async fn a_refused_commit_leaves_its_transaction_usable() {
    let mut caller = Caller::new().await;
    let new = || commit_with_message("new").expecting(Expect::Absent);
    let change = || RunChange::new("r".parse().unwrap(), RunStatus::Running).with_agent("a".parse().unwrap());
    let commits = caller.store.tenant(&tenant()).unwrap().commits.unwrap();
    let commit_to_other_thread =
        Commit::new("u".parse().unwrap()).with_run(change()).with_key(CommitKey::new("k").unwrap());
    let _made = commits.commit(commit_to_other_thread).await.unwrap();
    // The run now belongs to another thread, so this commit is refused.
    let commit_with_taken_run = commit_with_message("taken").with_run(change());
    let answers = caller
        .write(
            1,
            &[
                new(),
                commit_with_message("other").expecting(Expect::Absent),
                commit_with_taken_run,
                commit_with_message("last"),
            ],
            TransactionEnd::Commit,
        )
        .await;
    let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(store_core::Error::kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::Conflict), Some(ErrorKind::AlreadyExists), None]);
    assert_eq!((caller.count_orders().await, caller.version().await), (1, 2));
}
