//! Test S5 of docs/reliability.md: a sync fails (SQ-7), because `strace` makes the system call fail. Without `strace`
//! such a test is skipped and prints a note.

use conformance_tests::TestLength;
use store_core::Store;
use test_servers::can_fail_syncs;

use super::{
    child_process::start_child_under,
    helpers::{Folder, open},
    kill::check_changes,
};

/// A call whose sync failed has an unknown outcome, and nothing is written after it. When the mailbox is opened again,
/// it contains everything that was acknowledged, and it accepts writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_writes_until_the_mailbox_is_reopened() {
    if !can_fail_syncs() {
        return;
    }
    let (folder, rounds, mut stopped_rounds) = (Folder::new(), TestLength::pick_by_env(2, 5, 50), 0);
    open(&folder.file()).await.close().await.unwrap();
    for round in 0..rounds {
        // The sync with this number fails in each thread. An opening makes fewer syncs than that.
        let injection = format!("inject=fsync,fdatasync:error=EIO:when={}", 8 + round);
        let strace_command =
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &injection];
        let printed = start_child_under(&strace_command, "write until it fails", &folder.file(), round, 0).end();
        let first_outcome = printed.iter().find(|line| line.starts_with("first") || line.starts_with("refused"));
        match first_outcome.map(String::as_str) {
            Some("first commit_unknown" | "first poisoned") => {
                assert!(printed.contains(&"then poisoned".to_owned()), "{printed:?}");
                assert!(printed.contains(&"wrote after reopening".to_owned()), "{printed:?}");
                stopped_rounds += 1;
            }
            other => panic!("round {round}: {other:?} in {printed:?}"),
        }
        assert!(!folder.file().with_file_name("mailbox.db-poisoned").exists());
        check_changes(&folder.file(), &printed).await;
    }
    println!("{rounds} failed syncs: {stopped_rounds} stopped all writes, no acknowledged data was lost");
    assert_eq!(stopped_rounds, rounds);
}

/// After a sync of a mailbox failed, the next process that opens the mailbox copies it to new files.
#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_left_by_a_failed_sync_is_copied_to_new_files() {
    use std::os::unix::fs::MetadataExt;

    let folder = Folder::new();
    let file = folder.file();
    let store = open(&file).await;
    super::child_process::enqueue_many(&store, "x", 10).await;
    store.close().await.unwrap();
    let inode_before = std::fs::metadata(&file).unwrap().ino();
    open(&file).await.close().await.unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().ino(), inode_before);
    std::fs::write(file.with_file_name("mailbox.db-poisoned"), "").unwrap();
    let store = open(&file).await;
    assert_ne!(std::fs::metadata(&file).unwrap().ino(), inode_before, "the file was not replaced");
    assert!(!file.with_file_name("mailbox.db-poisoned").exists());
    let printed: Vec<_> = (0..10).map(|at| format!("put x-{at}")).collect();
    store.close().await.unwrap();
    assert_eq!(check_changes(&file, &printed).await, 10);
}
