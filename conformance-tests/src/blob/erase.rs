//! Blobs of threads that are erased.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendPending, ByteStream, EraseThread, Error, ErrorKind, IgnoreProgress, NewAudit, NewInput, ObjectKey,
    ObjectStore, ObjectUpload, Page, PageRequest, Result, StoredObject, TenantStores, Timestamp,
};

use super::helpers::{commit, exists, expect_blob, list, long_text, message_naming, object_count, pending, put, refer};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq},
    given::id,
    object::helpers::objects,
};

/// Erases the thread `t` of some handles.
async fn erase(given: &Given, stores: &TenantStores, dry_run: bool) -> std::result::Result<Result<u64>, Failure> {
    let request = EraseThread::new(id("t"), NewAudit::new(id("user:ada")));
    let request = if dry_run { request.dry() } else { request };
    let erased = given.fixture().erasure(stores)?.erase_thread(request, &IgnoreProgress).await;
    Ok(erased.map(|erased| erased.blobs))
}

/// With a thread, the blobs go that nothing else refers to, also those of moved blocks and of pending input. A blob
/// that another thread refers to stays. A dry run counts them.
pub(super) async fn the_blobs_of_an_erased_thread_are_gone(given: &Given) -> Verdict {
    let (own, shared, of_input) =
        (put(given, b"own").await?, put(given, b"shared").await?, put(given, b"input").await?);
    let input = NewInput::message(message_naming(of_input.hash.as_str()));
    pending(given)?.append_pending(AppendPending::new(id("t"), [input])).await?;
    refer(given, "t", &own.hash).await?;
    refer(given, "t", &shared.hash).await?;
    refer(given, "other", &shared.hash).await?;
    let moved = store_core::NewEntry::new(store_core::Message::user(long_text("moved")));
    commit(given, store_core::Commit::new(id("t")).with_key(id("k")).entry(moved)).await?;
    expect_eq(object_count(given).await?, 4)?;
    let stores = given.stores()?;
    expect_eq(erase(given, &stores, true).await??, 3)?;
    expect_eq(object_count(given).await?, 4)?;
    expect_eq(erase(given, &stores, false).await??, 3)?;
    expect_eq((object_count(given).await?, list(&*super::helpers::blobs(given)?).await?.len()), (1, 1))?;
    expect_blob(&*super::helpers::blobs(given)?, &shared, b"shared").await?;
    expect_eq(erase(given, &stores, false).await??, 0)
}

/// Objects that cannot be deleted now.
struct Undeletable(Arc<dyn ObjectStore>);

#[async_trait]
impl ObjectStore for Undeletable {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        self.0.begin_upload().await
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        self.0.open_object(key, part).await
    }

    async fn delete_objects(&self, _keys: &[ObjectKey]) -> Result<()> {
        Err(Error::unavailable("objects cannot be deleted now"))
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        self.0.list_objects(page).await
    }

    async fn discard_uploads(&self, begun_before: Timestamp) -> Result<u64> {
        self.0.discard_uploads(begun_before).await
    }
}

/// An erasure that ends with an error after it has deleted the thread removes the rest of the blobs when it is
/// repeated.
pub(super) async fn an_interrupted_erasure_removes_the_blobs_later(given: &Given) -> Verdict {
    let (one, two) = (put(given, b"one").await?, put(given, b"two").await?);
    for blob in [&one, &two] {
        refer(given, "t", &blob.hash).await?;
    }
    let mut stores = given.stores()?;
    stores.objects = Some(Arc::new(Undeletable(objects(given)?)));
    let failed = erase(given, &stores, false).await?;
    expect_eq(failed.map_err(|error| error.kind()), Err(ErrorKind::Unavailable))?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    erase(given, &given.stores()?, false).await??;
    expect_eq((exists(given, &one.hash).await?, exists(given, &two.hash).await?), (false, false))
}
