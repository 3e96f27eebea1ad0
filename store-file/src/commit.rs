//! The commit: handed to the writer of its thread.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, Error, EventStore, OutboxStore, PendingStore, Receipt, Result,
    ThreadRunStore, commit,
};

use crate::{
    tenant::Tenant,
    writer::{Answer, Ask},
};

#[async_trait]
impl CommitCoordinator for Tenant {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.check_open()?;
        commit::check(&commit, &self.shared.limits)?;
        let answer = self.write(commit.thread.clone(), Ask::Commit(Box::new(commit))).await?;
        self.rewrite_if_due();
        match answer {
            Answer::Receipt(receipt) => Ok(*receipt),
            _ => Err(Error::closed()),
        }
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(self.clone())
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(self.clone())
    }

    fn events(&self) -> Arc<dyn EventStore> {
        Arc::new(self.clone())
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        Arc::new(self.clone())
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        Some(Arc::new(self.clone()))
    }
}
