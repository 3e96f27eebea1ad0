//! The checks of a log or a thread before it is used.

use std::{io, sync::Arc};

use store_core::{CollectionId, Error, Result, Scope, TenantId, ThreadId};

use super::Shared;
use crate::{
    codec::{LogRow, Rows, ThreadRow},
    damage::without_generation,
    error,
    log::{Header, check_version, read_header},
    mutex::guard,
    names::{documents_log_id, log_path, rewrites_of, scope_log_id, tenant_folder, topics_log_id},
    vfs::{FilePath, VfsFile, read_exact_at},
};

impl Shared {
    /// The file of a log, for reading; at the first use it is compared with what the index knows (FI-11).
    pub(crate) fn open_log(&self, log: u64) -> Result<(Arc<dyn VfsFile>, FilePath)> {
        let row = self.index.any_log_row(log)?.ok_or_else(|| crate::codec::damaged("log"))?;
        let path = log_path(&row.tenant, &row.thread, row.generation)?;
        let file = self.files.open_to_read(&path).map_err(|source| missing(&path, source))?;
        if !self.config.read_only {
            self.check_log(log, &*file, &path)?;
        }
        Ok((file, path))
    }

    /// Compares a log with what the index knows of it, once.
    pub(crate) fn check_log(&self, log: u64, file: &dyn VfsFile, path: &FilePath) -> Result<()> {
        if guard(&self.checked).contains(&log) {
            return Ok(());
        }
        let row = self.index.any_log_row(log)?.ok_or_else(|| crate::codec::damaged("log"))?;
        self.check_damage(&row.tenant, &row.thread)?;
        let header = read_header(file).map_err(|source| error::io(path, source))?;
        if let Header::Good(line, _) = &header {
            check_version(path, line.as_bytes())?;
        }
        let objection = objection(&row, file, &header).map_err(|source| error::io(path, source))?;
        let mut checked = guard(&self.checked);
        match objection {
            // If the log counts as checked by now, a writer may have appended to it since the row was read. Then the
            // file is longer than that row says, and is not damaged.
            Some(objection) if !checked.contains(&log) => Err(Error::corrupt(format!("{path}: {objection}"))),
            _ => {
                checked.insert(log);
                Ok(())
            }
        }
    }

    /// Refuses a thread whose log is damaged: what the index holds of it may be a part (FI-4).
    pub(crate) fn check_damage(&self, tenant: &TenantId, thread: &ThreadId) -> Result<()> {
        if self.damage.threads.is_empty() {
            return Ok(());
        }
        match self.damage.threads.get(&(tenant.clone(), thread.clone())) {
            Some(detail) => Err(Error::new(detail.clone())),
            None => Ok(()),
        }
    }

    /// Refuses a tenant of which any log is damaged.
    pub(crate) fn check_tenant(&self, tenant: &TenantId) -> Result<()> {
        if let Some((_, detail)) = self.damage.threads.iter().find(|((of, _), _)| of == tenant) {
            return Err(Error::new(detail.clone()));
        }
        let folder = tenant_folder(tenant)?;
        match self.damage.headless.iter().find(|(name, _)| name.starts_with(folder.as_str())) {
            Some((_, (_, place))) => Err(Error::corrupt(place.as_str())),
            None => Ok(()),
        }
    }

    /// Refuses a scope of events whose id has a damaged log: what the index holds of it may be a part. The numbers of a
    /// topic stand in two logs.
    pub(crate) fn check_scope(&self, tenant: &TenantId, scope: &Scope) -> Result<()> {
        if self.damage.threads.is_empty() && self.damage.headless.is_empty() {
            return Ok(());
        }
        self.check_id(tenant, &scope_log_id(scope)?)?;
        match scope {
            Scope::Topic(_) => self.check_id(tenant, &topics_log_id()?),
            Scope::Thread(_) | Scope::Run(_) => Ok(()),
        }
    }

    /// Refuses an id with a damaged log, also if it is a log of generation 0 without a header.
    fn check_id(&self, tenant: &TenantId, id: &ThreadId) -> Result<()> {
        self.check_damage(tenant, id)?;
        let path = log_path(tenant, id, 0)?;
        match without_generation(&path).and_then(|(name, _)| self.damage.headless.get(name)) {
            Some((0, place)) => Err(Error::corrupt(place.as_str())),
            _ => Ok(()),
        }
    }

