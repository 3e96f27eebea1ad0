//! Calls that are repeated after failures that pass by themselves.

use std::sync::Arc;

use store_core::{Clock, Error, ObjectUpload, Outcome, Result, Store, SystemClock, TenantId};

use super::{
    Decorator,
    forward::{Answer, DecoratedStore, Hook, Method, Request},
};
use crate::Backoff;

/// Repeats calls that failed in a way that may pass by itself.
///
/// A call is repeated if its error says that it certainly had no effect and may succeed when it is repeated
/// (`Unavailable`, `StorageFull`), or that it may have been applied and carries a commit key, so that it cannot be
/// applied twice (`CommitUnknown` with a key). All other errors are returned at once, and so is each error inside of an
/// answer, such as that of one dispatch of an enqueue. An upload of an object is not repeated after it has begun.
///
/// If one attempt may have been applied and no later one succeeds, the error is that of an unknown outcome.
///
/// ```
/// use agentstore::Retried;
///
/// # async fn example() -> agentstore::Result<()> {
/// let stores = agentstore::open("postgres://db/work").await?.decorated(&Retried::new());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Retried {
    attempts: u32,
    backoff: Backoff,
    clock: Arc<dyn Clock>,
}

/// Waits begin with 20 ms at most, and double up to 1 s.
const DEFAULT_BACKOFF: Backoff = Backoff::new(std::time::Duration::from_millis(20), std::time::Duration::from_secs(1));

impl Default for Retried {
    fn default() -> Self {
        Self::new()
    }
}

impl Retried {
    /// Makes up to 5 attempts for each call. The waits between them begin with 10 to 20 ms, and double up to 1 s.
    pub fn new() -> Self {
        Self { attempts: 5, backoff: DEFAULT_BACKOFF, clock: Arc::new(SystemClock) }
    }

    /// Sets the number of attempts for each call, the first one included. 0 counts as 1.
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the waits between attempts. Each is a random time between half of the value of the backoff and all of it.
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the clock that measures the waits.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl Decorator for Retried {
    fn decorate(&self, store: Arc<dyn Store>, _backend: &'static str) -> Arc<dyn Store> {
        Arc::new(DecoratedStore::new(self.clone(), store))
    }
}

impl Hook for Retried {
    fn for_tenant(&self, _tenant: &TenantId) -> Self {
        self.clone()
    }

    fn check(&self, _request: Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn around<'a, A, T, F>(&'a self, _method: Method, args: A, call: F) -> Result<T>
    where
        A: Clone + Send + Sync + 'a,
        T: Send + 'a,
        F: Fn(A) -> Answer<'a, T> + Send + Sync + 'a,
    {
        let mut unknown: Option<Error> = None;
        for failures in 1..self.attempts {
            match call(args.clone()).await {
                Err(error) if error.is_retryable() => {
                    if error.outcome() == Outcome::Unknown {
                        unknown = Some(error);
                    }
                }
                answer => return with_outcome_of(unknown, answer),
            }
            let delay = self.backoff.delay(failures);
            self.clock.sleep_until(self.clock.now().saturating_add(delay)).await;
        }
        with_outcome_of(unknown, call(args).await)
    }

    fn upload(&self, upload: Box<dyn ObjectUpload>) -> Box<dyn ObjectUpload> {
        upload
    }
}

/// Returns the answer of the last attempt. If an earlier one may still take effect, a refusal of this one does not mean
/// that the call has none (ER-2): the error is then that of the earlier attempt, and this one is its source.
fn with_outcome_of<T>(unknown: Option<Error>, answer: Result<T>) -> Result<T> {
    match (answer, unknown) {
        (Err(error), Some(unknown)) if error.outcome() == Outcome::NotApplied => {
            Err(Error::new(unknown.detail().clone()).with_source(error))
        }
        (answer, _) => answer,
    }
}
