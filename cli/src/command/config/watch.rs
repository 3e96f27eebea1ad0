//! `config watch`: prints the records of a namespace, and then every change.

use agentstore::{ConfigEntry, ConfigRecord, ConfigUpdate, ConfigWatch, SegmentId, Timestamp};
use serde::Serialize;

use super::{Ending, RecordDocument, list, name_text};
use crate::{
    failure::Result,
    output::Output,
    session::Session,
    text::{self, terminal_safe},
};

/// Print the records of a namespace, and then every change, also by other processes, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore config watch limits --json | jq --unbuffered -c .change\n\n\
    With `--json` the first line has the records that exist (`present`). Each further line has a `change`, and the \
    `record` as it is now: null if it was deleted. A record may already have later changes, which follow.")]
pub(super) struct Args {
    /// The namespace
    namespace: SegmentId,
}

#[derive(Serialize)]
struct PresentDocument<'a> {
    present: Vec<RecordDocument<'a>>,
}

#[derive(Serialize)]
struct ChangeDocument<'a> {
    change: EntryDocument<'a>,
    record: Option<RecordDocument<'a>>,
}

/// An entry of the feed as a JSON document.
#[derive(Serialize)]
struct EntryDocument<'a> {
    namespace: &'a SegmentId,
    id: &'a SegmentId,
    kind: &'static str,
    revision: u64,
    time: Timestamp,
}

impl<'a> From<&'a ConfigEntry> for EntryDocument<'a> {
    fn from(entry: &'a ConfigEntry) -> Self {
        let ConfigEntry { name, kind, revision, time, .. } = entry;
        Self { namespace: &name.namespace, id: &name.id, kind: kind.name(), revision: *revision, time: *time }
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut updates = session.config()?.watch_config(&args.namespace).await?;
    while let Some(update) = next_update(&mut updates).await {
        match update? {
            ConfigUpdate::Present(records) => print_present(&args.namespace, &records, out)?,
            ConfigUpdate::Changed(entry, record) => print_change(&entry, record.as_ref(), out)?,
        }
        out.flush()?;
    }
    Ok(Ending::Success)
}

async fn next_update(updates: &mut ConfigWatch) -> Option<agentstore::Result<ConfigUpdate>> {
    std::future::poll_fn(|context| updates.as_mut().poll_next(context)).await
}

fn print_present(namespace: &SegmentId, records: &[ConfigRecord], out: &mut Output) -> Result<()> {
    if out.is_json() {
        let present = records.iter().map(RecordDocument::of).collect::<Result<_>>()?;
        return out.print_document(&PresentDocument { present });
    }
    if records.is_empty() {
        return out.print_line(format!("the namespace {} has no records yet", terminal_safe(namespace.as_str())));
    }
    list::print(records, out)
}

fn print_change(entry: &ConfigEntry, record: Option<&ConfigRecord>, out: &mut Output) -> Result<()> {
    if out.is_json() {
        let record = record.map(RecordDocument::of).transpose()?;
        return out.print_document(&ChangeDocument { change: entry.into(), record });
    }
    let value = record.map(|record| record.content.effective()).transpose()?;
    let value = value.map(|value| format!("  {}", text::one_line(value.as_str(), 200))).unwrap_or_default();
    let (time, kind, revision) = (text::format_time(entry.time), entry.kind, entry.revision);
    out.print_line(format!("{time} {kind} {}, revision {revision}{value}", name_text(&entry.name)))
}
