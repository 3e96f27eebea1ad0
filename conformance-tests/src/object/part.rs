//! Reading parts of objects.

use super::helpers::{key, numbered_bytes, objects, read_part, upload};
use crate::{
    Given, Verdict,
    check::{Failure, expect},
};

/// Parts that begin and end inside of chunks, at their ends and across them are those of the whole.
pub(super) async fn parts_of_an_object_are_read(given: &Given) -> Verdict {
    let (objects, bytes) = (objects(given)?, numbered_bytes(2_500_000));
    upload(&*objects, &key("a"), &bytes, 333_333).await?;
    let edges = [0, 1, 65_535, 65_536, 1_048_575, 1_048_576, 1_048_577, 2_097_152, 2_499_999, 2_500_000];
    for (at, start) in edges.iter().enumerate() {
        for end in &edges[at..] {
            let part = read_part(&*objects, &key("a"), *start as u64..*end as u64).await?;
            expect(part.as_deref() == bytes.get(*start..*end), format!("the part {start}..{end} is another one"))?;
        }
    }
    Ok(())
}

/// A part ends at the end of the object, and is empty after it.
pub(super) async fn a_part_after_the_end_is_empty(given: &Given) -> Verdict {
    let objects = objects(given)?;
    upload(&*objects, &key("a"), b"0123456789", 4).await?;
    for (part, expected) in [
        (8..20, &b"89"[..]),
        (9..u64::MAX, b"9"),
        (10..20, b""),
        (1_000..2_000, b""),
        (5 << 20..6 << 20, b""),
        (u64::MAX..u64::MAX, b""),
    ] {
        let read = read_part(&*objects, &key("a"), part.clone()).await?;
        if read.as_deref() != Some(expected) {
            return Err(Failure::new(format!("the part {part:?} is {read:?}")));
        }
    }
    Ok(())
}
