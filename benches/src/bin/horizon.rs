//! Measures how the cost of the calls of the mailbox develops while a long transaction keeps PostgreSQL from removing
//! dead rows. Such a transaction holds back what PostgreSQL calls the horizon.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::{
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use benches::{median, timed};
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;
use store_core::{ClaimRequest, MailboxStore, NewDispatch, RunId, Settlement, Store, TenantId, ThreadId, WorkerId};
use store_postgres::PostgresStore;

const HELP: &str = "\
Measures what enqueue, claim and settle cost while an older transaction stays open. PostgreSQL cannot remove the row
versions that have become dead since that transaction began. Each dispatch belongs to a thread of its own.

Usage: cargo run --release -p benches --bin horizon -- [OPTIONS]

Options:
  --url URL      the server's URL, as psql accepts it [default: AGENTSTORE_TEST_POSTGRES_URL]
  --minutes N    how long the transaction stays open [default: 10]
  --rate N       dispatches per second [default: 1000]
  --lines N      how many lines are printed [default: 20]
";

/// The number of tasks that enqueue, claim and settle.
const WORKER_COUNT: usize = 4;
/// The number of dispatches that one call of a worker enqueues, claims or settles.
const BATCH_SIZE: usize = 20;

struct Options {
    url: String,
    duration: Duration,
    rate: u32,
    lines: u32,
}

fn main() -> ExitCode {
    match parse_options().and_then(|options| options.map_or(Ok(()), |options| run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options() -> Result<Option<Options>> {
    let mut url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").ok();
    let (mut minutes, mut rate, mut lines) = (10, 1_000, 20);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("url") => url = Some(parser.value()?.parse()?),
            Arg::Long("minutes") => minutes = parser.value()?.parse()?,
            Arg::Long("rate") => rate = parser.value()?.parse()?,
            Arg::Long("lines") => lines = parser.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let url = url.context("no server is given: start one with `cargo xtask servers` and name it with `--url`")?;
    Ok(Some(Options { url, duration: Duration::from_secs(minutes * 60), rate, lines }))
}

fn run(options: &Options) -> Result<()> {
    benches::in_new_schema(&options.url, async |_, store| measure(options, store).await)
}

/// A transaction that stays open until this value is dropped.
struct OpenTransaction(Child);

impl OpenTransaction {
    /// Starts a statement that sleeps for a minute longer than the measurement takes.
    fn new(options: &Options) -> Result<Self> {
        let sleep_statement = format!("SELECT pg_sleep({})", options.duration.as_secs() + 60);
        let psql = Command::new("psql")
            .args(["--no-psqlrc", "--quiet", "--command", &sleep_statement])
            .arg(&options.url)
            .stdout(Stdio::null())
            .spawn();
        Ok(Self(psql.context("psql cannot be started")?))
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The durations of the calls in the interval that one line of the output describes.
#[derive(Debug, Default)]
struct IntervalFigures {
    enqueue: Vec<Duration>,
    claim: Vec<Duration>,
    settle: Vec<Duration>,
    settled_count: usize,
}

async fn measure(options: &Options, store: &PostgresStore) -> Result<()> {
    let mailbox = store.tenant(&TenantId::default_tenant())?.mailbox.context("the store has no mailbox")?;
    let _transaction = OpenTransaction::new(options)?;
    let figures = Arc::new(Mutex::new(IntervalFigures::default()));
    let batch_interval = Duration::from_secs(1) * u32::try_from(WORKER_COUNT * BATCH_SIZE)? / options.rate;
    let mut workers = Vec::new();
    for worker_number in 0..WORKER_COUNT {
        workers.push(tokio::spawn(run_worker(
            Arc::clone(&mailbox),
            worker_number,
            batch_interval,
            (Arc::clone(&figures), options.duration),
        )));
    }
    let (start, interval) = (Instant::now(), options.duration / options.lines);
    for _ in 0..options.lines {
        tokio::time::sleep(interval).await;
        let figures = std::mem::take(&mut *figures.lock().unwrap_or_else(PoisonError::into_inner));
        // Milliseconds, rounded to two decimal places.
        let millis = |times| (median(times).as_secs_f64() * 1e5).round() / 1e2;
        println!(
            "{}",
            json!({
                "after_s": start.elapsed().as_secs(),
                "per_second": (f64::from(u32::try_from(figures.settled_count)?) / interval.as_secs_f64()).round(),
                "enqueue_ms": millis(figures.enqueue),
                "claim_ms": millis(figures.claim),
                "settle_ms": millis(figures.settle),
            })
        );
    }
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

async fn run_worker(
    mailbox: Arc<dyn MailboxStore>,
    worker_number: usize,
    batch_interval: Duration,
    (figures, duration): (Arc<Mutex<IntervalFigures>>, Duration),
) -> Result<()> {
    let (worker_id, run) = (WorkerId::new(format!("worker-{worker_number}"))?, RunId::new("bench")?);
    let (start, mut ticks) = (Instant::now(), tokio::time::interval(batch_interval));
    let mut number = 0;
    while start.elapsed() < duration {
        let _tick = ticks.tick().await;
        let mut dispatches = Vec::new();
        for _ in 0..BATCH_SIZE {
            number += 1;
            dispatches.push(NewDispatch::new(ThreadId::new(format!("t-{worker_number}-{number}"))?, run.clone()));
        }
        let (enqueue_time, enqueued) = timed(mailbox.enqueue(dispatches)).await;
        ensure!(enqueued?.iter().all(Result::is_ok), "a dispatch was refused");
        let request = ClaimRequest::new(worker_id.clone(), Duration::from_secs(60)).up_to(u32::try_from(BATCH_SIZE)?);
        let (claim_time, claims) = timed(mailbox.claim(request)).await;
        let settlements: Vec<_> =
            claims?.claimed.iter().map(|dispatch| (dispatch.claim(), Settlement::Ack { result: None })).collect();
        let settled_count = settlements.len();
        let (settle_time, settled) = timed(mailbox.settle(settlements)).await;
        ensure!(settled?.iter().all(Result::is_ok), "a settlement was refused");
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.enqueue.push(enqueue_time);
        figures.claim.push(claim_time);
        figures.settle.push(settle_time);
        figures.settled_count += settled_count;
    }
    Ok(())
}
