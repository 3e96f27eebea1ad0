//! The time of the server, as this process estimates it.

#![expect(clippy::disallowed_methods, reason = "measures the time since the server reported its own")]

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use store_core::{Result, Timestamp};

/// The maximum difference, in milliseconds, between the times of two decisions that are written together.
const MAX_GROUP_SKEW_MS: u64 = 10;

/// The time at which a decision is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecisionTime {
    pub(crate) now: Timestamp,
    /// When `now` was estimated. `None` if the clock is that of a test, which stands still.
    at: Option<Instant>,
}

impl DecisionTime {
    /// Returns whether two decisions can be written as if they were made at the same moment.
    pub(crate) fn is_near(self, other: Self) -> bool {
        let (one, two) = (self.current_time().as_millis(), other.current_time().as_millis());
        one.abs_diff(two) <= if self.at.is_some() { MAX_GROUP_SKEW_MS } else { 0 }
    }

    /// Returns the time of the decision plus the time that has passed since. The server refuses the write if its own
    /// time differs too much.
    pub(crate) fn current_time(self) -> Timestamp {
        self.now.saturating_add(self.at.map_or(Duration::ZERO, |at| at.elapsed()))
    }
}

/// The last time read from the server, and when it was read.
#[derive(Debug)]
pub(crate) struct Clock {
    server_time: Mutex<(Duration, Instant)>,
    uses_test_clock: bool,
}

impl Clock {
    pub(crate) fn new(uses_test_clock: bool) -> Self {
        Self { server_time: Mutex::new((Duration::ZERO, Instant::now())), uses_test_clock }
    }

    /// Records a time that the server has just sent.
    pub(crate) fn set_server_time(&self, server_time: Duration) {
        *self.lock() = (server_time, Instant::now());
    }

    /// Returns the store time: the last time that the server sent plus the time that has passed since. It is never
    /// ahead of the server (PR-22).
    pub(crate) fn now(&self) -> Result<Timestamp> {
        let (server_time, read_at) = *self.lock();
        let now = if self.uses_test_clock { server_time } else { server_time.saturating_add(read_at.elapsed()) };
        Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the time for a decision that is made now.
    pub(crate) fn decision_time(&self) -> Result<DecisionTime> {
        let at = Instant::now();
        Ok(DecisionTime { now: self.now()?, at: (!self.uses_test_clock).then_some(at) })
    }

    fn lock(&self) -> MutexGuard<'_, (Duration, Instant)> {
        self.server_time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
