//! The store handles of one attempt. They write under its claim, or refuse to write (WK-2).

mod commits;
mod documents;
mod events;
mod outbox;
mod pending;
mod threads;

use store_core::{Detail, DispatchId, Error, Fence, Result, ThreadId};

pub(super) use self::commits::FencedCommits;
use super::Cancellation;

/// The claim, and the thread that it belongs to.
#[derive(Clone)]
struct HeldClaim {
    thread: ThreadId,
    fence: Fence,
    cancellation: Cancellation,
}

impl HeldClaim {
    /// Refuses a claim that is known to be lost. The store also refuses writes under such a claim, but in a composition
    /// only after the next attempt has taken over the thread.
    fn check_not_lost(&self) -> Result<()> {
        if self.cancellation.is_lost() { Err(claim_lost_error(&self.fence.dispatch)) } else { Ok(()) }
    }

    /// Refuses a write to another thread, and a claim that is known to be lost.
    ///
    /// In a composition, a thread remembers the highest claim number that wrote to it, and refuses lower ones. So after
    /// a write under this claim, another thread could refuse its own claims.
    fn check_thread_and_claim(&self, thread: &ThreadId) -> Result<()> {
        if *thread == self.thread {
            return self.check_not_lost();
        }
        Err(Error::invalid(
            "fence",
            "this thread is not the thread of the claim: write to it with a handle of `Stores`",
        ))
    }

    /// Returns the fence of the claim. The request may already contain the same fence, but no other.
    fn checked_fence(&self, fence_of_request: Option<Fence>) -> Result<Option<Fence>> {
        match fence_of_request {
            Some(fence) if fence != self.fence => Err(Error::invalid("fence", "it is not the fence of this attempt")),
            _ => Ok(Some(self.fence.clone())),
        }
    }
}

fn claim_lost_error(dispatch: &DispatchId) -> Error {
    Error::new(Detail::ClaimLost { what: "dispatch", id: dispatch.to_string() })
}
