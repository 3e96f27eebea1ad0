//! Changed bits in the files of blobs (BL-2, BL-8).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use conformance_tests::{Random, TestLength, seed_from_env};
use futures_util::StreamExt;
use store_core::{
    BlobLayer, BlobRef, BlobStore, BlobStoreExt, ErrorKind, IgnoreProgress, Store, TenantId,
    inspect::{FindingKind, Inspector},
};
use store_file::FileStore;

use crate::folder::{Place, edit};

/// The number of bytes of a chunk, which has a checksum.
const CHUNK: usize = 1 << 20;

/// A store with a blob of three chunks, and the bytes of the blob.
struct Written {
    place: Place,
    store: FileStore,
    blobs: BlobLayer,
    blob: BlobRef,
    bytes: Vec<u8>,
}

impl Written {
    async fn new() -> Self {
        let place = Place::new();
        let store = place.open();
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        let blobs = BlobLayer::new(&stores, Arc::new(place.clock.clone())).unwrap();
        let bytes: Vec<u8> = (0..2 * CHUNK + 777).map(|at| u8::try_from(at / 300 % 251).unwrap()).collect();
        let blob = blobs.put_bytes(bytes.clone()).await.unwrap();
        blobs.put_bytes("another one").await.unwrap();
        Self { place, store, blobs, blob, bytes }
    }

    /// The file of the blob.
    fn file(&self) -> PathBuf {
        let names = self.place.tree().into_keys().map(|name| self.place.root().join(name));
        let mut files = names.filter(|path| path.is_file() && path.to_str().unwrap().contains("/blobs/"));
        files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(self.blob.hash.as_str())).unwrap()
    }

    /// Reads the blob to the end or the first error. Returns how many bytes were given out, all of which are those that
    /// were put, and the kind of the error.
    async fn read(&self) -> (usize, Option<ErrorKind>) {
        let mut opened = match self.blobs.open_blob(&self.blob.hash, 0..u64::MAX).await {
            Ok(opened) => opened,
            Err(error) => return (0, Some(error.kind())),
        };
        let mut count = 0;
        while let Some(part) = opened.stream.next().await {
            match part {
                Ok(part) => {
                    assert!(self.bytes[count..].starts_with(&part), "wrong bytes from byte {count} on");
                    count += part.len();
                }
                Err(error) => return (count, Some(error.kind())),
            }
        }
        (count, None)
    }

    /// What a verification finds, and whether it names the file of the blob.
    async fn found(&self, file: &Path) -> Vec<(FindingKind, bool)> {
        let seen = self.store.verify(&IgnoreProgress).await.unwrap();
        let is_named = |place: &str| file == self.place.root().join(place);
        seen.findings.iter().map(|finding| (finding.kind, is_named(&finding.place))).collect()
    }
}

fn flip(file: &Path, bit: usize) {
    edit(file, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
}

/// Tests BL-2: whichever bit of the file is changed, its chunk is refused as damage, and what is given out before it is
/// as it was put.
#[tokio::test]
async fn a_changed_bit_of_a_blob_never_yields_a_wrong_byte() {
    let (written, count) = (Written::new().await, TestLength::pick_by_env(40, 400, 4_000));
    let (file, mut random) = (written.file(), Random::new(seed_from_env("AGENTSTORE_SEED")));
    for round in 0..count {
        // The edges of the chunks too.
        let byte = match round {
            0..6 => [0, CHUNK - 1, CHUNK, 2 * CHUNK - 1, 2 * CHUNK, written.bytes.len() - 1][round],
            _ => random.below(written.bytes.len()),
        };
        let bit = byte * 8 + random.below(8);
        flip(&file, bit);
        assert_eq!(written.read().await, (byte / CHUNK * CHUNK, Some(ErrorKind::Corrupt)), "bit {bit}");
        if round % 20 == 0 {
            assert_eq!(written.found(&file).await, [(FindingKind::Damaged, true)], "bit {bit}");
        }
        flip(&file, bit);
    }
    assert_eq!(written.read().await, (written.bytes.len(), None));
    assert_eq!(written.found(&file).await, []);
    println!("{count} changed bits, each refused");
}

/// Tests BL-2 and BL-8: a file that was cut is refused where bytes are missing, one that is gone from its beginning on.
/// What was added behind the end of a file is not given out. A verification finds each of them.
#[tokio::test]
async fn a_cut_or_missing_file_of_a_blob_is_refused_and_found() {
    let written = Written::new().await;
    let (file, all) = (written.file(), written.bytes.len());
    for (length, given) in [(all - 1, 2 * CHUNK), (2 * CHUNK, 2 * CHUNK), (CHUNK + 1, CHUNK), (0, 0)] {
        edit(&file, |bytes| bytes.truncate(length));
        assert_eq!(written.read().await, (given, Some(ErrorKind::Corrupt)), "{length} bytes are left");
        assert_eq!(written.found(&file).await, [(FindingKind::Damaged, true)], "{length} bytes are left");
        fs::write(&file, &written.bytes).unwrap();
    }
    edit(&file, |bytes| bytes.extend_from_slice(b"more"));
    assert_eq!(written.read().await, (all, None));
    assert_eq!(written.found(&file).await, [(FindingKind::Damaged, true)]);
    fs::remove_file(&file).unwrap();
    assert_eq!(written.read().await, (0, Some(ErrorKind::Corrupt)));
    assert_eq!(written.found(&file).await, [(FindingKind::DanglingReference, true)]);
    fs::write(&file, &written.bytes).unwrap();
    assert_eq!((written.read().await, written.found(&file).await), ((all, None), Vec::new()));
}

/// Tests BL-8: what a killed upload has left is a note of a store that is open for reading, and the next opening for
/// writing removes it.
#[tokio::test]
async fn what_a_killed_upload_left_is_a_note() {
    let Written { place, store, blobs, .. } = Written::new().await;
    drop(blobs);
    store.close().await.unwrap();
    let left = place.root().join("uploads/1b4e28ba-2fa1-11d2-883f-0016d3cca427");
    fs::write(&left, b"half of an upload").unwrap();
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let seen = reader.verify(&IgnoreProgress).await.unwrap();
    let places: Vec<_> = seen.notes.iter().map(|note| note.place.as_str()).collect();
    assert_eq!((seen.findings, places), (Vec::new(), vec!["uploads/1b4e28ba-2fa1-11d2-883f-0016d3cca427"]));
    reader.close().await.unwrap();
    let store = place.open();
    assert!(!left.exists());
    let seen = store.verify(&IgnoreProgress).await.unwrap();
    assert_eq!((seen.findings, seen.notes), (Vec::new(), Vec::new()));
    store.close().await.unwrap();
}
