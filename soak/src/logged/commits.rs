//! A commit coordinator that records the commits under claims.

use std::sync::Arc;

use agentstore::{
    Commit, CommitCoordinator, DocumentStore, Error, EventStore, OutboxStore, PendingStore, Receipt, Result,
    Settlement, ThreadRunStore,
};
use async_trait::async_trait;

use super::{AcceptedAnswer, CallLog};
use crate::record::{Claim, ClaimCall, thread_number};

pub(super) struct LoggedCommits {
    inner: Arc<dyn CommitCoordinator>,
    call_log: CallLog,
}

impl LoggedCommits {
    pub(super) const fn new(inner: Arc<dyn CommitCoordinator>, call_log: CallLog) -> Self {
        Self { inner, call_log }
    }
}

fn claim_of(commit: &Commit) -> Option<Claim> {
    let fence = commit.fence.as_ref()?;
    Some(Claim {
        thread: thread_number(&commit.thread).ok()?,
        number: fence.claim,
        dispatch: fence.dispatch.as_str().parse().ok()?,
        epoch: fence.epoch,
    })
}

fn call_of(commit: &Commit) -> ClaimCall {
    match &commit.settle {
        Some(Settlement::Ack { .. }) => ClaimCall::CommitAndAck,
        // In the soak, a commit without entries has a fence and nothing else, so it takes the thread over (CM-32).
        _ if commit.entries.is_empty() => ClaimCall::TakeOver,
        _ => ClaimCall::Commit,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CommitCoordinator for LoggedCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let claim = claim_of(&commit).ok_or_else(|| Error::invalid("commit", "it is not under a claim of the soak"))?;
        let act = call_of(&commit);
        let called = self.call_log.record_call(claim, act);
        let answer = self.inner.commit(commit).await;
        let accepted_answer =
            |receipt: &Receipt| AcceptedAnswer { lease_end: None, deduplicated: receipt.deduplicated };
        self.call_log.record_answer((claim, act), called, answer.as_ref().map(accepted_answer));
        answer
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
