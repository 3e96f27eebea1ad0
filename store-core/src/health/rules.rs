//! What is wrong with the state of a store, or worth knowing, whatever its backend is.

use std::time::Duration;

use super::{Finding, Lag, StoreHealth};

/// Above which values a check says something.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthLimits {
    /// A larger offset of the clocks is noted. Default: 1 s.
    pub noted_clock_offset: Duration,
    /// A larger offset of the clocks is a problem. Default: 60 s.
    pub max_clock_offset: Duration,
    /// Less free space is noted. Default: 1 GiB.
    pub noted_free_bytes: u64,
    /// Less free space is a problem. Default: 128 MiB.
    pub min_free_bytes: u64,
    /// A read that takes longer is noted. Default: 100 ms.
    pub noted_latency: Duration,
    /// Work that waits longer is noted. Default: 5 minutes.
    pub noted_age: Duration,
}

impl Default for HealthLimits {
    fn default() -> Self {
        Self {
            noted_clock_offset: Duration::from_secs(1),
            max_clock_offset: Duration::from_secs(60),
            noted_free_bytes: 1 << 30,
            min_free_bytes: 128 << 20,
            noted_latency: Duration::from_millis(100),
            noted_age: Duration::from_secs(300),
        }
    }
}

/// Returns the findings about a store that any backend may have: its clock, its free space, the time of a read.
#[must_use]
pub fn check_health(health: &StoreHealth, read_latency: Duration, limits: &HealthLimits) -> Vec<Finding> {
    let mut findings = health.findings.clone();
    findings.extend(health.clock.and_then(|clock| check_offset(clock.offset_ms(), limits)));
    findings.extend(health.free_bytes.and_then(|free| check_free_bytes(free, limits)));
    if read_latency > limits.noted_latency {
        let text = format!("a small read took {} ms, and every call waits at least as long", read_latency.as_millis());
        findings.push(Finding::note("latency", text, "run the process nearer to the store, or look for load on it"));
    }
    findings
}

fn check_offset(offset_ms: i64, limits: &HealthLimits) -> Option<Finding> {
    let offset = Duration::from_millis(offset_ms.unsigned_abs());
    if offset <= limits.noted_clock_offset {
        return None;
    }
    let direction = if offset_ms > 0 { "ahead of" } else { "behind" };
    let text = format!(
        "the clock of the store is {} ms {direction} that of this host: maintenance on this host removes records too \
         {}",
        offset_ms.unsigned_abs(),
        if offset_ms > 0 { "late" } else { "early" }
    );
    let advice = "synchronise both clocks (NTP)";
    let finding = if offset > limits.max_clock_offset { Finding::problem } else { Finding::note };
    Some(finding("clock".to_owned(), text, advice.to_owned()))
}

fn check_free_bytes(free: u64, limits: &HealthLimits) -> Option<Finding> {
    let text = || format!("{} MiB are free where the store keeps its data", free >> 20);
    if free < limits.min_free_bytes {
        let advice = "free space now: without space, writes are refused with `StorageFull`";
        return Some(Finding::problem("free space", text(), advice));
    }
    let advice = "free space soon, or let `agentstore maintain` remove old records";
    (free < limits.noted_free_bytes).then(|| Finding::note("free space", text(), advice))
}

/// Returns the finding about dispatches of a mailbox that wait, or rows of an outbox (`of_outbox`).
#[must_use]
pub fn check_lag(lag: Lag, of_outbox: bool, limits: &HealthLimits) -> Option<Finding> {
    if lag.oldest() <= limits.noted_age {
        return None;
    }
    let (about, what, advice) = if of_outbox {
        ("outbox", "rows wait for delivery", "check that a relay runs for each lane, and that its target answers")
    } else {
        ("mailbox", "dispatches wait for a worker", "check that workers run and claim, or start more of them")
    };
    let text = format!("{} {what}; the oldest for {} s", lag.waiting, lag.oldest().as_secs());
    Some(Finding::note(about, text, advice))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HealthLimits, check_health, check_lag};
    use crate::{
        Timestamp,
        health::{ClockReading, Finding, Lag, Severity, StoreHealth},
    };

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn severities(health: &StoreHealth, latency: Duration) -> Vec<(String, Severity)> {
        let findings = check_health(health, latency, &HealthLimits::default());
        findings.into_iter().map(|finding| (finding.about, finding.severity)).collect()
    }

    /// Tests CP-6: the offset counts only as far as the time of the answer does not explain it.
    #[test]
    fn an_offset_of_clocks_is_what_the_answer_does_not_explain() {
        for (store, offset) in [(1_000, 0), (1_200, 0), (1_201, 1), (5_200, 4_000), (999, -1), (0, -1_000)] {
            assert_eq!(ClockReading::new(time(1_000), time(store), time(1_200)).offset_ms(), offset, "{store}");
        }
    }

    #[test]
    fn each_limit_is_exceeded_above_its_value() {
        let clock = |offset: u64| {
            let health =
                StoreHealth::new().with_clock(ClockReading::new(time(100_000), time(100_000 + offset), time(100_000)));
            severities(&health, Duration::ZERO)
        };
        let found = |severity| vec![("clock".to_owned(), severity)];
        assert_eq!(clock(1_000), []);
        assert_eq!(clock(1_001), found(Severity::Note));
        assert_eq!(clock(60_000), found(Severity::Note));
        assert_eq!(clock(60_001), found(Severity::Problem));
        let behind = StoreHealth::new().with_clock(ClockReading::new(time(100_000), time(1), time(100_000)));
        assert_eq!(severities(&behind, Duration::ZERO), found(Severity::Problem));

        let space = |free| severities(&StoreHealth::new().with_free_bytes(free), Duration::ZERO);
        let found = |severity| vec![("free space".to_owned(), severity)];
        assert_eq!(space(None), []);
        assert_eq!(space(Some(1 << 30)), []);
        assert_eq!(space(Some((1 << 30) - 1)), found(Severity::Note));
        assert_eq!(space(Some(128 << 20)), found(Severity::Note));
        assert_eq!(space(Some((128 << 20) - 1)), found(Severity::Problem));

        assert_eq!(severities(&StoreHealth::new(), Duration::from_millis(100)), []);
        assert_eq!(
            severities(&StoreHealth::new(), Duration::from_millis(101)),
            [("latency".to_owned(), Severity::Note)]
        );
    }

    #[test]
    fn findings_of_the_backend_are_kept() {
        let health = StoreHealth::new().with("fsync", "off").finding(Finding::problem("fsync", "it is off", "set it"));
        assert_eq!(severities(&health, Duration::ZERO), [("fsync".to_owned(), Severity::Problem)]);
    }

    #[test]
    fn work_that_waits_for_a_long_time_is_noted() {
        let lag = |age: u64, of_outbox| {
            let lag = Lag::new(3, Some(time(1_000_000 - age)), time(1_000_000));
            check_lag(lag, of_outbox, &HealthLimits::default()).map(|finding| (finding.about, finding.text))
        };
        assert_eq!(lag(300_000, false), None);
        let (about, text) = lag(301_000, false).unwrap();
        assert_eq!((about.as_str(), text.contains("3 dispatches") && text.contains("301 s")), ("mailbox", true));
        assert_eq!(lag(301_000, true).unwrap().0, "outbox");
        assert_eq!(check_lag(Lag::new(0, None, time(9)), true, &HealthLimits::default()), None);
    }
}
