//! The main loop: claims jobs and runs their attempts. The options limit how many attempts run at the same time.

use std::{sync::Arc, time::Duration};

use store_core::{Error, Result, WaitResult};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{JobSource, LoopState, attempt, claim_failures::ClaimFailures, is_temporary};
use crate::worker::{WorkSummary, options::jittered};

/// The first delay of a worker that found nothing.
const MIN_IDLE_DELAY: Duration = Duration::from_millis(10);

/// Claims and runs jobs until the loop is stopped or, if it ends when idle, has nothing to do.
pub(super) async fn run<S: JobSource>(shared: Arc<LoopState<S>>) -> Result<WorkSummary> {
    let semaphore = Arc::new(Semaphore::new(shared.options.concurrency as usize));
    let mut attempts = JoinSet::new();
    let claim_result = claim_loop(&shared, &semaphore, &mut attempts).await;
    shared.stopping.cancel();
    let all_ended = async { while attempts.join_next().await.is_some() {} };
    let ended_in_time = async {
        tokio::select! {
            () = all_ended => true,
            () = shared.aborting_attempts.cancelled() => false,
        }
    };
    if !timeout(shared.options.stop_deadline, ended_in_time).await.unwrap_or(false) {
        shared.aborting_attempts.cancel();
        while attempts.join_next().await.is_some() {}
    }
    claim_result.map(|()| shared.summary())
}

async fn claim_loop<S: JobSource>(
    shared: &Arc<LoopState<S>>,
    semaphore: &Arc<Semaphore>,
    attempts: &mut JoinSet<()>,
) -> Result<()> {
    let (mut empty_claims, mut failures) = (0, ClaimFailures::default());
    while let Some(permits) = acquire_permits(shared, semaphore).await {
        while attempts.try_join_next().is_some() {}
        // A claim in progress is never dropped: the dispatches that it takes would wait until their leases expire.
        match shared.source.claim(u32::try_from(permits.len()).unwrap_or(u32::MAX)).await {
            Ok(jobs) if jobs.is_empty() => {
                let nothing_runs = permits.len() == shared.options.concurrency as usize;
                drop(permits);
                if shared.ends_when_idle && nothing_runs {
                    match shared.has_retries().await {
                        Ok(true) => {}
                        Ok(false) => return Ok(()),
                        Err(error) => {
                            wait_after_failure(shared, &mut failures, error).await?;
                            continue;
                        }
                    }
                }
                failures.clear();
                empty_claims += 1;
                wait_for_work(shared, &mut empty_claims).await?;
            }
            Ok(jobs) => {
                empty_claims = 0;
                failures.clear();
                spawn_attempts(shared, jobs, permits, attempts);
            }
            Err(error) => {
                drop(permits);
                wait_after_failure(shared, &mut failures, error).await?;
            }
        }
    }
    Ok(())
}

/// Waits before the store is called again, or returns the error that ends the loop.
async fn wait_after_failure<S: JobSource>(
    shared: &LoopState<S>,
    failures: &mut ClaimFailures,
    error: Error,
) -> Result<()> {
    shared.source.telemetry().count_failed_claim(error.kind().name());
    let count = failures.add(error, shared.options.patience, Instant::now())?;
    sleep_unless_stopped(shared, shared.options.backoff.delay(count)).await;
    Ok(())
}

/// Waits until another attempt may run. Returns all permits that are free, at least one, or `None` when the worker
/// stops.
async fn acquire_permits<S: JobSource>(
    shared: &LoopState<S>,
    semaphore: &Arc<Semaphore>,
) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = shared.stopping.cancelled() => return None,
        // The semaphore is never closed.
        first = Arc::clone(semaphore).acquire_owned() => first.ok()?,
    };
    let more = std::iter::from_fn(|| Arc::clone(semaphore).try_acquire_owned().ok());
    Some(std::iter::once(first).chain(more).collect())
}

fn spawn_attempts<S: JobSource>(
    shared: &Arc<LoopState<S>>,
    jobs: Vec<S::Job>,
    permits: Vec<OwnedSemaphorePermit>,
    attempts: &mut JoinSet<()>,
) {
    shared.update_summary(|summary| summary.claimed += jobs.len() as u64);
    for (job, permit) in jobs.into_iter().zip(permits) {
        let shared = Arc::clone(shared);
        if shared.stopping.is_cancelled() {
            attempts.spawn(attempt::release(shared, job));
        } else {
            attempts.spawn(attempt::run(shared, job, permit));
        }
    }
}

/// Waits until there may be work: for a wake-up or, if the source has none, for a growing delay (WK-5). The end of an
/// attempt also ends the wait, because its thread may have more work.
async fn wait_for_work<S: JobSource>(shared: &LoopState<S>, empty_claims: &mut u32) -> Result<()> {
    let longest = shared.options.idle;
    let idle_delay = jittered(MIN_IDLE_DELAY.saturating_mul(2_u32.saturating_pow(*empty_claims - 1)).min(longest));
    let woken = async {
        match shared.source.wait(longest).await {
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
        () = shared.stopping.cancelled() => Ok(()),
        () = shared.attempt_ended.notified() => {
            *empty_claims = 0;
            Ok(())
        }
        result = woken => result,
    }
}

async fn sleep_unless_stopped<S: JobSource>(shared: &LoopState<S>, time: Duration) {
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = sleep(time) => {}
    }
}
