//! Notes what of a thread is in no file of its session.

use store_core::{Body, Entry, Role, Thread, UsageRecord, Visibility};

use super::{is_own, log::WrittenEntries};
use crate::{
    export::{Loss, Losses},
    kimi_cli::{contexts::REFERENCE_KIND, ids::WIRE_PREFIX, survey::SUBAGENT_FOLDER},
    provenance::{IMPORT_LINE, Provenance},
};

const NO_FIELD: &str = "the format has no field for it";
const NO_LINE: &str = "the format has no such line";

/// The metadata of a thread that its files contain.
const WRITTEN_METADATA: &[&str] = &["session_id", "version", "state", SUBAGENT_FOLDER];

/// Notes what of an entry is in no file.
pub(super) fn note_entry(entry: &Entry, written: &WrittenEntries, list: &mut Vec<Loss>) {
    let mut losses = Losses::new(&entry.id, list);
    if entry.run.is_some() {
        losses.add("/run", ("run", NO_FIELD, "dropped"));
    }
    if !entry.extra.is_empty() {
        losses.add("", ("unknown_field", NO_FIELD, "dropped"));
    }
    let is_written = written.ids.contains(&entry.id);
    if let Body::Usage(usage) = &*entry.body {
        return note_usage(usage, is_written, &mut losses);
    }
    if is_written {
        return;
    }
    let what = match &*entry.body {
        // The files themselves say where the head is.
        Body::Rewind(_) => return,
        Body::Custom(custom) if is_own(entry) => match unread_line(entry, &custom.kind) {
            Some(what) => what,
            None => return,
        },
        Body::Custom(_) if Provenance::read(entry).is_some() => {
            ("raw", "the header and the line ends of a file of another format", "dropped")
        }
        Body::Custom(custom) if custom.kind == IMPORT_LINE => {
            ("raw", "the bytes of a line of another format", "dropped")
        }
        Body::Message(_) if entry.side => ("side_entry", NO_LINE, "dropped"),
        Body::Message(message) if message.visibility == Visibility::Aside => {
            ("visibility", "every message of the format is sent to the model", "dropped")
        }
        Body::Message(message) if message.role == Role::Tool => {
            ("orphan_result", "its call is missing, or has a later result", "dropped")
        }
        Body::Message(_) => ("message", "the context leaves it out", "dropped"),
        Body::Compaction(_) => ("compaction", "another summary replaces it, or it contains nothing", "dropped"),
        Body::Checkpoint(_) => ("checkpoint", NO_LINE, "dropped"),
        Body::Label(_) => ("label", NO_LINE, "dropped"),
        Body::Custom(_) => ("custom", NO_LINE, "dropped"),
        Body::Decision(_) => ("decision", NO_LINE, "dropped"),
        _ => ("unknown_body", NO_LINE, "dropped"),
    };
    losses.add("", what);
}

/// What is lost with an entry of an import from kimi-cli: a line of a context that kimi-cli does not read. All other
/// entries of such an import are in the files.
fn unread_line(entry: &Entry, kind: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let is_line = entry.origin.as_ref().is_some_and(|origin| origin.line > 0);
    let is_record = entry.id.as_str().starts_with(WIRE_PREFIX);
    let is_unread = is_line && !is_record && kind != REFERENCE_KIND;
    is_unread.then_some(("raw", "kimi-cli does not read such a line", "dropped"))
}

fn note_usage(usage: &UsageRecord, is_written: bool, losses: &mut Losses<'_>) {
    if !is_written {
        losses.add("", ("usage", "the format has only the size of the context after a message", "dropped"));
        return;
    }
    let has_more = [usage.spent.is_some(), usage.cost.is_some(), usage.model.is_some(), !usage.extra.is_empty()];
    if has_more.contains(&true) {
        losses.add("/body/usage", ("usage", "the format has only the size of the context", "dropped"));
    }
}

/// Notes the metadata of the thread, for which the format has no place.
pub(super) fn note_thread(thread: &Thread, list: &mut Vec<Loss>) {
    let is_lost = thread.metadata.keys().any(|key| !WRITTEN_METADATA.contains(&key.as_str()));
    if let Some(head) = thread.head.as_ref().filter(|_| is_lost) {
        let what = ("thread", "the format has no metadata of a session", "dropped");
        Losses::new(head, list).add("", what);
    }
}
