//! The ids that lines contain.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
};

use store_core::EntryId;

use crate::{
    compact::{List, RangeMap, TextTable, to_u32},
    provenance::LineRanges,
};

/// The ids that the lines of a file contain. An id is kept once.
#[derive(Debug, Default)]
pub(crate) struct SourceIds {
    ids: TextTable,
    /// The first line with each id, and the number of the id.
    first_lines: RangeMap,
    /// A hash of the bytes of the first line with each id, by the number of the id.
    hashes: List<u32>,
    hasher: RandomState,
    /// The lines whose id an earlier line contains, with the number of the id.
    repeats: BTreeMap<u32, u32>,
    /// For each id that is repeated: the lines that repeat it, with hashes of these lines.
    repeating_lines: HashMap<u32, Vec<(u32, u32)>>,
    /// Lines that contain an id which an import may also generate for another line.
    lines_with_generated_form: Vec<u32>,
    /// Lines with ids that no entry can have.
    invalid_lines: Vec<u32>,
    /// Lines without an entry: blank lines, and lines of other threads.
    skipped_lines: LineRanges,
    /// The header, and lines that are not JSON objects.
    header_or_broken: LineRanges,
    /// The number of lines.
    count: u32,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceLine {
    /// A blank line, or a line of another thread. It gets no entry.
    Skipped,
    /// The header, or a line that is not a JSON object.
    HeaderOrBroken,
    /// A node of the tree or a side entry.
    Content,
}

/// What a line repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// An earlier line, with all its bytes.
    Line,
    /// Only the id of an earlier line. The other bytes differ.
    Id,
}

impl SourceIds {
    /// Notes the id of the current line. Returns what it repeats, if it repeats anything.
    pub(crate) fn add(&mut self, line: u64, id: &str, bytes: &[u8]) -> Option<Repeat> {
        let line = to_u32(line);
        let hash = to_u32(self.hasher.hash_one(bytes) >> 32);
        if id.contains('#') || generated_line(id).is_some() {
            self.lines_with_generated_form.push(line);
        }
        if EntryId::new(id).is_err() {
            self.invalid_lines.push(line);
        }
        let (number, is_new) = self.ids.add(id)?;
        if is_new {
            self.hashes.push(hash);
            self.first_lines.push(line, number);
            return None;
        }
        let first = usize::try_from(number).ok().and_then(|at| self.hashes.get(at));
        let repeating_lines = self.repeating_lines.entry(number).or_default();
        let is_equal = first == Some(&hash) || repeating_lines.iter().any(|(_, other)| *other == hash);
        repeating_lines.push((line, hash));
        self.repeats.insert(line, number);
        Some(if is_equal { Repeat::Line } else { Repeat::Id })
    }

    /// Frees what only [`Self::add`] needs. No id is added after this.
    pub(crate) fn finish(&mut self) {
        self.hashes = List::default();
    }

    /// Notes the next line, and what it is.
    pub(crate) fn add_line(&mut self, line: u64, source_line: SourceLine) {
        self.count = to_u32(line);
        match source_line {
            SourceLine::Skipped => self.skipped_lines.push(line),
            SourceLine::HeaderOrBroken => self.header_or_broken.push(line),
            SourceLine::Content => {}
        }
    }

    /// Whether no line so far gets an entry.
    pub(crate) fn has_only_skipped_lines(&self) -> bool {
        self.skipped_lines.count() == u64::from(self.count)
    }

    /// What a line is.
    pub(crate) fn kind(&self, line: u32) -> SourceLine {
        if line == 0 || line > self.count || self.skipped_lines.contains(u64::from(line)) {
            SourceLine::Skipped
        } else if self.header_or_broken.contains(u64::from(line)) {
            SourceLine::HeaderOrBroken
        } else {
            SourceLine::Content
        }
    }

    /// Whether a line gets no entry.
    pub(super) fn is_skipped(&self, line: u32) -> bool {
        self.kind(line) == SourceLine::Skipped
    }

    /// The number of an id.
    pub(crate) fn find(&self, id: &str) -> Option<u32> {
        self.ids.find(id)
    }

    /// The id that has this number.
    pub(crate) fn text(&self, id_number: u32) -> Option<String> {
        self.ids.text(id_number)
    }

    /// The number of the id of a line.
    pub(crate) fn number_of_line(&self, line: u32) -> Option<u32> {
        self.first_lines.get(line).or_else(|| self.repeats.get(&line).copied())
    }

    /// The number of the id of a line, if an earlier line contains it.
    pub(crate) fn repeated_id(&self, line: u32) -> Option<u32> {
        self.repeats.get(&line).copied()
    }

    /// The id of a line.
    pub(crate) fn of_line(&self, line: u32) -> Option<String> {
        self.ids.text(self.number_of_line(line)?)
    }

    /// The first line that contains the id with this number.
    pub(crate) fn first_line(&self, id_number: u32) -> Option<u32> {
        self.first_lines.find(id_number)
    }

    /// The lines that contain the id with this number, in the order of the file.
    pub(crate) fn lines_with(&self, id_number: u32) -> impl DoubleEndedIterator<Item = u32> {
        let repeating_lines = self.repeating_lines.get(&id_number).into_iter().flatten().map(|(line, _)| *line);
        self.first_line(id_number).into_iter().chain(repeating_lines)
    }

    /// The lines whose entries may need other ids than the usual ones.
    pub(super) fn unusual_lines(&self) -> Vec<u32> {
        let mut lines: Vec<_> = self.repeats.keys().copied().collect();
        lines.extend_from_slice(&self.invalid_lines);
        for &line in &self.lines_with_generated_form {
            lines.push(line);
            lines.extend(self.of_line(line).and_then(|id| generated_line(&id)));
        }
        lines
    }
}

/// The line for which an import generates this id, if the id has the form of a generated one.
pub(super) fn generated_line(id: &str) -> Option<u32> {
    let line = id.strip_prefix('L')?.parse().ok()?;
    (format!("L{line}") == id).then_some(line)
}
