//! Reading logs.

mod entries;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    BranchPoint, ContextRequest, CursorScope, Entry, EntryId, EntryQuery, Error, Json, Leaf, LogReader, Page,
    PageBuilder, PageRequest, Position, Result, Snapshot, ThreadContext, ThreadId, ThreadState,
    commit::{CommitView, LogView},
    context,
    log::{MarkSource, Node, NodeSource, assigned_name},
    thread::StoredThread,
};

use crate::{
    cache::{self, Lookup, RecordCache, decode},
    columns::{read_name, read_text, read_u64},
    db::{Connection, add, signed},
    error::corrupt,
    tenant::Tenant,
    threads::PostgresThreads,
};

#[async_trait]
impl LogReader for PostgresThreads {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let (id, entry) = (thread.clone(), entry.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            add(&mut arguments, entry.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_entry, arguments).await?;
            rows.first().map(|row| decode::<Entry>("entry", &read_text(row, 1)?).map(Arc::new)).transpose()
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            match LogSnapshot::open(&tenant, &id, ("list_entries", &query.cursor_binding()), &query.page).await? {
                Some(reader) => Box::pin(entries::list(reader, &query)).await,
                None => Ok(Page::empty()),
            }
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            match LogSnapshot::open(&tenant, &id, ("list_leaves", ""), &page).await? {
                Some(reader) => reader.leaves().await,
                None => Ok(Page::empty()),
            }
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            match LogSnapshot::open(&tenant, &id, ("list_branch_points", ""), &page).await? {
                Some(reader) => reader.branch_points().await,
                None => Ok(Page::empty()),
            }
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            match LogSnapshot::open(&tenant, &id, ("list_snapshots", ""), &page).await? {
                Some(reader) => reader.snapshots().await,
                None => Ok(Page::empty()),
            }
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let missing = || Error::not_found("thread", &id);
            let page = PageRequest::default();
            let reader = LogSnapshot::open(&tenant, &id, ("load_context", ""), &page).await?.ok_or_else(missing)?;
            Box::pin(reader.context(&request)).await
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }
}

/// A reader of a log. All its reads see one snapshot of the database. It caches the records that it has loaded.
struct LogSnapshot<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
    cache: RecordCache,
    stored: StoredThread,
    log: i64,
    scope: CursorScope,
    limit: usize,
    after: Option<Position>,
}

