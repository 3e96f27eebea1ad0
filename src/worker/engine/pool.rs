//! The main loop: claims jobs and runs their attempts, at most as many at once as the options allow.

use std::{sync::Arc, time::Duration};

use store_core::{Error, Result, Waited};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Shared, Source, attempt, failures::Failures, is_temporary};
use crate::worker::{Summary, options::jittered};

/// The first delay of a worker that found nothing.
const SHORTEST: Duration = Duration::from_millis(10);

/// Claims and runs jobs until the loop is stopped or, if it ends when idle, has nothing to do.
pub(super) async fn run<S: Source>(shared: Arc<Shared<S>>) -> Result<Summary> {
    let places = Arc::new(Semaphore::new(shared.options.concurrency as usize));
    let mut attempts = JoinSet::new();
    let claimed = claim_loop(&shared, &places, &mut attempts).await;
    shared.stopping.cancel();
    let all_ended = async { while attempts.join_next().await.is_some() {} };
    let in_time = async {
        tokio::select! {
            () = all_ended => true,
            () = shared.giving_up.cancelled() => false,
        }
    };
    if !timeout(shared.options.stop_deadline, in_time).await.unwrap_or(false) {
        shared.giving_up.cancel();
        while attempts.join_next().await.is_some() {}
    }
    claimed.map(|()| shared.summary())
}

async fn claim_loop<S: Source>(
    shared: &Arc<Shared<S>>,
    places: &Arc<Semaphore>,
    attempts: &mut JoinSet<()>,
) -> Result<()> {
    let (mut empty, mut failures) = (0, Failures::default());
    while let Some(permits) = free(shared, places).await {
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
                            failed(shared, &mut failures, error).await?;
                            continue;
                        }
                    }
                }
                failures.clear();
                empty += 1;
                idle(shared, &mut empty).await?;
            }
            Ok(jobs) => {
                empty = 0;
                failures.clear();
                begin(shared, jobs, permits, attempts);
            }
            Err(error) => {
                drop(permits);
                failed(shared, &mut failures, error).await?;
            }
        }
    }
    Ok(())
}

/// Waits before the store is called again, or returns the error that ends the loop.
async fn failed<S: Source>(shared: &Shared<S>, failures: &mut Failures, error: Error) -> Result<()> {
    shared.source.telemetry().claim_failed(error.kind().name());
    let count = failures.add(error, shared.options.patience, Instant::now())?;
    pause(shared, shared.options.backoff.pause(count)).await;
    Ok(())
}

/// Waits until another attempt may run, and returns all permits that are free, at least one. Returns none when the
/// worker stops.
async fn free<S: Source>(shared: &Shared<S>, places: &Arc<Semaphore>) -> Option<Vec<OwnedSemaphorePermit>> {
    let first = tokio::select! {
        biased;
        () = shared.stopping.cancelled() => return None,
        // The semaphore is never closed.
        first = Arc::clone(places).acquire_owned() => first.ok()?,
    };
    let more = std::iter::from_fn(|| Arc::clone(places).try_acquire_owned().ok());
    Some(std::iter::once(first).chain(more).collect())
}

fn begin<S: Source>(
    shared: &Arc<Shared<S>>,
    jobs: Vec<S::Job>,
    permits: Vec<OwnedSemaphorePermit>,
    attempts: &mut JoinSet<()>,
) {
    shared.count(|summary| summary.claimed += jobs.len() as u64);
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
async fn idle<S: Source>(shared: &Shared<S>, empty: &mut u32) -> Result<()> {
    let longest = shared.options.idle;
    let grown = jittered(SHORTEST.saturating_mul(2_u32.saturating_pow(*empty - 1)).min(longest));
    let woken = async {
        match shared.source.wait(longest).await {
            // After several wake-ups without work, the worker adds a delay of its own before it claims again.
            Some(Ok(Waited::Woken)) => sleep(if *empty > 2 { grown } else { Duration::ZERO }).await,
            Some(Ok(Waited::TimedOut)) => {}
            Some(Err(error)) if !is_temporary(&error) => return Err(error),
            Some(Err(_)) | None => sleep(grown).await,
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => Ok(()),
        () = shared.ended.notified() => {
            *empty = 0;
            Ok(())
        }
        woken = woken => woken,
    }
}

async fn pause<S: Source>(shared: &Shared<S>, time: Duration) {
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = sleep(time) => {}
    }
}
