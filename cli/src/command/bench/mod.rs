//! `bench`: measures how many operations a store completes in a second, and compares that with the machine's own limit.

mod limit;
mod place;
mod scenario;

use std::{sync::Arc, time::Duration};

use agentstore::{Progress as _, Store};
use serde::Serialize;

use self::{
    place::Place,
    scenario::{ALL, Done, Scenario},
};
use super::Ending;
use crate::{args::Global, failure::Result, output::Output, progress::Bar};

/// The number of rounds that are counted. In each round, the limit is measured first and then the scenario.
const ROUNDS: u32 = 5;

/// Measure how many operations a store completes in a second, and compare that with the machine's own limit
///
/// The command measures a new store next to the named store, and removes the new store afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore bench --store file:/mnt/disk/agentstore-data\n  \
    agentstore bench --store memory: --scenario commit-1 --scenario commit-64 --seconds 10 --json\n  \
    agentstore bench --store 'nats://queue.example/?assume_sync=true' --scenario dispatch-8\n\n\
    The limit is the rate of loops that write the same bytes to the same medium and do nothing else. There are as \
    many loops as callers; on a server there are at most 8, and for a scenario with one thread there is one. A loop \
    appends and calls fdatasync, runs an INSERT, publishes messages to a NATS stream with the same settings, or \
    pushes to a list in memory. The limit and the scenario are measured alternately. A dispatch counts as three \
    writes. Bodies have 600 bytes, or 4 KiB if the name of the scenario ends in `-4k`.")]
pub(crate) struct Args {
    /// Run only this scenario; can be given more than once
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(ALL.map(|one| one.name)))]
    scenario: Vec<String>,
    /// How long each scenario runs, in seconds; its limit runs for the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

/// The result of a scenario.
#[derive(Debug, Serialize)]
struct Found {
    scenario: &'static str,
    unit: &'static str,
    bytes: usize,
    /// The number of units that the store completed per second.
    value: f64,
    limit: f64,
    loops: usize,
    ratio: f64,
    p50_us: f64,
    p99_us: f64,
}

pub(crate) async fn run(args: Args, global: &Global, out: &mut Output) -> Result<Ending> {
    let place = Place::new(&global.store()).await?;
    // If no scenario is named, every scenario runs that the store supports.
    let is_wanted = |one: &Scenario| match args.scenario.is_empty() {
        true => place.keeps_threads() || one.is_of_mailboxes(),
        false => args.scenario.iter().any(|name| name == one.name),
    };
    let wanted: Vec<Scenario> = ALL.into_iter().filter(is_wanted).collect();
    let bar = Bar::new("measuring");
    let found = measure(&place, &wanted, Duration::from_secs(args.seconds), &bar).await;
    bar.finish();
    let limit = limit::name(&place);
    let removed = place.remove().await;
    let found = found?;
    removed?;
    print(global, limit, &found, out)
}

async fn measure(place: &Place, wanted: &[Scenario], during: Duration, bar: &Bar) -> Result<Vec<Found>> {
    let during = during / ROUNDS;
    let mut found = Vec::new();
    let (all, mut done) = (wanted.len() as u64 * u64::from(ROUNDS + 1), 0);
    for scenario in wanted {
        let (loops, turn) = (scenario.loops(place.is_on_server()), scenario.turn());
        let (mut store, mut work, mut bare) = (place.open().await?, Done::default(), Done::default());
        for round in 0..=ROUNDS {
            let turns = limit::run(place, loops, turn, during).await?;
            let (next, part) = one_round(place, store, *scenario, during).await?;
            store = next;
            // The first round only warms up.
            if round > 0 {
                bare.add(turns);
                work.add(part);
            }
            done += 1;
            let _goes_on = bar.advance(done, Some(all));
        }
        store.close().await?;
        let (value, limit) = (work.a_second().round(), (bare.a_second() * turn.stands_for).round());
        work.calls.sort_unstable();
        found.push(Found {
            scenario: scenario.name,
            unit: scenario.unit(),
            bytes: scenario.bytes,
            value,
            limit,
            loops,
            ratio: (value / limit.max(1.0) * 100.0).round() / 100.0,
            p50_us: percentile(&work.calls, 50),
            p99_us: percentile(&work.calls, 99),
        });
    }
    Ok(found)
}

/// Runs one round of the scenario, and returns the store for the next round. A store in memory is replaced by a new
/// one, because its data would fill the memory.
async fn one_round(
    place: &Place,
    store: Arc<dyn Store>,
    scenario: Scenario,
    during: Duration,
) -> Result<(Arc<dyn Store>, Done)> {
    let done = scenario.run(&*store, during).await?;
    if !matches!(place, Place::Memory) {
        return Ok((store, done));
    }
    store.close().await?;
    Ok((place.open().await?, done))
}

/// Returns the given percentile of the call durations, in microseconds. `calls` must be sorted.
fn percentile(calls: &[Duration], hundredth: usize) -> f64 {
    let at = (calls.len() * hundredth / 100).min(calls.len().saturating_sub(1));
    calls.get(at).map_or(0.0, |took| (took.as_secs_f64() * 1e7).round() / 10.0)
}

fn print(global: &Global, limit: &str, found: &[Found], out: &mut Output) -> Result<Ending> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let store = global.store().to_string();
    if out.json() {
        let document = serde_json::json!({ "store": store, "cores": cores, "limit_is": limit, "scenarios": found });
        out.document(&document)?;
        return Ok(Ending::Good);
    }
    let mut table = out.table(&["SCENARIO", "PER SECOND", "LIMIT", "RATIO", "P50", "P99"]);
    for one in found {
        table.add_row([
            one.scenario.to_owned(),
            format!("{} {}", one.value, one.unit),
            one.limit.to_string(),
            format!("{:.2}", one.ratio),
            time(one.p50_us),
            time(one.p99_us),
        ]);
    }
    out.print_table(table)?;
    out.line(format!("limit: {limit}, with the same bytes, in parallel loops; {cores} cores"))?;
    Ok(Ending::Good)
}

/// Formats a number of microseconds for people.
fn time(micros: f64) -> String {
    if micros < 10_000.0 { format!("{micros:.0} µs") } else { format!("{:.0} ms", micros / 1000.0) }
}
