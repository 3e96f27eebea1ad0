//! One attempt, from its claim to its settlement.

use std::{any::Any, sync::Arc};

use store_core::{Error, ErrorKind, Settlement};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::{JoinError, JoinHandle},
    time::{Instant, sleep_until},
};
use tracing::Instrument;

use super::{
    JobSource, LoopState,
    ending::{self, AttemptOutcome},
    heartbeat::heartbeat,
    is_temporary,
};
use crate::worker::{CancelReason, Cancellation, Done, Failure, Verdict};

/// How the task of a handler ended.
pub(super) enum HandlerOutcome {
    /// The handler returned this answer.
    Answer(Result<Done, Failure>),
    /// The handler panicked with this message.
    Panic(String),
    /// The handler did not end, and was aborted.
    Aborted,
}

/// Runs one attempt. Whatever happens in the attempt, the loop continues.
pub(super) async fn run<S: JobSource>(loop_state: Arc<LoopState<S>>, job: S::Job, permit: OwnedSemaphorePermit) {
    let span = loop_state.source.telemetry().span();
    run_and_settle(&loop_state, job, permit).instrument(span).await;
    loop_state.attempt_ended.notify_one();
}

async fn run_and_settle<S: JobSource>(loop_state: &Arc<LoopState<S>>, job: S::Job, permit: OwnedSemaphorePermit) {
    let cancellation = Cancellation::default();
    let started_at = Instant::now();
    // The permit is held until the job is settled, so that the loop does not count as idle before that.
    let mut held_permit = Some(permit);
    let handler_outcome = match prepare_with_retries(loop_state, &job).await {
        Ok(()) => handle(loop_state, &job, &cancellation, &mut held_permit).await,
        // An error that names a part comes from taking over the thread, and does not mean that this claim is lost.
        Err(error) => match error.kind() {
            ErrorKind::ClaimLost if error.part().is_none() => {
                let _outcome = ending::count_lost_claim(loop_state, CancelReason::Lost);
                return;
            }
            ErrorKind::StaleEpoch if error.part().is_none() => {
                let _outcome = ending::count_lost_claim(loop_state, CancelReason::Superseded);
                return;
            }
            // The store is unavailable. This is not a failure of the work, so it must not use up an attempt.
            _ if error.is_retryable() => {
                let snooze = Verdict::Snooze(loop_state.options.idle);
                HandlerOutcome::Answer(Err(Failure::new(error).with_verdict(snooze)))
            }
            _ => HandlerOutcome::Answer(Err(Failure::new(error))),
        },
    };
    let run_time = started_at.elapsed();
    let (cancel_reason, settling_commit) = (cancellation.reason(), cancellation.settling_commit());
    let attempt_outcome = AttemptOutcome { handler_outcome, cancel_reason, settling_commit };
    // From here on, writes of tasks that the handler left running are refused. If threads and mailbox are in two
    // stores, the store of the threads would otherwise accept them until a later claim takes the thread over.
    cancellation.end();
    let outcome = ending::end_attempt(loop_state, &job, attempt_outcome).await;
    loop_state.source.telemetry().record_end(outcome, run_time);
    drop(held_permit);
}

/// Prepares the attempt. After a temporary error this is repeated for at most a third of the lease, because then the
/// claim has to be extended.
async fn prepare_with_retries<S: JobSource>(loop_state: &LoopState<S>, job: &S::Job) -> Result<(), Error> {
    let retry_until = Instant::now() + loop_state.options.lease / 3;
    let mut failures = 0;
    loop {
        let Err(error) = loop_state.source.prepare_attempt(job).await else { return Ok(()) };
        failures += 1;
        let retry_at = Instant::now() + loop_state.options.backoff.delay(failures);
        if !is_temporary(&error) || error.kind() == ErrorKind::Corrupt || retry_at > retry_until {
            return Err(error);
        }
        sleep_until(retry_at).await;
    }
}

/// The task of a handler. A panic ends only this task. Dropping this value aborts the task.
struct HandlerTask {
    handle: Option<JoinHandle<Result<Done, Failure>>>,
}

impl Drop for HandlerTask {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

/// Runs the handler, and extends the claim in the meantime.
async fn handle<S: JobSource>(
    loop_state: &Arc<LoopState<S>>,
    job: &S::Job,
    cancellation: &Cancellation,
    held_permit: &mut Option<OwnedSemaphorePermit>,
) -> HandlerOutcome {
    let work = {
        let (loop_state, job, cancellation) = (Arc::clone(loop_state), job.clone(), cancellation.clone());
        async move { loop_state.source.handle(&job, &cancellation).await }
    };
    let mut task = HandlerTask { handle: Some(tokio::spawn(work.in_current_span())) };
    let outcome = supervise(loop_state, job, cancellation, &mut task).await;
    // A handler that reaches no `await` cannot be aborted. Its permit is held until it ends.
    if let (HandlerOutcome::Aborted, Some(handle)) = (&outcome, task.handle.take()) {
        handle.abort();
        let held_permit = held_permit.take();
        tokio::spawn(async move {
            let _ended = handle.await;
            drop(held_permit);
        });
    }
    outcome
}

/// Waits until the handler has ended. The handler is told to stop when its claim is lost, when its deadline has passed,
/// or when the worker aborts its attempts. If it has not ended after the grace period, this function stops waiting for
/// it.
async fn supervise<S: JobSource>(
    loop_state: &LoopState<S>,
    job: &S::Job,
    cancellation: &Cancellation,
    task: &mut HandlerTask,
) -> HandlerOutcome {
    let Some(handler) = task.handle.as_mut() else { return HandlerOutcome::Aborted };
    let options = &loop_state.options;
    let claim_loss = heartbeat(loop_state, job, cancellation);
    tokio::pin!(claim_loss);
    // A time far in the future replaces a limit that is not set.
    let far_future = Instant::now() + std::time::Duration::from_hours(24 * 365);
    let deadline = options.deadline.map_or(far_future, |deadline| Instant::now() + deadline);
    let (mut heartbeat_runs, mut abort_at) = (true, None);
    loop {
        let is_cancelled_already = cancellation.is_cancelled();
        let reason = tokio::select! {
            biased;
            task_result = &mut *handler => return outcome_of_task(task_result),
            reason = &mut claim_loss, if heartbeat_runs => {
                heartbeat_runs = false;
                reason
            }
            () = sleep_until(abort_at.unwrap_or(far_future)), if abort_at.is_some() => return HandlerOutcome::Aborted,
            () = sleep_until(deadline), if !is_cancelled_already && options.deadline.is_some() => CancelReason::Deadline,
            () = loop_state.aborting_attempts.cancelled(), if !is_cancelled_already => CancelReason::Stopping,
        };
        cancellation.cancel(reason);
        abort_at = abort_at.or(Some(Instant::now() + options.grace));
    }
}

fn outcome_of_task(task_result: Result<Result<Done, Failure>, JoinError>) -> HandlerOutcome {
    match task_result {
        Ok(answer) => HandlerOutcome::Answer(answer),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => HandlerOutcome::Panic(panic_message(&*panic)),
            // The runtime is shutting down.
            Err(_) => HandlerOutcome::Aborted,
        },
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Releases a job that was claimed after the loop had been asked to stop. This happens if the claim was already in
/// progress.
pub(super) async fn release<S: JobSource>(loop_state: Arc<LoopState<S>>, job: S::Job) {
    let _outcome = ending::settle(&loop_state, &job, Settlement::Release).await;
}
