//! The keys of records in their lists.

use std::fmt;

use crate::codec::{Codec, DecodeError};

/// A part of the key of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    /// A number.
    Number(u64),
    /// A text, ordered byte by byte.
    Text(String),
}

impl Codec for KeyPart {
    fn write(&self, out: &mut String) {
        match self {
            Self::Number(number) => number.write(out),
            Self::Text(text) => text.write(out),
        }
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        if raw.starts_with('"') { String::read(raw).map(Self::Text) } else { u64::read(raw).map(Self::Number) }
    }
}

impl From<u64> for KeyPart {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for KeyPart {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The key of a record in its list. The keys of one list have the same parts, which are compared one after another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordKey(Vec<KeyPart>);

impl RecordKey {
    /// Makes a key of one part.
    #[must_use]
    pub fn of(first: impl Into<KeyPart>) -> Self {
        Self(vec![first.into()])
    }

    /// Adds a part.
    #[must_use]
    pub fn and(mut self, part: impl Into<KeyPart>) -> Self {
        self.0.push(part.into());
        self
    }

    /// Returns the text at this place; an empty one if there is none.
    #[must_use]
    pub fn text(&self, place: usize) -> &str {
        match self.0.get(place) {
            Some(KeyPart::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the number at this place; 0 if there is none.
    #[must_use]
    pub fn number(&self, place: usize) -> u64 {
        match self.0.get(place) {
            Some(KeyPart::Number(number)) => *number,
            _ => 0,
        }
    }

    /// Returns the parts.
    #[must_use]
    pub fn parts(&self) -> &[KeyPart] {
        &self.0
    }
}

/// Written as the list of its parts.
impl Codec for RecordKey {
    fn write(&self, out: &mut String) {
        self.0.write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        Vec::read(raw).map(Self)
    }
}

/// Shows the parts, separated by spaces.
impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.0.iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            match part {
                KeyPart::Number(number) => write!(f, "{space}{number}")?,
                KeyPart::Text(text) => write!(f, "{space}{text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::RecordKey;
    use crate::codec::Codec;

    #[test]
    fn a_key_is_read_as_it_was_written_and_ordered_part_by_part() {
        let key = RecordKey::of("t 1").and(12).and("\u{1}é");
        assert_eq!(RecordKey::read(&key.encode()).unwrap(), key);
        assert_eq!((key.text(0), key.number(1), key.text(7), key.number(0)), ("t 1", 12, "", 0));
        assert_eq!(key.to_string(), "t 1 12 \u{1}é");
        assert_eq!(key.parts().len(), 3);
        assert!(RecordKey::of("a").and(9) < RecordKey::of("a").and(10));
        assert!(RecordKey::of("a").and(10) < RecordKey::of("a\u{1}").and(9));
    }
}
