//! Reads a mailbox.

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchId, DispatchQuery, MailboxReader, Page, PageRequest,
    ReadyThread, Result, ThreadId, length, mailbox,
};

use crate::{mailbox::MapMailbox, page::List};

/// The rank of threads whose lease has expired. It is greater than that of every priority, so that these threads are
/// listed after the free ones.
const LEASED: u64 = 256;

#[async_trait]
impl MailboxReader for MapMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.with(|rows, _| rows.load(id))
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.with(|rows, _| {
            query.check()?;
            let scope = CursorScope::new(&self.tenant, "list_dispatches", &query.binding());
            let found = rows.list(&query.filter, query.order)?.into_iter().map(|(place, dispatch)| {
                let bytes = dispatch.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()));
                (place, bytes, dispatch)
            });
            List { scope, direction: query.direction, page: query.page }.page(&self.shared.cursors, found)
        })
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.with(|rows, _| Ok(rows.counts(thread)))
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.with(|rows, setting| {
            let scope = CursorScope::new(&self.tenant, "list_ready_threads", "");
            let free = rows.ready(setting.now).into_iter();
            let free = free.map(|(priority, since, thread)| (u64::from(priority), since, thread));
            let leased = rows.lapsed(setting.now).into_iter().map(|(end, thread)| (LEASED, end, thread));
            let mut found = Vec::new();
            for (bound, rank, thread) in free.chain(leased) {
                if let Some(ready) = mailbox::ready(rows, &thread, setting)? {
                    found.push(((bound, rank.as_millis(), thread.to_string()), 0, ready));
                }
            }
            List { scope, direction: Direction::Forward, page }.page(&self.shared.cursors, found.into_iter())
        })
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.with(|rows, _| Ok(rows.epoch(thread)))
    }
}
