//! `runs`: lists runs and how they ended.

use agentstore::{Direction, Run, RunFilter, RunOutcome, RunQuery, RunStatus, ThreadId};
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List runs, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore runs t-42")]
pub(crate) struct Args {
    /// Only runs of this thread
    thread: Option<ThreadId>,
    /// The greatest number of runs to list; all if not given
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    if let Some(thread) = &args.thread {
        session.require_thread(thread).await?;
    }
    let runs = list(args, session).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "runs")?;
        runs.iter().try_for_each(|run| list.item(run))?;
        list.end()?;
    } else if runs.is_empty() {
        out.print_line("no runs")?;
    } else {
        print(&runs, out)?;
    }
    Ok(Ending::Success)
}

async fn list(args: Args, session: &Session) -> Result<Vec<Run>> {
    let threads = session.threads()?;
    let mut filter = RunFilter::default();
    filter.thread = args.thread;
    let mut query = RunQuery::new(filter);
    query.direction = Direction::Backward;
    let mut runs = Vec::new();
    let mut remaining = args.limit;
    if remaining == 0 {
        return Ok(runs);
    }
    pages::for_each(
        async |page| {
            let mut query = query.clone();
            query.page = page;
            threads.list_runs(query).await
        },
        |run| {
            runs.push(run);
            remaining -= 1;
            Ok(remaining > 0)
        },
    )
    .await?;
    Ok(runs)
}

fn print(runs: &[Run], out: &mut Output) -> Result<()> {
    let mut table = out.table(&["run", "thread", "agent", "status", "steps", "tokens", "last written"]);
    for run in runs {
        table.add_row([
            text::one_line(run.id.as_str(), out.id_width()),
            text::one_line(run.thread.as_str(), out.id_width()),
            text::one_line(run.agent.as_str(), 30),
            text::one_line(&status_text(&run.status), 60),
            run.steps.to_string(),
            text::format_tokens(&run.spent),
            text::format_minute(run.updated_at),
        ]);
    }
    out.print_table(table)
}

fn status_text(status: &RunStatus) -> String {
    match status {
        RunStatus::Waiting(waiting) => format!("waiting: {}", waiting.reason.name().replace('_', " ")),
        RunStatus::Done(completion) => match &completion.outcome {
            RunOutcome::NaturalEnd => "done".to_owned(),
            RunOutcome::Stopped { code, .. } => format!("stopped: {code}"),
            RunOutcome::Cancelled => "cancelled".to_owned(),
            RunOutcome::Blocked => "blocked".to_owned(),
            RunOutcome::Superseded => "superseded".to_owned(),
            RunOutcome::Failed { error } => format!("failed: {error}"),
            _ => "done".to_owned(),
        },
        other => other.to_string(),
    }
}
