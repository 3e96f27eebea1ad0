//! Measures the machine's own limit: loops write the same bytes as the store, as durably as the store, and do nothing
//! else.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use agentstore::{Error, Result, nats::BaselinePublisher, postgres::BaselineInserts};

use super::{
    scenario::{LoopIteration, Measurement},
    target::BenchTarget,
};

/// Returns a description of what one iteration of a loop does.
pub(super) const fn description(target: &BenchTarget) -> &'static str {
    match target {
        BenchTarget::Memory => "a push of copied bytes under a mutex",
        BenchTarget::FileStore(_) | BenchTarget::SqliteMailbox(_) => "an append and fdatasync",
        BenchTarget::PostgresSchema(_) => "an INSERT in a transaction",
        BenchTarget::NatsPrefix(_) => "messages that a stream acknowledges",
    }
}

/// Runs `loops` loops at the same time, for the given duration. Each loop repeatedly writes the same bytes, to a
/// file, connection or list of its own. Returns the number of iterations of all loops, and how long the loops ran.
pub(super) async fn run(
    target: &BenchTarget,
    loops: usize,
    iteration: LoopIteration,
    duration: Duration,
) -> Result<Measurement> {
    let (mut inserters, mut publishers) = (Vec::new(), Vec::new());
    for _ in 0..loops {
        match target {
            BenchTarget::PostgresSchema(schema) => inserters.push(BaselineInserts::open(schema).await?),
            BenchTarget::NatsPrefix(prefix) => publishers.push(BaselinePublisher::open(prefix).await?),
            BenchTarget::Memory | BenchTarget::FileStore(_) | BenchTarget::SqliteMailbox(_) => {}
        }
    }
    let bytes = iteration.bytes();
    let start = Instant::now();
    let until = start + duration;
    let count = match target {
        BenchTarget::Memory => run_in_threads(loops, |_| Ok(run_pushes(bytes, until))),
        BenchTarget::FileStore(folder) | BenchTarget::SqliteMailbox(folder) => run_in_threads(loops, |number| {
            run_appends(folder.path(), number, bytes, until)
        })
        .map_err(|error| Error::unavailable("a loop that measures the limit cannot write its file").with_source(error)),
        BenchTarget::PostgresSchema(_) => {
            run_in_tasks(inserters.into_iter().map(|inserter| run_inserts(inserter, bytes, until))).await
        }
        BenchTarget::NatsPrefix(_) => {
            run_in_tasks(publishers.into_iter().map(|publisher| run_publishes(publisher, iteration, until))).await
        }
    }?;
    Ok(Measurement { count, took: start.elapsed(), call_durations: Vec::new() })
}

/// Runs loops at the same time, each in its own OS thread, and returns the number of iterations of all loops.
fn run_in_threads<E: Send>(loops: usize, run: impl Fn(usize) -> Result<u64, E> + Sync) -> Result<u64, E> {
    thread::scope(|scope| {
        let handles: Vec<_> = (0..loops)
            .map(|number| {
                scope.spawn({
                    let run = &run;
                    move || run(number)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(Ok(0))).sum()
    })
}

fn run_pushes(bytes: usize, until: Instant) -> u64 {
    let (body, log) = (vec![b'x'; bytes], Mutex::new(Vec::new()));
    let mut iterations = 0;
    while Instant::now() < until {
        if let Ok(mut log) = log.lock() {
            log.push(body.clone());
        }
        iterations += 1;
    }
    iterations
}

fn run_appends(folder: &Path, number: usize, bytes: usize, until: Instant) -> io::Result<u64> {
    let path = folder.join(format!("bare-{number}"));
    let mut file = File::options().create(true).append(true).open(&path)?;
    let body = vec![b'x'; bytes];
    let mut iterations = 0;
    while Instant::now() < until {
        file.write_all(&body)?;
        file.sync_data()?;
        iterations += 1;
    }
    Ok(iterations)
}

/// Runs loops at the same time, each in its own task, and returns the number of iterations of all loops.
///
/// # Errors
/// The error of the first loop that failed.
pub(super) async fn run_in_tasks(
    loops: impl Iterator<Item = impl Future<Output = Result<u64>> + Send + 'static>,
) -> Result<u64> {
    let tasks: Vec<_> = loops.map(tokio::spawn).collect();
    let mut total = 0;
    for task in tasks {
        total += task.await.unwrap_or(Ok(0))?;
    }
    Ok(total)
}

async fn run_inserts(mut inserter: BaselineInserts, bytes: usize, until: Instant) -> Result<u64> {
    let (body, mut iterations) = ("x".repeat(bytes), 0);
    while Instant::now() < until {
        inserter.insert(&body).await?;
        iterations += 1;
    }
    Ok(iterations)
}

async fn run_publishes(publisher: BaselinePublisher, iteration: LoopIteration, until: Instant) -> Result<u64> {
    let (body, mut iterations) = ("x".repeat(iteration.record_bytes), 0);
    while Instant::now() < until {
        publisher.publish(&body, iteration.records).await?;
        iterations += 1;
    }
    Ok(iterations)
}
