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

use crate::{BATCH, Durations, Workload, WORKERS, wait_until_done};

async fn job(_job: serde_json::Value, count: Data<Arc<AtomicUsize>>) -> Result<(), BoxDynError> {
    count.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

pub(crate) async fn run(workload: &Workload) -> Result<Durations> {
    let pool = PgPool::connect(&workload.url).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default().queue(&workload.name).batch_size(BATCH).lock_tasks(false);
    let start = Instant::now();
    let mut running = Vec::new();
    for number in 0..WORKERS {
        let (mut storage, jobs) = (PostgresStorage::new(&pool).with_config(config.clone()), workload.jobs);
        running.push(tokio::spawn(async move {
            for first in (number * BATCH..jobs).step_by(WORKERS * BATCH) {
                let tasks =
                    (first..jobs.min(first + BATCH)).map(|number| TaskBuilder::new(Workload::payload(number)).build());
                storage.push_all(&mut stream::iter(tasks)).await.map_err(|error| anyhow!("{error}"))?;
            }
            anyhow::Ok(())
        }));
    }
    for enqueuing in running {
        enqueuing.await??;
    }
    let enqueued = start.elapsed();
    let (start, count) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut working = Vec::new();
    for number in 0..WORKERS {
        let worker = WorkerBuilder::new(format!("{}-{number}", workload.name))
            .backend(PostgresStorage::new(&pool).with_config(config.clone()).with_pubsub())
            .data(Arc::clone(&count))
            .parallelize(tokio::spawn)
            .build(job);
        working.push(tokio::spawn(worker.run()));
    }
    wait_until_done(|| count.load(Ordering::Relaxed), workload.jobs).await?;
    let worked = start.elapsed();
    working.iter().for_each(|worker| worker.abort());
    Ok(Durations { enqueued, worked })
}
