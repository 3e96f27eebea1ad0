//! The history of a session over all its context files: one tree, and the position of each line in it.

use std::collections::HashSet;

use super::{
    context_line::ContextLine,
    continuation::{self, Compaction, Continuation},
};

/// An entry of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The file of the history, from 0.
    pub(super) file: usize,
    /// The line, from 0.
    pub(super) row: usize,
    pub(super) parent: Option<usize>,
    /// The number of entries on its path, including itself.
    pub(super) depth: usize,
    /// Whether it is a compaction, which replaces earlier entries.
    pub(super) is_compaction: bool,
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

/// A file of the history, and the positions of its lines in the tree.
#[derive(Debug, Default)]
pub(super) struct PlacedFile {
    pub(super) continuation: Option<Continuation>,
    pub(super) positions: Vec<TreePosition>,
}

/// An entry that an earlier import may have stored. If it is stored, this import must make the same decision again. The
/// first number is the file.
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
    nodes: Vec<Node>,
    files: Vec<PlacedFile>,
}

impl History {
    /// Joins the files of a session, the oldest first. `is_stored` says what earlier imports have stored.
    pub(super) fn of(files: &[&[ContextLine]], is_stored: &dyn Fn(StoredDecision) -> bool) -> Self {
        let mut history = Self::default();
        let mut previous: Option<&[ContextLine]> = None;
        for rows in files {
            let continuation =
                previous.map(|previous| continuation::decide_continuation(&history, previous, rows, is_stored));
            history.add_file(rows, continuation);
            previous = Some(rows);
        }
        history
    }

    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    pub(super) fn files(&self) -> &[PlacedFile] {
        &self.files
    }

    pub(super) fn position(&self, file: usize, row: usize) -> Option<&TreePosition> {
        self.files.get(file)?.positions.get(row)
    }

    /// Whether a line repeats no earlier line.
    pub(super) fn is_new(&self, at: (usize, usize)) -> bool {
        self.position(at.0, at.1).is_some_and(|position| position.original == at)
    }

    /// The entry after which kimi-cli would continue the session.
    pub(super) fn head(&self) -> Option<usize> {
        self.files.last()?.positions.last()?.next_parent
    }

    /// The first entry without children, in the order of the files and lines.
    pub(super) fn first_leaf(&self) -> Option<usize> {
        let parents: HashSet<_> = self.nodes.iter().filter_map(|node| node.parent).collect();
        (0..self.nodes.len()).find(|at| !parents.contains(at))
    }

    /// An entry and its ancestors.
    pub(super) fn path(&self, at: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(at, |at| self.node(*at)?.parent)
    }

    /// The number of entries on the path of an entry.
    pub(super) fn depth(&self, at: Option<usize>) -> usize {
        at.and_then(|at| self.node(at)).map_or(0, |node| node.depth)
    }

    fn add_file(&mut self, rows: &[ContextLine], mut continuation: Option<Continuation>) {
        let file = self.files.len();
        let previous = self.files.last().map(|previous| previous.positions.clone()).unwrap_or_default();
        let mut builder =
            FileBuilder { file, rows, positions: Vec::with_capacity(rows.len()), next_parent: None, is_exact: true };
        match &mut continuation {
            None => {}
            Some(Continuation::Rewind { shared, .. }) => {
                builder.positions.extend(previous.iter().take(*shared));
                builder.next_parent = builder.positions.last().and_then(|last| last.next_parent);
            }
            Some(Continuation::Compaction(compaction)) => self.add_through_summary(&mut builder, compaction, &previous),
        }
        builder.is_exact = true;
        self.append(&mut builder, rows.len());
        let positions = builder.positions;
        self.files.push(PlacedFile { continuation, positions });
    }

    /// Adds the lines of a file that begins with a summary, up to the last line that the summary keeps.
    fn add_through_summary(
        &mut self,
        builder: &mut FileBuilder<'_>,
        compaction: &mut Compaction,
        previous: &[TreePosition],
    ) {
        if !compaction.has_new_instructions {
            builder.positions.extend(previous.iter().take(compaction.at));
        }
        builder.next_parent = previous.last().and_then(|last| last.next_parent);
        builder.is_exact = false;
        self.append(builder, compaction.at);
        if let Some(last) = builder.next_parent.filter(|_| compaction.has_new_instructions) {
            compaction.covers.1 = last;
        }
        builder.is_exact = compaction.kept.is_empty();
        self.append(builder, compaction.at + 1);
        if let Some(node) = builder.next_parent.and_then(|next_parent| self.nodes.get_mut(next_parent)) {
            node.is_compaction = true;
        }
        let kept = compaction.kept.iter().filter_map(|row| previous.get(*row));
        builder.positions.extend(kept.map(|position| TreePosition {
            next_parent: builder.next_parent,
            is_exact: false,
            ..*position
        }));
        if let Some(last) = builder.positions.last_mut() {
            last.is_exact = true;
        }
    }

    /// Adds lines as new ones, up to but not including the line `to`.
    fn append(&mut self, builder: &mut FileBuilder<'_>, to: usize) {
        for (row, found) in builder.rows.iter().enumerate().take(to).skip(builder.positions.len()) {
            let mut node = None;
            if found.kind.is_node() {
                node = Some(self.push(builder.file, row, builder.next_parent));
                builder.next_parent = node;
            }
            let (next_parent, is_exact) = (builder.next_parent, builder.is_exact);
            builder.positions.push(TreePosition { original: (builder.file, row), node, next_parent, is_exact });
        }
    }

    fn push(&mut self, file: usize, row: usize, parent: Option<usize>) -> usize {
        let depth = self.depth(parent) + 1;
        self.nodes.push(Node { file, row, parent, depth, is_compaction: false });
        self.nodes.len() - 1
    }
}

/// A file whose lines are being added to the tree.
struct FileBuilder<'a> {
    file: usize,
    rows: &'a [ContextLine],
    positions: Vec<TreePosition>,
    next_parent: Option<usize>,
    is_exact: bool,
}
