//! The bytes of headers and groups: pure functions both ways.

use std::{fmt::Display, io::Write as _};

use store_core::{Error, Result, SchemaRemedy};

use super::{Position, Span};

/// The largest group, its commit line included. A reader holds one group in memory.
pub const MAX_GROUP_BYTES: u64 = 256 << 20;
/// The most lines of a group.
pub(super) const MAX_LINES: usize = 1 << 20;
/// How a commit line starts; no other line does.
pub(super) const COMMIT_PREFIX: &[u8] = br#"{"t":"commit","#;
/// The version of the format of headers and groups.
const VERSION: u64 = 2;
/// Between what a sum covers and the sum.
const SUM: &[u8] = br#","crc":""#;
/// After the sum.
const END: &[u8] = b"\"}";

/// Where the parts of an encoded group stand in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where the group starts.
    pub start: u64,
    /// Its lines, in order.
    pub lines: Vec<Span>,
    /// Its commit line.
    pub commit: Span,
    /// Where the next group starts.
    pub end: Position,
}

/// A JSON object as a line that carries its own sum in a last field `crc`, and that sum.
///
/// # Errors
/// `Invalid` if `object` is no JSON object of at least one field, in one line.
pub fn add_checksum(object: &str) -> Result<(Vec<u8>, u32)> {
    check_object(object.as_bytes())?;
    let mut line = Vec::with_capacity(object.len() + 20);
    line.extend_from_slice(object.strip_suffix('}').unwrap_or(object).as_bytes());
    let sum = close(&mut line, 0);
    Ok((line, sum))
}

/// The sum of a line that `add_checksum` made, given without its line feed, if it is the right one.
#[must_use]
pub fn verified_checksum(line: &[u8]) -> Option<u32> {
    let (covered, sum) = split_sum(line)?;
    (crc32c::crc32c(covered) == sum).then_some(sum)
}

/// Appends to `out`, whose first byte stands at the offset `base` of the log, the group of `lines` that follows `at`.
///
/// Each line is a JSON object without line feeds; `fields` is an object whose fields go into the commit line, `{}` for
/// none. `batch` is the number of the journal's batch that the group belongs to.
///
/// # Errors
/// `Invalid` for a line or fields that would not come back as they are; `LimitExceeded` for a group that is too large.
pub fn encode_group<L: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    at: Position,
    batch: u64,
    lines: &[L],
    fields: &str,
) -> Result<Placed> {
    let before = out.len();
    let placed = append_group(out, at, batch, lines, fields);
    if placed.is_err() {
        out.truncate(before);
    }
    placed
}

