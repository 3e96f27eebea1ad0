//! The checks that are not about one log: the root log, files that belong to nothing, runs of no thread.

use std::{collections::BTreeSet, io, sync::atomic::Ordering};

use store_core::{
    Detail, Result, RunId, TenantId, ThreadId,
    inspect::{Finding, FindingKind, Note, RepairStatus},
};

use super::{Logs, Part, is_in_use};
use crate::{
    codec::{LogRow, Rows, RunRow, damaged, read},
    decoded::own_header,
    error,
    facts::Facts,
    fold,
    index::{Changes, Direction, Snapshot},
    line::ThreadHeader,
    log::{Header, Position, Recovery, read_header},
    names::log_path,
    object_files, root,
    shared::Shared,
    table,
    vfs::{Damaged, Entry, FilePath, Kind, Open},
};

/// What is wrong with a log that does not begin as one.
pub(super) const FIRST_LINE: &str = "its first line differs from what was written";

/// Reads the root log.
pub(super) fn facts(shared: &Shared, part: &mut Part) -> Result<Facts> {
    let mut facts = Facts::default();
    let known = shared.index.get(table::fact("root").as_bytes())?.and_then(|bytes| root::decode_position(&bytes));
    let acknowledged = known.map_or(0, |position| position.offset);
    let known = Recovery { acknowledged, read_only: true, ..Recovery::default() };
    let found = root::read(&*shared.vfs, known, |fact| {
        facts.take(fact);
        Ok(())
    });
    let path = root::path()?;
    match found {
        Ok(None) if acknowledged > 0 => part.find(FindingKind::MissingLog, path.as_str(), "it does not exist"),
        Ok(found) => {
            if let Some(lost) = found.and_then(|found| found.aside) {
                let detail = "records that were written are damaged or missing";
                part.find(FindingKind::Damaged, format!("{path}:{}", lost.offset), detail);
            }
        }
        Err(failure) => {
            let Detail::Corrupt { location } = failure.detail() else { return Err(failure) };
            part.find(FindingKind::Damaged, location.as_str(), "its records differ from what was written");
        }
    }
    Ok(facts)
}

/// Reports what the opening has found. It cannot be seen in the files any more.
pub(super) fn opening(shared: &Shared, part: &mut Part) {
    if let Some(why) = &shared.opening.lost_journal {
        part.find(FindingKind::Damaged, "journal", format!("{why}; what it had and the logs have not is lost"));
    }
    let read_only = shared.config.read_only;
    if let Some(why) = shared.opening.stale_index.filter(|_| shared.opening.unclean) {
        let when = if read_only { "it is rebuilt when the store is next opened for writing" } else { "it was rebuilt" };
        part.notes.push(Note::new("index", format!("{why}, as a power cut may leave it; {when}")));
    } else if let Some(why) = shared.opening.stale_index {
        let mut finding = Finding::new(FindingKind::StaleIndex, "index", why);
        if !read_only {
            finding.repair = RepairStatus::Rebuilt;
        }
        part.findings.push(finding);
    }
    for aside in shared.opening.set_aside.iter().filter(|aside| aside.acknowledged) {
        let detail = match &aside.path {
            Some(path) => format!("{} bytes at its end were damaged, and were moved to {path}", aside.bytes),
            None => "its end differs from what was written".to_owned(),
        };
        part.find(FindingKind::Damaged, format!("{}:{}", aside.log, aside.offset), detail);
    }
}

/// Notes the uploads of objects that were not finished. While the root is open for writing, they are those of calls.
pub(super) fn uploads(shared: &Shared, part: &mut Part) -> Result<()> {
    if !shared.config.read_only || is_in_use(shared)? {
        return Ok(());
    }
    for upload in object_files::uploads(&*shared.vfs)? {
        let detail = "an interrupted call left it; it is removed when the store is next opened for writing";
        part.notes.push(Note::new(upload.as_str(), detail));
    }
    Ok(())
}

