//! `traces pin` and `traces unpin`: who keeps the spans of a run from being purged.

use agentstore::PinHolder;
use serde_json::json;

use super::{Ending, TraceNameArgs};
use crate::{failure::Result, output::Output, session::Session, text::terminal_safe};

/// Keep the spans that were put for a run from being purged
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore traces pin run-7 --holder user:ada\n\n\
    `agentstore traces show` prints who keeps a trace. A pin does not keep a thread: it is deleted with it.")]
pub(super) struct Args {
    #[command(flatten)]
    name: TraceNameArgs,
    /// Who keeps it: a person, a dataset, an evaluation run
    #[arg(long, value_name = "NAME")]
    holder: PinHolder,
}

/// End what `pin` did for a holder
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore traces unpin run-7 --holder user:ada")]
pub(super) struct UnpinArgs {
    #[command(flatten)]
    pin: Args,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (traces, holder) = (session.traces()?, args.holder);
    let name = args.name.find(&*traces).await?;
    traces.pin_trace(&name, &holder).await?;
    if out.is_json() {
        out.print_document(&json!({ "name": name, "holder": holder, "pinned": true }))?;
    } else {
        let holder = terminal_safe(holder.as_str());
        out.print_line(format!("{} is kept by {holder}", terminal_safe(&name.to_string())))?;
    }
    Ok(Ending::Success)
}

pub(super) async fn run_unpin(args: UnpinArgs, session: &Session, out: &mut Output) -> Result<Ending> {
    let (traces, holder) = (session.traces()?, args.pin.holder);
    let name = args.pin.name.find(&*traces).await?;
    traces.unpin_trace(&name, &holder).await?;
    if out.is_json() {
        out.print_document(&json!({ "name": name, "holder": holder, "pinned": false }))?;
    } else {
        let holder = terminal_safe(holder.as_str());
        out.print_line(format!("{} is not kept by {holder}", terminal_safe(&name.to_string())))?;
    }
    Ok(Ending::Success)
}
