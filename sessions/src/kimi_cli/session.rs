//! A session that the first pass has read, as the import uses it.

use store_core::{EntryId, Timestamp};

use super::{
    context_line::ContextLines,
    drafts::KimiDrafts,
    folder::{WIRE_FILE_NAME, is_context},
    history::{History, StoredDecision},
    ids::{self, FileLineIds},
    state::WholeFile,
    wire::WireRecords,
    wire_matches::{HistoryLine, WireMatches, match_lines},
};
use crate::{
    compact::LineEnds,
    error::Result,
    options::HeadChoice,
    provenance::{FileProvenance, Provenance, ReimportedLine},
    session::{Drafts, Session, SessionInfo, StoredEntries},
    source::Source,
};

/// A file with one JSON object on each line, and what the first pass found in it.
pub(super) struct LineFile<R> {
    pub(super) source: Source,
    pub(super) provenance: FileProvenance,
    pub(super) line_ends: LineEnds,
    /// When the file was last written.
    pub(super) modified_at: Option<Timestamp>,
    /// What the import keeps of its lines between the two passes.
    pub(super) line_data: R,
}

/// A session of kimi-cli that the first pass has read.
pub(super) struct KimiSession {
    pub(super) info: SessionInfo,
    /// The contexts that are not empty, the oldest first.
    pub(super) contexts: Vec<LineFile<ContextLines>>,
    pub(super) wire: Option<LineFile<WireRecords>>,
    /// The state and the unknown files, each with the prefix of the id of its entry.
    pub(super) whole_files: Vec<(&'static str, WholeFile)>,
    /// Which entry becomes the head.
    pub(super) head: HeadChoice,
    /// Whether the current context is empty.
    pub(super) is_cleared: bool,
    pub(super) layout: ThreadLayout,
}

/// How the files of a session form one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadLayout {
    pub(super) history: History,
    pub(super) wire_matches: WireMatches,
    /// The ids of the lines of each context.
    pub(super) ids: Vec<FileLineIds>,
    pub(super) wire_ids: FileLineIds,
    /// The provenance as this import writes it.
    pub(super) provenance: Provenance,
}

impl ThreadLayout {
    /// The id of the entry that represents a line of a context.
    pub(super) fn line_id(&self, (file, line_index): HistoryLine) -> Result<Option<EntryId>> {
        let line = u64::try_from(line_index).unwrap_or(u64::MAX).saturating_add(1);
        self.ids.get(file).map(|ids| ids.line(line)).transpose()
    }

    /// The id of an entry of the tree.
    pub(super) fn node_id(&self, at: Option<usize>) -> Result<Option<EntryId>> {
        match at.and_then(|at| self.history.node(at)) {
            Some(node) => self.line_id((node.file, node.line_index)),
            None => Ok(None),
        }
    }
}

impl KimiSession {
    /// Finds out how the files form one thread. The decisions of earlier imports that are stored stay the same.
    pub(super) fn layout(&self, stored: &StoredEntries) -> ThreadLayout {
        let ids_in_use = FileLineIds::ids_in_use(stored);
        let known: Vec<_> = stored.provenance.iter().flat_map(contexts_of).collect();
        let mut provenance = self.info.provenance.clone();
        let mut ids = Vec::new();
        for (position, context) in self.contexts.iter().enumerate() {
            let prefix = FileLineIds::prefix(position) + "L";
            let reimported = stored.reimported(known.get(position).copied(), &context.line_ends, &prefix);
            ids.push(FileLineIds::context(position, &ids_in_use, &reimported));
            set_reimported(&mut provenance, &context.provenance, reimported);
        }
        let wire_known = stored.provenance.as_ref().and_then(|provenance| provenance.file_named(WIRE_FILE_NAME));
        let reimported_wire = self
            .wire
            .as_ref()
            .map_or_else(Vec::new, |wire| stored.reimported(wire_known, &wire.line_ends, ids::WIRE_PREFIX));
        let wire_ids = FileLineIds::wire(&ids_in_use, &reimported_wire);
        if let Some(wire) = &self.wire {
            set_reimported(&mut provenance, &wire.provenance, reimported_wire);
        }
        let context_lines: Vec<_> = self.contexts.iter().map(|context| &context.line_data).collect();
        let history = History::of(&context_lines, &|decision| self.is_stored(&ids, stored, decision));
        let wire_matches =
            self.wire.as_ref().map(|wire| match_lines(&history, &context_lines, &wire.line_data)).unwrap_or_default();
        ThreadLayout { history, wire_matches, ids, wire_ids, provenance }
    }

