//! The output of the demo: each step as soon as it has ended, and totals at the end.

use std::{fmt::Display, time::Instant};

use serde::Serialize;

use crate::{
    command::Ending,
    failure::Result,
    output::Output,
    session::{Session, StoreHeader},
    text::terminal_safe,
};

/// Prints the steps of the demo, and collects them for the totals.
pub(super) struct DemoReport<'a> {
    out: &'a mut Output,
    header: StoreHeader,
    started_at: Instant,
    steps: Vec<Step>,
}

/// A step of the demo.
#[derive(Debug, Clone, Serialize)]
struct Step {
    step: &'static str,
    outcome: StepOutcome,
    /// What was done.
    did: String,
    /// What that proved, which checks failed, or why the step was skipped.
    proved: String,
    millis: u64,
    figures: serde_json::Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum StepOutcome {
    Proved,
    Failed,
    Skipped,
}

/// The result of a step.
pub(super) struct StepResult {
    pub(super) did: String,
    pub(super) proved: &'static str,
    /// The checks that failed.
    pub(super) failed_checks: Vec<String>,
    pub(super) figures: serde_json::Value,
}

/// The whole demo as JSON.
#[derive(Serialize)]
struct DemoDocument<'a> {
    #[serde(flatten)]
    header: &'a StoreHeader,
    proved: usize,
    failed: usize,
    skipped: usize,
    millis: u64,
    kept: Option<&'a str>,
    steps: &'a [Step],
}

impl<'a> DemoReport<'a> {
    /// Makes a report, and prints the description of the store.
    pub(super) fn begin(session: &Session, out: &'a mut Output) -> Result<Self> {
        let header = session.header();
        if !out.is_json() {
            out.print_line(out.style(header.line()).dim())?;
            out.flush()?;
        }
        Ok(Self { out, header, started_at: now(), steps: Vec::new() })
    }

    /// Returns the output, to print further text.
    pub(super) fn out(&mut self) -> &mut Output {
        self.out
    }

    /// Adds a step, and prints it with the time since `started_at`.
    pub(super) fn add_step(&mut self, step: &'static str, started_at: Instant, step_result: StepResult) -> Result<()> {
        let StepResult { did, proved, failed_checks, figures } = step_result;
        let (outcome, proved) = match failed_checks.as_slice() {
            [] => (StepOutcome::Proved, proved.to_owned()),
            failed_checks => (StepOutcome::Failed, failed_checks.join("; ")),
        };
        let step = Step { step, outcome, did, proved, millis: millis(started_at), figures };
        self.record_step(step)
    }

    /// Adds a step that this store does not support, and prints the reason.
    pub(super) fn add_skipped_step(&mut self, step: &'static str, reason: &str) -> Result<()> {
        let figures = serde_json::json!({});
        let step = Step {
            step,
            outcome: StepOutcome::Skipped,
            did: "skipped".to_owned(),
            proved: reason.to_owned(),
            millis: 0,
            figures,
        };
        self.record_step(step)
    }

    fn record_step(&mut self, step: Step) -> Result<()> {
        let out = &mut *self.out;
        if !out.is_json() {
            let mark: &dyn Display = match step.outcome {
                StepOutcome::Proved => &out.style("✔").green(),
                StepOutcome::Failed => &out.style("✘").red(),
                StepOutcome::Skipped => &out.style("–").yellow(),
            };
            let label = match step.outcome {
                StepOutcome::Proved => "proved:",
                StepOutcome::Failed => "failed:",
                StepOutcome::Skipped => "because",
            };
            let head = format!("{mark} {} {}", out.style(format!("{:<9}", step.step)).bold(), terminal_safe(&step.did));
            let proof = format!("            {label} {}", terminal_safe(&step.proved));
            out.print_line(head)?;
            out.print_line(proof)?;
            out.flush()?;
        }
        self.steps.push(step);
        Ok(())
    }

    /// Prints the totals, and returns how the command ended. `kept` is the URL of the store, if the store was kept.
    pub(super) fn end(self, kept: Option<&str>) -> Result<Ending> {
        let count = |outcome| self.steps.iter().filter(|step| step.outcome == outcome).count();
        let document = DemoDocument {
            header: &self.header,
            proved: count(StepOutcome::Proved),
            failed: count(StepOutcome::Failed),
            skipped: count(StepOutcome::Skipped),
            millis: millis(self.started_at),
            kept,
            steps: &self.steps,
        };
        let ending = if document.failed == 0 { Ending::Success } else { Ending::Problem };
        let out = self.out;
        if out.is_json() {
            out.print_document(&document)?;
            return Ok(ending);
        }
        let DemoDocument { proved, failed, skipped, millis, .. } = document;
        out.print_line("")?;
        out.print_line(format!("{proved} steps proved, {failed} failed, {skipped} skipped, in {millis} ms"))?;
        if let Some(kept) = kept {
            out.print_line(format!(
                "the store was kept: inspect it with `agentstore threads --store {}`",
                terminal_safe(kept)
            ))?;
        }
        Ok(ending)
    }
}

/// Returns the time, to measure how long a step takes.
#[expect(clippy::disallowed_methods, reason = "a duration is only shown to people, and no decision depends on it")]
pub(super) fn now() -> Instant {
    Instant::now()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
