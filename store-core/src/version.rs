//! Versions of records, and the guards with which a caller states the version that it expects.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The value of a record's counter. A read or a receipt returns it, and the caller passes it back as a guard.
///
/// Besides the counter it contains the generation of the thread, because a thread that is created again under a deleted
/// id is a different thread (TH-24). It also contains the incarnation of the store (FI-12). A guard from a deleted
/// thread or from an earlier incarnation of the store therefore never holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    #[serde(rename = "version")]
    number: u64,
    generation: u64,
    #[serde(default, skip_serializing_if = "is_first_incarnation")]
    incarnation: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_incarnation(incarnation: &u64) -> bool {
    *incarnation == 0
}

impl Version {
    /// Creates the version `number` of a record, in this generation of its thread and incarnation of the store. Only
    /// implementations of a store need this.
    #[must_use]
    pub const fn new(number: u64, generation: u64, incarnation: u64) -> Self {
        Self { number, generation, incarnation }
    }

    /// Returns the counter. For the version of a thread it is the number of entries.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns the generation of the thread.
    #[must_use]
    pub const fn generation(self) -> u64 {
        self.generation
    }

    /// Returns the incarnation of the store. It is 0 at first. It increases each time the store may have lost data that
    /// its durability setting allows it to lose.
    #[must_use]
    pub const fn incarnation(self) -> u64 {
        self.incarnation
    }

    /// Returns the version whose counter is higher by `by`.
    #[must_use]
    pub const fn plus(self, by: u64) -> Self {
        Self { number: self.number.saturating_add(by), ..self }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.number)?;
        if self.generation != 1 {
            write!(f, " of generation {}", self.generation)?;
        }
        if self.incarnation != 0 {
            write!(f, " of incarnation {}", self.incarnation)?;
        }
        Ok(())
    }
}

/// The version that a caller expects a record to have before the record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Expect {
    /// The record may have any version, or not exist.
    #[default]
    Any,
    /// The record must not exist.
    Absent,
    /// The record must have this version.
    Version(Version),
}

impl Expect {
    /// Checks the expectation against the stored version.
    ///
    /// # Errors
    /// `Conflict`, which says what was expected and what was found.
    pub fn check(self, record_kind: &'static str, actual: Option<Version>) -> Result<()> {
        let expected = match self {
            Self::Any => return Ok(()),
            Self::Absent => None,
            Self::Version(version) => Some(version),
        };
        if expected == actual { Ok(()) } else { Err(Error::conflict(record_kind, expected, actual)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Expect, Version};

    #[test]
    fn a_version_has_a_number_a_generation_and_an_incarnation() {
        let version = Version::new(1, 2, 3);
        assert_eq!((version.number(), version.generation(), version.incarnation()), (1, 2, 3));
    }

    #[test]
    fn an_expectation_holds_only_for_the_version_that_it_names() {
        let stored_version = Some(Version::new(3, 1, 0));
        for (expect, actual, holds) in [
            (Expect::Any, None, true),
            (Expect::Any, stored_version, true),
            (Expect::Absent, None, true),
            (Expect::Absent, stored_version, false),
            (Expect::Version(Version::new(3, 1, 0)), stored_version, true),
            (Expect::Version(Version::new(2, 1, 0)), stored_version, false),
            (Expect::Version(Version::new(3, 2, 0)), stored_version, false),
            (Expect::Version(Version::new(3, 1, 1)), stored_version, false),
            (Expect::Version(Version::new(0, 1, 0)), None, false),
        ] {
            assert_eq!(expect.check("thread", actual).is_ok(), holds, "{expect:?} of {actual:?}");
        }
    }

    #[test]
    fn a_version_is_written_with_its_number_and_generation() {
        let text = serde_json::to_string(&Version::new(7, 2, 0)).unwrap();
        assert_eq!(text, r#"{"version":7,"generation":2}"#);
    }

    #[test]
    fn a_version_shows_a_generation_and_an_incarnation_after_the_first() {
        let text = |number, generation, incarnation| Version::new(number, generation, incarnation).to_string();
        assert_eq!(text(3, 1, 0), "version 3");
        assert_eq!(text(3, 2, 4), "version 3 of generation 2 of incarnation 4");
    }

    #[test]
    fn a_version_is_written_with_an_incarnation_if_it_has_one() {
        for incarnation in [0, 1] {
            let version = Version::new(3, 1, incarnation);
            let text = serde_json::to_string(&version).unwrap();
            assert_eq!(text.contains("incarnation"), incarnation != 0, "{text}");
            assert_eq!(serde_json::from_str::<Version>(&text).unwrap(), version);
        }
    }
}
