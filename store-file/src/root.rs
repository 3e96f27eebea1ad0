//! The root log: facts about several threads, each one record (FI-16).

use store_core::Result;

use crate::{
    error,
    journal::lacks_batches,
    line::Fact,
    log::{Group, Position, Recovered, Recovery, check_version, decode_line, recover},
    vfs::{FilePath, Open, Vfs},
};

const NAME: &str = "root.log";
/// Its first line, but for the sum.
pub(crate) const HEADER: &str = r#"{"log":"root","v":1}"#;

/// Its name.
pub(crate) fn path() -> Result<FilePath> {
    FilePath::new(NAME)
}

/// Hands each fact after `known.from` to `each`. Returns nothing if there is no root log yet.
///
/// # Errors
/// `Corrupt` for damage before its end, and for a root log that is missing although the index knows it; else an error
/// of the operating system.
pub(crate) fn read(
    vfs: &dyn Vfs,
    known: Recovery,
    mut each: impl FnMut(Fact) -> Result<()>,
) -> Result<Option<Recovered>> {
    let path = path()?;
    match vfs.open(&path, Open::Read) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
            if known.from.is_some() {
                return Err(error::corrupt(format!("{path}: the log is missing"), None).with_source(source));
            }
            return Ok(None);
        }
        opened => drop(opened.map_err(|source| error::io(&path, source))?),
    }
    // The journal is synced before a fact is written to the root log. So if a fact belongs to a later batch than the
    // journal has, the journal lacks batches.
    let last_batch = known.last_batch;
    let known = if known.read_only { known } else { Recovery { last_batch: u64::MAX, ..known } };
    let recovered = recover(vfs, &path, known, |group| {
        if group.batch.is_some_and(|batch| batch > last_batch) {
            return Err(lacks_batches());
        }
        decode(&path, group)?.into_iter().try_for_each(&mut each)
    })?;
    if known.from.is_none() && recovered.header.is_none() && !known.read_only {
        // It was being made: it never held a fact that was acknowledged.
        vfs.unlink(&path).map_err(|source| error::io(&path, source))?;
        return Ok(None);
    }
    Ok(Some(recovered))
}

/// The facts of a group.
pub(crate) fn decode(path: &FilePath, group: &Group<'_>) -> Result<Vec<Fact>> {
    check_version(path, group.commit.1)?;
    group.lines.iter().map(|(span, line)| decode_line(path, *span, line, Fact::decode)).collect()
}

/// A position as a value of the index.
pub(crate) fn encode_position(position: Position) -> Vec<u8> {
    [position.offset.to_be_bytes().as_slice(), position.crc.to_be_bytes().as_slice()].concat()
}

/// The position of such a value.
pub(crate) fn decode_position(bytes: &[u8]) -> Option<Position> {
    let (offset, crc) = bytes.split_first_chunk::<8>()?;
    Some(Position { offset: u64::from_be_bytes(*offset), crc: u32::from_be_bytes(crc.try_into().ok()?) })
}
