//! Notes the parts of a thread that are in no file of its session.

use store_core::{Body, Entry, Role, Thread, UsageRecord, Visibility};

use super::{is_of_kimi_cli, log::WrittenEntries};
use crate::{
    export::{Loss, LossDescription, Losses, NO_FIELD, loss_of_foreign_line, note_metadata, note_parent},
    kimi_cli::{contexts::REFERENCE_KIND, first_pass::SUBAGENT_FOLDER, ids::WIRE_PREFIX},
    provenance::IMPORT_LINE,
};

/// What is lost of a result that the context leaves out.
const ORPHAN_RESULT: LossDescription = ("orphan_result", "its call is missing, or has a later result", "dropped");

const NO_LINE: &str = "the format has no such line";

/// The keys of the metadata of a thread whose values are written to its files.
pub(super) const WRITTEN_METADATA: &[&str] = &["session_id", "version", "state", SUBAGENT_FOLDER];

/// Notes the parts of an entry that are in no file.
pub(super) fn note_entry(entry: &Entry, written: &WrittenEntries, list: &mut Vec<Loss>) {
    let mut losses = Losses::new(&entry.id, list);
    if let Some((path, loss)) = loss_of_foreign_line(entry).filter(|_| !is_of_kimi_cli(entry)) {
        losses.add(path, loss);
    }
    if entry.run.is_some() {
        losses.add_no_field_for("/run", "run");
    }
    if !entry.extra.is_empty() {
        losses.add_no_field_for("", "unknown_field");
    }
    let is_written = written.ids.contains(&entry.id);
    if let Body::Usage(usage) = &*entry.body {
        return note_usage(usage, is_written, &mut losses);
    }
    if is_written {
        if written.incomplete_entries.contains(&entry.id) {
            losses.add("/blocks", ORPHAN_RESULT);
        }
        return;
    }
    let loss = match &*entry.body {
        // The files themselves say where the head is.
        Body::Rewind(_) => return,
        Body::Custom(custom) if is_of_kimi_cli(entry) => match unreadable_line_loss(entry, &custom.kind) {
            Some(loss) => loss,
            None => return,
        },
        // Such an entry contains nothing but its line.
        Body::Custom(custom) if custom.kind == IMPORT_LINE && custom.data.as_str() == "null" => return,
        Body::Message(_) if entry.side => ("side_entry", NO_LINE, "dropped"),
        Body::Message(message) if message.visibility == Visibility::Aside => {
            ("visibility", "every message of the format is sent to the model", "dropped")
        }
        Body::Message(message) if message.role == Role::Tool => ORPHAN_RESULT,
        Body::Message(_) => ("message", "the context leaves it out", "dropped"),
        Body::Compaction(_) => ("compaction", "another summary replaces it, or it contains nothing", "dropped"),
        Body::Checkpoint(_) => ("checkpoint", NO_LINE, "dropped"),
        Body::Label(_) => ("label", NO_LINE, "dropped"),
        Body::Custom(_) => ("custom", NO_LINE, "dropped"),
        Body::Decision(_) => ("decision", NO_LINE, "dropped"),
        _ => ("unknown_body", NO_LINE, "dropped"),
    };
    losses.add("", loss);
}

/// The loss of an entry that was imported from a line of a context that kimi-cli does not read. Other entries that were
/// imported from kimi-cli lose nothing.
fn unreadable_line_loss(entry: &Entry, kind: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let is_line = entry.origin.as_ref().is_some_and(|origin| origin.line > 0);
    let is_record = entry.id.as_str().starts_with(WIRE_PREFIX);
    let is_unreadable = is_line && !is_record && kind != REFERENCE_KIND;
    is_unreadable.then_some(("raw", "kimi-cli does not read such a line", "dropped"))
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

/// Notes what is lost of the thread itself.
pub(super) fn note_thread(thread: &Thread, list: &mut Vec<Loss>) {
    note_metadata(thread, |key| WRITTEN_METADATA.contains(&key), list);
    if !thread.metadata.contains_key(SUBAGENT_FOLDER) {
        note_parent(thread, NO_FIELD, list);
    }
}
