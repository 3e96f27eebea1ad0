//! A log as its writer finds it.

use store_core::Result;

use crate::{
    codec::Rows,
    fold::Told,
    log::LogWriter,
    shared::{Loaded, LogKey, Part, Shared},
};

/// A thread from the index, its log open and compared.
pub(crate) fn load(shared: &Shared, key: &LogKey) -> Result<Loaded> {
    let (tenant, thread, part) = key;
    if *part == Part::Events {
        shared.check_damage(tenant, thread)?;
        let log = match shared.index.event_log(tenant, thread)? {
            Some(log) => Some((log, writer_of(shared, log)?)),
            None => None,
        };
        return Ok(Loaded { told: Told::default(), log });
    }
    let row = shared.thread_row(&shared.index, tenant, thread)?;
    let id = shared.index.id_record(tenant, thread, row.as_ref().map(|row| &row.stored))?;
    let Some(row) = row else { return Ok(Loaded { told: Told { stored: None, id }, log: None }) };
    let writer = writer_of(shared, row.log)?;
    Ok(Loaded { told: Told { stored: Some(row.stored), id }, log: Some((row.log, writer)) })
}

/// The end of a log that the index knows, after it was compared with the file.
fn writer_of(shared: &Shared, log: u64) -> Result<LogWriter> {
    let row = shared.index.log_row(log)?.ok_or_else(|| crate::codec::damaged("log"))?;
    let path = Shared::log_path(&row.tenant, &row.thread, row.generation)?;
    let file = shared.files.open(&path).map_err(|source| crate::shared::missing(&path, source))?;
    shared.check_log(log, &*file, &path)?;
    Ok(LogWriter::resume(file, path, row.end).synced_to(row.synced))
}
