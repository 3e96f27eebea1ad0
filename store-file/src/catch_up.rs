//! Brings an index to where the logs are by the journal: batch by batch, in the order in which they were committed.

use std::collections::BTreeMap;

use store_core::{ErrorKind, Result, Scope, TenantId, Timestamp};

use crate::{
    codec::{Get, LogRow, Rows, damaged, read},
    decoded::{decode, forget, own_header, told},
    dispatch_rows::MailboxRows,
    error,
    facts::Facts,
    fold::{self, Owner},
    index::Index,
    journal::{Redone, Step, StepKind},
    line::{Fact, ThreadHeader},
    log::{Group, Header, Position, Scanner, read_header},
    names::{log_path, rewrites_of},
    replay::{next_log, show},
    report::Opening,
    root,
    staged::Staged,
    sweep::sweep_step,
    table,
    vfs::{Damaged, FilePath, Open, Vfs},
};

/// The index takes about so many changes at once.
const STEP: usize = 2_048;

/// Works the batches of a journal into an index.
pub(crate) struct CatchUp<'a> {
    vfs: &'a dyn Vfs,
    index: &'a Index,
    staged: Staged<'a>,
    /// The logs that were needed so far, by their files.
    logs: BTreeMap<FilePath, (u64, LogRow)>,
    next_log: u64,
    trimmed: Vec<(TenantId, Scope)>,
}

impl<'a> CatchUp<'a> {
    pub(crate) fn new(vfs: &'a dyn Vfs, index: &'a Index) -> Result<Self> {
        let (staged, next_log) = (Staged::new(index), next_log(index)?);
        Ok(Self { vfs, index, staged, logs: BTreeMap::new(), next_log, trimmed: Vec::new() })
    }

    /// Works in what the index does not have of these steps, up to the batch `last`. `false` if it does not fit what
    /// the logs have: it must be made anew.
    pub(crate) fn run(
        mut self,
        (steps, last): (&[Step], u64),
        redone: &Redone,
        now: Timestamp,
        opening: &mut Opening,
    ) -> Result<bool> {
        let from = self.staged.number(&table::fact("batch"))?.unwrap_or_default();
        let mut at = from;
        for step in steps {
            if step.batch <= from {
                continue;
            }
            if step.batch > at {
                self.show(at, STEP)?;
                at = step.batch;
            }
            if !self.step(step, redone, opening)? {
                return Ok(false);
            }
        }
        self.show(last, 0)?;
        for (tenant, scope) in std::mem::take(&mut self.trimmed) {
            while sweep_step(self.index, (&tenant, &scope), now)? {}
        }
        Ok(true)
    }

    /// Lets the index take what is staged, which is everything up to a batch.
    fn show(&mut self, batch: u64, most: usize) -> Result<()> {
        if self.staged.len() > most {
            self.staged.put(table::fact("batch"), batch.to_be_bytes());
        }
        show(&mut self.staged, self.index, most)
    }

    fn step(&mut self, step: &Step, redone: &Redone, opening: &mut Opening) -> Result<bool> {
        let path = &step.path;
        match step.kind {
            StepKind::Made => drop(self.logs.remove(path)),
            StepKind::Dropped => {
                self.find(step)?;
                if let Some((log, row)) = self.logs.remove(path) {
                    forget(&mut self.staged, &Owner::of(log, &row))?;
                    self.staged.delete(table::purge(log));
                }
            }
            // The log is damaged. `note_damage` refuses its thread, and lets later openings find the damage.
            StepKind::Appended(..) if redone.damaged.contains(path) => {}
            StepKind::Appended(from, to) if *path == root::path()? => return self.facts(path, from, to),
            StepKind::Appended(from, to) => {
                if from > 0 {
                    self.find(step)?;
                }
                return match self.appended(step, (from, to), opening) {
                    // Only this thread needs it; when the index is made anew, it is refused alone.
                    Err(error) if error::damage(&error).is_some() => Ok(false),
                    appended => appended,
                };
            }
        }
        Ok(true)
    }

    /// Looks up what the index knows of the log of a step: under the number that the journal gives it, or, in the index
    /// of a reader, whose logs have other numbers, by the first line of the file.
    fn find(&mut self, step: &Step) -> Result<()> {
        let path = &step.path;
        if self.logs.contains_key(path) {
            return Ok(());
        }
        let mut found = self.row_at(path, step.log)?;
        if found.is_none() {
            let header = match self.vfs.open(path, Open::Read).and_then(|file| own_header(&*file, path)) {
                Err(source) if source.kind() == std::io::ErrorKind::NotFound => return self.find_gone(path),
                Err(source) if Damaged::of(&source).is_some() => return Ok(()),
                read => read.map_err(|source| error::io(path, source))?,
            };
            let Some((ThreadHeader { tenant, thread, generation, .. }, _)) = header else { return Ok(()) };
            let log = match generation {
                0 => self.staged.event_log(&tenant, &thread)?,
                _ => self.staged.thread_row(&tenant, &thread)?.map(|row| row.log),
            };
            found = log.map_or(Ok(None), |log| self.row_at(path, log))?;
        }
        self.logs.extend(found.map(|found| (path.clone(), found)));
        Ok(())
    }

