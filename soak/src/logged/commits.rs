//! A commit coordinator that records the commits under claims.

use std::sync::Arc;

use agentstore::{
    Commit, CommitCoordinator, Error, EventStore, OutboxStore, PendingStore, Receipt, Result, Settlement,
    ThreadRunStore,
};
use async_trait::async_trait;

use super::{AcceptedAnswer, Notes};
use crate::record::{Act, Claim, thread_of};

pub(super) struct LoggedCommits {
    inner: Arc<dyn CommitCoordinator>,
    notes: Notes,
}

impl LoggedCommits {
    pub(super) const fn new(inner: Arc<dyn CommitCoordinator>, notes: Notes) -> Self {
        Self { inner, notes }
    }
}

fn claim_of(commit: &Commit) -> Option<Claim> {
    let fence = commit.fence.as_ref()?;
    Some(Claim {
        thread: thread_of(&commit.thread).ok()?,
        number: fence.claim,
        dispatch: fence.dispatch.as_str().parse().ok()?,
        epoch: fence.epoch,
    })
}

fn act_of(commit: &Commit) -> Act {
    match &commit.settle {
        Some(Settlement::Ack { .. }) => Act::SayAndAck,
        _ if commit.entries.is_empty() => Act::TakeOver,
        _ => Act::Say,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CommitCoordinator for LoggedCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let claim = claim_of(&commit).ok_or_else(|| Error::invalid("commit", "it is not under a claim of the soak"))?;
        let act = act_of(&commit);
        let called = self.notes.tries(claim, act);
        let answer = self.inner.commit(commit).await;
        let accepted_answer = |receipt: &Receipt| AcceptedAnswer { until: None, again: receipt.deduplicated };
        self.notes.ended((claim, act), called, answer.as_ref().map(accepted_answer));
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
}
