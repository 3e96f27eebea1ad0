//! Tests of workers whose calls lose their answers, or whose store is unavailable.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{Clock, DispatchStatus, ErrorKind, Purge, Settlement, SystemClock};
use tokio::sync::mpsc;

use super::{
    faulty_store::{Fault, Faults, FaultyStore},
    new_dispatch, options_without_delays, status_summary,
    test_bed::{TestBed, message_commit},
};
use crate::{CancelReason, Done, Failure, Work, Worker};

fn inject(faults: &Mutex<VecDeque<Fault>>, next_faults: impl IntoIterator<Item = Fault>) {
    faults.lock().unwrap().extend(next_faults);
}

/// Tests WK-3 and MB-44: a settlement is repeated until its answer is known, and has one effect.
pub(super) async fn a_settlement_without_an_answer_is_repeated(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("u", "e")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.settle, [Fault::LostAnswer, Fault::LostCall, Fault::Unavailable]);
    let handler = |work: Work| async move {
        let fails = work.dispatch().id.as_str() == "e" && work.attempt() == 1;
        if fails { Err(Failure::new("once")) } else { Ok(Done::ack()) }
    };
    let stores = FaultyStore::with_faults(bed, &faults);
    let worker = Worker::with_options(&stores, &bed.tenant, handler, options_without_delays()).unwrap();
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried, summary.lost, summary.unknown), (2, 1, 0, 0), "{summary:?}");
    assert_eq!(status_summary(&bed.load_dispatch("d").await), ("acked", 0, vec!["acked"]));
    assert_eq!(status_summary(&bed.load_dispatch("e").await), ("acked", 1, vec!["retried", "acked"]));
    assert!(faults.settle.lock().unwrap().is_empty());
}

/// Tests WK-3: if a worker cannot find out whether a settlement took effect, it reports the outcome as unknown.
pub(super) async fn an_undeterminable_settlement_is_reported_as_unknown(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.settle, [Fault::LostAnswer]);
    // These faults delay the repeated call until the dispatch has been purged.
    inject(&faults.settle, std::iter::repeat_n(Fault::Unavailable, 8));
    let stores = FaultyStore::with_faults(bed, &faults);
    let handler = |_: Work| async { Ok::<_, Failure>(Done::ack()) };
    let worker =
        Worker::with_options(&stores, &bed.tenant, handler, options_without_delays()).unwrap().start().unwrap();
    bed.wait_until("d", |found| found.status == DispatchStatus::Acked).await;
    let one_hour_later = SystemClock.now().saturating_add(Duration::from_hours(1));
    assert_eq!(bed.mailbox().purge(Purge::new(one_hour_later)).await.unwrap().removed, 1);
    let summary = worker.stop().await.unwrap();
    assert_eq!((summary.claimed, summary.acked, summary.lost, summary.unknown), (1, 0, 0, 1), "{summary:?}");
}

/// Tests WK-3 and CM-33: the commit that settles the claim gets no answer. The worker finds out whether the commit took
/// effect, and the work is done again only if it did not.
pub(super) async fn the_outcome_of_a_settling_commit_without_an_answer_is_resolved(bed: &TestBed) {
    if !bed.stores.capabilities().fenced {
        // With two stores there is no such commit: see `a_commit_can_settle_its_attempt_only_within_one_store`.
        return;
    }
    bed.enqueue([new_dispatch("t", "applied"), new_dispatch("u", "lost")]).await;
    let faults = Arc::new(Faults::default());
    let (handler_faults, stores) = (Arc::clone(&faults), FaultyStore::with_faults(bed, &faults));
    let handler = move |work: Work| {
        let faults = Arc::clone(&handler_faults);
        async move {
            let is_applied = work.dispatch().id.as_str() == "applied";
            if is_applied || work.attempt() == 1 {
                inject(&faults.commit, [if is_applied { Fault::LostAnswer } else { Fault::LostCall }]);
            }
            let commit = message_commit(&work.dispatch().thread, "answer").settling(Settlement::Ack { result: None });
            let _receipt = work.commits()?.commit(commit).await?;
            Ok::<_, Failure>(Done::Committed)
        }
    };
    let worker =
        Worker::with_options(&stores, &bed.tenant, handler, options_without_delays().with_concurrency(1)).unwrap();
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried, summary.unknown), (2, 1, 0), "{summary:?}");
    assert_eq!((bed.entry_count("t").await, bed.entry_count("u").await), (1, 1));
    assert_eq!(status_summary(&bed.load_dispatch("applied").await), ("acked", 0, vec!["acked"]));
    assert_eq!(status_summary(&bed.load_dispatch("lost").await), ("acked", 1, vec!["retried", "acked"]));
}

