//! Measures how many dispatches per second are enqueued, claimed and settled in batches.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use store_core::{ClaimRequest, MailboxStore, NewDispatch, RunId, Settlement, Store, TenantId, ThreadId, WorkerId};
use store_postgres::PostgresStore;

/// The number of workers that enqueue, claim and settle.
pub(crate) const WORKER_COUNT: usize = 8;
/// The number of dispatches in a call, each for a thread of its own.
pub(crate) const BATCH_SIZE: usize = 100;
/// A lease that does not expire before its dispatch is settled.
const LEASE: Duration = Duration::from_secs(60);

/// Returns how many dispatches per second are enqueued, claimed and settled.
pub(crate) async fn rate(store: &PostgresStore, round: usize, duration: Duration) -> Result<f64> {
    let mailbox = store.tenant(&TenantId::default_tenant())?.mailbox.context("the store has no mailbox")?;
    let workers: Vec<_> = (0..WORKER_COUNT)
        .map(|worker_number| tokio::spawn(run_worker(Arc::clone(&mailbox), (round, worker_number), duration)))
        .collect();
    let mut total = 0;
    for worker in workers {
        total += worker.await??;
    }
    Ok(f64::from(u32::try_from(total)?) / duration.as_secs_f64())
}

async fn run_worker(
    mailbox: Arc<dyn MailboxStore>,
    (round, worker_number): (usize, usize),
    duration: Duration,
) -> Result<usize> {
    let (worker_id, run) = (WorkerId::new(format!("worker-{worker_number}"))?, RunId::new("bench")?);
    let threads = (0..BATCH_SIZE).map(|number| ThreadId::new(format!("queue-{round}-{worker_number}-{number}")));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let (start, mut settled_count) = (Instant::now(), 0);
    while start.elapsed() < duration {
        let dispatches = threads.iter().map(|thread| NewDispatch::new(thread.clone(), run.clone())).collect();
        for enqueued in mailbox.enqueue(dispatches).await? {
            enqueued?;
        }
        let claims =
            mailbox.claim(ClaimRequest::new(worker_id.clone(), LEASE).up_to(u32::try_from(BATCH_SIZE)?)).await?;
        let settlements =
            claims.claimed.iter().map(|dispatch| (dispatch.claim(), Settlement::Ack { result: None })).collect();
        for settled in mailbox.settle(settlements).await? {
            settled?;
        }
        settled_count += claims.claimed.len();
    }
    Ok(settled_count)
}
