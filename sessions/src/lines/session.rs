//! A file that the first pass has read, as the import uses it.

use store_core::EntryId;

use super::{LineFormat, LineIds, drafts::LineDrafts, ids::usual_line};
use crate::{
    activity::Activity,
    compact::{BitSet, LineEnds},
    error::Result,
    provenance::{FileProvenance, LastLine, Provenance, ReimportedLine},
    session::{self, Drafts, Session, StoredEntries, StoredParent},
    source::Source,
    tree::{Parents, Tree},
};

/// A file that the first pass has read.
pub(super) struct LineSession<F: LineFormat> {
    pub(super) format: F,
    pub(super) source: Source,
    pub(super) info: session::SessionInfo,
    pub(super) tree: Tree<F::LineData>,
    pub(super) line_ends: LineEnds,
    pub(super) has_header: bool,
    pub(super) head: Option<usize>,
    pub(super) activity: Activity,
}

impl<F: LineFormat> LineSession<F> {
    /// The lines that were imported before they were complete.
    fn reimported(&self, stored: &StoredEntries) -> Vec<ReimportedLine> {
        let no_prefix = "";
        stored.reimported(stored.provenance.as_ref().and_then(Provenance::first_file), &self.line_ends, no_prefix)
    }

    pub(super) fn ids(&self, stored: &StoredEntries) -> LineIds<'_> {
        LineIds::assign(self.tree.source_ids(), stored, &self.reimported(stored))
    }

    /// Whether a file may be the beginning of this one, judged by the number and the ends of its lines. If not, no
    /// bytes need to be read.
    fn may_begin_with(&self, known: &FileProvenance) -> bool {
        let Some(end) = self.line_ends.of(known.lines) else { return known.lines == 0 };
        match known.last {
            // The line ends with LF or CR LF.
            LastLine::Ended => (1..=2).contains(&known.bytes.saturating_sub(end)),
            // A CR at the end may be half of a CR LF, which is not part of the line.
            LastLine::Unterminated | LastLine::Torn => known.bytes.saturating_sub(1) <= end,
        }
    }

    /// The provenance that this import writes.
    pub(super) fn provenance(&self, stored: &StoredEntries) -> Provenance {
        let mut provenance = self.info.provenance.clone();
        if let Some(file) = provenance.files.first_mut() {
            file.reimported = self.reimported(stored);
        }
        provenance
    }
}

impl<F: LineFormat> Session for LineSession<F> {
    fn info(&self) -> &session::SessionInfo {
        &self.info
    }

    fn info_mut(&mut self) -> &mut session::SessionInfo {
        &mut self.info
    }

    fn continues(&self, known: &Provenance) -> Result<bool> {
        let [known] = known.files.as_slice() else { return Ok(false) };
        let Some(file) = self.info.provenance.first_file() else { return Ok(false) };
        if known.bytes == file.bytes {
            return Ok(known.sha256 == file.sha256);
        }
        Ok(known.bytes < file.bytes
            && self.may_begin_with(known)
            && self.source.hash_of_first(known.bytes)?.as_ref() == Some(&known.sha256))
    }

    fn adopt(&mut self, stored: &StoredEntries) {
        let Some(known) = &stored.provenance else { return };
        let has_grown = known.digest() != self.info.provenance.digest();
        let ids = self.ids(stored);
        let lines_with_unusual_ids = ids.lines_with_unusual_ids();
        let (mut parents, mut is_stored) = (Parents::default(), BitSet::new(self.tree.len()));
        for at in 0..self.tree.len() {
            let line = self.tree.line(at).unwrap_or_default();
            let usual_line = Some(line).filter(|line| ids.is_usual(*line));
            let known = ids.of(line).and_then(|id| stored.parent(&id, usual_line));
            if known.is_some() {
                is_stored.insert(at);
            }
            parents.push(match known {
                None => self.tree.parent(at),
                Some(StoredParent::None) => None,
                Some(StoredParent::Line(parent)) if ids.is_usual(parent) => self.tree.position(parent),
                Some(StoredParent::Line(_)) => None,
                Some(StoredParent::Other(parent)) => {
                    lines_with_unusual_ids.get(parent).and_then(|line| self.tree.position(*line))
                }
            });
        }
        let order = self.tree.set_parents(parents);
        self.format.derive_path_data(&mut self.tree, &order);
        if has_grown {
            self.format.adopt_stored(&mut self.tree, &|at| is_stored.contains(at));
        }
    }

    fn activity(&self) -> &Activity {
        &self.activity
    }

    fn drafts<'a>(&'a self, stored: &'a StoredEntries) -> Result<Box<dyn Drafts + 'a>> {
        Ok(Box::new(LineDrafts::new(self, stored)?))
    }

    fn head(&self, stored: &StoredEntries) -> Option<EntryId> {
        self.ids(stored).of(self.tree.line(self.head?)?)
    }

    fn usual_line(&self, id: &EntryId) -> Option<u64> {
        usual_line(self.tree.source_ids(), id.as_str()).map(u64::from)
    }
}
