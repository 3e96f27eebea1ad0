//! `registry archive`: archives a definition, or takes it out of the archive.

use serde_json::json;

use super::{Ending, target::VersionArg};
use crate::{
    change_args::AuditArgs,
    failure::{Failure, Result},
    output::Output,
    session::Session,
    text::terminal_safe,
};

/// Archive a definition: it can still be read, but no longer published
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry archive agent/coder\n  \
    agentstore registry archive agent/coder --undo")]
pub(super) struct Args {
    /// The definition
    #[arg(value_name = "KIND/ID")]
    definition: VersionArg,
    /// Take the definition out of the archive
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    audit: AuditArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let VersionArg { definition, version: None } = args.definition else {
        return Err(Failure::Usage("only a definition can be archived, and not one of its versions".to_owned()));
    };
    let registry = session.registry()?;
    let audit = Some(args.audit.into_audit()?);
    let is_changed = if args.undo {
        registry.unarchive(&definition, audit).await?
    } else {
        registry.archive(&definition, audit).await?
    };
    if out.is_json() {
        out.print_document(&json!({ "definition": definition, "archived": !args.undo, "changed": is_changed }))?;
        return Ok(Ending::Success);
    }
    let name = terminal_safe(&definition.to_string());
    let what = match (args.undo, is_changed) {
        (false, true) => "archived",
        (false, false) => "was archived before:",
        (true, true) => "took out of the archive:",
        (true, false) => "was not in the archive:",
    };
    out.print_line(format!("{what} {name}"))?;
    Ok(Ending::Success)
}
