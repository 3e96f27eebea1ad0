//! `profile delete`: deletes a value.

use agentstore::{ProfileChange, WriteProfile};
use serde_json::json;

use super::{Ending, owner::ValueNameArgs};
use crate::{
    change_args::{AuditArgs, ExpectArgs},
    failure::Result,
    json_merge::merge_objects,
    output::Output,
    session::Session,
};

/// Delete a value of a profile; it is no error if there is no such value
///
/// `agentstore audit restore` brings the value back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile delete user:u1 language\n  \
    agentstore profile delete agent:coder memory --expect 12")]
pub(super) struct Args {
    #[command(flatten)]
    name: ValueNameArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    audit: AuditArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let name = args.name;
    let change = ProfileChange::delete(name.key.clone()).expecting(args.expect.expectation());
    let change = change.audited(args.audit.into_audit()?);
    let written = session.profiles()?.write_profile(WriteProfile::new(name.owner.0.clone(), [change])).await?;
    if out.is_json() {
        out.print_document(&merge_objects(&json!({ "owner": name.owner, "key": name.key }), &written)?)?;
    } else {
        out.print_line(format!("{} has no value now", name.text()))?;
    }
    Ok(Ending::Success)
}
