//! Reading logs.

mod entries;

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    BranchPoint, ContextRequest, CursorScope, Entry, EntryId, EntryQuery, Error, Leaf, LogReader, Page, PageBuilder,
    PageRequest, Position, Result, Run, RunId, Snapshot, ThreadContext, ThreadId, context, log::assigned_name,
};

use crate::{
    slot::{LogEntry, ThreadContents, ThreadSlot},
    tenant::Tenant,
    threads::MemoryThreads,
};

/// The state of reading one list of a thread: the scope of its cursors, its page size, and the position at which
/// reading continues.
struct OpenedList {
    scope: CursorScope,
    limit: usize,
    after: Option<Position>,
}

impl OpenedList {
    /// Opens a list. Its cursors are bound to `list_identity`: the method, the thread, and the text of the query. They
    /// are also bound to the generation, so that a cursor no longer works after its thread was deleted, even if the id
    /// is used again (TH-24).
    fn open(
        tenant: &Tenant,
        slot: &ThreadSlot,
        list_identity: (&'static str, &ThreadId, &str),
        page: &PageRequest,
    ) -> Result<Self> {
        let (method, thread, query_text) = list_identity;
        let binding = format!("{:?}", (thread, slot.generation(), query_text));
        let scope = CursorScope::new(&tenant.name, method, &binding);
        let limit = page.checked_limit()?;
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, page.cursor.as_ref())?;
        Ok(Self { scope, limit, after })
    }

    fn after_seq(&self) -> Option<u64> {
        self.after.as_ref().map(|after| after.rank)
    }

    fn finish<T>(&self, tenant: &Tenant, page: PageBuilder<T>) -> Page<T> {
        page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &self.scope))
    }
}

#[async_trait]
impl LogReader for MemoryThreads {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        self.tenant()?.slots.read(thread, |slot| {
            let Some(contents) = &slot.contents else { return Ok(None) };
            let seq = contents.derived.seq_of(entry);
            seq.map(|seq| contents.log_entry(seq).map(|log_entry| Arc::clone(&log_entry.entry))).transpose()
        })
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let tenant = self.tenant()?;
        tenant.slots.read(thread, |slot| {
            let list = OpenedList::open(tenant, slot, ("list_entries", thread, &query.cursor_binding()), &query.page)?;
            let mut page = PageBuilder::new(list.limit);
            if let Some(contents) = &slot.contents {
                entries::add_entries(&mut page, contents, &query, list.after_seq())?;
            }
            Ok(list.finish(tenant, page))
        })
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        let tenant = self.tenant()?;
        tenant.slots.read(thread, |slot| {
            let list = OpenedList::open(tenant, slot, ("list_leaves", thread, ""), &page)?;
            let mut page = PageBuilder::new(list.limit);
            let Some(contents) = &slot.contents else { return Ok(Page::empty()) };
            for seq in contents.derived.leaves_after(list.after_seq().unwrap_or_default()) {
                if !page.offer(Position::new(seq, ""), 0, Some(to_leaf(contents.log_entry(seq)?))) {
                    break;
                }
            }
            Ok(list.finish(tenant, page))
        })
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        let tenant = self.tenant()?;
        tenant.slots.read(thread, |slot| {
            let list = OpenedList::open(tenant, slot, ("list_branch_points", thread, ""), &page)?;
            let mut page = PageBuilder::new(list.limit);
            let Some(contents) = &slot.contents else { return Ok(Page::empty()) };
            for seq in contents.derived.branch_points_from(list.after_seq().map_or(0, |seq| seq.saturating_add(1))) {
                let point = match seq {
                    0 => BranchPoint::new(None, contents.thread.roots),
                    seq => {
                        let log_entry = contents.log_entry(seq)?;
                        BranchPoint::new(Some(log_entry.entry.id.clone()), log_entry.marks.children)
                    }
                };
                if !page.offer(Position::new(seq, ""), 0, Some(point)) {
                    break;
                }
            }
            Ok(list.finish(tenant, page))
        })
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        let tenant = self.tenant()?;
        tenant.slots.read(thread, |slot| {
            let list = OpenedList::open(tenant, slot, ("list_snapshots", thread, ""), &page)?;
            let mut page = PageBuilder::new(list.limit);
            let Some(contents) = &slot.contents else { return Ok(Page::empty()) };
            let after = list.after.as_ref().map(|after| decode_snapshot_position(contents, after)).transpose()?;
            for (name, seq, naming_seq) in contents.derived.snapshots_after(after) {
                let log_entry = contents.log_entry(seq)?;
                let number = log_entry.node.checkpoint_number.unwrap_or_default();
                let snapshot = Snapshot::new(name.to_owned(), number, to_leaf(log_entry));
                if !page.offer(Position { extra_number: naming_seq, ..Position::new(seq, "") }, 0, Some(snapshot)) {
                    break;
                }
            }
            Ok(list.finish(tenant, page))
        })
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let (mut thread_context, parts) = self.tenant()?.slots.read(thread, |slot| {
            let contents = slot.contents.as_ref().ok_or_else(|| Error::not_found("thread", thread))?;
            load_context_parts(contents, &request)
        })?;
        thread_context.context = context::build(parts, &request);
        Ok(thread_context)
    }
}

