//! Collections: which blobs are marked and removed, and which stay.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use store_core::{
    BlobHash, BlobStore, BlobStoreExt, ByteStream, CollectBlobs, ErrorKind, IgnoreProgress, ManualClock, ObjectKey,
    ObjectStore, ObjectUpload, Page, PageRequest, Progress, RemovedBlobs, Result, StoredObject, Timestamp,
};

use super::helpers::{
    GRACE, advance, blobs, blobs_of, collect, commit_naming, commits, delete_thread, exists, expect_blob,
    expect_collected, list, object_count, put, refer, store_clock,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::run_two_concurrently,
    object::helpers::{key, keys, objects, upload},
};

/// A blob that nothing refers to is marked, stays for the grace time of its mark, and is then removed with its bytes.
pub(super) async fn a_collection_leaves_a_blob_for_the_grace_time(given: &Given) -> Verdict {
    let (blob, clock) = (put(given, b"unused").await?, store_clock(given).await?);
    advance(given, &clock, 10 * GRACE).await?;
    expect_collected(given, &clock, 1, 0).await?;
    let marked = expect_some(blobs(given)?.load_blob(&blob.hash).await?, "blob")?;
    let unused_since = expect_some(marked.unused_since, "time since which it is unused")?;
    expect(unused_since > marked.created_at, "the mark is older than the blob")?;
    let almost = unused_since.saturating_add(GRACE).saturating_sub(Duration::from_millis(1));
    let early = ManualClock::new(almost);
    expect_collected(given, &early, 0, 0).await?;
    expect_blob(&*blobs(given)?, &blob, b"unused").await?;
    advance(given, &clock, GRACE).await?;
    let collected = collect(given, &clock).await?;
    expect_eq((collected.removed, collected.removed_bytes, collected.leftovers), (1, 6, 0))?;
    expect_eq((exists(given, &blob.hash).await?, object_count(given).await?), (false, 0))?;
    expect_kind(blobs(given)?.open_blob(&blob.hash, 0..1).await, ErrorKind::NotFound).map(drop)
}

/// A blob that is put again after it was marked gets a new grace time.
pub(super) async fn a_blob_that_is_put_again_stays(given: &Given) -> Verdict {
    let (blob, clock) = (put(given, b"a").await?, store_clock(given).await?);
    expect_collected(given, &clock, 1, 0).await?;
    advance(given, &clock, GRACE).await?;
    put(given, b"a").await?;
    expect_collected(given, &clock, 1, 0).await?;
    expect_blob(&*blobs(given)?, &blob, b"a").await?;
    advance(given, &clock, GRACE).await?;
    expect_collected(given, &clock, 0, 1).await
}

/// A blob that is touched after it was marked gets a new grace time. An unknown one is not found.
pub(super) async fn a_touched_blob_stays(given: &Given) -> Verdict {
    let (a, b, clock) = (put(given, b"a").await?, put(given, b"b").await?, store_clock(given).await?);
    expect_collected(given, &clock, 2, 0).await?;
    advance(given, &clock, GRACE).await?;
    let blobs = blobs(given)?;
    blobs.touch_blobs(std::slice::from_ref(&a.hash)).await?;
    expect_collected(given, &clock, 1, 1).await?;
    expect_eq((exists(given, &a.hash).await?, exists(given, &b.hash).await?), (true, false))?;
    expect_kind(blobs.touch_blobs(&[a.hash, b.hash]).await, ErrorKind::NotFound).map(drop)
}

/// A blob that a thread refers to is never marked, however old it is.
pub(super) async fn a_blob_of_a_thread_stays(given: &Given) -> Verdict {
    let (blob, clock) = (put(given, b"a").await?, store_clock(given).await?);
    refer(given, "t", &blob.hash).await?;
    for _ in 0..3 {
        advance(given, &clock, GRACE).await?;
        expect_collected(given, &clock, 0, 0).await?;
    }
    expect_blob(&*blobs(given)?, &blob, b"a").await
}

/// A blob goes a grace time after the last thread that refers to it was deleted. A thread of the same name that is made
/// anew does not refer to it.
pub(super) async fn a_blob_goes_after_its_last_thread(given: &Given) -> Verdict {
    let (blob, clock) = (put(given, b"a").await?, store_clock(given).await?);
    for thread in ["t", "u"] {
        refer(given, thread, &blob.hash).await?;
    }
    delete_thread(given, "t").await?;
    expect_collected(given, &clock, 0, 0).await?;
    delete_thread(given, "u").await?;
    given.create_empty_thread("u").await?;
    expect_collected(given, &clock, 1, 0).await?;
    advance(given, &clock, GRACE).await?;
    expect_collected(given, &clock, 0, 1).await?;
    expect_eq(exists(given, &blob.hash).await?, false)
}