    fn is_stored(&self, ids: &[FileLineIds], stored: &StoredEntries, decision: StoredDecision) -> bool {
        let line = |line_index: usize| u64::try_from(line_index).unwrap_or(u64::MAX).saturating_add(1);
        let (StoredDecision::Line(file, _)
        | StoredDecision::Reference(file, _)
        | StoredDecision::Rewind(file, _)
        | StoredDecision::OpenRewind(file, _)) = decision;
        let Some(ids) = ids.get(file).filter(|_| !stored.has_no_imported_entry()) else { return false };
        let id = match decision {
            StoredDecision::Line(_, line_index) => ids.line(line(line_index)),
            StoredDecision::Reference(_, line_index) => ids.reference(line(line_index)),
            StoredDecision::Rewind(_, shared_lines) => ids.rewind(shared_lines),
            StoredDecision::OpenRewind(_, shared_lines) => ids.open_rewind(shared_lines),
        };
        id.is_ok_and(|id| stored.has_imported(self, &id))
    }
}

impl Session for KimiSession {
    fn info(&self) -> &SessionInfo {
        &self.info
    }

    fn info_mut(&mut self) -> &mut SessionInfo {
        &mut self.info
    }

    /// Compares contexts by their position, because kimi-cli renames a context when it begins the next one. The state
    /// is not compared, because kimi-cli rewrites it at every change.
    fn continues(&self, known: &Provenance) -> Result<bool> {
        let contexts: Vec<_> = contexts_of(known).collect();
        if contexts.len() > self.contexts.len() {
            return Ok(false);
        }
        for (known, context) in contexts.into_iter().zip(&self.contexts) {
            if !begins_with(context, known)? {
                return Ok(false);
            }
        }
        match (known.file_named(WIRE_FILE_NAME), &self.wire) {
            (Some(known), Some(wire)) => begins_with(wire, known),
            (Some(known), None) => Ok(known.bytes == 0),
            (None, _) => Ok(true),
        }
    }

    fn adopt(&mut self, stored: &StoredEntries) {
        self.layout = self.layout(stored);
    }

    fn drafts<'a>(&'a self, stored: &'a StoredEntries) -> Result<Box<dyn Drafts + 'a>> {
        Ok(Box::new(KimiDrafts::new(self, stored)?))
    }

    fn head(&self, _stored: &StoredEntries) -> Option<EntryId> {
        let head = match self.head {
            HeadChoice::Writer => self.layout.history.head().filter(|_| !self.is_cleared),
            HeadChoice::FirstLeaf => self.layout.history.first_leaf(),
        };
        self.layout.node_id(head).ok().flatten()
    }
}

/// The provenance of the contexts that are not empty, the oldest first.
fn contexts_of(provenance: &Provenance) -> impl Iterator<Item = &FileProvenance> {
    provenance.files.iter().filter(|file| is_context(file.name.as_deref()) && file.bytes > 0)
}

/// Whether a file begins with the bytes that an earlier import has read.
fn begins_with<T>(file: &LineFile<T>, known: &FileProvenance) -> Result<bool> {
    if known.bytes == file.provenance.bytes {
        return Ok(known.sha256 == file.provenance.sha256);
    }
    Ok(known.bytes < file.provenance.bytes && file.source.hash_of_first(known.bytes)?.as_ref() == Some(&known.sha256))
}

fn set_reimported(provenance: &mut Provenance, file: &FileProvenance, reimported: Vec<ReimportedLine>) {
    if let Some(noted) = provenance.files.iter_mut().find(|noted| noted.name == file.name) {
        noted.reimported = reimported;
    }
}
