//! Erases lines in the compressed part of a log: it is compressed again without them.

use store_core::Result;

use crate::{
    codec::Rows,
    compress::switch,
    error,
    journal::LogName,
    log::{Span, erased_line},
    shared::Shared,
    vfs::Open,
};

/// Compresses a log again, with these lines erased. If the log is written meanwhile, it is done again.
pub(super) fn erase(shared: &Shared, name: &LogName, dead: &[Span]) -> Result<()> {
    let Some(cold) = &shared.cold else { return Ok(()) };
    let path = &name.path;
    let fail = |source| error::io(path, source);
    let _one_at_a_time = cold.begin();
    let patches: Vec<_> = dead
        .iter()
        .filter_map(|span| Some((span.offset, erased_line(usize::try_from(span.len).ok()?, span.crc)?)))
        .collect();
    loop {
        shared.check_sound()?;
        let Some(row) = shared.index.log_row(name.number)? else { return Ok(()) };
        shared.check_space(row.end.offset / 2).map_err(fail)?;
        // As for any compression: the journal and the plain file are durable before the files are exchanged.
        shared.sync()?;
        let file = shared.vfs.open(path, Open::Write).map_err(fail)?;
        let synced = file.sync_data().and_then(|()| shared.vfs.sync_dir(&path.parent()));
        synced.inspect_err(|_| shared.poison()).map_err(fail)?;
        cold.prepare(path, row.end.offset, &patches).map_err(fail)?;
        if switch(shared, cold, (name.number, row.end), path)? {
            return Ok(());
        }
    }
}
