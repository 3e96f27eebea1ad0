//! Test S4 of docs/reliability.md: several processes checkpoint the WAL at the same time, while others write. Versions
//! of SQLite before 3.51.3 have a bug that may damage the file in this case.

use std::time::Duration;

use conformance_tests::TestLength;
use test_servers::{Process, ProcessWithReader};

use super::{child_process::start_child, helpers::Folder, kill::check_changes};

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_by_other_processes_lose_nothing() {
    let (folder, seconds) = (Folder::new(), TestLength::pick_by_env(2, 4, 300));
    let mut writers: Vec<_> = (0..4).map(|at| start_child("write", &folder.file(), at, usize::MAX)).collect();
    for writer in &mut writers {
        assert_eq!(writer.next_line().unwrap(), "open");
    }
    let others: Vec<_> = (0..2).map(|at| start_child("checkpoint", &folder.file(), at, 0)).collect();
    let writers: Vec<_> = writers.into_iter().map(Process::with_reader).collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let printed: Vec<_> = writers.into_iter().flat_map(ProcessWithReader::kill).collect();
    others.into_iter().for_each(|other| drop(other.kill()));
    assert!(!printed.iter().any(|line| line.starts_with("error")), "{printed:?}");
    let checked = check_changes(&folder.file(), &printed).await;
    println!("{seconds} s of 4 writers and 2 others at the WAL: {checked} acknowledged changes, none lost");
    assert!(checked > TestLength::pick_by_env(20, 100, 100));
}
