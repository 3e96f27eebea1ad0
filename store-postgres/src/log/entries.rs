//! Pages of entries: of the whole log, of a path, and of the children of an entry.

use std::sync::Arc;

use store_core::{
    Direction, Entry, EntryId, EntryQuery, Page, PageBuilder, Position, Result,
    commit::LogView,
    length,
    log::{Node, NodeSource, node},
};

use super::{LogSnapshot, decode_entry};
use crate::{
    cache::RecordCache,
    columns::read_u64,
    db::{add, signed},
    error::corrupt,
};

/// The number of entries that are read at once.
const CHUNK: u64 = 64;

/// Returns the entries that `query` asks for.
pub(super) async fn list(mut reader: LogSnapshot<'_>, query: &EntryQuery) -> Result<Page<Arc<Entry>>> {
    let mut page = PageBuilder::new(reader.limit);
    let mut chunk = length(reader.limit.saturating_add(1)).min(CHUNK);
    if let Some(mut walk) = EntryWalk::of(&mut reader, query).await? {
        'all: loop {
            let entries = walk.next(&mut reader, chunk).await?;
            for (seq, bytes, entry) in &entries {
                let item = query.admits(entry).then(|| Arc::clone(entry));
                if !page.offer(Position::new(*seq, ""), *bytes, item) {
                    break 'all;
                }
            }
            if walk.is_finished() {
                break;
            }
            chunk = CHUNK;
        }
    }
    reader.finish(page).await
}

/// The part of the log that is still to be read.
struct EntryWalk {
    target: WalkTarget,
    /// The first and the last position that are still to be read: sequence numbers, or depths on a path.
    remaining: (u64, u64),
    direction: Direction,
    /// Set for a walk on a path that returns only children of this entry.
    parent: Option<u64>,
}

enum WalkTarget {
    Log,
    Path(Box<Node>),
    Children(u64),
}

impl EntryWalk {
    async fn of(reader: &mut LogSnapshot<'_>, query: &EntryQuery) -> Result<Option<Self>> {
        let last = reader.stored.thread.version.number();
        let mut window = (query.from_seq.unwrap_or(1).max(1), query.to_seq.unwrap_or(last).min(last));
        match (query.direction, reader.after.as_ref().map(|after| after.rank)) {
            (Direction::Forward, Some(after)) => window.0 = window.0.max(after.saturating_add(1)),
            (Direction::Backward, Some(after)) => window.1 = window.1.min(after.saturating_sub(1)),
            (_, None) => {}
        }
        let parent = match &query.children_of {
            Some(id) => match seq_of(reader, id).await? {
                Some(seq) => Some(seq),
                None => return Ok(None),
            },
            None => None,
        };
        let direction = query.direction;
        let Some(id) = &query.path_of else {
            let target = parent.map_or(WalkTarget::Log, WalkTarget::Children);
            return Ok(Some(Self { target, remaining: window, direction, parent: None }));
        };
        let Some(seq) = seq_of(reader, id).await? else { return Ok(None) };
        // Loads the nodes that lead from the entry to both ends of the window.
        for bound in [window.0 - 1, window.1] {
            if bound > 0 && bound < last {
                reader.load_up_to_seq(seq, bound).await?;
            }
        }
        // Sequence numbers increase along a path, so a window of them is a section of the path. A side entry is on no
        // path, so the path of its parent is used instead.
        let path = |cache: &RecordCache| {
            let node = cache.node(seq)?;
            let Some(leaf) = node::ancestor(cache, &node, node.depth)? else { return Ok(None) };
            let before = if window.0 > 1 { node::depth_at_seq(cache, &leaf, window.0 - 1)? } else { 0 };
            let last = node::depth_at_seq(cache, &leaf, window.1)?;
            Ok(Some((leaf, (before + 1, last))))
        };
        let Some((leaf, remaining)) = reader.run_rule(path).await? else { return Ok(None) };
        Ok(Some(Self { target: WalkTarget::Path(Box::new(leaf)), remaining, direction, parent }))
    }

    const fn is_finished(&self) -> bool {
        self.remaining.0 > self.remaining.1
    }

