//! Enqueues of one process to the same threads share transactions, and block no other enqueues (PR-12).

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use store_core::{ErrorKind, Json, NewDispatch, Result, RunId, ThreadId};
use tokio::{task::JoinHandle, time::timeout};

use crate::{claim_order::MailboxUnderTest, fixture::server_url};

const CALLS: usize = 64;
/// A call that takes longer than this is regarded as blocked.
const HANG_TIMEOUT: Duration = Duration::from_secs(20);

/// Enqueues dispatches in one call. For each dispatch, the task returns its thread, or the error if it was refused.
fn enqueue(setup: &MailboxUnderTest, dispatches: Vec<NewDispatch>) -> JoinHandle<Vec<Result<ThreadId>>> {
    let mailbox = Arc::clone(&setup.mailbox);
    tokio::spawn(async move {
        let answers = mailbox.enqueue(dispatches).await.unwrap();
        answers.into_iter().map(|answer| answer.map(|queued| queued.thread)).collect()
    })
}

/// Returns the number of transactions that wrote the existing dispatches.
async fn count_transactions(setup: &MailboxUnderTest) -> i64 {
    let mut server = PgConnection::connect(&server_url()).await.unwrap();
    let count = format!("SELECT count(DISTINCT xmin::text) FROM {}.dispatch", setup.test_schema.config().schema());
    sqlx::query(AssertSqlSafe(count)).fetch_one(&mut server).await.unwrap().get(0)
}

fn thread(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

fn new_dispatch(thread_name: &str) -> NewDispatch {
    NewDispatch::new(thread(thread_name), RunId::new("r").unwrap())
}

fn dispatch_with_payload(thread_name: &str, name: &str, payload: &str) -> NewDispatch {
    new_dispatch(thread_name).with_id(name.parse().unwrap()).with_payload(Json::parse(payload).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_share_a_transaction_and_get_their_own_answers() {
    let setup = MailboxUnderTest::new().await;
    enqueue(&setup, vec![dispatch_with_payload("t", "taken", "1")]).await.unwrap().remove(0).unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|at| {
            // One dispatch of every fourth call is refused, because its id belongs to other work.
            let second_dispatch = if at % 4 == 0 {
                dispatch_with_payload("t", "taken", "2")
            } else {
                dispatch_with_payload("t", &format!("d-{at}"), "2")
            };
            enqueue(&setup, vec![new_dispatch("s"), second_dispatch])
        })
        .collect();
    for (at, call) in calls.into_iter().enumerate() {
        let answers: Vec<_> =
            call.await.unwrap().into_iter().map(|answer| answer.map_err(|error| error.kind())).collect();
        let second_answer = if at % 4 == 0 { Err(ErrorKind::AlreadyExists) } else { Ok(thread("t")) };
        assert_eq!(answers, [Ok(thread("s")), second_answer], "{at}");
    }
    let transactions = count_transactions(&setup).await;
    println!("{CALLS} calls at once took {transactions} transactions");
    assert!(transactions < CALLS as i64 / 2, "{transactions} transactions");
    let queued = setup.mailbox.count_dispatches(Some(&thread("t"))).await.unwrap().queued;
    assert_eq!(queued, CALLS as u64 * 3 / 4 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_a_thread_does_not_block_other_threads() {
    let setup = MailboxUnderTest::new().await;
    for thread_name in ["held", "free", "other"] {
        enqueue(&setup, vec![new_dispatch(thread_name)]).await.unwrap().remove(0).unwrap();
    }
    let mut other_connection = PgConnection::connect(&server_url()).await.unwrap();
    let mut locking_transaction = other_connection.begin().await.unwrap();
    let lock = format!("SELECT FROM {}.mailbox WHERE thread = 'held' FOR UPDATE", setup.test_schema.config().schema());
    sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *locking_transaction).await.unwrap();
    let waiting_calls: Vec<_> =
        (0..8).map(|_| enqueue(&setup, vec![new_dispatch("held"), new_dispatch("new")])).collect();
    let others = (0..8)
        .map(|at| enqueue(&setup, vec![new_dispatch(if at % 2 == 0 { "free" } else { "new" }), new_dispatch("other")]));
    for other in others.collect::<Vec<_>>() {
        for answer in timeout(HANG_TIMEOUT, other).await.unwrap().unwrap() {
            answer.unwrap();
        }
    }
    assert!(waiting_calls.iter().all(|call| !call.is_finished()));
    locking_transaction.rollback().await.unwrap();
    for call in waiting_calls {
        for answer in timeout(HANG_TIMEOUT, call).await.unwrap().unwrap() {
            answer.unwrap();
        }
    }
}
