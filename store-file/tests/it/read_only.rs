//! Openings that make nothing: `create: never`, and for reading beside a holder.

use std::{fs, os::unix::fs::PermissionsExt};

use store_core::{ErrorKind, IgnoreProgress, Store};
use store_file::{Create, FileStore};

use crate::{
    damage::entries,
    folder::{Place, answers, edit, fill, say, threads},
};

fn reading(place: &Place) -> FileStore {
    FileStore::open(place.root(), place.config().read_only()).unwrap()
}

/// Shows FI-15: under `create: never` a missing root is refused, and a folder that is none is left as it is.
#[tokio::test]
async fn create_never_creates_nothing() {
    let place = Place::new();
    let never = || FileStore::open(place.root(), place.config().with_create(Create::Never));
    assert_eq!(never().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!place.root().exists());
    fs::create_dir(place.root()).unwrap();
    fs::write(place.root().join("notes.txt"), b"not a root").unwrap();
    let before = place.tree();
    assert_eq!(never().unwrap_err().kind(), ErrorKind::SchemaMismatch);
    assert_eq!(place.tree(), before);
    let store = place.open();
    fill(&store).await;
    store.close().await.unwrap();
    assert_eq!(answers(&never().unwrap()).await.unwrap().len(), 10);
}

/// Shows FI-15: a root and the folders above it are made where they are missing.
#[tokio::test]
async fn missing_folders_are_made() {
    let place = Place::new();
    let deep = place.root().join("some/where/else");
    let store = FileStore::open(&deep, place.config()).unwrap();
    fill(&store).await;
    assert!(deep.join("agentstore.json").is_file());
}

/// Shows FI-15: a root that cannot be read for writing is refused before anything is acknowledged.
#[tokio::test]
async fn a_root_that_cannot_be_written_is_refused() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    fs::create_dir(place.root().join("lock")).unwrap();
    assert_eq!(place.try_open().unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Shows FI-15: beside a holder a reader sees all commits, takes no lock and writes nothing.
#[tokio::test]
async fn a_reader_beside_a_writing_process_writes_nothing() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let before = place.tree();
    let reader = reading(&place);
    assert_eq!(answers(&reader).await.unwrap(), answers(&store).await.unwrap());
    let error = say(&reader, "a", "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(threads(&reader).purge_deleted(&IgnoreProgress).await.unwrap_err().kind(), ErrorKind::Unsupported);
    reader.close().await.unwrap();
    assert_eq!(place.tree(), before);
    say(&store, "a", "the holder goes on").await.unwrap();
    store.close().await.unwrap();
}

/// Shows FI-15: a reader shows no commit in part, and leaves a torn tail and damage where they are.
#[tokio::test]
async fn a_reader_shows_whole_commits_only() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    let copy = place.copy();
    edit(&copy.log("a"), |log| log.extend_from_slice(b"{\"t\":\"entry\",\"seq\":7}\n{\"t\":\"com"));
    let before = copy.tree();
    let reader = reading(&copy);
    assert_eq!(answers(&reader).await.unwrap(), expected);
    reader.close().await.unwrap();
    assert_eq!(copy.tree(), before);
    // The journal has what is changed here, unless the root was closed since.
    store.close().await.unwrap();
    let copy = place.copy();
    edit(&copy.log("a"), |log| log[300] ^= 1);
    for with_index in [true, false] {
        if !with_index {
            fs::remove_dir_all(copy.root().join("index")).unwrap();
        }
        let before = copy.tree();
        let reader = reading(&copy);
        // With the index, logs are not read before somebody needs them.
        assert_eq!(reader.opening().damaged.len(), usize::from(!with_index));
        assert_eq!(entries(&reader, "a").await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(copy.tree(), before);
    }
}

/// Shows FI-15: what a batch has written to one log is not shown before all of its logs have it.
#[tokio::test]
async fn a_reader_leaves_out_a_batch_on_its_way() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    let ahead = place.copy();
    let other = ahead.open();
    say(&other, "b", "on its way").await.unwrap();
    let later = answers(&other).await.unwrap();
    let published = fs::read(ahead.root().join("journal.last")).unwrap();
    fs::copy(ahead.log("b"), place.log("b")).unwrap();
    let reader = reading(&place);
    assert_eq!(answers(&reader).await.unwrap(), expected);
    fs::write(place.root().join("journal.last"), published).unwrap();
    assert_eq!(answers(&reading(&place)).await.unwrap(), later);
}

/// Shows FI-15: files and folders without the permission to write are enough for a reader.
#[tokio::test]
async fn a_reader_needs_no_permission_to_write() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    let set_modes = |folder: u32, file: u32| {
        for (name, (_, bytes)) in place.tree() {
            let mode = if bytes.is_none() { folder } else { file };
            fs::set_permissions(place.root().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set_modes(0o500, 0o400);
    let before = place.tree();
    assert_eq!(answers(&reading(&place)).await.unwrap(), expected);
    assert_eq!(place.tree(), before);
    set_modes(0o700, 0o600);
}

/// Shows FI-15: a root of which only the logs are left can be read.
#[tokio::test]
async fn a_reader_needs_neither_index_nor_lock() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    fs::remove_file(place.root().join("lock")).unwrap();
    let before = place.tree();
    assert_eq!(answers(&reading(&place)).await.unwrap(), expected);
    assert_eq!(place.tree(), before);
}