    /// Returns the next entries, in the order of the walk.
    async fn next(&mut self, reader: &mut LogSnapshot<'_>, chunk: u64) -> Result<Vec<(u64, u64, Arc<Entry>)>> {
        if self.is_finished() {
            return Ok(Vec::new());
        }
        match &self.target {
            WalkTarget::Children(parent) => {
                let seqs = child_seqs(reader, *parent, (self.remaining, self.direction), chunk).await?;
                self.continue_after(seqs.last().copied().filter(|_| length(seqs.len()) == chunk));
                self.load(reader, seqs).await
            }
            WalkTarget::Log => {
                let (from, to) = self.next_range(chunk);
                let found = load_range(reader, (from, to), self.direction).await?;
                if length(found.len()) != to - from + 1 {
                    return Err(corrupt("an entry of a log is missing"));
                }
                self.advance_past((from, to));
                Ok(found)
            }
            WalkTarget::Path(leaf) => {
                let (from, to) = self.next_range(chunk);
                let leaf = leaf.clone();
                if to < leaf.depth {
                    reader.load_up_to_depth(leaf.seq, to).await?;
                }
                let mut nodes = reader.run_rule(|cache| path_nodes(cache, &leaf, (from, to))).await?;
                self.advance_past((from, to));
                nodes.retain(|node| self.parent.is_none() || node.parent == self.parent);
                self.load(reader, nodes.into_iter().map(|node| node.seq).collect()).await
            }
        }
    }

    /// Returns the first and the last position of the next part to be read.
    fn next_range(&self, chunk: u64) -> (u64, u64) {
        let (first, last) = self.remaining;
        match self.direction {
            Direction::Forward => (first, last.min(first + chunk - 1)),
            Direction::Backward => (first.max((last + 1).saturating_sub(chunk)), last),
        }
    }

    const fn advance_past(&mut self, (from, to): (u64, u64)) {
        match self.direction {
            Direction::Forward => self.remaining.0 = to + 1,
            Direction::Backward => self.remaining.1 = from - 1,
        }
    }

    /// Continues after `last`. `None` means that nothing is left to be read.
    const fn continue_after(&mut self, last: Option<u64>) {
        match (last, self.direction) {
            (Some(last), Direction::Forward) => self.remaining.0 = last + 1,
            (Some(last), Direction::Backward) => self.remaining.1 = last - 1,
            (None, _) => self.remaining = (1, 0),
        }
    }

    async fn load(&self, reader: &mut LogSnapshot<'_>, seqs: Vec<u64>) -> Result<Vec<(u64, u64, Arc<Entry>)>> {
        let mut found = reader.entries(&seqs).await?;
        if self.direction == Direction::Backward {
            found.reverse();
        }
        Ok(found)
    }
}

async fn seq_of(reader: &mut LogSnapshot<'_>, id: &EntryId) -> Result<Option<u64>> {
    reader.run_rule(|cache| cache.entry(id)).await
}

async fn load_range(
    reader: &mut LogSnapshot<'_>,
    (from, to): (u64, u64),
    direction: Direction,
) -> Result<Vec<(u64, u64, Arc<Entry>)>> {
    let mut arguments = reader.log_arguments()?;
    add(&mut arguments, signed(from)?)?;
    add(&mut arguments, signed(to)?)?;
    add(&mut arguments, signed(to - from + 1)?)?;
    let rows = match direction {
        Direction::Forward => reader.connection.read(|sql| &sql.list_entries, arguments).await?,
        Direction::Backward => reader.connection.read(|sql| &sql.list_entries_backward, arguments).await?,
    };
    rows.iter().map(decode_entry).collect()
}

async fn child_seqs(
    reader: &mut LogSnapshot<'_>,
    parent: u64,
    (window, direction): ((u64, u64), Direction),
    chunk: u64,
) -> Result<Vec<u64>> {
    let mut arguments = reader.log_arguments()?;
    add(&mut arguments, signed(parent)?)?;
    add(&mut arguments, signed(window.0)?)?;
    add(&mut arguments, signed(window.1)?)?;
    add(&mut arguments, signed(chunk)?)?;
    let rows = match direction {
        Direction::Forward => reader.connection.read(|sql| &sql.list_children, arguments).await?,
        Direction::Backward => reader.connection.read(|sql| &sql.list_children_backward, arguments).await?,
    };
    rows.iter().map(|row| read_u64(row, 0)).collect()
}

/// Returns the nodes of a path between two depths, the one nearest to the root first. Only the deepest of them is
/// searched for. The others are its ancestors.
fn path_nodes(cache: &RecordCache, leaf: &Node, (from, to): (u64, u64)) -> Result<Vec<Node>> {
    let broken = || corrupt("the path of an entry does not lead to a root");
    let mut node = node::ancestor(cache, leaf, to)?.ok_or_else(broken)?;
    let mut nodes = Vec::new();
    for depth in (from..to).rev() {
        let parent = cache.node(node.parent.ok_or_else(broken)?)?;
        if parent.depth != depth {
            return Err(broken());
        }
        nodes.push(std::mem::replace(&mut node, parent));
    }
    nodes.push(node);
    nodes.reverse();
    Ok(nodes)
}
