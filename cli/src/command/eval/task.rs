//! One result of an evaluation run: runs the command of the user, and records what it gave.

use std::{sync::Arc, time::Duration};

use agentstore::{
    CancelReason, Cell, DatasetCase, DatasetStore, Error, ErrorKind, Evaluation, EvaluationId, EvaluationStore, Json,
    NewResult, PublicationId, ResultKey, RunId, Score, ThreadId,
};
use serde::{Deserialize, Serialize};

use crate::{
    child::{self, CommandInput, CommandOutcome, CommandSpec, EndReason},
    failure::{Failure, Result},
    text::format_duration,
};

/// The number of bytes that a command may print.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// What every task of an evaluation run needs.
#[derive(Clone)]
pub(super) struct Task {
    pub(super) evaluations: Arc<dyn EvaluationStore>,
    pub(super) datasets: Arc<dyn DatasetStore>,
    pub(super) evaluation: Arc<Evaluation>,
    pub(super) spec: Arc<CommandSpec>,
    pub(super) timeout: Duration,
}

/// What the command receives on standard input.
#[derive(Serialize)]
struct Input<'a> {
    evaluation: &'a EvaluationId,
    dataset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a PublicationId>,
    case: &'a DatasetCase,
    cell: &'a Cell,
    sample: u32,
}

/// What the command prints.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    output: Option<Json>,
    score: Option<Score>,
    thread: Option<ThreadId>,
    run: Option<RunId>,
    metadata: Option<Json>,
}

impl Task {
    /// Computes and records a result, unless another process has recorded it meanwhile.
    pub(super) async fn run(self, key: ResultKey) -> Result<()> {
        let Evaluation { id, dataset, .. } = &*self.evaluation;
        if self.evaluations.load_result(id, &key).await?.is_some() {
            return Ok(());
        }
        let found = self.datasets.load_case(dataset, &key.case).await?;
        let case = found.ok_or_else(|| Error::not_found("case", &key.case))?;
        let outcome = child::run(&self.spec, self.input(&case, &key)?, async {
            tokio::time::sleep(self.timeout).await;
            CancelReason::Deadline
        });
        let result = result_of(key, outcome.await, self.timeout)?;
        match self.evaluations.record_result(id, result).await {
            // Another process was faster. Its result stays.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            recorded => Ok(recorded.map(drop)?),
        }
    }

    fn input(&self, case: &DatasetCase, key: &ResultKey) -> Result<CommandInput> {
        let Evaluation { id, dataset, manifest, cells, .. } = &*self.evaluation;
        let cell = cells.iter().find(|cell| cell.name == key.cell);
        let cell = cell.ok_or_else(|| Error::not_found("cell", &key.cell))?;
        let (dataset, sample) = (dataset.to_string(), key.sample);
        let input = Input { evaluation: id, dataset, manifest: manifest.as_ref(), case, cell, sample };
        let variables = vec![
            ("AGENTSTORE_EVALUATION_ID", id.to_string()),
            ("AGENTSTORE_CASE_ID", key.case.to_string()),
            ("AGENTSTORE_CELL", key.cell.to_string()),
            ("AGENTSTORE_SAMPLE", key.sample.to_string()),
        ];
        Ok(CommandInput { bytes: serde_json::to_vec(&input)?, variables, max_output_bytes: MAX_OUTPUT_BYTES })
    }
}

/// Returns the result of a command with this outcome: what it printed, or a failed result with the reason.
///
/// # Errors
/// The command could not be run at all. That is no result of the agent.
fn result_of(key: ResultKey, outcome: CommandOutcome, timeout: Duration) -> Result<NewResult> {
    let CommandOutcome { end_reason, output, printed_bytes, error_output } = outcome;
    let reason = match end_reason {
        EndReason::Code(0) => match read_output(&output, printed_bytes) {
            Ok(printed) => return Ok(printed.into_result(key)),
            Err(reason) => reason,
        },
        EndReason::Code(code) => format!("exit code {code}"),
        EndReason::Signal(signal) => format!("killed by signal {signal}"),
        EndReason::Cancelled(_) => format!("stopped after {}", format_duration(timeout.as_secs())),
        EndReason::SystemError(error) => return Err(Failure::io("the command cannot be run", error)),
    };
    Ok(NewResult::failed(key, child::with_error_output(reason, &error_output)))
}

fn read_output(output: &[u8], printed_bytes: u64) -> Result<Printed, String> {
    if printed_bytes > MAX_OUTPUT_BYTES as u64 {
        return Err(format!("it printed {printed_bytes} bytes, more than {MAX_OUTPUT_BYTES}"));
    }
    serde_json::from_slice(output).map_err(|error| format!("its output is not a result: {error}"))
}

impl Printed {
    fn into_result(self, key: ResultKey) -> NewResult {
        let Self { output, score, thread, run, metadata } = self;
        let mut result = NewResult::new(key);
        (result.output, result.score, result.metadata) = (output, score, metadata);
        (result.thread, result.run) = (thread, run);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use agentstore::{CancelReason, NewResult, ResultKey};

    use super::{MAX_OUTPUT_BYTES, result_of};
    use crate::child::{CommandOutcome, EndReason};

    fn result(end_reason: EndReason, output: &str, printed_bytes: u64) -> Option<NewResult> {
        let key = ResultKey::new("a".parse().unwrap(), "x".parse().unwrap(), 1);
        let (output, error_output) = (output.as_bytes().to_vec(), "a warning\n".to_owned());
        let outcome = CommandOutcome { end_reason, output, printed_bytes, error_output };
        result_of(key, outcome, Duration::from_secs(90)).ok()
    }

    #[test]
    fn the_output_of_a_command_is_its_result() {
        let read = |output: &str| result(EndReason::Code(0), output, output.len() as u64).unwrap();
        let full = read("{\"output\":{\"b\":1.0},\"score\":0.50,\"thread\":\"t\",\"run\":\"r\",\"metadata\":[1]}\n");
        assert_eq!(full.output.unwrap().as_str(), r#"{"b":1.0}"#);
        assert_eq!((full.score.unwrap().to_string(), full.error), ("0.50".to_owned(), None));
        assert_eq!((full.thread.unwrap().as_str(), full.run.unwrap().as_str()), ("t", "r"));
        assert_eq!(full.metadata.unwrap().as_str(), "[1]");
        let empty = read("{}");
        assert_eq!((empty.output, empty.score, empty.error), (None, None, None));
    }

    #[test]
    fn everything_else_is_a_failed_result_with_the_reason() {
        let check = |end_reason: EndReason, output: &str, printed_bytes: u64, reason: &str| {
            let failed = result(end_reason, output, printed_bytes).unwrap();
            let error = failed.error.unwrap();
            assert!(error.starts_with(reason) && error.ends_with(": a warning"), "{error}");
            assert_eq!((failed.output, failed.score), (None, None));
        };
        check(EndReason::Code(3), "{}", 2, "exit code 3");
        check(EndReason::Signal(9), "{}", 2, "killed by signal 9");
        check(EndReason::Cancelled(CancelReason::Deadline), "", 0, "stopped after 1m 30s");
        for output in ["", "no JSON", "[1]", "{\"scor\":1}", "{\"score\":\"good\"}", "{} {}", "{\"run\":\"\"}"] {
            check(EndReason::Code(0), output, output.len() as u64, "its output is not a result: ");
        }
        check(EndReason::Code(0), "{}", MAX_OUTPUT_BYTES as u64 + 1, "it printed 16777217 bytes");
        assert!(result(EndReason::SystemError(io::Error::other("x")), "", 0).is_none());
    }
}
