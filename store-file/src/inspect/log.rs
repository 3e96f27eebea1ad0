//! The check of one log, and of what the index says of it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use store_core::{
    Entry, ErrorKind, Result, Run, RunId,
    inspect::{Finding, FindingKind, RepairStatus, ThreadRecords, check_thread},
    length,
    log::{EntryMarks, MarkSource, Node},
    thread::StoredThread,
};

use super::{Inspected, Part, events, is_in_use, outbox::Rows as OutboxRows, root::FIRST_LINE};
use crate::{
    codec::{LogRow, Rows, damaged},
    decoded::{self, own_header, remove_run},
    entries, error,
    facts::Facts,
    fold::{self, Owner, Told},
    index::{Direction, Index, Key, Pair},
    line::Line,
    log::{Header, Known, Position, Scanner, Tail, check_version, classify, read_header},
    mutex::guard,
    names::{Part as LogPart, log_path},
    pending, runs,
    shared::{Shared, objection},
    staged::Staged,
    table,
    vfs::{FilePath, Open, VfsFile},
};

/// Checks a log, and with `repair` writes again what the index says of it.
///
/// The writer goes on meanwhile. If something is found, it may be because of that: then it waits for a second look.
pub(super) fn check_log(inspected: &Inspected, known: &(u64, LogRow)) -> Result<Part> {
    match look(inspected, known, false) {
        Ok((part, _)) if part.findings.is_empty() => return Ok(part),
        _ => {}
    }
    let mut writer = guard(&inspected.shared.writer);
    let (part, is_changed) = look(inspected, known, inspected.repair)?;
    if is_changed {
        writer.forget(&(known.1.tenant.clone(), known.1.thread.clone(), LogPart::of(known.1.generation)));
    }
    Ok(part)
}

/// What is found in a log, and whether the index was changed.
fn look(inspected: &Inspected, known: &(u64, LogRow), repair: bool) -> Result<(Part, bool)> {
    let Inspected { shared, facts, .. } = inspected;
    let (log, known) = known;
    let mut part = Part::default();
    // It may have been written, or deleted, since the list of logs was made.
    let is_known = known.end != Position::default();
    let Some(row) = shared.index.log_row(*log)?.or_else(|| (!is_known).then(|| known.clone())) else {
        return Ok((part, false));
    };
    let (tenant, thread) = (row.tenant.clone(), row.thread.clone());
    let owner = Owner { tenant, thread, generation: row.generation, log: *log };
    let mut check = Check { shared, facts, owner, row, part: &mut part };
    let mut is_changed = false;
    if let Some(replayed) = check.log()? {
        let differs = check.compare(&replayed)?;
        let of_index = |finding: &Finding| finding.repair == RepairStatus::CanBeRebuilt;
        if repair && (differs || check.part.findings.iter().any(of_index)) {
            check.write(&replayed)?;
            is_changed = true;
            for finding in part.findings.iter_mut().filter(|finding| of_index(finding)) {
                finding.repair = RepairStatus::Rebuilt;
            }
        }
    }
    Ok((part, is_changed))
}

struct Check<'a> {
    shared: &'a Shared,
    facts: &'a Facts,
    owner: Owner,
    row: LogRow,
    part: &'a mut Part,
}

/// What a log gives, read from its beginning.
struct Replayed {
    /// What the index should say of it.
    index: Index,
    /// The thread as the log tells it.
    stored: Option<StoredThread>,
    runs: BTreeMap<RunId, Arc<Run>>,
    /// What it says of the outbox.
    outbox: OutboxRows,
    /// Behind the last good group.
    end: Position,
    /// The first group that does not fit what stands before it: where it starts, where it ends, what is wrong.
    misfit: Option<(u64, u64, String)>,
    /// Whether the log goes on behind what the index knows of it.
    goes_on: bool,
}

