//! Compresses the logs of threads that were not written for a while (FI-14).

use std::{sync::Arc, time::Duration};

use store_core::{
    Detail, Error, ErrorKind, Progress, Result, TenantId, ThreadId, ThreadListKey, ThreadOrder, Timestamp, length,
};

use crate::{
    codec::{LogRow, Rows, damaged},
    error,
    index::Direction,
    log::{Header, Position, Scanner, read_header},
    names::log_path,
    shared::Shared,
    store::FileStore,
    table,
    vfs::{Cold, FilePath, Open, Sizes, VfsFile},
};

/// A log is compressed once it has more bytes than this that are not: a smaller file takes up little more than its
/// name.
const LEAST: u64 = 16 << 10;

/// Which logs are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressLogs {
    /// The time since the last write of a thread, by the clock of the store.
    pub idle: Duration,
    /// Only count what would be compressed.
    pub dry_run: bool,
}

impl CompressLogs {
    /// Compresses the logs of threads that were not written for so long.
    #[must_use]
    pub const fn new(idle: Duration) -> Self {
        Self { idle, dry_run: false }
    }

    /// The same, but only counts.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a compression did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompressedLogs {
    /// The logs that were compressed, or that would be.
    pub logs: u64,
    /// How many bytes their files had before.
    pub bytes_before: u64,
    /// How many bytes their files have now. 0 in a dry run, which does not know it.
    pub bytes_after: u64,
    /// Logs that are damaged. They stay as they are.
    pub damaged: u64,
    /// Whether the progress has stopped it before the last log.
    pub stopped: bool,
}

/// What became of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Compressed {
        before: u64,
        after: u64,
    },
    Damaged,
    /// It was written or deleted meanwhile, or little of it is not compressed.
    Unchanged,
}

impl FileStore {
    /// Compresses the logs of a tenant's threads that were not written for a while. They can still be read, verified
    /// and appended to. Logs with at most 16 KiB that are not compressed yet are left out.
    ///
    /// Other calls go on meanwhile; no write takes place while the files of a log are exchanged. It can be stopped
    /// between two logs, by the progress or by dropping the call: each log is compressed or as it was.
    ///
    /// # Errors
    /// `StorageFull` if there is no space for the compressed log beside the other one; `Unsupported` for a store that
    /// is open for reading; `Closed`; `Poisoned`. What was compressed before stays so.
    pub async fn compress_logs(
        &self,
        tenant: &TenantId,
        request: CompressLogs,
        progress: &dyn Progress,
    ) -> Result<CompressedLogs> {
        let shared = Arc::clone(self.shared());
        shared.check_writable()?;
        let pool = shared.pool.clone();
        let until = shared.time.now().saturating_sub(request.idle);
        let (of, tenant) = (Arc::clone(&shared), tenant.clone());
        let (tenant, found) = pool.run(move || find(&of, &tenant, until).map(|found| (tenant, found))).await??;
        let (mut done, total) = (CompressedLogs::default(), length(found.len()));
        for (number, (thread, bytes)) in (1..).zip(found) {
            let outcome = if request.dry_run {
                Outcome::Compressed { before: bytes, after: 0 }
            } else {
                let (of, tenant) = (Arc::clone(&shared), tenant.clone());
                pool.run(move || compress(&of, &tenant, &thread, until)).await??
            };
            match outcome {
                Outcome::Compressed { before, after } => {
                    done.logs += 1;
                    done.bytes_before += before;
                    done.bytes_after += after;
                }
                Outcome::Damaged => done.damaged += 1,
                Outcome::Unchanged => {}
            }
            if !progress.advance(number, Some(total)) {
                done.stopped = number < total;
                break;
            }
        }
        Ok(done)
    }
}

fn cold(shared: &Shared) -> Result<&Cold> {
    let reading = "compressing logs of a store opened for reading";
    shared.cold.as_ref().ok_or_else(|| Error::new(Detail::Unsupported { operation: reading }))
}

/// The threads with a log to compress, the one that was written first before the others, and how many bytes the files
/// of each log have.
fn find(shared: &Shared, tenant: &TenantId, until: Timestamp) -> Result<Vec<(ThreadId, u64)>> {
    let cold = cold(shared)?;
    let list = table::thread_list(tenant, ThreadListKey::All, ThreadOrder::LastActivity);
    let snapshot = shared.index.snapshot();
    let mut found = Vec::new();
    for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
        let (time, id) = table::read_place(&list, &pair?.0).ok_or_else(|| damaged("thread list"))?;
        if time >= until.as_millis() {
            break;
        }
        let thread = ThreadId::new(id)?;
        let Some((_, row)) = idle_log(shared, tenant, &thread, until)?.filter(|(_, row)| row.end.offset > LEAST) else {
            continue;
        };
        // Of one that cannot be looked at, its first use says why.
        let sizes = cold.sizes(&log_path(tenant, &thread, row.generation)?);
        if let Some(sizes) = sizes.ok().filter(|sizes| sizes.plain > LEAST) {
            found.push((thread, sizes.plain + sizes.compressed));
        }
    }
    Ok(found)
}

