//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxReader,
    Page, PageBuilder, PageRequest, Position, Purge, ReadyThread, Result, ThreadId, Timestamp,
    commit::Setting,
    length,
    mailbox::{self, StoredDispatch},
};

use super::NatsMailbox;
use crate::{
    decide::Apart,
    tenant::Tenant,
    view::{Mailbox, ReadyPlace, Walk},
};

/// Looks how far the log is, and reads of the tenant what it says; the default if there is no such tenant.
async fn read<T: Default>(tenant: &Tenant, read: impl FnOnce(&Mailbox) -> Result<T> + Send) -> Result<T> {
    tenant.log().look().await?;
    let view = tenant.log().view();
    tenant.life(&view)?.map_or_else(|| Ok(T::default()), |life| read(&life.mailbox))
}

#[async_trait]
impl MailboxReader for NatsMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let found = read(&tenant, |mailbox| {
                let row = mailbox.row(&id);
                row.map(|row| Ok((mailbox::seen(mailbox, &row.stored)?, Apart::of(mailbox, &id)))).transpose()
            });
            let Some((mut dispatch, apart)) = found.await? else { return Ok(None) };
            apart.fill(&tenant, &mut dispatch).await?;
            Ok(Some(dispatch))
        };
        self.tenant.read(call).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.tenant.read(|tenant: Arc<Tenant>| async move { list(&tenant, &query).await }).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        let call =
            |tenant: Arc<Tenant>| async move { read(&tenant, |mailbox| Ok(mailbox.counts(thread.as_ref()))).await };
        self.tenant.read(call).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.tenant.read(|tenant: Arc<Tenant>| async move { ready(&tenant, &page).await }).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let thread = thread.clone();
        self.tenant
            .read(|tenant: Arc<Tenant>| async move { read(&tenant, |mailbox| Ok(mailbox.epoch(&thread))).await })
            .await
    }
}

async fn list(tenant: &Tenant, query: &DispatchQuery) -> Result<Page<Dispatch>> {
    query.check()?;
    let limit = query.page.checked_limit()?;
    let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.binding());
    let after = Position::open(&tenant.common.cursors, &scope, query.page.cursor.as_ref())?;
    let listed = read(tenant, |mailbox| {
        let mut page = Listed { mailbox, query, page: PageBuilder::new(limit) };
        match query.order {
            DispatchOrder::Creation => page.by_creation(after.as_ref())?,
            DispatchOrder::End => page.by_end(after.as_ref())?,
            DispatchOrder::Claim => page.by_claim(after.as_ref())?,
        }
        Ok(Some(page.page.finish(|at| at.seal(&tenant.common.cursors, &scope))))
    });
    let Page { items: found, next } = listed.await?.unwrap_or_else(Page::empty);
    let mut items = Vec::with_capacity(found.len());
    for (mut dispatch, apart) in found {
        apart.fill(tenant, &mut dispatch).await?;
        items.push(dispatch);
    }
    Ok(Page { items, next })
}

/// A page of a list of dispatches.
struct Listed<'a> {
    mailbox: &'a Mailbox,
    query: &'a DispatchQuery,
    page: PageBuilder<(Dispatch, Apart)>,
}

impl Listed<'_> {
    fn by_creation(&mut self, after: Option<&Position>) -> Result<()> {
        let after = after.map(place).transpose()?;
        let walk = Walk { direction: self.query.direction, after };
        for (time, stored) in self.mailbox.by_creation(&self.query.filter, &walk) {
            if !self.offer(Position::new(time.as_millis(), stored.id().as_str()), stored)? {
                break;
            }
        }
        Ok(())
    }

    fn by_end(&mut self, after: Option<&Position>) -> Result<()> {
        for (time, stored) in self.mailbox.by_end(after.map(place).transpose()?, self.query.direction) {
            if !self.offer(Position::new(time.as_millis(), stored.id().as_str()), stored)? {
                break;
            }
        }
        Ok(())
    }

    fn by_claim(&mut self, after: Option<&Position>) -> Result<()> {
        let Some(thread) = &self.query.filter.thread else { return Ok(()) };
        let after = after.map(|at| u8::try_from(at.bound).map(|priority| (priority, at.rank)));
        let after = after.transpose().map_err(|e| Error::invalid_cursor("it is malformed").with_source(e))?;
        for ((priority, number), stored) in self.mailbox.by_claim(thread, after, self.query.direction) {
            let mut position = Position::new(number, "");
            position.bound = u64::from(priority);
            if !self.offer(position, stored)? {
                break;
            }
        }
        Ok(())
    }

    /// Offers a dispatch to the page, if the filter lets it through. Returns whether to go on.
    fn offer(&mut self, position: Position, stored: &StoredDispatch) -> Result<bool> {
        let seen = mailbox::seen(self.mailbox, stored)?;
        let apart = Apart::of(self.mailbox, &seen.id);
        let bytes = seen.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        let bytes = length(bytes) + apart.bytes();
        let item = self.query.filter.admits(&seen).then_some((seen, apart));
        Ok(self.page.offer(position, bytes, item))
    }
}

async fn ready(tenant: &Tenant, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let mut found = PageBuilder::new(request.checked_limit()?);
    let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
    let after = Position::open(&tenant.common.cursors, &scope, request.cursor.as_ref())?;
    let after = after.map(|at| ready_place(&at)).transpose()?;
    tenant.log().look().await?;
    let now = tenant.log().now()?;
    let Some(incarnation) = tenant.life(&tenant.log().view())?.map(|life| life.record.incarnation) else {
        return Ok(Page::empty());
    };
    let mut view = tenant.log().view_mut();
    let mailbox = &mut view.life_mut(&tenant.name, incarnation).ok_or_else(Error::closed)?.mailbox;
    mailbox.turn_to(now);
    let config = &tenant.common.config;
    for (priority, since, thread) in mailbox.ready(after.as_ref(), now) {
        let item = mailbox::ready(&*mailbox, &thread, Setting::new(now, &config.limits, &*config.ids))?;
        let mut position = Position::new(since.as_millis(), thread.as_str());
        position.bound = u64::from(priority);
        if !found.offer(position, 0, item) {
            break;
        }
    }
    Ok(found.finish(|at| at.seal(&tenant.common.cursors, &scope)))
}

/// What ended before a time, the oldest first.
pub(super) fn ended(tenant: &Tenant, request: &Purge) -> Result<Vec<DispatchId>> {
    let view = tenant.log().view();
    let Some(life) = tenant.life(&view)? else { return Ok(Vec::new()) };
    let ended = life.mailbox.by_end(None, Direction::Forward);
    let before = ended.take_while(|(end, _)| *end < request.before).take(request.limit as usize);
    Ok(before.map(|(_, stored)| stored.id().clone()).collect())
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
