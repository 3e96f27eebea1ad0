//! Reading the mailbox.

use async_trait::async_trait;
use store_core::{
    CursorScope, Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxReader, Page,
    PageBuilder, PageRequest, Position, ReadyThread, Result, TenantId, ThreadId, Timestamp,
    commit::DecisionContext,
    length,
    mailbox::{self, MailboxView},
};

use crate::{
    codec::{damaged, read},
    dispatch_lists::{Place, by_creation, by_end},
    dispatch_rows::{MailboxRow, MailboxRows},
    dispatches::{MailboxTable, check},
    fold::mailbox::turn_all,
    index::{Direction, Snapshot},
    shared::Shared,
    staged::Staged,
    table::{self, MailboxList},
    tenant::Tenant,
    walk,
};

/// After all priorities: threads whose lease has expired, by its end.
const LEASED: u64 = 256;

#[async_trait]
impl MailboxReader for Tenant {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        self.read(None, move |shared, tenant| {
            check(shared, tenant)?;
            let snapshot = shared.index.snapshot();
            let table = MailboxTable::new(&snapshot, shared, tenant).with_payloads();
            table.dispatch(&id)?.map(|stored| mailbox::visible_dispatch(&table, &stored)).transpose()
        })
        .await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &query)).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        self.read(None, move |shared, tenant| {
            check(shared, tenant)?;
            let snapshot = shared.index.snapshot();
            if let Some(thread) = thread {
                shared.check_damage(tenant, &thread)?;
                return Ok(snapshot.mailbox_row(tenant, &thread)?.map(|row| row.mailbox.counts).unwrap_or_default());
            }
            let mut counts = DispatchCounts::default();
            for pair in snapshot.prefix(table::mailboxes(tenant).as_bytes(), Direction::Forward) {
                let row: MailboxRow = read("mailbox", &pair?.1)?;
                counts = counts.plus(&row.mailbox.counts);
            }
            Ok(counts)
        })
        .await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.read(None, move |shared, tenant| ready(shared, tenant, &page)).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let thread = thread.clone();
        self.read(None, move |shared, tenant| {
            check(shared, tenant)?;
            shared.check_damage(tenant, &thread)?;
            Ok(shared.index.mailbox_row(tenant, &thread)?.map_or(0, |row| row.mailbox.epoch))
        })
        .await
    }
}

type Found = PageBuilder<Dispatch>;

/// The mailbox as a page is read of it.
struct Listed<'a> {
    snapshot: &'a Snapshot,
    table: MailboxTable<'a, Snapshot>,
    tenant: &'a TenantId,
    query: &'a DispatchQuery,
}

fn list(shared: &Shared, tenant: &TenantId, query: &DispatchQuery) -> Result<Page<Dispatch>> {
    query.check()?;
    let mut page = PageBuilder::new(query.page.checked_limit()?);
    check(shared, tenant)?;
    let scope = CursorScope::new(tenant, "list_dispatches", &query.cursor_binding());
    let after = Position::from_cursor(&shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    if let Some(thread) = &query.filter.thread {
        shared.check_damage(tenant, thread)?;
    }
    let snapshot = shared.index.snapshot();
    // Like a list of threads, this list has dispatches whose logs are damaged: the caller that ends them needs their
    // ids.
    let table = MailboxTable::new(&snapshot, shared, tenant).despite_damage();
    let listed = Listed { snapshot: &snapshot, table, tenant, query };
    match query.order {
        DispatchOrder::Creation => {
            let after = after.as_ref().map(place).transpose()?;
            let places = by_creation(&snapshot, tenant, &query.filter, (after.as_ref(), query.direction));
            listed.timed(places, &mut page)?;
        }
        DispatchOrder::End => {
            let after = after.as_ref().map(place).transpose()?;
            listed.timed(by_end(&snapshot, tenant, (after, query.direction)), &mut page)?;
        }
        DispatchOrder::Claim => listed.by_claim(after.as_ref(), &mut page)?,
    }
    Ok(page.finish(|at| at.to_cursor(&shared.cursor_key, &scope)))
}

impl Listed<'_> {
    fn timed(&self, places: impl Iterator<Item = Result<Place>>, page: &mut Found) -> Result<()> {
        for found in places {
            let (time, id) = found?;
            if !self.offer(&id, Position::new(time.as_millis(), id.as_str()), page)? {
                break;
            }
        }
        Ok(())
    }

    fn by_claim(&self, after: Option<&Position>, page: &mut Found) -> Result<()> {
        let Some(thread) = &self.query.filter.thread else { return Ok(()) };
        let epoch = self.snapshot.mailbox_row(self.tenant, thread)?.map_or(0, |row| row.mailbox.epoch);
        let queue = table::mailbox_list(self.tenant, MailboxList::Queue(thread, epoch));
        let after = after.map(|at| -> Result<Vec<u8>> {
            let priority = u8::try_from(at.extra_number).map_err(|e| malformed().with_source(e))?;
            Ok(table::queue_place(queue.clone(), priority, at.rank).into_bytes())
        });
        for key in walk::keys(self.snapshot, queue.clone(), after.transpose()?, self.query.direction) {
            let key = key?;
            let (priority, number) = table::read_queue_place(&queue, &key).ok_or_else(|| damaged("queue"))?;
            let id = self.snapshot.dispatch_id(&key)?.ok_or_else(|| damaged("queue"))?;
            let mut position = Position::new(number, "");
            position.extra_number = u64::from(priority);
            if !self.offer(&id, position, page)? {
                break;
            }
        }
        Ok(())
    }

    /// Offers a dispatch to a page, if the filter lets it through. Returns whether to go on.
    fn offer(&self, id: &DispatchId, position: Position, page: &mut Found) -> Result<bool> {
        let row = self.snapshot.dispatch_row(self.tenant, id)?.ok_or_else(|| damaged("dispatch"))?;
        let mut seen = mailbox::visible_dispatch(&self.table, &row.stored())?;
        if !self.query.filter.admits(&seen) {
            return Ok(page.offer(position, 0, None));
        }
        seen.payload = self.table.payload(&row)?;
        let bytes = seen.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        Ok(page.offer(position, length(bytes), Some(seen)))
    }
}

