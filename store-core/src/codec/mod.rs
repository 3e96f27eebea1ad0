//! How records are written as JSON and read back: as ordered pairs of key and raw value. Unknown fields are kept
//! (ID-11).
//!
//! serde's `flatten`, `untagged` and internally tagged enums lose unknown fields or the spelling of numbers. Records
//! are therefore written and read by [`Codec`], which never converts a number to a type other than that of its field.

mod canonical;
mod fields;
#[macro_use]
mod macros;
mod value;

use std::fmt;

use sha2::{Digest, Sha256};

pub use self::fields::{Extra, Fields, ObjectWriter};
pub(crate) use self::{
    canonical::canonical_json,
    macros::{named_enum, record, serde_by_codec},
};

/// A type that is stored as JSON.
pub trait Codec: Sized {
    /// Appends the JSON of `self` to `out`.
    fn write(&self, out: &mut String);

    /// Reads a value from its JSON.
    ///
    /// # Errors
    /// [`DecodeError`] if `raw` is not the JSON of a value of this type.
    fn read(raw: &str) -> Result<Self, DecodeError>;

    /// Returns the JSON of `self`.
    fn encode(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Returns whether the value is the default of its type, so that its field can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the SHA-256 digest of a text in hexadecimal digits.
pub(crate) fn sha256_hex(text: &str) -> String {
    let digest = Sha256::digest(text);
    // This is ten times as fast as formatting each byte, and each claim waits for this digest.
    let mut digits = String::with_capacity(2 * digest.len());
    let half_bytes = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.extend(half_bytes.filter_map(|digit| char::from_digit(digit.into(), 16)));
    digits
}

/// The error for JSON that does not describe the expected record. It names the path of the field, never the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    reason: &'static str,
}

impl DecodeError {
    /// Makes an error about the value that is being read. `reason` completes a sentence whose subject is that value,
    /// such as `is not a string`.
    #[must_use]
    pub const fn new(reason: &'static str) -> Self {
        Self { path: String::new(), reason }
    }

    /// Puts the name of the enclosing field in front of the path of the error.
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{name}{separator}{}", self.path);
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(self.reason) } else { write!(f, "`{}`: {}", self.path, self.reason) }
    }
}

impl std::error::Error for DecodeError {}
