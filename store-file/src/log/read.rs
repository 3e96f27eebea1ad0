//! Reads headers and single lines, and proves them.

use std::{fmt::Display, io};

use store_core::{Result, codec::DecodeError};

use super::{Position, Span, format::verified_checksum};
use crate::{
    error,
    vfs::{FilePath, VfsFile, read_exact_at},
};

/// The longest header line.
const MAX_HEADER: usize = 16 * 1024;
/// Lines that are at most this far apart are read together.
const GAP: u64 = 4 * 1024;
/// How much is read together at most, single lines aside.
const READ: u64 = 1 << 20;

/// What stands at the start of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// A header whose checksum is right: its line, and where the first group starts.
    Good(String, Position),
    /// Anything else, nothing at all included: the log was being made, or is damaged. [`classify`](super::classify)
    /// from 0 tells which.
    Bad,
}

/// Reads the header of a log.
///
/// # Errors
/// An error of the operating system.
pub fn read_header(file: &dyn VfsFile) -> io::Result<Header> {
    let mut bytes = vec![0; MAX_HEADER];
    let mut held = 0;
    while held < bytes.len() {
        let count = file.read_at(bytes.get_mut(held..).unwrap_or_default(), held as u64)?;
        held += count;
        let ended = bytes.get(held - count..held).unwrap_or_default().contains(&b'\n');
        if count == 0 || ended {
            break;
        }
    }
    bytes.truncate(held);
    Ok(parse_header(bytes).unwrap_or(Header::Bad))
}

fn parse_header(mut bytes: Vec<u8>) -> Option<Header> {
    let len = bytes.iter().position(|byte| *byte == b'\n')?;
    bytes.truncate(len);
    let crc = verified_checksum(&bytes)?;
    let line = String::from_utf8(bytes).ok()?;
    Some(Header::Good(line, Position { offset: len as u64 + 1, crc }))
}

/// The bytes of one line, proved by the sum in its span. `name` is the log's, for the error.
///
/// # Errors
/// `Corrupt` with the name and the offset if the bytes are not what was written, or are gone.
pub fn read_line(file: &dyn VfsFile, name: &dyn Display, span: Span) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(span.len).unwrap_or(usize::MAX)];
    read(file, name, &mut bytes, span.offset)?;
    prove(name, span, &bytes)?;
    Ok(bytes)
}

/// The bytes of several lines, proved as by [`read_line`]; neighbours are read together.
///
/// # Errors
/// As [`read_line`]: one bad line fails the call.
pub fn read_lines(file: &dyn VfsFile, name: &dyn Display, spans: &[Span]) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::with_capacity(spans.len());
    let mut rest = spans;
    while let Some(first) = rest.first() {
        let (count, end) = together(rest, *first);
        let (run, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        let mut bytes = vec![0; usize::try_from(end - first.offset).unwrap_or(usize::MAX)];
        read(file, name, &mut bytes, first.offset)?;
        for span in run {
            let at = usize::try_from(span.offset - first.offset).unwrap_or(usize::MAX);
            let len = usize::try_from(span.len).unwrap_or(usize::MAX);
            let line = bytes.get(at..at.saturating_add(len)).unwrap_or_default();
            prove(name, *span, line)?;
            lines.push(line.to_vec());
        }
        rest = later;
    }
    Ok(lines)
}

/// Decodes the bytes of a line.
///
/// # Errors
/// `Corrupt` with the path and the offset of the line if they are not text or do not decode.
pub(crate) fn decode_line<T>(
    path: &FilePath,
    span: Span,
    bytes: &[u8],
    decode: impl FnOnce(&str) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    let place = || error::corrupt(path, Some(span.offset));
    let text = std::str::from_utf8(bytes).map_err(|e| place().with_source(e))?;
    decode(text).map_err(|e| place().with_source(e))
}

/// How many of the first `spans` are read in one go, and where that ends.
fn together(spans: &[Span], first: Span) -> (usize, u64) {
    let mut count = 0;
    let mut end = first.offset;
    for span in spans {
        let stop = span.offset.saturating_add(u64::from(span.len));
        let near = span.offset >= end && span.offset - end <= GAP && stop - first.offset <= READ;
        if count > 0 && !near {
            break;
        }
        (count, end) = (count + 1, stop);
    }
    (count, end)
}

fn read(file: &dyn VfsFile, name: &dyn Display, bytes: &mut [u8], offset: u64) -> Result<()> {
    read_exact_at(file, bytes, offset).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => error::corrupt(name, Some(offset)).with_source(source),
        _ => error::io(name, source),
    })
}

fn prove(name: &dyn Display, span: Span, bytes: &[u8]) -> Result<()> {
    if crc32c::crc32c(bytes) == span.crc { Ok(()) } else { Err(error::corrupt(name, Some(span.offset))) }
}
