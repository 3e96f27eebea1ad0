//! The server's time, as a process knows it.

#![expect(clippy::disallowed_methods, reason = "the time since the server told its own")]

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use store_core::{Result, Timestamp};

/// What two decisions may differ by in what they take for the server's time.
const NEAR_MS: u64 = 10;

/// The time that a decision is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    at: Option<Instant>,
}

impl Moment {
    /// Whether two decisions can be written as of one moment.
    pub(crate) fn is_near(self, other: Self) -> bool {
        let (one, two) = (self.later().as_millis(), other.later().as_millis());
        one.abs_diff(two) <= if self.at.is_some() { NEAR_MS } else { 0 }
    }

    /// What time it is for who made the decision: the server refuses it if its own is another.
    pub(crate) fn later(self) -> Timestamp {
        self.now.saturating_add(self.at.map_or(Duration::ZERO, |at| at.elapsed()))
    }
}

/// What the server's clock said, and what elapsed since.
#[derive(Debug)]
pub(crate) struct Clock {
    heard: Mutex<(Duration, Instant)>,
    stands_still: bool,
}

impl Clock {
    pub(crate) fn new(stands_still: bool) -> Self {
        Self { heard: Mutex::new((Duration::ZERO, Instant::now())), stands_still }
    }

    /// The server's clock was there a moment ago.
    pub(crate) fn heard(&self, clock: Duration) {
        *self.lock() = (clock, Instant::now());
    }

    /// The store's time: what the server said last and what elapsed since, so that it is never ahead (PR-22).
    pub(crate) fn now(&self) -> Result<Timestamp> {
        let (clock, at) = *self.lock();
        let now = if self.stands_still { clock } else { clock.saturating_add(at.elapsed()) };
        Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    /// A moment for a decision.
    pub(crate) fn moment(&self) -> Result<Moment> {
        let at = Instant::now();
        Ok(Moment { now: self.now()?, at: (!self.stands_still).then_some(at) })
    }

    fn lock(&self) -> MutexGuard<'_, (Duration, Instant)> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
