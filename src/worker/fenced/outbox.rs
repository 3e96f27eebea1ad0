//! The outbox of an attempt, for reading only. Rows are written by commits.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimedOutbox, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow,
    OutboxStatus, OutboxStore, Page, PurgeOutbox, RequeueOutbox, Requeued, Result, SettleOutbox, Timestamp,
};

use crate::worker::unsupported_under_claim;

/// The read-only outbox of an attempt. A relay delivers rows under claims of its own.
pub(super) struct ReadOnlyOutbox {
    pub(super) inner: Arc<dyn OutboxStore>,
}

#[async_trait]
impl OutboxStore for ReadOnlyOutbox {
    async fn claim_outbox(&self, _request: ClaimOutbox) -> Result<ClaimedOutbox> {
        Err(unsupported_under_claim("claiming rows under a claim (a relay does that)"))
    }

    async fn extend_outbox(&self, _request: ExtendOutbox) -> Result<Timestamp> {
        Err(unsupported_under_claim("extending rows under a claim (a relay does that)"))
    }

    async fn settle_outbox(&self, _requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        Err(unsupported_under_claim("settling rows under a claim (a relay does that)"))
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        self.inner.load_outbox(id).await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        self.inner.list_outbox(query).await
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        self.inner.count_outbox(filter).await
    }

    async fn requeue_outbox(&self, _request: RequeueOutbox) -> Result<Vec<Requeued>> {
        Err(unsupported_under_claim("requeueing rows under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn purge_outbox(&self, _request: PurgeOutbox) -> Result<u64> {
        Err(unsupported_under_claim("purging rows under a claim (do it with a handle of `Stores` instead)"))
    }
}
