//! `outbox requeue`: makes dead letters pending again.

use agentstore::{OutboxChoice, OutboxId, OutboxStatus, RequeueOutbox, Requeued};
use serde_json::json;

use super::{Ending, WhichArgs};
use crate::{
    failure::Result,
    output::Output,
    prompt,
    session::Session,
    text::{count, safe},
};

/// The greatest number of dead letters that one call requeues.
const STEP: u32 = 1_000;

/// Make dead letters of the outbox pending again, with all their attempts available
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore outbox requeue 0199…\n  agentstore outbox requeue --lane webhook --yes"
)]
pub(super) struct Args {
    /// The ids of the rows; all dead letters if none is given
    rows: Vec<OutboxId>,
    #[command(flatten)]
    which: WhichArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let outbox = session.commits()?.outbox();
    let mut answers = Vec::new();
    if args.rows.is_empty() {
        let dead = outbox.count_outbox(&args.which.filter().in_status([OutboxStatus::DeadLetter])).await?.dead_letter;
        if dead > 0 {
            prompt::confirm(args.yes, &format!("Requeue {}?", count(dead, "dead letter")))?;
        }
        let mut request = RequeueOutbox::oldest(STEP);
        request.choice = OutboxChoice::Filter { lane: args.which.lane, target: args.which.target, limit: STEP };
        loop {
            let taken = outbox.requeue_outbox(request.clone()).await?;
            if taken.is_empty() {
                break;
            }
            answers.extend(taken);
        }
    } else {
        for rows in args.rows.chunks(STEP as usize) {
            answers.extend(outbox.requeue_outbox(RequeueOutbox::ids(rows.iter().cloned())).await?);
        }
    }
    print(answers, out)
}

fn print(answers: Vec<Requeued>, out: &mut Output) -> Result<Ending> {
    let mut ending = Ending::Good;
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer.outcome {
            Ok(()) => taken.push(answer.id),
            Err(error) => refused.push((answer.id, error)),
        }
    }
    if !refused.is_empty() {
        ending = Ending::Bad;
    }
    if out.json() {
        let refused: Vec<_> = refused.iter().map(|(row, error)| json!({ "row": row, "error": error })).collect();
        out.document(&json!({ "requeued": taken, "refused": refused }))?;
        return Ok(ending);
    }
    for (row, error) in &refused {
        out.line(format!("refused {}: {error}", safe(row.as_str())))?;
    }
    out.line(format!("requeued {}", count(agentstore::length(taken.len()), "row")))?;
    Ok(ending)
}