impl Check<'_> {
    fn find(&mut self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        let finding = Finding::new(kind, place, detail).of_thread(&self.owner.tenant, &self.owner.thread);
        self.part.findings.push(finding);
    }

    /// Reads the log from its beginning. What it gives, if all of it is good and nobody else changed it.
    fn log(&mut self) -> Result<Option<Replayed>> {
        let read = self.read();
        if let Some(damaged) = read.as_ref().err().and_then(error::damage) {
            self.find(FindingKind::Damaged, damaged.place(), "the bytes differ from what was written");
            return Ok(None);
        }
        read
    }

    fn read(&mut self) -> Result<Option<Replayed>> {
        let Owner { tenant, thread, generation, .. } = &self.owner;
        let path = log_path(tenant, thread, *generation)?;
        let fail = |source| error::io(&path, source);
        let in_use = is_in_use(self.shared)?;
        let file = match self.shared.vfs.open(&path, Open::Read) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                if !in_use {
                    self.find(FindingKind::MissingLog, path.as_str(), "the log does not exist");
                }
                return Ok(None);
            }
            opened => opened.map_err(fail)?,
        };
        let len = file.len().map_err(fail)?;
        // What a holder wrote since is not part of what was opened.
        let len = if in_use { len.min(self.row.end.offset) } else { len };
        let start = match read_header(&*file).map_err(fail)? {
            Header::Bad => {
                self.find(FindingKind::Damaged, format!("{path}:0"), FIRST_LINE);
                return Ok(None);
            }
            Header::Good(line, start) => match check_version(&path, line.as_bytes()) {
                Ok(()) => start,
                Err(error) => {
                    self.find(FindingKind::Damaged, format!("{path}:0"), error.to_string());
                    return Ok(None);
                }
            },
        };
        if own_header(&*file, &path).map_err(fail)?.is_none() {
            self.find(FindingKind::ForeignChange, format!("{path}:0"), "its first line names another thread");
            return Ok(None);
        }
        let log = Log { path: &path, file: &*file, start, len };
        let replayed = self.replay(&log)?;
        let is_good = self.judge(&log, &replayed)?;
        Ok(is_good.then_some(replayed))
    }

    /// Names what is wrong, each thing once: damage of the log first, then what others did to it, then the index.
    /// Whether the index follows from the log.
    fn judge(&mut self, log: &Log<'_>, replayed: &Replayed) -> Result<bool> {
        let Log { path, file, len, .. } = *log;
        let (end, known) = (replayed.end, self.row.end);
        if let Some((offset, _, why)) = &replayed.misfit {
            self.part.findings.extend(self.alone(log, replayed)?);
            if self.part.findings.is_empty() {
                self.find(FindingKind::Damaged, format!("{path}:{offset}"), why.as_str());
            }
        }
        let fail = |source| error::io(path, source);
        let judged = Known { acknowledged: known.offset, last_batch: u64::MAX };
        match classify(file, end.offset, len, judged).map_err(fail)? {
            Tail::Corrupt { offset } => {
                self.find(FindingKind::Damaged, format!("{path}:{offset}"), "the bytes differ from what was written");
                return Ok(false);
            }
            Tail::Torn { from, acknowledged: true, .. } if len >= known.offset => {
                self.find(FindingKind::Damaged, format!("{path}:{from}"), "the bytes differ from what was written");
                return Ok(false);
            }
            Tail::Torn { from, bytes, acknowledged: false } => {
                let kind = if self.shared.opening.unclean { FindingKind::TornTail } else { FindingKind::ForeignChange };
                self.find(kind, format!("{path}:{from}"), format!("{bytes} bytes follow its last commit"));
                if kind == FindingKind::ForeignChange {
                    return Ok(false);
                }
            }
            Tail::Torn { .. } | Tail::Clean => {}
        }
        if replayed.misfit.is_some() {
            return Ok(false);
        }
        if end != known && !replayed.goes_on {
            self.part.findings.extend(self.alone(log, replayed)?);
            if self.part.findings.is_empty() {
                let header = read_header(file).map_err(fail)?;
                let found = objection(&self.row, file, &header).map_err(fail)?;
                self.find(FindingKind::ForeignChange, path.as_str(), found.unwrap_or_default());
            }
            return Ok(false);
        }
        if end != known {
            let detail = match known.offset {
                0 => "the index does not cover this log".to_owned(),
                _ => format!("the index does not cover the last {} bytes of this log", end.offset - known.offset),
            };
            self.find(FindingKind::StaleIndex, format!("{path}:{}", known.offset), detail);
            self.part.findings.extend(self.alone(log, replayed)?);
            return Ok(true);
        }
        // It was compared just now.
        self.shared.mark_checked(self.owner.log);
        if self.owner.generation > 0 {
            self.thread(log, replayed)?;
        }
        Ok(true)
    }

    /// What the log gives, as an index of its own, and where its last good group ends.
    fn replay(&self, log: &Log<'_>) -> Result<Replayed> {
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
            index.apply(staged.into_changes())?;
        }
        let mut staged = Staged::new(&index);
        fold::finish(&mut staged, &self.owner, (&Told::default(), &told), scanner.position());
        self.facts.detach(&mut staged)?;
        index.apply(staged.into_changes())?;
        let row = index.thread_row(&self.owner.tenant, &self.owner.thread)?;
        let stored = row.map(|row| row.stored).filter(|_| misfit.is_none()).or(told.stored);
        Ok(Replayed { index, stored, runs, outbox, end: scanner.position(), misfit, goes_on })
    }

    /// The rules of a thread, over what the index says and what the log holds.
    fn thread(&mut self, log: &Log<'_>, replayed: &Replayed) -> Result<()> {
        let Owner { tenant, thread, log: number, .. } = self.owner.clone();
        let Some(row) = self.shared.index.thread_row(&tenant, &thread)?.filter(|row| row.log == number) else {
            self.find(FindingKind::StaleIndex, "index", "the thread is missing");
            return Ok(());
        };
        let runs = self.runs()?;
        let state = entries::state(&self.shared.index.snapshot(), number)?;
        let marks = IndexMarks(&self.shared.index, number);
        let has_parent = self.has_parent(&row.stored)?;
        let inputs = length(pending::inputs(&self.shared.index.snapshot(), number)?.len());
        let records =
            ThreadRecords { thread: &row.stored, has_parent, marks: &marks, runs: &runs, state: &state, inputs };
        let checked = check_thread(records, log.entries(log.len));
        self.part.entries += checked.entries;
        self.part.runs += checked.runs;
        if checked.findings.is_empty() {
            return Ok(());
        }
        // What is wrong with the log alone nothing can be rebuilt from; all else is about the index.
        let alone = self.alone(log, replayed)?;
        for mut finding in checked.findings {
            finding = finding.of_thread(&tenant, &thread);
            if !alone.contains(&finding) {
                finding.repair = RepairStatus::CanBeRebuilt;
            }
            self.part.findings.push(finding);
        }
        Ok(())
    }

    /// What is wrong with a log, whatever the index says: the rules of a thread over what it gives itself.
    fn alone(&self, log: &Log<'_>, replayed: &Replayed) -> Result<Vec<Finding>> {
        let Replayed { index, stored: Some(stored), runs, misfit, .. } = replayed else { return Ok(Vec::new()) };
        let Owner { tenant, thread, log: number, .. } = &self.owner;
        let state = entries::state(&index.snapshot(), *number)?;
        let marks = IndexMarks(index, *number);
        let has_parent = self.has_parent(stored)?;
        let inputs = length(pending::inputs(&index.snapshot(), *number)?.len());
        let records = ThreadRecords { thread: stored, has_parent, marks: &marks, runs, state: &state, inputs };
        let len = misfit.as_ref().map_or(log.len, |(_, end, _)| *end);
        let findings = check_thread(records, log.entries(len)).findings.into_iter();
        // Of a group that does not fit not all was worked in: sums that it changes say nothing.
        let of_log = findings.filter(|finding| finding.repair == RepairStatus::NeedsBackup);
        Ok(of_log.map(|finding| finding.of_thread(tenant, thread)).collect())
    }

    fn has_parent(&self, stored: &StoredThread) -> Result<bool> {
        let Some(parent) = &stored.thread.parent_thread_id else { return Ok(true) };
        let tenant = &self.owner.tenant;
        match self.shared.known_thread(&self.shared.index.snapshot(), tenant, parent) {
            // It is damaged, which is found where it is.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(true),
            found => Ok(found?.is_some()),
        }
    }

    fn runs(&mut self) -> Result<BTreeMap<RunId, Arc<Run>>> {
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

    /// Compares what the log gives with what the index says; `true` if there is a difference.
    fn compare(&mut self, replayed: &Replayed) -> Result<bool> {
        let rebuilt = &replayed.index;
        let snapshot = self.shared.index.snapshot();
        let mut different = None;
        for pair in rebuilt.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            if is_shared(&key) {
                continue;
            }
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
        different = different.or(events::missing(rebuilt, &snapshot, &self.owner.tenant)?);
        different = different.or(replayed.outbox.differs(self.shared, &self.owner)?);
        let mark = table::log_mailbox(self.owner.log).into_bytes();
        if rebuilt.get(&mark)?.is_some() && snapshot.get(&mark)?.is_none() {
            different = different.or(Some(mark));
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
    fn write(&self, replayed: &Replayed) -> Result<()> {
        let Owner { tenant, thread, log, .. } = &self.owner;
        let index = &self.shared.index;
        let mut staged = Staged::new(index);
        for (key, _) in self.stored()? {
            if let Some(run) = table::read_log_run(&key) {
                remove_run(&mut staged, (*log, tenant), &RunId::new(run)?)?;
            }
            staged.delete(Key::from_bytes(&key));
        }
        if let Some(row) = index.thread_row(tenant, thread)?.filter(|_| self.owner.generation > 0) {
            fold::remove_thread(&mut staged, tenant, &row.stored);
        }
        for pair in replayed.index.snapshot().prefix(&[], Direction::Forward) {
            let (key, value) = pair?;
            if !is_shared(&key) {
                staged.put(Key::from_bytes(&key), value);
            }
        }
        events::restore(&replayed.index, &mut staged, tenant)?;
        replayed.outbox.restore(self.shared, &mut staged, &self.owner)?;
        if replayed.index.get(table::log_mailbox(*log).as_bytes())?.is_some() {
            staged.put(table::log_mailbox(*log), []);
        }
        fold::put_log(&mut staged, &self.owner, replayed.end);
        staged.touch(*log);
        self.shared.show(staged).map(drop)
    }
}

/// Whether several logs may say something of what a key stands for.
fn is_shared(key: &[u8]) -> bool {
    table::is_of_events(key) || table::is_of_outbox(key) || table::is_of_mailbox(key)
}

struct IndexMarks<'a>(&'a Index, u64);

impl MarkSource for IndexMarks<'_> {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        self.0.marks_of(self.1, seq)
    }
}

/// A log as it is read.
struct Log<'a> {
    path: &'a FilePath,
    file: &'a dyn VfsFile,
    /// Behind its header.
    start: Position,
    len: u64,
}

impl Log<'_> {
    /// Its entries up to an offset.
    const fn entries(&self, to: u64) -> Entries<'_> {
        Entries { path: self.path, scanner: Scanner::new(self.file, self.start, to), next: VecDeque::new() }
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
