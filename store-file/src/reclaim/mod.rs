//! Lets go of the bytes of what was removed (PV-3).
//!
//! 1. What deletions and trims left behind is removed.
//! 2. In the logs of ids, which are not removed, each line that nothing refers to any more is erased in its place: see
//!    `log::erase`. So is each former line of an event that lost its content, also in logs of threads.
//! 3. The journal is flushed, and begins anew: its former batches have the bytes.
//! 4. The tables of the index are merged, and its own journal is emptied.
//! 5. Files in `aside/` are removed that are of no thread that exists.
//!
//! What is erased goes through the journal like all that is written. So a crash at any point leaves a whole store, and
//! the next call goes on. Whether a line is needed is decided by the index, which is durable before anything is erased:
//! an opening does not need the erased lines to bring it up to date.

mod cold;
mod needed;

use std::time::Duration;

use store_core::{CollectionId, Error, Progress, ReclaimedSpace, Result, Scope, TenantId, length};

use self::needed::{Needs, Pass};
use crate::{
    codec::{LogRow, Rows, damaged, read},
    error,
    events::sweep,
    index::{Direction, KeyReader},
    journal::LogName,
    line::Line,
    log::{Header, Scanner, Span, erased_line, is_erased, read_header},
    names::{LogKey, Part, log_path, no_log_id},
    purge, rewrite,
    shared::Shared,
    store::FileStore,
    table,
    vfs::{FilePath, Kind},
    writer::{How, alone},
};

/// About how many bytes a step erases.
const BYTES: usize = 1 << 20;
/// How often it is looked whether readers have let go of the former index, and how long they have for it.
const PAUSE: Duration = Duration::from_millis(5);
const TRIES: u32 = 12_000;

/// A line to be erased.
type Dead = Span;

/// A log of an id, and where it ended when the index was made durable.
type Bounded = (u64, u64);

impl FileStore {
    /// Does what [`Store::reclaim_space`](store_core::Store::reclaim_space) says. It can be stopped between two logs.
    pub(crate) async fn reclaim(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        let shared = std::sync::Arc::clone(self.shared());
        shared.check_writable()?;
        let pool = shared.pool.clone();
        let of = std::sync::Arc::clone(&shared);
        let logs = pool.run(move || begin(&of)).await??;
        let total = length(logs.len());
        // Deletions of documents are erased last: they hide earlier lines that are still there until then.
        for (round, pass) in [Pass::Values, Pass::Deletions].into_iter().enumerate() {
            for (number, log) in (1..).zip(logs.clone()) {
                let of = std::sync::Arc::clone(&shared);
                pool.run(move || erase_in(&of, log, pass)).await??;
                if !progress.advance(length(round) * total + number, Some(2 * total)) {
                    return Ok(ReclaimedSpace::new(true));
                }
            }
        }
        pool.run(move || end(&shared)).await??;
        Ok(ReclaimedSpace::new(false))
    }
}

/// Removes what is left behind, makes the index durable, and lists the logs of ids.
fn begin(shared: &Shared) -> Result<Vec<Bounded>> {
    let damage = &shared.damage;
    if !(damage.threads.is_empty() && damage.headless.is_empty() && damage.unread.is_empty()) {
        // What the index lacks of such a log may be needed in another one.
        return Err(Error::corrupt("a log that the opening could not read: repair or remove it, and reclaim then"));
    }
    purge::all(shared, None)?;
    for (tenant, scope) in trimmed(shared)? {
        sweep(shared, &tenant, &scope)?;
    }
    let snapshot = shared.index.snapshot();
    let mut logs = Vec::new();
    for pair in snapshot.prefix(table::logs().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let row: LogRow = read("log", &value)?;
        if row.generation == 0 {
            logs.push((table::read_log(&key).ok_or_else(|| damaged("log"))?, row.end.offset));
        }
    }
    drop(snapshot);
    shared.index.persist()?;
    Ok(logs)
}

/// The scopes that were trimmed, and in which the index has something below the floor.
fn trimmed(shared: &Shared) -> Result<Vec<(TenantId, Scope)>> {
    let snapshot = shared.index.snapshot();
    let mut found = Vec::new();
    for pair in snapshot.prefix(table::all_scopes().as_bytes(), Direction::Forward) {
        let (tenant, scope) = table::read_scope(&pair?.0).ok_or_else(|| damaged("scope"))?;
        let tenant = TenantId::new(tenant)?;
        let floor = snapshot.scope_state(&tenant, &scope)?.floor;
        let first = snapshot.prefix(table::event_places(&tenant, &scope).as_bytes(), Direction::Forward).next();
        let first = first.transpose()?.and_then(|(key, _)| table::last_number(&key));
        if first.is_some_and(|first| first <= floor) {
            found.push((tenant, scope));
        }
    }
    Ok(found)
}