impl<'a> LogSnapshot<'a> {
    /// Opens a reader. Returns `None` if the thread does not exist. A cursor of a thread that was deleted is refused.
    async fn open(
        tenant: &'a Tenant,
        id: &ThreadId,
        list: (&'static str, &str),
        page: &PageRequest,
    ) -> Result<Option<Self>> {
        let limit = page.checked_limit()?;
        let mut connection = tenant.db().begin_snapshot().await?;
        let mut cache = RecordCache::new(Arc::clone(&tenant.constants), Some(id.clone()));
        cache.is_fresh = true;
        cache::load_records(&mut connection, &mut cache, Lookup { thread: true, ..Lookup::default() }).await?;
        let row = cache.row.clone().unwrap_or_default();
        let (method, binding) = list;
        // Cursors are bound to the generation, so that a cursor no longer works after its thread was deleted, even if
        // the id is used again (TH-24).
        let generation = row.thread.as_ref().map(|stored| stored.thread.generation());
        let scope = CursorScope::new(&tenant.constants.tenant, method, &format!("{:?}", (id, generation, binding)));
        let after = Position::from_cursor(&tenant.constants.cursor_key, &scope, page.cursor.as_ref())?;
        let (Some(stored), Some(log)) = (row.thread, row.log) else {
            connection.commit().await?;
            return Ok(None);
        };
        Ok(Some(Self { tenant, connection, cache, stored, log, scope, limit, after }))
    }

    /// Runs a rule, and loads the records that are missing, until no more are missing.
    async fn run_rule<T>(&mut self, rule: impl Fn(&RecordCache) -> Result<T>) -> Result<T> {
        loop {
            let answer = rule(&self.cache);
            match self.cache.take_missing() {
                Some(missing) => cache::load_records(&mut self.connection, &mut self.cache, missing).await?,
                None => return answer,
            }
        }
    }

    /// Loads the nodes that lead from an entry to its ancestor at this depth.
    async fn load_up_to_depth(&mut self, from: u64, depth: u64) -> Result<()> {
        cache::load_ancestors(&mut self.connection, &mut self.cache, (self.log, from), (depth, 0)).await
    }

    /// Loads the nodes that lead from an entry to its nearest ancestor with at most this sequence number, or to the
    /// root if there is none.
    async fn load_up_to_seq(&mut self, from: u64, seq: u64) -> Result<()> {
        cache::load_ancestors(&mut self.connection, &mut self.cache, (self.log, from), (1, seq)).await
    }

    async fn finish<T>(self, page: PageBuilder<T>) -> Result<Page<T>> {
        self.connection.commit().await?;
        Ok(page.finish(|at| at.to_cursor(&self.tenant.constants.cursor_key, &self.scope)))
    }

    fn log_arguments(&self) -> Result<PgArguments> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, self.log)?;
        Ok(arguments)
    }

    fn limit_plus_one(&self) -> Result<i64> {
        signed(store_core::length(self.limit) + 1)
    }

    fn after_seq(&self) -> Result<i64> {
        signed(self.after.as_ref().map_or(0, |after| after.rank))
    }

    /// Returns entries by their sequence numbers, in the order of the log. All of them must exist.
    async fn entries(&mut self, seqs: &[u64]) -> Result<Vec<(u64, u64, Arc<Entry>)>> {
        let mut arguments = self.log_arguments()?;
        add(&mut arguments, seqs.iter().map(|seq| signed(*seq)).collect::<Result<Vec<_>>>()?)?;
        let rows = self.connection.read(|sql| &sql.load_entries, arguments).await?;
        let found = rows.iter().map(decode_entry).collect::<Result<Vec<_>>>()?;
        let is_complete = found.len() == seqs.len();
        if is_complete { Ok(found) } else { Err(corrupt("an entry of a log is missing")) }
    }

    async fn leaves(mut self) -> Result<Page<Leaf>> {
        let mut page = PageBuilder::new(self.limit);
        let head = self.stored.head_seq;
        let is_head_leaf = match head {
            Some(head) => self.run_rule(|cache| Ok(cache.marks(head)?.children == 0)).await?,
            None => false,
        };
        let mut arguments = self.log_arguments()?;
        add(&mut arguments, self.after_seq()?)?;
        add(&mut arguments, head.filter(|_| is_head_leaf).map(signed).transpose()?)?;
        add(&mut arguments, self.limit_plus_one()?)?;
        for row in self.connection.read(|sql| &sql.list_leaves, arguments).await? {
            let (leaf, _node) = decode_leaf(read_u64(&row, 0)?, &read_text(&row, 1)?, &read_text(&row, 2)?)?;
            if !page.offer(Position::new(leaf.seq, ""), 64, Some(leaf)) {
                break;
            }
        }
        self.finish(page).await
    }

    async fn branch_points(mut self) -> Result<Page<BranchPoint>> {
        let mut page = PageBuilder::new(self.limit);
        // Position 0 stands for the point before the first entry.
        if self.after.is_none() && self.stored.roots > 1 {
            page.offer(Position::new(0, ""), 64, Some(BranchPoint::new(None, self.stored.roots)));
        }
        let mut arguments = self.log_arguments()?;
        add(&mut arguments, self.after_seq()?)?;
        add(&mut arguments, self.limit_plus_one()?)?;
        for row in self.connection.read(|sql| &sql.list_branches, arguments).await? {
            let (seq, id) = (read_u64(&row, 0)?, read_text(&row, 1)?.parse()?);
            let children = u32::try_from(read_u64(&row, 2)?).unwrap_or(u32::MAX);
            if !page.offer(Position::new(seq, ""), 64, Some(BranchPoint::new(Some(id), children))) {
                break;
            }
        }
        self.finish(page).await
    }

    async fn snapshots(mut self) -> Result<Page<Snapshot>> {
        let mut page = PageBuilder::new(self.limit);
        // A name can be too long for a cursor. The cursor therefore contains the sequence number of the entry that gave
        // the name.
        let (after_name, after_seq) = match self.after.clone() {
            Some(after) if after.extra_number > self.stored.thread.version.number() => {
                return Err(Error::invalid_cursor("its entry does not exist"));
            }
            Some(after) => {
                let naming_entry = self.entries(&[after.extra_number]).await?.pop();
                let name = naming_entry.as_ref().and_then(|(.., entry)| assigned_name(entry)).unwrap_or_default();
                (name.to_owned(), signed(after.rank)?)
            }
            None => (String::new(), 0),
        };
        let mut arguments = self.log_arguments()?;
        add(&mut arguments, after_name.as_bytes())?;
        add(&mut arguments, after_seq)?;
        add(&mut arguments, self.limit_plus_one()?)?;
        for row in self.connection.read(|sql| &sql.list_snapshots, arguments).await? {
            let (name, seq, naming_seq) = (read_name(&row, 0)?, read_u64(&row, 1)?, read_u64(&row, 2)?);
            let (leaf, node) = decode_leaf(seq, &read_text(&row, 3)?, &read_text(&row, 4)?)?;
            let snapshot = Snapshot::new(name, node.checkpoint_number.unwrap_or_default(), leaf);
            if !page.offer(Position { extra_number: naming_seq, ..Position::new(seq, "") }, 64, Some(snapshot)) {
                break;
            }
        }
        self.finish(page).await
    }

    async fn context(mut self, request: &ContextRequest) -> Result<ThreadContext> {
        let thread = self.stored.thread.clone();
        let mut found = ThreadContext::empty(thread.clone());
        let seq = match &request.at {
            Some(id) => {
                Some(self.run_rule(|cache| cache.entry(id)).await?.ok_or_else(|| Error::not_found("entry", id))?)
            }
            None => self.stored.head_seq,
        };
        if let Some(seq) = seq {
            let (node, marks, id) =
                self.run_rule(|cache| Ok((cache.node(seq)?, cache.marks(seq)?, cache.entry_id(seq)?))).await?;
            let parts = self.run_rule(|cache| context::parts(cache, &node)).await?;
            let seqs: Vec<u64> = parts.iter().map(|part| part.seq()).collect();
            let mut sorted_seqs = seqs.clone();
            sorted_seqs.sort_unstable();
            sorted_seqs.dedup();
            let entries = self.entries(&sorted_seqs).await?;
            let with_entry = |part: context::ContextPart| {
                let at = entries.binary_search_by_key(&part.seq(), |(seq, ..)| *seq);
                let entry = at.ok().and_then(|at| entries.get(at)).map(|(.., entry)| Arc::clone(entry));
                entry.map(|entry| (part, entry)).ok_or_else(|| corrupt("an entry of a log is missing"))
            };
            let parts_with_entries = parts.into_iter().map(with_entry).collect::<Result<Vec<_>>>()?;
            found.context = context::build(parts_with_entries, request);
            found.context_size = context::context_size(&node, &marks);
            found.next_checkpoint = context::next_checkpoint(&node);
            found.at = Some(id);
        }
        found.state = self.state().await?;
        let (latest, open) = (thread.latest_run.clone(), thread.open_runs.clone());
        let run = |cache: &RecordCache, id| cache.run(id)?.ok_or_else(|| corrupt("a run of a thread is missing"));
        let runs = self.run_rule(|cache| {
            let open = open.iter().map(|id| run(cache, id)).collect::<Vec<_>>();
            let latest = latest.as_ref().map(|id| run(cache, id)).transpose()?;
            Ok((latest, open.into_iter().collect::<Result<Vec<_>>>()?))
        });
        (found.latest_run, found.open_runs) = runs.await?;
        self.connection.commit().await?;
        Ok(found)
    }

    async fn state(&mut self) -> Result<ThreadState> {
        let arguments = self.log_arguments()?;
        let rows = self.connection.read(|sql| &sql.load_state, arguments).await?;
        let value = |text: &str| Json::parse(text).map_err(|e| corrupt("a value of a thread's state").with_source(e));
        rows.iter().map(|row| Ok((read_name(row, 0)?, value(&read_text(row, 1)?)?))).collect()
    }
}

/// Decodes an entry. Returns it with its sequence number and the length of its record.
fn decode_entry(row: &sqlx::postgres::PgRow) -> Result<(u64, u64, Arc<Entry>)> {
    let body = read_text(row, 1)?;
    Ok((read_u64(row, 0)?, store_core::length(body.len()), Arc::new(decode::<Entry>("entry", &body)?)))
}

fn decode_leaf(seq: u64, node: &str, body: &str) -> Result<(Leaf, Node)> {
    let (node, entry) = (decode::<Node>("node", node)?, decode::<Entry>("entry", body)?);
    Ok((Leaf::new(entry.id.clone(), seq, node.depth, entry.timestamp), node))
}
