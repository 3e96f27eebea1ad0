//! The check of one log, and of what the index says of it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use store_core::{
    Entry, Result, RunId, ThreadState,
    inspect::{Finding, FindingKind, Repairable, ThreadRecords, check_thread},
    log::{MarkSource, Marks, Node},
};

use super::Part;
use crate::{
    codec::{LogRow, Rows, damaged},
    entries, error,
    facts::Facts,
    fold::{self, Owner, Told},
    index::{Changes, Direction, Index, Pair},
    line::Line,
    log::{Header, Position, Scanner, Tail, check_version, classify, read_header},
    replay, runs,
    shared::{Shared, guard, objection},
    staged::Staged,
    table,
    vfs::{FilePath, Open, VfsFile},
};

/// Checks a log, and with `repair` writes again what the index says of it. The thread's writer waits.
pub(super) fn check_log(shared: &Shared, facts: &Facts, known: (u64, LogRow), repair: bool) -> Result<Part> {
    let (log, row) = known;
    let slot = shared.slot(&(row.tenant.clone(), row.thread.clone()));
    let mut loaded = guard(&slot);
    let mut part = Part::default();
    // It may have been written, or deleted, since the list of logs was made.
    let Some(row) = shared.index.log_row(log)? else { return Ok(part) };
    let owner = Owner { tenant: row.tenant.clone(), thread: row.thread.clone(), generation: row.generation, log };
    let mut check = Check { shared, facts, owner, row, part: &mut part };
    if let Some(rebuilt) = check.log()? {
        let stale = check.compare(&rebuilt)?;
        let sound = check.part.findings.iter().all(|finding| finding.repair == Repairable::CanBeRebuilt);
        if repair && sound && (stale || !check.part.findings.is_empty()) {
            check.write(&rebuilt)?;
            *loaded = None;
            part.findings.iter_mut().for_each(|finding| finding.repair = Repairable::Rebuilt);
        }
    }
    Ok(part)
}

struct Check<'a> {
    shared: &'a Shared,
    facts: &'a Facts,
    owner: Owner,
    row: LogRow,
    part: &'a mut Part,
}

