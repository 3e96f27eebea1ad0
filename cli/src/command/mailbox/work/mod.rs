//! `mailbox work`: runs a command for each dispatch.

mod report;

use std::{sync::Arc, time::Duration};

use agentstore::{
    Done, Failure as WorkFailure, Json, LoopHandle, Verdict, Work, WorkSummary, Worker, WorkerId, WorkerOptions,
};
use serde_json::json;
use tokio::sync::mpsc;

use self::report::CommandReport;
use super::Ending;
use crate::{
    args,
    child::{self, CommandInput, CommandOutcome, CommandSpec, EndReason, Environment, KILL_DELAY},
    failure::Result,
    output::Output,
    session::Session,
    signals::Signals,
    text,
};

/// The exit code with which a command postpones its dispatch (`EX_TEMPFAIL` of `sysexits.h`).
const EXIT_CODE_POSTPONE: i32 = 75;
/// The number of bytes at the beginning of a command's standard output that the worker keeps.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// Run a command for each dispatch, until the worker is stopped
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox work --exec ./index.sh --concurrency 4\n  \
    agentstore mailbox work --exec 'jq .payload' --lease 60s --until-idle\n\n\
    The command is run by `sh -c`. It receives the dispatch as a JSON document on standard input, and \
    AGENTSTORE_DISPATCH_ID, AGENTSTORE_THREAD_ID, AGENTSTORE_RUN_ID, AGENTSTORE_ATTEMPT and AGENTSTORE_CLAIM in its \
    environment. AGENTSTORE_URL, AGENTSTORE_MAILBOX, AGENTSTORE_SETTINGS and AGENTSTORE_BLOBS (those of parts that are \
    in another store) and AGENTSTORE_TENANT are those of the worker, so that `agentstore` in the command uses the same stores. The URLs include their passwords. \
    While the worker has a `file:` store open, the command can read the store but not write to it: \
    docs/compositions.md says which stores can be combined.\n\n\
    Exit code 0 acknowledges the dispatch. Its result contains the output of the command: at most 64 KiB, and less if \
    the mailbox does not accept that much. Exit code 75 postpones the dispatch, which uses up no attempt. \
    Any other exit code, or an end by a signal, is a failure: the dispatch is tried again after a pause if it has \
    attempts left, and the end of standard error is recorded as its error. If the claim is lost, the command is killed \
    together with all processes that it started. The same happens if the worker dies: at once on Linux, within a \
    second on other systems.\n\n\
    A command may run twice for one dispatch. AGENTSTORE_DISPATCH_ID is then the same, and AGENTSTORE_CLAIM is \
    greater. It has two integers, INCARNATION.COUNTER: compare the first ones, and if they are equal, the second \
    ones.\n\n\
    After Ctrl-C or SIGTERM the worker makes no more claims, and running commands may finish. After a second signal it \
    ends the commands and releases their dispatches at once. With `--json` the worker prints one line for each command \
    that ended, and the summary on the last line. Each line is a document.\n\n\
    Warnings, for example about a server that is unavailable, go to standard error. Each kind is printed when it first \
    occurs, and then from time to time. The worker waits for a server that is unavailable. An error that waiting does \
    not resolve, for example that the server lost its stored data, ends the worker after `--patience` with exit code \
    1, so that a supervisor can restart it.")]
