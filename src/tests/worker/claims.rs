//! Tests of claims: a thread has at most one at a time. A claim is extended while its handler runs, and nothing can be
//! written under it once it is lost.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, mpsc as std_mpsc},
    time::Duration,
};

use store_core::{
    AppendEvents, AppendPending, DeleteRequest, ErrorKind, Expect, Interrupt, Message, NewEvent, NewInput, Scope,
    ThreadPatch,
};
use tokio::sync::{Barrier, Notify, mpsc, oneshot};

use super::{
    new_dispatch, options_without_delays, status_summary,
    test_bed::{TestBed, message_commit},
};
use crate::{CancelReason, Done, Failure, LoopHandle, Work, Worker};

const LEASE: Duration = Duration::from_millis(300);
/// The number of attempts that a worker runs at once.
const CONCURRENCY: u32 = 3;

/// The attempts that a test has observed.
#[derive(Default)]
struct AttemptCounts {
    /// For each thread, the number of attempts that run now.
    running_by_thread: BTreeMap<String, u32>,
    /// The number of attempts that have begun.
    begun: u32,
    /// The number of attempts of all threads that run now.
    running: u32,
    /// The largest value that `running` had.
    max_running: u32,
    /// The dispatches whose attempts have ended.
    ended: Vec<String>,
}

/// Tests WK-1: a worker runs several attempts at once, but never two of one thread.
pub(super) async fn each_thread_has_one_attempt_at_a_time(bed: &TestBed) {
    let work = (0..12).map(|at| new_dispatch(&format!("t-{}", at % 4), &format!("d-{at:02}")));
    bed.enqueue(work).await;
    let counts = Arc::new(Mutex::new(AttemptCounts::default()));
    let first_attempts = Arc::new(Barrier::new(CONCURRENCY as usize));
    let (shared_counts, mailbox) = (Arc::clone(&counts), bed.mailbox());
    let handler = move |work: Work| {
        let (shared_counts, mailbox) = (Arc::clone(&shared_counts), Arc::clone(&mailbox));
        let first_attempts = Arc::clone(&first_attempts);
        async move {
            let (thread, id) = (work.dispatch().thread.to_string(), work.dispatch().id.clone());
            let is_first_attempt = {
                let mut shared_counts = shared_counts.lock().unwrap();
                *shared_counts.running_by_thread.entry(thread.clone()).or_default() += 1;
                assert_eq!(shared_counts.running_by_thread[&thread], 1, "two attempts of one thread");
                shared_counts.running += 1;
                shared_counts.max_running = shared_counts.max_running.max(shared_counts.running);
                shared_counts.begun += 1;
                shared_counts.begun <= CONCURRENCY
            };
            // None of the first attempts ends before as many run as the worker may run at once.
            if is_first_attempt {
                first_attempts.wait().await;
            }
            let claim = mailbox.load_dispatch(&id).await?.unwrap().claim.unwrap();
            assert!(claim.started_at.is_some() && claim.instance.is_some(), "it was not started");
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut shared_counts = shared_counts.lock().unwrap();
            *shared_counts.running_by_thread.get_mut(&thread).unwrap() -= 1;
            shared_counts.running -= 1;
            shared_counts.ended.push(id.to_string());
            Ok::<_, Failure>(Done::ack_with_result(store_core::Json::parse("{}").unwrap()))
        }
    };
    let worker =
        Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays().with_concurrency(CONCURRENCY))
            .unwrap();
    let summary = worker.run_until_idle().await.unwrap();
    assert_eq!((summary.claimed, summary.acked), (12, 12), "{summary:?}");
    let mut counts = counts.lock().unwrap();
    assert_eq!(counts.max_running, CONCURRENCY);
    counts.ended.sort();
    assert_eq!(counts.ended, (0..12).map(|at| format!("d-{at:02}")).collect::<Vec<_>>());
}

