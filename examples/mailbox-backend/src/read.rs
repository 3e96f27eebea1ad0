//! Reads a mailbox.

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchId, DispatchQuery, MailboxReader, Page, PageRequest,
    ReadyThread, Result, ThreadId, length, mailbox,
};

use crate::{mailbox::MapTenant, page::ListRequest};

/// The first part of the sort key of a thread whose lease has expired. For a free thread it is the priority. This
/// number is greater than every priority, so that threads with an expired lease are listed after the free ones.
const AFTER_ALL_PRIORITIES: u64 = 256;

#[async_trait]
impl MailboxReader for MapTenant {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.with_data(|data, _| data.load_dispatch(id))
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.with_data(|data, _| {
            query.check()?;
            let scope = CursorScope::new(&self.tenant, "list_dispatches", &query.cursor_binding());
            let records = data.list_dispatches(&query.filter, query.order)?.into_iter().map(|(sort_key, dispatch)| {
                let bytes = dispatch.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()));
                (sort_key, bytes, dispatch)
            });
            ListRequest { scope, direction: query.direction, page: query.page }
                .build_page(&self.shared.cursor_key, records)
        })
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.with_data(|data, _| Ok(data.counts(thread)))
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.with_data(|data, decision_context| {
            let scope = CursorScope::new(&self.tenant, "list_ready_threads", "");
            let ready_threads = data.ready_threads(decision_context.now).into_iter();
            let ready_threads = ready_threads.map(|(priority, since, thread)| (u64::from(priority), since, thread));
            let expired_threads = data
                .expired_leases(decision_context.now)
                .into_iter()
                .map(|(end, thread)| (AFTER_ALL_PRIORITIES, end, thread));
            let mut records = Vec::new();
            for (first, time, thread) in ready_threads.chain(expired_threads) {
                if let Some(ready) = mailbox::ready_thread(data, &thread, decision_context)? {
                    records.push(((first, time.as_millis(), thread.to_string()), 0, ready));
                }
            }
            ListRequest { scope, direction: Direction::Forward, page }
                .build_page(&self.shared.cursor_key, records.into_iter())
        })
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.with_data(|data, _| Ok(data.epoch(thread)))
    }
}
