//! The history of a session over all its context files: one tree, and the position of each line in it.
//!
//! The tree has an entry for almost every line of large files. To save memory, it keeps one value for many entries:
//! most entries are children of the preceding entry, and most lines of a file are new and in order.

use std::collections::HashSet;

use super::{
    context_line::ContextLines,
    continuation::{self, Compaction, Continuation},
};
use crate::compact::{List, to_u32};

/// An entry of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// The file of the history, from 0.
    pub(super) file: usize,
    /// The line, from 0.
    pub(super) line_index: usize,
    pub(super) parent: Option<usize>,
    /// The number of entries on its path, including itself.
    pub(super) depth: usize,
    /// Whether it is a compaction, which replaces earlier entries.
    pub(super) is_compaction: bool,
}

/// Consecutive entries of the tree. Each of them, except the first, is the child of the preceding one.
#[derive(Debug)]
struct EntrySequence {
    first: usize,
    /// The parent of the first entry.
    parent: Option<usize>,
    /// The depth of the first entry.
    depth: usize,
}

/// The position of a line in the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreePosition {
    /// The file and line that it repeats, or its own file and line if it is new.
    pub(super) original: (usize, usize),
    /// The entry of the tree that represents the line. It is `None` for a line that is not in the tree.
    pub(super) node: Option<usize>,
    /// The entry that becomes the parent of the next line.
    pub(super) next_parent: Option<usize>,
    /// Whether the path of `next_parent` has the same content as the file up to this line.
    pub(super) is_exact: bool,
}

/// Consecutive lines of a file that are new, or that repeat consecutive lines of an earlier file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    /// The first line.
    line_index: usize,
    count: usize,
    /// The file and line that the first line repeats, or its own.
    original: (usize, usize),
    next_parent: NextParent,
    is_exact: bool,
}

/// The entry that becomes the parent of the line after a line of a segment.
#[derive(Debug, Clone, Copy)]
enum NextParent {
    /// The last entry in the segment so far. Before the first one, it is the entry that the variant contains.
    LastNode(Option<usize>),
    /// For every line of the segment, the entry that the variant contains.
    Fixed(Option<usize>),
}

/// A file of the history, and the positions of its lines in the tree.
#[derive(Debug, Default)]
pub(super) struct PlacedFile {
    pub(super) continuation: Option<Continuation>,
    segments: Vec<Segment>,
    /// The entry of its first new line that is in the tree. If it has no such line, the next entry of the tree.
    first_node: usize,
    /// The entry of its summary.
    summary: Option<usize>,
}

impl PlacedFile {
    /// The number of lines whose positions are known.
    fn len(&self) -> usize {
        self.segments.last().map_or(0, |last| last.line_index + last.count)
    }

    /// Adds a segment after the last one.
    fn push(&mut self, count: usize, original: (usize, usize), next_parent: NextParent, is_exact: bool) {
        if count > 0 {
            self.segments.push(Segment { line_index: self.len(), count, original, next_parent, is_exact });
        }
    }

    /// Repeats the first `count` lines of an earlier file.
    fn repeat_first(&mut self, earlier: &Self, count: usize) {
        for segment in &earlier.segments {
            let count = segment.count.min(count.saturating_sub(segment.line_index));
            self.push(count, segment.original, segment.next_parent, segment.is_exact);
        }
    }
}

/// An entry that an earlier import may have stored. If it is stored, this import must make the same decision again. The
/// first number is the file. For a line, the second number is the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredDecision {
    /// The line is an entry of its own.
    Line(usize, usize),
    /// The line is a reference.
    Reference(usize, usize),
    /// The rewind of the file to the end of its first lines. The second number counts these lines.
    Rewind(usize, usize),
    /// The same rewind, stored while the file had no other lines.
    OpenRewind(usize, usize),
}

/// The tree of a session.
#[derive(Debug, Default)]
pub(super) struct History {
    files: Vec<PlacedFile>,
    /// The line of each entry.
    line_indexes: List<u32>,
    sequences: Vec<EntrySequence>,
}