    /// Looks up the log of a collection whose file is gone. A reader beside a holder knows it under a number of its
    /// own, and may still have documents that were deleted before the log was removed.
    fn find_gone(&mut self, path: &FilePath) -> Result<()> {
        if rewrites_of(path.as_str()).is_none() {
            return Ok(());
        }
        for key in self.staged.keys(&table::logs())? {
            let log = table::read_log(&key).ok_or_else(|| damaged("log"))?;
            if let Some(found) = self.row_at(path, log)? {
                self.logs.insert(path.clone(), found);
                break;
            }
        }
        Ok(())
    }

    /// The row of a log, if it is that of this file.
    fn row_at(&self, path: &FilePath, log: u64) -> Result<Option<(u64, LogRow)>> {
        for key in [table::log(log), table::purge(log)] {
            let Some(value) = self.staged.get(key.as_bytes())? else { continue };
            let row: LogRow = read("log", &value)?;
            if log_path(&row.tenant, &row.thread, row.generation)? == *path {
                return Ok(Some((log, row)));
            }
        }
        Ok(None)
    }

    /// The number of a log that the index does not know: that of the journal, if no other log has it here.
    fn new_number(&mut self, log: u64) -> Result<u64> {
        let is_free = self.staged.get(table::log(log).as_bytes())?.is_none()
            && self.staged.get(table::purge(log).as_bytes())?.is_none();
        let number = if is_free { log } else { self.next_log };
        self.next_log = self.next_log.max(number + 1);
        Ok(number)
    }

    fn appended(&mut self, step: &Step, range: (u64, u64), opening: &mut Opening) -> Result<bool> {
        let path = &step.path;
        let fail = |source| error::io(path, source);
        let file = match self.vfs.open(path, Open::Read) {
            // A later batch drops it: what was to be kept of it stands in another log.
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            opened => opened.map_err(fail)?,
        };
        let (owner, start) = match self.logs.get(path) {
            Some((log, row)) => (Owner::of(*log, row), row.end),
            None if range.0 > 0 => return Ok(false),
            None => {
                let Some((header, start)) = own_header(&*file, path).map_err(fail)? else { return Ok(false) };
                let owner = Owner {
                    tenant: header.tenant,
                    thread: header.thread,
                    generation: header.generation,
                    log: self.new_number(step.log)?,
                };
                opening.logs_read += 1;
                (owner, start)
            }
        };
        if range.0 > 0 && start.offset != range.0 {
            return Ok(false);
        }
        let before = told(&self.staged, &owner)?;
        let mut told = before.clone();
        let mut scanner = Scanner::new(&*file, start, range.1);
        while let Some(group) = scanner.next_group().map_err(fail)? {
            match self.group(path, &owner, &mut told, &group) {
                // Only this thread needs it; a verification says more.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::SchemaMismatch) => {
                    return Ok(false);
                }
                folded => folded?,
            }
        }
        let end = scanner.position();
        if end.offset != range.1 {
            return Ok(false);
        }
        fold::finish(&mut self.staged, &owner, (&before, &told), end);
        self.logs.insert(path.clone(), (owner.log, owner.row(end)));
        Ok(true)
    }

    fn group(&mut self, path: &FilePath, owner: &Owner, told: &mut fold::Told, group: &Group<'_>) -> Result<()> {
        let lines = decode(path, group)?;
        self.trimmed.extend(lines.trimmed_scopes().map(|scope| (owner.tenant.clone(), scope.clone())));
        fold::fold(&mut self.staged, owner, told, &lines)
    }

    /// Works facts of the root log in.
    fn facts(&mut self, path: &FilePath, from: u64, to: u64) -> Result<bool> {
        let fail = |source| error::io(path, source);
        let file = self.vfs.open(path, Open::Read).map_err(fail)?;
        let known = self.staged.get_position("root")?.filter(|known| *known != Position::default());
        let start = match known {
            Some(known) if known.offset == from => known,
            None if from == 0 => match read_header(&*file).map_err(fail)? {
                Header::Good(_, start) => start,
                Header::Bad => return Ok(false),
            },
            _ => return Ok(false),
        };
        let mut scanner = Scanner::new(&*file, start, to);
        let mut found = Vec::new();
        while let Some(group) = scanner.next_group().map_err(fail)? {
            found.extend(root::decode(path, &group)?);
        }
        let end = scanner.position();
        found.into_iter().try_for_each(|fact| self.fact(fact))?;
        self.staged.put(table::fact("root"), root::encode_position(end));
        Ok(end.offset == to)
    }

    fn fact(&mut self, fact: Fact) -> Result<()> {
        let staged = &mut self.staged;
        match &fact {
            Fact::DropTenant { tenant, claims } => {
                staged.put(table::dropping(tenant), []);
                if let Some(claims) = staged.number(&table::fact("claims"))?.max(*claims) {
                    staged.put(table::fact("claims"), claims.to_be_bytes());
                }
            }
            Fact::TenantGone { tenant } => {
                staged.delete(table::dropping(tenant));
                staged.delete_all(&table::ids(tenant))?;
            }
            Fact::Numbers { documents } => staged.put(table::fact("documents"), documents.to_be_bytes()),
            Fact::Relaxed { session } => staged.put(table::fact("relaxed"), session.to_be_bytes()),
            _ => {}
        }
        let mut facts = Facts::default();
        facts.take(fact);
        // The log of a deleted thread waits for its purge, so this keeps the row of the log, for the purge.
        facts.remove_deleted(staged)?;
        facts.finish(staged)
    }
}
