//! Tests of stream sinks, and of the removal of what replay log and stream checkpoints keep.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{
    AppendReplay, Clock, Commit, ErrorKind, Expect, Limits, Message, NewEntry, NewReplay, PartialAnswer,
    PutStreamCheckpoint, Recovery, ReplayStreamRef, RunChange, RunOutcome, RunStatus, StreamCheckpoint, TenantId,
};

use super::{new_dispatch, options_without_delays, test_bed::TestBed};
use crate::{Done, Failure, Maintenance, Offered, OpenOptions, Retention, StreamSink, Work, Worker};

const INTERVAL: Duration = Duration::from_secs(1);

fn answer(text: &str) -> PartialAnswer {
    PartialAnswer::new(1).with_text(text)
}

/// A commit that starts the run `r` of the thread `t`.
fn starting_commit() -> Commit {
    let run = RunChange::new("r".parse().unwrap(), RunStatus::Running).with_agent("agent".parse().unwrap());
    let question = NewEntry::new(Message::user("Why?"));
    Commit::new("t".parse().unwrap()).expecting(Expect::Absent).entry(question).with_run(run)
}

async fn start_run_and_enqueue(bed: &TestBed) {
    let _receipt = bed.commits().commit(starting_commit()).await.unwrap();
    bed.enqueue([new_dispatch("t", "d")]).await;
}

async fn load(bed: &TestBed) -> Option<StreamCheckpoint> {
    let store = bed.stores.stream_checkpoints(&bed.tenant).unwrap();
    store.load_stream_checkpoint(&"t".parse().unwrap(), &"r".parse().unwrap()).await.unwrap()
}

/// Commits the answer, with the removal of its checkpoint.
async fn commit_answer(work: &Work, sink: &StreamSink) -> Result<(), Failure> {
    let commit = work.new_commit().with_key(work.key("answer")?).entry(NewEntry::new(Message::assistant("Because.")));
    let _receipt = work.commits()?.commit(sink.add_removal_to(commit)?).await?;
    Ok(())
}

/// Tests SC-8: however often an answer is offered, a checkpoint is put once in an interval. The commit of the answer
/// removes it. A clock that went back stops nothing.
pub(super) async fn checkpoints_are_put_at_a_bounded_rate(bed: &TestBed) {
    start_run_and_enqueue(bed).await;
    let (clock, offered) = (bed.clock(), Arc::new(Mutex::new(Vec::new())));
    let shared = Arc::clone(&offered);
    let handler = move |work: Work| {
        let (clock, shared) = (clock.clone(), Arc::clone(&shared));
        async move {
            let mut sink = work.stream_sink(1).await?.with_interval(INTERVAL);
            for number in 0..50 {
                let outcome = sink.offer(&answer(&number.to_string())).await;
                shared.lock().unwrap().push(outcome);
                if number % 10 == 8 {
                    clock.advance(INTERVAL - Duration::from_millis(1));
                } else if number % 10 == 9 {
                    clock.advance(Duration::from_millis(1));
                }
            }
            clock.set(clock.now().saturating_sub(Duration::from_secs(10)));
            let outcomes = [sink.offer(&answer("back")).await, sink.put(&answer("at once")).await];
            shared.lock().unwrap().extend(outcomes);
            Ok::<_, Failure>(Done::ack())
        }
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1);
    let offered = offered.lock().unwrap().clone();
    let expected = (0..50).map(|at| if at >= 10 && at % 10 == 0 { Offered::Stored } else { Offered::TooSoon });
    assert!(offered.iter().copied().eq(expected.chain([Offered::Stored; 2])), "{offered:?}");
    let stored = load(bed).await.unwrap();
    assert_eq!((stored.sequence, stored.answer), (6, answer("at once")));
}

/// Tests SC-8 and CM-44: the next attempt gets what the last one received of the same step, its checkpoints count as
/// later ones, and the last attempt writes none any more.
pub(super) async fn the_next_attempt_goes_on_with_what_was_received(bed: &TestBed) {
    start_run_and_enqueue(bed).await;
    let first_sink = Arc::new(Mutex::new(None));
    let shared = Arc::clone(&first_sink);
    let handler = move |work: Work| {
        let shared = Arc::clone(&shared);
        async move {
            let mut sink = work.stream_sink(1).await?;
            if work.attempt() == 1 {
                assert_eq!(sink.recovered(), None);
                assert_eq!(sink.put(&answer("The")).await, Offered::Stored);
                assert_eq!(sink.put(&answer("The capital")).await, Offered::Stored);
                *shared.lock().unwrap() = Some(sink);
                return Err(Failure::new("the stream broke"));
            }
            let received = sink.recovered().cloned().unwrap();
            assert_eq!(received.recovery(), Recovery::Continue { text: "The capital".to_owned() });
            assert_eq!(work.stream_sink(2).await?.recovered(), None);
            let late = shared.lock().unwrap().take();
            assert_eq!(late.unwrap().put(&answer("late")).await, Offered::Failed);
            assert_eq!(sink.put(&answer("The capital is")).await, Offered::Stored);
            commit_answer(&work, &sink).await?;
            Ok(Done::ack())
        }
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.acked, load(bed).await), (1, None), "{summary:?}");
}

