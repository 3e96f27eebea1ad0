//! What a store reports about its state.

use std::time::Duration;

use serde::Serialize;

use crate::time::Timestamp;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing. Nothing is wrong.
    Note,
    /// Wrong: acknowledged data may be lost, or the store does not work as it should.
    Problem,
}

/// Something that a check noticed, with advice in plain words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// What it is about: the name of a setting, `clock`, `free space`, `latency`, `mailbox`, `outbox`.
    pub about: String,
    /// What was found, and what follows from it.
    pub text: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// Makes a finding that nothing is wrong with.
    #[must_use]
    pub fn note(about: impl Into<String>, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Note, about: about.into(), text: text.into(), advice: advice.into() }
    }

    /// Makes a finding that something is wrong.
    #[must_use]
    pub fn problem(about: impl Into<String>, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { severity: Severity::Problem, ..Self::note(about, text, advice) }
    }
}

/// A version or a setting, as it is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Fact {
    /// The name: `library`, `server`, `schema`, or that of a setting.
    pub name: String,
    /// The value. It never contains a secret.
    pub value: String,
}

/// The time of a store, and the time of the host before and after the store was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReading {
    asked_at: Timestamp,
    store_time: Timestamp,
    answered_at: Timestamp,
}

impl ClockReading {
    /// Makes a reading: the host's time before the question, the answer, and the host's time after it.
    #[must_use]
    pub const fn new(asked_at: Timestamp, store_time: Timestamp, answered_at: Timestamp) -> Self {
        Self { asked_at, store_time, answered_at }
    }

    /// Returns the time of the store.
    #[must_use]
    pub const fn store_time(&self) -> Timestamp {
        self.store_time
    }

    /// Returns how far the store's clock is certainly ahead of the host's, in milliseconds; negative if it is behind.
    /// It is 0 if the store's time may be that of the host, given how long the answer took.
    #[must_use]
    pub fn offset_ms(&self) -> i64 {
        let millis = |time: Timestamp| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let (asked, store, answered) = (millis(self.asked_at), millis(self.store_time), millis(self.answered_at));
        if store > answered { store - answered } else { (store - asked).min(0) }
    }
}

/// What a store reports about its state (CP-6).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreHealth {
    /// Versions and settings.
    pub facts: Vec<Fact>,
    /// What the backend has to say about them.
    pub findings: Vec<Finding>,
    /// Store time and the host's time; absent if the store has no clock of its own, and uses the host's.
    pub clock: Option<ClockReading>,
    /// The bytes that are free where the store keeps its data; absent if the backend cannot know.
    pub free_bytes: Option<u64>,
}

impl StoreHealth {
    /// Makes an empty report.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a version or a setting.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push(Fact { name: name.into(), value: value.into() });
        self
    }

    /// Adds a finding, if there is one.
    #[must_use]
    pub fn finding(mut self, finding: impl Into<Option<Finding>>) -> Self {
        self.findings.extend(finding.into());
        self
    }

    /// Sets the reading of the clock.
    #[must_use]
    pub const fn with_clock(mut self, clock: ClockReading) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the free bytes, if they are known.
    #[must_use]
    pub const fn with_free_bytes(mut self, free_bytes: Option<u64>) -> Self {
        self.free_bytes = free_bytes;
        self
    }
}

/// Work that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lag {
    /// How many dispatches, or rows of the outbox, wait.
    pub waiting: u64,
    /// How long the oldest of them has been waiting, in milliseconds; absent if none waits.
    pub oldest_ms: Option<u64>,
}

impl Lag {
    /// Makes the lag of `waiting` records, the oldest of which waits since `oldest`, as of `now`.
    #[must_use]
    pub fn new(waiting: u64, oldest: Option<Timestamp>, now: Timestamp) -> Self {
        let age = |oldest: Timestamp| now.as_millis().saturating_sub(oldest.as_millis());
        Self { waiting, oldest_ms: oldest.map(age) }
    }

    pub(super) fn oldest(self) -> Duration {
        Duration::from_millis(self.oldest_ms.unwrap_or_default())
    }
}
