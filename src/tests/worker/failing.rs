//! Tests of dispatches whose work failed.

use std::{
    error::Error as StdError,
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{DispatchStatus, ErrorKind};

use super::{new_dispatch, options_without_delays, status_summary, test_bed::TestBed};
use crate::{Backoff, CancelReason, Done, Failure, Policy, Verdict, Work, WorkSummary, Worker, WorkerOptions};

async fn run_until_idle(bed: &TestBed, options: WorkerOptions, handler: impl crate::Handler) -> WorkSummary {
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options).unwrap();
    worker.run_until_idle().await.unwrap()
}

/// Tests WK-3: a dispatch that fails is retried until it has used up its attempts, and becomes a dead letter.
pub(super) async fn failures_are_tried_again_and_then_given_up(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d").with_max_attempts(3)]).await;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let shared_attempts = Arc::clone(&attempts);
    let handler = move |work: Work| {
        shared_attempts.lock().unwrap().push(work.attempt());
        async { Err::<Done, _>(Failure::new("no network")) }
    };
    let summary = run_until_idle(bed, options_without_delays(), handler).await;
    assert_eq!((summary.claimed, summary.retried, summary.dead_lettered), (3, 2, 1), "{summary:?}");
    assert_eq!(*attempts.lock().unwrap(), [1, 2, 3]);
    let found = bed.load_dispatch("d").await;
    assert_eq!(status_summary(&found), ("dead_letter", 3, vec!["retried", "retried", "retried"]));
    assert_eq!(found.last_error.as_deref(), Some("no network"));
}

/// Tests WK-3: after a panic the dispatch is retried. The message of the panic is its last error.
pub(super) async fn a_panic_is_a_failure(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("u", "e")]).await;
    let handler = |work: Work| async move {
        assert!(work.dispatch().id.as_str() != "d" || work.attempt() > 1, "the first attempt panics");
        Ok::<_, Failure>(Done::ack())
    };
    let summary = run_until_idle(bed, options_without_delays(), handler).await;
    assert_eq!((summary.acked, summary.retried), (2, 1), "{summary:?}");
    let found = bed.load_dispatch("d").await;
    assert_eq!(status_summary(&found), ("acked", 1, vec!["retried", "acked"]));
    assert_eq!(found.last_error.as_deref(), Some("panicked: the first attempt panics"));
}

/// Tests WK-3: the delay is measured in store time, and its length depends on the number of failures.
pub(super) async fn retry_delays_grow_and_use_store_time(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let backoff = Backoff::new(Duration::from_secs(100), Duration::from_secs(300));
    for max_delay_seconds in [100, 200, 300, 300] {
        let options = WorkerOptions::default().with_backoff(backoff);
        let handler = |_: Work| async { Err::<Done, _>(Failure::new("again")) };
        let expected_attempts = bed.load_dispatch("d").await.attempts + 1;
        let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options).unwrap().start().unwrap();
        let found = bed.wait_until("d", |found| found.attempts == expected_attempts).await;
        assert_eq!(worker.stop().await.unwrap().retried, 1);
        let delay = found.available_at.as_millis() - found.updated_at.as_millis();
        assert!(
            (max_delay_seconds * 500..=max_delay_seconds * 1_000).contains(&delay),
            "{delay} of {max_delay_seconds}"
        );
        bed.advance(Duration::from_secs(max_delay_seconds)).await;
    }
}

