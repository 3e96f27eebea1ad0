//! The history of a session over all its context files: one tree, and the position of each line in it.

use super::{
    join::{self, Compaction, Join},
    row::Row,
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
pub(super) struct Spot {
    /// The file and line that it repeats, or its own file and line if it is new.
    pub(super) original: (usize, usize),
    /// The entry of the tree that represents the line. It is `None` for a line that is not in the tree.
    pub(super) node: Option<usize>,
    /// The entry that becomes the parent of the next line.
    pub(super) tip: Option<usize>,
    /// Whether the path of `tip` has the same content as the file up to this line.
    pub(super) is_exact: bool,
}

/// A file of the history, and the positions of its lines in the tree.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) join: Option<Join>,
    pub(super) spots: Vec<Spot>,
}

/// An entry that an earlier import may have stored. If it is stored, this import must make the same decision again. The
/// first number is the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The line is an entry of its own.
    Line(usize, usize),
    /// The line is a reference.
    Shared(usize, usize),
    /// The rewind of the file to the end of its first lines. The second number counts these lines.
    Rewind(usize, usize),
    /// The same rewind, stored while the file had no other lines.
    Open(usize, usize),
}

/// The tree of a session.
#[derive(Debug, Default)]
pub(super) struct History {
    nodes: Vec<Node>,
    files: Vec<Placed>,
}

impl History {
    /// Joins the files of a session, the oldest first. `is_stored` says what earlier imports have stored.
    pub(super) fn of(files: &[&[Row]], is_stored: &dyn Fn(Mark) -> bool) -> Self {
        let mut history = Self::default();
        let mut before: Option<&[Row]> = None;
        for rows in files {
            let join = before.map(|before| join::join(&history, before, rows, is_stored));
            history.add(rows, join);
            before = Some(rows);
        }
        history
    }

    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    pub(super) fn files(&self) -> &[Placed] {
        &self.files
    }

    pub(super) fn spot(&self, file: usize, row: usize) -> Option<&Spot> {
        self.files.get(file)?.spots.get(row)
    }

    /// Whether a line repeats no earlier line.
    pub(super) fn is_new(&self, at: (usize, usize)) -> bool {
        self.spot(at.0, at.1).is_some_and(|spot| spot.original == at)
    }

    /// The entry after which kimi-cli would continue the session.
    pub(super) fn head(&self) -> Option<usize> {
        self.files.last()?.spots.last()?.tip
    }

    /// An entry and its ancestors.
    pub(super) fn path(&self, at: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(at, |at| self.node(*at)?.parent)
    }

    /// The number of entries on the path of an entry.
    pub(super) fn depth(&self, at: Option<usize>) -> usize {
        at.and_then(|at| self.node(at)).map_or(0, |node| node.depth)
    }

    fn add(&mut self, rows: &[Row], mut join: Option<Join>) {
        let file = self.files.len();
        let before = self.files.last().map(|before| before.spots.clone()).unwrap_or_default();
        let mut placing = Placing { file, rows, spots: Vec::with_capacity(rows.len()), tip: None, is_exact: true };
        match &mut join {
            None => {}
            Some(Join::Rewind { shared, .. }) => {
                placing.spots.extend(before.iter().take(*shared));
                placing.tip = placing.spots.last().and_then(|last| last.tip);
            }
            Some(Join::Compaction(compaction)) => self.compact(&mut placing, compaction, &before),
        }
        placing.is_exact = true;
        self.append(&mut placing, rows.len());
        let spots = placing.spots;
        self.files.push(Placed { join, spots });
    }

    /// Adds the lines of a file that begins with a summary, up to the last line that the summary keeps.
    fn compact(&mut self, placing: &mut Placing<'_>, compaction: &mut Compaction, before: &[Spot]) {
        if !compaction.restates {
            placing.spots.extend(before.iter().take(compaction.at));
        }
        placing.tip = before.last().and_then(|last| last.tip);
        placing.is_exact = false;
        self.append(placing, compaction.at);
        if let Some(last) = placing.tip.filter(|_| compaction.restates) {
            compaction.covers.1 = last;
        }
        placing.is_exact = compaction.kept.is_empty();
        self.append(placing, compaction.at + 1);
        if let Some(node) = placing.tip.and_then(|tip| self.nodes.get_mut(tip)) {
            node.is_compaction = true;
        }
        let kept = compaction.kept.iter().filter_map(|row| before.get(*row));
        placing.spots.extend(kept.map(|spot| Spot { tip: placing.tip, is_exact: false, ..*spot }));
        if let Some(last) = placing.spots.last_mut() {
            last.is_exact = true;
        }
    }

    /// Adds lines as new ones, up to but not including the line `to`.
    fn append(&mut self, placing: &mut Placing<'_>, to: usize) {
        for (row, found) in placing.rows.iter().enumerate().take(to).skip(placing.spots.len()) {
            let mut node = None;
            if found.kind.is_node() {
                node = Some(self.push(placing.file, row, placing.tip));
                placing.tip = node;
            }
            let (tip, is_exact) = (placing.tip, placing.is_exact);
            placing.spots.push(Spot { original: (placing.file, row), node, tip, is_exact });
        }
    }

    fn push(&mut self, file: usize, row: usize, parent: Option<usize>) -> usize {
        let depth = self.depth(parent) + 1;
        self.nodes.push(Node { file, row, parent, depth, is_compaction: false });
        self.nodes.len() - 1
    }
}

/// A file whose lines are being added to the tree.
struct Placing<'a> {
    file: usize,
    rows: &'a [Row],
    spots: Vec<Spot>,
    tip: Option<usize>,
    is_exact: bool,
}
