//! How a worker works.

use std::{sync::Arc, time::Duration};

use store_core::{Error, IdSource, InstanceId, Result, Uuids, WorkerId};

use super::{Policy, RetryAll};

/// The longest lease that a store gives.
const MAX_LEASE: Duration = Duration::from_hours(24);
/// As many as one claim can take.
const MAX_CONCURRENCY: u32 = 1_000;

/// How a worker works; a relay takes the same.
///
/// ```
/// use std::time::Duration;
///
/// use agentstore::WorkerOptions;
///
/// let options = WorkerOptions::default().with_concurrency(4).with_lease(Duration::from_secs(60));
/// assert_eq!(options.backoff.first, Duration::from_millis(250));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Who claims: a generated name unless one is given. Several workers may have one name.
    pub name: WorkerId,
    /// How many handlers run at once, 1 to 1,000; 8 unless said otherwise.
    pub concurrency: u32,
    /// For how long a claim is asked for; it is extended at a third of that. 30 seconds, at most 24 hours.
    pub lease: Duration,
    /// How long what failed waits before it is tried again.
    pub backoff: Backoff,
    /// How long a worker that found nothing waits at most before it looks again, where nothing wakes it: 1 second.
    pub idle: Duration,
    /// How long claims may be answered with an error that waiting does not mend, such as `Corrupt`, before the worker
    /// ends with that error: 1 minute. A store that is away is waited for without a bound.
    pub patience: Duration,
    /// How long one attempt may run; without a bound unless one is given.
    pub deadline: Option<Duration>,
    /// How long [`Running::stop`](super::Running::stop) lets handlers finish: 30 seconds.
    pub stop_deadline: Duration,
    /// How long a handler that was told to stop may take before it is aborted: 5 seconds.
    pub grace: Duration,
    /// What becomes of a dispatch whose handler failed.
    pub policy: Arc<dyn Policy>,
    /// What `start` records of each attempt: the process that works on it, by a generated name.
    pub instance: InstanceId,
}

impl Default for WorkerOptions {
    /// The defaults of WK-8.
    fn default() -> Self {
        let name = Uuids.next_id();
        // A generated id is always a valid one.
        let id = |prefix: &str| format!("{prefix}{name}");
        Self {
            name: WorkerId::new(id("worker-")).unwrap_or_else(|_| unreachable!("a generated id is valid")),
            concurrency: 8,
            lease: Duration::from_secs(30),
            backoff: Backoff::default(),
            idle: Duration::from_secs(1),
            patience: Duration::from_secs(60),
            deadline: None,
            stop_deadline: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            policy: Arc::new(RetryAll),
            instance: InstanceId::new(id("")).unwrap_or_else(|_| unreachable!("a generated id is valid")),
        }
    }
}

impl WorkerOptions {
    /// The same under this name.
    #[must_use]
    pub fn with_name(mut self, name: WorkerId) -> Self {
        self.name = name;
        self
    }

    /// The same with so many handlers at once.
    #[must_use]
    pub const fn with_concurrency(mut self, concurrency: u32) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// The same with this lease.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same with these pauses behind failures.
    #[must_use]
    pub const fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The same, looking again at least so often.
    #[must_use]
    pub const fn with_idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The same, ending after so long of errors that waiting does not mend.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same with a bound for each attempt.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same, letting handlers finish for so long when it stops.
    #[must_use]
    pub const fn with_stop_deadline(mut self, deadline: Duration) -> Self {
        self.stop_deadline = deadline;
        self
    }

    /// The same, waiting so long for a handler that was told to stop.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The same with this policy.
    #[must_use]
    pub fn with_policy(mut self, policy: impl Policy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Refuses what no store accepts.
    pub(super) fn check(&self) -> Result<()> {
        if self.lease.is_zero() || self.lease > MAX_LEASE {
            return Err(Error::invalid("lease", "it is more than nothing and at most 24 hours"));
        }
        if self.concurrency == 0 || self.concurrency > MAX_CONCURRENCY {
            return Err(Error::invalid("concurrency", "it must be from 1 to 1000"));
        }
        Ok(())
    }
}

/// Pauses that double, and differ by chance, so that what failed together does not come back together (WK-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// Behind the first failure: 250 milliseconds.
    pub first: Duration,
    /// At most: 30 seconds.
    pub max: Duration,
}

impl Default for Backoff {
    /// The defaults of WK-8.
    fn default() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(30))
    }
}

impl Backoff {
    /// Pauses from `first` on, doubling up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// The longest pause behind so many failures.
    #[must_use]
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(doubled).min(self.max)
    }

    /// The pause behind so many failures: from half the ceiling to all of it.
    #[must_use]
    pub fn pause(&self, failures: u32) -> Duration {
        jittered(self.ceiling(failures))
    }
}

/// From half of `time` to all of it.
pub(super) fn jittered(time: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random bytes the pause is the longest one.
    let share =
        getrandom::fill(&mut bytes).map_or(1.0, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX));
    time.div_f64(2.0) + time.div_f64(2.0).mul_f64(share)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, WorkerOptions};

    /// Shows WK-8 and, of WK-3, the pauses.
    #[test]
    fn pauses_double_up_to_their_bound_and_differ() {
        let backoff = Backoff::default();
        let millis = |failures| backoff.ceiling(failures).as_millis();
        assert_eq!(
            [1, 2, 3, 7, 8, 9, 40, u32::MAX].map(millis),
            [250, 500, 1_000, 16_000, 30_000, 30_000, 30_000, 30_000]
        );
        let pauses: Vec<_> = (0..100).map(|_| backoff.pause(3)).collect();
        let (least, most) = (Duration::from_millis(500), Duration::from_secs(1));
        assert!(pauses.iter().all(|pause| (least..=most).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).pause(9), Duration::ZERO);
    }

    /// Shows WK-8.
    #[test]
    fn the_defaults_are_those_of_the_contract() {
        let options = WorkerOptions::default();
        assert_eq!((options.lease, options.idle), (Duration::from_secs(30), Duration::from_secs(1)));
        assert_ne!(options.name, WorkerOptions::default().name);
        assert!(options.check().is_ok());
        for (lease, concurrency) in [(0, 1), (86_401, 1), (30, 0), (30, 1_001)] {
            let options = options.clone().with_lease(Duration::from_secs(lease)).with_concurrency(concurrency);
            assert_eq!(options.check().unwrap_err().kind(), store_core::ErrorKind::Invalid, "{options:?}");
        }
    }
}
