//! Reading the mailbox.

use async_trait::async_trait;
use store_core::{
    CursorScope, Dispatch, DispatchCounts, DispatchId, DispatchQuery, MailboxReader, Page, PageBuilder, PageRequest,
    Position, ReadyThread, Result, ThreadId, mailbox,
};

use super::MemoryMailbox;

#[async_trait]
impl MailboxReader for MemoryMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let mailbox = self.tenant.check_open()?.mailbox.read();
        mailbox.get(id).map(|stored| mailbox::visible_dispatch(&*mailbox, stored)).transpose()
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        let tenant = self.tenant.check_open()?;
        query.check()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.cursor_binding());
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, query.page.cursor.as_ref())?;
        // Besides the dispatch itself, nothing is read for an item.
        let make_item = |dispatch| (dispatch, 0);
        tenant.mailbox.read().list(&query, after.as_ref(), &mut page, make_item)?;
        Ok(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)))
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        Ok(self.tenant.check_open()?.mailbox.read().counts(thread))
    }

    async fn list_ready_threads(&self, request: PageRequest) -> Result<Page<ReadyThread>> {
        let tenant = self.tenant.check_open()?;
        let mut page = PageBuilder::new(request.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, request.cursor.as_ref())?;
        tenant.mailbox.write().list_ready(after.as_ref(), &mut page, tenant.decision_context())?;
        Ok(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)))
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        Ok(self.tenant.check_open()?.mailbox.read().epoch(thread))
    }
}
