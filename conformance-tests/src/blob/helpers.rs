//! Helpers that put, read, refer to and collect blobs.

use std::{sync::Arc, time::Duration};

use store_core::{
    Blob, BlobHash, BlobOptions, BlobRef, BlobStore, BlobStoreExt, Block, BlockKind, Clock, CollectBlobs,
    CollectedBlobs, Commit, CommitCoordinator, DeleteRequest, DocumentChange, DocumentKey, Entry, IgnoreProgress,
    ManualClock, Media, MediaSource, Message, NewEntry, PageRequest, PendingStore, Role, TenantStores, ThreadRunStore,
    WriteDocuments,
};

use crate::{
    Failure, Given,
    check::{Verdict, expect_eq, expect_some},
    given::{id, read_all_pages},
    log::entry_drafts::json,
    object::helpers::{objects, read_stream},
};

/// The number of bytes above which the blocks of most cases are moved.
pub(super) const MOVED_ABOVE: u64 = 100;

/// The grace time of the collections of cases.
pub(super) const GRACE: Duration = Duration::from_hours(2);

/// The blobs of the handles of a tenant, with this clock.
pub(super) fn blobs_of(
    given: &Given,
    stores: &TenantStores,
    clock: &ManualClock,
) -> Result<Arc<dyn BlobStore>, Failure> {
    Ok(given.fixture().blobs(stores, Arc::new(clock.clone()))?)
}

/// The blobs of the tenant `default`, for cases in which no time passes.
pub(super) fn blobs(given: &Given) -> Result<Arc<dyn BlobStore>, Failure> {
    blobs_of(given, &given.stores()?, &ManualClock::new(store_core::Timestamp::default()))
}

/// A clock that shows store time.
pub(super) async fn store_clock(given: &Given) -> Result<ManualClock, Failure> {
    let clock = ManualClock::new(store_core::Timestamp::default());
    set_to_store_time(given, &clock).await?;
    Ok(clock)
}

/// Sets a clock to store time, which a write of a document tells.
async fn set_to_store_time(given: &Given, clock: &ManualClock) -> Verdict {
    let documents = expect_some(given.stores()?.documents, "documents")?;
    let key = DocumentKey::new(id("clock"), [store_core::KeySegment::Number(0)]).expect("a valid key");
    let written = documents.write_documents(WriteDocuments::new([DocumentChange::put(key, json("{}"))])).await?;
    clock.set(written.time);
    Ok(())
}

/// Lets time pass for the store and for a clock.
pub(super) async fn advance(given: &Given, clock: &ManualClock, by: Duration) -> Verdict {
    let before = clock.now();
    given.advance(by).await;
    set_to_store_time(given, clock).await?;
    clock.set(clock.now().max(before.saturating_add(by)));
    Ok(())
}

/// Puts bytes.
pub(super) async fn put(given: &Given, bytes: impl AsRef<[u8]>) -> Result<BlobRef, Failure> {
    Ok(blobs(given)?.put_bytes(bytes.as_ref().to_vec()).await?)
}

/// Checks the bytes of a blob.
pub(super) async fn expect_blob(blobs: &dyn BlobStore, blob: &BlobRef, expected: &[u8]) -> Verdict {
    let opened = blobs.open_blob(&blob.hash, 0..u64::MAX).await?;
    expect_eq(opened.bytes, blob.bytes)?;
    let read = read_stream(opened.stream).await?;
    expect_eq((read.len(), BlobHash::of(&read)), (expected.len(), blob.hash.clone()))
}

/// All blobs, in the order of the list.
pub(super) async fn list(blobs: &dyn BlobStore) -> Result<Vec<Blob>, Failure> {
    read_all_pages(PageRequest::first(100), |page| blobs.list_blobs(page)).await
}

/// Whether a blob exists.
pub(super) async fn exists(given: &Given, hash: &BlobHash) -> Result<bool, Failure> {
    Ok(blobs(given)?.load_blob(hash).await?.is_some())
}

