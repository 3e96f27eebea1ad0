//! `config delete`: deletes a record.

use agentstore::ConfigChange;
use serde_json::json;

use super::{Ending, NameArgs, name_text};
use crate::{
    change_args::{AuditArgs, ExpectArgs},
    failure::Result,
    output::Output,
    session::Session,
};

/// Delete a record; it is no error if the record does not exist
///
/// `agentstore audit restore` brings the record back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore config delete limits tokens\n  \
    agentstore config delete prompts coder --expect 7")]
pub(super) struct Args {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    audit: AuditArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let name = args.name.into_name();
    let change = ConfigChange::delete(name.clone()).expecting(args.expect.expectation());
    let written = session.config()?.write_config(vec![change.audited(args.audit.into_audit()?)]).await?;
    let existed = !written.entries.is_empty();
    if out.is_json() {
        out.print_document(&json!({ "namespace": name.namespace, "id": name.id, "deleted": existed }))?;
    } else if existed {
        out.print_line(format!("deleted {}", name_text(&name)))?;
    } else {
        out.print_line(format!("{} does not exist: nothing was deleted", name_text(&name)))?;
    }
    Ok(Ending::Success)
}
