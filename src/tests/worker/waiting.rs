//! Tests of how a worker finds new work.

use std::time::Duration;

use store_core::DispatchStatus;

use super::{faulty_store::FaultyStore, new_dispatch, options_without_delays, test_bed::TestBed};
use crate::{Done, Failure, Stores, Work, Worker, WorkerOptions};

async fn expect_new_work_is_found(bed: &TestBed, stores: &Stores) {
    let handler = |_: Work| async { Ok::<_, Failure>(Done::ack()) };
    let worker =
        Worker::with_options(stores, &bed.tenant, handler, options_without_delays().with_concurrency(2)).unwrap();
    let worker = worker.start().unwrap();
    // New work comes while the worker waits: pairs of dispatches of one thread, then a dispatch that is due later.
    for at in 0..3 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        bed.enqueue([new_dispatch("t", &format!("d-{at}")), new_dispatch("t", &format!("e-{at}"))]).await;
    }
    let dispatch_due_later = new_dispatch("u", "later").available(store_core::When::In(Duration::from_secs(60)));
    bed.enqueue([dispatch_due_later]).await;
    bed.wait_until("e-2", |found| found.status == DispatchStatus::Acked).await;
    assert_eq!(bed.load_dispatch("later").await.status, DispatchStatus::Queued);
    bed.advance(Duration::from_secs(60)).await;
    bed.wait_until("later", |found| found.status == DispatchStatus::Acked).await;
    assert_eq!(worker.stop().await.unwrap().acked, 7);
}

/// Tests WK-5: a worker waits for wake-ups, and finds new work and work that becomes due.
pub(super) async fn new_work_is_found_by_waiting(bed: &TestBed) {
    assert!(bed.stores.tenant(&bed.tenant).unwrap().wake_ups().is_some());
    expect_new_work_is_found(bed, &bed.stores).await;
}

/// Tests WK-5: if the store has no wake-ups, a worker finds new work and work that becomes due by repeating its claims.
pub(super) async fn new_work_is_found_by_polling(bed: &TestBed) {
    expect_new_work_is_found(bed, &FaultyStore::without_wake_ups(bed)).await;
}

/// Tests WK-5: a worker is idle only when every dispatch that failed in it has been tried again. It does not wait for
/// snoozed dispatches.
pub(super) async fn failed_work_is_retried_before_a_worker_is_idle(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("u", "off")]).await;
    let backoff = crate::Backoff::new(Duration::from_millis(40), Duration::from_millis(40));
    let handler = |work: Work| async move {
        match work.dispatch().id.as_str() {
            "off" => Ok(Done::Snooze { after: Duration::from_hours(1) }),
            _ if work.attempt() < 3 => Err(Failure::new("again")),
            _ => Ok(Done::ack()),
        }
    };
    let worker =
        Worker::with_options(&bed.stores, &bed.tenant, handler, WorkerOptions::default().with_backoff(backoff));
    let worker_task = tokio::spawn(worker.unwrap().run_until_idle());
    // Store time stands still, so the test advances it until the retry is due.
    for failures in 1..3 {
        bed.wait_until("d", |found| found.attempts == failures && found.status == DispatchStatus::Queued).await;
        bed.advance(Duration::from_millis(40)).await;
    }
    let summary = worker_task.await.unwrap().unwrap();
    assert_eq!((summary.acked, summary.retried, summary.snoozed), (1, 2, 1), "{summary:?}");
}