impl Check<'_> {
    fn find(&mut self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        let finding = Finding::new(kind, place, detail).of_thread(&self.owner.tenant, &self.owner.thread);
        self.part.findings.push(finding);
    }

    /// Reads the log from its beginning. What it gives, if all of it is good.
    fn log(&mut self) -> Result<Option<Index>> {
        let Owner { tenant, thread, generation, .. } = self.owner.clone();
        let path = Shared::log_path(&tenant, &thread, generation)?;
        let fail = |source| error::io(&path, source);
        let file = match self.shared.vfs.open(&path, Open::Read) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                self.find(FindingKind::MissingLog, path.as_str(), "the log does not exist");
                return Ok(None);
            }
            opened => opened.map_err(fail)?,
        };
        let len = file.len().map_err(fail)?;
        let header = read_header(&*file).map_err(fail)?;
        if len != self.row.end.offset
            && let Some(objection) = objection(&self.row, &*file, &header).map_err(fail)?
        {
            self.find(FindingKind::ForeignChange, path.as_str(), objection);
        }
        let Header::Good(header, start) = header else {
            self.find(FindingKind::Damaged, format!("{path}:0"), "the first line is not what was written");
            return Ok(None);
        };
        if let Err(error) = check_version(&path, header.as_bytes()) {
            self.find(FindingKind::Damaged, format!("{path}:0"), error.to_string());
            return Ok(None);
        }
        let (rebuilt, end) = self.replay(&path, &*file, start, len)?;
        match classify(&*file, end.offset, len, self.row.end.offset).map_err(fail)? {
            Tail::Clean => {}
            Tail::Torn { from: offset, .. } | Tail::Corrupt { offset } => {
                self.find(FindingKind::Damaged, format!("{path}:{offset}"), "the bytes are not what was written");
                return Ok(None);
            }
        }
        if end != self.row.end {
            self.find(FindingKind::ForeignChange, path.as_str(), "its last commit is another one than was written");
            return Ok(None);
        }
        // It was compared just now, and this thread of the pool holds the slot that a first use would wait for.
        self.shared.mark_checked(self.owner.log);
        let entries = Entries { path: &path, scanner: Scanner::new(&*file, start, len), next: VecDeque::new() };
        self.thread(entries)?;
        Ok(rebuilt)
    }

    /// What the log gives, as an index of its own, and where its last good group ends.
    fn replay(
        &mut self,
        path: &FilePath,
        file: &dyn VfsFile,
        start: Position,
        len: u64,
    ) -> Result<(Option<Index>, Position)> {
        let index = Index::in_memory();
        let mut told = Told::default();
        let mut scanner = Scanner::new(file, start, len);
        let mut broken = None;
        while let Some(group) = scanner.next_group().map_err(|source| error::io(path, source))? {
            let mut staged = Staged::new(&index);
            let folded =
                replay::decode(path, &group).and_then(|lines| fold::fold(&mut staged, &self.owner, &mut told, &lines));
            if let Err(error) = folded {
                broken = Some((group.start, error.to_string()));
                break;
            }
            index.apply(staged.into_changes())?;
        }
        let end = scanner.position();
        if let Some((offset, error)) = broken {
            self.find(FindingKind::Damaged, format!("{path}:{offset}"), error);
            return Ok((None, end));
        }
        let mut staged = Staged::new(&index);
        self.facts.detach(&mut staged)?;
        index.apply(staged.into_changes())?;
        Ok((Some(index), end))
    }

    /// The rules of a thread, over what the index says and what the log holds.
    fn thread(&mut self, entries: Entries<'_>) -> Result<()> {
        let Owner { tenant, thread, log, .. } = self.owner.clone();
        let Some(row) = self.shared.index.thread_row(&tenant, &thread)?.filter(|row| row.log == log) else {
            self.find(FindingKind::StaleIndex, "index", "the thread is missing");
            return Ok(());
        };
        let runs = self.runs()?;
        let state = self.state()?;
        let parent = row.stored.thread.parent_thread_id.as_ref();
        let has_parent = match parent {
            Some(parent) => self.shared.index.thread_row(&tenant, parent)?.is_some(),
            None => true,
        };
        let marks = IndexMarks(self.shared, log);
        let records = ThreadRecords { thread: &row.stored, has_parent, marks: &marks, runs: &runs, state: &state };
        let checked = check_thread(records, entries);
        self.part.entries += checked.entries;
        self.part.runs += checked.runs;
        let findings = checked.findings.into_iter();
        self.part.findings.extend(findings.map(|finding| finding.of_thread(&tenant, &thread)));
        Ok(())
    }

    fn runs(&mut self) -> Result<BTreeMap<RunId, Arc<store_core::Run>>> {
        let snapshot = self.shared.index.snapshot();
        let mut found = BTreeMap::new();
        for pair in snapshot.prefix(table::log_runs(self.owner.log).as_bytes(), Direction::Forward) {
            let id = RunId::new(table::read_log_run(&pair?.0).ok_or_else(|| damaged("run"))?)?;
            let Some(row) = snapshot.run_row(&self.owner.tenant, &id)? else { continue };
            match runs::load(self.shared, &row) {
                Ok(run) => drop(found.insert(id, Arc::new(run))),
                Err(error) => self.find(FindingKind::Damaged, format!("run `{id}`"), error.to_string()),
            }
        }
        Ok(found)
    }

    fn state(&self) -> Result<ThreadState> {
        entries::state(&self.shared.index.snapshot(), self.owner.log)
    }

    /// Compares what the log gives with what the index says; `true` if there is a difference.
    fn compare(&mut self, rebuilt: &Index) -> Result<bool> {
        let snapshot = self.shared.index.snapshot();
        let mut different = None;
        for pair in rebuilt.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            let stored = snapshot.get(&key)?;
            if table::read_log(&key).is_none() && stored.as_deref() != Some(value.as_slice()) {
                different = Some(key);
                break;
            }
        }
        for (key, _) in self.stored()? {
            if rebuilt.get(&key)?.is_none() {
                different = different.or(Some(key));
            }
        }
        let Some(key) = different else { return Ok(false) };
        if self.part.findings.is_empty() {
            let detail = format!("it does not agree with the log about {}", table::describe(&key));
            self.find(FindingKind::StaleIndex, "index", detail);
        }
        Ok(true)
    }

    /// Everything that stands in the index under the log's number.
    fn stored(&self) -> Result<Vec<Pair>> {
        let snapshot = self.shared.index.snapshot();
        let mut pairs = Vec::new();
        for sort in table::OF_LOG {
            let prefix = table::of_log(sort, self.owner.log);
            for pair in snapshot.prefix(prefix.as_bytes(), Direction::Forward) {
                pairs.push(pair?);
            }
        }
        Ok(pairs)
    }

    /// Writes what the log gives into the index.
    fn write(&self, rebuilt: &Index) -> Result<()> {
        let mut changes = Changes::default();
        for (key, _) in self.stored()? {
            changes.delete(key);
        }
        if let Some(row) = self.shared.index.thread_row(&self.owner.tenant, &self.owner.thread)? {
            for place in fold::places(&self.owner.tenant, &row.stored) {
                changes.delete(place);
            }
        }
        for pair in rebuilt.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            if table::read_log(&key).is_none() {
                changes.put(key, value);
            }
        }
        self.shared.index.apply(changes)
    }
}

struct IndexMarks<'a>(&'a Shared, u64);

impl MarkSource for IndexMarks<'_> {
    fn marks(&self, seq: u64) -> Result<Marks> {
        self.0.index.marks_of(self.1, seq)
    }
}

/// The entries of a log, group by group.
struct Entries<'a> {
    path: &'a FilePath,
    scanner: Scanner<'a>,
    next: VecDeque<(Arc<Entry>, Node)>,
}

impl Entries<'_> {
    fn fill(&mut self) -> Result<bool> {
        let group = self.scanner.next_group().map_err(|source| error::io(self.path, source))?;
        let Some(group) = group else { return Ok(false) };
        for (line, _) in replay::decode(self.path, &group)?.lines {
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
