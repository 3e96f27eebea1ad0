//! `eval run`: runs a command for each result that an evaluation run does not have yet.

use std::{num::NonZeroUsize, str::FromStr, sync::Arc, time::Duration};

use agentstore::{
    CellId, Error, ErrorKind, Evaluation, EvaluationEnd, EvaluationId, EvaluationReaderExt, EvaluationStatus,
    EvaluationStore, IdSource, Json, MAX_PAGE, NewEvaluation, PageRequest, Progress, PublicationId, UuidSource,
};
use tokio::task::JoinSet;

use super::{Ending, SummaryDocument, missing_results, print_summary, task::Task};
use crate::{
    args,
    child::{CommandSpec, Environment},
    command::dataset::target::DatasetArg,
    document_arg::parse_json,
    failure::{Failure, Result},
    output::Output,
    progress::TerminalProgress,
    session::Session,
    signals::Signals,
    text::{terminal_safe, with_noun},
};

/// Run a command for each case, cell and sample, and record its result
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval run --dataset sums --exec ./answer.sh --id before\n  \
    agentstore eval run --dataset sums@1 --exec ./answer.sh --concurrency 4 --samples 3 \\\n      \
    --cell 'small={\"model\":\"s\"}' --cell 'large={\"model\":\"l\"}'\n\n\
    The command is run by `sh -c`. It receives a JSON document on standard input: `evaluation`, `dataset`, `manifest`, \
    `case` (with `id` and `content`: `input`, `expectation`, `tool_results` and so on), `cell` (`name`, `parameters`) \
    and `sample`. It prints a JSON object with any of the fields `output` (any JSON), `score` (a number, more is \
    better), `thread` and `run` (where the agent worked) and `metadata`.\n\n\
    A result is failed if the command ends with another exit code than 0 or by a signal, prints anything else, or runs \
    longer than `--timeout`; the reason is recorded. Failed results are results: they are not tried again in the same \
    run.\n\n\
    Each result is written as soon as its command has ended. After a kill or Ctrl-C, the same command with the same \
    `--id` goes on with what is missing. In the environment of the command, AGENTSTORE_URL, AGENTSTORE_MAILBOX, \
    AGENTSTORE_SETTINGS, AGENTSTORE_BLOBS and AGENTSTORE_TENANT are those of this process. While it has a `file:` store open, the command can read the store but \
    not write to it.\n\n\
    Exit codes: 0 all results are there and none is failed, 1 results are failed or missing, or an error, 2 invalid \
    command line.")]
pub(super) struct Args {
    /// The dataset, `NAME` or `NAME@VERSION`; the current version if none is given
    #[arg(long, value_name = "NAME[@VERSION]")]
    dataset: DatasetArg,
    /// The command, which is run by `sh -c`
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// What is varied: a name, and parameters as JSON; can be given more than once
    #[arg(long = "cell", value_name = "NAME=JSON")]
    cells: Vec<CellArg>,
    /// The number of results for each case and cell
    #[arg(long, value_name = "N", default_value_t = 1)]
    samples: u32,
    /// The greatest number of commands that run at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    concurrency: NonZeroUsize,
    /// The longest time that a command may run
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = args::parse_duration)]
    timeout: Duration,
    /// The publication of the registry that is tested
    #[arg(long, value_name = "PUBLICATION")]
    manifest: Option<PublicationId>,
    /// The id of the evaluation run; generated if not given
    #[arg(long)]
    id: Option<EvaluationId>,
}

/// A cell: `NAME=JSON`.
#[derive(Debug, Clone)]
struct CellArg {
    name: CellId,
    parameters: Json,
}

impl FromStr for CellArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameters) = text.split_once('=').ok_or("it must be `NAME=JSON`")?;
        let name = name.parse().map_err(|error: Error| error.to_string())?;
        Ok(Self { name, parameters: parse_json(parameters)? })
    }
}

