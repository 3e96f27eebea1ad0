//! Lists of one log: its entries, leaves, branch points and snapshots.

use std::sync::Arc;

use store_core::{
    BranchPoint, CursorScope, Direction, Entry, EntryQuery, Error, Leaf, Page, PageBuilder, PageRequest, Position,
    Result, Snapshot, TenantId, ThreadId, log::assigned_name,
};

use super::{load, walk::Seqs};
use crate::{
    codec::{NodeRow, Rows, ThreadRow, damaged},
    index::{self, Key},
    pages,
    shared::Shared,
    table,
};

/// How many entries are read in one go, and up to how many bytes: what a page has no room for is read and dropped.
pub(super) const CHUNK: usize = 64;
const CHUNK_BYTES: u64 = 4 << 20;

/// A list of one log: everything in it as of one moment.
pub(super) struct Lister<'a> {
    shared: &'a Shared,
    pub(super) snapshot: index::Snapshot,
    pub(super) row: ThreadRow,
    scope: CursorScope,
    pub(super) from: Option<Position>,
    pub(super) limit: usize,
}

impl<'a> Lister<'a> {
    /// Nothing for an unknown thread, whose cursor is no longer good.
    pub(super) fn new(
        shared: &'a Shared,
        tenant: &TenantId,
        thread: &ThreadId,
        (method, query): &(&'static str, String),
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
        let query = format!("{thread:?} {} {query}", row.stored.thread.generation());
        let scope = CursorScope::new(tenant, method, &query);
        let from = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
        Ok(Some(Self { shared, snapshot, row, scope, from, limit }))
    }

    fn finish_page<T>(&self, page: PageBuilder<T>) -> Page<T> {
        page.finish(|position| position.to_cursor(&self.shared.cursor_key, &self.scope))
    }

    /// A list of sequence numbers below the key that `list` gives for the log.
    pub(super) fn numbers<T>(self, list: fn(u64) -> Key, item: fn(&Self, u64) -> Result<T>) -> Result<Page<T>> {
        let list = list(self.row.log);
        let at = self.from.as_ref().map(|position| list.clone().number(position.rank).into_bytes());
        let mut page = PageBuilder::new(self.limit);
        for pair in pages::behind(&self.snapshot, &list, Direction::Forward, at) {
            let seq = table::last_number(&pair?.0).ok_or_else(|| damaged("list of a log"))?;
            if !page.offer(Position::new(seq, ""), 64, Some(item(&self, seq)?)) {
                break;
            }
        }
        Ok(self.finish_page(page))
    }

    fn entry(&self, row: NodeRow) -> Result<Arc<Entry>> {
        load(self.shared, self.row.log, &[row])?.pop().ok_or_else(|| damaged("node"))
    }

    pub(super) fn leaf(&self, seq: u64) -> Result<Leaf> {
        let row = self.snapshot.expect_node(self.row.log, seq)?;
        let depth = row.node.depth;
        let entry = self.entry(row)?;
        Ok(Leaf::new(entry.id.clone(), seq, depth, entry.timestamp))
    }

    /// A branch point; 0 stands for before the first entry.
    pub(super) fn branch_point(&self, seq: u64) -> Result<BranchPoint> {
        if seq == 0 {
            return Ok(BranchPoint::new(None, self.row.stored.roots));
        }
        let id = self.snapshot.expect_node(self.row.log, seq)?.id;
        Ok(BranchPoint::new(Some(id), self.snapshot.marks_of(self.row.log, seq)?.children))
    }

    pub(super) fn snapshots(self) -> Result<Page<Snapshot>> {
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
        // The cursor is of a tenant that was deleted and made anew.
        if from.extra_number > self.row.stored.thread.version.number() {
            return Err(Error::invalid_cursor("its entry does not exist"));
        }
        let giver = self.entry(self.snapshot.expect_node(self.row.log, from.extra_number)?)?;
        let name = assigned_name(&giver).unwrap_or_default();
        Ok(list.clone().text(name).number(from.rank).into_bytes())
    }

    /// Entries: the sequence numbers that can be meant, read a few at a time.
    pub(super) fn entries(self, query: &EntryQuery) -> Result<Page<Arc<Entry>>> {
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
