//! Reading blobs, and bytes that are not those that were put.

use store_core::{BlobHash, ErrorKind};

use super::helpers::{blobs, expect_blob, put};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    object::helpers::{list, numbered_bytes, objects, read_stream, upload},
};

/// Parts of a blob are those of the whole.
pub(super) async fn a_part_of_a_blob_is_read(given: &Given) -> Verdict {
    let bytes = numbered_bytes(2_300_000);
    let (blobs, blob) = (blobs(given)?, put(given, &bytes).await?);
    let edges = [0, 1, 999_999, 1_048_575, 1_048_576, 1_048_577, 2_097_152, 2_299_999, 2_300_000];
    for (at, start) in edges.iter().enumerate() {
        for end in &edges[at..] {
            let opened = blobs.open_blob(&blob.hash, *start as u64..*end as u64).await?;
            expect_eq(opened.bytes, 2_300_000)?;
            let part = read_stream(opened.stream).await?;
            expect(Some(&*part) == bytes.get(*start..*end), format!("the part {start}..{end} is another one"))?;
        }
    }
    let opened = blobs.open_blob(&blob.hash, 2_299_998..9_999_999).await?;
    expect_eq(read_stream(opened.stream).await?, &bytes[2_299_998..])
}

/// A part that begins after its end, or after the last byte, is refused.
pub(super) async fn a_part_that_begins_after_the_end_is_refused(given: &Given) -> Verdict {
    let (blobs, blob) = (blobs(given)?, put(given, b"0123456789").await?);
    #[expect(clippy::reversed_empty_ranges, reason = "the case is about such parts")]
    for part in [11..12, 11..11, 5..4, u64::MAX..u64::MAX, 1..0] {
        expect_kind(blobs.open_blob(&blob.hash, part).await, ErrorKind::Invalid)?;
    }
    let opened = blobs.open_blob(&blob.hash, 10..10).await?;
    expect_eq(read_stream(opened.stream).await?, Vec::<u8>::new())
}

/// A blob that was never put is not found; the error names it.
pub(super) async fn an_unknown_blob_is_not_found(given: &Given) -> Verdict {
    let (blobs, hash) = (blobs(given)?, BlobHash::of(b"unknown"));
    put(given, b"known").await?;
    let error = expect_kind(blobs.open_blob(&hash, 0..1).await, ErrorKind::NotFound)?;
    expect(error.to_string().contains(hash.as_str()), format!("the error does not name the blob: {error}"))
}

/// Puts other bytes in the place of those of the only blob.
async fn replace_bytes(given: &Given, bytes: &[u8]) -> Verdict {
    let objects = objects(given)?;
    let stored = list(&*objects).await?.pop().ok_or_else(|| Failure::new("there is no object"))?;
    objects.delete_objects(std::slice::from_ref(&stored.key)).await?;
    upload(&*objects, &stored.key, bytes, 1 << 20).await
}

/// A blob whose bytes were changed is corrupt, and none of the changed bytes is given out.
pub(super) async fn changed_bytes_are_corrupt(given: &Given) -> Verdict {
    let bytes = numbered_bytes(2_200_000);
    let (blobs, blob) = (blobs(given)?, put(given, &bytes).await?);
    for (at, unchanged_bytes) in [(0, 0), (1_048_575, 0), (1_048_576, 1_048_576), (2_199_999, 2_097_152)] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        replace_bytes(given, &changed).await?;
        let mut opened = blobs.open_blob(&blob.hash, 0..u64::MAX).await?;
        let mut given_out = 0;
        let error = loop {
            match futures_util::StreamExt::next(&mut opened.stream).await {
                Some(Ok(part)) => given_out += part.len(),
                Some(Err(error)) => break error,
                None => return Err(Failure::new(format!("the byte {at} was changed, and nobody noticed"))),
            }
        };
        expect_eq((error.kind(), given_out), (ErrorKind::Corrupt, unchanged_bytes))?;
    }
    for changed in [&bytes[..2_199_999], &bytes[..1_000], &[]] {
        replace_bytes(given, changed).await?;
        let opened = blobs.open_blob(&blob.hash, 0..u64::MAX).await?;
        expect_kind(read_stream(opened.stream).await.map(|read| read.len()), ErrorKind::Corrupt)?;
    }
    replace_bytes(given, &bytes).await?;
    expect_blob(&*blobs, &blob, &bytes).await
}

/// A part is compared with what was put, too. A part without changed bytes in its chunks can be read.
pub(super) async fn a_part_with_changed_bytes_is_corrupt(given: &Given) -> Verdict {
    let bytes = numbered_bytes(2_200_000);
    let (blobs, blob) = (blobs(given)?, put(given, &bytes).await?);
    let mut changed = bytes.clone();
    changed[1_500_000] ^= 1;
    replace_bytes(given, &changed).await?;
    let opened = blobs.open_blob(&blob.hash, 1_499_990..1_500_010).await?;
    expect_kind(read_stream(opened.stream).await.map(|read| read.len()), ErrorKind::Corrupt)?;
    let opened = blobs.open_blob(&blob.hash, 10..20).await?;
    expect_eq(read_stream(opened.stream).await?, &bytes[10..20])
}

/// A blob whose bytes are gone is corrupt.
pub(super) async fn missing_bytes_are_corrupt(given: &Given) -> Verdict {
    let (blobs, blob) = (blobs(given)?, put(given, b"bytes").await?);
    let objects = objects(given)?;
    for object in list(&*objects).await? {
        objects.delete_objects(&[object.key]).await?;
    }
    expect_kind(blobs.open_blob(&blob.hash, 0..u64::MAX).await, ErrorKind::Corrupt).map(drop)
}
