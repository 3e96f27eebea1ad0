//! A line is erased in its place: it is replaced by a line of the same length that says nothing and has the same sum.
//!
//! So the sum of its group stays right, and with it the sums of all later groups, the offsets in the index, and the end
//! of the log. A crash may leave the former line or the new one: both are right.

use std::sync::LazyLock;

/// What an erased line begins with. Readers skip lines of a kind that they do not know.
const BEGIN: &[u8] = br#"{"t":"erased","pad":""#;
const END: &[u8] = b"\"}";
/// What fills the line.
const FILL: u8 = b'.';
/// So many characters before the end are chosen so that the sum comes out.
const FREE: usize = 12;
/// Each of them is one of 16 characters, from this one on. They differ in four bits.
const FIRST: u8 = b'`';
const BITS: usize = 4;
/// A shorter line cannot be erased. No line that holds anything of a caller but an id is that short.
pub(crate) const LEAST: usize = BEGIN.len() + FREE + END.len();

/// Sums that combinations of free bits make, each with its combination: no sum has the leading bit of another one.
static BASIS: LazyLock<Vec<(u32, u64)>> = LazyLock::new(|| {
    let plain = crc32c::crc32c(&ending(0));
    let mut basis = Vec::new();
    for bit in 0..FREE * BITS {
        let choice = 1_u64 << bit;
        // The sum of two texts of one length differs by what their difference alone makes.
        let (sum, choice) = reduced(&basis, crc32c::crc32c(&ending(choice)) ^ plain, choice);
        if sum != 0 {
            basis.push((sum, choice));
        }
    }
    basis
});

/// The last characters of a line, with these free bits set.
fn ending(choice: u64) -> Vec<u8> {
    let free = (0..FREE).map(|at| FIRST | u8::try_from((choice >> (at * BITS)) & 0xf).unwrap_or_default());
    free.chain(END.iter().copied()).collect()
}

fn reduced(basis: &[(u32, u64)], mut sum: u32, mut choice: u64) -> (u32, u64) {
    for (other, combination) in basis {
        if sum & (1 << other.ilog2()) != 0 {
            sum ^= other;
            choice ^= combination;
        }
    }
    (sum, choice)
}

/// The line that takes the place of one of this length, without its line feed, and with this sum. None for a line that
/// is too short.
pub(crate) fn erased_line(len: usize, crc: u32) -> Option<Vec<u8>> {
    let fill = len.checked_sub(LEAST)?;
    let mut line = BEGIN.to_vec();
    line.resize(BEGIN.len() + fill, FILL);
    let begun = line.len();
    line.extend(ending(0));
    let (rest, choice) = reduced(&BASIS, crc32c::crc32c(&line) ^ crc, 0);
    if rest != 0 {
        return None;
    }
    line.truncate(begun);
    line.extend(ending(choice));
    Some(line)
}

/// Whether a line was erased.
pub(crate) fn is_erased(line: &[u8]) -> bool {
    line.starts_with(BEGIN)
}

#[cfg(test)]
mod tests {
    use super::{BASIS, LEAST, erased_line, is_erased};

    #[test]
    fn an_erased_line_has_the_length_and_the_sum_of_the_former_one() {
        assert_eq!(BASIS.len(), 32);
        for len in [LEAST, LEAST + 1, 100, 4_096, 70_001] {
            for seed in 0..50_u32 {
                let crc = seed.wrapping_mul(0x9e37_79b9) ^ u32::try_from(len).unwrap();
                let line = erased_line(len, crc).unwrap();
                assert_eq!((line.len(), crc32c::crc32c(&line)), (len, crc));
                assert!(is_erased(&line));
                let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
                assert_eq!(value["t"], "erased");
            }
        }
        assert_eq!(erased_line(LEAST - 1, 0), None);
    }
}
