//! How a handler learns that it is to stop, and why.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use tokio_util::sync::CancellationToken;

/// Why a handler is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancelled {
    /// The claim is another's: whatever this handler writes under it is refused.
    Lost,
    /// The thread was interrupted: nobody wants the work any more, and what is written for it is refused.
    Superseded,
    /// For a whole lease no extension was confirmed: somebody else may have the claim by now.
    Unconfirmed,
    /// It ran longer than the options allow.
    Deadline,
    /// The worker stops, and its deadline is over: the work is given back.
    Stopping,
    /// The attempt has ended: said to what its handler left running.
    Over,
}

impl Cancelled {
    /// The name in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Superseded => "superseded",
            Self::Unconfirmed => "unconfirmed",
            Self::Deadline => "deadline",
            Self::Stopping => "stopping",
            Self::Over => "over",
        }
    }

    /// Whether nothing can be written under the claim any more.
    pub(super) const fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::Superseded)
    }
}

/// Tells a handler that it is to stop. Cheap to clone.
///
/// A handler that does not stop is aborted at its next `await` when [`grace`](super::WorkerOptions::grace) is over.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    token: CancellationToken,
    why: OnceLock<Cancelled>,
    is_over: AtomicBool,
    settling: AtomicU8,
}

/// How far a handler is with ending its claim by itself, in a commit (CM-33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    /// It did nothing of that kind.
    No,
    /// The commit is under way, or it is not known what became of it.
    Unknown,
    /// The commit acked it.
    Acked,
    /// The commit ended it in another way.
    Ended,
}

impl Cancellation {
    /// Returns when the handler is to stop, and says why.
    pub async fn cancelled(&self) -> Cancelled {
        self.0.token.cancelled().await;
        // The reason is written before the token is cancelled.
        self.reason().unwrap_or(Cancelled::Stopping)
    }

    /// Whether the handler is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.token.is_cancelled()
    }

    /// Why the handler is to stop; none as long as it is not.
    #[must_use]
    pub fn reason(&self) -> Option<Cancelled> {
        self.0.why.get().copied()
    }

    /// The token itself, for what takes one.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.0.token
    }

    /// Tells the handler; the first reason stays.
    pub(super) fn cancel(&self, why: Cancelled) {
        let _ = self.0.why.set(why);
        self.0.token.cancel();
    }

    /// Ends the attempt for what its handler left running: it can write nothing more.
    pub(super) fn end(&self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.cancel(Cancelled::Over);
    }

    /// Whether nothing can be written under the claim any more, as far as is known here.
    pub(super) fn is_lost(&self) -> bool {
        self.0.is_over.load(Ordering::SeqCst) || self.reason().is_some_and(Cancelled::is_lost)
    }

    pub(super) fn settling(&self) -> Settling {
        match self.0.settling.load(Ordering::SeqCst) {
            0 => Settling::No,
            1 => Settling::Unknown,
            2 => Settling::Acked,
            _ => Settling::Ended,
        }
    }

    pub(super) fn set_settling(&self, settling: Settling) {
        self.0.settling.store(settling as u8, Ordering::SeqCst);
    }
}