/// Tests WK-1: more time passes than one lease, and no other worker gets the dispatch.
pub(super) async fn a_claim_is_kept_while_its_handler_runs(bed: &TestBed) {
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
        Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays().with_lease(LEASE)).unwrap();
    let running_worker = worker.start().unwrap();
    handler_started.notified().await;
    for _ in 0..3 {
        let lease = bed.load_dispatch("d").await.claim.unwrap().lease_until;
        bed.advance(LEASE / 2).await;
        bed.wait_until("d", |found| found.claim.as_ref().unwrap().lease_until > lease).await;
        assert!(bed.claim_as_other_worker(LEASE).await.is_none(), "another worker got it");
    }
    handler_may_end.notify_one();
    bed.wait_until("d", |found| found.status.is_final()).await;
    assert_eq!(running_worker.stop().await.unwrap().acked, 1);
    assert_eq!(status_summary(&bed.load_dispatch("d").await), ("acked", 0, vec!["acked"]));
}

/// Why a handler was cancelled, and the kinds of the errors with which its later writes were refused.
type LateWrites = (CancelReason, Vec<ErrorKind>);

/// Waits until the handler is cancelled, then tries every kind of write that its handles offer.
async fn try_late_writes(work: &Work) -> LateWrites {
    let reason = work.cancellation().cancelled().await;
    let (commits, thread) = (work.commits().unwrap(), work.dispatch().thread.clone());
    let event = NewEvent::new("late".parse().unwrap(), [Scope::Thread(thread.clone())]);
    let patch = ThreadPatch::default().with_title("late");
    let errors = [
        commits.commit(message_commit(&thread, "late")).await.err(),
        commits.events().append_events(AppendEvents::new([event])).await.err(),
        commits.threads().update_thread(&thread, patch, Expect::Any).await.err(),
    ];
    (reason, errors.into_iter().map(|error| error.expect("the write was not refused").kind()).collect())
}

/// Starts a worker whose handler calls `try_late_writes`. The first receiver gets the work of the handler. The
/// second one gets what `try_late_writes` returns.
fn start_late_writer(bed: &TestBed) -> (LoopHandle, mpsc::UnboundedReceiver<Work>, oneshot::Receiver<LateWrites>) {
    let (work_sender, started_work) = mpsc::unbounded_channel();
    let (sender, late_writes) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let handler = move |work: Work| {
        let (work_sender, sender) = (work_sender.clone(), Arc::clone(&sender));
        async move {
            work_sender.send(work.clone()).unwrap();
            let result = try_late_writes(&work).await;
            sender.lock().unwrap().take().unwrap().send(result).unwrap();
            Ok::<_, Failure>(Done::ack())
        }
    };
    // With one attempt at a time, the worker cannot claim the lost dispatch again.
    let options = options_without_delays().with_lease(LEASE).with_concurrency(1);
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options).unwrap();
    (worker.start().unwrap(), started_work, late_writes)
}

/// Tests WK-2: another worker claims the dispatch after its lease has expired. The handler is told, and can write
/// nothing.
pub(super) async fn a_handler_is_notified_of_a_lost_claim_and_writes_nothing(bed: &TestBed) {
    let _thread = bed.commits().commit(message_commit(&"t".parse().unwrap(), "first")).await.unwrap();
    bed.enqueue([new_dispatch("t", "d")]).await;
    let (worker, mut started_work, late_writes) = start_late_writer(bed);
    let work = started_work.recv().await.unwrap();
    let new_claim = bed.take_over_expired(LEASE).await;
    let (reason, refused) = late_writes.await.unwrap();
    assert_eq!(reason, CancelReason::Lost);
    assert!(refused.iter().all(|kind| matches!(kind, ErrorKind::ClaimLost | ErrorKind::StaleEpoch)), "{refused:?}");
    // The store itself also refuses the write if it is made through another handle.
    let kind = bed.commit_with_fence(&"t".parse().unwrap(), work.fence()).await.unwrap_err();
    assert!(matches!(kind, ErrorKind::ClaimLost | ErrorKind::StaleEpoch), "{kind:?}");
    let summary = worker.stop().await.unwrap();
    assert_eq!((summary.lost, summary.acked), (1, 0), "{summary:?}");
    assert_eq!(bed.entry_count("t").await, 1);
    let found = bed.load_dispatch("d").await;
    assert_eq!(found.claim.as_ref().map(|claim| claim.number), Some(new_claim.number));
    assert_eq!(status_summary(&found), ("claimed", 1, vec!["lease_expired"]));
}