/// A commit that names a marked blob succeeds, and the blob stays.
pub(super) async fn a_commit_takes_back_a_mark(given: &Given) -> Verdict {
    let (blob, clock) = (put(given, b"a").await?, store_clock(given).await?);
    expect_collected(given, &clock, 1, 0).await?;
    advance(given, &clock, GRACE).await?;
    refer(given, "t", &blob.hash).await?;
    expect_collected(given, &clock, 0, 0).await?;
    let loaded = expect_some(blobs(given)?.load_blob(&blob.hash).await?, "blob")?;
    expect_eq(loaded.unused_since, None)
}

/// A blob that was removed can be put again, and is then as new.
pub(super) async fn a_removed_blob_can_be_put_again(given: &Given) -> Verdict {
    let clock = store_clock(given).await?;
    for _ in 0..2 {
        let blob = put(given, b"a").await?;
        expect_blob(&*blobs(given)?, &blob, b"a").await?;
        expect_eq(blobs(given)?.load_blob(&blob.hash).await?.and_then(|blob| blob.unused_since), None)?;
        expect_collected(given, &clock, 1, 0).await?;
        advance(given, &clock, GRACE).await?;
        expect_collected(given, &clock, 0, 1).await?;
    }
    Ok(())
}

/// If a commit refers to a marked blob while a collection removes it, either the blob stays, or the commit is refused.
pub(super) async fn a_collection_and_a_commit_exclude_each_other(given: &Given) -> Verdict {
    let (commits, clock) = (commits(given)?, store_clock(given).await?);
    for number in 0..20_u8 {
        let blob = put(given, [number]).await?;
        collect(given, &clock).await?;
        advance(given, &clock, GRACE).await?;
        let thread = format!("t{number}");
        let (commit, blobs) = (commit_naming(&thread, &blob.hash), blobs_of(given, &given.stores()?, &clock)?);
        let commits = Arc::clone(&commits);
        let commit = async move { commits.commit(commit).await.map(drop) };
        let collection = async move { blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress).await.map(drop) };
        let (committed, collected) = run_two_concurrently(commit, collection).await;
        collected?;
        match committed {
            Ok(()) => expect_blob(&*super::helpers::blobs(given)?, &blob, &[number]).await?,
            Err(error) => {
                expect_eq((error.kind(), exists(given, &blob.hash).await?), (ErrorKind::NotFound, false))?;
            }
        }
    }
    Ok(())
}

/// A dry run reports what a collection would do, and changes nothing.
pub(super) async fn a_dry_collection_changes_nothing(given: &Given) -> Verdict {
    let (marked, clock) = (put(given, b"marked").await?, store_clock(given).await?);
    upload(&*objects(given)?, &key("leftover"), b"x", 9).await?;
    expect_collected(given, &clock, 1, 0).await?;
    advance(given, &clock, GRACE).await?;
    advance(given, &clock, Duration::from_secs(1)).await?;
    put(given, b"new").await?;
    let blobs = blobs_of(given, &given.stores()?, &clock)?;
    let before = (list(&*blobs).await?, keys(&*objects(given)?).await?);
    for _ in 0..2 {
        let found = blobs.collect_blobs(CollectBlobs::new(GRACE).dry(), &IgnoreProgress).await?;
        expect_eq((found.marked, found.removed, found.removed_bytes, found.leftovers), (1, 1, 6, 1))?;
    }
    expect_eq((list(&*blobs).await?, keys(&*objects(given)?).await?), before)?;
    expect_blob(&*blobs, &marked, b"marked").await?;
    let found = blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress).await?;
    expect_eq((found.marked, found.removed, found.leftovers), (1, 1, 1))
}

/// Stops at once.
#[derive(Debug)]
struct Stop;

impl Progress for Stop {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        false
    }
}

/// A collection that is stopped says so. Repeated, it does the rest.
pub(super) async fn a_collection_can_be_stopped_and_repeated(given: &Given) -> Verdict {
    let clock = store_clock(given).await?;
    let blobs = blobs_of(given, &given.stores()?, &clock)?;
    for number in 0..250_u16 {
        blobs.put_bytes(number.to_le_bytes().to_vec()).await?;
    }
    let stopped = blobs.collect_blobs(CollectBlobs::new(GRACE), &Stop).await?;
    expect(stopped.stopped && stopped.marked < 250, format!("{stopped:?}"))?;
    let rest = blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress).await?;
    expect_eq((rest.stopped, stopped.marked + rest.marked), (false, 250))
}

/// A grace time of less than an hour is refused, and nothing is marked.
pub(super) async fn a_short_grace_time_is_refused(given: &Given) -> Verdict {
    let (blobs, blob) = (blobs(given)?, put(given, b"a").await?);
    for grace in [Duration::ZERO, Duration::from_secs(3_599)] {
        for request in [CollectBlobs::new(grace), CollectBlobs::new(grace).dry()] {
            expect_kind(blobs.collect_blobs(request, &IgnoreProgress).await, ErrorKind::Invalid)?;
        }
    }
    let loaded = expect_some(blobs.load_blob(&blob.hash).await?, "blob")?;
    expect_eq(loaded.unused_since, None)
}

