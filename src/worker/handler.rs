//! The handler that a worker calls for each dispatch, and the answers that it can return.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Json, Settlement};

use super::Work;

/// The error with which a handler failed.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// The code that a worker calls for each dispatch. Any `Fn(Work) -> impl Future<Output = Result<Done, Failure>>` is a
/// handler.
///
/// A dispatch is handled at least once: `docs/workers.md` describes how to make a repetition harmless.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one attempt, and returns how it ended.
    ///
    /// When [`Work::cancellation`] tells the handler to stop, it should end soon. After the
    /// [`grace`](super::WorkerOptions::grace) it is aborted at its next `await`.
    ///
    /// # Errors
    /// Any error of the work. If the failure does not say what becomes of the dispatch, the policy decides.
    async fn handle(&self, work: Work) -> Result<Done, Failure>;
}

#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Work) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Done, Failure>> + Send,
{
    async fn handle(&self, work: Work) -> Result<Done, Failure> {
        self(work).await
    }
}

/// How work ended without a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// The work has finished.
    Ack {
        /// The result of the work, if it has one.
        result: Option<Json>,
    },
    /// The handler settled the dispatch with its last commit. This is possible where
    /// [`Work::can_settle_in_commit`] returns true (CM-33).
    Committed,
    /// The dispatch becomes available again later. This uses up no attempt.
    Snooze {
        /// The time until the dispatch becomes available.
        after: Duration,
    },
    /// The dispatch is queued again, unchanged. This uses up no attempt.
    Release,
    /// The dispatch is cancelled, because its work is not to be done.
    Cancel {
        /// The reason.
        reason: String,
    },
}

impl Done {
    /// Returns the answer for work that has finished without a result.
    #[must_use]
    pub const fn ack() -> Self {
        Self::Ack { result: None }
    }

    /// Returns the answer for work that has finished with this result.
    #[must_use]
    pub const fn ack_with_result(result: Json) -> Self {
        Self::Ack { result: Some(result) }
    }

    /// Returns the settlement that ends the attempt; none if the handler has already settled it.
    pub(super) fn settlement(self) -> Option<Settlement> {
        Some(match self {
            Self::Ack { result } => Settlement::Ack { result },
            Self::Committed => return None,
            Self::Snooze { after } => Settlement::Snooze { after },
            Self::Release => Settlement::Release,
            Self::Cancel { reason } => Settlement::Cancel { reason },
        })
    }
}

/// What happens to a dispatch after its work failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The work is retried after a delay that grows with each failure, as long as attempts are left.
    Retry,
    /// The work is retried after this delay, as long as attempts are left.
    RetryAfter(Duration),
    /// The dispatch becomes available again after this time. This uses up no attempt.
    Snooze(Duration),
    /// The dispatch becomes a dead letter.
    DeadLetter,
    /// The dispatch is cancelled, with the text of the error as its reason.
    Cancel,
}

/// The failure of work: its error and, if the handler knows it, what becomes of the dispatch.
///
/// Any error becomes a failure through `?`. A failure does not itself implement `Error`, because that would conflict
/// with this conversion.
#[derive(Debug)]
pub struct Failure {
    error: HandlerError,
    verdict: Option<Verdict>,
}

impl Failure {
    /// Makes a failure from an error. A plain text is accepted, too.
    pub fn new(error: impl Into<HandlerError>) -> Self {
        Self { error: error.into(), verdict: None }
    }

    /// Sets what becomes of the dispatch. The policy is then not consulted.
    #[must_use]
    pub const fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// Makes a failure after which the dispatch becomes a dead letter.
    pub fn permanent(error: impl Into<HandlerError>) -> Self {
        Self::new(error).with_verdict(Verdict::DeadLetter)
    }

    /// Returns the error.
    #[must_use]
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }

    /// Returns what becomes of the dispatch, if the handler has decided it.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// Returns the text of the error and of its causes, for the `last_error` of the dispatch.
    pub(super) fn text_with_causes(&self) -> String {
        let mut text = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl<E: Into<HandlerError> + StdError> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// Decides what becomes of work that failed, if the handler has not decided it.
pub trait Policy: fmt::Debug + Send + Sync + 'static {
    /// Returns what happens to a dispatch whose work failed with `error`. `attempt` is 1 after the first failure. It
    /// increases with each failure and each expired lease, but not with other attempts, such as snoozed ones.
    fn judge(&self, error: &(dyn StdError + Send + Sync + 'static), attempt: u32) -> Verdict;
}

/// Retries after every error.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryAll;

impl Policy for RetryAll {
    fn judge(&self, _error: &(dyn StdError + Send + Sync + 'static), _attempt: u32) -> Verdict {
        Verdict::Retry
    }
}

impl<P: Policy + ?Sized> Policy for Arc<P> {
    fn judge(&self, error: &(dyn StdError + Send + Sync + 'static), attempt: u32) -> Verdict {
        (**self).judge(error, attempt)
    }
}
