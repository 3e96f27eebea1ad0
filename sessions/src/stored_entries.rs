//! What the thread of a session already contains.

use std::collections::BTreeMap;

use store_core::{Entry, EntryId};

use crate::{
    compact::{LineEnds, RangeMap, to_u32},
    provenance::{FileProvenance, LastLine, Provenance, ReimportedLine},
    session::Session,
};

/// What the thread of a session already contains. It is empty for a new thread.
#[derive(Debug, Default)]
pub(crate) struct StoredEntries {
    /// The lines whose entries were imported under their usual ids, each with the line of its parent, or 0 for none.
    lines: RangeMap,
    /// Other entries that were imported.
    other_entries: BTreeMap<EntryId, ImportedEntry>,
    /// Entries that were not imported from this format. Their ids are in use.
    pub(crate) foreign_entries: Vec<EntryId>,
    /// The newest provenance; `None` for a new thread.
    pub(crate) provenance: Option<Provenance>,
    /// The head of the thread, if no import wrote this entry. New lines do not move the head away from it.
    pub(crate) kept_head: Option<EntryId>,
}

/// The parent of an entry that was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredParent<'a> {
    None,
    /// The entry that has the usual id of this line.
    Line(u64),
    /// The entry with this id.
    Other(&'a EntryId),
}

/// An imported entry that does not have the usual id of its line, or whose parent does not have the usual
/// id of the line that the parent represents.
#[derive(Debug)]
struct ImportedEntry {
    parent: Option<EntryId>,
    /// The line of the parent, if the parent has the usual id of this line.
    parent_line: Option<u64>,
    /// The line that it represents, or 0 for none.
    line: u64,
}

impl ImportedEntry {
    fn stored_parent(&self) -> StoredParent<'_> {
        match (self.parent_line, &self.parent) {
            (Some(line), _) => StoredParent::Line(line),
            (None, Some(parent)) => StoredParent::Other(parent),
            (None, None) => StoredParent::None,
        }
    }
}

impl StoredEntries {
    /// Adds an entry of the thread. `format` is the name of the format of the session.
    pub(crate) fn add(&mut self, session: &dyn Session, entry: &Entry, format: &str) {
        let Some(origin) = entry.origin.as_ref().filter(|origin| origin.format == format) else {
            self.foreign_entries.push(entry.id.clone());
            return;
        };
        let line = origin.line;
        let parent_line = entry.parent.as_ref().and_then(|parent| session.usual_line(parent));
        let is_usual = line > 0 && session.usual_line(&entry.id) == Some(line);
        let is_added = is_usual
            && (entry.parent.is_none() || parent_line.is_some())
            && self.lines.push(to_u32(line), to_u32(parent_line.unwrap_or_default()));
        if !is_added {
            let imported = ImportedEntry { parent: entry.parent.clone(), parent_line, line };
            self.other_entries.insert(entry.id.clone(), imported);
        }
    }

    /// Whether no entry was imported.
    pub(crate) fn has_no_imported_entry(&self) -> bool {
        self.lines.is_empty() && self.other_entries.is_empty()
    }

    /// Whether an import wrote this entry.
    pub(crate) fn has_imported(&self, session: &dyn Session, id: &EntryId) -> bool {
        let is_of_line = || session.usual_line(id).is_some_and(|line| self.lines.get(to_u32(line)).is_some());
        self.other_entries.contains_key(id) || (!self.lines.is_empty() && is_of_line())
    }

    /// The parent of an entry, if an import wrote the entry. `usual_line` is the line whose usual id the entry has.
    pub(crate) fn parent(&self, id: &EntryId, usual_line: Option<u64>) -> Option<StoredParent<'_>> {
        let of_line = usual_line.and_then(|line| self.lines.get(to_u32(line)));
        let of_line = of_line.map(|line| if line == 0 { StoredParent::None } else { StoredParent::Line(line.into()) });
        of_line.or_else(|| self.other_entries.get(id).map(ImportedEntry::stored_parent))
    }

    /// The lines of a file that were imported before they were complete. `known` is the stored provenance of the file.
    /// The ids of the entries of its lines begin with `prefix`.
    pub(crate) fn reimported(
        &self,
        known: Option<&FileProvenance>,
        line_ends: &LineEnds,
        prefix: &str,
    ) -> Vec<ReimportedLine> {
        let Some(known) = known else { return Vec::new() };
        let mut reimported = known.reimported.clone();
        // A CR at the end may be half of a CR LF, so it is not part of the line.
        let known_end = known.bytes.saturating_sub(u64::from(known.crlf.contains(known.lines)));
        let has_grown = known.last != LastLine::Ended && line_ends.of(known.lines).is_some_and(|end| end > known_end);
        // The provenance is stored before the lines. If the earlier import was interrupted, it may not have stored the
        // last line.
        let known_count = reimported.iter().filter(|reimported| reimported.line == known.lines).count();
        if has_grown && self.import_count(known.lines, prefix) > known_count {
            reimported.push(ReimportedLine { line: known.lines, was_torn: known.last == LastLine::Torn });
        }
        reimported
    }

    /// How often a line was imported. An entry in `lines` belongs to a session with one file, whose ids have no prefix.
    fn import_count(&self, line: u64, prefix: &str) -> usize {
        let is_of = |(id, entry): &(&EntryId, &ImportedEntry)| entry.line == line && id.as_str().starts_with(prefix);
        let of_line = prefix.is_empty() && self.lines.get(to_u32(line)).is_some();
        self.other_entries.iter().filter(is_of).count() + usize::from(of_line)
    }
}
