//! The commit coordinator for threads whose mailbox is in another store. It refuses only commits that settle a claim.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, EventStore, OutboxStore, PendingStore, Receipt, Result, ThreadRunStore,
};

use crate::options::unsupported;

/// A coordinator that refuses commits that settle a claim, because a commit and a settlement in another store cannot be
/// one atomic step.
pub(super) struct NonSettlingCommits {
    inner: Arc<dyn CommitCoordinator>,
}

impl NonSettlingCommits {
    pub(super) const fn new(inner: Arc<dyn CommitCoordinator>) -> Self {
        Self { inner }
    }
}

#[async_trait]
impl CommitCoordinator for NonSettlingCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        if commit.settle.is_some() {
            let operation = "settling in a commit (the mailbox is in another store: settle it there, after the commit)";
            return Err(unsupported(operation).in_part("settle"));
        }
        self.inner.commit(commit).await
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        self.inner.threads()
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        self.inner.pending()
    }

    fn events(&self) -> Arc<dyn EventStore> {
        self.inner.events()
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.inner.outbox()
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.inner.documents()
    }
}
