//! `profile delete`: deletes a value.

use agentstore::{Detail, DocumentExpect, Error, ProfileChange, WriteProfile};
use serde_json::json;

use super::{Ending, ValueNameArgs};
use crate::{
    change_args::{AuditArgs, ExpectArgs},
    failure::Result,
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
    let given = args.expect.expectation();
    // Whether there was a value is known from the write itself, which expects one.
    let expect = if given == DocumentExpect::Any { DocumentExpect::Present } else { given };
    let change = ProfileChange::delete(name.key.clone()).expecting(expect).audited(args.audit.into_audit()?);
    let written = session.profiles()?.write_profile(WriteProfile::new(name.owner.clone(), [change])).await;
    let existed = match written {
        Err(error) if given == DocumentExpect::Any && is_missing(&error) => false,
        written => written.map(|_| expect != DocumentExpect::Absent)?,
    };
    if out.is_json() {
        out.print_document(&json!({ "owner": name.owner.to_string(), "id": name.key, "deleted": existed }))?;
    } else if existed {
        out.print_line(format!("deleted {}", name.text()))?;
    } else {
        out.print_line(format!("{} does not exist: nothing was deleted", name.text()))?;
    }
    Ok(Ending::Success)
}

/// Returns whether the write was refused because there is no value.
fn is_missing(error: &Error) -> bool {
    matches!(error.detail(), Detail::DocumentConflict { expected: DocumentExpect::Present, actual: None, .. })
}
