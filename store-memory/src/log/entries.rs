//! Pages of entries: of the whole log, of a path, and of the children of an entry.

use std::sync::Arc;

use store_core::{
    Direction, Entry, EntryQuery, PageBuilder, Position, Result,
    log::{Node, NodeSource, node},
};

use crate::slot::ThreadContents;

/// The number of entries looked up together when a path is walked from its root.
const PATH_CHUNK: u64 = 64;

type Seqs<'a> = Box<dyn Iterator<Item = Result<u64>> + 'a>;

/// Offers to a page the entries that `query` asks for, beginning after the sequence number `after`.
pub(super) fn add_entries(
    page: &mut PageBuilder<Arc<Entry>>,
    contents: &ThreadContents,
    query: &EntryQuery,
    after: Option<u64>,
) -> Result<()> {
    let Some(window) = Window::of(contents, query, after) else { return Ok(()) };
    let Some(seqs) = candidate_seqs(contents, query, window)? else { return Ok(()) };
    for seq in seqs {
        let log_entry = contents.log_entry(seq?)?;
        let item = query.admits(&log_entry.entry).then(|| Arc::clone(&log_entry.entry));
        if !page.offer(Position::new(log_entry.node.seq, ""), log_entry.bytes, item) {
            break;
        }
    }
    Ok(())
}

/// The range of sequence numbers still to be read, both ends included.
#[derive(Debug, Clone, Copy)]
struct Window {
    first: u64,
    last: u64,
    direction: Direction,
}

impl Window {
    fn of(contents: &ThreadContents, query: &EntryQuery, after: Option<u64>) -> Option<Self> {
        let direction = query.direction;
        let (mut first, mut last) = (query.from_seq.unwrap_or(1).max(1), contents.last_seq());
        last = last.min(query.to_seq.unwrap_or(last));
        match (after, direction) {
            (Some(after), Direction::Forward) => first = first.max(after.saturating_add(1)),
            (Some(after), Direction::Backward) => last = last.min(after.saturating_sub(1)),
            (None, _) => {}
        }
        (first <= last).then_some(Self { first, last, direction })
    }

    fn in_direction<'a>(self, seqs: impl DoubleEndedIterator<Item = u64> + 'a) -> Seqs<'a> {
        match self.direction {
            Direction::Forward => Box::new(seqs.map(Ok)),
            Direction::Backward => Box::new(seqs.rev().map(Ok)),
        }
    }
}

/// Returns the sequence numbers in the part of the log that `query` selects: the whole log, a path, or the children of
/// an entry. They are in the order of the query. Returns `None` if `query` names an entry that does not exist.
fn candidate_seqs<'a>(contents: &'a ThreadContents, query: &EntryQuery, window: Window) -> Result<Option<Seqs<'a>>> {
    let seq_of = |id| contents.derived.seq_of(id);
    let leaf = match &query.path_of {
        None => None,
        Some(id) => {
            let Some(seq) = seq_of(id) else { return Ok(None) };
            let node = contents.node(seq)?;
            // A side entry is on no path. The path of its parent is used instead.
            let Some(leaf) = node::ancestor(contents, &node, node.depth)? else { return Ok(None) };
            Some(leaf)
        }
    };
    let Some(parent) = &query.children_of else {
        return Ok(Some(match leaf {
            Some(leaf) => path_seqs(contents, leaf, window)?,
            None => window.in_direction(window.first..=window.last),
        }));
    };
    let Some(parent) = seq_of(parent) else { return Ok(None) };
    let children = window.in_direction(contents.derived.children(parent, window.first, window.last));
    let Some(leaf) = leaf else { return Ok(Some(children)) };
    // A child that cannot be read is kept, so that the caller meets the error.
    let is_on_path = move |seq: &Result<u64>| {
        let Ok(seq) = *seq else { return true };
        let on_path = |node: Node| Ok(!node.side && node::is_on_path(contents, &leaf, seq, node.depth)?);
        contents.node(seq).and_then(on_path).unwrap_or(true)
    };
    Ok(Some(Box::new(children.filter(is_on_path))))
}

/// Returns the sequence numbers on the path of `leaf` that are in a window.
fn path_seqs(contents: &ThreadContents, leaf: Node, window: Window) -> Result<Seqs<'_>> {
    // Sequence numbers increase along a path, so the entries of the window have consecutive depths.
    let first = node::depth_at_seq(contents, &leaf, window.first.saturating_sub(1))? + 1;
    let last = node::depth_at_seq(contents, &leaf, window.last)?;
    if window.direction == Direction::Backward {
        let start = node::ancestor(contents, &leaf, last)?.filter(|_| first <= last);
        return Ok(Box::new(ancestor_seqs(contents, start, first)));
    }
    let chunk_starts = (first..=last).step_by(usize::try_from(PATH_CHUNK).unwrap_or(usize::MAX));
    Ok(Box::new(chunk_starts.flat_map(move |depth| {
        let end = depth.saturating_add(PATH_CHUNK - 1).min(last);
        let mut seqs: Vec<_> = match node::ancestor(contents, &leaf, end) {
            Ok(start) => ancestor_seqs(contents, start, depth).collect(),
            Err(e) => vec![Err(e)],
        };
        seqs.reverse();
        seqs
    })))
}

/// Returns the sequence numbers from a start entry up to its ancestor at depth `top_depth`.
fn ancestor_seqs(contents: &ThreadContents, start: Option<Node>, top_depth: u64) -> impl Iterator<Item = Result<u64>> {
    let mut next = start.map(Ok);
    std::iter::from_fn(move || {
        let node = match next.take()? {
            Ok(node) => node,
            Err(e) => return Some(Err(e)),
        };
        next = node.parent.filter(|_| node.depth > top_depth).map(|parent| contents.node(parent));
        Some(Ok(node.seq))
    })
}
