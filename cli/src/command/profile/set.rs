//! `profile set`: sets a value.

use agentstore::{ProfileChange, WriteProfile};
use serde_json::json;

use super::{Ending, owner::ValueNameArgs};
use crate::{
    change_args::{AuditArgs, ExpectArgs, ValueArgs},
    failure::Result,
    json_merge::merge_objects,
    output::Output,
    session::Session,
};

/// Set a value of a profile
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile set user:u1 language --value '\"de\"' --expect absent\n  \
    agentstore profile set agent:coder memory --value @memory.json\n  \
    echo '[\"dark\"]' | agentstore profile set system themes")]
pub(super) struct Args {
    #[command(flatten)]
    name: ValueNameArgs,
    #[command(flatten)]
    value: ValueArgs,
    #[command(flatten)]
    expect: ExpectArgs,
    #[command(flatten)]
    audit: AuditArgs,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.value.read_document_args()
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (name, value) = (args.name, args.value.into_json()?);
    let change = ProfileChange::put(name.key.clone(), value).expecting(args.expect.expectation());
    let change = change.audited(args.audit.into_audit()?);
    let written = session.profiles()?.write_profile(WriteProfile::new(name.owner.0.clone(), [change])).await?;
    if out.is_json() {
        out.print_document(&merge_objects(&json!({ "owner": name.owner, "key": name.key }), &written)?)?;
        return Ok(Ending::Success);
    }
    let revision = written.revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    out.print_line(format!("set {}{revision}", name.text()))?;
    Ok(Ending::Success)
}