impl History {
    /// Joins the files of a session, the oldest first. `is_stored` says what earlier imports have stored.
    pub(super) fn of(files: &[&ContextLines], is_stored: &dyn Fn(StoredDecision) -> bool) -> Self {
        let mut history = Self::default();
        let mut previous: Option<&ContextLines> = None;
        for lines in files {
            let continuation =
                previous.map(|previous| continuation::decide_continuation(&history, previous, lines, is_stored));
            history.add_file(lines, continuation);
            previous = Some(lines);
        }
        history
    }

    pub(super) fn node(&self, at: usize) -> Option<Node> {
        let line_index = usize::try_from(*self.line_indexes.get(at)?).ok()?;
        let file = self.files.partition_point(|file| file.first_node <= at).checked_sub(1)?;
        let sequence = self.sequence_of(at)?;
        let offset = at - sequence.first;
        Some(Node {
            file,
            line_index,
            parent: if offset == 0 { sequence.parent } else { Some(at - 1) },
            depth: sequence.depth + offset,
            is_compaction: self.files.get(file)?.summary == Some(at),
        })
    }

    pub(super) fn files(&self) -> &[PlacedFile] {
        &self.files
    }

    pub(super) fn position(&self, file: usize, line_index: usize) -> Option<TreePosition> {
        let segments = &self.files.get(file)?.segments;
        let segment =
            segments.get(segments.partition_point(|segment| segment.line_index <= line_index).checked_sub(1)?)?;
        let offset = Some(line_index - segment.line_index).filter(|offset| *offset < segment.count)?;
        let (file, first) = segment.original;
        let original = (file, first + offset);
        let (last_node, line_of_last_node) = self.last_node(original).unzip();
        Some(TreePosition {
            original,
            node: last_node.filter(|_| line_of_last_node == Some(original.1)),
            next_parent: match segment.next_parent {
                NextParent::LastNode(before) => last_node.filter(|_| line_of_last_node >= Some(first)).or(before),
                NextParent::Fixed(node) => node,
            },
            is_exact: segment.is_exact,
        })
    }

    /// The last entry of a file up to a line, and its line.
    fn last_node(&self, (file, line_index): (usize, usize)) -> Option<(usize, usize)> {
        let first = self.files.get(file)?.first_node;
        let end = self.files.get(file + 1).map_or(self.line_indexes.len(), |next| next.first_node);
        let after = self.line_indexes.partition_point_in(first..end, |at| *at <= to_u32(line_index));
        let at = after.checked_sub(1).filter(|at| *at >= first)?;
        Some((at, usize::try_from(*self.line_indexes.get(at)?).ok()?))
    }

    fn sequence_of(&self, at: usize) -> Option<&EntrySequence> {
        self.sequences.get(self.sequences.partition_point(|sequence| sequence.first <= at).checked_sub(1)?)
    }

    /// The lines of a file that repeat no line of an earlier file.
    pub(super) fn new_lines(&self, file: usize) -> impl Iterator<Item = usize> {
        let segments = self.files.get(file).into_iter().flat_map(|placed| &placed.segments);
        let new_segments = segments.filter(move |segment| segment.original == (file, segment.line_index));
        new_segments.flat_map(|segment| segment.line_index..segment.line_index + segment.count)
    }

    /// The entry after which kimi-cli would continue the session.
    pub(super) fn head(&self) -> Option<usize> {
        let last = self.files.len().checked_sub(1)?;
        self.position(last, self.files.get(last)?.len().checked_sub(1)?)?.next_parent
    }

    /// The first entry without children, in the order of the files and lines.
    pub(super) fn first_leaf(&self) -> Option<usize> {
        let parents: HashSet<_> = self.sequences.iter().filter_map(|sequence| sequence.parent).collect();
        let ends = self.sequences.iter().skip(1).map(|sequence| sequence.first).chain([self.line_indexes.len()]);
        ends.filter_map(|end| end.checked_sub(1)).find(|last| !parents.contains(last))
    }

    /// An entry and its ancestors.
    pub(super) fn path(&self, at: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(at, |at| self.node(*at)?.parent)
    }

