//! Reading the mailbox.

use async_trait::async_trait;
use store_core::{
    CursorScope, Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxReader, Page,
    PageBuilder, PageRequest, Position, ReadyThread, Result, ThreadId, Timestamp, length,
    mailbox::{self, StoredDispatch},
};

use super::MemoryMailbox;
use crate::tenant::{Mailbox, ReadyPlace, Walk};

#[async_trait]
impl MailboxReader for MemoryMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let mailbox = self.tenant.opened()?.mailbox.read();
        mailbox.get(id).map(|stored| mailbox::seen(&*mailbox, stored)).transpose()
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        let tenant = self.tenant.opened()?;
        query.check()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.binding());
        let after = Position::open(&tenant.common.cursors, &scope, query.page.cursor.as_ref())?;
        let mailbox = tenant.mailbox.read();
        match query.order {
            DispatchOrder::Creation => by_creation(&mailbox, &query, after.as_ref(), &mut page)?,
            DispatchOrder::End => by_end(&mailbox, &query, after.as_ref(), &mut page)?,
            DispatchOrder::Claim => by_claim(&mailbox, &query, after.as_ref(), &mut page)?,
        }
        drop(mailbox);
        Ok(page.finish(|at| at.seal(&tenant.common.cursors, &scope)))
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        Ok(self.tenant.opened()?.mailbox.read().counts(thread))
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        let tenant = self.tenant.opened()?;
        let mut found = PageBuilder::new(page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
        let after = Position::open(&tenant.common.cursors, &scope, page.cursor.as_ref())?;
        let after = after.map(|at| ready_place(&at)).transpose()?;
        let mut mailbox = tenant.mailbox.write();
        let setting = tenant.setting();
        mailbox.turn_to(setting.now);
        for (priority, since, thread) in mailbox.ready(after.as_ref(), setting.now) {
            let item = mailbox::ready(&*mailbox, &thread, setting)?;
            let mut position = Position::new(since.as_millis(), thread.as_str());
            position.bound = u64::from(priority);
            if !found.offer(position, 0, item) {
                break;
            }
        }
        drop(mailbox);
        Ok(found.finish(|at| at.seal(&tenant.common.cursors, &scope)))
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        Ok(self.tenant.opened()?.mailbox.read().epoch(thread))
    }
}

type Found = PageBuilder<Dispatch>;

fn by_creation(mailbox: &Mailbox, query: &DispatchQuery, after: Option<&Position>, page: &mut Found) -> Result<()> {
    let after = after.map(place).transpose()?;
    let walk = Walk { direction: query.direction, after, from: None, before: None };
    for (time, stored) in mailbox.by_creation(&query.filter, &walk) {
        let position = Position::new(time.as_millis(), stored.id().as_str());
        if !offer(mailbox, query, stored, (position, page))? {
            break;
        }
    }
    Ok(())
}

fn by_end(mailbox: &Mailbox, query: &DispatchQuery, after: Option<&Position>, page: &mut Found) -> Result<()> {
    for (time, stored) in mailbox.by_end(after.map(place).transpose()?, query.direction) {
        let position = Position::new(time.as_millis(), stored.id().as_str());
        if !offer(mailbox, query, stored, (position, page))? {
            break;
        }
    }
    Ok(())
}

fn by_claim(mailbox: &Mailbox, query: &DispatchQuery, after: Option<&Position>, page: &mut Found) -> Result<()> {
    let Some(thread) = &query.filter.thread else { return Ok(()) };
    let after = after.map(|at| u8::try_from(at.bound).map(|priority| (priority, at.rank)));
    let after = after.transpose().map_err(|e| Error::invalid_cursor("it is malformed").with_source(e))?;
    for ((priority, number), stored) in mailbox.by_claim(thread, after, query.direction) {
        let mut position = Position::new(number, "");
        position.bound = u64::from(priority);
        if !offer(mailbox, query, stored, (position, page))? {
            break;
        }
    }
    Ok(())
}

/// Offers a dispatch to a page, if the filter lets it through. Returns whether to go on.
fn offer(
    mailbox: &Mailbox,
    query: &DispatchQuery,
    stored: &StoredDispatch,
    to: (Position, &mut Found),
) -> Result<bool> {
    let (position, page) = to;
    let seen = mailbox::seen(mailbox, stored)?;
    let bytes = seen.payload.as_ref().map_or(0, |payload| payload.as_str().len());
    let item = query.filter.admits(&seen).then_some(seen);
    Ok(page.offer(position, length(bytes), item))
}

fn place(at: &Position) -> Result<(Timestamp, DispatchId)> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok((Timestamp::from_millis(at.rank).map_err(malformed)?, DispatchId::new(&at.id).map_err(malformed)?))
}

fn ready_place(at: &Position) -> Result<ReadyPlace> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    let priority = u16::try_from(at.bound).map_err(|e| Error::invalid_cursor("it is malformed").with_source(e))?;
    let since = Timestamp::from_millis(at.rank).map_err(malformed)?;
    Ok((priority, since, ThreadId::new(&at.id).map_err(malformed)?))
}
