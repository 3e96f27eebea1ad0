//! Uploading objects.

use bytes::Bytes;

use super::helpers::{expect_object, key, keys, list, numbered_bytes, objects, read_part, upload};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq},
    given::run_concurrently,
};

/// Around these lengths, backends divide an object: nothing, one byte, 64 KiB and 1 MiB.
const LENGTHS: [usize; 8] = [0, 1, 65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1];

/// The bytes of an object are those that were written, in whatever parts.
pub(super) async fn an_object_is_read_as_it_was_uploaded(given: &Given) -> Verdict {
    let objects = objects(given)?;
    for len in LENGTHS {
        for write_bytes in [usize::MAX, 60_001] {
            let (name, bytes) = (key(&format!("{len}.{write_bytes}")), numbered_bytes(len));
            upload(&*objects, &name, &bytes, write_bytes).await?;
            expect_object(&*objects, &name, &bytes).await.map_err(|failure| failure.about(&name))?;
        }
    }
    let stored = list(&*objects).await?;
    for object in &stored {
        let len = object.key.as_str().split('.').next().unwrap_or_default();
        expect_eq(object.bytes.to_string(), len)?;
        expect(object.created_at.as_millis() > 0, "an object has no time")?;
    }
    expect_eq(stored.len(), 2 * LENGTHS.len())
}

/// An object that was never uploaded is none, whatever part is asked for.
pub(super) async fn an_unknown_object_is_none(given: &Given) -> Verdict {
    let objects = objects(given)?;
    upload(&*objects, &key("ab"), b"bytes", 9).await?;
    for name in ["a", "abc", "a.b", "b"] {
        expect_eq(read_part(&*objects, &key(name), 0..u64::MAX).await?, None)?;
        expect_eq(read_part(&*objects, &key(name), 0..0).await?, None)?;
    }
    Ok(())
}

/// Before an upload is finished, no reader finds its object.
pub(super) async fn an_unfinished_upload_is_not_there(given: &Given) -> Verdict {
    let objects = objects(given)?;
    let mut unfinished = objects.begin_upload().await?;
    for part in [numbered_bytes(70_000), numbered_bytes(1_100_000)] {
        unfinished.write(Bytes::from(part)).await?;
        expect_eq(keys(&*objects).await?, Vec::<String>::new())?;
    }
    expect_eq(read_part(&*objects, &key("a"), 0..1).await?, None)?;
    unfinished.finish(&key("a")).await?;
    expect_eq(keys(&*objects).await?, ["a"])?;
    expect_object(&*objects, &key("a"), &[numbered_bytes(70_000), numbered_bytes(1_100_000)].concat()).await
}

/// An upload that is dropped leaves no object, and does not affect others.
pub(super) async fn a_dropped_upload_leaves_nothing(given: &Given) -> Verdict {
    let objects = objects(given)?;
    let mut dropped = objects.begin_upload().await?;
    dropped.write(Bytes::from(numbered_bytes(100_000))).await?;
    let mut kept = objects.begin_upload().await?;
    kept.write(Bytes::from_static(b"kept")).await?;
    drop(dropped);
    drop(objects.begin_upload().await?);
    kept.finish(&key("kept")).await?;
    expect_eq(keys(&*objects).await?, ["kept"])?;
    expect_object(&*objects, &key("kept"), b"kept").await
}

/// Uploads that are written in turn each get their own bytes.
pub(super) async fn concurrent_uploads_stay_apart(given: &Given) -> Verdict {
    let objects = objects(given)?;
    let write = |number: usize| {
        let objects = std::sync::Arc::clone(&objects);
        async move {
            let byte = u8::try_from(number).unwrap_or_default();
            let mut upload = objects.begin_upload().await?;
            for _ in 0..20 {
                upload.write(Bytes::from(vec![byte; 10_000])).await?;
                tokio::task::yield_now().await;
            }
            upload.finish(&key(&format!("o{number}"))).await
        }
    };
    for result in run_concurrently(8, write).await {
        result?;
    }
    for number in 0..8_u8 {
        expect_object(&*objects, &key(&format!("o{number}")), &vec![number; 200_000]).await?;
    }
    expect_eq(keys(&*objects).await?.len(), 8)
}

/// An object of 20 MB is uploaded and read in parts.
pub(super) async fn a_long_object_is_uploaded_and_read_in_parts(given: &Given) -> Verdict {
    let (objects, bytes) = (objects(given)?, numbered_bytes(20_000_000));
    upload(&*objects, &key("long"), &bytes, 1 << 20).await?;
    expect_object(&*objects, &key("long"), &bytes).await?;
    let part = read_part(&*objects, &key("long"), 19_999_990..u64::MAX).await?;
    expect_eq(part.as_deref(), bytes.get(19_999_990..))
}

async fn write_two(given: &Given) -> Result<Vec<u8>, Failure> {
    let (objects, bytes) = (objects(given)?, numbered_bytes(1_500_000));
    upload(&*objects, &key("long"), &bytes, 100_000).await?;
    upload(&*objects, &key("short"), b"short", 9).await?;
    objects.delete_objects(&[key("short")]).await?;
    upload(&*objects, &key("empty"), b"", 9).await?;
    Ok(bytes)
}

async fn expect_two(given: &Given, bytes: &[u8]) -> Verdict {
    let objects = objects(given)?;
    expect_eq(keys(&*objects).await?, ["empty", "long"])?;
    expect_object(&*objects, &key("long"), bytes).await?;
    expect_object(&*objects, &key("empty"), b"").await
}

/// After a reopen, objects are as they were, and those that were deleted stay deleted.
pub(super) async fn objects_survive_a_reopen(given: &Given) -> Verdict {
    let bytes = write_two(given).await?;
    given.reopen().await?;
    expect_two(given, &bytes).await
}

/// Objects survive if the store is dropped without being closed. What an unfinished upload has written is not there.
pub(super) async fn objects_survive_without_closing(given: &Given) -> Verdict {
    let bytes = write_two(given).await?;
    {
        let mut unfinished = objects(given)?.begin_upload().await?;
        unfinished.write(Bytes::from(numbered_bytes(200_000))).await?;
    }
    given.reopen_without_closing().await?;
    expect_two(given, &bytes).await
}