/// The logs that the index knows, and those that it should.
pub(super) fn logs(shared: &Shared, facts: &Facts, part: &mut Part) -> Result<Logs> {
    let snapshot = shared.index.snapshot();
    let mut logs = Vec::new();
    let mut known = BTreeSet::new();
    for (list, alive) in [(table::logs(), true), (table::purges(), false)] {
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
            let (key, value) = pair?;
            let log = table::read_log(&key).ok_or_else(|| damaged("log"))?;
            let row: LogRow = read("log", &value)?;
            known.insert(log_path(&row.tenant, &row.thread, row.generation)?);
            if alive {
                logs.push((log, row));
            }
        }
    }
    drop(snapshot);
    let root = FilePath::new("tenants")?;
    for tenant in list(shared, &root)? {
        let Some(folder) = root.join(&tenant.name).ok().filter(|_| tenant.kind == Kind::Folder) else {
            part.find(FindingKind::OrphanFile, format!("{root}/{}", tenant.name), "it is not the folder of a tenant");
            continue;
        };
        for file in list(shared, &folder)? {
            match folder.join(&file.name).ok().filter(|_| file.kind == Kind::File) {
                Some(path) if known.contains(&path) => {}
                Some(path) => logs.extend(unknown(shared, facts, &path, part)?),
                None => part.find(FindingKind::OrphanFile, format!("{folder}/{}", file.name), "it is not a log"),
            }
        }
    }
    Ok(logs)
}

fn list(shared: &Shared, folder: &FilePath) -> Result<Vec<Entry>> {
    match shared.vfs.list(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|source| error::io(folder, source)),
    }
}

/// A file that the index does not know: a log that it should know, or something that belongs to nothing.
fn unknown(shared: &Shared, facts: &Facts, path: &FilePath, part: &mut Part) -> Result<Option<(u64, LogRow)>> {
    let fail = |source| error::io(path, source);
    // A round that was making it has ended when this returns.
    drop(shared.exclusive());
    let file = match shared.vfs.open(path, Open::Read) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) if Damaged::of(&source).is_some() => return Ok(note_damage(&source, part)),
        opened => opened.map_err(fail)?,
    };
    if is_in_use(shared)? {
        return Ok(None);
    }
    let header = match own_header(&*file, path) {
        Err(source) if Damaged::of(&source).is_some() => return Ok(note_damage(&source, part)),
        read => read.map_err(fail)?,
    };
    let Some((header, _)) = header else {
        let is_log = path.as_str().ends_with(".jsonl");
        match read_header(&*file).map_err(fail)? {
            Header::Bad if is_log => part.find(FindingKind::Damaged, format!("{path}:0"), FIRST_LINE),
            Header::Bad => part.find(FindingKind::OrphanFile, path.as_str(), "it is not a log"),
            Header::Good(..) => {
                part.find(FindingKind::OrphanFile, path.as_str(), "its first line is that of a log with another name")
            }
        }
        return Ok(None);
    };
    let ThreadHeader { tenant, thread, generation, .. } = header;
    if generation == 0 && !facts.is_deleted(&tenant, &thread, 0) {
        let known = shared.index.event_log(&tenant, &thread)?;
        let log = known.unwrap_or_else(|| shared.next_log.fetch_add(1, Ordering::SeqCst));
        return Ok(Some((log, LogRow { tenant, thread, generation, end: Position::default() })));
    }
    let row = shared.index.thread_row(&tenant, &thread)?;
    let detail = match &row {
        _ if facts.is_deleted(&tenant, &thread, generation) => Some("its thread was deleted"),
        Some(row) if row.stored.thread.generation() != generation => Some("its thread has another log"),
        _ => None,
    };
    if let Some(detail) = detail {
        let finding = Finding::new(FindingKind::OrphanFile, path.as_str(), detail);
        part.findings.push(finding.of_thread(&tenant, &thread));
        return Ok(None);
    }
    let log = row.map_or_else(|| shared.next_log.fetch_add(1, Ordering::SeqCst), |row| row.log);
    Ok(Some((log, LogRow { tenant, thread, generation, end: Position::default() })))
}

