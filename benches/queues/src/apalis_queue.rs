//! The queue `apalis` with its PostgreSQL storage, configured as in its own example: batches of 100, `lock_tasks`
//! off, notifications on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Result, anyhow};
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures::stream;

use crate::{BATCH_SIZE, Durations, WORKER_COUNT, Workload, wait_until_done};

async fn count_job(_job: serde_json::Value, count: Data<Arc<AtomicUsize>>) -> Result<(), BoxDynError> {
    count.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

pub(crate) async fn run(workload: &Workload) -> Result<Durations> {
    let pool = PgPool::connect(&workload.url).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default().queue(&workload.name).batch_size(BATCH_SIZE).lock_tasks(false);
    let start = Instant::now();
    let mut enqueue_tasks = Vec::new();
    for task_number in 0..WORKER_COUNT {
        let (mut storage, jobs) = (PostgresStorage::new(&pool).with_config(config.clone()), workload.jobs);
        enqueue_tasks.push(tokio::spawn(async move {
            for first in (task_number * BATCH_SIZE..jobs).step_by(WORKER_COUNT * BATCH_SIZE) {
                let tasks = (first..jobs.min(first + BATCH_SIZE))
                    .map(|number| TaskBuilder::new(Workload::payload_of_job(number)).build());
                storage.push_all(&mut stream::iter(tasks)).await.map_err(|error| anyhow!("{error}"))?;
            }
            anyhow::Ok(())
        }));
    }
    for task in enqueue_tasks {
        task.await??;
    }
    let enqueue_time = start.elapsed();
    let (start, count) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut worker_tasks = Vec::new();
    for worker_number in 0..WORKER_COUNT {
        let worker = WorkerBuilder::new(format!("{}-{worker_number}", workload.name))
            .backend(PostgresStorage::new(&pool).with_config(config.clone()).with_pubsub())
            .data(Arc::clone(&count))
            .parallelize(tokio::spawn)
            .build(count_job);
        worker_tasks.push(tokio::spawn(worker.run()));
    }
    wait_until_done(|| count.load(Ordering::Relaxed), workload.jobs).await?;
    let work_time = start.elapsed();
    worker_tasks.iter().for_each(|worker| worker.abort());
    Ok(Durations { enqueue_time, work_time })
}
