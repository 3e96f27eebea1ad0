//! Which entries a query can mean, by what the index knows of them, in the order of the query.

use std::mem;

use store_core::{Direction, EntryQuery, Result, length, log::node};

use super::list::{CHUNK, Lister};
use crate::{
    codec::{NodeRow, Rows, StoredLog, damaged},
    index, pages, table,
};

/// The rows of entries that a query can mean, in its order: by what the index knows of them.
pub(super) struct Seqs<'a> {
    lister: &'a Lister<'a>,
    walk: Walk<'a>,
    window: (u64, u64),
    direction: Direction,
    /// Only children of this entry, where the walk is about something else.
    parent: Option<u64>,
}

enum Walk<'a> {
    /// Entries one after the other: all of a window, or a path.
    Rows(Rest),
    /// Keys that end with the sequence number.
    Children(index::Pairs<'a>),
}

/// What is left of entries one after the other, read a few at a time.
struct Rest {
    /// The end of the path; none for a walk over all entries.
    leaf: Option<Box<NodeRow>>,
    /// The first and last depth of the path, or sequence number, that is left.
    left: (u64, u64),
    /// Those that were read, the next one last.
    rows: Vec<NodeRow>,
}

impl Rest {
    fn next(&mut self, lister: &Lister<'_>, direction: Direction) -> Result<Option<NodeRow>> {
        let (first, last) = self.left;
        if self.rows.is_empty() && first <= last {
            let more = length(lister.limit.min(CHUNK - 1));
            let (from, to) = match direction {
                Direction::Forward => (first, last.min(first.saturating_add(more))),
                Direction::Backward => (first.max(last.saturating_sub(more)), last),
            };
            self.left = match direction {
                Direction::Forward => (to + 1, last),
                Direction::Backward => (first, from - 1),
            };
            let (snapshot, log) = (&lister.snapshot, lister.row.log);
            self.rows = match &self.leaf {
                Some(leaf) => up_the_path(snapshot, log, leaf, (from, to))?,
                None => side_by_side(snapshot, log, (from, to))?,
            };
            if direction == Direction::Forward {
                self.rows.reverse();
            }
        }
        Ok(self.rows.pop())
    }
}

/// The nodes between two depths of a path, the least deep first: an ancestor is looked for once, the others are
/// parents.
fn up_the_path(snapshot: &index::Snapshot, log: u64, leaf: &NodeRow, (from, to): (u64, u64)) -> Result<Vec<NodeRow>> {
    let deepest = node::ancestor(&StoredLog(snapshot, log), &leaf.node, to)?;
    let mut row = snapshot.expect_node(log, deepest.ok_or_else(|| damaged("node"))?.seq)?;
    let mut rows = Vec::new();
    for depth in (from..to).rev() {
        let parent = snapshot.expect_node(log, row.node.parent.ok_or_else(|| damaged("node"))?)?;
        if parent.node.depth != depth {
            return Err(damaged("node"));
        }
        rows.push(mem::replace(&mut row, parent));
    }
    rows.push(row);
    rows.reverse();
    Ok(rows)
}

/// The nodes of two sequence numbers and all between.
fn side_by_side(snapshot: &index::Snapshot, log: u64, (from, to): (u64, u64)) -> Result<Vec<NodeRow>> {
    let (start, end) = (table::node(log, from), table::node(log, to.saturating_add(1)));
    // Forward, also for a query backward: backward, the index takes longer for what lies in its tables.
    let pairs = snapshot.range(start.as_bytes(), end.as_bytes(), Direction::Forward);
    let read = |(pair, seq): (Result<index::Pair>, u64)| {
        let row = NodeRow::decode(&pair?.1).filter(|row| row.node.seq == seq);
        row.ok_or_else(|| damaged("node"))
    };
    let rows = pairs.zip(from..=to).map(read).collect::<Result<Vec<_>>>()?;
    if length(rows.len()) != to - from + 1 {
        return Err(damaged("node"));
    }
    Ok(rows)
}

impl<'a> Seqs<'a> {
    pub(super) fn new(lister: &'a Lister<'a>, query: &EntryQuery) -> Result<Self> {
        let log = lister.row.log;
        let length = lister.row.stored.thread.version.number();
        let after = lister.from.as_ref().map(|position| position.rank);
        let mut window = (query.from_seq.unwrap_or(1).max(1), query.to_seq.unwrap_or(length).min(length));
        match (query.direction, after) {
            (Direction::Forward, Some(after)) => window.0 = window.0.max(after.saturating_add(1)),
            (Direction::Backward, Some(after)) => window.1 = window.1.min(after.saturating_sub(1)),
            (_, None) => {}
        }
        let rest = |left| Walk::Rows(Rest { leaf: None, left, rows: Vec::new() });
        let nothing = rest((1, 0));
        let walk = match (&query.path_of, &query.children_of) {
            (Some(leaf), _) => match lister.snapshot.entry_seq(log, leaf)? {
                Some(seq) => Walk::Rows(Self::path(lister, seq, window)?),
                None => nothing,
            },
            (None, Some(parent)) => match lister.snapshot.entry_seq(log, parent)? {
                Some(seq) => {
                    let list = table::children(log, seq);
                    let at = after.map(|after| list.clone().number(after).into_bytes());
                    Walk::Children(pages::behind(&lister.snapshot, &list, query.direction, at))
                }
                None => nothing,
            },
            (None, None) => rest(window),
        };
        let parent = match (&query.path_of, &query.children_of) {
            // An entry that is not there has no children: no number is 0.
            (Some(_), Some(parent)) => Some(lister.snapshot.entry_seq(log, parent)?.unwrap_or_default()),
            _ => None,
        };
        Ok(Self { lister, walk, window, direction: query.direction, parent })
    }

    /// Sequence numbers grow along a path, so the window is a part of it: only its ends are looked for, in a logarithm
    /// of the path's length.
    fn path(lister: &Lister<'_>, seq: u64, window: (u64, u64)) -> Result<Rest> {
        let log = lister.row.log;
        let leaf = lister.snapshot.expect_node(log, seq)?;
        let nodes = StoredLog(&lister.snapshot, log);
        let before = if window.0 > 1 { node::depth_at_seq(&nodes, &leaf.node, window.0 - 1)? } else { 0 };
        let last = node::depth_at_seq(&nodes, &leaf.node, window.1)?;
        Ok(Rest { leaf: Some(Box::new(leaf)), left: (before + 1, last), rows: Vec::new() })
    }

    pub(super) fn next_row(&mut self) -> Result<Option<NodeRow>> {
        loop {
            let row = match &mut self.walk {
                Walk::Rows(rest) => match rest.next(self.lister, self.direction)? {
                    Some(row) => row,
                    None => return Ok(None),
                },
                Walk::Children(pairs) => {
                    let Some(pair) = pairs.next() else { return Ok(None) };
                    let seq = table::last_number(&pair?.0).ok_or_else(|| damaged("list of a log"))?;
                    if !(self.window.0..=self.window.1).contains(&seq) {
                        continue;
                    }
                    self.lister.snapshot.expect_node(self.lister.row.log, seq)?
                }
            };
            if self.parent.is_none() || self.parent == row.node.parent {
                return Ok(Some(row));
            }
        }
    }
}
