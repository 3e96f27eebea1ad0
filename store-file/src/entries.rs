//! Logs: reading entries, what is listed of them, and contexts.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    BranchPoint, ContextRequest, CursorScope, Direction, Entry, EntryId, EntryQuery, Error, Leaf, LogReader, Page,
    PageBuilder, PageRequest, Position, Result, Snapshot, TenantId, ThreadContext, ThreadId, ThreadState, context,
    length,
    log::{Node, NodeSource, assigned_name, node},
};

use crate::{
    codec::{NodeRow, Rows, ThreadRow, damaged},
    error,
    index::{self, Key},
    line,
    log::read_lines,
    pages,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::shown,
};

/// How many entries are read in one go, and up to how many bytes: what a page has no room for is read in vain.
const CHUNK: usize = 64;
const CHUNK_BYTES: u64 = 4 << 20;

#[async_trait]
impl LogReader for Tenant {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let (thread, entry) = (thread.clone(), entry.clone());
        self.read(Some(thread.clone()), move |shared, tenant| {
            let snapshot = shared.index.snapshot();
            let Some(row) = shared.thread_row(&snapshot, tenant, &thread)? else { return Ok(None) };
            let Some(seq) = snapshot.entry_seq(row.log, &entry)? else { return Ok(None) };
            let row_of = snapshot.expect_node(row.log, seq)?;
            Ok(load(shared, row.log, &[row_of])?.pop())
        })
        .await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| {
            Lister::new(shared, tenant, &thread, ("entries", &query.cursor_binding()), &query.page)?
                .map_or_else(|| Ok(Page::empty()), |lister| lister.entries(&query))
        })
        .await
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| {
            let Some(lister) = Lister::new(shared, tenant, &thread, ("leaves", ""), &page)? else {
                return Ok(Page::empty());
            };
            let log = lister.row.log;
            lister.numbers(&table::leaves(log), |lister, seq| lister.leaf(seq))
        })
        .await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| {
            let Some(lister) = Lister::new(shared, tenant, &thread, ("branch points", ""), &page)? else {
                return Ok(Page::empty());
            };
            let log = lister.row.log;
            lister.numbers(&table::branches(log), |lister, seq| {
                if seq == 0 {
                    return Ok(BranchPoint::new(None, lister.row.stored.roots));
                }
                let id = lister.snapshot.expect_node(log, seq)?.id;
                Ok(BranchPoint::new(Some(id), lister.snapshot.marks_of(log, seq)?.children))
            })
        })
        .await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| {
            Lister::new(shared, tenant, &thread, ("snapshots", ""), &page)?
                .map_or_else(|| Ok(Page::empty()), Lister::snapshots)
        })
        .await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| load_context(shared, tenant, &thread, &request)).await
    }
}

/// Reads entries of a log, each proved by its sum.
pub(crate) fn load(shared: &Shared, log: u64, rows: &[NodeRow]) -> Result<Vec<Arc<Entry>>> {
    let (file, path) = shared.open_log(log)?;
    let spans: Vec<_> = rows.iter().map(|row| row.span).collect();
    let lines = read_lines(&*file, &path, &spans)?;
    let decode = |(line, span): (Vec<u8>, &crate::log::Span)| {
        let place = || error::corrupt(&path, Some(span.offset));
        let text = std::str::from_utf8(&line).map_err(|e| place().with_source(e))?;
        let (entry, _) = line::decode_entry(text).map_err(|e| place().with_source(e))?;
        Ok(Arc::new(entry))
    };
    lines.into_iter().zip(&spans).map(decode).collect()
}

/// Nodes of a log in a snapshot of the index.
pub(crate) struct LogNodes<'a>(pub(crate) &'a index::Snapshot, pub(crate) u64);

impl NodeSource for LogNodes<'_> {
    fn node(&self, seq: u64) -> Result<Node> {
        self.0.expect_node(self.1, seq).map(|row| row.node)
    }
}

/// A list of one log: everything in it as of one moment.
struct Lister<'a> {
    shared: &'a Shared,
    snapshot: index::Snapshot,
    row: ThreadRow,
    scope: CursorScope,
    from: Option<Position>,
    limit: usize,
}