    /// The number of entries on the path of an entry.
    pub(super) fn depth(&self, at: Option<usize>) -> usize {
        at.and_then(|at| self.node(at)).map_or(0, |node| node.depth)
    }

    fn add_file(&mut self, lines: &ContextLines, mut continuation: Option<Continuation>) {
        let file = self.files.len();
        self.files.push(PlacedFile { first_node: self.line_indexes.len(), ..PlacedFile::default() });
        let mut builder = FileBuilder { history: self, file, lines, next_parent: None };
        match &mut continuation {
            None => {}
            Some(Continuation::Rewind { shared_lines, .. }) => builder.repeat_first(*shared_lines),
            Some(Continuation::Compaction(compaction)) => builder.add_through_summary(compaction),
        }
        builder.append(lines.len(), true);
        if let Some(placed) = self.files.get_mut(file) {
            placed.continuation = continuation;
        }
    }

    fn push_node(&mut self, line_index: usize, parent: Option<usize>) -> usize {
        let at = self.line_indexes.len();
        if at == 0 || parent != Some(at - 1) {
            let depth = self.depth(parent) + 1;
            self.sequences.push(EntrySequence { first: at, parent, depth });
        }
        self.line_indexes.push(to_u32(line_index));
        at
    }
}

/// The last file of a history, whose lines are being added.
struct FileBuilder<'a> {
    history: &'a mut History,
    file: usize,
    lines: &'a ContextLines,
    /// The parent of the next entry.
    next_parent: Option<usize>,
}

impl FileBuilder<'_> {
    /// Changes the file. The function `change` also gets the previous file.
    fn change_file(&mut self, change: impl FnOnce(&mut PlacedFile, &PlacedFile)) {
        let Some((last, earlier)) = self.history.files.split_last_mut() else { return };
        change(last, earlier.last().unwrap_or(&PlacedFile::default()));
    }

    fn len(&self) -> usize {
        self.history.files.get(self.file).map_or(0, PlacedFile::len)
    }

    /// Adds the first `count` lines, which the previous file contains, too.
    fn repeat_first(&mut self, count: usize) {
        self.change_file(|placed, previous| placed.repeat_first(previous, count));
        self.next_parent = self.history.head();
    }

    /// Adds the lines of a file that begins with a summary, up to the last line that the summary keeps.
    fn add_through_summary(&mut self, compaction: &mut Compaction) {
        let Some(previous) = self.file.checked_sub(1) else { return };
        let previous_len = self.history.files.get(previous).map_or(0, PlacedFile::len);
        let last = previous_len.checked_sub(1).and_then(|last| self.history.position(previous, last));
        if !compaction.has_new_instructions {
            self.change_file(|placed, previous| placed.repeat_first(previous, compaction.summary_line));
        }
        self.next_parent = last.and_then(|last| last.next_parent);
        self.append(compaction.summary_line, false);
        if let Some(last) = self.next_parent.filter(|_| compaction.has_new_instructions) {
            compaction.covers.1 = last;
        }
        self.append(compaction.summary_line + 1, compaction.kept_lines.is_empty());
        let summary = self.next_parent;
        let kept_lines =
            compaction.kept_lines.iter().filter_map(|line_index| self.history.position(previous, *line_index));
        let kept_lines: Vec<_> = kept_lines.map(|position| position.original).collect();
        self.change_file(|placed, _| {
            placed.summary = summary;
            for (at, original) in kept_lines.iter().enumerate() {
                placed.push(1, *original, NextParent::Fixed(summary), at + 1 == kept_lines.len());
            }
        });
    }

    /// Adds lines as new ones, up to but not including the line `to`.
    fn append(&mut self, to: usize, is_exact: bool) {
        let (from, before) = (self.len(), self.next_parent);
        let count = to.saturating_sub(from);
        for (line_index, found) in self.lines.iter().enumerate().skip(from).take(count) {
            if found.kind.is_node() {
                self.next_parent = Some(self.history.push_node(line_index, self.next_parent));
            }
        }
        let original = (self.file, from);
        self.change_file(|placed, _| placed.push(count, original, NextParent::LastNode(before), is_exact));
    }
}
