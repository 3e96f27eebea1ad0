//! Putting blobs, and what is known about them.

use bytes::Bytes;
use futures_util::stream;
use store_core::{BlobHash, BlobStoreExt, ErrorKind, ManualClock, PageRequest, Timestamp};

use super::helpers::{blobs, blobs_of, expect_blob, list, object_count, put};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages, run_concurrently},
    object::helpers::numbered_bytes,
};

/// A blob is read as it was put, in whatever parts; its reference has the hash and the length of the bytes.
pub(super) async fn a_blob_is_read_as_it_was_put(given: &Given) -> Verdict {
    let blobs = blobs(given)?;
    for len in [0, 1, 1_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000] {
        for part_bytes in [usize::MAX, 77_777] {
            let mut bytes = numbered_bytes(len);
            bytes.extend(part_bytes.to_le_bytes().iter().take(len.min(8)));
            let parts: Vec<_> = bytes.chunks(part_bytes).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
            let blob = blobs.put_blob(Box::pin(stream::iter(parts))).await?;
            expect_eq((&blob.hash, blob.bytes), (&BlobHash::of(&bytes), bytes.len() as u64))?;
            expect_blob(&*blobs, &blob, &bytes).await.map_err(|failure| failure.about(len))?;
        }
    }
    let read = blobs.read_blob(&BlobHash::of(b""), 0).await?;
    expect(read.is_empty(), "the empty blob has bytes")?;
    expect_kind(blobs.read_blob(&put(given, b"abc").await?.hash, 2).await, ErrorKind::LimitExceeded).map(drop)
}

/// Bytes that are put several times are stored once, also if they are long.
pub(super) async fn the_same_bytes_are_stored_once(given: &Given) -> Verdict {
    for (stored, bytes) in [(1, b"short".to_vec()), (2, numbered_bytes(2_000_000)), (3, Vec::new())] {
        let first = put(given, &bytes).await?;
        for _ in 0..3 {
            expect_eq(&put(given, &bytes).await?, &first)?;
        }
        expect_eq((object_count(given).await?, list(&*blobs(given)?).await?.len()), (stored, stored))?;
    }
    Ok(())
}

/// Callers that put the same bytes at the same time all get their reference, and the bytes are stored once.
pub(super) async fn concurrent_puts_store_the_same_bytes_once(given: &Given) -> Verdict {
    for (stored, bytes) in [(1, b"short".to_vec()), (2, numbered_bytes(1_500_000))] {
        let blobs = blobs(given)?;
        let puts = run_concurrently(8, |_| {
            let (blobs, bytes) = (std::sync::Arc::clone(&blobs), bytes.clone());
            async move { blobs.put_bytes(bytes).await }
        });
        for blob in puts.await {
            expect_blob(&*blobs, &blob?, &bytes).await?;
        }
        expect_eq((object_count(given).await?, list(&*blobs).await?.len()), (stored, stored))?;
    }
    Ok(())
}

/// A tenant does not see the blobs of another one, even if it knows their hashes.
pub(super) async fn blobs_of_tenants_are_apart(given: &Given) -> Verdict {
    let clock = ManualClock::new(Timestamp::default());
    let (a, b) = (blobs_of(given, &given.tenant("a")?, &clock)?, blobs_of(given, &given.tenant("b")?, &clock)?);
    let blob = a.put_bytes("secret").await?;
    expect_eq(b.load_blob(&blob.hash).await?, None)?;
    expect_kind(b.open_blob(&blob.hash, 0..1).await, ErrorKind::NotFound)?;
    expect_kind(b.touch_blobs(std::slice::from_ref(&blob.hash)).await, ErrorKind::NotFound)?;
    expect_eq(list(&*b).await?, [])?;
    let own = b.put_bytes("secret").await?;
    given.store().delete_tenant(&id("a")).await?;
    expect_blob(&*b, &own, b"secret").await
}

/// A stream that ends with an error stores nothing.
pub(super) async fn a_stream_that_fails_stores_nothing(given: &Given) -> Verdict {
    let blobs = blobs(given)?;
    for len in [0, 10, 2_000_000] {
        let part = Ok(Bytes::from(numbered_bytes(len)));
        let parts = [part, Err(store_core::Error::invalid("test", "the stream fails"))];
        let error = expect_kind(blobs.put_blob(Box::pin(stream::iter(parts))).await, ErrorKind::Invalid)?;
        expect(error.to_string().contains("the stream fails"), format!("another error: {error}"))?;
    }
    expect_eq((list(&*blobs).await?.len(), object_count(given).await?), (0, 0))
}

/// After a reopen, blobs are as they were.
pub(super) async fn blobs_survive_a_reopen(given: &Given) -> Verdict {
    let bytes = numbered_bytes(1_200_000);
    let (long, short) = (put(given, &bytes).await?, put(given, b"short").await?);
    let before = list(&*blobs(given)?).await?;
    given.reopen().await?;
    let blobs = blobs(given)?;
    expect_eq(list(&*blobs).await?, before)?;
    expect_blob(&*blobs, &long, &bytes).await?;
    expect_blob(&*blobs, &short, b"short").await
}

/// A tenant that is used again after its deletion has none of its earlier blobs.
pub(super) async fn a_deleted_tenant_has_no_blobs(given: &Given) -> Verdict {
    let clock = ManualClock::new(Timestamp::default());
    let blob = blobs_of(given, &given.tenant("t")?, &clock)?.put_bytes("bytes").await?;
    given.store().delete_tenant(&id("t")).await?;
    let blobs = blobs_of(given, &given.tenant("t")?, &clock)?;
    expect_eq(blobs.load_blob(&blob.hash).await?, None)?;
    expect_eq(list(&*blobs).await?, [])?;
    expect_blob(&*blobs, &blobs.put_bytes("bytes").await?, b"bytes").await
}

/// Pages of any size give each blob once, in the order of the hashes.
pub(super) async fn blobs_are_listed_by_hash_in_pages(given: &Given) -> Verdict {
    let mut expected = Vec::new();
    for number in 0..7_u8 {
        expected.push(put(given, [number]).await?.hash);
    }
    expected.sort();
    let blobs = blobs(given)?;
    for limit in [1, 3, 7, 1_000] {
        let listed = read_all_pages(PageRequest::first(limit), |page| blobs.list_blobs(page)).await?;
        expect_eq(listed.into_iter().map(|blob| blob.hash).collect::<Vec<_>>(), expected.clone())?;
    }
    expect_kind(blobs.list_blobs(PageRequest::first(0)).await, ErrorKind::Invalid)?;
    let cursor = Some(store_core::Cursor::from_text("x"));
    expect_kind(blobs.list_blobs(PageRequest { limit: None, cursor }).await, ErrorKind::InvalidCursor).map(drop)
}

/// The length of a blob and when it was stored are known; nothing is known about an unknown one.
pub(super) async fn what_is_known_about_a_blob_is_loaded(given: &Given) -> Verdict {
    let (blobs, blob) = (blobs(given)?, put(given, b"12345").await?);
    let loaded = expect_some(blobs.load_blob(&blob.hash).await?, "blob")?;
    expect_eq((loaded.to_ref(), loaded.unused_since), (blob, None))?;
    expect(loaded.created_at.as_millis() > 0, "a blob has no time")?;
    expect_eq(blobs.load_blob(&BlobHash::of(b"1234")).await?, None)
}