impl<'a> Lister<'a> {
    /// Nothing for an unknown thread, whose cursor is no longer good.
    fn new(
        shared: &'a Shared,
        tenant: &TenantId,
        thread: &ThreadId,
        list: (&'static str, &str),
        page: &PageRequest,
    ) -> Result<Option<Self>> {
        let limit = page.checked_limit()?;
        let snapshot = shared.index.snapshot();
        let Some(row) = shared.thread_row(&snapshot, tenant, thread)? else {
            return match page.cursor {
                Some(_) => Err(Error::invalid_cursor("its thread does not exist")),
                None => Ok(None),
            };
        };
        let (method, query) = list;
        let query = format!("{thread:?} {} {query}", row.stored.thread.generation());
        let scope = CursorScope::new(tenant, method, &query);
        let from = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
        Ok(Some(Self { shared, snapshot, row, scope, from, limit }))
    }

    fn finish_page<T>(&self, page: PageBuilder<T>) -> Page<T> {
        page.finish(|position| position.to_cursor(&self.shared.cursor_key, &self.scope))
    }

    /// A list of sequence numbers below a key.
    fn numbers<T>(self, list: &Key, item: impl Fn(&Self, u64) -> Result<T>) -> Result<Page<T>> {
        let at = self.from.as_ref().map(|position| list.clone().number(position.rank).into_bytes());
        let mut page = PageBuilder::new(self.limit);
        for pair in pages::behind(&self.snapshot, list, Direction::Forward, at) {
            let seq = table::last_number(&pair?.0).ok_or_else(|| damaged("list of a log"))?;
            if !page.offer(Position::new(seq, ""), 64, Some(item(&self, seq)?)) {
                break;
            }
        }
        Ok(self.finish_page(page))
    }

    fn leaf(&self, seq: u64) -> Result<Leaf> {
        let row = self.snapshot.expect_node(self.row.log, seq)?;
        let depth = row.node.depth;
        let entry = load(self.shared, self.row.log, &[row])?.pop().ok_or_else(|| damaged("node"))?;
        Ok(Leaf::new(entry.id.clone(), seq, depth, entry.timestamp))
    }

    fn snapshots(self) -> Result<Page<Snapshot>> {
        let list = table::snapshots(self.row.log);
        let at = self.from.as_ref().map(|from| self.named(&list, from)).transpose()?;
        let mut page = PageBuilder::new(self.limit);
        for pair in pages::behind(&self.snapshot, &list, Direction::Forward, at) {
            let (key, giver) = pair?;
            let (name, seq) = table::read_snapshot(&key).ok_or_else(|| damaged("snapshot"))?;
            let bound = table::last_number(&giver).ok_or_else(|| damaged("snapshot"))?;
            let number = self.snapshot.expect_node(self.row.log, seq)?.node.checkpoint_number.unwrap_or_default();
            let item = Snapshot::new(name, number, self.leaf(seq)?);
            if !page.offer(Position { extra_number: bound, ..Position::new(seq, "") }, 64, Some(item)) {
                break;
            }
        }
        Ok(self.finish_page(page))
    }

    /// Where a list of snapshots goes on. A name is too long for a cursor, which therefore says which entry gave it.
    fn named(&self, list: &Key, from: &Position) -> Result<Vec<u8>> {
        // It was of a tenant that was deleted, and made anew.
        if from.extra_number > self.row.stored.thread.version.number() {
            return Err(Error::invalid_cursor("its entry does not exist"));
        }
        let giver = self.snapshot.expect_node(self.row.log, from.extra_number)?;
        let entry = load(self.shared, self.row.log, &[giver])?.pop().ok_or_else(|| damaged("node"))?;
        let name = assigned_name(&entry).unwrap_or_default();
        Ok(list.clone().text(name).number(from.rank).into_bytes())
    }

    /// Entries: the sequence numbers that can be meant, read a few at a time.
    fn entries(self, query: &EntryQuery) -> Result<Page<Arc<Entry>>> {
        let mut page = PageBuilder::new(self.limit);
        let mut chunk = Vec::new();
        let mut size = self.limit.saturating_add(1).min(CHUNK);
        let mut seqs = Seqs::new(&self, query)?;
        'pages: loop {
            let mut bytes = 0;
            while chunk.len() < size && bytes < CHUNK_BYTES {
                let Some(row) = seqs.next_row()? else { break };
                bytes += u64::from(row.span.len);
                chunk.push(row);
            }
            if chunk.is_empty() {
                break;
            }
            let entries = load(self.shared, self.row.log, &chunk)?;
            for (entry, row) in entries.into_iter().zip(chunk.drain(..)) {
                let item = query.admits(&entry).then_some(entry);
                if !page.offer(Position::new(row.node.seq, ""), u64::from(row.span.len), item) {
                    break 'pages;
                }
            }
            size = CHUNK;
        }
        Ok(self.finish_page(page))
    }
}

