//! One attempt, as its handler gets it.

use std::{fmt, sync::Arc};

use store_core::{
    ClaimNumber, ClaimedDispatch, Commit, CommitCoordinator, CommitKey, Dispatch, Fence, LiveTarget, Result,
    TenantStores, ThreadRunStore,
};

use super::{Cancellation, fenced::FencedCommits};
use crate::options::unsupported;

/// One attempt of a dispatch: what there is to do, handles that write under its claim, and the word to stop. Cheap to
/// clone.
#[derive(Clone)]
pub struct Work(Arc<Attempt>);

struct Attempt {
    claimed: ClaimedDispatch,
    commits: Option<Arc<FencedCommits>>,
    cancellation: Cancellation,
    can_settle: bool,
}

impl Work {
    pub(super) fn new(
        claimed: ClaimedDispatch,
        stores: &TenantStores,
        cancellation: Cancellation,
        can_settle: bool,
    ) -> Self {
        let commits = stores.commits.as_ref().map(|commits| {
            let (commits, thread) = (Arc::clone(commits), claimed.dispatch.thread.clone());
            Arc::new(FencedCommits::new(commits, thread, claimed.fence(), cancellation.clone()))
        });
        Self(Arc::new(Attempt { claimed, commits, cancellation, can_settle }))
    }

    /// The dispatch as it was claimed: thread, run, payload, how often it failed.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.0.claimed.dispatch
    }

    /// Which attempt this is, from 1 on. What was put off or given back is tried again under the same number.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.dispatch().attempts.saturating_add(1)
    }

    /// The number of the claim: it grows with every claim of the thread. Handed on to others, it lets them tell a late
    /// attempt from a newer one.
    #[must_use]
    pub fn number(&self) -> ClaimNumber {
        self.0.claimed.number
    }

    /// The claim itself, for handles of one's own that write under it.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.claimed.fence()
    }

    /// What this attempt is called on the live channel.
    #[must_use]
    pub fn target(&self) -> LiveTarget {
        LiveTarget::from(&self.0.claimed)
    }

    /// Tells when the handler is to stop.
    #[must_use]
    pub fn cancellation(&self) -> &Cancellation {
        &self.0.cancellation
    }

    /// What writes to the thread of the dispatch under this claim: once the claim is lost everything is refused, by the
    /// claim itself where threads and mailbox are of one store, else by its number (CM-31, CM-32).
    ///
    /// Its `threads()`, `events()`, `pending()` and `outbox()` read everything. Of what they write, updates of the
    /// thread and events of the thread carry the claim; anything else, and everything for other threads, is refused
    /// with `Unsupported` or `Invalid`: write that through the stores that were opened, knowing that no claim guards
    /// it.
    ///
    /// # Errors
    /// `Unsupported` if no part keeps threads.
    pub fn commits(&self) -> Result<Arc<dyn CommitCoordinator>> {
        let commits = self.0.commits.as_ref().ok_or_else(|| unsupported("committing to threads"))?;
        Ok(Arc::<FencedCommits>::clone(commits))
    }

    /// The threads, for reading, and for updates of the thread of the dispatch under this claim.
    ///
    /// # Errors
    /// As [`commits`](Self::commits).
    pub fn threads(&self) -> Result<Arc<dyn ThreadRunStore>> {
        Ok(self.commits()?.threads())
    }

    /// Whether a commit can end this dispatch in the same atomic step, with [`Commit::settling`]: what the work
    /// brought, and that it is over, then take effect together (CM-33). So it is where threads and mailbox are of one
    /// store.
    #[must_use]
    pub fn can_settle(&self) -> bool {
        self.0.can_settle
    }

    /// A commit to the thread of the dispatch, with nothing in it yet.
    #[must_use]
    pub fn commit(&self) -> Commit {
        Commit::new(self.dispatch().thread.clone())
    }

    /// A commit key for a step of this dispatch, the same one in every attempt: a step that an earlier attempt
    /// committed is not committed again (CM-10).
    ///
    /// # Errors
    /// `Invalid` if dispatch and step have more than 255 bytes together.
    pub fn key(&self, step: &str) -> Result<CommitKey> {
        CommitKey::new(format!("{}/{step}", self.dispatch().id))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attempt { claimed, can_settle, .. } = &*self.0;
        f.debug_struct("Work")
            .field("dispatch", &claimed.dispatch.id)
            .field("claim", &claimed.number)
            .field("can_settle", can_settle)
            .finish_non_exhaustive()
    }
}
