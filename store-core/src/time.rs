//! Time: milliseconds since the Unix epoch, and the clock that a store asks for it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// A point in time: milliseconds since the Unix epoch, from 0 to the end of the year 9999 (ID-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const MIN: Self = Self(0);
    /// The last millisecond of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Makes a timestamp of milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// `Invalid` if `millis` lies after the year 9999.
    pub fn from_millis(millis: u64) -> Result<Self> {
        if millis > Self::MAX.0 {
            return Err(Error::invalid("timestamp", "it lies after the year 9999"));
        }
        Ok(Self(millis))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This time plus `duration`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis).min(Self::MAX.0))
    }

    /// This time minus `duration`, at least [`Timestamp::MIN`].
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

/// What a store with injected time asks for the time (PR-3).
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now. It may jump in both directions (PR-6).
    fn now(&self) -> Timestamp;
}

/// The host's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others ask")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN.saturating_add(since)
    }
}

/// A clock that stands still until it is moved: for tests.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_millis())))
    }

    /// Moves the clock to `now`, forward or back.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
