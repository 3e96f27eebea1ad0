//! `maintain`: removes finished work, once or in rounds.

use std::{sync::Arc, time::Duration};

use agentstore::{LoopHandle, Maintenance, MaintenanceSummary, Retention};
use indicatif::HumanBytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::Ending;
use crate::{
    args,
    failure::{Failure, Result},
    output::Output,
    progress::TerminalProgress,
    session::Session,
    signals::Signals,
    text::{self, terminal_safe},
};

/// Remove finished work and old data, and end expired claims; repeat until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore maintain --every 1m\n  \
    agentstore maintain --once --dispatches 24h --events 30d --threads 90d\n  \
    agentstore maintain --dry-run --threads 90d\n  \
    agentstore maintain --once --compress-after 30d\n\n\
    An age is a length of time such as `90m`, `24h` or `30d`. With `never` instead of an age, the records are kept \
    forever. The command maintains one tenant. Any number of processes may maintain a store on a server at the same \
    time, even while workers run. Only one process can open a `file:` store: run the command while no other process \
    has the store open.\n\n\
    A dry run counts at most 1,000 dispatches, 1,000 rows and 1,000 threads, and does not count data that deleted \
    threads left behind. With `--json` each round is a document on its own line. Ctrl-C or SIGTERM ends the command \
    after the current call. With `--once` the exit code is 1 if a step failed; without it, the next round tries the \
    step again.")]
pub(crate) struct Args {
    /// Run one round and end
    #[arg(long)]
    once: bool,
    /// The longest pause between two rounds; each pause is random and at least half as long
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = args::parse_duration, conflicts_with_all = ["once", "dry_run"])]
    every: Duration,
    /// How long to keep finished dispatches, including dead letters
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::parse_retention_age)]
    dispatches: args::RetentionAge,
    /// How long to keep outbox rows that were delivered or are dead letters
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::parse_retention_age)]
    outbox: args::RetentionAge,
    /// How long to keep events of threads and runs
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    events: args::RetentionAge,
    /// How long to keep threads that do not change and have no open run, pending input or child threads
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    threads: args::RetentionAge,
    /// How long to keep audit records
    #[arg(long, value_name = "AGE", default_value = "90d", value_parser = args::parse_retention_age)]
    audit: args::RetentionAge,
    /// How long to keep entries of the config feed; config records stay
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    config_feed: args::RetentionAge,
    /// Keep this many of the newest versions of each definition, and those that are published, protected or pinned by
    /// an open run; all if not given
    #[arg(long, value_name = "N")]
    versions: Option<u64>,
    /// How long to keep effects that have ended and whose runs are not open; effects in doubt are always kept
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    effects: args::RetentionAge,
    /// How long to keep spans that were put for a run, from the last put or pin on; those of pinned traces stay
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    traces: args::RetentionAge,
    /// Keep the spans that were put for this many of the newest traces, and those of pinned ones; all if not given
    #[arg(long, value_name = "N")]
    keep_traces: Option<u64>,
    /// How long to keep stream checkpoints that are not replaced; those of runs that are done are removed, too
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::parse_retention_age)]
    stream_checkpoints: args::RetentionAge,
    /// How long to keep blobs that nothing refers to after they were found unused, at least 1h; each round then looks
    /// at every blob
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    unused_blobs: args::RetentionAge,
    /// How long to keep evaluation runs that have ended; pinned ones are always kept
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    evaluations: args::RetentionAge,
    /// Keep this many of the newest evaluation runs of each dataset, whatever their age
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep_evaluations: u64,
    /// Compress the logs of threads that did not change for this time; only for `file:` stores
    #[arg(long, value_name = "AGE", default_value = "never", value_parser = args::parse_retention_age)]
    compress_after: args::RetentionAge,
    /// Only print what one round would do, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// What a round did, and its first error.
