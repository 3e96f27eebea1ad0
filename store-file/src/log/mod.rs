//! Logs: a header line, then groups of lines, each closed by a commit line that proves it and the group before.
//!
//! ```text
//! {"log":"thread",…,"crc":"5d6f0a11"}                                          header, with its own checksum
//! {"t":"entry",…}                                                              lines of a group
//! {"t":"commit","v":2,…,"batch":41,"lines":1,"bytes":16,"prev":"5d6f0a11","crc":"9ad3c1f0"}
//! ```
//!
//! The CRC-32C of a commit line covers every byte of its group: the lines and the commit line up to the sum itself.
//! `prev` is the sum of the group before (of the header, for the first), so a group fits one place of one log only.
//! Because `lines` and `bytes` say where a group starts, each group can also be proved alone, after damage.
//!
//! `batch` is the number of the journal's batch that wrote the group. After a redo a log has every committed batch. So
//! if a good group of a committed batch follows a bad place, the log is damaged. A group of a batch after the journal's
//! last one was not committed, and is ignored (see [`classify`]). Groups of the first release, which had no journal,
//! say `synced` instead: up to where the log was durable when they were written.
//!
//! A line by itself is proved by the sum in its [`Span`], which the index keeps beside offset and length: one read and
//! one sum for a value, and a changed bit is `Corrupt`, never a value.

mod erase;
mod format;
mod read;
mod recover;
mod scan;
mod tail;

pub(crate) use self::{
    erase::{erased_line, is_erased},
    format::{check_version, span},
    read::decode_line,
    recover::put_aside,
};
pub use self::{
    format::{MAX_GROUP_BYTES, Placed, add_checksum, encode_group, verified_checksum},
    read::{Header, read_header, read_line, read_lines},
    recover::{Aside, Recovered, Recovery, recover, rewrite_tail, set_aside},
    scan::{Group, Scanner},
    tail::{Known, Tail, classify},
};

/// A place between two groups: where the next one starts, and the sum that it has to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Position {
    /// The offset in bytes.
    pub offset: u64,
    /// The sum of the group (or header) that ends here.
    pub crc: u32,
}

/// Where a line is, without its line feed, and the CRC-32C of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The offset in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The CRC-32C of the bytes.
    pub crc: u32,
}

impl Span {
    /// The size of an encoded span.
    pub const BYTES: usize = 16;

    /// The span as bytes, for the index.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let packed = u128::from(self.offset) << 64 | u128::from(self.len) << 32 | u128::from(self.crc);
        packed.to_be_bytes()
    }

    /// The span of such bytes, or nothing if they have another length.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let crc = rest.try_into().ok()?;
        Some(Self { offset: u64::from_be_bytes(*offset), len: u32::from_be_bytes(*len), crc: u32::from_be_bytes(crc) })
    }
}
