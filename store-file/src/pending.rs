//! Pending input: reading queues, and handing their changes to the writer.

use async_trait::async_trait;
use store_core::{
    AppendPending, AppendedInputs, CursorScope, Direction, EntryId, Error, Page, PageBuilder, PageRequest,
    PendingInput, PendingQueue, PendingStore, PendingUpdate, Position, Reorder, Result, TenantId, ThreadId,
};

use crate::{
    codec::{InputRow, damaged},
    index, line, pages, records,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::{Answer, Ask},
};

#[async_trait]
impl PendingStore for Tenant {
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs> {
        match self.write(request.thread.clone(), Ask::Append(Box::new(request))).await? {
            Answer::AppendedInputs(appended) => Ok(appended),
            _ => Err(Error::closed()),
        }
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| load(shared, tenant, &thread)).await
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        self.change_input(request.thread.clone(), Ask::Change(Box::new(request))).await
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        self.change_input(thread.clone(), Ask::Retract(id.clone())).await
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        match self.write(request.thread.clone(), Ask::Reorder(Box::new(request))).await? {
            Answer::Revision(revision) => Ok(revision),
            _ => Err(Error::closed()),
        }
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &page)).await
    }
}

impl Tenant {
    async fn change_input(&self, thread: ThreadId, ask: Ask) -> Result<PendingInput> {
        match self.write(thread, ask).await? {
            Answer::Input(input) => Ok(*input),
            _ => Err(Error::closed()),
        }
    }
}

fn load(shared: &Shared, tenant: &TenantId, thread: &ThreadId) -> Result<PendingQueue> {
    let snapshot = shared.index.snapshot();
    let Some(row) = shared.thread_row(&snapshot, tenant, thread)? else { return Ok(PendingQueue::new(0, [])) };
    let spans = inputs(&snapshot, row.log)?.into_iter().map(|row| row.span).collect::<Vec<_>>();
    let inputs = records::read_all(shared, row.log, &spans, line::decode_input)?.into_iter().map(|stored| stored.input);
    Ok(PendingQueue::new(row.stored.queue.revision, inputs))
}

/// The pending inputs of a log, in order.
pub(crate) fn inputs(snapshot: &index::Snapshot, log: u64) -> Result<Vec<InputRow>> {
    let pairs = snapshot.prefix(table::inputs(log).as_bytes(), Direction::Forward);
    pairs.map(|pair| InputRow::decode(&pair?.1).ok_or_else(|| damaged("pending input"))).collect()
}

fn list(shared: &Shared, tenant: &TenantId, request: &PageRequest) -> Result<Page<ThreadId>> {
    let mut page = PageBuilder::new(request.checked_limit()?);
    let scope = CursorScope::new(tenant, "threads with pending input", "");
    let from = Position::from_cursor(&shared.cursor_key, &scope, request.cursor.as_ref())?;
    let list = table::pending_threads(tenant);
    let at = from.map(|from| list.clone().text(&from.id).into_bytes());
    let snapshot = shared.index.snapshot();
    for pair in pages::behind(&snapshot, &list, Direction::Forward, at) {
        let (_, id) = table::read_pending_thread(&pair?.0).ok_or_else(|| damaged("pending input"))?;
        let thread = ThreadId::new(id)?;
        if !page.offer(Position::new(0, thread.as_str()), 0, Some(thread)) {
            break;
        }
    }
    Ok(page.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
}
