//! Measures commits per second in PostgreSQL, as ratios to the rate of pgbench, which inserts texts of the same length.
//! Also measures dispatches per second.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod committers;
mod pgbench;
mod queue;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;
use store_postgres::PostgresStore;

use crate::committers::CommitShape;

const HELP: &str = "\
Measures the commits per second in PostgreSQL, and compares them with the rate of pgbench, which inserts one text of the
same length per transaction. Also measures how many dispatches per second are enqueued, claimed and settled in batches,
and how many bytes each of them adds to the WAL.

Usage: cargo run --release -p benches --bin rates -- [OPTIONS]

Options:
  --url URL        the server's connection URL, as libpq accepts it [default: AGENTSTORE_TEST_POSTGRES_URL]
  --pgbench PATH   the pgbench program [default: pgbench, searched for in PATH]
  --seconds N      how long each part runs [default: 5]
  --rounds N       how many times to run all parts in turn; the median is reported [default: 3]
";

/// The size of the text of a message, in bytes.
const BODY_BYTES: usize = 600;
/// The numbers of tasks that commit at once. Each number is one part of the measurement.
const COMMITTER_COUNTS: [usize; 3] = [1, 8, 64];
/// The numbers of clients of pgbench. The rate of one client is the limit for one committer; that of eight clients is
/// the limit for more.
const CLIENT_COUNTS: [usize; 2] = [1, 8];

struct Options {
    url: String,
    pgbench: String,
    duration: Duration,
    rounds: usize,
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
    let (mut pgbench, mut seconds, mut rounds) = ("pgbench".to_owned(), 5, 3);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("url") => url = Some(parser.value()?.parse()?),
            Arg::Long("pgbench") => pgbench = parser.value()?.parse()?,
            Arg::Long("seconds") => seconds = parser.value()?.parse()?,
            Arg::Long("rounds") => rounds = parser.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let url = url.context("no server is given: start one with `cargo xtask servers` and name it with `--url`")?;
    Ok(Some(Options { url, pgbench, duration: Duration::from_secs(seconds), rounds }))
}

fn run(options: &Options) -> Result<()> {
    benches::in_new_schema(&options.url, async |schema, store| measure(options, schema, store).await)
}

async fn measure(options: &Options, schema: &str, store: &PostgresStore) -> Result<()> {
    let baseline = pgbench::PgbenchBaseline::new(options, schema)?;
    let mut pgbench_rates = [const { Vec::new() }; CLIENT_COUNTS.len()];
    let (mut dispatch_rates, mut wal_bytes_per_dispatch) = (Vec::new(), Vec::new());
    let mut rates_of_shapes = [const { [const { Vec::new() }; COMMITTER_COUNTS.len()] }; CommitShape::ALL.len()];
    // Fill the tables, so that the server can make plans for tables that are not empty.
    for shape in CommitShape::ALL {
        let name = format!("{}-first", shape.name());
        let _rate = committers::rate(store, shape, (8, &name), Duration::from_secs(1)).await?;
    }
    let _rate = queue::rate(store, options.rounds, Duration::from_secs(1)).await?;
    baseline.analyze()?;
    for round in 0..options.rounds {
        for (clients, rates) in CLIENT_COUNTS.into_iter().zip(&mut pgbench_rates) {
            rates.push(baseline.rate(clients)?);
        }
        for (shape, rates) in CommitShape::ALL.into_iter().zip(&mut rates_of_shapes) {
            for (count, rates) in COMMITTER_COUNTS.into_iter().zip(rates) {
                let name = format!("{}-{count}-{round}", shape.name());
                rates.push(committers::rate(store, shape, (count, &name), options.duration).await?);
            }
        }
        let wal_bytes_before = baseline.wal_bytes()?;
        let rate = queue::rate(store, round, options.duration).await?;
        wal_bytes_per_dispatch
            .push((baseline.wal_bytes()? - wal_bytes_before) / (rate * options.duration.as_secs_f64()));
        dispatch_rates.push(rate);
    }
    let pgbench_rates = pgbench_rates.map(median);
    for (clients, rate) in CLIENT_COUNTS.into_iter().zip(pgbench_rates) {
        println!(
            "{}",
            json!({ "pgbench": format!("INSERT of {BODY_BYTES} B, {clients} clients"), "per_second": rate.round() })
        );
    }
    for (shape, rates) in CommitShape::ALL.into_iter().zip(rates_of_shapes) {
        for (count, rates) in COMMITTER_COUNTS.into_iter().zip(rates) {
            let (rate, [rate_of_one_client, rate_of_eight_clients]) = (median(rates), pgbench_rates);
            let limit = if count == 1 { rate_of_one_client } else { rate_of_eight_clients };
            println!(
                "{}",
                json!({
                    "commit": shape.name(),
                    "committers": count,
                    "per_second": rate.round(),
                    "ratio": (rate / limit * 100.0).round() / 100.0,
                })
            );
        }
    }
    let (workers, batch) = (queue::WORKER_COUNT, queue::BATCH_SIZE);
    let (rate, wal_bytes_per_dispatch) = (median(dispatch_rates).round(), median(wal_bytes_per_dispatch).round());
    println!(
        "{}",
        json!({
            "dispatches": "enqueue, claim, ack",
            "workers": workers,
            "batch": batch,
            "per_second": rate,
            "wal_bytes": wal_bytes_per_dispatch,
        })
    );
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
