//! What several logs say together, in an index of their own.

use store_core::{ErrorKind, Result};

use crate::{
    codec::LogRow,
    decoded, error,
    fold::Owner,
    index::Index,
    line::Line,
    log::{Header, Scanner, Span, read_header},
    names::log_path,
    shared::Shared,
    staged::Staged,
    vfs::Open,
};

/// Works the lines of a log into an index, up to where the index of the store knows the log. Whether all of it was
/// there: if not, the check of the log says so.
pub(super) fn take_log(
    shared: &Shared,
    given: &Index,
    of: (u64, &LogRow),
    work: impl FnMut(&mut Staged<'_>, &Owner, (&Line, Span)) -> Result<()>,
) -> Result<bool> {
    match read_log(shared, given, of, work) {
        Err(error) if error::damage(&error).is_some() => Ok(false),
        taken => taken,
    }
}

fn read_log(
    shared: &Shared,
    given: &Index,
    of: (u64, &LogRow),
    mut work: impl FnMut(&mut Staged<'_>, &Owner, (&Line, Span)) -> Result<()>,
) -> Result<bool> {
    let (log, row) = of;
    let owner = Owner::of(log, row);
    let path = log_path(&row.tenant, &row.thread, row.generation)?;
    let fail = |source| error::io(&path, source);
    let file = match shared.vfs.open(&path, Open::Read) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(fail)?,
    };
    let Header::Good(_, start) = read_header(&*file).map_err(fail)? else { return Ok(false) };
    let mut scanner = Scanner::new(&*file, start, row.end.offset);
    while let Some(group) = scanner.next_group().map_err(fail)? {
        let mut staged = Staged::new(given);
        let lines = match decoded::decode(&path, &group) {
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            lines => lines?.lines,
        };
        for (line, span) in &lines {
            work(&mut staged, &owner, (line, *span))?;
        }
        given.apply(&staged.into_changes())?;
    }
    Ok(scanner.position() == row.end)
}
