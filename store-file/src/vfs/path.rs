//! Paths inside the root, made of checked parts, and the file names of ids.

use std::{fmt, fmt::Write as _, sync::Arc};

use sha2::{Digest, Sha256};
use store_core::{Error, Result};

/// The longest part of a path, in bytes: what common file systems allow.
const MAX_PART_BYTES: usize = 255;
/// How much of an id stays readable in a file name. Two names and an offset have to fit into one part (`aside/`).
const READABLE_BYTES: usize = 24;

/// A path relative to the root: parts of ASCII letters, digits, `-`, `_`, `+` and `.`, none of them starting with a
/// dot.
///
/// Nothing else reaches the disk, so no path leads out of the root, whatever the ids are (ID-5).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Arc<str>);

impl FilePath {
    /// Checks `text`; the empty text is the root itself.
    ///
    /// # Errors
    /// `Invalid` for a part that is empty, too long, starts with a dot or holds another character.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.is_empty() || text.split('/').all(is_part) {
            return Ok(Self(Arc::from(text)));
        }
        Err(Error::invalid("path inside the root", "it has a part that is not a plain file name"))
    }

    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// This path with one more part or several.
    ///
    /// # Errors
    /// As [`FilePath::new`].
    pub fn join(&self, parts: &str) -> Result<Self> {
        if self.0.is_empty() { Self::new(parts) } else { Self::new(format!("{}/{parts}", self.0)) }
    }

    /// The folder that holds this file.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(Arc::from(self.0.rsplit_once('/').map_or("", |(folder, _)| folder)))
    }

    /// The parts, from the root down.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'.');
    !part.is_empty() && part.len() <= MAX_PART_BYTES && !part.starts_with('.') && part.bytes().all(plain)
}

/// The file name of an id: what is readable of its first characters, then its SHA-256.
///
/// Lower case only: some file systems fold case, and ids that differ in case only have different sums. The full id
/// stands in the first line of the file, and is compared when the file is opened.
#[must_use]
pub fn name_of(id: &str) -> String {
    let readable = id.bytes().take(READABLE_BYTES).map(|byte| match byte.to_ascii_lowercase() {
        byte @ (b'a'..=b'z' | b'0'..=b'9' | b'-') => char::from(byte),
        _ => '_',
    });
    format!("{}.{}", readable.collect::<String>(), hash_of(id))
}

/// The SHA-256 of an id: a file name that does not show the id.
#[must_use]
pub(crate) fn hash_of(id: &str) -> String {
    hex(&Sha256::digest(id.as_bytes()))
}

/// Bytes in hexadecimal.
#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{FilePath, name_of};

    #[test]
    fn only_plain_parts_make_a_path() {
        for good in ["", "a", "threads/ab/x.log", "aside/threads+x.log.17", "A-b_c"] {
            assert_eq!(FilePath::new(good).unwrap().as_str(), good);
        }
        for bad in ["/", "/a", "a/", "a//b", ".", "..", "a/../b", ".x", "a b", "a\\b", "a\0", "é", &"x".repeat(256)] {
            assert!(FilePath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_path_knows_its_folder() {
        let path = FilePath::root().join("threads").unwrap().join("x").unwrap();
        assert_eq!((path.as_str(), path.parent().as_str()), ("threads/x", "threads"));
        assert_eq!(path.parent().parent(), FilePath::root());
    }

    #[test]
    fn every_id_has_a_plain_name_of_its_own() {
        let ids = ["..", "a/b", "A", "a", "CON", "é", "e\u{301}", "/", " a", &"x".repeat(256), &"x".repeat(255), "🦀"];
        let names: std::collections::BTreeSet<_> = ids.iter().map(|id| name_of(id).to_ascii_lowercase()).collect();
        assert_eq!(names.len(), ids.len());
        for name in &names {
            FilePath::new(name).unwrap();
            assert!(name.len() <= 89, "{name}");
        }
        assert!(name_of("t-42/x").starts_with("t-42_x."));
    }
}
