//! `bench`: measures how many operations a store completes in a second, and compares that with the machine's own limit.

mod blobs;
mod layers;
mod limit;
mod peak_memory;
mod rounds;
mod scenario;
mod shared_sync;
mod target;
mod written;

use std::time::Duration;

use indicatif::HumanBytes;

use self::{
    rounds::{ScenarioResult, measure},
    scenario::{DEFAULT_BLOB_MIB, SCENARIOS, Scenario},
    target::BenchTarget,
};
use super::Ending;
use crate::{args::GlobalArgs, failure::Result, output::Output, progress::TerminalProgress};

/// Measure how many operations a store completes in a second, and compare that with the machine's own limit
///
/// The command measures a new store next to the named store, and removes the new store afterwards.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore bench --store file:/mnt/disk/agentstore-data\n  \
    agentstore bench --store memory: --scenario commit-1 --scenario commit-64 --seconds 10 --json\n  \
    agentstore bench --store file:/mnt/disk/agentstore-data --scenario blob-put --blob-mib 1024\n  \
    agentstore bench --store 'nats://queue.example/?assume_sync=true' --scenario dispatch-8\n\n\
    The limit is the rate of loops that write the same bytes to the same medium and do nothing else. There is \
    one loop for each caller, but there are at most 8 if the store is on a server. A scenario with one thread has one \
    loop. A loop appends and calls fdatasync, runs an INSERT, publishes messages to a NATS stream with the same \
    settings, or pushes to a list in memory. The limit and the scenario are measured alternately. A dispatch counts \
    as three writes. Bodies have 600 bytes, or 4 KiB if the name of the scenario ends in `-4k`; the partial answer of a \
    stream checkpoint has 4 KiB. The document and the event of `commit-1-with-document` have a few bytes. Each commit \
    of `commit-1-with-effect-end` ends an effect that was begun before; beginning it is not measured, except in the \
    column WRITTEN.\n\n\
    Some scenarios have other limits. `blob-put` and `blob-get` put a file as a blob, and write a blob to a file; their \
    limit is the copy of a file with the same bytes. `trace-1` reads the trace of a run of 100 entries, which is derived \
    from them; its limit reads the entries. `dispatch-1-with-effects-read` enqueues, claims and settles dispatches one \
    by one, and reads the effects in doubt of each run, as workers do before each attempt; its limit does not read \
    them.\n\n\
    A file store has a second limit, the column SHARED: all callers append the same bytes to one file and wait until \
    they are synced. One of the callers writes and syncs what all of them have handed in (group commit). The column \
    WRITTEN has the number of bytes that the process gave to the system for writing while the scenario ran, divided \
    by the number of commits, documents, checkpoints or dispatches. It is absent if the system does not count them in \
    `/proc/self/io`.")]
pub(crate) struct Args {
    /// Run only this scenario; can be given more than once
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(SCENARIOS.map(|scenario| scenario.name)))]
    scenario: Vec<String>,
    /// How long each scenario runs, in seconds; each of its limits runs for the same time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// The length of the blobs of `blob-put` and `blob-get`, in MiB
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BLOB_MIB, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    blob_mib: u32,
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let target = BenchTarget::new(&global.store_url()).await?;
    // If no scenario is named, every scenario that the store supports runs.
    let is_selected = |scenario: &Scenario| match args.scenario.is_empty() {
        true => target.keeps_threads() || scenario.needs_only_a_mailbox(),
        false => args.scenario.iter().any(|name| name == scenario.name),
    };
    let selected_scenarios = SCENARIOS.into_iter().filter(is_selected);
    let selected_scenarios: Vec<_> = selected_scenarios.map(|selected| selected.with_blob_mib(args.blob_mib)).collect();
    let bar = TerminalProgress::new("measuring");
    let results = measure(&target, &selected_scenarios, Duration::from_secs(args.seconds), &bar).await;
    bar.finish();
    let limit_description = limit::description(&target);
    let removed = target.remove().await;
    let results = results?;
    removed?;
    print(global, limit_description, &results, out)
}

fn print(global: &GlobalArgs, limit_description: &str, results: &[ScenarioResult], out: &mut Output) -> Result<Ending> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let store = global.store_url().to_string();
    let has_shared_limit = results.iter().any(|result| result.shared_limit.is_some());
    let has_written_bytes = results.iter().any(|result| result.written_bytes.is_some());
    if out.is_json() {
        let mut document =
            serde_json::json!({ "store": store, "cores": cores, "limit_is": limit_description, "scenarios": results });
        if has_shared_limit && let Some(fields) = document.as_object_mut() {
            fields.insert("shared_limit_is".to_owned(), shared_sync::DESCRIPTION.into());
        }
        out.print_document(&document)?;
        return Ok(Ending::Success);
    }
    let mut headers = vec!["SCENARIO", "PER SECOND", "LIMIT", "RATIO"];
    headers.extend(has_shared_limit.then_some(["SHARED", "RATIO"]).into_iter().flatten());
    headers.extend(has_written_bytes.then_some("WRITTEN"));
    headers.extend(["P50", "P99"]);
    let mut table = out.table(&headers);
    for result in results {
        table.add_row(table_row(result, has_shared_limit));
    }
    out.print_table(table)?;
    out.print_line(format!("limit: {limit_description}, with the same bytes, in parallel loops; {cores} cores"))?;
    for result in results {
        if let Some(description) = result.limit_is {
            out.print_line(format!("limit of {}: {description}", result.scenario))?;
        }
        if let Some(bytes) = result.peak_memory_bytes {
            out.print_line(format!("memory of {}: at most {}", result.scenario, HumanBytes(bytes)))?;
        }
    }
    if has_shared_limit {
        out.print_line(format!("shared: {}, with the same bytes", shared_sync::DESCRIPTION))?;
    }
    if has_written_bytes {
        out.print_line(
            "written: bytes that the process gave to the system for each commit, document, checkpoint, dispatch, trace or \
             MiB",
        )?;
    }
    Ok(Ending::Success)
}

/// The cells of a result. All results of a store have the same columns.
fn table_row(result: &ScenarioResult, has_shared_limit: bool) -> Vec<String> {
    let mut cells = vec![
        result.scenario.to_owned(),
        format!("{} {}", result.value, result.unit),
        result.limit.to_string(),
        format!("{:.2}", result.ratio),
    ];
    if has_shared_limit {
        cells.push(result.shared_limit.map(|limit| limit.to_string()).unwrap_or_default());
        cells.push(result.shared_ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default());
    }
    cells.extend(result.written_bytes.map(|bytes| bytes.to_string()));
    cells.extend([format_micros(result.p50_us), format_micros(result.p99_us)]);
    cells
}

/// Formats a number of microseconds for people.
fn format_micros(micros: f64) -> String {
    if micros < 10_000.0 { format!("{micros:.0} µs") } else { format!("{:.0} ms", micros / 1000.0) }
}
