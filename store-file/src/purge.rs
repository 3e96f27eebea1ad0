//! The removal of what deletions left behind, in the index and on the disk, in bounded steps.

use std::collections::BTreeSet;

use store_core::{Result, RunId, TenantId};

use crate::{
    codec::{LogRow, Rows, read},
    error, fold,
    held::Held,
    index::{Direction, Key},
    shared::{Shared, guard},
    staged::Staged,
    table,
};

/// How many keys a step removes.
const KEYS: usize = 1_000;

/// Removes what deletions left behind, in the index and on the disk (TH-20). `of` names a tenant, none means all.
pub(crate) fn all(shared: &Shared, of: Option<&TenantId>) -> Result<()> {
    for (log, row) in left_behind(shared, of)? {
        while step(shared, log, &row)? == Step::Goes {}
    }
    Ok(())
}

/// Purges the tenants that wait for it, until there are none. What fails is done by the next purge.
pub(crate) fn behind(shared: &Shared) {
    loop {
        let mut behind = guard(&shared.behind);
        let Some(tenant) = behind.as_mut().and_then(BTreeSet::pop_first) else {
            *behind = None;
            return;
        };
        drop(behind);
        let _ = all(shared, Some(&tenant));
    }
}

/// The logs of deleted threads.
pub(crate) fn left_behind(shared: &Shared, of: Option<&TenantId>) -> Result<Vec<(u64, LogRow)>> {
    shared.check_writable()?;
    let snapshot = shared.index.snapshot();
    let mut logs = Vec::new();
    for pair in snapshot.prefix(table::purges().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let log = table::read_log(&key).ok_or_else(|| crate::codec::damaged("purge"))?;
        let row: LogRow = read("purge", &value)?;
        if of.is_none_or(|tenant| *tenant == row.tenant) {
            logs.push((log, row));
        }
    }
    Ok(logs)
}

/// How a purge of a log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more of it.
    Goes,
    /// This step removed the last of it.
    Ends,
    /// Another purge had removed it.
    Gone,
}

/// Removes what is left of a log, up to a bound.
pub(crate) fn step(shared: &Shared, log: u64, row: &LogRow) -> Result<Step> {
    let _purging = guard(&shared.purging);
    if shared.index.get(table::purge(log).as_bytes())?.is_none() {
        return Ok(Step::Gone);
    }
    let snapshot = shared.index.snapshot();
    let mut staged = Staged::new(&shared.index);
    let mut held = Held::new(shared, &row.tenant);
    let mut keys = 0;
    let under = table::OF_LOG.iter().map(|sort| table::of_log(*sort, log));
    for prefix in under {
        for pair in snapshot.prefix(prefix.as_bytes(), Direction::Forward).take(KEYS - keys) {
            let (key, _) = pair?;
            if let Some(run) = table::read_log_run(&key) {
                let run = RunId::new(run)?;
                // Until it is applied: another thread may be about to use the id again.
                held.take(&run, true);
                remove_run(&mut staged, (log, &row.tenant), &run)?;
            }
            staged.delete(Key::from_bytes(&key));
            keys += 1;
        }
    }
    if keys > 0 {
        shared.index.apply(staged.into_changes())?;
        return Ok(Step::Goes);
    }
    remove_file(shared, row)?;
    let mut staged = Staged::new(&shared.index);
    staged.delete(table::purge(log));
    shared.index.apply(staged.into_changes())?;
    Ok(Step::Ends)
}

/// Removes the log itself.
fn remove_file(shared: &Shared, row: &LogRow) -> Result<()> {
    // Who began to read before the deletion has ended when this lock is had; nobody later sees the thread.
    shared.readers.wait_for_all_before();
    let path = Shared::log_path(&row.tenant, &row.thread, row.generation)?;
    shared.files.forget(&path);
    match shared.vfs.unlink(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(error::io(&path, source)),
        _ => {}
    }
    match shared.vfs.sync_dir(&path.parent()) {
        // The folder of a tenant that was removed.
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(|source| shared.write_failed(&path, source)),
    }
}

/// Removes a run, unless its id was used again.
pub(crate) fn remove_run(staged: &mut Staged<'_>, log: (u64, &TenantId), id: &RunId) -> Result<()> {
    let (log, tenant) = log;
    if let Some(row) = staged.run_row(tenant, id)?.filter(|row| row.log == log) {
        for place in fold::run_places(tenant, id.as_str(), &row) {
            staged.delete(place);
        }
        staged.delete(table::run(tenant, id));
    }
    Ok(())
}
