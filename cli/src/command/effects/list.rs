//! `effects list`: lists effects, those in doubt first.

use agentstore::{Effect, EffectOwner, EffectQuery, EffectStatus, RunId, ThreadId};
use serde_json::json;

use super::{Ending, name_text};
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List effects: those that have not ended first, then the others
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore effects list --in-doubt\n  \
    agentstore effects list --thread t-42 --run run-7\n  \
    agentstore effects list --status failed --json | jq .effects[].outcome")]
pub(super) struct Args {
    /// Only effects of this thread
    #[arg(long)]
    thread: Option<ThreadId>,
    /// Only effects of this run of the thread
    #[arg(long, requires = "thread")]
    run: Option<RunId>,
    /// Only effects with this status: intended, unknown, retry, done or failed; can be given more than once
    #[arg(long = "status", value_name = "STATUS", conflicts_with = "in_doubt")]
    statuses: Vec<EffectStatus>,
    /// Only effects that may have happened, and of which it is not known whether they did
    #[arg(long)]
    in_doubt: bool,
}

impl Args {
    fn query(&self) -> EffectQuery {
        let query = EffectQuery::of(match (self.thread.clone(), self.run.clone()) {
            (Some(thread), Some(run)) => EffectOwner::Run(thread, run),
            (Some(thread), None) => EffectOwner::Thread(thread),
            (None, _) => EffectOwner::Tenant,
        });
        if self.in_doubt {
            query.in_doubt()
        } else if self.statuses.is_empty() {
            query
        } else {
            query.in_status(self.statuses.clone())
        }
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (effects, query) = (session.effects()?, args.query());
    let found = pages::load_all(async |page| effects.list_effects(query.clone().with_page(page)).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "effects")?;
        found.iter().try_for_each(|effect| list.item(effect))?;
        list.end()?;
    } else if found.is_empty() {
        out.print_line(if args.in_doubt { "no effect is in doubt" } else { "there are no such effects" })?;
    } else {
        print(&found, out)?;
    }
    Ok(Ending::Success)
}

fn print(effects: &[Effect], out: &mut Output) -> Result<()> {
    let row = |effect: &Effect| {
        let details = effect.outcome.as_ref().unwrap_or(&effect.intent);
        vec![
            name_text(&effect.name),
            effect.kind.to_string(),
            effect.status.to_string(),
            effect.attempt.to_string(),
            text::format_minute(effect.updated_at),
            effect.reason.clone().unwrap_or_else(|| details.to_string()),
        ]
    };
    let rows: Vec<_> = effects.iter().map(row).collect();
    out.print_list(&["thread run effect", "kind", "status", "attempt", "changed", "details"], &rows)
}
