//! The bytes around batches: the header of a half, and the frame that numbers a batch and proves it.
//!
//! ```text
//! half:   header (one sector) | batch | batch | …          each begins at a sector
//! batch:  magic 8 | sum 4 | length 4 | number 8 | synced 8 | base 8 | changes | zeros up to the sector
//! ```
//!
//! Numbers are big-endian. The sum is the CRC-32C of everything after it but the zeros.

use serde_json::{Value, json};
use store_core::Result;

use crate::log::{add_checksum, verified_checksum};

/// A batch begins at a multiple of this, so that writing one never touches a sector of another.
pub(super) const SECTOR: u64 = 512;
/// How a batch begins. No line of a log has a zero byte in it, so the text of a log never looks like a batch.
pub(super) const MAGIC: [u8; 8] = *b"\0batch\0\x01";
/// The bytes of a frame.
pub(super) const FRAME: usize = 40;
/// Where the sum begins to cover.
const COVERED: usize = 12;

/// What the first sector of a half contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HalfHeader {
    /// Which root the journal belongs to.
    pub(super) root: String,
    /// The incarnation of the root when the half was made.
    pub(super) incarnation: u64,
    /// The number of the first batch that this file may contain.
    pub(super) next: u64,
}

impl HalfHeader {
    /// The first sector.
    ///
    /// # Errors
    /// `Invalid` if the name of the root is too long for a sector.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let Self { root, incarnation, next } = self;
        let fields = json!({"journal": "half", "v": 1, "root": root, "incarnation": incarnation, "next": next});
        let (mut line, _) = add_checksum(&fields.to_string())?;
        let sector = usize::try_from(SECTOR).unwrap_or(line.len());
        if line.len() > sector {
            return Err(store_core::Error::invalid("journal", "the name of its root is too long"));
        }
        line.resize(sector, b' ');
        Ok(line)
    }

    /// Reads the first sector. Returns nothing if its checksum is wrong, or if it is no header of this format.
    pub(super) fn decode(sector: &[u8]) -> Option<Self> {
        let line = sector.split(|byte| *byte == b'\n').next()?;
        verified_checksum(line)?;
        let fields: Value = serde_json::from_slice(line).ok()?;
        let number = |name: &str| fields.get(name).and_then(Value::as_u64);
        let root = fields.get("root").and_then(Value::as_str)?.to_owned();
        (fields.get("journal")?.as_str()? == "half" && number("v")? == 1).then_some(())?;
        Some(Self { root, incarnation: number("incarnation")?, next: number("next")? })
    }
}

/// What the frame of a batch contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its number, one more than that of the batch before.
    pub(super) number: u64,
    /// The last batch that was durable when this one was written.
    pub(super) synced: u64,
    /// The first batch that the logs may have lacked after a power cut at that time. They had all batches before it,
    /// durably.
    pub(super) base: u64,
}

/// A frame that was read, and what it says about the bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) frame: Frame,
    pub(super) sum: u32,
    /// How many bytes of changes follow.
    pub(super) len: u32,
}

impl Frame {
    /// Fills the frame in front of changes, and adds zeros up to the next sector. `batch` begins with `FRAME` bytes of
    /// any value.
    pub(super) fn seal(&self, batch: &mut Vec<u8>) {
        let len = u32::try_from(batch.len().saturating_sub(FRAME)).unwrap_or(u32::MAX);
        let mut head = Vec::with_capacity(FRAME);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&len.to_be_bytes());
        for number in [self.number, self.synced, self.base] {
            head.extend_from_slice(&number.to_be_bytes());
        }
        fill(batch, 0, &head);
        let sum = crc32c::crc32c(batch.get(COVERED..).unwrap_or_default());
        fill(batch, MAGIC.len(), &sum.to_be_bytes());
        batch.resize(usize::try_from(padded(batch.len() as u64)).unwrap_or(batch.len()), 0);
    }
}

fn fill(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + with.len()) {
        place.copy_from_slice(with);
    }
}

impl Head {
    /// Reads a frame.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (synced, rest) = rest.split_first_chunk()?;
        let (base, _) = rest.split_first_chunk()?;
        let [number, synced, base] = [number, synced, base].map(|number| u64::from_be_bytes(*number));
        Some(Self {
            frame: Frame { number, synced, base },
            sum: u32::from_be_bytes(*sum),
            len: u32::from_be_bytes(*len),
        })
    }

    /// Whether the sum is that of a batch, its frame included.
    pub(super) fn proves(&self, batch: &[u8]) -> bool {
        crc32c::crc32c(batch.get(COVERED..).unwrap_or_default()) == self.sum
    }
}

/// The first multiple of a sector that is not below `bytes`.
pub(super) const fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::{FRAME, Frame, HalfHeader, Head, SECTOR};

    #[test]
    fn a_changed_bit_of_a_batch_is_noticed() {
        let frame = Frame { number: 7, synced: 6, base: 3 };
        let mut batch = vec![0; FRAME];
        batch.extend_from_slice(b"some changes");
        frame.seal(&mut batch);
        let end = FRAME + 12;
        let check = |bytes: &[u8]| Head::read(bytes).filter(|head| head.len == 12 && head.proves(&bytes[..end]));
        assert_eq!(check(&batch).unwrap().frame, frame);
        assert_eq!(batch.len() as u64, SECTOR);
        for bit in 0..end * 8 {
            let mut changed = batch.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&changed), None, "bit {bit}");
        }
    }

    #[test]
    fn a_changed_bit_of_a_header_is_noticed() {
        let header = HalfHeader { root: "ab".to_owned(), incarnation: 2, next: 9 };
        let sector = header.encode().unwrap();
        assert_eq!(HalfHeader::decode(&sector).unwrap(), header);
        let line = sector.iter().position(|byte| *byte == b'\n').unwrap();
        for bit in 0..line * 8 {
            let mut changed = sector.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(HalfHeader::decode(&changed), None, "bit {bit}");
        }
        assert!(HalfHeader { root: "x".repeat(600), incarnation: 0, next: 1 }.encode().is_err());
    }
}
