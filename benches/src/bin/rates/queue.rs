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
pub(crate) const WORKERS: usize = 8;
/// The number of dispatches in a call, each for a thread of its own.
pub(crate) const BATCH: usize = 100;
const LEASE: Duration = Duration::from_secs(60);

/// Returns how many dispatches per second are enqueued, claimed and settled.
pub(crate) async fn rate(store: &PostgresStore, round: usize, during: Duration) -> Result<f64> {
    let mailbox = store.tenant(&TenantId::default_tenant())?.mailbox.context("the store has no mailbox")?;
    let workers: Vec<_> =
        (0..WORKERS).map(|worker| tokio::spawn(work(Arc::clone(&mailbox), (round, worker), during))).collect();
    let mut all = 0;
    for worker in workers {
        all += worker.await??;
    }
    Ok(f64::from(u32::try_from(all)?) / during.as_secs_f64())
}

async fn work(mailbox: Arc<dyn MailboxStore>, (round, worker): (usize, usize), during: Duration) -> Result<usize> {
    let (name, run) = (WorkerId::new(format!("worker-{worker}"))?, RunId::new("bench")?);
    let threads = (0..BATCH).map(|at| ThreadId::new(format!("queue-{round}-{worker}-{at}")));
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < during {
        let dispatches = threads.iter().map(|thread| NewDispatch::new(thread.clone(), run.clone())).collect();
        for enqueued in mailbox.enqueue(dispatches).await? {
            enqueued?;
        }
        let claims = mailbox.claim(ClaimRequest::new(name.clone(), LEASE).up_to(u32::try_from(BATCH)?)).await?;
        let ends = claims.claimed.iter().map(|held| (held.claim(), Settlement::Ack { result: None })).collect();
        for settled in mailbox.settle(ends).await? {
            settled?;
        }
        done += claims.claimed.len();
    }
    Ok(done)
}
