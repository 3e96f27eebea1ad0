//! `bench`: measures how many operations a store completes in a second, and compares that with the machine's own limit.

mod limit;
mod scenario;
mod target;

use std::{sync::Arc, time::Duration};

use agentstore::{Progress as _, Store};
use serde::Serialize;

use self::{
    scenario::{Measurement, SCENARIOS, Scenario},
    target::BenchTarget,
};
use super::Ending;
use crate::{args::GlobalArgs, failure::Result, output::Output, progress::TerminalProgress};

/// The number of rounds that are counted. In each round, the limit is measured first and then the scenario.
const ROUNDS: u32 = 5;

/// Measure how many operations a store completes in a second, and compare that with the machine's own limit
///
/// The command measures a new store next to the named store, and removes the new store afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore bench --store file:/mnt/disk/agentstore-data\n  \
    agentstore bench --store memory: --scenario commit-1 --scenario commit-64 --seconds 10 --json\n  \
    agentstore bench --store 'nats://queue.example/?assume_sync=true' --scenario dispatch-8\n\n\
    The limit is the rate of loops that write the same bytes to the same medium and do nothing else. There is \
    one loop for each caller, but there are at most 8 if the store is on a server. A scenario with one thread has one \
    loop. A loop appends and calls fdatasync, runs an INSERT, publishes messages to a NATS stream with the same \
    settings, or pushes to a list in memory. The limit and the scenario are measured alternately. A dispatch counts \
    as three writes. Bodies have 600 bytes, or 4 KiB if the name of the scenario ends in `-4k`.")]
pub(crate) struct Args {
    /// Run only this scenario; can be given more than once
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SCENARIOS.map(|scenario| scenario.name)))]
    scenario: Vec<String>,
    /// How long each scenario runs, in seconds; its limit runs for the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

/// The result of a scenario.
#[derive(Debug, Serialize)]
struct ScenarioResult {
    scenario: &'static str,
    unit: &'static str,
    /// The length of each message body or payload.
    bytes: usize,
    /// The number of units that the store completed per second.
    value: f64,
    /// The number of units per second to which the writes of the limit loops correspond.
    limit: f64,
    /// The number of limit loops.
    loops: usize,
    /// The value divided by the limit.
    ratio: f64,
    p50_us: f64,
    p99_us: f64,
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let target = BenchTarget::new(&global.store_url()).await?;
    // If no scenario is named, every scenario that the store supports runs.
    let is_selected = |scenario: &Scenario| match args.scenario.is_empty() {
        true => target.keeps_threads() || scenario.needs_only_a_mailbox(),
        false => args.scenario.iter().any(|name| name == scenario.name),
    };
    let selected_scenarios: Vec<Scenario> = SCENARIOS.into_iter().filter(is_selected).collect();
    let bar = TerminalProgress::new("measuring");
    let results = measure(&target, &selected_scenarios, Duration::from_secs(args.seconds), &bar).await;
    bar.finish();
    let limit_description = limit::description(&target);
    let removed = target.remove().await;
    let results = results?;
    removed?;
    print(global, limit_description, &results, out)
}

async fn measure(
    target: &BenchTarget,
    selected_scenarios: &[Scenario],
    duration: Duration,
    bar: &TerminalProgress,
) -> Result<Vec<ScenarioResult>> {
    let duration = duration / ROUNDS;
    let mut results = Vec::new();
    let (total_rounds, mut finished_rounds) = (selected_scenarios.len() as u64 * u64::from(ROUNDS + 1), 0);
    for scenario in selected_scenarios {
        let (loops, iteration) = (scenario.limit_loops(target.is_on_server()), scenario.limit_iteration());
        let (mut store, mut scenario_total, mut limit_total) =
            (target.open().await?, Measurement::default(), Measurement::default());
        for round in 0..=ROUNDS {
            let limit_part = limit::run(target, loops, iteration, duration).await?;
            let (next_store, scenario_part) = run_round(target, store, *scenario, duration).await?;
            store = next_store;
            // The first round only warms up.
            if round > 0 {
                limit_total.add(limit_part);
                scenario_total.add(scenario_part);
            }
            finished_rounds += 1;
            let _goes_on = bar.advance(finished_rounds, Some(total_rounds));
        }
        store.close().await?;
        let (value, limit) =
            (scenario_total.per_second().round(), (limit_total.per_second() * iteration.units).round());
        scenario_total.call_durations.sort_unstable();
        results.push(ScenarioResult {
            scenario: scenario.name,
            unit: scenario.unit(),
            bytes: scenario.bytes,
            value,
            limit,
            loops,
            ratio: (value / limit.max(1.0) * 100.0).round() / 100.0,
            p50_us: percentile(&scenario_total.call_durations, 50),
            p99_us: percentile(&scenario_total.call_durations, 99),
        });
    }
    Ok(results)
}

/// Runs one round of the scenario, and returns the store for the next round. A store in memory is replaced by a new
/// one, because its data would fill the memory.
async fn run_round(
    target: &BenchTarget,
    store: Arc<dyn Store>,
    scenario: Scenario,
    duration: Duration,
) -> Result<(Arc<dyn Store>, Measurement)> {
    let measurement = scenario.run(&*store, duration).await?;
    if !matches!(target, BenchTarget::Memory) {
        return Ok((store, measurement));
    }
    store.close().await?;
    Ok((target.open().await?, measurement))
}

/// Returns the given percentile of the call durations, in microseconds. The durations must be sorted.
fn percentile(call_durations: &[Duration], percent: usize) -> f64 {
    let index = (call_durations.len() * percent / 100).min(call_durations.len().saturating_sub(1));
    call_durations.get(index).map_or(0.0, |took| (took.as_secs_f64() * 1e7).round() / 10.0)
}

fn print(global: &GlobalArgs, limit_description: &str, results: &[ScenarioResult], out: &mut Output) -> Result<Ending> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let store = global.store_url().to_string();
    if out.is_json() {
        let document =
            serde_json::json!({ "store": store, "cores": cores, "limit_is": limit_description, "scenarios": results });
        out.print_document(&document)?;
        return Ok(Ending::Success);
    }
    let mut table = out.table(&["SCENARIO", "PER SECOND", "LIMIT", "RATIO", "P50", "P99"]);
    for result in results {
        table.add_row([
            result.scenario.to_owned(),
            format!("{} {}", result.value, result.unit),
            result.limit.to_string(),
            format!("{:.2}", result.ratio),
            format_micros(result.p50_us),
            format_micros(result.p99_us),
        ]);
    }
    out.print_table(table)?;
    out.print_line(format!("limit: {limit_description}, with the same bytes, in parallel loops; {cores} cores"))?;
    Ok(Ending::Success)
}

/// Formats a number of microseconds for people.
fn format_micros(micros: f64) -> String {
    if micros < 10_000.0 { format!("{micros:.0} µs") } else { format!("{:.0} ms", micros / 1000.0) }
}
