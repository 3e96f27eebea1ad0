//! Blobs on a disk that fails at any of its calls: the power goes, a call fails, or there is no space (BL-1, BL-2,
//! BL-5, BL-6).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use conformance_tests::TestLength;
use store_core::{
    BlobHash, BlobLayer, BlobStore, BlobStoreExt, CollectBlobs, Commit, Error, ErrorKind, IgnoreProgress, ManualClock,
    Outcome, PageRequest, Result, Store, TenantStores, inspect::Inspector, reference_changes,
};
use store_file::{
    FileStore,
    testing::{Fault, FilePath, SimDisk, Survivors, Vfs},
};

use crate::{
    reference::open,
    syncing::Syncing,
    world::{at, at_least, config, said, swept, tenant, thread, wait},
};

const GRACE: Duration = Duration::from_hours(2);
/// A time in seconds at which the grace time of every mark has passed.
const LATER: u64 = 3 * 3_600;

/// One call about blobs.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Puts the bytes with this name.
    Put(u8),
    /// Lets a thread refer to a blob.
    Refer(u8),
    /// Marks what nothing refers to, and removes what was marked before, at this second.
    Collect(u64),
}

use Step::{Collect, Put, Refer};

/// A blob of two chunks to which a thread refers, and one that is marked, removed, and put again.
const STEPS: [Step; 8] =
    [Put(b'a'), Refer(b'a'), Put(b'b'), Collect(4), Put(b'c'), Collect(LATER), Put(b'b'), Put(b'd')];

/// The blobs that exist after so many steps. The mark of `c` is younger than the grace time.
const BLOBS: [&str; STEPS.len() + 1] = ["", "a", "a", "ab", "ab", "abc", "ac", "abc", "abcd"];

/// The bytes of a blob: more than a chunk, or a few.
fn bytes(name: u8) -> Vec<u8> {
    let len = if name == b'a' { (1 << 20) + 10 } else { 700 };
    (0..len).map(|at: usize| name ^ u8::try_from(at / 256 % 251).unwrap()).collect()
}

fn hash(name: u8) -> BlobHash {
    BlobHash::of(bytes(name))
}

/// An open store, and its blobs.
struct Opened {
    clock: ManualClock,
    store: FileStore,
    stores: TenantStores,
    blobs: BlobLayer,
}

impl Opened {
    fn new((clock, store): (ManualClock, FileStore)) -> Self {
        let stores = store.tenant(&tenant("default")).unwrap();
        let blobs = BlobLayer::new(&stores, Arc::new(clock.clone())).unwrap();
        Self { clock, store, stores, blobs }
    }

