//! Compares the mailbox on PostgreSQL with two other queues written in Rust, on one server and in one run. All jobs are
//! enqueued in batches. Then eight workers do the jobs. Each queue is configured for throughput as its authors advise.
//!
//! The jobs called "free" have no order. Those called "ordered" belong to threads, and the jobs of one thread are done
//! one after another.

mod apalis_queue;
mod graphile;
mod mailbox;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;

const HELP: &str = "\
Measures how many jobs per second three queues on one PostgreSQL server do. All jobs are enqueued in batches, then eight
workers do them.

Usage: cargo run --release -- [OPTIONS]

Options:
  --url URL      the server [default: AGENTSTORE_TEST_POSTGRES_URL]
  --jobs N       how many jobs [default: 20000]
  --threads N    how many threads the ordered jobs belong to [default: 200]
  --rounds N     how many times to run the queues in turn; the median is reported [default: 3]
  --only QUEUE   only this queue: mailbox, graphile or apalis
";

/// The number of tasks that enqueue jobs, and also the number of workers that do the jobs.
pub(crate) const WORKER_COUNT: usize = 8;
/// The number of jobs that a task enqueues with one call, and the maximum number of jobs that a worker takes with one
/// call.
pub(crate) const BATCH_SIZE: usize = 100;
/// How long the workers of a queue may take to do all jobs.
pub(crate) const WORK_TIMEOUT: Duration = Duration::from_secs(600);

/// The jobs of one run of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) url: String,
    pub(crate) jobs: usize,
    /// The number of threads that the jobs belong to. `None` for jobs without an order.
    pub(crate) threads: Option<usize>,
    /// The name that distinguishes this run from the other runs of the same queue.
    pub(crate) name: String,
}

impl Workload {
    /// Returns the payload of a job.
    pub(crate) fn payload_of_job(number: usize) -> serde_json::Value {
        json!({ "number": number, "text": "x".repeat(100) })
    }

    /// Returns the id of the thread of a job.
    pub(crate) fn thread_of_job(&self, number: usize) -> String {
        format!("{}-{}", self.name, number % self.threads.unwrap_or(usize::MAX))
    }
}

/// How long it took to enqueue all jobs, and to do all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Durations {
    pub(crate) enqueue_time: Duration,
    pub(crate) work_time: Duration,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let mut url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").ok();
    let (mut jobs, mut threads, mut rounds, mut only_queue) = (20_000, 200, 3, None::<String>);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("url") => url = Some(parser.value()?.parse()?),
            Arg::Long("jobs") => jobs = parser.value()?.parse()?,
            Arg::Long("threads") => threads = parser.value()?.parse()?,
            Arg::Long("rounds") => rounds = parser.value()?.parse()?,
            Arg::Long("only") => only_queue = Some(parser.value()?.parse()?),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let url = url.context("no server is given: start one with `cargo xtask servers` and name it with `--url`")?;
    for ordered_threads in [None, Some(threads)] {
        let mut durations_of_queues = [const { Vec::new() }; 3];
        for round in 0..rounds {
            let name = format!("{}{round}", if ordered_threads.is_some() { "ordered" } else { "free" });
            let workload = Workload { url: url.clone(), jobs, threads: ordered_threads, name };
            let is_selected = |queue| only_queue.as_deref().is_none_or(|only_queue| only_queue == queue);
            if is_selected("mailbox") {
                durations_of_queues[0].push(mailbox::run(&workload).await?);
            }
            if is_selected("graphile") {
                durations_of_queues[1].push(graphile::run(&workload).await?);
            }
            if is_selected("apalis") && ordered_threads.is_none() {
                durations_of_queues[2].push(apalis_queue::run(&workload).await?);
            }
        }
        for (queue, mut runs) in
            ["agentstore mailbox", "graphile_worker", "apalis-postgres"].into_iter().zip(durations_of_queues)
        {
            runs.sort_by_key(|run| run.enqueue_time + run.work_time);
            let Some(median_run) = runs.get(runs.len() / 2) else { continue };
            let rate = |time: Duration| (jobs as f64 / time.as_secs_f64()).round();
            println!(
                "{}",
                json!({
                    "queue": queue,
                    "jobs": if ordered_threads.is_some() { "ordered" } else { "free" },
                    "enqueued_per_second": rate(median_run.enqueue_time),
                    "worked_per_second": rate(median_run.work_time),
                    "both_per_second": rate(median_run.enqueue_time + median_run.work_time),
                })
            );
        }
    }
    Ok(())
}

/// Waits until `job_count` jobs are done.
pub(crate) async fn wait_until_done(done_count: impl Fn() -> usize, job_count: usize) -> Result<()> {
    let start = Instant::now();
    while done_count() < job_count {
        anyhow::ensure!(start.elapsed() < WORK_TIMEOUT, "only {} of {job_count} jobs are done", done_count());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