/// Tests WK-3: the verdict of a failure, or what a handler returns, decides how the dispatch is settled.
pub(super) async fn a_failure_decides_how_its_dispatch_is_settled(bed: &TestBed) {
    let kinds = ["later", "snooze", "dead", "cancel", "put-off", "give-back", "refuse"];
    bed.enqueue(kinds.map(|kind| new_dispatch(kind, kind).with_max_attempts(2))).await;
    let one_minute = Duration::from_secs(60);
    let handler = move |work: Work| async move {
        let failure = |verdict| Err(Failure::new("why").with_verdict(verdict));
        match work.dispatch().id.as_str() {
            "later" => failure(Verdict::RetryAfter(one_minute)),
            "snooze" => failure(Verdict::Snooze(one_minute)),
            "dead" => Err(Failure::permanent("why")),
            "cancel" => failure(Verdict::Cancel),
            "put-off" => Ok(Done::Snooze { after: one_minute }),
            "refuse" => Ok(Done::Cancel { reason: "why".to_owned() }),
            // A released dispatch is claimed again at once. One release is enough.
            _ if work.claim_number().counter > 1 => Ok(Done::ack()),
            _ => Ok(Done::Release),
        }
    };
    let worker =
        Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap().start().unwrap();
    for kind in kinds {
        bed.wait_until(kind, |found| found.status != DispatchStatus::Claimed && !found.history.is_empty()).await;
    }
    bed.wait_until("give-back", |found| found.status == DispatchStatus::Acked).await;
    let summary = worker.stop().await.unwrap();
    assert_eq!((summary.snoozed, summary.released, summary.retried), (2, 1, 1), "{summary:?}");
    let expected = [
        ("queued", 1, vec!["retried"]),
        ("queued", 0, vec!["snoozed"]),
        ("dead_letter", 0, vec!["dead_lettered"]),
        ("cancelled", 0, vec!["cancelled"]),
        ("queued", 0, vec!["snoozed"]),
        ("acked", 0, vec!["released", "acked"]),
        ("cancelled", 0, vec!["cancelled"]),
    ];
    for (kind, expected) in kinds.iter().zip(expected) {
        assert_eq!(status_summary(&bed.load_dispatch(kind).await), expected, "{kind}");
    }
    let found = bed.load_dispatch("later").await;
    assert_eq!(found.available_at.as_millis() - found.updated_at.as_millis(), 60_000);
    assert_eq!(bed.load_dispatch("cancel").await.reason.as_deref(), Some("why"));
}

/// Makes a dead letter after `NotFound`. After other errors, retries once and then cancels.
#[derive(Debug)]
struct DeadLetterIfNotFound;

impl Policy for DeadLetterIfNotFound {
    fn judge(&self, error: &(dyn StdError + Send + Sync + 'static), attempt: u32) -> Verdict {
        match error.downcast_ref::<store_core::Error>().map(store_core::Error::kind) {
            Some(ErrorKind::NotFound) => Verdict::DeadLetter,
            _ if attempt > 1 => Verdict::Cancel,
            _ => Verdict::Retry,
        }
    }
}

/// Tests WK-3: if a failure has no verdict, the policy gives it one.
pub(super) async fn a_policy_judges_errors(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("u", "e")]).await;
    let handler = |work: Work| async move {
        if work.dispatch().id.as_str() == "d" {
            Err(store_core::Error::not_found("thread", "x"))?;
        }
        Err::<Done, _>(Failure::new("flaky"))
    };
    let summary = run_until_idle(bed, options_without_delays().with_policy(DeadLetterIfNotFound), handler).await;
    assert_eq!((summary.dead_lettered, summary.retried, summary.cancelled), (1, 1, 1), "{summary:?}");
    assert_eq!(bed.load_dispatch("d").await.last_error.as_deref(), Some("thread `x` does not exist"));
    assert_eq!(bed.load_dispatch("e").await.reason.as_deref(), Some("flaky"));
}

/// Tests WK-2 and WK-3: a handler that takes too long is told to stop, and aborted if it does not.
pub(super) async fn an_attempt_has_a_deadline(bed: &TestBed) {
    bed.enqueue(["listens", "sleeps"].map(|kind| new_dispatch(kind, kind).with_max_attempts(1))).await;
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let shared_reasons = Arc::clone(&reasons);
    let handler = move |work: Work| {
        let shared_reasons = Arc::clone(&shared_reasons);
        async move {
            if work.dispatch().id.as_str() == "sleeps" {
                std::future::pending::<()>().await;
            }
            let reason = work.cancellation().cancelled().await;
            shared_reasons.lock().unwrap().push(reason);
            Err::<Done, _>(Failure::new("stopped"))
        }
    };
    let options =
        options_without_delays().with_deadline(Duration::from_millis(20)).with_grace(Duration::from_millis(20));
    assert_eq!(run_until_idle(bed, options, handler).await.dead_lettered, 2);
    assert_eq!(*reasons.lock().unwrap(), [CancelReason::Deadline]);
    for kind in ["listens", "sleeps"] {
        let found = bed.load_dispatch(kind).await;
        assert_eq!(found.last_error.as_deref(), Some("it ran longer than its deadline"));
    }
}
