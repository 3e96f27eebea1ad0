//! `profile set`: sets a value.

use agentstore::{Json, ProfileChange, ProfileKey, ProfileStoreExt, Timestamp, WriteProfile};
use serde::Serialize;

use super::{Ending, ValueNameArgs};
use crate::{
    change_args::{AuditArgs, ExpectArgs, ValueArgs},
    failure::Result,
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

/// The value as a JSON document, with the fields that `profile get` prints.
#[derive(Serialize)]
struct SetDocument<'a> {
    owner: String,
    id: &'a ProfileKey,
    revision: Option<u64>,
    value: &'a Json,
    /// Absent if another process has changed the value since.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    updated_at: Timestamp,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (name, value, profiles) = (args.name, args.value.into_json()?, session.profiles()?);
    let change = ProfileChange::put(name.key.clone(), value.clone()).expecting(args.expect.expectation());
    let change = change.audited(args.audit.into_audit()?);
    let written = profiles.write_profile(WriteProfile::new(name.owner.clone(), [change])).await?;
    if out.is_json() {
        let stored = profiles.load_profile(&name.owner, &name.key).await?;
        let stored = stored.filter(|stored| Some(stored.revision) == written.revision);
        out.print_document(&SetDocument {
            owner: name.owner.to_string(),
            id: &name.key,
            revision: written.revision,
            value: &value,
            created_at: stored.as_ref().map(|stored| stored.created_at),
            updated_at: stored.map_or(written.time, |stored| stored.updated_at),
        })?;
        return Ok(Ending::Success);
    }
    let revision = written.revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
    out.print_line(format!("set {}{revision}", name.text()))?;
    Ok(Ending::Success)
}