/// The number of objects, each of which contains the bytes of one blob.
pub(super) async fn object_count(given: &Given) -> Result<usize, Failure> {
    Ok(crate::object::helpers::list(&*objects(given)?).await?.len())
}

/// Collects blobs with the usual grace time.
pub(super) async fn collect(given: &Given, clock: &ManualClock) -> Result<CollectedBlobs, Failure> {
    let blobs = blobs_of(given, &given.stores()?, clock)?;
    Ok(blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress).await?)
}

/// Collects blobs, and checks how many were marked and removed.
pub(super) async fn expect_collected(given: &Given, clock: &ManualClock, marked: u64, removed: u64) -> Verdict {
    let collected = collect(given, clock).await?;
    expect_eq((collected.marked, collected.removed, collected.stopped), (marked, removed, false))
}

/// The handles of a tenant that use its blobs, and move blocks of more than some bytes.
pub(super) fn with_moving(given: &Given, above: Option<u64>) -> Result<TenantStores, Failure> {
    let clock = Arc::new(ManualClock::new(store_core::Timestamp::default()));
    Ok(given.fixture().with_blobs(given.stores()?, BlobOptions::default().moving_above(above), clock)?)
}

/// The commits of the tenant `default` that use its blobs.
pub(super) fn commits(given: &Given) -> Result<Arc<dyn CommitCoordinator>, Failure> {
    expect_some(with_moving(given, Some(MOVED_ABOVE))?.commits, "commits")
}

/// The threads of the tenant `default`, whose reads put back what was moved.
pub(super) fn threads(given: &Given) -> Result<Arc<dyn ThreadRunStore>, Failure> {
    expect_some(with_moving(given, Some(MOVED_ABOVE))?.threads, "threads")
}

/// The pending input of the tenant `default`, which uses its blobs.
pub(super) fn pending(given: &Given) -> Result<Arc<dyn PendingStore>, Failure> {
    expect_some(with_moving(given, Some(MOVED_ABOVE))?.pending, "pending input")
}

/// A message with an image that is a blob.
pub(super) fn message_naming(hash: &str) -> Message {
    let image = Media::new(Some("image/png".to_owned()), MediaSource::Blob(hash.to_owned()));
    Message::new(Role::User, vec![Block::text("look"), Block::new(BlockKind::Image(image))])
}

/// A commit with a message that names a blob.
pub(super) fn commit_naming(thread: &str, hash: &BlobHash) -> Commit {
    Commit::new(id(thread)).with_key(id(hash.as_str())).entry(NewEntry::new(message_naming(hash.as_str())))
}

/// Lets a thread refer to a blob by a message that names it.
pub(super) async fn refer(given: &Given, thread: &str, hash: &BlobHash) -> Verdict {
    commit(given, commit_naming(thread, hash)).await
}

/// Makes a commit that must be new.
pub(super) async fn commit(given: &Given, commit: Commit) -> Verdict {
    expect_eq(commits(given)?.commit(commit).await?.deduplicated, false)
}

/// A text of more than [`MOVED_ABOVE`] bytes, which begins with a name.
pub(super) fn long_text(name: &str) -> String {
    format!("{name} {}", "\u{e4}\"\n".repeat(200))
}

/// The blobs that a thread refers to.
pub(super) async fn blobs_of_thread(given: &Given, thread: &str) -> Result<Vec<BlobHash>, Failure> {
    let (blobs, thread) = (blobs(given)?, id(thread));
    read_all_pages(PageRequest::first(100), |page| blobs.list_thread_blobs(&thread, page)).await
}

/// Deletes a thread.
pub(super) async fn delete_thread(given: &Given, thread: &str) -> Verdict {
    given.threads()?.delete_thread(&id(thread), DeleteRequest::default()).await?;
    Ok(())
}

/// The text of an entry's first block.
pub(super) fn first_text(entry: &Entry) -> Option<&str> {
    match &entry.message()?.blocks.first()?.kind {
        BlockKind::Text(text) => Some(text),
        _ => None,
    }
}
