//! Rows of the outbox, ordered by creation. The store generates the ids of rows. The id that a case gives to a record
//! is therefore stored as the target of the row.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use store_core::{
    Commit, Direction, Error, Json, LaneId, NewOutboxRow, OutboxFilter, OutboxQuery, OutboxStore, OutboxTarget, Page,
    PageRequest, Result, TenantStores,
};

use super::{BOTH_DIRECTIONS, ListedRecord, RecordList};
use crate::given::id;

/// The number of the next row. It becomes the payload of the row, so that rows that were created at the same time have
/// a known order.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

fn outbox(stores: &TenantStores) -> Result<Arc<dyn OutboxStore>> {
    stores.outbox.clone().ok_or_else(|| Error::unavailable("the store has no outbox"))
}

fn lane() -> LaneId {
    id("probe")
}

pub(super) struct OutboxRows;

#[async_trait]
impl RecordList for OutboxRows {
    fn name(&self) -> &'static str {
        "outbox rows"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, target: &str) -> Result<()> {
        let commits = stores.commits.clone().ok_or_else(|| Error::unavailable("the store has no commits"))?;
        let number = Json::of(&NEXT_NUMBER.fetch_add(1, Ordering::SeqCst))?;
        let row = NewOutboxRow::new(lane(), OutboxTarget::new(target)?, number);
        commits.commit(Commit::new(id("outbox")).with_outbox([row])).await.map(drop)
    }

    async fn has(&self, stores: &TenantStores, target: &str) -> Result<bool> {
        let filter = OutboxFilter::default().of_lane(lane()).for_target(OutboxTarget::new(target)?);
        Ok(outbox(stores)?.count_outbox(&filter).await?.pending > 0)
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = OutboxQuery::new(OutboxFilter::default()).with_direction(direction).with_page(page);
        let page = outbox(stores)?.list_outbox(query).await?;
        Ok(page.map(|row| ListedRecord::new(row.payload.as_str().parse().unwrap_or_default(), row.target)))
    }
}
