//! The length of tests that repeat their steps.

use std::env;

/// The environment variable that sets the length.
const LENGTH_VARIABLE: &str = "AGENTSTORE_TEST_LENGTH";

/// How many times tests of faults, crashes and concurrent histories repeat their steps. Each length runs the same
/// tests.
///
/// The environment variable `AGENTSTORE_TEST_LENGTH` sets the length: `quick`, `full` or `long`.
///
/// ```
/// use conformance_tests::TestLength;
///
/// assert_eq!(TestLength::Full.pick(5, 20, 300), 20);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestLength {
    /// Tests each promise, with few repetitions. This is the default.
    Quick,
    /// Tries more seeds, and crashes at more points. It is meant for the time before a release.
    Full,
    /// Long enough to find rare faults.
    Long,
}

impl TestLength {
    /// The length that the environment asks for.
    ///
    /// # Panics
    /// If the value of the variable is not a length. A default would hide that the tests are shorter than requested.
    #[must_use]
    #[expect(clippy::panic, reason = "a test that cannot continue fails")]
    pub fn from_env() -> Self {
        match env::var(LENGTH_VARIABLE).as_deref() {
            Err(_) | Ok("quick") => Self::Quick,
            Ok("full") => Self::Full,
            Ok("long") => Self::Long,
            Ok(other) => panic!("{LENGTH_VARIABLE} is `{other}`: it must be `quick`, `full` or `long`"),
        }
    }

    /// The value for this length.
    #[must_use]
    pub fn pick<T>(self, quick: T, full: T, long: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
            Self::Long => long,
        }
    }

    /// The value for the length that the environment asks for.
    ///
    /// # Panics
    /// Those of [`from_env`](Self::from_env).
    #[must_use]
    pub fn pick_by_env<T>(quick: T, full: T, long: T) -> T {
        Self::from_env().pick(quick, full, long)
    }
}
