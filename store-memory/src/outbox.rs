//! The outbox: claims, settlements, lists.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimedOutbox, CursorScope, Direction, Error, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxId,
    OutboxQuery, OutboxRow, OutboxStatus, OutboxStore, Page, PageBuilder, Position, PurgeOutbox, RequeueOutbox,
    Requeued, Result, SettleOutbox, Timestamp, length, merge_ordered,
    outbox::{self, OutboxList, OutboxPosition},
};

use crate::tenant::Tenant;

/// The outbox of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryOutbox {
    tenant: Arc<Tenant>,
}

impl MemoryOutbox {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl OutboxStore for MemoryOutbox {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut index = tenant.index.write();
        outbox::claim(&mut index.outbox, &request, tenant.decision_context())
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut index = tenant.index.write();
        outbox::extend(&mut index.outbox, &request, tenant.decision_context())
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut index = tenant.index.write();
        outbox::settle(&mut index.outbox, requests, tenant.decision_context())
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        Ok(self.tenant.check_open()?.index.read().outbox.get(id))
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        let tenant = self.tenant.check_open()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let scope = CursorScope::new(&tenant.name, "list_outbox", &query.cursor_binding());
        let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, query.page.cursor.as_ref())?;
        let after = after.map(|position| decode_position(&position)).transpose()?;
        let index = tenant.index.read();
        // There is a list for each of these statuses, and `None` stands for all statuses. The page merges the lists.
        let (subset, statuses) = query.filter.list_keys();
        let lists = statuses.into_iter().map(|status| {
            index.outbox.walk(&OutboxList::Created(subset.clone(), status), after.as_ref(), query.direction)
        });
        let is_backward = query.direction == Direction::Backward;
        for position in merge_ordered(lists, move |a, b| if is_backward { a > b } else { a < b }) {
            let Some(stored) = index.outbox.stored_row(&position.id) else { continue };
            let item = query.filter.admits(stored).then(|| index.outbox.get(&position.id)).flatten();
            let bytes = item.as_ref().map_or(0, |row| length(row.payload.as_str().len()));
            let (created_at, _) = position.rank;
            if !page.offer(Position::new(created_at, position.id.as_str()), bytes, item) {
                break;
            }
        }
        Ok(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)))
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        let index = self.tenant.check_open()?.index.read();
        let mut counts = OutboxCounts::default();
        let (subset, _) = filter.list_keys();
        for status in filter.accepted_statuses() {
            let list = OutboxList::Created(subset.clone(), Some(status));
            let count = if filter.lists_match_exactly() {
                index.outbox.len(&list)
            } else {
                let rows = index.outbox.walk(&list, None, Direction::Forward);
                length(
                    rows.filter_map(|position| index.outbox.stored_row(&position.id))
                        .filter(|row| filter.admits(row))
                        .count(),
                )
            };
            counts.add(status, count);
        }
        Ok(counts)
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut index = tenant.index.write();
        outbox::requeue(&mut index.outbox, request, tenant.decision_context())
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut index = tenant.index.write();
        outbox::purge(&mut index.outbox, &request)
    }
}

fn decode_position(position: &Position) -> Result<OutboxPosition> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok(OutboxPosition { rank: (position.rank, 0), id: OutboxId::new(&position.id).map_err(malformed)? })
}

impl fmt::Debug for MemoryOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOutbox").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
