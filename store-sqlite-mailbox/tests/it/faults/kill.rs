//! Test S1 of docs/reliability.md: a process is killed while it writes (PR-9, MB-52, MB-7). Every change that was
//! acknowledged to it exists, and no change was applied in part.

use std::{path::Path, time::Duration};

use conformance_tests::{Random, TestLength};
use store_core::Store;

use super::{
    child_process::start_child,
    helpers::{Folder, expect_no_findings, is_stored, mailbox, open},
};

/// Checks that the mailbox contains all changes in the lines that a process printed. Returns the number of changes.
pub(super) async fn check_changes(file: &Path, printed: &[String]) -> usize {
    let store = open(file).await;
    let mut change_count = 0;
    for line in printed {
        let Some((what, id)) = line.split_once(' ') else { continue };
        if let "put" | "ack" = what {
            assert!(is_stored(&*mailbox(&store), id, what == "ack").await, "{line} is lost");
            change_count += 1;
        }
    }
    expect_no_findings(&store).await;
    store.close().await.unwrap();
    change_count
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_kills() {
    let (folder, cycles) = (Folder::new(), TestLength::pick_by_env(4, 12, 300));
    let (mut random, mut acknowledged) = (Random::new(5), 0);
    for cycle in 0..cycles {
        let mut writer = start_child("write", &folder.file(), cycle, usize::MAX);
        assert_eq!(writer.next_line().unwrap(), "open");
        std::thread::sleep(Duration::from_millis(1 + random.below(80) as u64));
        acknowledged += check_changes(&folder.file(), &writer.kill()).await;
    }
    println!("{cycles} kills, {acknowledged} acknowledged changes: none lost, none partial");
    assert!(acknowledged > cycles);
}
