//! A file that the first pass has read, as the import uses it.

use std::collections::HashMap;

use store_core::EntryId;

use super::{LineFormat, LineIds, SourceLine, drafts::LineDrafts};
use crate::{
    activity::Activity,
    error::Result,
    provenance::{Provenance, ReimportedLine},
    session::{self, Drafts, Session, StoredEntries},
    source::Source,
    tree::Tree,
};

/// A file that the first pass has read.
pub(super) struct LineSession<F: LineFormat> {
    pub(super) format: F,
    pub(super) source: Source,
    pub(super) info: session::SessionInfo,
    pub(super) tree: Tree<F::LineData>,
    pub(super) source_lines: Vec<SourceLine>,
    /// The position of each line in the tree, by the number of the line.
    pub(super) nodes: HashMap<u64, usize>,
    /// The offset at which each line ends, without its line end.
    pub(super) line_ends: Vec<u64>,
    pub(super) has_header: bool,
    pub(super) head: Option<usize>,
    pub(super) activity: Activity,
}

impl<F: LineFormat> LineSession<F> {
    /// The lines that were imported before they were complete.
    fn reimported(&self, stored: &StoredEntries) -> Vec<ReimportedLine> {
        stored.reimported(stored.provenance.as_ref().and_then(Provenance::first_file), &self.line_ends, "")
    }

    pub(super) fn ids(&self, stored: &StoredEntries) -> LineIds {
        LineIds::assign(&self.source_lines, stored, &self.reimported(stored))
    }

    /// The provenance as this import writes it.
    pub(super) fn provenance(&self, stored: &StoredEntries) -> Provenance {
        let mut provenance = self.info.provenance.clone();
        if let Some(file) = provenance.0.first_mut() {
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
        let [known] = known.0.as_slice() else { return Ok(false) };
        let Some(now) = self.info.provenance.first_file() else { return Ok(false) };
        if known.bytes == now.bytes {
            return Ok(known.sha256 == now.sha256);
        }
        Ok(known.bytes < now.bytes && self.source.hash_of_first(known.bytes)?.as_ref() == Some(&known.sha256))
    }

    fn adopt(&mut self, stored: &StoredEntries) {
        let Some(known) = &stored.provenance else { return };
        let has_grown = known.digest() != self.info.provenance.digest();
        let ids = self.ids(stored);
        let id_of = |at: usize| ids.of(self.tree.get(at)?.line);
        let nodes: HashMap<_, _> = (0..self.tree.len()).filter_map(|at| Some((id_of(at)?, at))).collect();
        let parents: Vec<_> = (0..self.tree.len())
            .map(|at| match id_of(at).and_then(|id| stored.imported.get(id)) {
                Some(entry) => entry.parent.as_ref().and_then(|parent| nodes.get(parent).copied()),
                None => self.tree.parent(at),
            })
            .collect();
        let is_stored: Vec<_> =
            (0..self.tree.len()).map(|at| id_of(at).is_some_and(|id| stored.has_imported(id))).collect();
        drop(nodes);
        let order = self.tree.set_parents(&parents);
        self.format.derive_path_data(&mut self.tree, &order);
        let is_stored = |at: usize| is_stored.get(at).copied().unwrap_or_default();
        if has_grown {
            self.format.adopt_stored(&mut self.tree, &is_stored);
        }
    }

    fn activity(&self) -> &Activity {
        &self.activity
    }

    fn drafts<'a>(&'a self, stored: &'a StoredEntries) -> Result<Box<dyn Drafts + 'a>> {
        Ok(Box::new(LineDrafts::new(self, stored)?))
    }

    fn head(&self, stored: &StoredEntries) -> Option<EntryId> {
        let line = self.tree.get(self.head?)?.line;
        self.ids(stored).of(line).cloned()
    }
}