    fn make(&self, number: usize) -> Result<()> {
        match STEPS[number] {
            Put(name) => wait(self.blobs.put_bytes(bytes(name))).map(|blob| assert_eq!(blob.hash, hash(name))),
            Refer(name) => {
                let changes = reference_changes(&thread("t"), &hash(name))?;
                let commit = Commit::new(thread("t")).with_key("refer".parse()?).entry(said("e", "see"));
                let commits = self.stores.commits.as_ref().unwrap();
                wait(commits.commit(commit.with_documents(changes))).map(drop)
            }
            Collect(second) => {
                self.clock.set(at(second).max(self.clock_now()));
                wait(self.blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress)).map(drop)
            }
        }
    }

    fn clock_now(&self) -> store_core::Timestamp {
        store_core::Clock::now(&self.clock)
    }

    /// Makes the steps from one on, until one fails. Returns how many steps were made in all, and the error.
    fn play(&self, from: usize) -> (usize, Option<Error>) {
        for number in from..STEPS.len() {
            if let Err(error) = self.make(number) {
                return (number, Some(error));
            }
        }
        (STEPS.len(), None)
    }

    /// After how many steps the blobs are as they are found: `made`, or one more if that step was begun. Every blob
    /// that is listed can be read, and is what was put; no other one is found.
    fn found(&self, made: usize) -> std::result::Result<usize, String> {
        let read = |error: Error| error.to_string();
        let listed = wait(self.blobs.list_blobs(PageRequest::first(10))).map_err(read)?.items;
        let names: BTreeMap<_, _> = b"abcd".iter().map(|name| (hash(*name), *name)).collect();
        let mut found = String::new();
        for blob in &listed {
            let name = names.get(&blob.hash).ok_or("a blob that was not put")?;
            let read_bytes = wait(self.blobs.read_blob(&blob.hash, 2 << 20)).map_err(read)?;
            if read_bytes != bytes(*name) {
                return Err(format!("wrong bytes of {}", char::from(*name)));
            }
            found.push(char::from(*name));
        }
        for (hash, name) in names.iter().filter(|(_, name)| !found.contains(char::from(**name))) {
            let kind = wait(self.blobs.open_blob(hash, 0..1)).map(drop).map_err(|error| error.kind());
            if kind != Err(ErrorKind::NotFound) {
                return Err(format!("{} is not listed, and a read gives {kind:?}", char::from(*name)));
            }
        }
        let mut found: Vec<_> = found.chars().collect();
        found.sort_unstable();
        let is_after = |steps: &usize| BLOBS.get(*steps).is_some_and(|blobs| blobs.chars().eq(found.iter().copied()));
        [made, made + 1].into_iter().find(is_after).ok_or_else(|| format!("{found:?} after {made} steps"))
    }

    /// The number of all objects.
    fn objects(&self) -> usize {
        let objects = self.stores.objects.as_ref().unwrap();
        wait(objects.list_objects(PageRequest::first(100))).unwrap().items.len()
    }

    /// A verification finds no damage.
    fn expect_sound(&self, place: &str) {
        let seen = wait(self.store.verify(&IgnoreProgress)).unwrap();
        assert_eq!(seen.findings, [], "{place}");
    }

    /// Makes the rest of the steps. Then collections remove what was left, and nothing else.
    fn finish(&self, from: usize, place: &str) {
        assert_eq!(self.play(from).0, STEPS.len(), "{place}, resumed at {from}");
        assert_eq!(self.found(STEPS.len()), Ok(STEPS.len()), "{place}, resumed at {from}");
        self.clock.set(at(2 * LATER));
        wait(self.blobs.collect_blobs(CollectBlobs::new(GRACE), &IgnoreProgress)).unwrap();
        let blobs = wait(self.blobs.list_blobs(PageRequest::first(10))).unwrap().items;
        assert_eq!(self.objects(), blobs.len(), "{place}: something was left");
        assert!(blobs.iter().any(|blob| blob.hash == hash(b'a')), "{place}: the blob of a thread is gone");
        let mut seen = wait(self.store.verify(&IgnoreProgress)).unwrap();
        // A power cut may leave an old index.
        seen.notes.retain(|note| note.place != "index");
        assert_eq!((seen.findings, seen.notes), (Vec::new(), Vec::new()), "{place}");
    }
}

/// How many files an unfinished upload has left.
fn uploads(disk: &SimDisk) -> usize {
    disk.list(&FilePath::new("uploads").unwrap()).map_or(0, |files| files.len())
}

/// How many calls of the disk all steps take.
fn calls() -> u64 {
    let disk = SimDisk::new();
    let opened = Opened::new(open(&disk).unwrap());
    for number in 0..STEPS.len() {
        opened.make(number).unwrap();
        assert_eq!(opened.found(number + 1), Ok(number + 1));
    }
    assert_eq!((opened.objects(), uploads(&disk)), (4, 0));
    wait(opened.store.close()).unwrap();
    disk.calls()
}

/// What may be left at a power cut.
fn survivors(disk: &SimDisk) -> Vec<Survivors> {
    let named = [Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::AllButRenames];
    let torn = disk.last_unsynced_write().map(|bytes| Survivors::Torn(bytes / 2));
    let seeds = TestLength::pick_by_env(1, 4, 16);
    named.into_iter().chain(torn).chain((0..seeds).map(Survivors::Random)).collect()
}

/// Tests BL-1, BL-2, BL-5 and BL-6: the power goes, or a call fails, at every call of the disk. What was put is there,
/// whole; what was being put or removed is there or not, and never in part. The rest can be done as if nothing had
/// been.
#[test]
fn a_failing_disk_never_leaves_a_part_of_a_blob() {
    let (calls, mut states, mut resumed, mut failed) = (calls(), 0, 0, 0);
    for fault in [Fault::Stop, Fault::Eio] {
        for call in swept(calls) {
            let disk = SimDisk::new().with_fault(call, fault);
            let (made, error) = match open(&disk) {
                Ok(opened) => Opened::new(opened).play(0),
                Err(error) => (0, Some(error)),
            };
            failed += usize::from(error.is_some());
            for survivors in survivors(&disk) {
                let crashed = disk.after_crash(survivors);
                let place = format!("{fault:?} at call {call}, {survivors:?}, {made} steps made, {error:?}");
                let opened = open(&crashed).unwrap_or_else(|error| panic!("{place}: {error}"));
                let opened = Opened::new(opened);
                let found = opened.found(made).unwrap_or_else(|wrong| panic!("{place}: {wrong}"));
                assert_eq!(uploads(&crashed), 0, "{place}: an upload was left");
                opened.expect_sound(&place);
                states += 1;
                if states % 4 == 1 {
                    resumed += 1;
                    opened.finish(found, &place);
                }
            }
        }
    }
    println!("{calls} calls of the disk: {failed} failed steps, {states} states after them, {resumed} resumed");
    assert!(failed >= at_least(60) && states > failed, "{failed} failed steps, {states} states");
}

