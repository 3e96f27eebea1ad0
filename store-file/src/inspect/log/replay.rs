//! What a log gives, read from its beginning.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use store_core::{Entry, Result, Run, RunId, log::Node, thread::StoredThread};

use super::{super::outbox::Rows as OutboxRows, Check};
use crate::{
    codec::Rows,
    decoded, error,
    fold::{self, Told},
    index::Index,
    line::Line,
    log::{Position, Scanner},
    staged::Staged,
    vfs::{FilePath, VfsFile},
};

/// What a log gives, read from its beginning.
pub(super) struct Replayed {
    /// What the index should say of it.
    pub(super) index: Index,
    /// The thread as the log tells it.
    pub(super) stored: Option<StoredThread>,
    pub(super) runs: BTreeMap<RunId, Arc<Run>>,
    /// What it says of the outbox.
    pub(super) outbox: OutboxRows,
    /// The place after the last good group.
    pub(super) end: Position,
    /// The first group that does not fit what stands before it: where it starts, where it ends, what is wrong.
    pub(super) misfit: Option<(u64, u64, String)>,
    /// Whether the log goes on after what the index knows of it.
    pub(super) goes_on: bool,
}

impl Check<'_> {
    /// What the log gives, as an index of its own, and where its last good group ends.
    pub(super) fn replay(&self, log: &Log<'_>) -> Result<Replayed> {
        let index = Index::in_memory();
        let mut told = Told::default();
        let (mut runs, mut outbox) = (BTreeMap::new(), OutboxRows::default());
        let (mut misfit, mut goes_on) = (None, self.row.end == Position::default());
        let mut scanner = Scanner::new(log.file, log.start, log.len);
        while let Some(group) = scanner.next_group().map_err(|source| error::io(log.path, source))? {
            goes_on |= group.end == self.row.end;
            if misfit.is_some() {
                continue;
            }
            let mut staged = Staged::new(&index);
            let folded = decoded::decode(log.path, &group).and_then(|lines| {
                runs.extend(lines.lines.iter().filter_map(|(line, _)| match line {
                    Line::Run(run) => Some((run.id.clone(), Arc::new(Run::clone(run)))),
                    _ => None,
                }));
                outbox.take(&lines.lines);
                fold::fold(&mut staged, &self.owner, &mut told, &lines)
            });
            misfit = folded.err().map(|error| (group.start, group.end.offset, error.to_string()));
            index.apply(&staged.into_changes())?;
        }
        let mut staged = Staged::new(&index);
        fold::finish(&mut staged, &self.owner, (&Told::default(), &told), scanner.position());
        self.facts.detach(&mut staged)?;
        index.apply(&staged.into_changes())?;
        let row = index.thread_row(&self.owner.tenant, &self.owner.thread)?;
        let stored = row.map(|row| row.stored).filter(|_| misfit.is_none()).or(told.stored);
        Ok(Replayed { index, stored, runs, outbox, end: scanner.position(), misfit, goes_on })
    }
}

/// A log as it is read.
pub(super) struct Log<'a> {
    pub(super) path: &'a FilePath,
    pub(super) file: &'a dyn VfsFile,
    /// The place after its header.
    pub(super) start: Position,
    pub(super) len: u64,
}

impl Log<'_> {
    /// Its entries up to an offset.
    pub(super) const fn entries(&self, to: u64) -> Entries<'_> {
        Entries { path: self.path, scanner: Scanner::new(self.file, self.start, to), next: VecDeque::new() }
    }
}

/// The entries of a log, group by group.
pub(super) struct Entries<'a> {
    path: &'a FilePath,
    scanner: Scanner<'a>,
    next: VecDeque<(Arc<Entry>, Node)>,
}

impl Entries<'_> {
    fn fill(&mut self) -> Result<bool> {
        let group = self.scanner.next_group().map_err(|source| error::io(self.path, source))?;
        let Some(group) = group else { return Ok(false) };
        for (line, _) in decoded::decode(self.path, &group)?.lines {
            if let Line::Entry(both) = line {
                self.next.push_back((Arc::new(both.0), both.1));
            }
        }
        Ok(true)
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(Arc<Entry>, Node)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(next) = self.next.pop_front() {
                return Some(Ok(next));
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
