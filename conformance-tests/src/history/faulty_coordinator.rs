//! A coordinator that makes the outcome of some commits unknown.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, Error, EventStore, OutboxStore, PendingStore, Receipt, Result,
    ThreadRunStore,
};
use tokio::task::JoinHandle;

use crate::random::Random;

/// A coordinator that answers some commits with `CommitUnknown`. Such a commit is not sent, or its answer is lost, or
/// it is sent after the caller has got this error.
pub struct FaultyCoordinator<S> {
    inner: S,
    commits_per_unknown_outcome: usize,
    random: Mutex<Random>,
    late_commits: Mutex<Vec<JoinHandle<()>>>,
}

impl<S> fmt::Debug for FaultyCoordinator<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyCoordinator")
            .field("commits_per_unknown_outcome", &self.commits_per_unknown_outcome)
            .finish_non_exhaustive()
    }
}

/// What happens to a commit of unknown outcome.
enum Fault {
    NotSent,
    AnswerLost,
    SentLater,
}

impl<S> FaultyCoordinator<S> {
    /// Wraps a coordinator. One in `commits_per_unknown_outcome` commits has an unknown outcome. `random` decides
    /// which.
    #[must_use]
    pub const fn new(inner: S, commits_per_unknown_outcome: usize, random: Random) -> Self {
        Self { inner, commits_per_unknown_outcome, random: Mutex::new(random), late_commits: Mutex::new(Vec::new()) }
    }

    /// Returns the coordinator without faults.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Consumes the wrapper and returns the coordinator without faults.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Waits for the end of all commits that were sent after their caller had got an answer.
    pub async fn wait_for_late_commits(&self)
    where
        S: Sync,
    {
        let late_commits = std::mem::take(&mut *self.late_commits.lock().unwrap_or_else(PoisonError::into_inner));
        for commit in late_commits {
            let _arrived = commit.await;
        }
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.once_in(self.commits_per_unknown_outcome).then(|| match random.below(3) {
            0 => Fault::NotSent,
            1 => Fault::AnswerLost,
            _ => Fault::SentLater,
        })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CommitCoordinator for FaultyCoordinator<Arc<dyn CommitCoordinator>> {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let Some(fault) = self.next_fault() else { return self.inner.commit(commit).await };
        let unknown = Error::commit_unknown(commit.key.clone());
        match fault {
            Fault::NotSent => {}
            // The commit is applied or refused, and the caller does not learn which.
            Fault::AnswerLost => drop(self.inner.commit(commit).await),
            Fault::SentLater => {
                let inner = Arc::clone(&self.inner);
                let late_commit = tokio::spawn(async move {
                    for _ in 0..20 {
                        tokio::task::yield_now().await;
                    }
                    drop(inner.commit(commit).await);
                });
                self.late_commits.lock().unwrap_or_else(PoisonError::into_inner).push(late_commit);
            }
        }
        Err(unknown)
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
