//! Tells a handler that it has to stop, and why.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use tokio_util::sync::CancellationToken;

/// The reason why a handler has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The lease expired, and the claim was ended. Another attempt may have begun, and every write under the claim is
    /// refused.
    Lost,
    /// The thread was interrupted. The work is no longer wanted, and every write under the claim is refused.
    Superseded,
    /// No extension of the claim was confirmed for a whole lease. Another worker may have claimed the dispatch by now.
    Unconfirmed,
    /// The attempt ran longer than the options allow.
    Deadline,
    /// The worker is stopping, and its stop deadline has passed. The work is released.
    Stopping,
    /// The attempt has ended. This reason is for tasks that the handler left running.
    Ended,
}

impl CancelReason {
    /// Returns the name of the reason in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Superseded => "superseded",
            Self::Unconfirmed => "unconfirmed",
            Self::Deadline => "deadline",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
        }
    }

    /// Returns whether nothing can be written under the claim any more.
    pub(super) const fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::Superseded)
    }
}

/// Tells a handler when to stop, and why. Cheap to clone.
///
/// A handler that does not stop is aborted at its next `await` once the [`grace`](super::WorkerOptions::grace) has
/// passed.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
    has_ended: AtomicBool,
    /// The [`SettlingCommit`], as a number.
    settling_commit: AtomicU8,
}

/// The state of the commit with which a handler settles its own claim, if it makes one (CM-33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettlingCommit {
    /// The handler has not made such a commit.
    NotMade,
    /// The commit is in progress, or its outcome is unknown.
    Unknown,
    /// The commit acknowledged the dispatch.
    Acked,
    /// The commit settled the dispatch in another way.
    SettledOtherwise,
}

impl Cancellation {
    /// Waits until the handler has to stop, and returns the reason.
    pub async fn cancelled(&self) -> CancelReason {
        self.state.token.cancelled().await;
        // The reason is set before the token is cancelled. It is absent only if the handler cancelled the token itself.
        self.reason().unwrap_or(CancelReason::Stopping)
    }

    /// Returns whether the handler has to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.token.is_cancelled()
    }

    /// Returns why the handler has to stop; none while it may continue.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        self.state.reason.get().copied()
    }

    /// Returns the token itself, for functions that take one.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.state.token
    }

    /// Tells the handler to stop. If it was already told, the first reason is kept.
    pub(super) fn cancel(&self, reason: CancelReason) {
        let _ = self.state.reason.set(reason);
        self.state.token.cancel();
    }

    /// Marks the attempt as ended. Tasks that its handler left running can write nothing more.
    pub(super) fn end(&self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        self.cancel(CancelReason::Ended);
    }

    /// Returns whether nothing can be written under the claim any more, as far as this process knows.
    pub(super) fn is_lost(&self) -> bool {
        self.state.has_ended.load(Ordering::SeqCst) || self.reason().is_some_and(CancelReason::is_lost)
    }

    pub(super) fn settling_commit(&self) -> SettlingCommit {
        match self.state.settling_commit.load(Ordering::SeqCst) {
            0 => SettlingCommit::NotMade,
            1 => SettlingCommit::Unknown,
            2 => SettlingCommit::Acked,
            _ => SettlingCommit::SettledOtherwise,
        }
    }

    pub(super) fn set_settling_commit(&self, settling_commit: SettlingCommit) {
        self.state.settling_commit.store(settling_commit as u8, Ordering::SeqCst);
    }
}
