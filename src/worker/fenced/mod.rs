//! Store handles of one attempt: what they write is written under its claim, or refused (WK-2).

mod commits;
mod events;
mod outbox;
mod pending;
mod threads;

use store_core::{Detail, DispatchId, Error, Fence, Result, ThreadId};

pub(super) use self::commits::FencedCommits;
use super::Cancellation;

/// The claim, and the thread that it is for.
#[derive(Clone)]
struct Claim {
    thread: ThreadId,
    fence: Fence,
    cancellation: Cancellation,
}

impl Claim {
    /// Refuses what is known to be lost. A store would refuse it too, but on two stores only from the moment when the
    /// next attempt took the thread over.
    fn check(&self) -> Result<()> {
        if self.cancellation.is_lost() { Err(lost(&self.fence.dispatch)) } else { Ok(()) }
    }

    /// Refuses another thread: on two stores the number of a claim says nothing about any other, and would keep others
    /// from writing to it.
    fn check_thread(&self, thread: &ThreadId) -> Result<()> {
        if *thread == self.thread {
            return self.check();
        }
        Err(Error::invalid("fence", "the claim is for another thread: write to this one through a handle without it"))
    }

    /// The fence of the claim, where none or the same was given.
    fn fence(&self, given: Option<Fence>) -> Result<Option<Fence>> {
        match given {
            Some(fence) if fence != self.fence => Err(Error::invalid("fence", "it is not that of this attempt")),
            _ => Ok(Some(self.fence.clone())),
        }
    }
}

fn lost(dispatch: &DispatchId) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: dispatch.to_string() })
}