/// Erases what is not needed in a log of an id, up to where it ended at first. A document that is deleted meanwhile is
/// still there when deletions are erased, but its deletion comes after that end.
fn erase_in(shared: &Shared, (log, end): Bounded, pass: Pass) -> Result<()> {
    shared.check_sound()?;
    let Some(row) = shared.index.log_row(log)? else { return Ok(()) };
    let path = log_path(&row.tenant, &row.thread, row.generation)?;
    let fail = |source| error::io(&path, source);
    let (file, _) = shared.open_log(log)?;
    let Header::Good(_, start) = read_header(&*file).map_err(fail)? else { return Err(error::corrupt(&path, Some(0))) };
    let needs = Needs { snapshot: shared.index.snapshot(), tenant: &row.tenant, log, pass };
    let mut scanner = Scanner::new(&*file, start, end);
    let (mut dead, mut bytes) = (Vec::new(), 0);
    while let Some(group) = scanner.next_group().map_err(fail)? {
        for (span, text) in group.lines {
            if is_erased(text) {
                continue;
            }
            let line = std::str::from_utf8(text).ok().and_then(|text| Line::decode(text).ok());
            let line = line.ok_or_else(|| error::corrupt(&path, Some(span.offset)))?;
            if !needs.line(&line, span)? {
                bytes += text.len();
                dead.push(span);
            }
        }
        if bytes > BYTES {
            erase(shared, &LogName { number: log, path: path.clone() }, &row.tenant, std::mem::take(&mut dead))?;
            bytes = 0;
        }
    }
    if scanner.position().offset != end {
        return Err(error::corrupt(&path, Some(scanner.position().offset)));
    }
    erase(shared, &LogName { number: log, path }, &row.tenant, dead)
}

/// Erases lines of a log, in a round of its own.
fn erase(shared: &Shared, log: &LogName, tenant: &TenantId, dead: Vec<Dead>) -> Result<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let key: LogKey = (tenant.clone(), no_log_id()?, Part::Events);
    alone(shared, key, How::Frees, |round| {
        for span in dead {
            let line = erased_line(usize::try_from(span.len).unwrap_or_default(), span.crc);
            if let Some(line) = line {
                round.overwrite(log.clone(), span.offset, line);
            }
            round.staged.delete(table::erased(log.number).number(span.offset));
        }
        Ok(())
    })
}

/// Erases the former lines of events that lost their content.
fn erase_former(shared: &Shared) -> Result<()> {
    let snapshot = shared.index.snapshot();
    let mut found: Vec<(u64, Vec<Dead>)> = Vec::new();
    for pair in snapshot.prefix(table::all_erased().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let log = table::read_erased(&key).ok_or_else(|| damaged("erased line"))?;
        let span = Span::decode(&value).ok_or_else(|| damaged("erased line"))?;
        match found.last_mut().filter(|(last, _)| *last == log) {
            Some((_, spans)) => spans.push(span),
            None => found.push((log, vec![span])),
        }
    }
    // The index is at least as new as this list.
    shared.index.persist()?;
    for (log, spans) in found {
        let Some(row) = snapshot.log_row(log)? else { continue };
        let name = LogName { number: log, path: log_path(&row.tenant, &row.thread, row.generation)? };
        let plain = match &shared.cold {
            Some(cold) => cold.plain_begins(&name.path).map_err(|source| error::io(&name.path, source))?,
            None => 0,
        };
        let (compressed, plain): (Vec<_>, Vec<_>) = spans.into_iter().partition(|span| span.offset < plain);
        if !compressed.is_empty() {
            cold::erase(shared, &name, &compressed)?;
        }
        erase(shared, &name, &row.tenant, compressed.into_iter().chain(plain).collect())?;
    }
    Ok(())
}

/// What comes after the logs of ids.
fn end(shared: &Shared) -> Result<()> {
    shared.check_sound()?;
    erase_former(shared)?;
    rewritten(shared)?;
    {
        let _exclusive = shared.exclusive();
        shared.check_sound()?;
        shared.journal()?.begin_anew().map_err(|failure| shared.journal_failed(failure))?;
    }
    let mut tries = 0;
    while !shared.index.reclaim().inspect_err(|_| shared.poison())? {
        tries += 1;
        if tries == TRIES {
            return Err(Error::unavailable("readers hold an earlier state of the index"));
        }
        std::thread::sleep(PAUSE);
    }
    remove_aside(shared)
}

/// Ends rewrites of collections that wait, so that a collection has one log.
fn rewritten(shared: &Shared) -> Result<()> {
    let snapshot = shared.index.snapshot();
    let mut tenants = std::collections::BTreeSet::new();
    for pair in snapshot.prefix(table::all_collections().as_bytes(), Direction::Forward) {
        let (tenant, collection) = KeyReader::new(table::COLLECTION, &pair?.0)
            .and_then(|mut reader| Some((reader.text()?, reader.text()?)))
            .ok_or_else(|| damaged("collection"))?;
        CollectionId::new(collection)?;
        tenants.insert(TenantId::new(tenant)?);
    }
    drop(snapshot);
    tenants.iter().try_for_each(|tenant| rewrite::all(shared, tenant))?;
    purge::all(shared, None)
}

/// Removes the bytes that were cut off logs which are not those of a thread that exists.
fn remove_aside(shared: &Shared) -> Result<()> {
    let folder = FilePath::new("aside")?;
    let entries = match shared.vfs.list(&folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(|source| error::io(&folder, source))?,
    };
    let mut is_changed = false;
    for entry in entries.into_iter().filter(|entry| entry.kind == Kind::File) {
        if !is_of_thread(shared, &entry.name) {
            let path = folder.join(&entry.name)?;
            shared.vfs.unlink(&path).map_err(|source| error::io(&path, source))?;
            is_changed = true;
        }
    }
    if is_changed { shared.vfs.sync_dir(&folder).map_err(|source| error::io(&folder, source)) } else { Ok(()) }
}

/// Whether a file in `aside/` is of the log of a thread that exists.
fn is_of_thread(shared: &Shared, name: &str) -> bool {
    let Some((log, _)) = name.rsplit_once(".jsonl") else { return false };
    let path = format!("{}.jsonl", log.replace('+', "/"));
    let is_of_id = log.ends_with(".0") || !path.starts_with("tenants/");
    !is_of_id && FilePath::new(path).is_ok_and(|path| shared.vfs.open(&path, crate::vfs::Open::Read).is_ok())
}
