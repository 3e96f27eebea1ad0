//! Commits under a claim.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, EventStore, Fence, OutboxStore, Outcome, PendingStore, Receipt, Result,
    Settlement, ThreadId, ThreadRunStore,
};

use super::{
    HeldClaim, documents::FencedDocuments, events::FencedEvents, outbox::ReadOnlyOutbox, pending::ReadOnlyPending,
    threads::FencedThreads,
};
use crate::worker::{Cancellation, cancellation::SettlingCommit};

/// The coordinator for the thread of one claim.
pub(in crate::worker) struct FencedCommits {
    inner: Arc<dyn CommitCoordinator>,
    claim: HeldClaim,
}

impl FencedCommits {
    /// Makes a coordinator that commits to `thread` under the claim.
    pub(in crate::worker) fn new(
        inner: Arc<dyn CommitCoordinator>,
        thread: ThreadId,
        fence: Fence,
        cancellation: Cancellation,
    ) -> Self {
        Self { inner, claim: HeldClaim { thread, fence, cancellation } }
    }

    /// Makes a commit that also settles the claim. While it is in progress, the heartbeat must not mistake the end of
    /// the claim for its loss.
    async fn commit_and_settle(&self, commit: Commit) -> Result<Receipt> {
        let cancellation = &self.claim.cancellation;
        let (earlier_commit, acknowledges) =
            (cancellation.settling_commit(), matches!(commit.settle, Some(Settlement::Ack { .. })));
        // If this future is dropped here, the outcome of the commit stays unknown.
        cancellation.set_settling_commit(SettlingCommit::Unknown);
        let answer = self.inner.commit(commit).await;
        cancellation.set_settling_commit(match &answer {
            Ok(_) if acknowledges => SettlingCommit::Acked,
            Ok(_) => SettlingCommit::SettledOtherwise,
            Err(error) if error.outcome() == Outcome::Unknown => SettlingCommit::Unknown,
            // This commit was refused, but an earlier one may have been applied.
            Err(_) => earlier_commit,
        });
        answer
    }
}

#[async_trait]
impl CommitCoordinator for FencedCommits {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        self.claim.check_thread_and_claim(&commit.thread)?;
        commit.fence = self.claim.checked_fence(commit.fence.take())?;
        if commit.settle.is_some() { self.commit_and_settle(commit).await } else { self.inner.commit(commit).await }
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(FencedThreads::new(self.inner.threads(), self.claim.clone()))
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(ReadOnlyPending { inner: self.inner.pending() })
    }

    fn events(&self) -> Arc<dyn EventStore> {
        Arc::new(FencedEvents::new(self.inner.events(), self.claim.clone()))
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        Arc::new(ReadOnlyOutbox { inner: self.inner.outbox() })
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        let inner = self.inner.documents()?;
        Some(Arc::new(FencedDocuments::new(inner, self.claim.clone())))
    }
}