/// The rows of entries that a query can mean, in its order: by what the index knows of them.
struct Seqs<'a> {
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
    let deepest = node::ancestor(&LogNodes(snapshot, log), &leaf.node, to)?;
    let mut row = snapshot.expect_node(log, deepest.ok_or_else(|| damaged("node"))?.seq)?;
    let mut rows = Vec::new();
    for depth in (from..to).rev() {
        let parent = snapshot.expect_node(log, row.node.parent.ok_or_else(|| damaged("node"))?)?;
        if parent.node.depth != depth {
            return Err(damaged("node"));
        }
        rows.push(std::mem::replace(&mut row, parent));
    }
    rows.push(row);
    rows.reverse();
    Ok(rows)
}

/// The nodes of two sequence numbers and all between.
fn side_by_side(snapshot: &index::Snapshot, log: u64, (from, to): (u64, u64)) -> Result<Vec<NodeRow>> {
    let (start, end) = (table::node(log, from), table::node(log, to.saturating_add(1)));
    // Forward whatever the query says: walking backward, the index takes longer for what lies in its tables.
    let pairs = snapshot.range(start.as_bytes(), end.as_bytes(), index::Direction::Forward);
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
    fn new(lister: &'a Lister<'a>, query: &EntryQuery) -> Result<Self> {
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
        let nodes = LogNodes(&lister.snapshot, log);
        let before = if window.0 > 1 { node::depth_at_seq(&nodes, &leaf.node, window.0 - 1)? } else { 0 };
        let last = node::depth_at_seq(&nodes, &leaf.node, window.1)?;
        Ok(Rest { leaf: Some(Box::new(leaf)), left: (before + 1, last), rows: Vec::new() })
    }

    fn next_row(&mut self) -> Result<Option<NodeRow>> {
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

fn load_context(
    shared: &Shared,
    tenant: &TenantId,
    thread: &ThreadId,
    request: &ContextRequest,
) -> Result<ThreadContext> {
    let snapshot = shared.index.snapshot();
    let row = shared.thread_row(&snapshot, tenant, thread)?.ok_or_else(|| Error::not_found("thread", thread))?;
    let log = row.log;
    let leaf = match &request.at {
        Some(id) => Some(snapshot.entry_seq(log, id)?.ok_or_else(|| Error::not_found("entry", id))?),
        None => row.stored.head_seq,
    };
    let mut found = ThreadContext::empty(shown(shared, row.stored));
    if let Some(seq) = leaf {
        let leaf = snapshot.expect_node(log, seq)?;
        let parts = context::parts(&LogNodes(&snapshot, log), &leaf.node)?;
        let rows = parts.iter().map(|part| snapshot.expect_node(log, part.seq())).collect::<Result<Vec<_>>>()?;
        let parts_with_entries = parts.into_iter().zip(load(shared, log, &rows)?).collect();
        found.context = context::build(parts_with_entries, request);
        found.context_size = context::context_size(&leaf.node, &snapshot.marks_of(log, seq)?);
        found.next_checkpoint = context::next_checkpoint(&leaf.node);
        found.at = Some(leaf.id);
    }
    found.state = state(&snapshot, log)?;
    for id in found.thread.latest_run.iter().chain(&found.thread.open_runs) {
        let run = snapshot.live_run_row(tenant, id)?.map(|row| crate::runs::load(shared, &row)).transpose()?;
        let run = run.ok_or_else(|| damaged("run"))?;
        if found.latest_run.is_none() {
            found.latest_run = Some(run);
        } else {
            found.open_runs.push(run);
        }
    }
    Ok(found)
}

/// The state of a thread.
pub(crate) fn state(snapshot: &index::Snapshot, log: u64) -> Result<ThreadState> {
    let list = table::states(log);
    let mut state = ThreadState::new();
    for pair in snapshot.prefix(list.as_bytes(), index::Direction::Forward) {
        let (key, value) = pair?;
        let name = table::read_state(&key).ok_or_else(|| damaged("state"))?;
        state.insert(name, crate::codec::read("state", &value)?);
    }
    Ok(state)
}
