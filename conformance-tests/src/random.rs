//! Seeds from the environment, and random numbers for tests that do not shrink failing inputs.

use std::env;

use store_core::{IdSource, UuidSource};

/// Random numbers that are determined by a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The random numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A new generator. Its numbers are independent of the numbers that the current generator returns next. Concurrent
    /// tasks, for example, get a generator each.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// The next number: a counter whose bits are mixed (SplitMix64; Steele, Lea and Flood, 2014).
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. `bound` must not be 0.
    #[expect(clippy::cast_possible_truncation, reason = "it is smaller than the bound")]
    pub const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true once in `calls` calls, on average.
    pub const fn once_in(&mut self, calls: usize) -> bool {
        self.below(calls) == 0
    }
}

/// The seed that the environment variable `name` sets: a number, or `random` for a seed that cannot be predicted.
/// Otherwise the seed is 1, so that a test does the same each time.
#[must_use]
pub fn seed_from_env(name: &str) -> u64 {
    match env::var(name).as_deref() {
        Ok("random") => random_seed(),
        value => value.ok().and_then(|text| text.parse().ok()).unwrap_or(1),
    }
}

/// A seed that cannot be predicted.
#[must_use]
pub(crate) fn random_seed() -> u64 {
    let random = UuidSource.next_id();
    let digits = random.chars().rev().filter(char::is_ascii_hexdigit).take(12).collect::<String>();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}
