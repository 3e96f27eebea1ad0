//! The queue `graphile_worker`, configured as its documentation advises for throughput: with a local queue, and with
//! completions in batches.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};

use crate::{BATCH_SIZE, Durations, WORKER_COUNT, Workload, wait_until_done};

#[derive(Debug, Clone)]
struct DoneCount(Arc<AtomicUsize>);

#[derive(Debug, Serialize, Deserialize)]
struct Job {
    number: usize,
    text: String,
}

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(count) = context.get_ext::<DoneCount>() {
            count.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    }
}

pub(crate) async fn run(workload: &Workload) -> Result<Durations> {
    let count = DoneCount(Arc::default());
    let worker = WorkerOptions::default()
        .schema(&format!("bench_graphile_{}", workload.name))
        .concurrency(2 * WORKER_COUNT)
        .poll_interval(Duration::from_millis(500))
        .complete_job_batch_delay(Duration::from_millis(5))
        .fail_job_batch_delay(Duration::from_millis(5))
        .local_queue(LocalQueueConfig::default().with_size(BATCH_SIZE))
        .database_url(&workload.url)
        .max_pg_conn(20)
        .add_extension(count.clone())
        .define_job::<Job>()
        .init()
        .await?;
    let worker = Arc::new(worker);
    let start = Instant::now();
    let mut enqueue_tasks = Vec::new();
    for task_number in 0..WORKER_COUNT {
        let (utils, workload) = (worker.create_utils(), workload.clone());
        enqueue_tasks.push(tokio::spawn(async move {
            for first in (task_number * BATCH_SIZE..workload.jobs).step_by(WORKER_COUNT * BATCH_SIZE) {
                let jobs: Vec<_> = (first..workload.jobs.min(first + BATCH_SIZE))
                    .map(|number| RawJobSpec {
                        identifier: Job::IDENTIFIER.to_owned(),
                        payload: Workload::payload_of_job(number),
                        spec: JobSpec {
                            queue_name: workload.threads.map(|_| workload.thread_of_job(number)),
                            ..JobSpec::default()
                        },
                    })
                    .collect();
                utils.add_raw_jobs(&jobs).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in enqueue_tasks {
        task.await??;
    }
    let enqueue_time = start.elapsed();
    let start = Instant::now();
    let worker_task = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await }
    });
    wait_until_done(|| count.0.load(Ordering::Relaxed), workload.jobs).await?;
    let work_time = start.elapsed();
    worker.request_shutdown();
    worker_task.await??;
    Ok(Durations { enqueue_time, work_time })
}
