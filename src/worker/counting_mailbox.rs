//! A mailbox that counts enqueued dispatches (WK-7) and passes every call on unchanged (CP-5).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    ClaimRef, ClaimRequest, Claims, Dispatch, DispatchClaim, DispatchCounts, DispatchId, DispatchQuery, Enqueued,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader,
    MailboxStore, NewDispatch, Page, PageRequest, Purge, Purged, ReadyThread, Reclaimed, Requeue, Result, Settled,
    Settlement, TenantStores, ThreadId,
};

use super::telemetry;

/// Returns the same stores with a mailbox that counts enqueued dispatches.
pub(crate) fn with_counting_mailbox(mut stores: TenantStores, backend: &'static str) -> TenantStores {
    stores.mailbox = stores.mailbox.map(|inner| Arc::new(CountingMailbox { inner, backend }) as _);
    stores
}

struct CountingMailbox {
    inner: Arc<dyn MailboxStore>,
    backend: &'static str,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxProducer for CountingMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        let answers = self.inner.enqueue(dispatches).await;
        match &answers {
            Ok(answers) => answers.iter().for_each(|answer| match answer {
                Ok(enqueued) if enqueued.deduplicated => telemetry::count_enqueue(self.backend, "deduplicated"),
                Ok(_) => telemetry::count_enqueue(self.backend, "queued"),
                Err(error) => telemetry::count_enqueue(self.backend, error.kind().name()),
            }),
            Err(error) => telemetry::count_enqueue(self.backend, error.kind().name()),
        }
        answers
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.inner.cancel(id).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.inner.interrupt(request).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxConsumer for CountingMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        self.inner.claim(request).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        self.inner.extend(claim, by).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.inner.start(claim, instance).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        self.inner.settle(settlements).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxReader for CountingMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.inner.load_dispatch(id).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.inner.list_dispatches(query).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.inner.count_dispatches(thread).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.inner.list_ready_threads(page).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.inner.load_epoch(thread).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MailboxMaintenance for CountingMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        self.inner.reclaim(limit).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        self.inner.purge(request).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.inner.requeue(request).await
    }
}
