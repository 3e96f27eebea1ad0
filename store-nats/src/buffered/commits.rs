//! Commits.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, Detail, DocumentStore, Error, EventStore, OutboxStore, PendingStore, Receipt, Result,
    ThreadRunStore,
    buffer::{Delta, keys_of_commit},
    commit::{self, CommitDecision},
};

use super::{
    decide::{Decided, Write},
    store::BufferedHandles,
    tenant::BufferedTenant,
};

#[async_trait]
impl CommitCoordinator for BufferedHandles {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        if commit.settle.is_some() && commit.fence.is_some() {
            let operation = "settling in a commit (a write buffer has no mailbox: settle the claim after the commit)";
            return Err(Error::new(Detail::Unsupported { operation }).in_part("settle"));
        }
        let scope = Some(commit.thread.clone());
        let key = commit.key.clone();
        let result = self.tenant.write(scope, |tenant| async move { write(&tenant, &commit).await }).await;
        result.map_err(|error| match error.detail() {
            Detail::CommitUnknown { key: None } => Error::commit_unknown(key).with_source(error),
            _ => error,
        })
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
        self.has_documents.then(|| Arc::new(self.clone()) as Arc<dyn DocumentStore>)
    }
}

async fn write(tenant: &BufferedTenant, commit: &Commit) -> Result<Receipt> {
    let needed = commit::needed_keys(commit);
    let names_checkpoints = !needed.snapshots.is_empty();
    Write { tenant, thread: &commit.thread, needed, as_of: None }
        .decide(|overlay, view, context| {
            let newest_naming = overlay.newest_naming(&commit.thread);
            if names_checkpoints && newest_naming > 0 {
                return Ok(Decided::AfterFlush(newest_naming));
            }
            Ok(match commit::plan(view, commit, context)? {
                CommitDecision::Repeat(receipt) => Decided::Answer(*receipt),
                CommitDecision::Write(plan) => {
                    let (keys, receipt) = (keys_of_commit(commit, &plan), plan.receipt.clone());
                    Decided::Write(Delta::of_commit(*plan), keys, receipt)
                }
            })
        })
        .await
}
