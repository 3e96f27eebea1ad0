//! The outbox: its rows are claimed and settled in the inner store, after the deltas that wrote them are applied.

use async_trait::async_trait;
use store_core::{
    ClaimOutbox, ClaimedOutbox, ExtendOutbox, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow,
    OutboxStatus, OutboxStore, Page, PurgeOutbox, RequeueOutbox, Requeued, Result, SettleOutbox, Timestamp,
};

use super::{store::BufferedHandles, tenant::Concerns};

#[async_trait]
impl OutboxStore for BufferedHandles {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        self.tenant.write_inner(|_| async { Ok(()) }).await?;
        // If the caller drops the call, the inner store releases what the caller did not receive (PR-11).
        self.tenant.inner_commits()?.outbox().claim_outbox(request).await
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        self.tenant.write_inner(|inner| async move { inner.outbox().extend_outbox(request).await }).await
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        self.tenant.write_inner(|inner| async move { inner.outbox().settle_outbox(requests).await }).await
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        let id = id.clone();
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.outbox().load_outbox(&id).await }).await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.outbox().list_outbox(query).await }).await
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        let filter = filter.clone();
        self.tenant
            .read_inner(Concerns::Tenant, |inner| async move { inner.outbox().count_outbox(&filter).await })
            .await
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        self.tenant.write_inner(|inner| async move { inner.outbox().requeue_outbox(request).await }).await
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        self.tenant.write_inner(|inner| async move { inner.outbox().purge_outbox(request).await }).await
    }
}
