//! The mailbox of `store-postgres`. Each job is a dispatch. If the jobs have no order, each has its own thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use store_core::{
    ClaimRequest, Json, MailboxStore, NewDispatch, RunId, Settlement, Store, TenantId, ThreadId, WakeUps, WorkerId,
};
use store_postgres::{PostgresConfig, PostgresStore};

use crate::{BATCH_SIZE, Durations, WORKER_COUNT, Workload, wait_until_done};

pub(crate) async fn run(workload: &Workload) -> Result<Durations> {
    let store = PostgresStore::open(
        PostgresConfig::new(&workload.url)?.with_schema(&format!("bench_mailbox_{}", workload.name))?,
    )
    .await?;
    let tenant_stores = store.tenant(&TenantId::new(&workload.name)?)?;
    let mailbox = tenant_stores.mailbox.context("the store has no mailbox")?;
    let wake_ups = tenant_stores.wake_ups.context("the store has no wake-ups")?;
    let start = Instant::now();
    let mut enqueue_tasks = Vec::new();
    for task_number in 0..WORKER_COUNT {
        enqueue_tasks.push(tokio::spawn(enqueue(Arc::clone(&mailbox), workload.clone(), task_number)));
    }
    for task in enqueue_tasks {
        task.await??;
    }
    let enqueue_time = start.elapsed();
    let (start, done_count) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut worker_tasks = Vec::new();
    for worker_number in 0..WORKER_COUNT {
        worker_tasks.push(tokio::spawn(work(
            Arc::clone(&mailbox),
            Arc::clone(&wake_ups),
            workload.jobs,
            worker_number,
            Arc::clone(&done_count),
        )));
    }
    wait_until_done(|| done_count.load(Ordering::Relaxed), workload.jobs).await?;
    let work_time = start.elapsed();
    for task in worker_tasks {
        task.await??;
    }
    store.close().await?;
    Ok(Durations { enqueue_time, work_time })
}

async fn enqueue(mailbox: Arc<dyn MailboxStore>, workload: Workload, task_number: usize) -> Result<()> {
    let run = RunId::new("bench")?;
    for first in (task_number * BATCH_SIZE..workload.jobs).step_by(WORKER_COUNT * BATCH_SIZE) {
        let new_dispatch = |number: usize| -> Result<NewDispatch> {
            let payload = Json::parse(&Workload::payload_of_job(number).to_string())?;
            Ok(NewDispatch::new(ThreadId::new(workload.thread_of_job(number))?, run.clone()).with_payload(payload))
        };
        let dispatches = (first..workload.jobs.min(first + BATCH_SIZE)).map(new_dispatch).collect::<Result<_>>()?;
        for answer in mailbox.enqueue(dispatches).await? {
            answer?;
        }
    }
    Ok(())
}

async fn work(
    mailbox: Arc<dyn MailboxStore>,
    wake_ups: Arc<dyn WakeUps>,
    jobs: usize,
    worker_number: usize,
    done_count: Arc<AtomicUsize>,
) -> Result<()> {
    let worker_id = WorkerId::new(format!("worker-{worker_number}"))?;
    while done_count.load(Ordering::Relaxed) < jobs {
        let request = ClaimRequest::new(worker_id.clone(), Duration::from_secs(60)).up_to(u32::try_from(BATCH_SIZE)?);
        let claims = mailbox.claim(request).await?;
        if claims.claimed.is_empty() {
            // Another worker has claimed the dispatch that woke this worker. The pause limits how often a worker claims
            // without success.
            tokio::time::sleep(Duration::from_millis(5)).await;
            wake_ups.wait(Duration::from_millis(100)).await?;
            continue;
        }
        let settlements =
            claims.claimed.iter().map(|dispatch| (dispatch.claim(), Settlement::Ack { result: None })).collect();
        for answer in mailbox.settle(settlements).await? {
            answer?;
            done_count.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
