//! Lists of objects, their deletion, and the tenants that they belong to.

use std::time::Duration;

use bytes::Bytes;
use store_core::{ErrorKind, PageRequest};

use super::helpers::{expect_object, key, keys, list, objects, objects_of, read_part, upload};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, read_all_pages},
};

/// Pages of any size give the keys byte by byte in their order, each once.
pub(super) async fn objects_are_listed_by_key_in_pages(given: &Given) -> Verdict {
    let objects = objects(given)?;
    let names = ["0", "9.a", "a", "a-b", "a.b", "a.bb", "a0", "aa", "b"];
    for name in ["aa", "a.bb", "a.b", "9.a", "b", "a0", "0", "a", "a-b"] {
        upload(&*objects, &key(name), name.as_bytes(), 9).await?;
    }
    for limit in [1, 2, 4, 9, 1_000] {
        let pages = read_all_pages(PageRequest::first(limit), |page| objects.list_objects(page)).await?;
        let listed: Vec<_> = pages.iter().map(|object| object.key.as_str()).collect();
        expect_eq(listed, names)?;
    }
    for limit in [0, 1_001] {
        expect_kind(objects.list_objects(PageRequest::first(limit)).await, ErrorKind::Invalid)?;
    }
    Ok(())
}

/// A cursor that was made up, or comes from another tenant, is refused.
pub(super) async fn a_cursor_belongs_to_the_list_of_its_tenant(given: &Given) -> Verdict {
    let (mine, other) = (objects(given)?, objects_of(&given.tenant("other")?)?);
    for objects in [&mine, &other] {
        for name in ["a", "b"] {
            upload(&**objects, &key(name), b"x", 9).await?;
        }
    }
    let first = other.list_objects(PageRequest::first(1)).await?;
    for cursor in [first.next, Some(store_core::Cursor::from_text("b"))] {
        let request = PageRequest { limit: Some(1), cursor };
        expect_kind(mine.list_objects(request).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// Objects that were deleted are neither listed nor read. Unknown ones are no error.
pub(super) async fn deleted_objects_are_gone(given: &Given) -> Verdict {
    let objects = objects(given)?;
    for name in ["a", "b", "c", "d"] {
        upload(&*objects, &key(name), name.as_bytes(), 9).await?;
    }
    for _ in 0..2 {
        objects.delete_objects(&[key("c"), key("unknown"), key("a")]).await?;
        expect_eq(keys(&*objects).await?, ["b", "d"])?;
        expect_eq(read_part(&*objects, &key("a"), 0..1).await?, None)?;
        expect_object(&*objects, &key("b"), b"b").await?;
    }
    objects.delete_objects(&[]).await?;
    upload(&*objects, &key("a"), b"again", 9).await?;
    expect_object(&*objects, &key("a"), b"again").await
}

/// What unfinished uploads have left is discarded after some time. Objects stay, however old they are.
pub(super) async fn discarding_uploads_spares_objects(given: &Given) -> Verdict {
    let objects = objects(given)?;
    upload(&*objects, &key("old"), b"old", 9).await?;
    let mut unfinished = objects.begin_upload().await?;
    unfinished.write(Bytes::from_static(b"unfinished")).await?;
    given.advance(Duration::from_hours(2)).await;
    upload(&*objects, &key("new"), b"new", 9).await?;
    let now = list(&*objects).await?.iter().map(|object| object.created_at).max().unwrap_or_default();
    expect_eq(objects.discard_uploads(now.saturating_sub(Duration::from_hours(3))).await?, 0)?;
    let discarded = objects.discard_uploads(now.saturating_sub(Duration::from_hours(1))).await?;
    expect(discarded <= 1, format!("{discarded} uploads were discarded"))?;
    expect_eq(keys(&*objects).await?, ["new", "old"])?;
    expect_object(&*objects, &key("old"), b"old").await?;
    let finished = unfinished.finish(&key("unfinished")).await.is_ok();
    expect_eq(finished, discarded == 0)?;
    expect_eq(keys(&*objects).await?.len(), if finished { 3 } else { 2 })
}

/// Objects with one key in two tenants are two objects.
pub(super) async fn objects_of_tenants_are_apart(given: &Given) -> Verdict {
    let tenants = ["a", "b", "A", "a/b", "a.b"];
    for tenant in tenants {
        upload(&*objects_of(&given.tenant(tenant)?)?, &key("o"), tenant.as_bytes(), 9).await?;
    }
    objects_of(&given.tenant("a")?)?.delete_objects(&[key("o")]).await?;
    expect_eq(keys(&*objects_of(&given.tenant("a")?)?).await?, Vec::<String>::new())?;
    for tenant in &tenants[1..] {
        expect_object(&*objects_of(&given.tenant(tenant)?)?, &key("o"), tenant.as_bytes()).await?;
    }
    Ok(())
}

/// A deleted tenant has no objects, also if it is used again.
pub(super) async fn objects_go_with_their_tenant(given: &Given) -> Verdict {
    let objects = objects_of(&given.tenant("gone")?)?;
    let mut unfinished = objects.begin_upload().await?;
    unfinished.write(Bytes::from_static(b"unfinished")).await?;
    upload(&*objects, &key("o"), b"bytes", 9).await?;
    upload(&*objects_of(&given.tenant("stays")?)?, &key("o"), b"bytes", 9).await?;
    given.store().delete_tenant(&id("gone")).await?;
    expect_kind(objects.open_object(&key("o"), 0..1).await.map(drop), ErrorKind::Closed)?;
    expect(unfinished.finish(&key("late")).await.is_err(), "an upload of a deleted tenant was finished")?;
    let objects = objects_of(&given.tenant("gone")?)?;
    expect_eq(keys(&*objects).await?, Vec::<String>::new())?;
    expect_eq(read_part(&*objects, &key("o"), 0..1).await?, None)?;
    expect_object(&*objects_of(&given.tenant("stays")?)?, &key("o"), b"bytes").await
}

/// Every call on a closed store ends with `Closed`.
pub(super) async fn a_closed_store_refuses_objects(given: &Given) -> Verdict {
    let objects = objects(given)?;
    let mut upload = objects.begin_upload().await?;
    given.store().close().await?;
    expect_kind(objects.begin_upload().await.map(drop), ErrorKind::Closed)?;
    expect_kind(upload.write(Bytes::from_static(b"x")).await, ErrorKind::Closed)?;
    expect_kind(upload.finish(&key("o")).await, ErrorKind::Closed)?;
    expect_kind(objects.open_object(&key("o"), 0..1).await.map(drop), ErrorKind::Closed)?;
    expect_kind(objects.delete_objects(&[key("o")]).await, ErrorKind::Closed)?;
    expect_kind(objects.list_objects(PageRequest::default()).await, ErrorKind::Closed)?;
    expect_kind(objects.discard_uploads(store_core::Timestamp::default()).await, ErrorKind::Closed).map(drop)
}
