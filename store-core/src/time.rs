//! Time: milliseconds since the Unix epoch, and the clock from which a store reads it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    error::{Error, Result},
    sync::AtomicU64,
    waiters::Waiters,
};

/// The longest single sleep in real time. The clock is read again after each sleep, so a sleeper soon notices that the
/// clock was set or that the host was suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// Waits for this length of real time, at most for a year.
#[cfg(not(shuttle))]
pub(crate) async fn sleep_in_real_time(duration: Duration) {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    futures_timer::Delay::new(duration.min(YEAR)).await;
}

/// Waits forever, unless `duration` is zero. In tests under shuttle real time stands still, because a timeout could
/// hide a missing wake-up.
#[cfg(shuttle)]
pub(crate) async fn sleep_in_real_time(duration: Duration) {
    if !duration.is_zero() {
        std::future::pending::<()>().await;
    }
}

/// A point in time: milliseconds since the Unix epoch, from 0 to the end of the year 9999 (ID-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const MIN: Self = Self(0);
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Makes a timestamp from milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// `Invalid` if `millis` lies after the year 9999.
    pub fn from_millis(millis: u64) -> Result<Self> {
        if millis > Self::MAX.0 {
            return Err(Error::invalid("timestamp", "it is after the year 9999"));
        }
        Ok(Self(millis))
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns this time plus `duration`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis).min(Self::MAX.0))
    }

    /// Returns this time minus `duration`, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::from_millis(u64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A source of store time (PR-3): the clock of the host, or a clock that the caller passes to a store, for example in a
/// test.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current time. It may jump in both directions (PR-6).
    fn now(&self) -> Timestamp;

    /// Waits until [`now`](Self::now) is `time` or later. If the clock jumps past `time`, the wait ends soon after
    /// that.
    ///
    /// An implementation must not need an async runtime.
    async fn sleep_until(&self, time: Timestamp);
}

/// The clock of the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "everything else reads the time through this clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN.saturating_add(since_epoch)
    }

    async fn sleep_until(&self, time: Timestamp) {
        loop {
            let remaining = Duration::from_millis(time.as_millis().saturating_sub(self.now().as_millis()));
            if remaining.is_zero() {
                return;
            }
            sleep_in_real_time(remaining.min(LONGEST_SLEEP)).await;
        }
    }
}

/// A clock for tests. Its time changes only when a test sets or advances it.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<ManualClockState>);

#[derive(Debug, Default)]
struct ManualClockState {
    millis: AtomicU64,
    sleepers: Waiters,
}

impl ManualClock {
    /// Returns a clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let clock = Self(Arc::default());
        clock.set(now);
        clock
    }

    /// Moves the clock to `now`, forward or back, and wakes the sleepers whose time has come.
    pub fn set(&self, now: Timestamp) {
        self.0.millis.store(now.as_millis(), Ordering::SeqCst);
        self.0.sleepers.wake(|time| time <= now);
    }

    /// Moves the clock forward by `by`.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.millis.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, time: Timestamp) {
        let waiter = self.0.sleepers.register(time);
        while self.now() < time {
            waiter.next_wake_up().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{FutureExt, future::join};

    use super::{Clock, ManualClock, SystemClock, Timestamp};

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn a_time_is_written_in_milliseconds() {
        assert_eq!(time(1_000).to_string(), "1000");
    }

    #[tokio::test]
    async fn moving_a_manual_clock_wakes_sleeping_tasks() {
        let clock = ManualClock::new(time(10));
        clock.sleep_until(time(10)).await;
        let mut sleep = clock.sleep_until(time(20));
        for now in [15, 5, 19] {
            assert!((&mut sleep).now_or_never().is_none());
            clock.set(time(now));
        }
        let move_clock = async {
            tokio::task::yield_now().await;
            clock.advance(Duration::from_millis(1));
        };
        join(sleep, move_clock).await;
    }

    #[tokio::test]
    async fn the_system_clock_wakes_sleeping_tasks() {
        let until = SystemClock.now().saturating_add(Duration::from_millis(5));
        SystemClock.sleep_until(until).await;
        assert!(SystemClock.now() >= until);
        SystemClock.sleep_until(Timestamp::MIN).await;
    }
}