/// The control: with syncs that do nothing the same check finds a loss.
#[test]
fn without_syncs_the_check_of_blobs_fails() {
    let disk = SimDisk::new();
    let (clock, config) = config();
    let unsynced = Syncing::new(disk.clone(), || false);
    let opened = Opened::new((clock, FileStore::open_on(Arc::new(unsynced), config).unwrap()));
    let (made, error) = opened.play(0);
    assert!(made == STEPS.len() && error.is_none(), "{made} steps, {error:?}");
    let left = open(&disk.after_crash(Survivors::Synced));
    let found = left.map_err(|error| error.to_string()).and_then(|left| Opened::new(left).found(made));
    assert!(found.is_err(), "{found:?}");
}

/// Tests BL-1, BL-5 and BL-6 on a disk without space, for one call or from one on: the step says so and has no effect,
/// nothing of it is left, reads go on, and with space it succeeds.
#[test]
fn a_full_disk_refuses_blobs_and_keeps_nothing_of_them() {
    let (calls, mut refused, mut puts) = (calls(), 0, 0);
    for (fault, call) in swept(calls).flat_map(|call| [(Fault::Enospc, call), (Fault::Full, call)]) {
        let (disk, place) = (SimDisk::new().with_fault(call, fault), format!("{fault:?} at call {call}"));
        // An opening without space is what other tests are about.
        let Ok(opened) = open(&disk) else { continue };
        let opened = Opened::new(opened);
        let (made, error) = opened.play(0);
        if disk.calls() <= call {
            // The steps did not get as far as this call.
            continue;
        }
        if let Some(error) = &error {
            let told = (error.kind(), error.outcome(), error.is_retryable());
            let place = format!("{place}, step {made}: {error:?}");
            assert_eq!(told, (ErrorKind::StorageFull, Outcome::NotApplied, true), "{place}");
            let found = opened.found(made).unwrap_or_else(|wrong| panic!("{place}: {wrong}"));
            // A collection may have removed a blob before it needed space for something else.
            assert!(found == made || matches!(STEPS[made], Collect(_)), "{place}: it took effect");
            assert_eq!((opened.objects(), uploads(&disk)), (BLOBS[found].len(), 0), "{place}: something was left");
            refused += 1;
            puts += usize::from(matches!(STEPS[made], Put(_)));
        }
        disk.set_full(false);
        opened.finish(made, &place);
        let cut = Opened::new(open(&disk.after_crash(Survivors::Synced)).unwrap());
        cut.expect_sound(&place);
        let left = wait(cut.blobs.read_blob(&hash(b'a'), 2 << 20)).unwrap();
        assert!(left == bytes(b'a'), "{place}: wrong bytes after a power cut");
    }
    println!("{calls} calls of the disk without space: {refused} steps refused, {puts} of them puts");
    assert!(refused >= at_least(60) && puts >= at_least(40), "{refused} refused, {puts} puts");
}

/// Tests BL-1 and BL-6: an upload is synced before its end, and this fails. No later sync brings back what the failed
/// one covered, so the put fails, too: what was said to be stored is there after a power cut.
#[test]
fn a_failed_sync_in_the_middle_of_an_upload_fails_the_put() {
    let bytes = vec![b'x'; (16 << 20) + 10];
    let put = |disk: &SimDisk| {
        let opened = Opened::new(open(disk).unwrap());
        let before = disk.calls();
        (before, wait(opened.blobs.put_bytes(bytes.clone())))
    };
    let disk = SimDisk::new();
    let (before, stored) = put(&disk);
    stored.unwrap();
    let (calls, mut failed) = (before..disk.calls(), 0);
    for call in calls.clone() {
        let disk = SimDisk::new().with_fault(call, Fault::Eio);
        match put(&disk).1 {
            Ok(blob) => {
                let cut = Opened::new(open(&disk.after_crash(Survivors::Synced)).unwrap());
                let read_bytes = wait(cut.blobs.read_blob(&blob.hash, 32 << 20)).unwrap();
                assert!(read_bytes == bytes, "call {call}: wrong bytes after a power cut");
            }
            Err(_) => failed += 1,
        }
    }
    println!("{} calls of the disk: {failed} failed puts", calls.end - calls.start);
    // 17 writes and the syncs.
    assert!(failed >= 19, "{failed} failed puts");
}
