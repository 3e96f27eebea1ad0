//! `audit`: lists who changed what, and restores earlier values.

mod list;
mod record_ref;
mod restore;
mod target;

use agentstore::{AuditRecord, AuditResource, EventId, Json, Timestamp, WriterId};
use clap::Subcommand;
use serde::Serialize;

use self::record_ref::short_id;
use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::{self, terminal_safe},
};

/// See who changed what, from what and when, and restore an earlier value
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore audit list --resource config/prompts/coder --diff\n  \
    agentstore audit list --actor user:ada --since 7d\n  agentstore audit list --resource config/ --follow\n  \
    agentstore audit restore 98b06e2a74c0\n\n\
    In a resource, `%25`, `%2F` and `%40` stand for `%`, `/` and `@` inside of a name. A record is named by its id, or \
    by the end or the beginning of its id if no other record has it; lists show the ends.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::Args),
    Restore(restore::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::List(_) => Access::Read,
            Action::Restore(_) => Access::Write,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::List(args) => list::run(args, session, out).await,
        Action::Restore(args) => restore::run(args, session, out).await,
    }
}

/// An audit record as a JSON document.
#[derive(Serialize)]
struct RecordDocument<'a> {
    id: &'a EventId,
    time: Timestamp,
    actor: &'a WriterId,
    action: &'a str,
    resource: &'a AuditResource,
    before: Option<&'a Json>,
    after: Option<&'a Json>,
    redacted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored_from: Option<&'a EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> From<&'a AuditRecord> for RecordDocument<'a> {
    fn from(record: &'a AuditRecord) -> Self {
        Self {
            id: &record.id,
            time: record.time,
            actor: &record.actor,
            action: record.action.name(),
            resource: &record.resource,
            before: record.before.as_ref(),
            after: record.after.as_ref(),
            redacted: record.redacted,
            restored_from: record.restored_from.as_ref(),
            error: record.error.as_deref(),
        }
    }
}

/// Returns a record in one line: when, who, what, and the end of its id.
fn record_line(record: &AuditRecord) -> String {
    let time = text::format_time(record.time);
    let from = record.restored_from.as_ref().map(|id| format!(", from record {}", short_id(id))).unwrap_or_default();
    let redacted = if record.redacted { ", without secrets" } else { "" };
    let error = record.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    let (id, AuditRecord { actor, action, resource, .. }) = (short_id(&record.id), record);
    terminal_safe(&format!("{time} {actor} {} {resource}{from}{redacted}{error} (record {id})", action.name()))
}
