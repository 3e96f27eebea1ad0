//! What a worker calls for each dispatch, and what it makes of the answer.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{Json, Settlement};

use super::Work;

/// Why a handler failed.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// What a worker calls for each dispatch. Any `Fn(Work) -> impl Future<Output = Result<Done, Failure>>` is one.
///
/// A dispatch is handled at least once: see `docs/workers.md` for how to make the second time harmless.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one attempt, and says how it ended. Behind [`Work::cancellation`] it ends soon: it is aborted
    /// at its next `await` when the grace of the options is over.
    ///
    /// # Errors
    /// Whatever the work ends with: the policy says what becomes of the dispatch, unless the failure does.
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

/// How work ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// It is over.
    Ack {
        /// What it brought.
        result: Option<Json>,
    },
    /// The handler ended it with its last commit, as is possible where [`Work::can_settle`] says so (CM-33).
    Committed,
    /// It is put off; no attempt counts.
    Snooze {
        /// For how long.
        after: Duration,
    },
    /// It is given back as it was; no attempt counts.
    Release,
    /// It is not to be done.
    Cancel {
        /// Why.
        reason: String,
    },
}

impl Done {
    /// It is over.
    #[must_use]
    pub const fn ack() -> Self {
        Self::Ack { result: None }
    }

    /// It is over, and brought this.
    #[must_use]
    pub const fn with(result: Json) -> Self {
        Self::Ack { result: Some(result) }
    }

    /// How the attempt is ended; absent if it was.
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

/// What becomes of work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is tried again behind a growing pause, as long as attempts are left.
    Retry,
    /// It is tried again after so long, as long as attempts are left.
    RetryAfter(Duration),
    /// It is put off; no attempt counts.
    Snooze(Duration),
    /// It failed for good.
    DeadLetter,
    /// It is not to be done, for the reason that the error gives.
    Cancel,
}

/// Work that failed, with its error, and with what is to become of it if the handler knows that.
///
/// Any error becomes one by `?`. It is no error itself, as that would be in the way of that.
#[derive(Debug)]
pub struct Failure {
    error: HandlerError,
    verdict: Option<Verdict>,
}

impl Failure {
    /// The failure of an error that is no type of its own.
    pub fn new(error: impl Into<HandlerError>) -> Self {
        Self { error: error.into(), verdict: None }
    }

    /// The same with what is to become of the work: the policy is not asked.
    #[must_use]
    pub const fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = Some(verdict);
        self
    }

    /// The failure of work that fails for good.
    pub fn for_good(error: impl Into<HandlerError>) -> Self {
        Self::new(error).with_verdict(Verdict::DeadLetter)
    }

    /// The error.
    #[must_use]
    pub fn error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.error
    }

    /// What the handler says is to become of the work.
    #[must_use]
    pub const fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }

    /// The error with what it was caused by: what `last_error` says then.
    pub(super) fn text(&self) -> String {
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

/// Says what becomes of work that failed, where the handler did not.
pub trait Policy: fmt::Debug + Send + Sync + 'static {
    /// What becomes of work that failed with `error`, for the `attempt`-th time that counts.
    fn judge(&self, error: &(dyn StdError + Send + Sync + 'static), attempt: u32) -> Verdict;
}

/// Every error is tried again.
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