struct RoundReport {
    summary: MaintenanceSummary,
    /// The first error as text and as a JSON document.
    first_error: Option<(String, Value)>,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut retention = Retention::default();
    (retention.dispatches, retention.outbox) = (args.dispatches.0, args.outbox.0);
    (retention.events, retention.threads) = (args.events.0, args.threads.0);
    (retention.audit, retention.config_feed) = (args.audit.0, args.config_feed.0);
    (retention.versions, retention.effects) = (args.versions, args.effects.0);
    (retention.stream_checkpoints, retention.blobs) = (args.stream_checkpoints.0, args.unused_blobs.0);
    (retention.traces, retention.newest_traces) = (args.traces.0, args.keep_traces);
    (retention.evaluations, retention.newest_evaluations) = (args.evaluations.0, args.keep_evaluations);
    let mut maintenance =
        Maintenance::new(session.stores(), session.tenant())?.with_retention(retention.clone()).every(args.every);
    if args.dry_run {
        maintenance = maintenance.dry();
    }
    let bar = Arc::new(TerminalProgress::new("compressing logs"));
    if let Some(idle) = args.compress_after.0 {
        if session.stores().log_files().is_none() {
            let header = session.header();
            return Err(Failure::Usage(format!(
                "`--compress-after` needs a `file:` store: `{}` does not keep logs in files",
                terminal_safe(&header.store)
            )));
        }
        maintenance = maintenance.compressing_logs_after(idle)?;
        if args.once || args.dry_run {
            maintenance = maintenance.with_progress(Arc::<TerminalProgress>::clone(&bar));
        }
    }
    let (round_sender, mut rounds) = mpsc::unbounded_channel();
    let maintenance = maintenance.with_report(move |summary, error| {
        let first_error = error.map(|error| (error.to_string(), json!(error)));
        // The receiver is dropped if the output failed. The round has run nevertheless.
        let _ = round_sender.send(RoundReport { summary: *summary, first_error });
    });
    if args.once || args.dry_run {
        let round_result = maintenance.run_once().await;
        bar.finish();
        if let Ok(round) = rounds.try_recv() {
            print_once(&round, &retention, &args, out)?;
        }
        return Ok(round_result.map(|_| Ending::Success)?);
    }
    let mut signals = Signals::new()?;
    let loop_handle = maintenance.start()?;
    if !out.is_json() {
        out.print_to_stderr(format!(
            "maintaining tenant {}; press Ctrl-C to stop",
            terminal_safe(session.tenant().as_str())
        ));
    }
    report_until_ended(loop_handle, &mut signals, &mut rounds, out).await
}

/// Prints what each round did, until the maintenance has ended. A signal asks it to stop.
async fn report_until_ended(
    mut loop_handle: LoopHandle<MaintenanceSummary>,
    signals: &mut Signals,
    rounds: &mut mpsc::UnboundedReceiver<RoundReport>,
    out: &mut Output,
) -> Result<Ending> {
    let summary = loop {
        tokio::select! {
            summary = loop_handle.wait() => break summary?,
            Some(round) = rounds.recv() => print_round(&round, out)?,
            () = signals.next() => loop_handle.ask_to_stop(),
        }
    };
    while let Ok(round) = rounds.try_recv() {
        print_round(&round, out)?;
    }
    if out.is_json() {
        out.print_document(&json!({ "summary": summary }))?;
    } else {
        out.print_line(format!("total: {}", summary_line(&summary)))?;
    }
    Ok(Ending::Success)
}

/// Prints one of many rounds. If the output is text, a round in which nothing was removed and nothing failed is not
/// printed.
fn print_round(round: &RoundReport, out: &mut Output) -> Result<()> {
    if out.is_json() {
        out.print_document(
            &json!({ "did": round.summary, "error": round.first_error.as_ref().map(|(_, error)| error) }),
        )?;
    } else {
        if let Some((error, _)) = &round.first_error {
            out.print_to_stderr(format!(
                "{} failed and will be tried again: {}",
                text::with_noun(round.summary.failed, "step"),
                terminal_safe(error)
            ));
        }
        if round.summary.logs > 0 || removed_by_kind(&round.summary).iter().any(|(_, count)| *count > 0) {
            out.print_line(summary_line(&round.summary))?;
        }
    }
    out.flush()
}

