//! Tests of stores that are composed of several stores (CP-1, CP-2, CP-3).

use std::sync::Arc;

use store_core::{BlobStoreExt, ErrorKind, NewDispatch, PageRequest, TenantId};

#[cfg(feature = "file")]
use crate::Durability;
use crate::{OpenOptions, Stores, StoresBuilder};

async fn memory() -> Stores {
    crate::open("memory:").await.unwrap()
}

async fn enqueue(stores: &Stores) {
    let work = vec![NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap())];
    let mailbox = stores.mailbox(&TenantId::default_tenant()).unwrap();
    mailbox.enqueue(work).await.unwrap().remove(0).unwrap();
}

async fn queued(stores: &Stores) -> u64 {
    stores.mailbox(&TenantId::default_tenant()).unwrap().count_dispatches(None).await.unwrap().queued
}

async fn refusal(builder: StoresBuilder) -> (ErrorKind, String) {
    let error = builder.open().await.unwrap_err();
    (error.kind(), error.to_string())
}

/// Tests CP-2: each part is in the store that was named for it, and all others are with the threads.
#[tokio::test]
async fn each_part_is_where_it_was_put() {
    let (threads, mailbox, settings, blobs) = (memory().await, memory().await, memory().await, memory().await);
    let builder = Stores::builder(&threads).mailbox(&mailbox).settings(&settings).blobs(&blobs);
    let (stores, tenant) = (builder.open().await.unwrap(), TenantId::default_tenant());
    assert!(!stores.capabilities().fenced);
    enqueue(&stores).await;
    assert_eq!((queued(&threads).await, queued(&mailbox).await, queued(&stores).await), (0, 1, 1));
    let blob = stores.blobs(&tenant).unwrap().put_bytes("bytes").await.unwrap();
    let objects = async |stores: &Stores| {
        let objects = stores.tenant(&tenant).unwrap().objects.unwrap();
        objects.list_objects(PageRequest::default()).await.unwrap().items.len()
    };
    assert_eq!((objects(&threads).await, objects(&blobs).await), (0, 1));
    assert!(threads.blobs(&tenant).unwrap().load_blob(&blob.hash).await.unwrap().is_some());
    // A part of a composition is taken from the store that has it, and a composition can be changed.
    let again = Stores::builder(&stores).mailbox(&threads).open().await.unwrap();
    assert!(again.capabilities().fenced);
    assert_eq!((queued(&again).await, objects(&again).await), (0, 1));
    let moved = Stores::builder(memory().await).mailbox(&stores).open().await.unwrap();
    assert_eq!(queued(&moved).await, 1);
}

/// Tests CP-3: a store that is named for several parts is opened once, and a mailbox in it is fenced.
#[tokio::test]
async fn one_store_for_several_parts_is_opened_once() {
    let stores = Stores::builder("memory:").mailbox("memory:").settings("memory:").blobs("memory:").open().await;
    let stores = stores.unwrap();
    assert!(stores.capabilities().fenced);
    enqueue(&stores).await;
    assert_eq!(queued(&stores).await, 1);
    let same = Stores::builder(&stores).mailbox(&stores).open().await.unwrap();
    assert!(same.capabilities().fenced);
    // The identity decides, also where nothing else shows that it is one store.
    let store = store_memory::MemoryStore::open(store_memory::MemoryConfig::default()).unwrap();
    let handles = || Stores::new(Arc::new(store.clone()));
    assert!(Stores::builder(handles()).mailbox(handles()).open().await.unwrap().capabilities().fenced);
    assert!(!Stores::builder(handles()).mailbox(memory().await).open().await.unwrap().capabilities().fenced);
}

/// Tests CP-1: an error names the part and its URL, without secrets. One about two stores names both.
#[tokio::test]
async fn an_error_names_the_parts() {
    let (kind, message) = refusal(Stores::builder("memory:").mailbox("redis:x")).await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(message.starts_with("mailbox: invalid store url: the scheme `redis` is unknown"), "{message}");
    let (kind, message) = refusal(Stores::builder("redis:x").mailbox("memory:")).await;
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(message.starts_with("invalid store url: the scheme `redis`"), "{message}");
    let closed = memory().await;
    closed.close().await.unwrap();
    let (kind, message) = refusal(Stores::builder("memory:").blobs(&closed)).await;
    assert_eq!(kind, ErrorKind::Closed);
    assert!(message.starts_with("blobs in `memory:`, beside threads in `memory:`: "), "{message}");
    let read_only = OpenOptions::new().read_only();
    let (kind, message) = refusal(Stores::builder(memory().await).settings(("memory:", read_only))).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.starts_with("settings in `memory:`: opening an existing store"), "{message}");
}

