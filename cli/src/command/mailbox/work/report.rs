//! The report about a command that ended.

use agentstore::{DispatchId, RunId, ThreadId, Work};
use serde::Serialize;

use crate::{
    child::{CommandOutcome, EndReason},
    failure::Result,
    output::Output,
    text::terminal_safe,
};

/// What the worker prints about a command that ended.
#[derive(Debug, Serialize)]
pub(super) struct CommandReport {
    dispatch: DispatchId,
    thread: ThreadId,
    run: RunId,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl CommandReport {
    pub(super) fn new(work: &Work, outcome: &CommandOutcome) -> Self {
        let dispatch = work.dispatch();
        let mut report = Self {
            dispatch: dispatch.id.clone(),
            thread: dispatch.thread.clone(),
            run: dispatch.run.clone(),
            attempt: work.attempt(),
            exit: None,
            signal: None,
            stopped: None,
            error: None,
        };
        match &outcome.end_reason {
            EndReason::Code(code) => report.exit = Some(*code),
            EndReason::Signal(signal) => report.signal = Some(*signal),
            EndReason::Cancelled(reason) => report.stopped = Some(reason.name()),
            EndReason::SystemError(error) => report.error = Some(error.to_string()),
        }
        report
    }

    /// Prints the report and flushes the output, so that a reader that follows the output gets it at once.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        if out.is_json() {
            out.print_document(self)?;
        } else {
            let how_it_ended = match (self.exit, self.signal, self.stopped, &self.error) {
                (Some(code), ..) => format!("exit code {code}"),
                (_, Some(signal), ..) => format!("killed by signal {signal}"),
                (.., Some(reason), _) => format!("stopped: {reason}"),
                (.., error) => format!("not run: {}", terminal_safe(error.as_deref().unwrap_or_default())),
            };
            let (dispatch, thread) = (terminal_safe(self.dispatch.as_str()), terminal_safe(self.thread.as_str()));
            out.print_line(format!(
                "dispatch {dispatch} of thread {thread}, attempt {}: {how_it_ended}",
                self.attempt
            ))?;
        }
        out.flush()
    }
}