pub(super) struct Args {
    /// The command, which is run by `sh -c`
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// How long a claim lasts; it is extended while the command runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::parse_duration)]
    lease: Duration,
    /// The greatest number of commands that run at the same time, each for a different thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    concurrency: u32,
    /// The name of the worker; generated if not given
    #[arg(long, value_name = "NAME")]
    worker: Option<WorkerId>,
    /// End when there is nothing to do
    ///
    /// Before it ends, the worker retries the dispatches whose commands failed in this worker. Other dispatches that
    /// become due later stay queued.
    #[arg(long)]
    until_idle: bool,
    /// The longest time that a command may run; without a limit if not given
    ///
    /// A command that runs longer is ended, and its attempt fails.
    #[arg(long, value_name = "TIME", value_parser = args::parse_duration)]
    timeout: Option<Duration>,
    /// How long a dispatch is postponed if its command exits with 75
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::parse_duration)]
    later: Duration,
    /// How long commands may continue after Ctrl-C or SIGTERM before they are ended
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = args::parse_duration)]
    stop_after: Duration,
    /// How long claims may fail with an error that waiting does not resolve, before the worker ends with that error
    ///
    /// Such an error comes from a server that lost its storage, for example. For a server that is only unavailable the
    /// worker waits without a limit.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = args::parse_duration)]
    patience: Duration,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    // A command that is asked to end may continue for `KILL_DELAY`. After it has ended, the handler needs time to read
    // the rest of its output.
    let handler_grace = KILL_DELAY * 2;
    let mut options = WorkerOptions::default()
        .with_lease(args.lease)
        .with_concurrency(args.concurrency)
        .with_stop_deadline(args.stop_after)
        .with_patience(args.patience)
        .with_grace(handler_grace);
    options.deadline = args.timeout;
    if let Some(name) = args.worker {
        options = options.with_name(name);
    }
    let (name, postpone_delay) = (options.name.clone(), args.later);
    let max_result_bytes = session.stores().mailbox_capabilities().max_record_bytes;
    let (report_sender, mut reports) = mpsc::unbounded_channel();
    let spec = Arc::new(CommandSpec { command: args.exec, environment: Environment(session.child_environment()?) });
    let handler = move |work: Work| {
        let (spec, report_sender) = (Arc::clone(&spec), report_sender.clone());
        async move {
            let outcome = run_command(&spec, &work).await;
            // The receiver is dropped if the output failed. The dispatch is settled nevertheless.
            let _ = report_sender.send(CommandReport::new(&work, &outcome));
            handler_result(outcome, postpone_delay, max_result_bytes)
        }
    };
    let mut signals = Signals::new()?;
    let worker = Worker::with_options(session.stores(), session.tenant(), handler, options)?;
    let mut worker_handle = if args.until_idle { worker.start_until_idle()? } else { worker.start()? };
    if !out.is_json() && !args.until_idle {
        out.print_to_stderr(format!(
            "worker {} is waiting for work; press Ctrl-C to stop it",
            text::terminal_safe(name.as_str())
        ));
    }
    let summary = report_until_ended(&mut worker_handle, &mut signals, &mut reports, out).await?;
    // The worker and its handlers have ended, so all reports have been sent.
    while let Ok(report) = reports.try_recv() {
        report.print(out)?;
    }
    print(&summary, out)
}

/// Runs the command for one attempt.
async fn run_command(spec: &CommandSpec, work: &Work) -> CommandOutcome {
    let (dispatch, number) = (work.dispatch(), work.claim_number());
    let bytes = match serde_json::to_vec(dispatch) {
        Ok(document) => document,
        Err(error) => return CommandOutcome::not_run(error.into()),
    };
    let variables = vec![
        ("AGENTSTORE_DISPATCH_ID", dispatch.id.to_string()),
        ("AGENTSTORE_THREAD_ID", dispatch.thread.to_string()),
        ("AGENTSTORE_RUN_ID", dispatch.run.to_string()),
        ("AGENTSTORE_ATTEMPT", work.attempt().to_string()),
        ("AGENTSTORE_CLAIM", format!("{}.{}", number.incarnation, number.counter)),
    ];
    let input = CommandInput { bytes, variables, max_output_bytes: MAX_OUTPUT_BYTES };
    child::run(spec, input, work.cancellation().cancelled()).await
}

/// Prints each command that ends, and passes signals on to the worker, until the worker has ended.
async fn report_until_ended(
    worker_handle: &mut LoopHandle,
    signals: &mut Signals,
    reports: &mut mpsc::UnboundedReceiver<CommandReport>,
    out: &mut Output,
) -> Result<WorkSummary> {
    let stop_token = worker_handle.stop_token();
    loop {
        tokio::select! {
            summary = worker_handle.wait() => return Ok(summary?),
            Some(report) = reports.recv() => report.print(out)?,
            () = signals.next() => {
                if stop_token.is_cancelled() {
                    out.print_to_stderr("releasing the running dispatches");
                    worker_handle.ask_to_abort_attempts();
                } else {
                    out.print_to_stderr(
                        "making no more claims; running commands may finish; a second signal releases their dispatches",
                    );
                    worker_handle.ask_to_stop();
                }
            }
        }
    }
}

