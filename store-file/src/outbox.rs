//! The outbox: reading it, and handing its changes to the writer.

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimedOutbox, CursorScope, Direction, Error, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxId,
    OutboxQuery, OutboxRow, OutboxStatus, OutboxStore, Page, PageBuilder, Position, PurgeOutbox, RequeueOutbox,
    Requeued, Result, SettleOutbox, TenantId, Timestamp, merge_ordered,
    outbox::{OutboxList, OutboxPosition, StoredOutboxRow},
};

use crate::{
    codec::{Rows, damaged},
    index::Snapshot,
    line,
    names::{Part, outbox_log_id},
    pages, records,
    shared::Shared,
    table,
    tenant::Tenant,
    writer::{Answer, Ask, OutboxAnswer, OutboxAsk},
};

impl Tenant {
    async fn ask_outbox(&self, ask: OutboxAsk) -> Result<OutboxAnswer> {
        match self.write_to((outbox_log_id()?, Part::Events), None, Ask::Outbox(ask)).await? {
            Answer::Outbox(answer) => Ok(*answer),
            _ => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl OutboxStore for Tenant {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        match self.ask_outbox(OutboxAsk::Claim(request, self.give_back(outbox_log_id()?))).await? {
            OutboxAnswer::Claimed(claimed) => claimed.received().ok_or_else(Error::closed),
            _ => Err(Error::closed()),
        }
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        match self.ask_outbox(OutboxAsk::Extend(request)).await? {
            OutboxAnswer::Extended(until) => Ok(until),
            _ => Err(Error::closed()),
        }
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        match self.ask_outbox(OutboxAsk::Settle(requests)).await? {
            OutboxAnswer::Settled(answers) => Ok(answers),
            _ => Err(Error::closed()),
        }
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        let id = id.clone();
        self.read(None, move |shared, tenant| {
            check(shared, tenant)?;
            let snapshot = shared.index.snapshot();
            let stored = snapshot.outbox_row(tenant, &id)?;
            stored.map(|stored| load(shared, tenant, &snapshot, stored)).transpose()
        })
        .await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &query)).await
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        let filter = filter.clone();
        self.read(None, move |shared, tenant| count(shared, tenant, &filter)).await
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        match self.ask_outbox(OutboxAsk::Requeue(request)).await? {
            OutboxAnswer::Requeued(answers) => Ok(answers),
            _ => Err(Error::closed()),
        }
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        match self.ask_outbox(OutboxAsk::Purge(request)).await? {
            OutboxAnswer::Purged(count) => Ok(count),
            _ => Err(Error::closed()),
        }
    }
}

/// Refuses to read an outbox whose log is damaged: the log says what became of rows.
fn check(shared: &Shared, tenant: &TenantId) -> Result<()> {
    shared.check_damage(tenant, &outbox_log_id()?)
}

/// A row with its payload.
fn load(shared: &Shared, tenant: &TenantId, snapshot: &Snapshot, stored: StoredOutboxRow) -> Result<OutboxRow> {
    let (log, span) = snapshot.outbox_payload(tenant, &stored.id)?.ok_or_else(|| damaged("outbox row"))?;
    Ok(OutboxRow::new(stored, records::read(shared, log, span, line::decode_payload)?))
}

fn list(shared: &Shared, tenant: &TenantId, query: &OutboxQuery) -> Result<Page<OutboxRow>> {
    let mut page = PageBuilder::new(query.page.checked_limit()?);
    check(shared, tenant)?;
    let scope = CursorScope::new(tenant, "list_outbox", &query.cursor_binding());
    let from = Position::from_cursor(&shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    let place = |at: Position| -> Result<OutboxPosition> {
        Ok(OutboxPosition { rank: (at.rank, 0), id: OutboxId::new(at.id).map_err(malformed)? })
    };
    let from = from.map(place).transpose()?;
    let snapshot = shared.index.snapshot();
    let (of, statuses) = query.filter.list_keys();
    let lists = statuses.into_iter().map(|status| {
        let list = OutboxList::Created(of.clone(), status);
        places(&snapshot, tenant, &list, (from.as_ref(), query.direction))
    });
    let backward = query.direction == Direction::Backward;
    let precedes = |a: &Result<OutboxPosition>, b: &Result<OutboxPosition>| match (a, b) {
        (Ok(a), Ok(b)) => (a > b) == backward,
        (a, _) => a.is_err(),
    };
    for found in merge_ordered(lists, precedes) {
        let place = found?;
        let stored = snapshot.outbox_row(tenant, &place.id)?.ok_or_else(|| damaged("outbox row"))?;
        let is_wanted = query.filter.admits(&stored);
        let item = if is_wanted { Some(load(shared, tenant, &snapshot, stored)?) } else { None };
        let bytes = item.as_ref().map_or(0, |row| store_core::length(row.payload.as_str().len()));
        if !page.offer(Position::new(place.rank.0, place.id.as_str()), bytes, item) {
            break;
        }
    }
    Ok(page.finish(|at| at.to_cursor(&shared.cursor_key, &scope)))
}

fn places<'a>(
    snapshot: &'a Snapshot,
    tenant: &TenantId,
    list: &OutboxList,
    from: (Option<&OutboxPosition>, Direction),
) -> impl Iterator<Item = Result<OutboxPosition>> + use<'a> {
    let (from, direction) = from;
    let list = table::outbox_list(tenant, list);
    let at = from.map(|place| table::outbox_place(list.clone(), place).into_bytes());
    pages::behind(snapshot, &list, direction, at)
        .map(move |pair| table::read_outbox_place(&list, &pair?.0).ok_or_else(|| damaged("place of an outbox row")))
}

fn count(shared: &Shared, tenant: &TenantId, filter: &OutboxFilter) -> Result<OutboxCounts> {
    check(shared, tenant)?;
    let snapshot = shared.index.snapshot();
    let mut counts = OutboxCounts::default();
    let (of, _) = filter.list_keys();
    for status in filter.accepted_statuses() {
        let list = table::outbox_list(tenant, &OutboxList::Created(of.clone(), Some(status)));
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
            let place = table::read_outbox_place(&list, &pair?.0).ok_or_else(|| damaged("place of an outbox row"))?;
            let admits = filter.lists_match_exactly()
                || snapshot.outbox_row(tenant, &place.id)?.is_some_and(|stored| filter.admits(&stored));
            counts.add(status, u64::from(admits));
        }
    }
    Ok(counts)
}
