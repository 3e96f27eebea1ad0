//! Headers and groups of logs, decoded, and what the index has of a log.

use store_core::{CollectionId, Result, RunId, TenantId};

use crate::{
    codec::{Rows, damaged},
    fold::{self, Lines, Owner, Told},
    index::Key,
    line::{CommitLine, Line, ThreadHeader},
    log::{Group, Header, Position, Span, check_version, decode_line, read_header},
    names::{documents_log_id, log_path, rewrites_of},
    staged::Staged,
    table,
    vfs::{FilePath, VfsFile},
};

/// The header of a log that stands under its own name, and where its first group starts.
pub(crate) fn own_header(file: &dyn VfsFile, path: &FilePath) -> std::io::Result<Option<(ThreadHeader, Position)>> {
    let Header::Good(line, start) = read_header(file)? else { return Ok(None) };
    let header = ThreadHeader::decode(&line)
        .ok()
        .filter(|header| log_path(&header.tenant, &header.thread, header.generation).is_ok_and(|own| own == *path));
    Ok(header.map(|header| (header, start)))
}

/// The thread as the index knows it.
pub(crate) fn told(staged: &Staged<'_>, owner: &Owner) -> Result<Told> {
    let row = staged.thread_row(&owner.tenant, &owner.thread)?.filter(|row| row.log == owner.log);
    let stored = row.map(|row| row.stored);
    let id = staged.id_record(&owner.tenant, &owner.thread, stored.as_ref())?;
    Ok(Told { stored, id })
}

/// The lines of a group, decoded.
pub(crate) fn decode(path: &FilePath, group: &Group<'_>) -> Result<Lines> {
    check_version(path, group.commit.1)?;
    let line = |(span, line): &(Span, &[u8])| Ok((decode_line(path, *span, line, Line::decode)?, *span));
    let lines = group.lines.iter().map(line).collect::<Result<_>>()?;
    let (commit_span, commit) = group.commit;
    let commit = decode_line(path, commit_span, commit, CommitLine::decode)?;
    Ok(Lines { lines, commit, commit_span, end: group.end })
}

/// Takes out of the index what it says of a log that is gone.
pub(crate) fn forget(staged: &mut Staged<'_>, owner: &Owner) -> Result<()> {
    for key in staged.keys(&table::log_runs(owner.log))? {
        let run = table::read_log_run(&key).ok_or_else(|| damaged("run"))?;
        remove_run(staged, (owner.log, &owner.tenant), &RunId::new(run)?)?;
    }
    for sort in table::OF_LOG.iter().chain(&table::LEFT_BY_LOG) {
        staged.delete_all(&table::of_log(*sort, owner.log))?;
    }
    forget_documents(staged, owner)?;
    // Of a tenant that is removed, its threads and logs of events may still be there.
    let thread = staged.thread_row(&owner.tenant, &owner.thread)?.filter(|row| row.log == owner.log);
    if let Some(row) = thread {
        fold::remove_thread(staged, &owner.tenant, &row.stored);
    }
    if staged.event_log(&owner.tenant, &owner.thread)? == Some(owner.log) {
        staged.delete(table::event_log(&owner.tenant, &owner.thread));
    }
    staged.delete(table::log(owner.log));
    staged.delete(table::changed(owner.log));
    Ok(())
}

/// Removes what stands in a log of a collection that is gone. Such a log is removed when all that exists of it was
/// moved. An index that is older than the removal may have documents that were deleted before it.
fn forget_documents(staged: &mut Staged<'_>, owner: &Owner) -> Result<()> {
    let Some((collection, _)) = collection_of(staged, owner)? else { return Ok(()) };
    for key in staged.keys(&table::documents(&owner.tenant).text(collection.as_str()))? {
        let key = Key::from_bytes(&key);
        if staged.document_row(&key)?.is_some_and(|row| row.log == owner.log) {
            staged.delete(key);
        }
    }
    Ok(())
}

/// Returns whether the log is that of a collection which has a newer log.
pub(crate) fn is_rewritten(staged: &mut Staged<'_>, owner: &Owner) -> Result<bool> {
    let Some((collection, rewrites)) = collection_of(staged, owner)? else { return Ok(false) };
    Ok(staged.collection_row(&owner.tenant, &collection)?.is_some_and(|row| row.rewrites > rewrites))
}

/// The collection whose documents stand in a log, and how often it was rewritten before that log; `None` for other
/// logs.
fn collection_of(staged: &mut Staged<'_>, owner: &Owner) -> Result<Option<(CollectionId, u64)>> {
    let Owner { tenant, thread, generation, .. } = owner;
    let path = log_path(tenant, thread, *generation)?;
    let Some(rewrites) = rewrites_of(path.as_str()).filter(|_| *generation == 0) else { return Ok(None) };
    for key in staged.keys(&table::collections(tenant))? {
        let collection = table::read_collection(&key).ok_or_else(|| damaged("collection"))?;
        let collection = CollectionId::new(collection)?;
        if documents_log_id(&collection, rewrites)? == *thread {
            return Ok(Some((collection, rewrites)));
        }
    }
    Ok(None)
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
