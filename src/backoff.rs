//! Delays between attempts: they double up to a bound, and each is shortened at random.

use std::time::Duration;

/// Delays that double with each failure. Each delay is shortened at random, so that dispatches that failed at the same
/// time are retried at different times (WK-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest delay after the first failure; 250 milliseconds by default.
    pub first: Duration,
    /// The longest delay of all; 30 seconds by default.
    pub max: Duration,
}

impl Default for Backoff {
    /// The defaults of WK-8.
    fn default() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(30))
    }
}

impl Backoff {
    /// Makes delays that begin with `first` and double up to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// Returns the longest delay after this number of failures.
    #[must_use]
    pub fn ceiling(&self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.first.saturating_mul(factor).min(self.max)
    }

    /// Returns the delay after this number of failures: a random time between half of the ceiling and the ceiling.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        jittered(self.ceiling(failures))
    }
}

/// Returns a random time between half of `time` and `time`.
pub(crate) fn jittered(time: Duration) -> Duration {
    let mut bytes = [0; 4];
    // If the system returns no random bytes, the delay is the longest one.
    let random_share =
        getrandom::fill(&mut bytes).map_or(1.0, |()| f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX));
    time.div_f64(2.0) + time.div_f64(2.0).mul_f64(random_share)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    /// Tests WK-8, and the delays of WK-3: they double with each failure, and each is shortened at random.
    #[test]
    fn retry_delays_double_up_to_a_bound_with_jitter() {
        let backoff = Backoff::default();
        let millis = |failures| backoff.ceiling(failures).as_millis();
        assert_eq!(
            [1, 2, 3, 7, 8, 9, 40, u32::MAX].map(millis),
            [250, 500, 1_000, 16_000, 30_000, 30_000, 30_000, 30_000]
        );
        let delays: Vec<_> = (0..100).map(|_| backoff.delay(3)).collect();
        let (least, most) = (Duration::from_millis(500), Duration::from_secs(1));
        assert!(delays.iter().all(|delay| (least..=most).contains(delay)), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).delay(9), Duration::ZERO);
    }
}
