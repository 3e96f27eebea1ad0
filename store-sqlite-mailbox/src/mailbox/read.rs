//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchFilter, DispatchId, DispatchOrder, DispatchQuery, Error,
    ErrorKind, MailboxReader, Page, PageBuilder, PageRequest, Position, Purge, ReadyThread, Result, ThreadId,
    Timestamp,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxView},
};

use super::TenantMailbox;
use crate::{
    rows::{DispatchWalk, ReadyPosition, Rows},
    tenant::Tenant,
};

/// In the list of ready threads, threads with an expired lease have this value in place of a priority. So they come
/// after all others.
const EXPIRED_LEASE_PRIORITY: u64 = 256;
/// The number of threads whose due dispatches are made available in one call.
const MAX_PROMOTED: u32 = 1_000;

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
        self.promote_all_due().await?;
        self.tenant.read(None, move |rows| list_ready(&tenant, rows, &page)).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let id = thread.clone();
        self.tenant.read(Some(thread.clone()), move |rows| rows.epoch(&id)).await
    }
}

impl TenantMailbox {
    /// Makes due dispatches available, if there are any.
    async fn promote_all_due(&self) -> Result<()> {
        let shared = Arc::clone(&self.tenant.shared);
        let is_due = move |rows: &Rows<'_>| Ok(!rows.due_threads(shared.store_context.clock.now(), 1)?.is_empty());
        while self.tenant.read(None, is_due.clone()).await? {
            let promote_due = |rows: &Rows<'_>, decision_context: DecisionContext<'_>| {
                for thread in rows.due_threads(decision_context.now, MAX_PROMOTED)? {
                    rows.promote_due(&thread, decision_context.now)?;
                }
                Ok(Ok(()))
            };
            match self.tenant.write(None, promote_due).await {
                // The store no longer writes, but it still lists what is already available.
                Err(error) if error.kind() == ErrorKind::Poisoned => break,
                answer => answer?,
            }
        }
        Ok(())
    }
}

fn list(tenant: &Tenant, rows: &Rows<'_>, query: &DispatchQuery) -> Result<Page<Dispatch>> {
    let (limit, cursor_key) = (query.page.checked_limit()?, &tenant.store_context().cursor_key);
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.cursor_binding());
    let after = Position::from_cursor(cursor_key, &scope, query.page.cursor.as_ref())?;
    let listing = (&query.filter, query.order, query.direction);
    let mut walk = DispatchWalk::new(rows, listing, after.as_ref(), limit + 1)?;
    while let Some(listed) = walk.next()? {
        let found = rows.load(&listed.id()?)?;
        let bytes = found.as_ref().and_then(|found| found.payload.as_ref()).map_or(0, |payload| payload.as_str().len());
        let item = found.filter(|dispatch| query.filter.admits(dispatch));
        if !page.offer(listed.position, length(bytes), item) {
            break;
        }
    }
    Ok(page.finish(|at| at.to_cursor(cursor_key, &scope)))
}

/// A selection of dispatches, for a call that changes them.
pub(super) struct Selection<'a> {
    pub(super) filter: &'a DispatchFilter,
    pub(super) order: DispatchOrder,
}

impl Selection<'_> {
    /// Returns the ids of the first selected dispatches.
    pub(super) fn first_ids(
        &self,
        rows: &Rows<'_>,
        max_count: usize,
        is_wanted: impl Fn(&Dispatch) -> bool,
    ) -> Result<Vec<DispatchId>> {
        let mut walk = DispatchWalk::new(rows, (self.filter, self.order, Direction::Forward), None, max_count)?;
        let mut found = Vec::new();
        while found.len() < max_count {
            let Some(listed) = walk.next()? else { break };
            let id = listed.id()?;
            let Some(stored) = rows.dispatch(&id)? else { continue };
            if is_wanted(&mailbox::visible_dispatch(rows, &stored)?) {
                found.push(id);
            }
        }
        Ok(found)
    }
}

