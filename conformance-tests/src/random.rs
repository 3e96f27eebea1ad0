//! Seeds that the environment gives, and random numbers from them where nothing has to be made shorter.

use std::env;

use store_core::{IdSource, Uuids};

/// Random numbers that a seed decides.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Those of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Others, as far from these as can be: one for each of several tasks.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A counter whose bits are mixed (Steele, Lea and Flood, 2014).
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "it is smaller than the bound")]
    pub const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `of` times.
    pub const fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

/// The seed that the variable `name` gives: a number (1, so that a change is judged by what the last one was judged
/// by), or `random`.
#[must_use]
pub fn seed(name: &str) -> u64 {
    match env::var(name).as_deref() {
        Ok("random") => random_seed(),
        given => given.ok().and_then(|text| text.parse().ok()).unwrap_or(1),
    }
}

/// A seed that nobody knows before.
#[must_use]
pub(crate) fn random_seed() -> u64 {
    let random = Uuids.next_id();
    let digits = random.chars().rev().filter(char::is_ascii_hexdigit).take(12).collect::<String>();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}
