//! The time of the server, as far as this process knows it.

#![expect(clippy::disallowed_methods, reason = "measures the time since the server reported its own")]

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use store_core::{Result, Timestamp};

/// The time of the leader's clock since 1970, and the instant at which this process received it.
#[derive(Debug)]
pub(crate) struct LeaderClock(Mutex<(Duration, Instant)>);

impl LeaderClock {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((Duration::ZERO, Instant::now())))
    }

    /// Sets the leader's time to a value that has just been received.
    pub(crate) fn set_leader_time(&self, leader_time: Duration) {
        *self.lock() = (leader_time, Instant::now());
    }

    /// Returns store time: the leader's last known time plus the time elapsed since then. So it is never ahead of the
    /// leader (PR-22).
    pub(crate) fn now(&self) -> Result<Timestamp> {
        let (leader_time, received_at) = *self.lock();
        let now = leader_time.saturating_add(received_at.elapsed());
        Timestamp::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, (Duration, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses a text such as `2026-11-23T21:04:54.123456789Z` as the time since 1970. Returns `None` if the text has
/// another form.
pub(crate) fn parse_server_time(text: &str) -> Option<Duration> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<u64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.splitn(3, ':').map(str::parse::<u64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // A minute with a leap second has 61 seconds.
    if !is_date || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    // Years are counted from March on, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let nanos: u32 = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    Some(Duration::new(((days * 24 + hour) * 60 + minute) * 60 + second, nanos))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_server_time;

    #[test]
    fn server_times_are_parsed() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1972-02-29T00:00:01.5Z", 68_169_601_500),
            ("2000-03-01T12:00:00.001Z", 951_912_000_001),
            ("2026-11-23T21:04:54.123Z", 1_795_467_894_123),
        ] {
            assert_eq!(parse_server_time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "2026-11-23",
            "2026-11-23T21:04:54+01:00",
            "2026-13-01T00:00:00Z",
            "2026-11-32T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "x-1-1T0:0:0Z",
        ] {
            assert_eq!(parse_server_time(text), None, "{text}");
        }
    }
}