fn append_group<L: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    at: Position,
    batch: u64,
    lines: &[L],
    fields: &str,
) -> Result<Placed> {
    let size = lines.iter().map(|line| line.as_ref().len() as u64 + 1).sum::<u64>();
    check_size(size.saturating_add(fields.len() as u64).saturating_add(200), lines.len())?;
    let group = out.len();
    let mut spans = Vec::with_capacity(lines.len());
    let mut offset = at.offset;
    for line in lines {
        let line = line.as_ref();
        check_object(line)?;
        if line.starts_with(COMMIT_PREFIX) {
            return Err(Error::invalid("log line", "only the engine writes commit lines"));
        }
        spans.push(span(offset, line));
        out.extend_from_slice(line);
        out.push(b'\n');
        offset += line.len() as u64 + 1;
    }
    let commit = out.len();
    append_fields(out, fields)?;
    let Position { crc: prev, .. } = at;
    let count = lines.len();
    let _ = write!(out, r#","batch":{batch},"lines":{count},"bytes":{size},"prev":"{prev:08x}""#);
    let crc = close(out, group);
    let line = out.get(commit..out.len() - 1).unwrap_or_default();
    let commit = span(offset, line);
    let end = Position { offset: offset + line.len() as u64 + 1, crc };
    Ok(Placed { start: at.offset, lines: spans, commit, end })
}

/// The commit line as far as the caller's fields.
fn append_fields(out: &mut Vec<u8>, fields: &str) -> Result<()> {
    let _ = write!(out, r#"{{"t":"commit","v":{VERSION}"#);
    if fields == "{}" {
        return Ok(());
    }
    check_object(fields.as_bytes())?;
    out.push(b',');
    out.extend_from_slice(fields.get(1..fields.len() - 1).unwrap_or_default().as_bytes());
    Ok(())
}

/// Ends the line in `out` with the sum of all bytes from `from` on, which is returned.
fn close(out: &mut Vec<u8>, from: usize) -> u32 {
    let crc = crc32c::crc32c(out.get(from..).unwrap_or_default());
    out.extend_from_slice(SUM);
    let _ = write!(out, "{crc:08x}");
    out.extend_from_slice(END);
    out.push(b'\n');
    crc
}

/// A line of a log.
pub(crate) fn span(offset: u64, line: &[u8]) -> Span {
    Span { offset, len: u32::try_from(line.len()).unwrap_or(u32::MAX), crc: crc32c::crc32c(line) }
}

fn check_size(bytes: u64, lines: usize) -> Result<()> {
    if bytes > MAX_GROUP_BYTES {
        return Err(Error::limit_exceeded("bytes of one log group", MAX_GROUP_BYTES, bytes));
    }
    if lines > MAX_LINES {
        return Err(Error::limit_exceeded("lines of one log group", MAX_LINES as u64, lines as u64));
    }
    Ok(())
}

fn check_object(line: &[u8]) -> Result<()> {
    let framed = line.len() > 2 && line.starts_with(b"{") && line.ends_with(b"}");
    if !framed || line.contains(&b'\n') {
        return Err(Error::invalid("log line", "it is not a JSON object on one line"));
    }
    Ok(())
}

/// What the sum of a line covers, and the sum as it is written.
fn split_sum(line: &[u8]) -> Option<(&[u8], u32)> {
    let (line, sum) = line.strip_suffix(END)?.split_last_chunk::<8>()?;
    Some((line.strip_suffix(SUM)?, hex(sum)?))
}

/// Eight lower-case hex digits: one spelling for each number, so that no changed bit goes unseen.
fn hex(digits: &[u8]) -> Option<u32> {
    let plain = digits.len() == 8 && digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

/// Refuses a header or a commit line, proved by its sum, that a later release wrote (PR-18). `name` is the log's.
///
/// # Errors
/// `SchemaMismatch` that names both versions.
pub(crate) fn check_version(name: &dyn Display, line: &[u8]) -> Result<()> {
    match version(line) {
        Some(version) if version > VERSION => {
            let (found, supported) = (format!("version {version} in {name}"), format!("version {VERSION}"));
            Err(Error::schema_mismatch(found, supported, SchemaRemedy::Release))
        }
        Some(_) | None => Ok(()),
    }
}

/// The version of a line: its second field, in every release.
fn version(line: &[u8]) -> Option<u64> {
    let rest = line.get(line.iter().position(|byte| *byte == b',')?..)?.strip_prefix(br#","v":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// What a commit line says about when its group was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// As part of the journal's batch with this number.
    InBatch(u64),
    /// When the log was durable up to this offset: a group of version 1, which no journal has.
    Synced(u64),
}

/// What a commit line says about its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) written: Written,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    pub(super) prev: u32,
    pub(super) crc: u32,
    /// How many bytes of the line the sum covers.
    pub(super) covered: usize,
}

impl Claim {
    /// Reads a commit line, given without its line feed.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let (covered, crc) = line.starts_with(COMMIT_PREFIX).then(|| split_sum(line)).flatten()?;
        // From the end: the fields before these are the caller's, and may hold anything.
        let (rest, prev) = covered.strip_suffix(b"\"")?.split_last_chunk::<8>()?;
        let (rest, bytes) = number(rest.strip_suffix(br#","prev":""#)?)?;
        let (rest, lines) = number(rest.strip_suffix(br#","bytes":"#)?)?;
        let (rest, when) = number(rest.strip_suffix(br#","lines":"#)?)?;
        let written = if rest.ends_with(br#","batch":"#) {
            Written::InBatch(when)
        } else {
            rest.strip_suffix(br#","synced":"#)?;
            Written::Synced(when)
        };
        Some(Self { written, lines, bytes, prev: hex(prev)?, crc, covered: covered.len() })
    }

    /// The batch that the group belongs to; none for one of the first release.
    pub(super) const fn batch(&self) -> Option<u64> {
        match self.written {
            Written::InBatch(batch) => Some(batch),
            Written::Synced(_) => None,
        }
    }

    /// Whether the group belongs to a batch after `last`, which was not committed.
    pub(super) const fn is_behind(&self, last: u64) -> bool {
        matches!(self.written, Written::InBatch(batch) if batch > last)
    }
}

/// The decimal number at the end of `text`, and what stands before it.
fn number(text: &[u8]) -> Option<(&[u8], u64)> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, digits) = text.split_at_checked(text.len() - digits)?;
    Some((rest, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Claim, Written, add_checksum, encode_group, verified_checksum};
    use crate::log::Position;

    #[test]
    fn a_change_to_a_line_with_a_checksum_is_detected() {
        let (line, sum) = add_checksum(r#"{"log":"thread","v":1}"#).unwrap();
        let text = line.strip_suffix(b"\n").unwrap();
        assert_eq!(verified_checksum(text), Some(sum));
        serde_json::from_slice::<serde_json::Value>(text).unwrap();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.to_vec();
                changed[at] ^= 1 << bit;
                assert_eq!(verified_checksum(&changed), None, "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_commit_line_describes_its_group() {
        let at = Position { offset: 100, crc: 0xdead_beef };
        let mut out = Vec::new();
        let fields = r#"{"version":7,"key":"x\",\"lines\":9"}"#;
        let placed = encode_group(&mut out, at, 90, &[r#"{"a":1}"#, r#"{"b":2}"#], fields).unwrap();
        let lines: Vec<_> = out.split(|byte| *byte == b'\n').collect();
        let claim = Claim::parse(lines[2]).unwrap();
        assert_eq!((claim.written, claim.lines), (Written::InBatch(90), 2));
        assert_eq!((claim.bytes, claim.prev), (16, 0xdead_beef));
        assert_eq!((claim.crc, placed.end.offset), (placed.end.crc, 100 + out.len() as u64));
        let commit: serde_json::Value = serde_json::from_slice(lines[2]).unwrap();
        assert_eq!((commit["v"].as_u64(), commit["version"].as_u64()), (Some(2), Some(7)));
        assert_eq!((placed.lines[1].offset, placed.lines[1].len, placed.commit.offset), (108, 7, 116));
    }

    #[test]
    fn lines_that_could_not_be_read_back_are_refused() {
        for line in ["", "{}", "[1]", "{\"a\":\n1}", r#"{"t":"commit","v":1}"#] {
            let mut out = b"before".to_vec();
            assert!(encode_group(&mut out, Position::default(), 0, &[line], "{}").is_err(), "{line}");
            assert_eq!(out, b"before");
        }
        assert!(encode_group(&mut Vec::new(), Position::default(), 0, &[r#"{"a":1}"#], "[]").is_err());
        assert!(encode_group::<&str>(&mut Vec::new(), Position::default(), 0, &[], "{}").is_ok());
    }
}
