//! A session that the first pass has read, as the import uses it.

use store_core::{EntryId, Timestamp};

use super::{
    clock::{At, Clock},
    drafts::KimiDrafts,
    folder::{WIRE, is_context},
    history::{History, Mark},
    ids::{self, Ids},
    row::Row,
    state::Whole,
    wire::Record,
};
use crate::{
    error::Result,
    format::{About, Drafts, Session, Stored},
    provenance::{FileProvenance, Provenance, Retaken},
    source::Source,
};

/// A file of lines.
pub(super) struct Lined<T> {
    pub(super) source: Source,
    pub(super) provenance: FileProvenance,
    /// The offset at which each line ends, without its line end.
    pub(super) ends: Vec<u64>,
    /// When it was last written.
    pub(super) modified: Option<Timestamp>,
    /// What the import keeps of each line between the two passes.
    pub(super) rows: Vec<T>,
}

/// A session.
pub(super) struct KimiSession {
    pub(super) about: About,
    /// The contexts that are not empty, the oldest first.
    pub(super) contexts: Vec<Lined<Row>>,
    pub(super) wire: Option<Lined<Record>>,
    /// The state and the unknown files, each with the prefix of the id of its entry.
    pub(super) wholes: Vec<(&'static str, Whole)>,
    /// Whether the current context is empty.
    pub(super) is_cleared: bool,
    pub(super) plan: Plan,
}

/// How the files of a session form one thread.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) history: History,
    pub(super) clock: Clock,
    /// The ids of the lines of each context.
    pub(super) ids: Vec<Ids>,
    pub(super) wire_ids: Ids,
    /// The provenance as this import writes it.
    pub(super) provenance: Provenance,
}

impl Plan {
    /// The id of the entry that represents a line of a context.
    pub(super) fn line_id(&self, (file, row): At) -> Result<Option<EntryId>> {
        let line = u64::try_from(row).unwrap_or(u64::MAX).saturating_add(1);
        self.ids.get(file).map(|ids| ids.line(line)).transpose()
    }

    /// The id of an entry of the tree.
    pub(super) fn node_id(&self, at: Option<usize>) -> Result<Option<EntryId>> {
        match at.and_then(|at| self.history.node(at)) {
            Some(node) => self.line_id((node.file, node.row)),
            None => Ok(None),
        }
    }
}

impl KimiSession {
    /// Plans how the files form one thread. What is already stored stays as it is.
    pub(super) fn plan(&self, stored: &Stored) -> Plan {
        let taken = Ids::taken(stored);
        let known: Vec<_> = stored.provenance.iter().flat_map(contexts_of).collect();
        let mut provenance = self.about.provenance.clone();
        let mut ids = Vec::new();
        for (position, context) in self.contexts.iter().enumerate() {
            let prefix = Ids::prefix(position) + "L";
            let retaken = stored.retaken(known.get(position).copied(), &context.ends, &prefix);
            ids.push(Ids::context(position, &taken, &retaken));
            note_retaken(&mut provenance, &context.provenance, retaken);
        }
        let wire_known = stored.provenance.as_ref().and_then(|provenance| provenance.named(WIRE));
        let ends = self.wire.as_ref().map_or(&[][..], |wire| &wire.ends);
        let retaken_wire = stored.retaken(wire_known, ends, ids::WIRE_PREFIX);
        let wire_ids = Ids::wire(&taken, &retaken_wire);
        if let Some(wire) = &self.wire {
            note_retaken(&mut provenance, &wire.provenance, retaken_wire);
        }
        let rows: Vec<_> = self.contexts.iter().map(|context| context.rows.as_slice()).collect();
        let history = History::of(&rows, &|mark| is_stored(&ids, stored, mark));
        let clock = self.clock(&history);
        Plan { history, clock, ids, wire_ids, provenance }
    }

    fn clock(&self, history: &History) -> Clock {
        let mut lines = Vec::new();
        for (file, context) in self.contexts.iter().enumerate() {
            for (row, found) in context.rows.iter().enumerate() {
                if history.is_new((file, row)) {
                    lines.push(((file, row), found));
                }
            }
        }
        Clock::of(&lines, self.wire.as_ref().map_or(&[], |wire| &wire.rows))
    }
}

impl Session for KimiSession {
    fn about(&self) -> &About {
        &self.about
    }

    fn about_mut(&mut self) -> &mut About {
        &mut self.about
    }

    /// Compares contexts by their position, because a rotation renames them. The state is not compared, because
    /// kimi-cli rewrites it at every change.
    fn continues(&self, known: &Provenance) -> Result<bool> {
        let contexts: Vec<_> = contexts_of(known).collect();
        if contexts.len() > self.contexts.len() {
            return Ok(false);
        }
        for (known, now) in contexts.into_iter().zip(&self.contexts) {
            if !begins_with(now, known)? {
                return Ok(false);
            }
        }
        match (known.named(WIRE), &self.wire) {
            (Some(known), Some(now)) => begins_with(now, known),
            (Some(known), None) => Ok(known.bytes == 0),
            (None, _) => Ok(true),
        }
    }

    fn adopt(&mut self, stored: &Stored) {
        self.plan = self.plan(stored);
    }

    fn drafts<'a>(&'a self, stored: &'a Stored) -> Result<Box<dyn Drafts + 'a>> {
        Ok(Box::new(KimiDrafts::new(self, stored)?))
    }

    fn head(&self, _stored: &Stored) -> Option<EntryId> {
        let head = self.plan.history.head().filter(|_| !self.is_cleared);
        self.plan.node_id(head).ok().flatten()
    }
}

/// The provenance of the contexts that are not empty, the oldest first.
fn contexts_of(provenance: &Provenance) -> impl Iterator<Item = &FileProvenance> {
    provenance.0.iter().filter(|file| is_context(file.name.as_deref()) && file.bytes > 0)
}

fn begins_with<T>(now: &Lined<T>, known: &FileProvenance) -> Result<bool> {
    if known.bytes == now.provenance.bytes {
        return Ok(known.sha256 == now.provenance.sha256);
    }
    Ok(known.bytes < now.provenance.bytes && now.source.hash_of(known.bytes)?.as_ref() == Some(&known.sha256))
}

fn note_retaken(provenance: &mut Provenance, file: &FileProvenance, retaken: Vec<Retaken>) {
    if let Some(noted) = provenance.0.iter_mut().find(|noted| noted.name == file.name) {
        noted.retaken = retaken;
    }
}

fn is_stored(ids: &[Ids], stored: &Stored, mark: Mark) -> bool {
    let line = |row: usize| u64::try_from(row).unwrap_or(u64::MAX).saturating_add(1);
    let (Mark::Line(file, _) | Mark::Shared(file, _) | Mark::Rewind(file, _) | Mark::Open(file, _)) = mark;
    let Some(ids) = ids.get(file).filter(|_| !stored.imported.is_empty()) else { return false };
    let id = match mark {
        Mark::Line(_, row) => ids.line(line(row)),
        Mark::Shared(_, row) => ids.shared(line(row)),
        Mark::Rewind(_, shared) => ids.rewind(shared),
        Mark::Open(_, shared) => ids.open(shared),
    };
    id.is_ok_and(|id| stored.has(&id))
}
