//! Measures scenarios and their limits alternately, in rounds.

use std::{sync::Arc, time::Duration};

use agentstore::{Progress as _, Result, Store};
use serde::Serialize;

use super::{
    blobs::CopyFolder,
    limit,
    peak_memory::{peak_bytes, reset_peak},
    scenario::{Limit, Measurement, Scenario},
    shared_sync,
    target::BenchTarget,
    written::written_bytes,
};
use crate::progress::TerminalProgress;

/// The number of rounds that are counted. In each round, the limits are measured first and then the scenario.
const ROUNDS: u32 = 5;

/// The result of a scenario.
#[derive(Debug, Serialize)]
pub(super) struct ScenarioResult {
    pub(super) scenario: &'static str,
    pub(super) unit: &'static str,
    /// The length of each message body or payload.
    bytes: usize,
    /// The number of units that the store completed per second.
    pub(super) value: f64,
    /// The number of units per second to which the writes of the limit loops correspond.
    pub(super) limit: f64,
    /// What the limit is, if it is not that of most scenarios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit_is: Option<&'static str>,
    /// The number of limit loops.
    loops: usize,
    /// The value divided by the limit.
    pub(super) ratio: f64,
    /// The same for one file to which all callers append with a shared sync, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared_limit: Option<f64>,
    /// The value divided by this limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared_ratio: Option<f64>,
    /// How many bytes the process gave to the operating system for writing, for each unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) written_bytes: Option<f64>,
    /// The greatest number of bytes of memory that the process had while blobs were put or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peak_memory_bytes: Option<u64>,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// The sums of the counted rounds of a scenario.
struct Totals {
    scenario: Measurement,
    limit: Measurement,
    /// Measured for a file store only.
    shared_limit: Option<Measurement>,
    /// Counted for a file store only, and only on systems that count written bytes.
    written_bytes: Option<u64>,
    /// Recorded for blobs only.
    peak_memory_bytes: Option<u64>,
}

/// Measures the scenarios one after the other.
///
/// # Errors
/// Those of the store, and `Unavailable` if a limit cannot be measured.
pub(super) async fn measure(
    target: &BenchTarget,
    selected_scenarios: &[Scenario],
    duration: Duration,
    bar: &TerminalProgress,
) -> Result<Vec<ScenarioResult>> {
    let duration = duration / ROUNDS;
    let mut results = Vec::new();
    let (total_rounds, mut finished_rounds) = (selected_scenarios.len() as u64 * u64::from(ROUNDS + 1), 0);
    for scenario in selected_scenarios {
        let files = scenario.copy_folder(target)?;
        let mut store = target.open().await?;
        let mut totals = Totals::new(target, *scenario);
        for round in 0..=ROUNDS {
            // The first round only warms up.
            if round == 1 {
                totals = Totals::new(target, *scenario);
            }
            store = totals.add_round((target, files.as_ref()), store, *scenario, duration).await?;
            finished_rounds += 1;
            let _goes_on = bar.advance(finished_rounds, Some(total_rounds));
        }
        store.close().await?;
        results.push(totals.result(target, *scenario));
    }
    Ok(results)
}

impl Totals {
    fn new(target: &BenchTarget, scenario: Scenario) -> Self {
        let of_file_store = target.file_store_folder();
        let of_loops = of_file_store.filter(|_| scenario.limit() == Limit::Loops);
        Self {
            scenario: Measurement::default(),
            limit: Measurement::default(),
            shared_limit: of_loops.map(|_| Measurement::default()),
            written_bytes: of_file_store.map(|_| 0),
            peak_memory_bytes: None,
        }
    }

    /// Runs a round and adds what it measured. Returns the store for the next round. A store in memory is replaced by
    /// a new one, because its data would fill the memory.
    async fn add_round(
        &mut self,
        (target, files): (&BenchTarget, Option<&Arc<CopyFolder>>),
        store: Arc<dyn Store>,
        scenario: Scenario,
        duration: Duration,
    ) -> Result<Arc<dyn Store>> {
        let iteration = scenario.limit_iteration();
        let loops = scenario.limit_loops(target.is_on_server());
        self.limit.add(match (scenario.limit(), files) {
            (Limit::Scenario(limit, _), _) => limit.run(&*store, files, duration).await?,
            (Limit::Copies, Some(files)) => files.run_copies(duration)?,
            _ => limit::run(target, loops, iteration, duration).await?,
        });
        if let (Some(total), Some(folder)) = (&mut self.shared_limit, target.file_store_folder()) {
            total.add(shared_sync::run(folder, scenario.callers, iteration.bytes(), duration).await?);
        }
        let written_before = written_bytes();
        reset_peak();
        self.scenario.add(scenario.run(&*store, files, duration).await?);
        if scenario.is_about_blobs() {
            self.peak_memory_bytes = self.peak_memory_bytes.max(peak_bytes());
        }
        self.written_bytes = self.written_bytes.and_then(|sum| Some(sum + written_bytes()? - written_before?));
        if !matches!(target, BenchTarget::Memory) {
            return Ok(store);
        }
        store.close().await?;
        target.open().await
    }

    fn result(mut self, target: &BenchTarget, scenario: Scenario) -> ScenarioResult {
        let units = scenario.limit_iteration().units;
        let value = self.scenario.per_second().round();
        let per_second = |measurement: &Measurement| (measurement.per_second() * units).round();
        let ratio_to = |limit: f64| (value / limit.max(1.0) * 100.0).round() / 100.0;
        let limit = per_second(&self.limit);
        let shared_limit = self.shared_limit.as_ref().map(per_second);
        let count = self.scenario.count.max(1) as f64;
        self.scenario.call_durations.sort_unstable();
        ScenarioResult {
            scenario: scenario.name,
            unit: scenario.unit(),
            bytes: scenario.bytes,
            value,
            limit,
            limit_is: scenario.limit_description(),
            loops: scenario.limit_loops(target.is_on_server()),
            ratio: ratio_to(limit),
            shared_limit,
            shared_ratio: shared_limit.map(ratio_to),
            written_bytes: self.written_bytes.map(|bytes| (bytes as f64 / count).round()),
            peak_memory_bytes: self.peak_memory_bytes,
            p50_us: percentile(&self.scenario.call_durations, 50),
            p99_us: percentile(&self.scenario.call_durations, 99),
        }
    }
}

/// Returns the given percentile of the call durations, in microseconds. The durations must be sorted.
fn percentile(call_durations: &[Duration], percent: usize) -> f64 {
    let index = (call_durations.len() * percent / 100).min(call_durations.len().saturating_sub(1));
    call_durations.get(index).map_or(0.0, |took| (took.as_secs_f64() * 1e7).round() / 10.0)
}
