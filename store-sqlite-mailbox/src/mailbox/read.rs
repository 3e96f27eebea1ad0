//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchFilter, DispatchId, DispatchOrder, DispatchQuery, Error,
    MailboxReader, Page, PageBuilder, PageRequest, Position, Purge, ReadyThread, Result, ThreadId, Timestamp,
    commit::Setting,
    length,
    mailbox::{self, MailboxView},
};

use super::TenantMailbox;
use crate::{
    rows::{ReadyPlace, Rows, Walk},
    tenant::Tenant,
};

/// The priority of threads whose leases are over, behind all others.
const LEASED: u64 = 256;
/// Threads that are made available in one go.
const TURNS: u32 = 1_000;

#[async_trait]
impl MailboxReader for TenantMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        self.tenant.read(None, move |rows| rows.load(&id)).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        query.check()?;
        let tenant = Arc::clone(&self.tenant);
        self.tenant.read(None, move |rows| list(&tenant, rows, &query)).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        self.tenant.read(None, move |rows| rows.counts(thread.as_ref())).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        let tenant = Arc::clone(&self.tenant);
        self.turn_all().await?;
        self.tenant.read(None, move |rows| ready(&tenant, rows, &page)).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let id = thread.clone();
        self.tenant.read(Some(thread.clone()), move |rows| rows.epoch(&id)).await
    }
}

impl TenantMailbox {
    /// Makes available what is due, if something is.
    async fn turn_all(&self) -> Result<()> {
        let clock = Arc::clone(&self.tenant.common);
        let is_due = move |rows: &Rows<'_>| Ok(!rows.due(clock.fixed.clock.now(), 1)?.is_empty());
        while self.tenant.read(None, is_due.clone()).await? {
            let turn = |rows: &Rows<'_>, setting: Setting<'_>| {
                for thread in rows.due(setting.now, TURNS)? {
                    rows.turn(&thread, setting.now, false)?;
                }
                Ok(Ok(()))
            };
            self.tenant.write(None, turn).await?;
        }
        Ok(())
    }
}

fn list(tenant: &Tenant, rows: &Rows<'_>, query: &DispatchQuery) -> Result<Page<Dispatch>> {
    let (limit, cursors) = (query.page.checked_limit()?, &tenant.fixed().cursors);
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.binding());
    let after = Position::open(cursors, &scope, query.page.cursor.as_ref())?;
    let of = (&query.filter, query.order, query.direction);
    let mut walk = Walk::new(rows, of, after.as_ref(), limit + 1)?;
    while let Some(walked) = walk.next()? {
        let found = rows.load(&walked.id()?)?;
        let bytes = found.as_ref().and_then(|found| found.payload.as_ref()).map_or(0, |payload| payload.as_str().len());
        let item = found.filter(|seen| query.filter.admits(seen));
        if !page.offer(walked.position, length(bytes), item) {
            break;
        }
    }
    Ok(page.finish(|at| at.seal(cursors, &scope)))
}

/// Which dispatches are wanted by a call that changes them.
pub(super) struct Listing<'a> {
    pub(super) filter: &'a DispatchFilter,
    pub(super) order: DispatchOrder,
}

impl Listing<'_> {
    /// The first that are wanted.
    pub(super) fn first(
        &self,
        rows: &Rows<'_>,
        most: usize,
        is_wanted: impl Fn(&Dispatch) -> bool,
    ) -> Result<Vec<DispatchId>> {
        let mut walk = Walk::new(rows, (self.filter, self.order, Direction::Forward), None, most)?;
        let mut found = Vec::new();
        while found.len() < most {
            let Some(walked) = walk.next()? else { break };
            let id = walked.id()?;
            let Some(stored) = rows.dispatch(&id)? else { continue };
            if is_wanted(&mailbox::seen(rows, &stored)?) {
                found.push(id);
            }
        }
        Ok(found)
    }
}

/// What ended before a time, the oldest first.
pub(super) fn ended(rows: &Rows<'_>, request: &Purge) -> Result<Vec<DispatchId>> {
    let of = (&DispatchFilter::default(), DispatchOrder::End, Direction::Forward);
    let (mut walk, most) = (Walk::new(rows, of, None, request.limit as usize)?, request.limit as usize);
    let mut found = Vec::new();
    while found.len() < most {
        let Some(walked) = walk.next()? else { break };
        if walked.position.rank >= request.before.as_millis() {
            break;
        }
        found.push(walked.id()?);
    }
    Ok(found)
}

fn malformed(e: Error) -> Error {
    Error::invalid_cursor("it is malformed").with_source(e)
}

/// Where a list of ready threads goes on: among the free ones, or among those whose lease is over.
fn begins(after: Option<&Position>) -> Result<(Option<ReadyPlace>, Option<(Timestamp, ThreadId)>, bool)> {
    let Some(at) = after else { return Ok((None, None, true)) };
    let (time, thread) =
        (Timestamp::from_millis(at.rank).map_err(malformed)?, ThreadId::new(&at.id).map_err(malformed)?);
    match u8::try_from(at.bound) {
        Ok(priority) => Ok((Some((priority, time, thread)), None, true)),
        Err(_) if at.bound == LEASED => Ok((None, Some((time, thread)), false)),
        Err(e) => Err(Error::invalid_cursor("it is malformed").with_source(e)),
    }
}

fn ready(tenant: &Tenant, rows: &Rows<'_>, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let (limit, fixed) = (request.checked_limit()?, tenant.fixed());
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
    let after = Position::open(&fixed.cursors, &scope, request.cursor.as_ref())?;
    let (mut free, mut leased, mut is_free) = begins(after.as_ref())?;
    let setting = Setting::new(fixed.clock.now(), &fixed.limits, &*fixed.ids);
    let most = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    'all: loop {
        let places: Vec<(u64, Timestamp, ThreadId)> = if is_free {
            let found = rows.ready(free.as_ref(), most)?;
            free = found.last().cloned().or(free);
            found.into_iter().map(|(priority, since, thread)| (u64::from(priority), since, thread)).collect()
        } else {
            let found = rows.lapsed(setting.now, leased.as_ref(), most)?;
            leased = found.last().cloned().or(leased);
            found.into_iter().map(|(end, thread)| (LEASED, end, thread)).collect()
        };
        if places.is_empty() && !is_free {
            break;
        }
        is_free = is_free && !places.is_empty();
        for (bound, time, thread) in places {
            let item = mailbox::ready(rows, &thread, setting)?;
            let position = Position { bound, ..Position::new(time.as_millis(), thread.as_str()) };
            if !page.offer(position, 0, item) {
                break 'all;
            }
        }
    }
    Ok(page.finish(|at| at.seal(&fixed.cursors, &scope)))
}
