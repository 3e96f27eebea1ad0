//! Tests of workers that stop.

use std::{sync::Arc, time::Duration};

use store_core::DispatchStatus;
use tokio::sync::{Notify, mpsc};

use super::{new_dispatch, options_without_delays, status_summary, test_bed::TestBed};
use crate::{CancelReason, Done, Failure, Work, Worker};

/// Tests WK-4: a worker that is asked to stop claims nothing more, and lets its handler finish.
pub(super) async fn handlers_finish_when_a_worker_stops(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("t", "after")]).await;
    let (handler_started, handler_may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started_signal, may_end_signal) = (Arc::clone(&handler_started), Arc::clone(&handler_may_end));
    let handler = move |_: Work| {
        let (started_signal, may_end_signal) = (Arc::clone(&started_signal), Arc::clone(&may_end_signal));
        async move {
            started_signal.notify_one();
            may_end_signal.notified().await;
            Ok::<_, Failure>(Done::ack())
        }
    };
    let worker =
        Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap().start().unwrap();
    handler_started.notified().await;
    worker.ask_to_stop();
    handler_may_end.notify_one();
    let summary = worker.stop().await.unwrap();
    // A claim that was in progress when the worker was asked to stop is released.
    assert_eq!((summary.claimed - summary.released, summary.acked), (1, 1), "{summary:?}");
    let second_dispatch = bed.load_dispatch("after").await;
    assert_eq!((second_dispatch.status, second_dispatch.attempts), (DispatchStatus::Queued, 0));
}

/// Tests WK-4. After the stop deadline, running handlers are told to stop. A handler that does not stop is aborted.
/// Neither attempt counts as a failure.
pub(super) async fn the_dispatch_of_a_handler_that_does_not_stop_is_released(bed: &TestBed) {
    bed.enqueue(["listens", "sleeps"].map(|kind| new_dispatch(kind, kind))).await;
    let (sender, mut messages) = mpsc::unbounded_channel();
    let handler = move |work: Work| {
        let sender = sender.clone();
        async move {
            // `None` says that the handler has begun.
            sender.send(None).unwrap();
            if work.dispatch().id.as_str() == "sleeps" {
                std::future::pending::<()>().await;
            }
            sender.send(Some(work.cancellation().cancelled().await)).unwrap();
            Err::<Done, _>(Failure::new("stopped"))
        }
    };
    let options =
        options_without_delays().with_stop_deadline(Duration::from_millis(20)).with_grace(Duration::from_millis(20));
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options).unwrap().start().unwrap();
    assert_eq!((messages.recv().await, messages.recv().await), (Some(None), Some(None)));
    let summary = worker.stop().await.unwrap();
    assert_eq!((summary.claimed, summary.released, summary.retried), (2, 2, 0), "{summary:?}");
    assert_eq!(messages.recv().await, Some(Some(CancelReason::Stopping)));
    for kind in ["listens", "sleeps"] {
        assert_eq!(status_summary(&bed.load_dispatch(kind).await), ("queued", 0, vec!["released"]), "{kind}");
    }
}

/// Tests WK-4: after its handle is dropped, a worker claims nothing more, and lets its handler finish.
pub(super) async fn a_worker_that_is_dropped_stops_claiming(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let (handler_started, handler_may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started_signal, may_end_signal) = (Arc::clone(&handler_started), Arc::clone(&handler_may_end));
    let handler = move |_: Work| {
        let (started_signal, may_end_signal) = (Arc::clone(&started_signal), Arc::clone(&may_end_signal));
        async move {
            started_signal.notify_one();
            may_end_signal.notified().await;
            Ok::<_, Failure>(Done::ack())
        }
    };
    let worker =
        Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap().start().unwrap();
    handler_started.notified().await;
    drop(worker);
    bed.enqueue([new_dispatch("t", "after")]).await;
    handler_may_end.notify_one();
    bed.wait_until("d", |found| found.status == DispatchStatus::Acked).await;
    // A claim that was in progress may have taken this dispatch, but then the worker has released it.
    bed.wait_until("after", |found| found.status == DispatchStatus::Queued && found.attempts == 0).await;
}
