//! The ends of the logs that a round works on, and what it appends to them. Lines of the round before are here, too:
//! the files may not have them yet.

use std::{collections::BTreeMap, sync::Arc};

use store_core::Result;

use crate::{
    journal::{Batch, LogName},
    log::{Placed, Position, Span, encode_group},
    planned::Planned,
    vfs::FilePath,
};

/// The number that the journal has for the root log. No log in the index has it.
pub(crate) const ROOT: u64 = 0;

/// The end of a log, and the groups that a round appends to it.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) name: LogName,
    /// Whether the log has to be made.
    pub(crate) is_new: bool,
    start: u64,
    end: Position,
    bytes: Vec<u8>,
    groups: u64,
}

impl Tail {
    /// A log that ends at `end`.
    pub(crate) const fn new(name: LogName, end: Position) -> Self {
        Self { name, is_new: false, start: end.offset, end, bytes: Vec::new(), groups: 0 }
    }

    /// A log that has to be made, beginning with a header line and its sum.
    pub(crate) fn made(name: LogName, header: (Vec<u8>, u32)) -> Self {
        let (bytes, crc) = header;
        let end = Position { offset: bytes.len() as u64, crc };
        Self { name, is_new: true, start: 0, end, bytes, groups: 0 }
    }

    /// Where the next group goes.
    pub(crate) const fn end(&self) -> Position {
        self.end
    }

    /// Has the log made, also without a group: [`Self::has_groups`] is true from now on.
    pub(crate) const fn make(&mut self) {
        self.groups += 1;
    }

    /// Whether it has a group, or is to be made without one. Other logs are not written.
    pub(crate) const fn has_groups(&self) -> bool {
        self.groups > 0
    }

    /// Adds a group of the batch with this number.
    pub(crate) fn push<L: AsRef<[u8]>>(&mut self, batch: u64, lines: &[L], fields: &str) -> Result<Placed> {
        let placed = encode_group(&mut self.bytes, self.end, batch, lines, fields)?;
        self.end = placed.end;
        self.groups += 1;
        Ok(placed)
    }

    /// Where a line of the next group will be, if `before` bytes of other lines come before it.
    pub(crate) fn place(&self, before: usize, line: &str) -> Span {
        crate::log::span(self.end.offset + before as u64, line.as_bytes())
    }
}

/// The ends of all logs that a round works on.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    /// By the numbers of their logs.
    tails: BTreeMap<u64, Tail>,
    /// The round before, if it is being committed: the files may not have its lines yet.
    previous: Option<Arc<Planned>>,
}

impl Tails {
    /// None yet, after a round that is being committed.
    pub(crate) const fn after(previous: Option<Arc<Planned>>) -> Self {
        Self { tails: BTreeMap::new(), previous }
    }

    pub(crate) fn insert(&mut self, tail: Tail) {
        self.tails.insert(tail.name.number, tail);
    }

    /// Adds a log with its end. If the round knows the log already, its end there is newer and stays.
    pub(crate) fn insert_once(&mut self, name: &LogName, end: Position) {
        self.tails.entry(name.number).or_insert_with(|| Tail::new(name.clone(), end));
    }

    pub(crate) fn get_mut(&mut self, log: u64) -> Option<&mut Tail> {
        self.tails.get_mut(&log)
    }

    pub(crate) fn get(&self, log: u64) -> Option<&Tail> {
        self.tails.get(&log)
    }

    /// The bytes of a line that its file may not have yet, and the path of that file; nothing if the file has it.
    pub(crate) fn line(&self, log: u64, span: Span) -> Option<(&[u8], &FilePath)> {
        let own = self.tails.get(&log).map(|tail| (&tail.name, tail.start, tail.bytes.as_slice()));
        let of_previous = || self.previous.as_ref()?.batch.appended(log);
        own.and_then(|own| line_in(own, span)).or_else(|| line_in(of_previous()?, span))
    }

    /// How many bytes are to be written.
    pub(crate) fn len(&self) -> usize {
        self.tails.values().filter(|tail| tail.has_groups()).map(|tail| tail.bytes.len()).sum()
    }

    /// Puts everything into a batch.
    pub(crate) fn into_batch(self, batch: &mut Batch) {
        for tail in self.tails.into_values().filter(Tail::has_groups) {
            if tail.is_new {
                batch.make(&tail.name);
            }
            batch.append(&tail.name, tail.start, tail.bytes);
        }
    }
}

/// A line of bytes that go to a place in a log.
fn line_in<'a>((name, start, bytes): (&'a LogName, u64, &'a [u8]), span: Span) -> Option<(&'a [u8], &'a FilePath)> {
    let from = usize::try_from(span.offset.checked_sub(start)?).ok()?;
    let line = bytes.get(from..from.checked_add(usize::try_from(span.len).ok()?)?)?;
    Some((line, &name.path))
}
