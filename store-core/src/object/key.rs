//! Keys of objects.

use std::fmt;

use crate::{
    error::{Error, Result},
    id::{IdSource, UuidSource},
    layers::blob::BlobHash,
};

/// The key of an object: the hash of its bytes, and an id that makes the key unique.
///
/// Each upload has a key that no other upload has used. So an object is written once, and a caller that removes it
/// removes nothing that another caller has uploaded meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Makes a new key for bytes with this hash.
    #[must_use]
    pub fn unused(hash: &BlobHash) -> Self {
        let id: String = UuidSource.next_id().chars().filter(char::is_ascii_hexdigit).collect();
        Self(format!("{hash}.{id}"))
    }

    /// Reads a key. It consists of 1 to 128 lower-case letters, digits, `.` and `-`, and begins with a letter or a
    /// digit. So it can be the name of a file, also on a file system that ignores case.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn new(text: &str) -> Result<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if begins_well && text.len() <= 128 && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(
                "object key",
                "it must consist of 1 to 128 lower-case letters, digits, dots and hyphens",
            ))
        }
    }

    /// Returns the hash with which the key begins; none if it was not made by [`unused`](Self::unused).
    #[must_use]
    pub fn hash(&self) -> Option<BlobHash> {
        self.0.split_once('.').and_then(|(hash, _)| BlobHash::new(hash).ok())
    }

    /// Returns the text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectKey;
    use crate::{ErrorKind, layers::blob::BlobHash};

    #[test]
    fn a_key_can_be_the_name_of_a_file() {
        for text in ["", ".", "..", ".a", "-a", "a/b", "a\\b", "a b", "a\0", "A", "ä", &"x".repeat(129)] {
            assert_eq!(ObjectKey::new(text).unwrap_err().kind(), ErrorKind::Invalid, "{text:?}");
        }
        let hash = BlobHash::of(b"bytes");
        let (left, right) = (ObjectKey::unused(&hash), ObjectKey::unused(&hash));
        assert!(left != right && left.as_str().starts_with(hash.as_str()));
        assert_eq!((ObjectKey::new(left.as_str()).unwrap(), left.hash()), (left.clone(), Some(hash)));
        assert_eq!(ObjectKey::new("a.b").unwrap().hash(), None);
    }
}