/// Tests WK-2: a handler is told when its claim may be lost. Its settlement is valid if the claim was not lost.
pub(super) async fn a_handler_is_notified_of_an_unconfirmed_extension(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.extend, std::iter::repeat_n(Fault::Unavailable, 1_000));
    let (sender, mut reasons) = mpsc::unbounded_channel();
    let handler = move |work: Work| {
        let sender = sender.clone();
        async move {
            sender.send(work.cancellation().cancelled().await).unwrap();
            Ok::<_, Failure>(Done::ack())
        }
    };
    let stores = FaultyStore::with_faults(bed, &faults);
    let options = options_without_delays().with_lease(Duration::from_millis(60));
    let worker = Worker::with_options(&stores, &bed.tenant, handler, options).unwrap().start().unwrap();
    assert_eq!(reasons.recv().await, Some(CancelReason::Unconfirmed));
    bed.wait_until("d", |found| found.status == DispatchStatus::Acked).await;
    assert_eq!(worker.stop().await.unwrap().acked, 1);
}

/// Tests WK-11: after an error that waiting does not resolve, a worker repeats the call for a while, and then ends.
pub(super) async fn a_persistent_error_ends_a_worker(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.claim, [Fault::Corrupt, Fault::Corrupt]);
    let handler = |_: Work| async { Ok::<_, Failure>(Done::ack()) };
    let stores = FaultyStore::with_faults(bed, &faults);
    let patient_options = options_without_delays().with_patience(Duration::from_secs(60));
    let summary =
        Worker::with_options(&stores, &bed.tenant, handler, patient_options).unwrap().run_until_idle().await.unwrap();
    assert_eq!(summary.acked, 1);
    inject(&faults.claim, [Fault::Corrupt; 1_000]);
    let impatient_options = options_without_delays().with_patience(Duration::from_millis(5));
    let worker = Worker::with_options(&stores, &bed.tenant, handler, impatient_options).unwrap();
    assert_eq!(worker.start().unwrap().join().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Tests WK-5 and WK-11: if a read fails while a worker checks whether it is idle, the worker repeats the read.
pub(super) async fn a_failed_idle_check_is_tried_again(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.load, [Fault::Unavailable, Fault::Corrupt, Fault::LostCall]);
    let handler =
        |work: Work| async move { if work.attempt() == 1 { Err(Failure::new("once")) } else { Ok(Done::ack()) } };
    let stores = FaultyStore::with_faults(bed, &faults);
    let worker = Worker::with_options(&stores, &bed.tenant, handler, options_without_delays()).unwrap();
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried), (1, 1), "{summary:?}");
    assert!(faults.load.lock().unwrap().is_empty());
}

/// Tests WK-5: an unavailable store does not end a worker, but a closed store does.
pub(super) async fn a_worker_waits_for_an_unavailable_store(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let faults = Arc::new(Faults::default());
    inject(&faults.claim, [Fault::Unavailable, Fault::LostCall, Fault::Unavailable]);
    let handler = |_: Work| async { Ok::<_, Failure>(Done::ack()) };
    let stores = FaultyStore::with_faults(bed, &faults);
    let worker =
        Worker::with_options(&stores, &bed.tenant, handler, options_without_delays()).unwrap().start().unwrap();
    bed.wait_until("d", |found| found.status == DispatchStatus::Acked).await;
    let other_handles = bed.handles_for_other_runtime().await;
    bed.stores.close().await.unwrap();
    assert_eq!(worker.join().await.unwrap_err().kind(), ErrorKind::Closed);
    drop(other_handles);
}