/// Returns the dispatches that the request names, or else those that ended before its time, oldest first.
pub(super) fn dispatches_to_purge(rows: &Rows<'_>, request: &Purge) -> Result<Vec<DispatchId>> {
    if !request.ids.is_empty() {
        return Ok(request.ids.clone());
    }
    let listing = (&DispatchFilter::default(), DispatchOrder::End, Direction::Forward);
    let (mut walk, max_count) =
        (DispatchWalk::new(rows, listing, None, request.limit as usize)?, request.limit as usize);
    let mut found = Vec::new();
    while found.len() < max_count {
        let Some(listed) = walk.next()? else { break };
        if listed.position.rank >= request.before.as_millis() {
            break;
        }
        found.push(listed.id()?);
    }
    Ok(found)
}

fn malformed_cursor(e: Error) -> Error {
    Error::invalid_cursor("it is malformed").with_source(e)
}

/// The list of ready threads after a position: first threads that are not claimed, then those whose lease has expired.
struct ReadyThreads {
    unclaimed_after: Option<ReadyPosition>,
    expired_after: Option<(Timestamp, ThreadId)>,
    is_in_unclaimed_part: bool,
}

impl ReadyThreads {
    fn starting_after(after: Option<&Position>) -> Result<Self> {
        let Some(at) = after else {
            return Ok(Self { unclaimed_after: None, expired_after: None, is_in_unclaimed_part: true });
        };
        let time = Timestamp::from_millis(at.rank).map_err(malformed_cursor)?;
        let thread = ThreadId::new(&at.id).map_err(malformed_cursor)?;
        match u8::try_from(at.extra_number) {
            Ok(priority) => Ok(Self {
                unclaimed_after: Some((priority, time, thread)),
                expired_after: None,
                is_in_unclaimed_part: true,
            }),
            Err(_) if at.extra_number == EXPIRED_LEASE_PRIORITY => {
                Ok(Self { unclaimed_after: None, expired_after: Some((time, thread)), is_in_unclaimed_part: false })
            }
            Err(e) => Err(Error::invalid_cursor("it is malformed").with_source(e)),
        }
    }

    /// Returns the next threads of the list, each with its position. The result is empty at the end of the list.
    fn next(&mut self, rows: &Rows<'_>, now: Timestamp, max_count: u32) -> Result<Vec<(Position, ThreadId)>> {
        let position = |extra_number, time: Timestamp, thread: &ThreadId| Position {
            extra_number,
            ..Position::new(time.as_millis(), thread.as_str())
        };
        if self.is_in_unclaimed_part {
            let found = rows.ready_threads(self.unclaimed_after.as_ref(), max_count)?;
            if let Some(last) = found.last() {
                self.unclaimed_after = Some(last.clone());
                let with_position = |(priority, since, thread)| (position(u64::from(priority), since, &thread), thread);
                return Ok(found.into_iter().map(with_position).collect());
            }
            self.is_in_unclaimed_part = false;
        }
        let found = rows.expired_leases(now, self.expired_after.as_ref(), max_count)?;
        self.expired_after = found.last().cloned().or_else(|| self.expired_after.take());
        Ok(found.into_iter().map(|(end, thread)| (position(EXPIRED_LEASE_PRIORITY, end, &thread), thread)).collect())
    }
}

fn list_ready(tenant: &Tenant, rows: &Rows<'_>, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let (limit, store_context) = (request.checked_limit()?, tenant.store_context());
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
    let after = Position::from_cursor(&store_context.cursor_key, &scope, request.cursor.as_ref())?;
    let mut threads = ReadyThreads::starting_after(after.as_ref())?;
    let decision_context = DecisionContext::new(store_context.clock.now(), &store_context.limits, &*store_context.ids);
    let max_count = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    'all: loop {
        let found = threads.next(rows, decision_context.now, max_count)?;
        if found.is_empty() {
            break;
        }
        for (position, thread) in found {
            let item = mailbox::ready_thread(rows, &thread, decision_context)?;
            if !page.offer(position, 0, item) {
                break 'all;
            }
        }
    }
    Ok(page.finish(|at| at.to_cursor(&store_context.cursor_key, &scope)))
}