fn malformed() -> Error {
    Error::invalid_cursor("it is malformed")
}

fn place(at: &Position) -> Result<Place> {
    let time = Timestamp::from_millis(at.rank).map_err(|e| malformed().with_source(e))?;
    Ok((time, DispatchId::new(&at.id).map_err(|e| malformed().with_source(e))?))
}

/// The threads that a claim could take now: what is due by now is made available for this reader alone.
fn ready(shared: &Shared, tenant: &TenantId, page: &PageRequest) -> Result<Page<ReadyThread>> {
    let mut found = PageBuilder::new(page.checked_limit()?);
    check(shared, tenant)?;
    let scope = CursorScope::new(tenant, "list_ready_threads", "");
    let after = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
    let setting = DecisionContext::new(shared.time.now(), &shared.limits, &*shared.config.ids);
    let snapshot = shared.index.snapshot();
    let mut staged = Staged::over(&snapshot);
    turn_all(&mut staged, tenant, setting.now)?;
    let table = MailboxTable::new(&staged, shared, tenant);
    let leased = after.as_ref().is_some_and(|at| at.extra_number >= LEASED);
    let (free, held) = if leased { (None, after.as_ref()) } else { (after.as_ref(), None) };
    let list = table::mailbox_list(tenant, MailboxList::Ready);
    let from = free.map(|at| -> Result<Vec<u8>> {
        let priority = u8::try_from(at.extra_number).map_err(|e| malformed().with_source(e))?;
        let (since, thread) = thread_place(at)?;
        Ok(table::ready_place(list.clone(), priority, since, &thread).into_bytes())
    });
    let free = walk::keys(&staged, list.clone(), from.transpose()?, Direction::Forward);
    let free = free.filter(|_| !leased).map(|key| -> Result<(u64, Timestamp, ThreadId)> {
        let (priority, since, thread) = table::read_ready_place(&list, &key?).ok_or_else(|| damaged("ready thread"))?;
        Ok((u64::from(priority), since, thread))
    });
    let leases = table::mailbox_list(tenant, MailboxList::Leases);
    let from = held.map(|at| -> Result<Vec<u8>> {
        let (end, thread) = thread_place(at)?;
        Ok(table::thread_place(leases.clone(), end, &thread).into_bytes())
    });
    let over = walk::keys(&staged, leases.clone(), from.transpose()?, Direction::Forward);
    let over = over.map(|key| -> Result<(u64, Timestamp, ThreadId)> {
        let (end, thread) = table::read_timed_place(&leases, &key?).ok_or_else(|| damaged("lease"))?;
        Ok((LEASED, end, thread))
    });
    let over = over.take_while(|place| place.as_ref().map_or(true, |(_, end, _)| *end <= setting.now));
    for place in free.chain(over) {
        let (bound, time, thread) = place?;
        if shared.check_damage(tenant, &thread).is_err() {
            continue;
        }
        let item = mailbox::ready_thread(&table, &thread, setting)?;
        let mut position = Position::new(time.as_millis(), thread.as_str());
        position.extra_number = bound;
        if !found.offer(position, 0, item) {
            break;
        }
    }
    Ok(found.finish(|at| at.to_cursor(&shared.cursor_key, &scope)))
}

fn thread_place(at: &Position) -> Result<(Timestamp, ThreadId)> {
    let time = Timestamp::from_millis(at.rank).map_err(|e| malformed().with_source(e))?;
    Ok((time, ThreadId::new(&at.id).map_err(|e| malformed().with_source(e))?))
}
