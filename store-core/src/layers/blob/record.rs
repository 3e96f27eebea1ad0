//! Blobs, their hashes, and the requests and results of collections.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{
    codec::{Codec, Extra, record},
    document::Document,
    error::{Error, Result},
    object::{ByteStream, ObjectKey},
    time::Timestamp,
};

/// The shortest grace time of a collection.
pub const MIN_GRACE: Duration = Duration::from_hours(1);

/// The SHA-256 digest of bytes: 64 hexadecimal digits in lower case. It names a blob.
///
/// ```
/// use store_core::BlobHash;
///
/// let hash = BlobHash::of(b"hello");
/// assert_eq!(hash.as_str(), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
/// assert_eq!(BlobHash::new(hash.as_str())?, hash);
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(String);

impl BlobHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// `Invalid` if `text` is not 64 hexadecimal digits in lower case.
    pub fn new(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid("blob hash", "it must be the 64 hexadecimal digits of a SHA-256 digest, in lower case"))
        }
    }

    /// Returns the hash of some bytes.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// Returns the hash of all bytes that the digest was given.
    pub(super) fn finish(digest: Sha256) -> Self {
        let digest = digest.finalize();
        let half_bytes = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self(half_bytes.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BlobHash {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({})", self.0)
    }
}

impl Serialize for BlobHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What a message keeps of a blob: its hash and its length.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct BlobRef {
    /// The hash of the bytes.
    pub hash: BlobHash,
    /// The number of bytes.
    pub bytes: u64,
}

/// What is known about a stored blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Blob {
    /// The hash of the bytes.
    pub hash: BlobHash,
    /// The number of bytes.
    pub bytes: u64,
    /// When the blob was stored.
    pub created_at: Timestamp,
    /// When a collection found that nothing refers to the blob; absent if none did, or if it was put again since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unused_since: Option<Timestamp>,
}

impl Blob {
    /// Returns the reference to this blob.
    #[must_use]
    pub fn to_ref(&self) -> BlobRef {
        BlobRef { hash: self.hash.clone(), bytes: self.bytes }
    }
}

/// What the document of a blob contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredBlob {
    /// The number of bytes.
    pub(super) bytes: u64,
    /// The key of the object with the bytes.
    pub(super) object: String,
    /// The checksums of the chunks, as base64.
    pub(super) checksums: String,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub(super) extra: Extra,
}

record!(StoredBlob { bytes: req, object: req, checksums: req });

impl StoredBlob {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
    }

    pub(super) fn object(&self) -> Result<ObjectKey> {
        ObjectKey::new(&self.object)
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what the blobs write there", document.key))
}

/// A blob that was opened for reading.
#[non_exhaustive]
pub struct OpenedBlob {
    /// The number of bytes of the whole blob.
    pub bytes: u64,
    /// The part that was asked for. Every byte was compared with the checksum of its chunk before the stream gives it.
    pub stream: ByteStream,
}

impl OpenedBlob {
    pub(super) const fn new(bytes: u64, stream: ByteStream) -> Self {
        Self { bytes, stream }
    }
}

impl fmt::Debug for OpenedBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedBlob").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Which blobs a collection removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectBlobs {
    /// How long a blob that nothing refers to is kept after it was marked. At least [`MIN_GRACE`].
    pub grace: Duration,
    /// Whether to report what would be done without doing it.
    pub dry_run: bool,
}

impl CollectBlobs {
    /// Requests a collection with this grace time.
    #[must_use]
    pub const fn new(grace: Duration) -> Self {
        Self { grace, dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a collection of blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct CollectedBlobs {
    /// The number of blobs that nothing refers to, and that were marked now.
    pub marked: u64,
    /// The number of blobs that were removed.
    pub removed: u64,
    /// The number of bytes of the blobs that were removed.
    pub removed_bytes: u64,
    /// The number of objects without a blob that were removed: what interrupted calls have left.
    pub leftovers: u64,
    /// Whether the collection was stopped before its end.
    pub stopped: bool,
}

/// The result of the removal of blobs that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct RemovedBlobs {
    /// The blobs that were removed.
    pub removed: Vec<BlobHash>,
    /// The blobs that stay, because something else refers to them or has put them again.
    pub kept: Vec<BlobHash>,
}
