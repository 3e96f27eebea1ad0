//! Reading logs again: their ends after an unclean close, all of them for a new index.

use std::collections::{BTreeSet, HashMap};

use store_core::{Error, ErrorKind, Result, Scope, TenantId, ThreadId, codec::Codec, length};

use crate::{
    codec::{LogRow, damaged, read},
    config::FileConfig,
    damage::{Damage, without_generation},
    decoded::{decode, forget, is_rewritten, own_header, told},
    error,
    facts::Facts,
    fold::{self, Owner},
    index::{Direction, Index},
    journal::lacks_batches,
    log::{Position, Recovery, recover},
    names::{mailbox_log_id, rewrites_of},
    report::{Opening, SetAside},
    staged::Staged,
    sweep::sweep_step,
    table,
    vfs::{Damaged, FilePath, Kind, Open, Vfs, name_of},
};

/// A step of the index holds about so many changes.
const STEP: usize = 2_048;
/// A step of an index that is made anew holds about so many changes, of many logs: the index makes a table of a large
/// step at once.
const LARGE_STEP: usize = 131_072;

type Known = HashMap<(TenantId, ThreadId, u64), (u64, LogRow, bool)>;

/// What is known of the logs before they are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    /// The last batch that was committed.
    pub(crate) last_batch: u64,
    /// Whether logs may have later ones: what a power cut took of the journal with relaxed durability.
    pub(crate) may_be_ahead: bool,
    /// Whether they may not be durable: those of the first release after an unclean close.
    pub(crate) rewrite: bool,
    /// Whether what was being made when the last holder ended is removed.
    pub(crate) unclean: bool,
}

impl From {
    /// The last batch whose groups are read. If no log may be ahead of the journal, all groups are read, and a later
    /// batch than the journal has is an error.
    const fn readable(&self) -> u64 {
        if self.may_be_ahead { self.last_batch } else { u64::MAX }
    }
}

