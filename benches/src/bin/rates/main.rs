//! Measures commits per second in PostgreSQL, as ratios to the rate of pgbench with simple INSERTs of the same size.
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

use crate::committers::Shape;

const HELP: &str = "\
Measures the commits per second in PostgreSQL, and compares them with the rate of pgbench with one INSERT of the same
size per transaction. Also measures how many dispatches per second are enqueued, claimed and settled in batches, and
how many bytes each of them adds to the WAL.

Usage: cargo run --release -p benches --bin rates -- [OPTIONS]

Options:
  --url URL        the server, as libpq reads it [default: AGENTSTORE_TEST_POSTGRES_URL]
  --pgbench PATH   the pgbench program [default: the one that is found]
  --seconds N      how long each part runs [default: 5]
  --rounds N       how often the parts run, one after the other; the median counts [default: 3]
";

/// The size of the text of a message, in bytes.
const BODY: usize = 600;
const COMMITTERS: [usize; 3] = [1, 8, 64];
const CLIENTS: [usize; 2] = [1, 8];

struct Options {
    url: String,
    pgbench: String,
    during: Duration,
    rounds: usize,
}

fn main() -> ExitCode {
    match options().and_then(|options| options.map_or(Ok(()), |options| run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Option<Options>> {
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
    Ok(Some(Options { url, pgbench, during: Duration::from_secs(seconds), rounds }))
}

fn run(options: &Options) -> Result<()> {
    benches::in_new_schema(&options.url, async |schema, store| measure(options, schema, store).await)
}

async fn measure(options: &Options, schema: &str, store: &PostgresStore) -> Result<()> {
    let bare = pgbench::BareTable::new(options, schema)?;
    let mut limits = [const { Vec::new() }; CLIENTS.len()];
    let (mut dispatches, mut bytes) = (Vec::new(), Vec::new());
    let mut found = [const { [const { Vec::new() }; COMMITTERS.len()] }; Shape::ALL.len()];
    for shape in Shape::ALL {
        let name = format!("{}-first", shape.name());
        let _rate = committers::rate(store, shape, (8, &name), Duration::from_secs(1)).await?;
    }
    let _rate = queue::rate(store, options.rounds, Duration::from_secs(1)).await?;
    bare.analyze()?;
    for round in 0..options.rounds {
        for (clients, rates) in CLIENTS.into_iter().zip(&mut limits) {
            rates.push(bare.rate(clients)?);
        }
        for (shape, rates) in Shape::ALL.into_iter().zip(&mut found) {
            for (count, rates) in COMMITTERS.into_iter().zip(rates) {
                let name = format!("{}-{count}-{round}", shape.name());
                rates.push(committers::rate(store, shape, (count, &name), options.during).await?);
            }
        }
        let before = bare.wal_bytes()?;
        let rate = queue::rate(store, round, options.during).await?;
        bytes.push((bare.wal_bytes()? - before) / (rate * options.during.as_secs_f64()));
        dispatches.push(rate);
    }
    let limits = limits.map(median);
    for (clients, rate) in CLIENTS.into_iter().zip(limits) {
        println!("{}", json!({ "bare": format!("INSERT of {BODY} B, {clients} clients"), "per_second": rate.round() }));
    }
    for (shape, rates) in Shape::ALL.into_iter().zip(found) {
        for (count, rates) in COMMITTERS.into_iter().zip(rates) {
            let (rate, [one, eight]) = (median(rates), limits);
            let limit = if count == 1 { one } else { eight };
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
    let (workers, batch) = (queue::WORKERS, queue::BATCH);
    let (rate, bytes) = (median(dispatches).round(), median(bytes).round());
    println!(
        "{}",
        json!({ "dispatches": "enqueue, claim, ack", "workers": workers, "batch": batch, "per_second": rate, "wal_bytes": bytes })
    );
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
