//! Checksums of the chunks of a blob, so that a part of it can be checked without reading all of it.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

use crate::limits::length;

/// The number of bytes of a chunk. The last chunk of a blob may be shorter. It is stored with the blob by its checksums
/// and never changes.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// The number of bytes of the checksum of a chunk: the beginning of its BLAKE3 digest. SHA-256 would take several times
/// as long.
const CHECKSUM_BYTES: usize = 8;

/// The checksums of the chunks of a blob, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Checksums(Vec<u8>);

impl Checksums {
    /// Adds the checksum of the next chunk.
    pub(super) fn add(&mut self, chunk: &[u8]) {
        self.0.extend(Self::of(chunk));
    }

    /// Returns whether the chunk with this number is the one that was added.
    pub(super) fn matches(&self, number: u64, chunk: &[u8]) -> bool {
        let Ok(number) = usize::try_from(number) else { return false };
        self.0.chunks(CHECKSUM_BYTES).nth(number).is_some_and(|checksum| Self::of(chunk).eq(checksum.iter().copied()))
    }

    /// Returns whether there are as many checksums as a blob of this length has chunks.
    pub(super) fn is_for(&self, bytes: u64) -> bool {
        length(self.0.len()) == bytes.div_ceil(length(CHUNK_BYTES)).saturating_mul(length(CHECKSUM_BYTES))
    }

    pub(super) fn encode(&self) -> String {
        BASE64.encode(&self.0)
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        BASE64.decode(text).ok().map(Self)
    }

    fn of(chunk: &[u8]) -> impl Iterator<Item = u8> {
        <[u8; 32]>::from(blake3::hash(chunk)).into_iter().take(CHECKSUM_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK_BYTES, Checksums};

    #[test]
    fn a_chunk_matches_its_own_checksum_only() {
        let mut checksums = Checksums::default();
        checksums.add(b"first");
        checksums.add(b"second");
        let read = Checksums::decode(&checksums.encode()).unwrap();
        assert_eq!(read, checksums);
        assert!(read.matches(0, b"first") && read.matches(1, b"second"));
        assert!(!read.matches(0, b"second") && !read.matches(1, b"secone") && !read.matches(2, b"first"));
        assert!(!read.matches(u64::MAX, b"first"));
    }

    #[test]
    fn the_number_of_checksums_is_that_of_the_chunks() {
        let chunk = CHUNK_BYTES as u64;
        for (chunks, bytes) in [(0, 0), (1, 1), (1, chunk), (2, chunk + 1), (2, 2 * chunk)] {
            let mut checksums = Checksums::default();
            (0..chunks).for_each(|_| checksums.add(b"chunk"));
            assert!(checksums.is_for(bytes), "{chunks} {bytes}");
            assert!(!checksums.is_for(bytes + chunk) && !checksums.is_for(u64::MAX), "{chunks} {bytes}");
        }
        assert_eq!(Checksums::decode("?"), None);
    }
}
