//! `config`: reads and changes config records.

mod delete;
mod get;
mod list;
mod set;
mod watch;

use agentstore::{ConfigName, ConfigRecord, ConfigSource, Json, SegmentId, Timestamp};
use clap::Subcommand;
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::terminal_safe,
};

/// Keep settings: get, set, delete, list, and watch config records
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore config set limits tokens --value 4096\n  \
    agentstore config set prompts coder --text @coder.txt --expect absent\n  agentstore config list\n  \
    agentstore config list limits\n  agentstore config watch limits --json\n\n\
    A record is a JSON value under a namespace and an id. Each change is written together with a record of the audit \
    log (`agentstore audit list`) and with an entry of the feed, which running programs follow.\n\n\
    NAMESPACE and ID are given as they are. In a name of both, `NAMESPACE/ID`, and in the resource of an audit record, \
    `%25`, `%2F` and `%40` stand for `%`, `/` and `@`.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(get::Args),
    Set(set::Args),
    Delete(delete::Args),
    List(list::Args),
    Watch(watch::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::Get(_) | Action::List(_) | Action::Watch(_) => Access::Read,
            Action::Set(_) => Access::Create,
            Action::Delete(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Set(args) => args.read_document_args(),
            Action::Get(_) | Action::Delete(_) | Action::List(_) | Action::Watch(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Get(args) => get::run(args, session, out).await,
        Action::Set(args) => set::run(args, session, out).await,
        Action::Delete(args) => delete::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Watch(args) => watch::run(args, session, out).await,
    }
}

/// The arguments that name a record.
#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The namespace
    namespace: SegmentId,
    /// The id of the record in the namespace
    id: SegmentId,
}

impl NameArgs {
    fn into_name(self) -> ConfigName {
        ConfigName { namespace: self.namespace, id: self.id }
    }
}

/// Returns the name of a record as text that is safe to print.
fn name_text(name: &ConfigName) -> String {
    terminal_safe(&name.to_string())
}

/// A record as a JSON document.
#[derive(Serialize)]
struct RecordDocument<'a> {
    namespace: &'a SegmentId,
    id: &'a SegmentId,
    revision: u64,
    value: &'a Json,
    source: ConfigSource,
    hidden: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides: Option<&'a Json>,
    /// The value with the overrides: what programs use.
    effective: Json,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl<'a> RecordDocument<'a> {
    fn of(record: &'a ConfigRecord) -> Result<Self> {
        let content = &record.content;
        Ok(Self {
            namespace: &record.name.namespace,
            id: &record.name.id,
            revision: record.revision,
            value: &content.value,
            source: content.source,
            hidden: content.hidden,
            overrides: content.overrides.as_ref(),
            effective: content.effective()?,
            created_at: record.created_at,
            updated_at: record.updated_at,
        })
    }
}

/// Returns in a few words where a record comes from, and what was done to it.
fn source_text(record: &ConfigRecord) -> String {
    let mut words = record.content.source.name().to_owned();
    if record.content.overrides.is_some() {
        words.push_str(", overridden");
    }
    if record.content.hidden {
        words.push_str(", hidden");
    }
    words
}