/// Returns the result of a command as a JSON document of at most `max_result_bytes` bytes, with as much of `output` as
/// fits. `printed_bytes` is the number of bytes that the command printed; `output` may contain only the first of them.
fn result_document(output: &str, printed_bytes: u64, max_result_bytes: u64) -> String {
    let mut kept = output;
    loop {
        // Bytes that are not UTF-8 become longer as text. So the length of `output` does not tell whether the reader
        // cut it; the number of printed bytes does.
        let is_cut = kept.len() < output.len() || printed_bytes > MAX_OUTPUT_BYTES as u64;
        let document =
            json!({ "exit": 0, "output": kept, "is_cut": is_cut, "printed_bytes": printed_bytes }).to_string();
        let excess = (document.len() as u64).saturating_sub(max_result_bytes);
        if excess == 0 || kept.is_empty() {
            return document;
        }
        // A byte of the output takes at most six bytes in the document.
        let length = kept.len().saturating_sub(usize::try_from(excess.div_ceil(6)).unwrap_or(usize::MAX));
        kept = kept.get(..kept.floor_char_boundary(length)).unwrap_or_default();
    }
}

/// Returns how to settle the dispatch of a command with this outcome. `postpone_delay` is how long exit code 75
/// postpones the dispatch.
fn handler_result(
    outcome: CommandOutcome,
    postpone_delay: Duration,
    max_result_bytes: u64,
) -> Result<Done, WorkFailure> {
    let CommandOutcome { end_reason, output, printed_bytes, error_output } = outcome;
    match end_reason {
        EndReason::Code(0) => {
            let output = String::from_utf8_lossy(&output);
            Ok(Done::ack_with_result(Json::parse(&result_document(&output, printed_bytes, max_result_bytes))?))
        }
        EndReason::Code(EXIT_CODE_POSTPONE) => Ok(Done::Snooze { after: postpone_delay }),
        EndReason::Code(code) => {
            Err(WorkFailure::new(child::with_error_output(format!("exit code {code}"), &error_output)))
        }
        EndReason::Signal(signal) => {
            Err(WorkFailure::new(child::with_error_output(format!("killed by signal {signal}"), &error_output)))
        }
        EndReason::Cancelled(reason) => Err(WorkFailure::new(format!("stopped: {}", reason.name()))),
        EndReason::SystemError(error) => Err(WorkFailure::new(error).with_verdict(Verdict::Retry)),
    }
}

fn print(summary: &WorkSummary, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(&json!({ "summary": summary }))?;
        return Ok(Ending::Success);
    }
    let WorkSummary { acked, retried, snoozed, released, dead_lettered, cancelled, lost, unknown, .. } = summary;
    let mut parts = vec![format!("{acked} done")];
    let others = [
        (retried, "retried"),
        (snoozed, "postponed"),
        (released, "released"),
        (dead_lettered, "dead-lettered"),
        (cancelled, "cancelled"),
        (lost, "with a lost claim"),
        (unknown, "with an unknown outcome"),
    ];
    parts.extend(others.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("{count} {what}")));
    out.print_line(parts.join(", "))?;
    Ok(Ending::Success)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::result_document;

    #[test]
    fn an_oversized_result_is_cut_and_marked_as_cut() {
        let check = |output: &str, printed_bytes: u64, max_result_bytes: u64, is_cut: bool| {
            let text = result_document(output, printed_bytes, max_result_bytes);
            let document: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (&document["is_cut"], &document["printed_bytes"]),
                (&is_cut.into(), &printed_bytes.into()),
                "{text}"
            );
            let kept = document["output"].as_str().unwrap();
            assert!(text.len() as u64 <= max_result_bytes && output.starts_with(kept), "{text}");
            (kept.len(), max_result_bytes - text.len() as u64)
        };
        let (kept_bytes, _) = check("short", 5, 1_000, false);
        assert_eq!(kept_bytes, 5);
        let (kept_bytes, _) = check(&"x".repeat(65_536), 100_000, 1 << 20, true);
        assert_eq!(kept_bytes, 65_536);
        // Nearly all of the space is used, even with control characters, which take six bytes each, and with characters
        // of two bytes.
        for output in ["x".repeat(60_000), "\u{1}".repeat(60_000), "é".repeat(30_000)] {
            let (_, unused_bytes) = check(&output, 60_000, 20_000, true);
            assert!(unused_bytes < 12);
        }
    }
}