/// Reads logs into the index.
pub(crate) struct Replay<'a> {
    vfs: &'a dyn Vfs,
    index: &'a Index,
    facts: &'a Facts,
    config: &'a FileConfig,
    /// What was read, and is not in the index yet.
    staged: Staged<'a>,
    /// What of the root the index does not cover, and how far the logs can be trusted.
    from: From,
    /// Whether the index knows no log.
    is_new: bool,
    /// Logs that the index knows: number, row, and whether they wait for their purge.
    known: Known,
    next_log: u64,
    damage: Damage,
    /// Whether a log has a batch that the journal should have.
    is_ahead: bool,
    /// Scopes of events that were trimmed.
    trimmed: BTreeSet<(TenantId, Scope)>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        vfs: &'a dyn Vfs,
        index: &'a Index,
        known: (&'a Facts, From),
        config: &'a FileConfig,
    ) -> Result<Self> {
        let (facts, from) = known;
        Ok(Self {
            vfs,
            index,
            facts,
            config,
            staged: Staged::new(index),
            from,
            is_new: false,
            known: Known::new(),
            next_log: next_log(index)?,
            damage: Damage::default(),
            is_ahead: false,
            trimmed: BTreeSet::new(),
        })
    }

    pub(crate) fn into_parts(self) -> (u64, Damage) {
        (self.next_log, self.damage)
    }

    /// Reads every log as far as the index does not cover it.
    pub(crate) fn all(&mut self, opening: &mut Opening) -> Result<()> {
        self.load_known()?;
        self.is_new = self.known.is_empty();
        let files = self.files()?;
        let total = Some(length(files.len()));
        for (done, path) in (1..).zip(&files) {
            self.file(path, opening)?;
            show(&mut self.staged, self.index, if self.is_new { LARGE_STEP } else { 0 })?;
            if !self.config.progress.advance(done, total) {
                return Err(Error::unavailable("the opening was stopped while it read the logs"));
            }
        }
        if self.is_ahead {
            return Err(lacks_batches());
        }
        show(&mut self.staged, self.index, 0)?;
        self.forget_lost()?;
        for (tenant, scope) in std::mem::take(&mut self.trimmed) {
            while sweep_step(self.index, (&tenant, &scope), self.config.clock.now())? {}
        }
        Ok(())
    }

    /// Takes out of the index what it says of logs that wait for their purge and have no file: it was under way. A
    /// reader takes out the logs of collections, too, for which the holder has made newer ones. Any other log without a
    /// file is damage, which its first use reports.
    fn forget_lost(&mut self) -> Result<()> {
        for ((tenant, thread, generation), (log, _, purged)) in std::mem::take(&mut self.known) {
            let owner = Owner { tenant, thread, generation, log };
            if purged || self.config.read_only && is_rewritten(&mut self.staged, &owner)? {
                forget(&mut self.staged, &owner)?;
                self.staged.delete(table::purge(log));
                show(&mut self.staged, self.index, 0)?;
            }
        }
        Ok(())
    }

    /// The files in the place of logs.
    fn files(&self) -> Result<Vec<FilePath>> {
        let folder = FilePath::new("tenants")?;
        let mut files = Vec::new();
        for tenant in self.entries(&folder, Kind::Folder)? {
            let folder = folder.join(&tenant)?;
            files.extend(self.entries(&folder, Kind::File)?.iter().filter_map(|name| folder.join(name).ok()));
        }
        // The mailbox comes first: settlements that came with commits need its dispatches. Logs of events come last:
        // the log of the outbox says what became of rows that are in logs of threads. Of two logs of a collection the
        // older one comes first.
        let mailbox = format!("/{}.0.jsonl", name_of(mailbox_log_id()?.as_str()));
        files.sort_by_key(|path| match path.as_str() {
            path if path.ends_with(&mailbox) => (0, None),
            path if !path.ends_with(".0.jsonl") => (1, None),
            path => (2, rewrites_of(path)),
        });
        Ok(files)
    }

    fn load_known(&mut self) -> Result<()> {
        let snapshot = self.index.snapshot();
        for (list, purged) in [(table::logs(), false), (table::purges(), true)] {
            for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
                let (key, value) = pair?;
                let log = table::read_log(&key).ok_or_else(|| damaged("log"))?;
                let row: LogRow = read("log", &value)?;
                let name = (row.tenant.clone(), row.thread.clone(), row.generation);
                self.known.insert(name, (log, row, purged));
            }
        }
        Ok(())
    }

    fn entries(&self, folder: &FilePath, kind: Kind) -> Result<Vec<String>> {
        match self.vfs.list(folder) {
            Ok(entries) => Ok(entries.into_iter().filter(|e| e.kind == kind).map(|entry| entry.name).collect()),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(error::io(folder, source)),
        }
    }

    /// Reads one log as far as the index does not cover it.
    fn file(&mut self, path: &FilePath, opening: &mut Opening) -> Result<()> {
        let fail = |source| error::io(path, source);
        let read = self.vfs.open(path, Open::Read).and_then(|file| Ok((file.len()?, own_header(&*file, path)?)));
        let (len, header) = match read {
            Err(source) if Damaged::of(&source).is_some() => {
                let place = Damaged::of(&source).map(ToString::to_string).unwrap_or_default();
                self.note_headless(path, place, fail(source).to_string(), opening);
                return Ok(());
            }
            read => read.map_err(fail)?,
        };
        let Some((header, start)) = header else { return self.headless(path, opening) };
        let known = self.known.remove(&(header.tenant.clone(), header.thread.clone(), header.generation));
        if known.as_ref().is_some_and(|(_, row, _)| row.end.offset == len) {
            return Ok(());
        }
        let log = known.as_ref().map_or(self.next_log, |(log, ..)| *log);
        self.next_log = self.next_log.max(log + 1);
        let owner = Owner { tenant: header.tenant, thread: header.thread, generation: header.generation, log };
        if self.facts.dropped.contains(&owner.tenant) {
            self.wait_for_purge(&owner, Position::default());
            return Ok(());
        }
        let purged = known.as_ref().is_some_and(|(.., purged)| *purged);
        let is_deleted = purged || self.facts.is_deleted(&owner.tenant, &owner.thread, owner.generation);
        let from = known.map(|(_, row, _)| row.end).filter(|end| *end != Position::default());
        self.read(path, (&owner, is_deleted), (from, start), opening)
    }

    /// A file that does not begin as a log: one that was being made is removed, anything else is left and reported.
    fn headless(&mut self, path: &FilePath, opening: &mut Opening) -> Result<()> {
        let last_batch = self.from.readable();
        let known = Recovery { read_only: true, last_batch, ..Recovery::default() };
        let made = recover(self.vfs, path, known, |_| Ok(())).is_ok_and(|found| found.header.is_none());
        if made && !self.config.read_only && self.from.unclean {
            let found = recover(self.vfs, path, Recovery { read_only: false, ..known }, |_| Ok(()))?;
            opening.set_aside.extend(found.aside.as_ref().map(SetAside::of));
            return self.remove(path);
        }
        let damage = format!("`{path}`: its first line is damaged or names another thread");
        self.note_headless(path, format!("{path} at byte 0"), damage, opening);
        Ok(())
    }

    /// Reports a log whose thread is known by its path alone. `place` is where the damage is.
    fn note_headless(&mut self, path: &FilePath, place: String, damage: String, opening: &mut Opening) {
        opening.damaged.push(damage);
        if let Some((name, generation)) = without_generation(path) {
            self.damage.headless.insert(name.to_owned(), (generation, place));
        }
    }

    /// The log of a deleted thread, of which the index covers what it has of events up to `end`.
    fn wait_for_purge(&mut self, owner: &Owner, end: Position) {
        self.staged.put(table::purge(owner.log), owner.row(end).encode());
    }

    /// Reads a log from where the index covers it: up to there it was acknowledged.
    fn read(
        &mut self,
        path: &FilePath,
        whose: (&Owner, bool),
        known: (Option<Position>, Position),
        opening: &mut Opening,
    ) -> Result<()> {
        opening.logs_read += 1;
        let (owner, is_deleted) = whose;
        // A log of events has no thread.
        let is_alone = is_deleted || owner.generation == 0;
        let (from, start) = known;
        let known = Recovery {
            from,
            acknowledged: from.map_or(0, |from| from.offset),
            last_batch: self.from.readable(),
            rewrite_from: self.from.rewrite.then_some(0),
            read_only: self.config.read_only,
        };
        let (index, staged) = (self.index, &mut self.staged);
        let step = if self.is_new { LARGE_STEP } else { STEP };
        let mut before = told(staged, owner)?;
        let mut told = before.clone();
        let (mut end, mut has_group) = (from.unwrap_or(start), from.is_some());
        let (last_batch, is_ahead) = (self.from.last_batch, &mut self.is_ahead);
        let found = recover(self.vfs, path, known, |group| {
            *is_ahead |= group.batch.is_some_and(|batch| batch > last_batch);
            let lines = decode(path, group)?;
            self.trimmed.extend(lines.trimmed_scopes().map(|scope| (owner.tenant.clone(), scope.clone())));
            if is_deleted {
                // Only its events are left of it.
                fold::events::lines(staged, owner, &lines)?;
            } else {
                let mut after = told.clone();
                fold::fold(staged, owner, &mut after, &lines)?;
                told = after;
            }
            end = lines.end;
            has_group = true;
            if staged.len() > step {
                if !is_deleted {
                    fold::finish(staged, owner, (&before, &told), end);
                    before = told.clone();
                }
                show(staged, index, 0)?;
            }
            Ok(())
        });
        let recovered = match found {
            Ok(recovered) => Some(recovered),
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::SchemaMismatch) => {
                opening.damaged.push(error.to_string());
                if is_deleted {
                    let Owner { tenant, thread, generation, .. } = owner.clone();
                    self.damage.unread.insert((tenant, thread, generation));
                } else {
                    self.damage.threads.insert((owner.tenant.clone(), owner.thread.clone()), error.detail().clone());
                }
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(aside) = recovered.as_ref().and_then(|found| found.aside.as_ref()) {
            opening.set_aside.push(SetAside::of(aside));
        }
        if is_deleted {
            self.wait_for_purge(owner, end);
        } else if told.stored.is_some() || (is_alone && has_group) {
            fold::finish(&mut self.staged, owner, (&before, &told), end);
        } else if recovered.is_none() && !is_alone {
            // What its first group has left in the index stands under its number.
            fold::put_log(&mut self.staged, owner, end);
        } else if recovered.is_some() && !self.config.read_only && self.from.unclean {
            // It has no whole group: it was being made, and nothing of it was acknowledged.
            self.remove(path)?;
        }
        Ok(())
    }

    /// Removes the file of a log that was being made, durably: after a power cut it must not be in the way of a new
    /// log.
    fn remove(&self, path: &FilePath) -> Result<()> {
        let removed = self.vfs.unlink(path).and_then(|()| self.vfs.sync_dir(&path.parent()));
        removed.map_err(|source| error::io(path, source))
    }
}

/// Lets the index take what is staged, if that is more than so many changes.
pub(crate) fn show<'a>(staged: &mut Staged<'a>, index: &'a Index, most: usize) -> Result<()> {
    if staged.len() <= most {
        return Ok(());
    }
    index.apply(&std::mem::replace(staged, Staged::new(index)).into_changes())
}

/// The number of the next log.
pub(crate) fn next_log(index: &Index) -> Result<u64> {
    let mut next = 1;
    let snapshot = index.snapshot();
    for list in [table::logs(), table::purges()] {
        let newest = snapshot.prefix(list.as_bytes(), Direction::Backward).next().transpose()?;
        next = next.max(newest.and_then(|(key, _)| table::read_log(&key)).unwrap_or_default() + 1);
    }
    Ok(next)
}
