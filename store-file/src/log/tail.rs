//! Judges what stands after the last good group: nothing, a torn tail, or damage.

use std::{io, ops::ControlFlow};

use super::format::{COMMIT_PREFIX, Claim, Written};
use crate::vfs::VfsFile;

const CHUNK: usize = 64 * 1024;
/// Commit lines above this are not looked at in the search after damage.
const MAX_COMMIT_LINE: usize = 8 << 20;

/// What stands after the last good group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// Bytes of which none is known to have been acknowledged, or a damaged last record: they are set aside (FI-3).
    Torn {
        /// Where they start.
        from: u64,
        /// How many they are.
        bytes: u64,
        /// Whether they were acknowledged, as far as the caller knew.
        acknowledged: bool,
    },
    /// Damage before the last record: nothing is touched (FI-4).
    Corrupt {
        /// Where the damaged group starts.
        offset: u64,
    },
}

/// What is known about a log before its bytes are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// An offset up to which the log was acknowledged, 0 if nothing is known.
    pub acknowledged: u64,
    /// The last batch that was committed, the largest number if all were.
    pub last_batch: u64,
}

/// Judges the bytes from `from`, the end of the last good group, to `end`, the length of the file.
///
/// A good group after the bad place proves damage in these cases: it belongs to a batch that was committed, since its
/// log was whole then; it was written by the first release and says that the log had been synced beyond the bad place;
/// `known` says that it was acknowledged; or it stands at the bad place itself, whole, but names another group before
/// it, which no crash brings about. A group of a batch that was not committed proves nothing.
///
/// # Errors
/// An error of the operating system.
pub fn classify(file: &dyn VfsFile, from: u64, end: u64, known: Known) -> io::Result<Tail> {
    let Known { acknowledged, last_batch } = known;
    if from >= end {
        // A log that is too short has no bytes to set aside. It is reported with 0 bytes.
        return Ok(if from < acknowledged { Tail::Torn { from, bytes: 0, acknowledged: true } } else { Tail::Clean });
    }
    let mut floor = from;
    let proof = each_commit_line(file, from, end, |offset, line| {
        // A line that is no whole commit line may hide the start of a good group: its line feed may be what was
        // damaged.
        let Some(claim) = Claim::parse(line) else { return Ok(false) };
        let least = std::mem::replace(&mut floor, offset + line.len() as u64 + 1);
        let Some(start) = offset.checked_sub(claim.bytes).filter(|start| *start >= least) else { return Ok(false) };
        let was_whole = match claim.written {
            Written::InBatch(_) => true,
            Written::Synced(synced) => synced > from,
        };
        let counts = was_whole || floor <= acknowledged || start == from;
        Ok(counts && !claim.is_behind(last_batch) && stands_alone(file, start, offset, line, &claim)?)
    })?;
    Ok(match proof {
        true => Tail::Corrupt { offset: from },
        false => Tail::Torn { from, bytes: end - from, acknowledged: from < acknowledged },
    })
}

/// Whether the group from `start` to its commit line at `commit` has the sum and the number of lines that it claims.
fn stands_alone(file: &dyn VfsFile, start: u64, commit: u64, line: &[u8], claim: &Claim) -> io::Result<bool> {
    let (mut crc, mut lines) = (0, 0);
    each_chunk(file, start, commit, |chunk| {
        crc = crc32c::crc32c_append(crc, chunk);
        lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    let crc = crc32c::crc32c_append(crc, line.get(..claim.covered).unwrap_or_default());
    Ok(crc == claim.crc && lines == claim.lines)
}

/// Calls `found` with the offset and text of every line that starts like a commit line, until one answers `true`.
fn each_commit_line(
    file: &dyn VfsFile,
    from: u64,
    end: u64,
    mut found: impl FnMut(u64, &[u8]) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut line = Vec::new();
    let mut offset = from;
    let mut length = 0;
    let mut proof = false;
    each_chunk(file, from, end, |chunk| {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            // Of a line that cannot become a commit line only the length is of interest.
            let head = line.len().min(COMMIT_PREFIX.len());
            let hopeful = line.len() as u64 == length && line.get(..head) == COMMIT_PREFIX.get(..head);
            if hopeful && line.len() + text.len() <= MAX_COMMIT_LINE {
                line.extend_from_slice(text);
            }
            length += piece.len() as u64;
            if text.len() < piece.len() {
                let whole = line.len() as u64 + 1 == length && line.starts_with(COMMIT_PREFIX);
                if whole && found(offset, &line)? {
                    proof = true;
                    return Ok(ControlFlow::Break(()));
                }
                offset += length;
                length = 0;
                line.clear();
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(proof)
}

/// Calls `step` with the bytes from `from` to `to`, chunk by chunk, until it breaks or the file ends.
pub(super) fn each_chunk(
    file: &dyn VfsFile,
    mut from: u64,
    to: u64,
    mut step: impl FnMut(&[u8]) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    while from < to {
        let want = usize::try_from(to - from).unwrap_or(CHUNK).min(CHUNK);
        let count = file.read_at(buffer.get_mut(..want).unwrap_or_default(), from)?;
        if count == 0 || step(buffer.get(..count).unwrap_or_default())?.is_break() {
            break;
        }
        from += count as u64;
    }
    Ok(())
}
