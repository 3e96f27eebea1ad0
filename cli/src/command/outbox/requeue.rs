//! `outbox requeue`: makes dead letters pending again.

use agentstore::{OutboxChoice, OutboxId, OutboxStatus, RequeueOutbox, Requeued};
use serde_json::json;

use super::{Ending, RowFilterArgs};
use crate::{
    failure::Result,
    output::Output,
    prompt,
    session::Session,
    text::{count, safe},
};

/// The greatest number of dead letters that one call requeues.
const BATCH: u32 = 1_000;

/// Make dead letters of the outbox pending again, with all their attempts available
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore outbox requeue 0199…\n  agentstore outbox requeue --lane webhook --yes"
)]
pub(super) struct Args {
    /// The ids of the rows; all dead letters if none is given
    rows: Vec<OutboxId>,
    #[command(flatten)]
    row_filter: RowFilterArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let outbox = session.commits()?.outbox();
    let mut answers = Vec::new();
    if args.rows.is_empty() {
        let dead =
            outbox.count_outbox(&args.row_filter.filter().in_status([OutboxStatus::DeadLetter])).await?.dead_letter;
        if dead > 0 {
            prompt::confirm(args.yes, &format!("Requeue {}?", count(dead, "dead letter")))?;
        }
        let mut request = RequeueOutbox::oldest(BATCH);
        request.choice =
            OutboxChoice::Filter { lane: args.row_filter.lane, target: args.row_filter.target, limit: BATCH };
        loop {
            let requeued = outbox.requeue_outbox(request.clone()).await?;
            if requeued.is_empty() {
                break;
            }
            answers.extend(requeued);
        }
    } else {
        for rows in args.rows.chunks(BATCH as usize) {
            answers.extend(outbox.requeue_outbox(RequeueOutbox::ids(rows.iter().cloned())).await?);
        }
    }
    print(answers, out)
}

fn print(answers: Vec<Requeued>, out: &mut Output) -> Result<Ending> {
    let mut ending = Ending::Success;
    let (mut requeued, mut refused) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer.outcome {
            Ok(()) => requeued.push(answer.id),
            Err(error) => refused.push((answer.id, error)),
        }
    }
    if !refused.is_empty() {
        ending = Ending::Problem;
    }
    if out.json() {
        let refused: Vec<_> = refused.iter().map(|(row, error)| json!({ "row": row, "error": error })).collect();
        out.document(&json!({ "requeued": requeued, "refused": refused }))?;
        return Ok(ending);
    }
    for (row, error) in &refused {
        out.line(format!("refused {}: {error}", safe(row.as_str())))?;
    }
    out.line(format!("requeued {}", count(agentstore::length(requeued.len()), "row")))?;
    Ok(ending)
}