    /// Refuses a collection with a damaged log: what the index holds of it may be a part. It may also have another log,
    /// if one of the two is being rewritten.
    pub(crate) fn check_collection(&self, tenant: &TenantId, collection: &CollectionId) -> Result<()> {
        if self.damage.threads.is_empty() && self.damage.headless.is_empty() {
            return Ok(());
        }
        let is_of = |name: &str| -> Result<bool> {
            let Some(rewrites) = rewrites_of(name) else { return Ok(false) };
            let path = log_path(tenant, &documents_log_id(collection, rewrites)?, 0)?;
            Ok(without_generation(&path).is_some_and(|(own, _)| own == name))
        };
        for ((of, id), detail) in &self.damage.threads {
            let path = log_path(of, id, 0)?;
            if of == tenant && without_generation(&path).map_or(Ok(false), |(name, _)| is_of(name))? {
                return Err(Error::new(detail.clone()));
            }
        }
        for (name, (generation, place)) in &self.damage.headless {
            if *generation == 0 && is_of(name)? {
                return Err(Error::corrupt(place.as_str()));
            }
        }
        Ok(())
    }

    /// A thread, as a snapshot of the index has it.
    pub(crate) fn thread_row(
        &self,
        rows: &(impl Rows + ?Sized),
        tenant: &TenantId,
        thread: &ThreadId,
    ) -> Result<Option<ThreadRow>> {
        self.check_damage(tenant, thread)?;
        let row = rows.thread_row(tenant, thread)?;
        if row.is_none() {
            self.check_headless(tenant, thread)?;
        }
        Ok(row)
    }

    /// Refuses a thread that the index does not have, if its log is there without a header.
    fn check_headless(&self, tenant: &TenantId, thread: &ThreadId) -> Result<()> {
        if self.damage.headless.is_empty() {
            return Ok(());
        }
        let path = log_path(tenant, thread, 0)?;
        let found = without_generation(&path).and_then(|(name, _)| self.damage.headless.get(name));
        let Some((generation, place)) = found else { return Ok(()) };
        let is_deleted = self.index.id_record(tenant, thread, None)?.generation >= *generation;
        if is_deleted { Ok(()) } else { Err(Error::corrupt(place.as_str())) }
    }

    /// A thread that the index has. For a thread whose log is damaged from its first commit on, this is an error, not
    /// `None`.
    pub(crate) fn known_thread(
        &self,
        rows: &impl Rows,
        tenant: &TenantId,
        thread: &ThreadId,
    ) -> Result<Option<ThreadRow>> {
        let row = rows.thread_row(tenant, thread)?;
        if row.is_none() {
            self.check_damage(tenant, thread)?;
            self.check_headless(tenant, thread)?;
        }
        Ok(row)
    }

    /// Notes that a log need not be compared: this opening made it, read it to its end, or is about to append to it.
    pub(crate) fn mark_checked(&self, log: u64) {
        guard(&self.checked).insert(log);
    }
}

/// What is wrong with a log, compared with what the index knows of it.
pub(crate) fn objection(row: &LogRow, file: &dyn VfsFile, header: &Header) -> io::Result<Option<String>> {
    let len = file.len()?;
    if len != row.end.offset {
        let verb = if len > row.end.offset { "longer" } else { "shorter" };
        return Ok(Some(format!("it has {len} bytes, {verb} than the {} bytes that were written", row.end.offset)));
    }
    let Header::Good(header, _) = header else { return Ok(Some("its first line is damaged".to_owned())) };
    let fits = crate::line::ThreadHeader::decode(header).is_ok_and(|header| {
        header.tenant == row.tenant && header.thread == row.thread && header.generation == row.generation
    });
    if !fits {
        return Ok(Some("its first line names another thread".to_owned()));
    }
    // The last line ends with the sum that covers everything before it.
    let expected = format!("{:08x}\"}}\n", row.end.crc);
    let mut last = vec![0; expected.len()];
    read_exact_at(file, &mut last, len.saturating_sub(expected.len() as u64))?;
    Ok((last != expected.as_bytes()).then(|| "its last commit is not the one that was written".to_owned()))
}

/// The error of opening a log that should be there.
pub(crate) fn missing(path: &FilePath, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::NotFound {
        return Error::corrupt(format!("{path}: the log is missing")).with_source(source);
    }
    error::io(path, source)
}
