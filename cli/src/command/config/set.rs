//! `config set`: sets the value of a record.

use agentstore::{ConfigChange, ConfigContent, ConfigOp, ConfigSource, Error};
use serde_json::json;

use super::{Ending, NameArgs, RecordDocument, name_text};
use crate::{
    change_args::{AuditArgs, ExpectArgs, ValueArgs},
    failure::Result,
    json_merge::merge_objects,
    output::Output,
    session::Session,
};

/// Set the value of a record; the record is created if it does not exist
///
/// The value replaces everything that the record contains, unless `--override` or `--seed` is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore config set limits tokens --value 4096\n  \
    agentstore config set prompts coder --text @coder.txt --expect 7 --actor user:ada\n  \
    agentstore config set models main --override --value '{\"temperature\":0}'\n  \
    echo '{\"url\":\"https://api.example\"}' | agentstore config set servers search")]
pub(super) struct Args {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    value: ValueArgs,
    /// Keep the value of the record, and merge this value into it (RFC 7396); it stays when the record is seeded again
    #[arg(long = "override", conflicts_with = "seed")]
    is_override: bool,
    /// Set the value that a release ships; what users changed stays
    #[arg(long)]
    seed: bool,
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
    let (name, value) = (args.name.into_name(), args.value.into_json()?);
    let op = match (args.is_override, args.seed) {
        (true, _) => ConfigOp::Override(Some(value)),
        (false, true) => ConfigOp::Seed(value),
        (false, false) => ConfigOp::Put(ConfigContent::new(value)),
    };
    let change = ConfigChange::new(name.clone(), op).expecting(args.expect.expectation());
    let mut written = session.config()?.write_config(vec![change.audited(args.audit.into_audit()?)]).await?;
    let record = written.records.pop().flatten();
    let record =
        record.ok_or_else(|| Error::corrupt(format!("config record {name}: it does not exist after its put")))?;
    let is_changed = !written.entries.is_empty();
    if out.is_json() {
        out.print_document(&merge_objects(&RecordDocument::of(&record)?, &json!({ "changed": is_changed }))?)?;
        return Ok(Ending::Success);
    }
    let (name, revision) = (name_text(&name), record.revision);
    out.print_line(match (is_changed, args.seed && record.content.source != ConfigSource::Builtin) {
        (true, _) => format!("set {name}, revision {revision}"),
        (false, true) => format!("a user has set {name}, revision {revision}: the seed changed nothing"),
        (false, false) => format!("nothing to change in {name}, revision {revision}"),
    })?;
    Ok(Ending::Success)
}
