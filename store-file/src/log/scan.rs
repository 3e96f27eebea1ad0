//! Walks the groups of a log, one in memory at a time.

use std::{io, ops::Range};

use super::{
    Position, Span,
    format::{COMMIT_PREFIX, Claim, MAX_GROUP_BYTES, MAX_LINES},
};
use crate::vfs::VfsFile;

const CHUNK: usize = 64 * 1024;

/// A group whose sum is right and that follows the one before.
#[derive(Debug)]
pub struct Group<'a> {
    /// Where it starts.
    pub start: u64,
    /// Its lines, in order, and where they stand.
    pub lines: Vec<(Span, &'a [u8])>,
    /// Its commit line.
    pub commit: (Span, &'a [u8]),
    /// Where the next group starts.
    pub end: Position,
    /// The batch that it belongs to; none for a group of the first release.
    pub batch: Option<u64>,
}

/// Walks the groups from a known position to a known length.
#[derive(Debug)]
pub struct Scanner<'a> {
    file: &'a dyn VfsFile,
    next: Position,
    end: u64,
    /// The last batch that was committed: groups of later ones are ignored.
    last: u64,
    /// Bytes of the file; the one at `used` stands at `next.offset`.
    buffer: Vec<u8>,
    used: usize,
}

impl<'a> Scanner<'a> {
    /// Starts at `from`, after the header or a known group, and reads no further than `end`.
    #[must_use]
    pub const fn new(file: &'a dyn VfsFile, from: Position, end: u64) -> Self {
        Self { file, next: from, end, last: u64::MAX, buffer: Vec::new(), used: 0 }
    }

    /// A scanner that ends before the first group of a batch after this one.
    #[must_use]
    pub const fn up_to_batch(mut self, last: u64) -> Self {
        self.last = last;
        self
    }

    /// The position after the last good group.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.next
    }

    /// The next group, or nothing if no good one follows: [`classify`](super::classify) says what is there instead.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn next_group(&mut self) -> io::Result<Option<Group<'_>>> {
        let Some((claim, lines)) = self.find_group()? else { return Ok(None) };
        let start = self.next;
        let size = lines.last().map_or(0, |line| line.end + 1);
        let bytes = self.buffer.get(self.used..self.used + size).unwrap_or_default();
        let mut lines: Vec<_> = lines.into_iter().map(|range| locate(bytes, start.offset, range)).collect();
        let Some(commit) = lines.pop() else { return Ok(None) };
        self.used += size;
        self.next = Position { offset: start.offset + size as u64, crc: claim.crc };
        Ok(Some(Group { start: start.offset, lines, commit, end: self.next, batch: claim.batch() }))
    }

    /// The claim of the next group and the ranges of its lines, counted from `used`, if the claim is true.
    fn find_group(&mut self) -> io::Result<Option<(Claim, Vec<Range<usize>>)>> {
        let mut lines: Vec<Range<usize>> = Vec::new();
        loop {
            let from = lines.last().map_or(0, |line| line.end + 1);
            let Some(line) = self.find_line(from)? else { return Ok(None) };
            let bytes = self.buffer.get(self.used..).unwrap_or_default();
            let text = bytes.get(line.clone()).unwrap_or_default();
            lines.push(line);
            if text.starts_with(COMMIT_PREFIX) {
                let claim = Claim::parse(text).filter(|claim| self.holds(claim, bytes, from, lines.len() - 1));
                return Ok(claim.map(|claim| (claim, lines)));
            }
            if lines.len() > MAX_LINES {
                return Ok(None);
            }
        }
    }

    /// Whether what the commit line at `commit` claims is true of the bytes before it.
    fn holds(&self, claim: &Claim, bytes: &[u8], commit: usize, lines: usize) -> bool {
        !claim.is_behind(self.last)
            && claim.bytes == commit as u64
            && claim.lines == lines as u64
            && claim.prev == self.next.crc
            && bytes.get(..commit + claim.covered).is_some_and(|covered| crc32c::crc32c(covered) == claim.crc)
    }

    /// The line that starts at `from`, reading on as needed; nothing if the file or the limit ends first.
    fn find_line(&mut self, from: usize) -> io::Result<Option<Range<usize>>> {
        let mut searched = from;
        loop {
            let rest = self.buffer.get(self.used + searched..).unwrap_or_default();
            if let Some(len) = rest.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(from..searched + len));
            }
            searched += rest.len();
            if searched as u64 > MAX_GROUP_BYTES || !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Reads some more of the file; `false` at its end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let held = self.buffer.len();
        let at = self.next.offset + held as u64;
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        // Larger steps for larger groups, so that the whole is copied a bounded number of times.
        let step = left.min(CHUNK.max(held / 2));
        self.buffer.resize(held + step, 0);
        let count = self.file.read_at(self.buffer.get_mut(held..).unwrap_or_default(), at);
        self.buffer.truncate(held + count.as_ref().map_or(0, |count| *count));
        Ok(count? > 0)
    }
}

fn locate(bytes: &[u8], start: u64, range: Range<usize>) -> (Span, &[u8]) {
    let offset = start + range.start as u64;
    let text = bytes.get(range).unwrap_or_default();
    (Span { offset, len: u32::try_from(text.len()).unwrap_or(u32::MAX), crc: crc32c::crc32c(text) }, text)
}