/// Objects that belong to no blob are removed after the grace time. Those of blobs, and younger ones, stay.
pub(super) async fn what_interrupted_calls_left_is_removed(given: &Given) -> Verdict {
    let (objects, clock) = (objects(given)?, store_clock(given).await?);
    let blob = put(given, b"a").await?;
    refer(given, "t", &blob.hash).await?;
    let leftover = ObjectKey::unused(&blob.hash);
    for key in [&leftover, &ObjectKey::unused(&BlobHash::of(b"b")), &key("other")] {
        upload(&*objects, key, b"left", 9).await?;
    }
    expect_eq(collect(given, &clock).await?.leftovers, 0)?;
    advance(given, &clock, GRACE).await?;
    advance(given, &clock, Duration::from_secs(1)).await?;
    upload(&*objects, &key("young"), b"young", 9).await?;
    expect_eq(collect(given, &clock).await?.leftovers, 3)?;
    let left = keys(&*objects).await?;
    expect(left.len() == 2 && left.contains(&"young".to_owned()), format!("{left:?}"))?;
    expect_blob(&*blobs(given)?, &blob, b"a").await
}

/// Objects of which a caller is stopped for a long time after it has finished an upload. Meanwhile a collection runs.
struct StoppedAfterUpload {
    inner: Arc<dyn ObjectStore>,
    collecting: Arc<dyn BlobStore>,
    clock: ManualClock,
    stops: Arc<AtomicU64>,
}

struct StoppedUpload {
    inner: Box<dyn ObjectUpload>,
    collecting: Arc<dyn BlobStore>,
    clock: ManualClock,
    stops: Arc<AtomicU64>,
}

#[async_trait]
impl ObjectUpload for StoppedUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>, key: &ObjectKey) -> Result<()> {
        self.inner.finish(key).await?;
        self.stops.fetch_add(1, Ordering::SeqCst);
        self.clock.advance(2 * GRACE);
        self.collecting.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress).await.map(drop)
    }
}

#[async_trait]
impl ObjectStore for StoppedAfterUpload {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        let (collecting, clock, stops) = (Arc::clone(&self.collecting), self.clock.clone(), Arc::clone(&self.stops));
        Ok(Box::new(StoppedUpload { inner: self.inner.begin_upload().await?, collecting, clock, stops }))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        self.inner.open_object(key, part).await
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        self.inner.delete_objects(keys).await
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        self.inner.list_objects(page).await
    }

    async fn discard_uploads(&self, begun_before: Timestamp) -> Result<u64> {
        self.inner.discard_uploads(begun_before).await
    }
}

/// If a caller is stopped between its upload and the record of the blob, and a collection removes what it uploaded, the
/// put fails. It never leaves a blob without bytes.
pub(super) async fn a_put_that_was_stopped_for_too_long_fails(given: &Given) -> Verdict {
    let (mut stores, clock) = (given.stores()?, store_clock(given).await?);
    let (collecting, stops) = (blobs_of(given, &stores, &clock)?, Arc::<AtomicU64>::default());
    let inner = objects(given)?;
    stores.objects =
        Some(Arc::new(StoppedAfterUpload { inner, collecting, clock: clock.clone(), stops: Arc::clone(&stops) }));
    let put = blobs_of(given, &stores, &clock)?.put_bytes("late").await;
    expect_eq(stops.load(Ordering::SeqCst), 1)?;
    let error = put.err().ok_or_else(|| Failure::new("the put succeeded"))?;
    expect_eq(error.kind(), ErrorKind::Unavailable)?;
    expect_eq((exists(given, &BlobHash::of(b"late")).await?, object_count(given).await?), (false, 0))?;
    let blob = super::helpers::put(given, b"late").await?;
    expect_blob(&*blobs(given)?, &blob, b"late").await
}

/// Blobs that nothing refers to are removed without a grace time; those of threads stay, without a mark.
pub(super) async fn unreferenced_blobs_are_removed_at_once(given: &Given) -> Verdict {
    let (used, unused) = (put(given, b"used").await?, put(given, b"unused").await?);
    let (unknown, gone) = (BlobHash::of(b"unknown"), put(given, b"gone").await?);
    refer(given, "t", &used.hash).await?;
    refer(given, "u", &gone.hash).await?;
    delete_thread(given, "u").await?;
    let blobs = blobs(given)?;
    let hashes = [used.hash.clone(), unused.hash.clone(), unknown.clone(), gone.hash.clone()];
    let removed: RemovedBlobs = blobs.remove_unreferenced(&hashes).await?;
    expect_eq((removed.removed, removed.kept), (vec![unused.hash, unknown, gone.hash], vec![used.hash.clone()]))?;
    let stays = expect_some(blobs.load_blob(&used.hash).await?, "blob")?;
    expect_eq((stays.unused_since, object_count(given).await?), (None, 1))?;
    expect_eq(commits(given)?.commit(commit_naming("v", &used.hash)).await?.deduplicated, false)
}