/// Tests CP-1 and CP-2: a store that cannot have its part is refused, with both stores and the way out.
#[cfg(feature = "sqlite-mailbox")]
#[tokio::test]
async fn a_store_that_cannot_have_its_part_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let queue = format!("sqlite:{}", folder.path().join("queue.db").display());
    for (builder, part, needed) in [
        (Stores::builder("memory:").settings(&queue), "settings", "keeping documents"),
        (Stores::builder("memory:").blobs(&queue), "blobs", "keeping blobs"),
    ] {
        let (kind, message) = refusal(builder).await;
        assert_eq!(kind, ErrorKind::Unsupported);
        let expected = format!("{part} in `{queue}`, beside threads in `memory:`: {needed} (open a store that does: ");
        assert!(message.starts_with(&expected), "{message}");
    }
    let (kind, message) = refusal(Stores::builder(&queue).mailbox("memory:")).await;
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(message.contains("keeping threads") && message.contains(&queue), "{message}");
}

/// Tests CP-2: blobs cannot be where a failure takes them, and leaves threads that refer to them.
#[cfg(feature = "file")]
#[tokio::test]
async fn blobs_survive_what_their_threads_survive() {
    let folder = tempfile::tempdir().unwrap();
    let url = |name: &str| format!("file:{}", folder.path().join(name).display());
    let (kind, message) = refusal(Stores::builder(url("threads")).blobs("memory:")).await;
    assert_eq!(kind, ErrorKind::Invalid);
    for expected in ["blobs in `memory:`", &url("threads"), "threads survive a power cut and blobs nothing", "keep the"]
    {
        assert!(message.contains(expected), "{message}");
    }
    let relaxed = OpenOptions::new().with_durability(Durability::None);
    let (kind, _) = refusal(Stores::builder(url("threads")).blobs((url("blobs"), relaxed.clone()))).await;
    assert_eq!(kind, ErrorKind::Invalid);
    let both = Stores::builder(url("other threads")).blobs(url("other blobs")).with_options(relaxed);
    both.open().await.unwrap().close().await.unwrap();
    let stores = Stores::builder("memory:").blobs(url("more blobs")).open().await.unwrap();
    stores.close().await.unwrap();
}

/// Tests CP-3: paths that lead to one folder are one store, by whatever way they lead there. A copy is another store.
#[cfg(feature = "file")]
#[tokio::test]
async fn paths_of_one_folder_are_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = |path: &str| format!("file:{}", folder.path().join(path).display());
    let one_store = Stores::builder(url("data")).mailbox(url("data/../data")).open().await.unwrap();
    assert!(one_store.capabilities().fenced);
    enqueue(&one_store).await;
    std::os::unix::fs::symlink(folder.path().join("data"), folder.path().join("link")).unwrap();
    let by_link = Stores::builder(&one_store).mailbox(url("link")).open().await.unwrap();
    assert!(by_link.capabilities().fenced);
    assert_eq!(queued(&by_link).await, 1);
    let two_stores = Stores::builder(&one_store).mailbox(url("queue")).open().await.unwrap();
    assert!(!two_stores.capabilities().fenced);
    assert_eq!(queued(&two_stores).await, 0);
    two_stores.close().await.unwrap();

    std::fs::create_dir(folder.path().join("copy")).unwrap();
    copy_folder(&folder.path().join("data"), &folder.path().join("copy"));
    let with_copy = Stores::builder(url("data")).mailbox(url("copy")).open().await.unwrap();
    assert!(!with_copy.capabilities().fenced);
    assert_eq!(queued(&with_copy).await, 1);
    with_copy.close().await.unwrap();
}

#[cfg(feature = "file")]
fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
