//! How records become JSON and come back: ordered pairs of key and raw value, unknown ones kept (ID-11).
//!
//! serde's `flatten`, `untagged` and internally tagged enums lose unknown fields or the bytes of numbers; so records
//! are written and read by [`Codec`], which never goes through a number type that the record does not have.

mod fields;
#[macro_use]
mod macros;
mod value;

use std::fmt;

use sha2::{Digest, Sha256};

pub use self::fields::{Extra, Fields, Object};
pub(crate) use self::macros::{names, record, serde_by_codec};

/// Something that is kept as JSON.
pub trait Codec: Sized {
    /// Appends the JSON of `self` to `out`.
    fn write(&self, out: &mut String);

    /// Reads the value back.
    ///
    /// # Errors
    /// [`DecodeError`] if `raw` does not hold a value of this type.
    fn read(raw: &str) -> Result<Self, DecodeError>;

    /// The JSON of `self`.
    fn encode(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Whether a field that is left out if it has its default is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The SHA-256 of a text, in hexadecimal digits.
pub(crate) fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text);
    // Formatting each byte takes ten times as long, and claims wait for it.
    let mut digits = String::with_capacity(2 * digest.len());
    let each = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.extend(each.filter_map(|digit| char::from_digit(digit.into(), 16)));
    digits
}

/// Why stored JSON is not the record that it should be. It names the place, never the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    reason: &'static str,
}

impl DecodeError {
    /// An error at the place that is being read.
    #[must_use]
    pub const fn new(reason: &'static str) -> Self {
        Self { path: String::new(), reason }
    }

    /// The same error, one level further out.
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