/// Returns the name and checkpoint after which a list of snapshots continues. A name may be too long for a cursor, so
/// the cursor contains the sequence number of the entry that gave the name.
fn decode_snapshot_position(contents: &ThreadContents, after: &Position) -> Result<(String, u64)> {
    // A cursor whose entry is not in the log comes from a tenant that was deleted and created again.
    if after.extra_number > contents.last_seq() {
        return Err(Error::invalid_cursor("its entry does not exist"));
    }
    let naming_entry = contents.log_entry(after.extra_number)?;
    Ok((assigned_name(&naming_entry.entry).unwrap_or_default().to_owned(), after.rank))
}

fn to_leaf(log_entry: &LogEntry) -> Leaf {
    Leaf::new(log_entry.entry.id.clone(), log_entry.node.seq, log_entry.node.depth, log_entry.entry.timestamp)
}

/// The parts of a context, each with its entry.
type LoadedParts = Vec<(context::ContextPart, Arc<Entry>)>;

/// Loads all data of a context as of one moment, and the entries from which its messages are built.
fn load_context_parts(contents: &ThreadContents, request: &ContextRequest) -> Result<(ThreadContext, LoadedParts)> {
    let thread = &contents.thread.thread;
    let mut thread_context = ThreadContext::empty(thread.clone());
    let load_run = |id: &RunId| contents.runs.get(id).map(|run| Run::clone(run));
    thread_context.state = contents.state.clone();
    thread_context.latest_run = thread.latest_run.as_ref().and_then(load_run);
    thread_context.open_runs = thread.open_runs.iter().filter_map(load_run).collect();
    let seq = match &request.at {
        Some(id) => Some(contents.derived.seq_of(id).ok_or_else(|| Error::not_found("entry", id))?),
        None => contents.thread.head_seq,
    };
    let Some(seq) = seq else { return Ok((thread_context, LoadedParts::new())) };
    let log_entry = contents.log_entry(seq)?;
    thread_context.at = Some(log_entry.entry.id.clone());
    thread_context.context_size = context::context_size(&log_entry.node, &log_entry.marks);
    thread_context.next_checkpoint = context::next_checkpoint(&log_entry.node);
    let parts = context::parts(contents, &log_entry.node)?;
    let with_entry = |part: context::ContextPart| Ok((part, Arc::clone(&contents.log_entry(part.seq())?.entry)));
    let parts_with_entries = parts.into_iter().map(with_entry).collect::<Result<LoadedParts>>()?;
    Ok((thread_context, parts_with_entries))
}
