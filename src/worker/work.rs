//! One attempt, as its handler receives it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use store_core::{
    ClaimNumber, ClaimedDispatch, Clock, Commit, CommitCoordinator, CommitKey, Dispatch, Effect, Fence, LiveTarget,
    Result, TenantStores, ThreadRunStore,
};

use super::{Cancellation, StreamSink, fenced::FencedCommits};
use crate::options::unsupported;

/// One attempt of a dispatch: the dispatch, handles that write under its claim, and the signal to stop. Cheap to clone.
#[derive(Clone)]
pub struct Work {
    attempt: Arc<Attempt>,
}

struct Attempt {
    claimed_dispatch: ClaimedDispatch,
    commits: Option<Arc<FencedCommits>>,
    cancellation: Cancellation,
    can_settle_in_commit: bool,
    /// The effects of the run that are in doubt since an earlier attempt.
    doubts: Mutex<Vec<Effect>>,
    clock: Arc<dyn Clock>,
}

impl Work {
    pub(super) fn new(
        claimed_dispatch: ClaimedDispatch,
        stores: &TenantStores,
        cancellation: Cancellation,
        (can_settle_in_commit, clock): (bool, Arc<dyn Clock>),
    ) -> Self {
        let commits = stores.commits.as_ref().map(|commits| {
            let (commits, thread) = (Arc::clone(commits), claimed_dispatch.dispatch.thread.clone());
            Arc::new(FencedCommits::new(commits, thread, claimed_dispatch.fence(), cancellation.clone()))
        });
        let attempt =
            Attempt { claimed_dispatch, commits, cancellation, can_settle_in_commit, doubts: Mutex::default(), clock };
        Self { attempt: Arc::new(attempt) }
    }

    /// Returns the dispatch in the state in which it was claimed: thread, run, payload, number of failures.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.attempt.claimed_dispatch.dispatch
    }

    /// Returns the number of this attempt: 1 for the first one. After a snooze or a release the number stays the same.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.dispatch().attempts.saturating_add(1)
    }

    /// Returns the number of the claim. It grows with every claim of the thread. A receiver that is given this number
    /// can tell a late attempt from a newer one.
    #[must_use]
    pub fn claim_number(&self) -> ClaimNumber {
        self.attempt.claimed_dispatch.number
    }

    /// Returns the fence of the claim, for other handles that write under it.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.attempt.claimed_dispatch.fence()
    }

    /// Returns the name of this attempt on the live channel.
    #[must_use]
    pub fn live_target(&self) -> LiveTarget {
        LiveTarget::from(&self.attempt.claimed_dispatch)
    }

    /// Returns the signal that tells the handler to stop.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.attempt.cancellation
    }

    /// Returns the coordinator that writes to the thread of the dispatch under this claim.
    ///
    /// If threads and mailbox are in one store, each write checks that the claim is still current (CM-31). In a
    /// composition, the store of the threads refuses a claim whose number is lower than the highest that has written
    /// to the thread (CM-32).
    ///
    /// The handles that its `threads()`, `events()`, `pending()` and `outbox()` return can read everything. They can
    /// write only updates and events of this thread, and the claim fences these writes. Any other write, and every
    /// write to another thread, is refused with `Unsupported` or `Invalid`. Make such writes through the stores that
    /// the program opened; no claim fences them.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads.
    pub fn commits(&self) -> Result<Arc<dyn CommitCoordinator>> {
        let commits = self.attempt.commits.as_ref().ok_or_else(|| unsupported("committing to threads"))?;
        Ok(Arc::<FencedCommits>::clone(commits))
    }

    /// Returns a handle that can read all threads, and can update the thread of the dispatch under this claim.
    ///
    /// # Errors
    /// As [`commits`](Self::commits).
    pub fn threads(&self) -> Result<Arc<dyn ThreadRunStore>> {
        Ok(self.commits()?.threads())
    }

    /// Returns whether a commit can settle this dispatch in the same atomic step, with [`Commit::settling`].
    ///
    /// The results of the work and the settlement of its dispatch then take effect together (CM-33). This is possible
    /// if threads and mailbox are in one store.
    #[must_use]
    pub fn can_settle_in_commit(&self) -> bool {
        self.attempt.can_settle_in_commit
    }

    /// Returns a sink for the checkpoints of an answer while it is received (SC): that of one step of the run of this
    /// dispatch. It loads what an earlier attempt received of the same step.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads or no documents; any error of reading.
    pub async fn stream_sink(&self, step: u64) -> Result<StreamSink> {
        let Dispatch { thread, run, .. } = self.dispatch();
        let stores = TenantStores::from_coordinator(self.commits()?);
        StreamSink::open(&stores, Arc::clone(&self.attempt.clock), (thread.clone(), run.clone()), step).await
    }

    /// Returns an empty commit to the thread of the dispatch.
    #[must_use]
    pub fn new_commit(&self) -> Commit {
        Commit::new(self.dispatch().thread.clone())
    }

    /// Returns a commit key for a step of this dispatch. It is the same in every attempt, so that a step that an
    /// earlier attempt committed is not committed again (CM-10).
    ///
    /// # Errors
    /// `Invalid` if the id of the dispatch and the step have more than 255 bytes together.
    pub fn key(&self, step: &str) -> Result<CommitKey> {
        CommitKey::new(format!("{}/{step}", self.dispatch().id))
    }

    pub(super) fn doubts(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.attempt.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { claimed_dispatch, can_settle_in_commit, .. } = &*self.attempt;
        f.debug_struct("Work")
            .field("dispatch", &claimed_dispatch.dispatch.id)
            .field("claim", &claimed_dispatch.number)
            .field("can_settle_in_commit", can_settle_in_commit)
            .finish_non_exhaustive()
    }
}