/// Tests WK-2: the thread is interrupted. The handler is told, and can write nothing.
pub(super) async fn a_handler_is_notified_of_an_interrupt_and_writes_nothing(bed: &TestBed) {
    let _thread = bed.commits().commit(message_commit(&"t".parse().unwrap(), "first")).await.unwrap();
    bed.enqueue([new_dispatch("t", "d")]).await;
    let (worker, mut started_work, late_writes) = start_late_writer(bed);
    started_work.recv().await.unwrap();
    bed.mailbox().interrupt(Interrupt::new("t".parse().unwrap()).because("changed")).await.unwrap();
    let (reason, refused) = late_writes.await.unwrap();
    assert_eq!(reason, CancelReason::Superseded);
    assert!(refused.iter().all(|kind| matches!(kind, ErrorKind::ClaimLost | ErrorKind::StaleEpoch)), "{refused:?}");
    assert_eq!(worker.stop().await.unwrap().lost, 1);
    assert_eq!(bed.entry_count("t").await, 1);
    assert_eq!(status_summary(&bed.load_dispatch("d").await), ("superseded", 0, vec!["superseded"]));
}

/// Tests WK-6: once a later attempt has begun, writes under the earlier claim are refused.
pub(super) async fn an_earlier_attempt_writes_nothing_once_a_new_one_began(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let earlier_claim = bed.claim_as_other_worker(LEASE).await.unwrap();
    bed.commit_with_fence(&earlier_claim.dispatch.thread, earlier_claim.fence()).await.unwrap();
    bed.advance(LEASE).await;
    let (unfenced_commits, fence) = (bed.stores.commits(&bed.tenant).unwrap(), earlier_claim.fence());
    let handler = move |work: Work| {
        let (unfenced_commits, fence) = (Arc::clone(&unfenced_commits), fence.clone());
        async move {
            // This attempt has not read or written anything yet.
            let late_error = unfenced_commits
                .commit(message_commit(&work.dispatch().thread, "late").fenced(fence))
                .await
                .unwrap_err();
            assert!(matches!(late_error.kind(), ErrorKind::ClaimLost | ErrorKind::StaleEpoch), "{late_error:?}");
            let commits = work.commits()?;
            let loaded_thread = work.threads()?.load_thread(&work.dispatch().thread).await?.unwrap();
            let commit =
                work.new_commit().expecting(Expect::Version(loaded_thread.version)).with_key(work.key("answer")?);
            let receipt =
                commits.commit(commit.entry(store_core::NewEntry::new(Message::assistant("in time")))).await?;
            assert_eq!(receipt.version.number(), loaded_thread.version.number() + 1);
            Ok::<_, Failure>(Done::ack())
        }
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1, "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!(bed.entry_count("t").await, 2);
}

/// Tests WK-2: a worker whose runtime is blocked extends no claim. When it continues, another worker has done the work.
pub(super) async fn a_worker_that_hangs_writes_nothing_later(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let stores = bed.stores.clone();
    let other_handles = bed.handles_for_other_runtime().await;
    let tenant = bed.tenant.clone();
    let (hang_sender, mut hang_receiver) = mpsc::unbounded_channel();
    let (release_hung_handler, release_signal) = std_mpsc::channel::<()>();
    let hung_worker = std::thread::spawn(move || {
        let release_signal = Arc::new(Mutex::new(release_signal));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let handler = move |work: Work| {
                let (hang_sender, release_signal) = (hang_sender.clone(), Arc::clone(&release_signal));
                async move {
                    hang_sender.send(()).unwrap();
                    release_signal.lock().unwrap().recv().unwrap();
                    let late_error =
                        work.commits()?.commit(message_commit(&work.dispatch().thread, "late")).await.unwrap_err();
                    assert!(
                        matches!(late_error.kind(), ErrorKind::ClaimLost | ErrorKind::StaleEpoch),
                        "{late_error:?}"
                    );
                    Ok::<_, Failure>(Done::ack())
                }
            };
            // With a second handler the worker would look for more work. That call could lock the dispatch with the
            // expired lease, and hold the lock as long as the runtime is blocked.
            let options = options_without_delays().with_lease(LEASE).with_concurrency(1);
            let worker = Worker::with_options(&other_handles, &tenant, handler, options).unwrap();
            worker.run_until_idle().await.unwrap()
        })
    });
    hang_receiver.recv().await.unwrap();
    bed.advance(LEASE).await;
    let handler = |work: Work| async move {
        let _receipt = work.commits()?.commit(message_commit(&work.dispatch().thread, "in time")).await?;
        Ok::<_, Failure>(Done::ack())
    };
    let worker = Worker::with_options(&stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1);
    release_hung_handler.send(()).unwrap();
    let summary = tokio::task::spawn_blocking(|| hung_worker.join().unwrap()).await.unwrap();
    assert_eq!((summary.lost, summary.acked), (1, 0), "{summary:?}");
    assert_eq!(bed.entry_count("t").await, 1);
    assert_eq!(status_summary(&bed.load_dispatch("d").await), ("acked", 1, vec!["lease_expired", "acked"]));
}

