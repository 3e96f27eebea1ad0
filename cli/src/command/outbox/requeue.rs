//! `outbox requeue`: makes dead letters pending again.

use agentstore::{OutboxChoice, OutboxId, OutboxStatus, RequeueOutbox, Requeued};
use serde_json::json;

use super::{Ending, RowFilterArgs};
use crate::{
    failure::Result,
    output::Output,
    prompt,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// The greatest number of dead letters that one call requeues.
const MAX_REQUEUED_PER_CALL: u32 = 1_000;

/// Make dead letters of the outbox pending again, with all their attempts available
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore outbox requeue 0199…\n  agentstore outbox requeue --lane webhook --yes"
)]
pub(super) struct Args {
    /// The ids of the rows; all dead letters that `--lane` and `--target` select, if none is given
    #[arg(conflicts_with_all = ["lane", "target"])]
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
        let dead_letters =
            outbox.count_outbox(&args.row_filter.filter().in_status([OutboxStatus::DeadLetter])).await?.dead_letter;
        if dead_letters > 0 {
            prompt::confirm(args.yes, &format!("Requeue {}?", with_noun(dead_letters, "dead letter")))?;
        }
        let mut request = RequeueOutbox::oldest(MAX_REQUEUED_PER_CALL);
        request.choice = OutboxChoice::Filter {
            lane: args.row_filter.lane,
            target: args.row_filter.target,
            limit: MAX_REQUEUED_PER_CALL,
        };
        loop {
            let requeued = outbox.requeue_outbox(request.clone()).await?;
            // A refused row stays a dead letter, so the next call would return it again.
            let is_last_batch = requeued.is_empty() || requeued.iter().any(|answer| answer.outcome.is_err());
            answers.extend(requeued);
            if is_last_batch {
                break;
            }
        }
    } else {
        for rows in args.rows.chunks(MAX_REQUEUED_PER_CALL as usize) {
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
    if out.is_json() {
        let refused: Vec<_> = refused.iter().map(|(row, error)| json!({ "row": row, "error": error })).collect();
        out.print_document(&json!({ "requeued": requeued, "refused": refused }))?;
        return Ok(ending);
    }
    for (row, error) in &refused {
        out.print_line(format!("refused {}: {error}", terminal_safe(row.as_str())))?;
    }
    out.print_line(format!("requeued {}", with_noun(agentstore::length(requeued.len()), "row")))?;
    Ok(ending)
}
