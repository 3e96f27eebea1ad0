//! Samples of two sizes that are taken alternately, and the table of their medians.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark measures time, and prints it")]

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// A line of the table is flagged if the ratio of its medians is larger than this, and their difference is larger than
/// [`NOISE_LIMIT`].
const MAX_RATIO: f64 = 1.2;
/// A smaller difference of two medians is noise.
const NOISE_LIMIT: Duration = Duration::from_micros(2);
/// The logarithm of 100,000, divided by the logarithm of 100. See [`AllowedGrowth::Path`].
const LOGARITHMIC_GROWTH: f64 = 2.5;

/// How the cost of an operation may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedGrowth {
    /// The cost must not grow.
    Flat,
    /// The cost may grow with the logarithm of the length of the log, because the operation walks a path (PR-15). The
    /// logs have 100 and 100,000 entries.
    Path,
}

/// The samples of one operation, taken alternately with little and with much data.
#[derive(Debug, Default)]
pub struct Samples {
    small: Vec<Duration>,
    large: Vec<Duration>,
}

impl Samples {
    /// Adds a sample of one of the two sizes.
    pub fn add(&mut self, is_large: bool, took: Duration) {
        if is_large { self.large.push(took) } else { self.small.push(took) }
    }

    /// Returns the line of the table for these samples.
    #[must_use]
    pub fn row(self, operation: &'static str, backend: &'static str, allowed_growth: AllowedGrowth) -> Row {
        Row { operation, backend, allowed_growth, small: median(self.small), large: median(self.large) }
    }
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    operation: &'static str,
    backend: &'static str,
    allowed_growth: AllowedGrowth,
    small: Duration,
    large: Duration,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.large.as_secs_f64() / self.small.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns whether the cost grows by more than is allowed for the operation, and by more than noise.
    #[must_use]
    pub fn grows_too_much(&self) -> bool {
        let growth = if self.allowed_growth == AllowedGrowth::Path { LOGARITHMIC_GROWTH } else { 1.0 };
        self.ratio() > MAX_RATIO * growth && self.large.saturating_sub(self.small) > NOISE_LIMIT
    }
}

/// Returns the median of these times, or zero if there are none.
#[must_use]
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Awaits a call. Returns how long it took, and its result.
pub async fn timed<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let answer = call.await;
    (start.elapsed(), answer)
}

/// Prints the heading of the table.
pub fn print_heading() {
    println!(
        "{:<44} {:<12} {:>10} {:>10} {:>6} {:>10}",
        "operation", "backend", "small", "large", "ratio", "difference"
    );
}

/// Prints lines of the table. Returns `true` if none of them grows too much.
#[must_use]
pub fn print_rows(rows: &[Row]) -> bool {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    for row in rows {
        let (small, large) = (micros(row.small), micros(row.large));
        let remark = match (row.grows_too_much(), row.allowed_growth) {
            (true, _) => "  grows too much",
            (false, AllowedGrowth::Path) => "  may grow logarithmically",
            (false, AllowedGrowth::Flat) => "",
        };
        println!(
            "{:<44} {:<12} {small:>7.1} µs {large:>7.1} µs {:>6.2} {:>7.1} µs{remark}",
            row.operation,
            row.backend,
            row.ratio(),
            large - small
        );
    }
    !rows.iter().any(Row::grows_too_much)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AllowedGrowth, Samples, median};

    /// Adds one sample of each size, in nanoseconds, and checks whether their row grows too much.
    fn expect_grows_too_much(small: u64, large: u64, allowed_growth: AllowedGrowth, expected: bool) {
        let mut samples = Samples::default();
        samples.add(false, Duration::from_nanos(small));
        samples.add(true, Duration::from_nanos(large));
        assert_eq!(samples.row("append", "memory", allowed_growth).grows_too_much(), expected, "{small} {large}");
    }

    #[test]
    fn a_cost_grows_too_much_if_it_exceeds_the_allowed_growth_by_more_than_noise() {
        expect_grows_too_much(10_000, 12_000, AllowedGrowth::Flat, false);
        expect_grows_too_much(10_000, 12_500, AllowedGrowth::Flat, true);
        expect_grows_too_much(1_000, 2_900, AllowedGrowth::Flat, false);
        expect_grows_too_much(100_000, 110_000, AllowedGrowth::Flat, false);
        expect_grows_too_much(10_000, 25_000, AllowedGrowth::Path, false);
        expect_grows_too_much(10_000, 31_000, AllowedGrowth::Path, true);
        expect_grows_too_much(20_000, 10_000, AllowedGrowth::Flat, false);
    }

    #[test]
    fn the_median_is_the_middle_value() {
        let times = [5, 1, 900].map(Duration::from_secs).to_vec();
        assert_eq!((median(times), median(Vec::new())), (Duration::from_secs(5), Duration::ZERO));
    }
}