/// Prints the round of `--once` or `--dry-run`.
fn print_once(round: &RoundReport, retention: &Retention, args: &Args, out: &mut Output) -> Result<()> {
    let is_dry_run = args.dry_run;
    if out.is_json() {
        return out.print_document(&json!({ "did": round.summary, "dry_run": is_dry_run }));
    }
    let age_text =
        |age: Option<Duration>| age.map_or_else(|| "forever".to_owned(), |age| text::format_duration(age.as_secs()));
    // In the order of `removed_by_kind`. Expired claims and deleted threads have no age.
    let ages = [
        String::new(),
        age_text(retention.dispatches),
        age_text(retention.outbox),
        age_text(retention.threads),
        String::new(),
        age_text(retention.events),
        age_text(retention.audit),
        age_text(retention.config_feed),
        retention.versions.map_or_else(|| "forever".to_owned(), |count| format!("the newest {count}")),
        age_text(retention.effects),
        traces_text(retention.traces, retention.newest_traces),
        "their time".to_owned(),
        age_text(retention.stream_checkpoints),
        age_text(retention.blobs),
        age_text(retention.evaluations),
    ];
    let more = if round.summary.more { " or more" } else { "" };
    let mut table = out.table(&["what", if is_dry_run { "would be removed" } else { "removed" }, "kept for"]);
    for ((what, count), age) in removed_by_kind(&round.summary).into_iter().zip(ages) {
        // One call counts at most 1,000 records, so the real number may be higher.
        let more = if count >= 1_000 { more } else { "" };
        table.add_row([what.to_owned(), format!("{count}{more}"), age]);
    }
    out.print_table(table)?;
    if args.compress_after.0.is_some() {
        out.print_line(compression_line(&round.summary, is_dry_run))?;
    }
    out.flush()
}

/// Returns how long spans that were put are kept.
fn traces_text(age: Option<Duration>, newest: Option<u64>) -> String {
    let age = age.map(|age| text::format_duration(age.as_secs()));
    let newest = newest.map(|count| format!("the newest {count}"));
    match (age, newest) {
        (Some(age), Some(newest)) => format!("{age}, {newest}"),
        (age, newest) => age.or(newest).unwrap_or_else(|| "forever".to_owned()),
    }
}

fn removed_by_kind(summary: &MaintenanceSummary) -> [(&'static str, u64); 15] {
    [
        ("expired claims", summary.reclaimed),
        ("dispatches", summary.dispatches),
        ("outbox rows", summary.outbox),
        ("idle threads", summary.threads),
        ("deleted threads", summary.deleted),
        ("events", summary.events),
        ("audit records", summary.audit_records),
        ("config entries", summary.config_entries),
        ("versions", summary.versions),
        ("effects", summary.effects),
        ("traces", summary.traces),
        ("replay records", summary.replay_records),
        ("stream checkpoints", summary.stream_checkpoints),
        ("blobs", summary.blobs),
        ("evaluation runs", summary.evaluations),
    ]
}

/// Returns what was done, in one line.
fn summary_line(summary: &MaintenanceSummary) -> String {
    let parts: Vec<_> = removed_by_kind(summary)
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let removed =
        if parts.is_empty() { "nothing was removed".to_owned() } else { format!("removed: {}", parts.join(", ")) };
    if summary.logs == 0 { removed } else { format!("{removed}; {}", compression_line(summary, false)) }
}

/// Returns what was compressed, in one line.
fn compression_line(summary: &MaintenanceSummary, is_dry_run: bool) -> String {
    let MaintenanceSummary { logs, log_bytes_before, log_bytes_after, damaged_logs, .. } = summary;
    let (logs, before) = (text::with_noun(*logs, "log"), HumanBytes(*log_bytes_before));
    let damaged = match damaged_logs {
        0 => String::new(),
        count => format!("; {} left as they are", text::with_noun(*count, "damaged log")),
    };
    if is_dry_run {
        return format!("would compress {logs} of {before}{damaged}");
    }
    format!("compressed {logs}: {before} before, {} now{damaged}", HumanBytes(*log_bytes_after))
}