impl Args {
    fn request(&self, id: EvaluationId) -> NewEvaluation {
        let mut new = NewEvaluation::new(id, self.dataset.dataset.clone()).with_samples(self.samples);
        (new.version, new.manifest) = (self.dataset.version, self.manifest.clone());
        self.cells.iter().fold(new, |new, cell| new.cell(cell.name.clone(), cell.parameters.clone()))
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let evaluations = session.evaluations()?;
    let id = args.id.clone().map_or_else(|| EvaluationId::new(UuidSource.next_id()), Ok)?;
    let evaluation = evaluations.create_evaluation(args.request(id.clone())).await?;
    if evaluation.status == EvaluationStatus::Abandoned {
        return Err(Error::invalid_transition("evaluation", &id, "abandoned", "running").into());
    }
    if args.id.is_none() && !out.is_json() {
        out.print_to_stderr(format!("evaluation {id}; after an interruption, go on with `--id {id}`"));
    }
    let spec = CommandSpec { command: args.exec, environment: Environment(session.child_environment()?) };
    let task = Task {
        evaluations: Arc::clone(&evaluations),
        datasets: session.datasets()?,
        evaluation: Arc::new(evaluation.clone()),
        spec: Arc::new(spec),
        timeout: args.timeout,
    };
    let stored = evaluations.summarize_evaluation(&id).await?.results;
    let mut runner = Runner { task, tasks: JoinSet::new(), limit: args.concurrency.get(), done: stored };
    let bar = TerminalProgress::new("evaluating");
    let is_stopped = runner.run_missing(&bar, &mut Signals::new()?).await;
    bar.finish();
    let ended = if is_stopped? { None } else { end(&id, &*evaluations).await? };
    report(ended.unwrap_or(evaluation), &*evaluations, out).await
}

/// Completes the run; none if results are missing, because another process works on them.
async fn end(id: &EvaluationId, evaluations: &dyn EvaluationStore) -> Result<Option<Evaluation>> {
    match evaluations.end_evaluation(id, EvaluationEnd::Completed).await {
        Err(error) if error.kind() == ErrorKind::InvalidTransition => Ok(None),
        ended => Ok(Some(ended?)),
    }
}

/// Runs the tasks of an evaluation run.
struct Runner {
    task: Task,
    tasks: JoinSet<Result<()>>,
    /// How many tasks run at the same time.
    limit: usize,
    /// The number of results that are there.
    done: u64,
}

impl Runner {
    /// Runs a task for each missing result. Returns whether a signal has stopped it; then running commands are killed.
    async fn run_missing(&mut self, bar: &TerminalProgress, signals: &mut Signals) -> Result<bool> {
        let (id, total) = (self.task.evaluation.id.clone(), self.task.evaluation.expected_results());
        let mut next = Some(PageRequest::first(MAX_PAGE));
        while let Some(page) = next.take() {
            let missing = self.task.evaluations.list_missing(&id, page.clone()).await?;
            for missing in missing.items {
                while self.tasks.len() >= self.limit {
                    if self.wait_for_one(signals).await? {
                        return Ok(true);
                    }
                    bar.advance(self.done, Some(total));
                }
                self.tasks.spawn(self.task.clone().run(missing.key));
            }
            next = missing.next.map(|cursor| page.after(cursor));
        }
        while !self.tasks.is_empty() {
            if self.wait_for_one(signals).await? {
                return Ok(true);
            }
            bar.advance(self.done, Some(total));
        }
        Ok(false)
    }

    /// Waits until a task has ended. Returns whether a signal came first.
    async fn wait_for_one(&mut self, signals: &mut Signals) -> Result<bool> {
        tokio::select! {
            Some(ended) = self.tasks.join_next() => {
                ended.map_err(|error| Failure::io("a task failed", error.into()))??;
                self.done += 1;
                Ok(false)
            }
            () = signals.next() => {
                self.tasks.shutdown().await;
                Ok(true)
            }
        }
    }
}

/// Prints the results in all. The run has a problem if results are failed or missing.
async fn report(evaluation: Evaluation, evaluations: &dyn EvaluationStore, out: &mut Output) -> Result<Ending> {
    let summary = evaluations.summarize_evaluation(&evaluation.id).await?;
    let missing = missing_results(&evaluation, &summary);
    if out.is_json() {
        out.print_document(&SummaryDocument { evaluation: &evaluation, summary: &summary, missing })?;
    } else {
        print_summary(&evaluation, &summary, out)?;
        if missing > 0 {
            let (id, results) = (terminal_safe(evaluation.id.as_str()), with_noun(missing, "result"));
            out.print_to_stderr(format!("{results} missing: go on with the same command and `--id {id}`"));
        }
    }
    Ok(if missing > 0 || summary.failed > 0 { Ending::Problem } else { Ending::Success })
}
