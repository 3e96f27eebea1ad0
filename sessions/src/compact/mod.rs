//! Lists and tables with which the import keeps what it needs of each line in few bytes. A file may have millions of
//! lines.

mod bit_set;
mod line_ends;
mod list;
mod range_map;
mod text_table;

use sha2::{Digest, Sha256};

pub(crate) use self::{
    bit_set::BitSet,
    line_ends::LineEnds,
    list::{Items, List},
    range_map::RangeMap,
    text_table::TextTable,
};

/// Converts a number to the 32 bits in which it is kept. Larger numbers do not occur, because files with so many lines
/// are refused (`scan`).
pub(crate) fn to_u32<T: TryInto<u32>>(number: T) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// Half of the SHA-256 of an id. In practice, two different ids never share it.
pub(crate) fn digest(id: &str) -> [u8; 16] {
    let full_digest: [u8; 32] = Sha256::digest(id).into();
    let mut half = [0; 16];
    half.iter_mut().zip(full_digest).for_each(|(to, from)| *to = from);
    half
}
