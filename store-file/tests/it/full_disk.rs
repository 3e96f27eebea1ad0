//! F5 on a real file system that is full: a small one in memory, which root alone can mount.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use store_core::{
    ChildStrategy, Commit, DeleteRequest, EntryQuery, ErrorKind, IgnoreProgress, Message, NewEntry, Outcome,
    PageRequest, Store,
};
use store_file::FileStore;
use test_servers::report_not_run;

use crate::folder::{Place, answers, commit, fill, say, saying, thread, threads};

/// A file system of its own over a folder, taken away again at the end.
struct Mounted(PathBuf);

impl Mounted {
    /// Nothing where it cannot be had.
    fn over(folder: &Path) -> Option<Self> {
        let mount = ["-t", "tmpfs", "-o", "size=40m", "agentstore-test"];
        let done = Command::new("mount").args(mount).arg(folder).output();
        let why = match done {
            Ok(done) if done.status.success() => return Some(Self(folder.to_owned())),
            Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        report_not_run("a test on a real full disk, as none can be mounted", why);
        None
    }

    /// Takes all the space that is left.
    fn fill_up(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [64 << 10, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A commit of many entries.
fn many(id: &str, entries: usize, text: &str) -> Commit {
    let more = (1..entries).map(|_| NewEntry::new(Message::user(text)));
    saying(id, text).entries(more)
}

/// Commits until the disk is full. How many commits were acknowledged.
async fn write_until_full(store: &FileStore, id: &str, entries: usize, text: &str) -> u64 {
    let mut acknowledged = 0;
    loop {
        match commit(store, many(id, entries, text)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => {
                let told = (error.kind(), error.outcome(), error.is_retryable());
                assert_eq!(told, (ErrorKind::StorageFull, Outcome::NotApplied, true), "{acknowledged}: {error:?}");
                return acknowledged;
            }
        }
    }
}

/// How many entries a thread has, all of them read.
async fn count(store: &FileStore, id: &str) -> u64 {
    let (mut page, mut count) = (PageRequest::first(1000), 0);
    loop {
        let found = threads(store).list_entries(&thread(id), EntryQuery::all().with_page(page)).await.unwrap();
        count += found.items.len() as u64;
        match found.next {
            Some(next) => page = PageRequest::first(1000).after(next),
            None => return count,
        }
    }
}

async fn delete(store: &FileStore, id: &str) {
    let request = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
    threads(store).delete_thread(&thread(id), request).await.unwrap();
    threads(store).purge_deleted(&IgnoreProgress).await.unwrap();
}

/// Shows FI-7: on a disk that the store itself fills, and then others to the last byte.
#[tokio::test]
async fn a_full_file_system_loses_nothing_and_writes_resume_with_space() {
    let place = Place::new();
    let Some(mounted) = Mounted::over(place.around.path()) else { return };
    let store = place.open();
    fill(&store).await;
    let acknowledged = write_until_full(&store, "c", 1, &"x".repeat(64 << 10)).await;
    assert!(acknowledged > 100, "{acknowledged}");
    let filler = mounted.fill_up();
    for _ in 0..20 {
        assert_eq!(say(&store, "b", "no space").await.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    assert_eq!(count(&store, "c").await, acknowledged);
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    fs::remove_file(filler).unwrap();
    let filler = mounted.fill_up();
    // Opened on the full disk it can be read, and deleted in.
    let store = place.open();
    assert_eq!(answers(&store).await.unwrap(), expected);
    delete(&store, "a").await;
    fs::remove_file(filler).unwrap();
    say(&store, "c", "space again").await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert_eq!(count(&store, "c").await, acknowledged + 1);
    assert!(threads(&store).load_thread(&thread("a")).await.unwrap().is_none());
    println!("{acknowledged} commits of 64 KiB until the disk was full");
}

/// Shows FI-7: the index finds space for all that it has to write, so that writes go on without an opening.
#[tokio::test]
async fn a_full_file_system_has_room_for_the_index() {
    let place = Place::new();
    let Some(_mounted) = Mounted::over(place.around.path()) else { return };
    let other = place.around.path().join("other");
    fs::write(&other, vec![1; 8 << 20]).unwrap();
    let store = place.open();
    let acknowledged = write_until_full(&store, "a", 200, "a short one").await;
    assert_eq!(count(&store, "a").await, 200 * acknowledged);
    // What is removed from the index goes through its memory too.
    delete(&store, "a").await;
    fs::remove_file(other).unwrap();
    let more = write_until_full(&store, "b", 200, "a short one").await;
    assert!(more > 0, "what others free can be written");
    assert_eq!(count(&store, "b").await, 200 * more);
    println!("{acknowledged} commits of 200 entries until the disk was full, {more} more with space");
    store.close().await.unwrap();
}