/// Reports a log of which the compressed part is damaged.
fn note_damage<T>(source: &io::Error, part: &mut Part) -> Option<T> {
    let place = Damaged::of(source).map(Damaged::place).unwrap_or_default();
    part.find(FindingKind::Damaged, place, "the bytes differ from what was written");
    None
}

/// Runs of the index whose log is unknown to it.
pub(super) fn orphan_runs(shared: &Shared, repair: bool, part: &mut Part) -> Result<()> {
    let (_, mut findings) = find_orphan_runs(shared)?;
    if repair && !findings.is_empty() {
        let _exclusive = shared.exclusive();
        // A call may have used the id of such a run since.
        let (changes, found) = find_orphan_runs(shared)?;
        shared.index.apply(&changes)?;
        findings = found;
        findings.iter_mut().for_each(|finding| finding.repair = RepairStatus::Rebuilt);
    }
    part.findings.extend(findings);
    Ok(())
}

/// The runs, and the changes that remove them.
fn find_orphan_runs(shared: &Shared) -> Result<(Changes, Vec<Finding>)> {
    let snapshot = shared.index.snapshot();
    let (mut changes, mut findings) = (Changes::default(), Vec::new());
    for pair in snapshot.prefix(table::all_runs().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let row: RunRow = read("run", &value)?;
        if snapshot.any_log_row(row.log)?.is_some() {
            continue;
        }
        let (tenant, id) = table::read_run(&key).ok_or_else(|| damaged("run"))?;
        let (tenant, id) = (TenantId::new(tenant)?, RunId::new(id)?);
        let detail = format!("its thread `{}` does not exist", row.thread);
        let mut finding = Finding::new(FindingKind::OrphanRun, format!("index, run `{id}`"), detail);
        finding.repair = RepairStatus::CanBeRebuilt;
        finding.tenant = Some(tenant.clone());
        findings.push(finding);
        fold::run_places(&tenant, id.as_str(), &row).into_iter().for_each(|place| changes.delete(place));
        changes.delete(key);
    }
    Ok((changes, findings))
}

/// Places in lists that lead to nothing, or not to what has its place there. The logs were checked before.
pub(super) fn stray_places(shared: &Shared, repair: bool) -> Result<Option<Finding>> {
    let strays = find_stray_places(shared)?;
    if strays.is_empty() {
        return Ok(None);
    }
    let detail = format!("{} places in lists of threads and runs refer to nothing", strays.len());
    let mut finding = Finding::new(FindingKind::StaleIndex, "index", detail);
    if repair {
        let _exclusive = shared.exclusive();
        // A call may have changed what such a place leads to since.
        shared.index.apply(&find_stray_places(shared)?)?;
        finding.repair = RepairStatus::Rebuilt;
    }
    Ok(Some(finding))
}

/// The changes that remove such places.
fn find_stray_places(shared: &Shared) -> Result<Changes> {
    let snapshot = shared.index.snapshot();
    let mut changes = Changes::default();
    for list in table::all_places() {
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
            let (key, _) = pair?;
            if !is_taken(&snapshot, &key)? {
                changes.delete(key);
            }
        }
    }
    Ok(changes)
}

/// Whether a place in a list is that of a thread or run.
fn is_taken(snapshot: &Snapshot, key: &[u8]) -> Result<bool> {
    if let Some((tenant, id)) = table::read_thread_place(key) {
        let tenant = TenantId::new(tenant)?;
        let row = snapshot.thread_row(&tenant, &ThreadId::new(id)?)?;
        return Ok(row.is_some_and(|row| fold::places(&tenant, &row.stored).contains(key)));
    }
    let Some((tenant, id)) = table::read_run_place(key) else { return Ok(false) };
    let (tenant, id) = (TenantId::new(tenant)?, RunId::new(id)?);
    let row = snapshot.run_row(&tenant, &id)?;
    let places = row.map(|row| fold::run_places(&tenant, id.as_str(), &row)).unwrap_or_default();
    Ok(places.iter().any(|place| place.as_bytes() == key))
}