/// Tests WK-2: the handles of an attempt refuse every write that cannot carry its claim.
pub(super) async fn a_write_that_cannot_carry_the_claim_is_refused(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let handler = |work: Work| async move {
        let (commits, other_thread) = (work.commits()?, "u".parse()?);
        let event = |thread| NewEvent::new("e".parse().unwrap(), [Scope::Thread(thread)]);
        let input = AppendPending::new("t".parse()?, [NewInput::message(Message::user("hi"))]);
        let errors = [
            commits.commit(message_commit(&other_thread, "elsewhere")).await.err(),
            commits.events().append_events(AppendEvents::new([event(other_thread.clone())])).await.err(),
            commits.threads().update_thread(&other_thread, ThreadPatch::default(), Expect::Any).await.err(),
            commits.threads().delete_thread(&other_thread, DeleteRequest::default()).await.err(),
            commits.pending().append_pending(input).await.err(),
        ];
        let kinds: Vec<_> = errors.into_iter().map(|error| error.unwrap().kind()).collect();
        let (invalid, unsupported) = (ErrorKind::Invalid, ErrorKind::Unsupported);
        assert_eq!(kinds, [invalid, invalid, invalid, unsupported, unsupported]);
        let _receipt = commits.commit(message_commit(&work.dispatch().thread, "here")).await?;
        let _events = commits.events().append_events(AppendEvents::new([event("t".parse()?)])).await?;
        let patch = ThreadPatch::default().with_title("here");
        let _thread = commits.threads().update_thread(&"t".parse()?, patch, Expect::Any).await?;
        Ok::<_, Failure>(Done::ack())
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1, "{:?}", bed.load_dispatch("d").await.last_error);
    assert_eq!((bed.entry_count("t").await, bed.entry_count("u").await), (1, 0));
}

/// Tests WK-2: a task that a handler left running is told that the attempt has ended, and writes nothing more.
pub(super) async fn a_task_left_running_by_a_handler_writes_nothing(bed: &TestBed) {
    bed.enqueue([new_dispatch("t", "d")]).await;
    let (sender, late_writes) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let handler = move |work: Work| {
        let sender = sender.lock().unwrap().take().unwrap();
        async move {
            let _receipt = work.commits()?.commit(message_commit(&work.dispatch().thread, "in time")).await?;
            tokio::spawn(async move { sender.send(try_late_writes(&work).await).unwrap() });
            Ok::<_, Failure>(Done::ack())
        }
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    assert_eq!(worker.run_until_idle().await.unwrap().acked, 1);
    let (reason, refused) = late_writes.await.unwrap();
    assert_eq!((reason, refused), (CancelReason::Ended, vec![ErrorKind::ClaimLost; 3]));
    assert_eq!(bed.entry_count("t").await, 1);
}