/// The log of a thread that was not written since a time, and its number; none if it was, or is gone.
fn idle_log(shared: &Shared, tenant: &TenantId, thread: &ThreadId, until: Timestamp) -> Result<Option<(u64, LogRow)>> {
    let row = shared.index.thread_row(tenant, thread)?;
    let Some(row) = row.filter(|row| row.stored.thread.updated_at < until) else { return Ok(None) };
    Ok(shared.index.log_row(row.log)?.map(|found| (row.log, found)))
}

/// Compresses the log of one thread.
fn compress(shared: &Shared, tenant: &TenantId, thread: &ThreadId, until: Timestamp) -> Result<Outcome> {
    shared.check_writable()?;
    let cold = cold(shared)?;
    let _one_at_a_time = cold.begin();
    let Some((log, row)) = idle_log(shared, tenant, thread, until)? else { return Ok(Outcome::Unchanged) };
    let path = log_path(tenant, thread, row.generation)?;
    let fail = |source| error::io(&path, source);
    // This opening finishes what a crash has cut short.
    match shared.vfs.open(&path, Open::Write).map_err(fail).and_then(|file| prove(shared, (log, &row), &*file, &path)) {
        Err(error) if is_about_the_log(&error) => return Ok(Outcome::Damaged),
        proved => proved?,
    }
    let before = cold.sizes(&path).map_err(fail)?;
    if before.plain <= LEAST {
        return Ok(Outcome::Unchanged);
    }
    // Twice this is asked for: as much as the log has.
    shared.check_space(row.end.offset / 2).map_err(fail)?;
    // No power cut may leave a compressed log ahead of the journal: nothing is cut off it.
    shared.sync()?;
    // The file of the log must be durable before the files are exchanged, and so must its name: a power cut must not
    // leave the compressed file alone. If a sync fails, a later one may succeed although the bytes are lost, so the
    // journal must keep them (FI-6).
    let file = shared.vfs.open(&path, Open::Write).map_err(fail)?;
    let synced = file.sync_data().and_then(|()| shared.vfs.sync_dir(&path.parent()));
    synced.inspect_err(|_| shared.poison()).map_err(fail)?;
    cold.prepare(&path, row.end.offset, &[]).map_err(fail)?;
    if !switch(shared, cold, (log, row.end), &path)? {
        return Ok(Outcome::Unchanged);
    }
    let after = cold.sizes(&path).map_err(fail)?;
    let size = |sizes: Sizes| sizes.plain + sizes.compressed;
    Ok(Outcome::Compressed { before: size(before), after: size(after) })
}

/// Exchanges the files of a log that was prepared, unless the log has changed since. Whether it did.
pub(crate) fn switch(shared: &Shared, cold: &Cold, known: (u64, Position), path: &FilePath) -> Result<bool> {
    let (log, end) = known;
    let _exclusive = shared.exclusive();
    shared.check_writable()?;
    if shared.index.log_row(log)?.is_none_or(|row| row.end != end) {
        cold.clean();
        return Ok(false);
    }
    let switched = cold.switch(path);
    // Handles of the former file must not be used for writing any more, however it went.
    shared.files.forget(path);
    switched.map_err(|source| {
        if !error::is_full(&source) {
            shared.poison();
        }
        error::io(path, source)
    })?;
    Ok(true)
}

/// Whether an error says that the log itself is not to be touched.
fn is_about_the_log(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::SchemaMismatch)
}

/// Proves that a log is what was written, up to where the index knows it to end.
fn prove(shared: &Shared, known: (u64, &LogRow), file: &dyn VfsFile, path: &FilePath) -> Result<()> {
    let (log, row) = known;
    shared.check_damage(&row.tenant, &row.thread)?;
    shared.check_log(log, file, path)?;
    let fail = |source| error::io(path, source);
    let Header::Good(_, start) = read_header(file).map_err(fail)? else { return Err(error::corrupt(path, Some(0))) };
    let mut scanner = Scanner::new(file, start, row.end.offset);
    while scanner.next_group().map_err(fail)?.is_some() {}
    let end = scanner.position();
    if end == row.end { Ok(()) } else { Err(error::corrupt(path, Some(end.offset))) }
}
