//! What a thread loses when it becomes a rollout.

use std::collections::HashSet;

use store_core::{BlockKind, Body, Entry, EntryId, Message, Role, Thread, Visibility};

use super::{turns, write_items};
use crate::{
    export::{Loss, LossDescription, Losses, NO_FIELD, loss_of_foreign_line, note_metadata},
    provenance::IMPORT_LINE,
};

/// What is lost of a turn that failed or was aborted.
pub(super) const FAILED_TURN: LossDescription =
    ("failed_turn", "Codex would send the failed or aborted turn to the model again", "dropped");

/// The losses of an export. Several branches can contain the same entry, whose losses are listed once.
#[derive(Debug, Default)]
pub(super) struct LossList {
    pub(super) list: Vec<Loss>,
    visited: HashSet<EntryId>,
    /// Whether the losses of the current entry are listed already.
    is_repeated: bool,
}

impl LossList {
    /// Makes an entry the current one.
    pub(super) fn set_current_entry(&mut self, entry: &EntryId) {
        self.is_repeated = !self.visited.insert(entry.clone());
    }

    /// Adds a loss of the current entry.
    pub(super) fn add(&mut self, entry: &EntryId, path: impl Into<String>, loss: LossDescription) {
        if !self.is_repeated {
            Losses::new(entry, &mut self.list).add(path, loss);
        }
    }

    /// Adds the losses of the thread as a whole: metadata for which the header has no field.
    pub(super) fn note_thread(&mut self, thread: &Thread) {
        let has_header_field =
            |name: &str| matches!(name, "session_id" | "cwd" | "version") || name.starts_with("import.");
        note_metadata(thread, has_header_field, &mut self.list);
    }

    /// Adds the losses of an entry, apart from those of its body. `is_own` says whether it was imported from a rollout.
    pub(super) fn note_entry(&mut self, entry: &Entry, is_own: bool) {
        if let Some((path, loss)) = loss_of_foreign_line(entry).filter(|_| !is_own) {
            self.add(&entry.id, path, loss);
        }
        for (is_lost, path, kind) in
            [(entry.run.is_some(), "/run", "run"), (!entry.extra.is_empty(), "", "unknown_field")]
        {
            if is_lost {
                self.add(&entry.id, path, (kind, NO_FIELD, "dropped"));
            }
        }
    }

    /// Adds the losses of an entry for which a rollout has no record.
    pub(super) fn note_other_body(&mut self, entry: &Entry) {
        let loss = match &*entry.body {
            Body::Custom(custom) if custom.kind == IMPORT_LINE => ("raw", "a line that Codex cannot read", "dropped"),
            Body::Message(_) | Body::Compaction(_) => ("side_entry", "a rollout has no side entries", "dropped"),
            Body::Rewind(_) => return,
            body => (body.kind().name(), NO_FIELD, "dropped"),
        };
        self.add(&entry.id, "", loss);
    }

    /// Adds the losses of an entry and its message, apart from those of its blocks. Returns whether the message is part
    /// of the rollout at all.
    pub(super) fn note_message(&mut self, entry: &Entry, message: &Message) -> bool {
        if message.visibility == Visibility::Aside {
            self.add(&entry.id, "", ("visibility", "Codex sends every message of a rollout to the model", "dropped"));
            return false;
        }
        if is_failed_turn(message) {
            self.add(&entry.id, "", FAILED_TURN);
            return false;
        }
        self.note_fields((&entry.id, ""), message);
        true
    }

    /// Adds the losses of the fields of a message, apart from its blocks. `prefix` is its path in the entry.
    pub(super) fn note_fields(&mut self, (entry, prefix): (&EntryId, &str), message: &Message) {
        let provenance = message.provenance.as_ref();
        let is_of_openai = write_items::responses_target(message).is_some();
        for (is_lost, path, kind) in [
            (message.visibility == Visibility::Internal && !is_added_by_codex(message), "/visibility", "visibility"),
            (message.usage.is_some(), "/usage", "usage"),
            (message.stop.is_some(), "/stop", "stop"),
            (!message.metadata.is_empty(), "/metadata", "metadata"),
            (!message.extra.is_empty(), "", "unknown_field"),
            (provenance.is_some_and(|found| found.message_id.is_some()), "/provenance/message_id", "item_id"),
            (provenance.is_some_and(|found| found.agent.is_some()), "/provenance/agent", "agent"),
            (provenance.is_some_and(|found| found.format.is_some()), "/provenance/format", "format"),
            (!is_of_openai && provenance.is_some_and(|found| found.origin.is_some()), "/provenance/origin", "origin"),
        ] {
            if is_lost {
                self.add(entry, format!("{prefix}{path}"), (kind, NO_FIELD, "dropped"));
            }
        }
    }
}

/// Whether a turn ended in an error or was aborted. Such turns are not sent to a model again.
pub(super) fn is_failed_turn(message: &Message) -> bool {
    message.role == Role::Assistant && matches!(message.stop.as_deref(), Some("error" | "aborted"))
}

/// Whether the text of a user message is one that Codex itself adds. An import gives such a message the visibility
/// `Internal` again, so this visibility is not lost.
fn is_added_by_codex(message: &Message) -> bool {
    let first = message.blocks.first().map(|block| &block.kind);
    message.role == Role::User && matches!(first, Some(BlockKind::Text(text)) if turns::is_added_by_codex(text))
}
