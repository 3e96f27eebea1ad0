//! The commit coordinator for threads whose mailbox is in another store. It refuses only commits that settle a claim.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{Commit, CommitCoordinator, EventStore, OutboxStore, PendingStore, Receipt, Result, ThreadRunStore};

use crate::options::unsupported;

/// A coordinator that refuses commits that settle a claim, because no atomic step covers the other store.
pub(super) struct NonSettlingCommits(Arc<dyn CommitCoordinator>);

impl NonSettlingCommits {
    pub(super) fn new(commits: Arc<dyn CommitCoordinator>) -> Self {
        Self(commits)
    }
}

#[async_trait]
impl CommitCoordinator for NonSettlingCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        if commit.settle.is_some() {
            let operation = "settling in a commit (the mailbox is in another store: settle it there, after the commit)";
            return Err(unsupported(operation).in_part("settle"));
        }
        self.0.commit(commit).await
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        self.0.threads()
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        self.0.pending()
    }

    fn events(&self) -> Arc<dyn EventStore> {
        self.0.events()
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.0.outbox()
    }
}