/// Tests SC-8: an answer that comes within one interval writes no checkpoint, and its commit names none.
pub(super) async fn an_answer_within_one_interval_writes_no_checkpoint(bed: &TestBed) {
    start_run_and_enqueue(bed).await;
    let handler = async |work: Work| {
        let mut sink = work.stream_sink(1).await?;
        assert_eq!(sink.offer(&answer("Because")).await, Offered::TooSoon);
        assert_eq!(sink.add_removal_to(work.new_commit())?.documents, []);
        commit_answer(&work, &sink).await?;
        Ok::<_, Failure>(Done::ack())
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1);
    assert_eq!(load(bed).await, None);
}

/// Tests WK-9, RP-5 and SC-4: maintenance removes replay records that have expired, the checkpoints of runs that are
/// done, and old ones. A dry run counts them.
pub(super) async fn maintenance_removes_expired_records_and_unneeded_checkpoints(bed: &TestBed) {
    const DAY: Duration = Duration::from_hours(24);
    let replay = bed.stores.replay(&bed.tenant).unwrap();
    let stream = ReplayStreamRef::new("s".parse().unwrap(), "p".parse().unwrap(), "1".parse().unwrap()).unwrap();
    let record = |id: &str| NewReplay::new(id.parse().unwrap(), "delta".parse().unwrap(), "x");
    let expiring = record("a").expiring_at(bed.clock().now().saturating_add(DAY));
    replay.append_replay(AppendReplay::new(stream, [expiring, record("b")])).await.unwrap();
    let _receipt = bed.commits().commit(starting_commit()).await.unwrap();
    let checkpoints = bed.stores.stream_checkpoints(&bed.tenant).unwrap();
    for run in ["r", "unknown"] {
        let put = PutStreamCheckpoint::new("t".parse().unwrap(), run.parse().unwrap(), 1, answer("x"));
        let _outcome = checkpoints.put_stream_checkpoint(put).await.unwrap();
    }
    let maintain = async |retention: Retention, is_dry: bool| {
        let maintenance = Maintenance::new(&bed.stores, &bed.tenant).unwrap().with_retention(retention);
        let summary = if is_dry { maintenance.dry() } else { maintenance }.run_once().await.unwrap();
        (summary.replay_records, summary.stream_checkpoints)
    };
    assert_eq!(maintain(Retention::default(), false).await, (0, 0));
    let done = RunChange::new("r".parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
    let _receipt = bed.commits().commit(Commit::new("t".parse().unwrap()).with_run(done)).await.unwrap();
    let keeping = Retention { stream_checkpoints: None, ..Retention::default() };
    assert_eq!(maintain(keeping, false).await, (0, 0));
    assert_eq!(maintain(Retention::default(), true).await, (0, 1));
    assert_eq!(maintain(Retention::default(), false).await, (0, 1));
    bed.advance(DAY + Duration::from_secs(60)).await;
    assert_eq!(maintain(Retention::default(), true).await, (1, 1));
    assert_eq!(maintain(Retention::default(), false).await, (1, 1));
    assert_eq!(maintain(Retention::default(), false).await, (0, 0));
}

/// Tests SC-7 for the worker: a put that fails is reported, the answer goes on, and its commit succeeds.
#[tokio::test]
async fn a_failing_put_does_not_fail_the_commit() {
    let mut limits = Limits::default();
    limits.record_bytes = 10_000;
    let stores = OpenOptions::new().with_limits(limits).open("memory:").await.unwrap();
    let tenant = TenantId::default_tenant();
    let _receipt = stores.commits(&tenant).unwrap().commit(starting_commit()).await.unwrap();
    stores.mailbox(&tenant).unwrap().enqueue(vec![new_dispatch("t", "d")]).await.unwrap();
    let handler = async |work: Work| {
        let mut sink = work.stream_sink(1).await?;
        assert_eq!(sink.put(&answer(&"x".repeat(10_000))).await, Offered::Failed);
        assert_eq!(sink.last_error().map(store_core::Error::kind), Some(ErrorKind::LimitExceeded));
        assert!(!sink.add_removal_to(work.new_commit())?.documents.is_empty());
        commit_answer(&work, &sink).await?;
        Ok::<_, Failure>(Done::ack())
    };
    let worker = Worker::with_options(&stores, &tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1);
}
