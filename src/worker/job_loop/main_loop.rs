//! The main loop: claims jobs and runs their attempts. The options limit how many attempts run at the same time.

use std::{sync::Arc, time::Duration};

use store_core::{Error, Result, WaitResult};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{JobSource, LoopState, attempt, claim_failures::ClaimFailures, is_temporary};
use crate::{backoff::jittered, worker::WorkSummary};

/// The first delay of a worker that found nothing.
const MIN_IDLE_DELAY: Duration = Duration::from_millis(10);

/// Claims and runs jobs until the loop is stopped. If `ends_when_idle` is set, the loop also ends when there is nothing
/// to do.
pub(super) async fn run<S: JobSource>(loop_state: Arc<LoopState<S>>) -> Result<WorkSummary> {
    let semaphore = Arc::new(Semaphore::new(loop_state.options.concurrency as usize));
    let mut attempts = JoinSet::new();
    let claim_result = claim_loop(&loop_state, &semaphore, &mut attempts).await;
    loop_state.stopping.cancel();
    let all_ended = async { while attempts.join_next().await.is_some() {} };
    let ended_in_time = async {
        tokio::select! {
            () = all_ended => true,
            () = loop_state.aborting_attempts.cancelled() => false,
        }
    };
    if !timeout(loop_state.options.stop_deadline, ended_in_time).await.unwrap_or(false) {
        loop_state.aborting_attempts.cancel();
        while attempts.join_next().await.is_some() {}
    }
    claim_result.map(|()| loop_state.summary())
}

async fn claim_loop<S: JobSource>(
    loop_state: &Arc<LoopState<S>>,
    semaphore: &Arc<Semaphore>,
    attempts: &mut JoinSet<()>,
) -> Result<()> {
    let (mut empty_claims, mut failures) = (0, ClaimFailures::default());
    while let Some(permits) = acquire_permits(loop_state, semaphore).await {
        while attempts.try_join_next().is_some() {}
        // A claim in progress is never dropped: the dispatches that it takes would wait until their leases expire.
        match loop_state.source.claim(u32::try_from(permits.len()).unwrap_or(u32::MAX)).await {
            Ok(jobs) if jobs.is_empty() => {
                let nothing_runs = permits.len() == loop_state.options.concurrency as usize;
                drop(permits);
                if loop_state.ends_when_idle && nothing_runs {
                    match loop_state.has_jobs_waiting_for_retry().await {
                        Ok(true) => {}
                        Ok(false) => return Ok(()),
                        Err(error) => {
                            wait_after_failure(loop_state, &mut failures, error).await?;
                            continue;
                        }
                    }
                }
                failures.clear();
                empty_claims += 1;
                wait_for_work(loop_state, &mut empty_claims).await?;
            }
            Ok(jobs) => {
                empty_claims = 0;
                failures.clear();
                spawn_attempts(loop_state, jobs, permits, attempts);
            }
            Err(error) => {
                drop(permits);
                wait_after_failure(loop_state, &mut failures, error).await?;
            }
        }
    }
    Ok(())
}

/// Waits before the store is called again, or returns the error that ends the loop.
async fn wait_after_failure<S: JobSource>(
    loop_state: &LoopState<S>,
    failures: &mut ClaimFailures,
    error: Error,
) -> Result<()> {
    loop_state.source.telemetry().count_failed_claim(error.kind().name());
    let count = failures.add(error, loop_state.options.patience, Instant::now())?;
    sleep_unless_stopped(loop_state, loop_state.options.backoff.delay(count)).await;
    Ok(())
}

/// Waits until another attempt may run. Returns all permits that are free, at least one, or `None` when the worker
/// stops.
async fn acquire_permits<S: JobSource>(
    loop_state: &LoopState<S>,
    semaphore: &Arc<Semaphore>,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first_permit = tokio::select! {
        biased;
        () = loop_state.stopping.cancelled() => return None,
        // The semaphore is never closed.
        first_permit = Arc::clone(semaphore).acquire_owned() => first_permit.ok()?,
    };
    let more_permits = std::iter::from_fn(|| Arc::clone(semaphore).try_acquire_owned().ok());
    Some(std::iter::once(first_permit).chain(more_permits).collect())
}

fn spawn_attempts<S: JobSource>(
    loop_state: &Arc<LoopState<S>>,
    jobs: Vec<S::Job>,
    permits: Vec<OwnedSemaphorePermit>,
    attempts: &mut JoinSet<()>,
) {
    loop_state.update_summary(|summary| summary.claimed += jobs.len() as u64);
    for (job, permit) in jobs.into_iter().zip(permits) {
        let loop_state = Arc::clone(loop_state);
        if loop_state.stopping.is_cancelled() {
            attempts.spawn(attempt::release(loop_state, job));
        } else {
            attempts.spawn(attempt::run(loop_state, job, permit));
        }
    }
}

/// Waits until there may be work: for a wake-up or, if the source has none, for a growing delay (WK-5). The end of an
/// attempt also ends the wait, because its thread may have more work.
async fn wait_for_work<S: JobSource>(loop_state: &LoopState<S>, empty_claims: &mut u32) -> Result<()> {
    let max_delay = loop_state.options.idle;
    let idle_delay = jittered(MIN_IDLE_DELAY.saturating_mul(2_u32.saturating_pow(*empty_claims - 1)).min(max_delay));
    let wait_for_wake_up = async {
        match loop_state.source.wait(max_delay).await {
            // After several wake-ups without work, the worker adds a delay of its own before it claims again.
            Some(Ok(WaitResult::Woken)) => sleep(if *empty_claims > 2 { idle_delay } else { Duration::ZERO }).await,
            Some(Ok(WaitResult::TimedOut)) => {}
            Some(Err(error)) if !is_temporary(&error) => return Err(error),
            Some(Err(_)) | None => sleep(idle_delay).await,
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = loop_state.stopping.cancelled() => Ok(()),
        () = loop_state.attempt_ended.notified() => {
            *empty_claims = 0;
            Ok(())
        }
        result = wait_for_wake_up => result,
    }
}

async fn sleep_unless_stopped<S: JobSource>(loop_state: &LoopState<S>, time: Duration) {
    tokio::select! {
        biased;
        () = loop_state.stopping.cancelled() => {}
        () = sleep(time) => {}
    }
}
