//! Tests S2 and S6 of docs/reliability.md: the power is cut while a process writes, and the disk is full. Only root can
//! mount the disks of these tests. Without these disks the tests are skipped and print a note.

use std::{fs, time::Duration};

use conformance_tests::{Random, TestLength};
use store_core::{ErrorKind, Json, Outcome, Store};
use test_servers::Disk;

use super::{
    child_process::start_child,
    helpers::{enqueue, expect_no_findings, is_stored, mailbox, new_dispatch, open},
    kill::check_changes,
};

/// Lets a process write until the power is cut. Returns the changes that the process had printed when the cut began.
/// Later changes are ignored: a sync that is in progress when the file system is stopped may report success without
/// having done its work. That cannot happen when the power of a real disk is cut, and it happens to SQLite without this
/// library, too.
fn write_until_power_cut(disk: &Disk, task: &str, name: impl std::fmt::Display, after: Duration) -> Vec<String> {
    let mut writer = start_child(task, &disk.folder().join("mailbox.db"), name, usize::MAX);
    assert_eq!(writer.next_line().unwrap(), "open");
    let writer = writer.with_reader();
    std::thread::sleep(after);
    let printed = writer.lines_so_far();
    disk.cut_power().unwrap();
    writer.kill();
    disk.power_on().unwrap();
    printed
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_data_survives_power_cuts() {
    let Some(disk) = Disk::new_or_skip("sqlite-power", 256) else { return };
    let (cycles, file) = (TestLength::pick_by_env(2, 6, 200), disk.folder().join("mailbox.db"));
    let (mut random, mut acknowledged) = (Random::new(6), 0);
    for cycle in 0..cycles {
        let printed = write_until_power_cut(&disk, "write", cycle, Duration::from_millis(5 + random.below(100) as u64));
        acknowledged += check_changes(&file, &printed).await;
    }
    println!("{cycles} power cuts, {acknowledged} acknowledged changes: none lost, none partial");
    assert!(acknowledged > cycles);
}

/// The control experiment: with `synchronous=NORMAL`, which must be allowed explicitly, acknowledged work is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_with_relaxed_syncs_loses_work() {
    let Some(disk) = Disk::new_or_skip("sqlite-control", 256) else { return };
    let file = disk.folder().join("mailbox.db");
    open(&file).await.close().await.unwrap();
    // The writes are so few that the WAL does not become long enough to be synced. Each of the 8 tasks of the writer
    // prints two lines for each dispatch.
    let (dispatches_per_task, line_count) = (20, 8 * 20 * 2);
    for cycle in 0..20 {
        let mut writer = start_child("write unsafely", &file, cycle, dispatches_per_task);
        assert_eq!(writer.next_line().unwrap(), "open");
        let printed: Vec<_> = (0..line_count).map(|_| writer.next_line().unwrap()).collect();
        disk.cut_power().unwrap();
        writer.kill();
        disk.power_on().unwrap();
        let store = open(&file).await;
        let (mut lost_count, must_be_acked) = (0, false);
        for id in printed.iter().filter_map(|line| line.strip_prefix("put ")) {
            lost_count += usize::from(!is_stored(&*mailbox(&store), id, must_be_acked).await);
        }
        store.close().await.unwrap();
        if lost_count > 0 {
            println!("power cut {cycle}: {lost_count} of {} acknowledged dispatches are lost", line_count / 2);
            return;
        }
    }
    panic!("nothing was lost in 20 power cuts: the test shows nothing");
}

/// Tests PR-19: a sync makes all earlier commits durable, even if the mailbox is opened with `synchronous=NORMAL`.
#[tokio::test(flavor = "multi_thread")]
async fn a_sync_makes_earlier_writes_durable() {
    let Some(disk) = Disk::new_or_skip("sqlite-sync", 256) else { return };
    let (number, file) = (100, disk.folder().join("mailbox.db"));
    let mut writer = start_child("sync", &file, "s", number);
    assert_eq!(writer.next_line().unwrap(), "synced");
    disk.cut_power().unwrap();
    writer.kill();
    disk.power_on().unwrap();
    let printed: Vec<_> = (0..number).map(|at| format!("put s-{at}")).collect();
    assert_eq!(check_changes(&file, &printed).await, number);
}

/// Tests S6: on a full disk nothing is lost and reads work. When there is space again, writes also work.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing() {
    let Some(disk) = Disk::new_or_skip("sqlite-full", 40) else { return };
    let file = disk.folder().join("mailbox.db");
    let store = open(&file).await;
    let (mut acknowledged, queue) = (Vec::new(), mailbox(&store));
    for round in 0..2 {
        let filler = disk.fill(2).unwrap();
        let error = loop {
            let id = format!("{round}-{}", acknowledged.len());
            let large_payload = Json::of(&"x".repeat(100_000)).unwrap();
            let new = new_dispatch(&id, &id).with_dedupe_key(id.parse().unwrap()).with_payload(large_payload);
            match queue.enqueue(vec![new]).await.and_then(|mut answers| answers.remove(0)) {
                Ok(_) => acknowledged.push(id),
                Err(error) => break error,
            }
            assert!(acknowledged.len() < 5_000, "the disk accepts more than its size");
        };
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::StorageFull, Outcome::NotApplied), "{error:?}");
        for id in &acknowledged {
            assert!(queue.load_dispatch(&id.parse().unwrap()).await.unwrap().is_some(), "{id} is lost");
        }
        fs::remove_file(filler).unwrap();
        enqueue(&*queue, new_dispatch("t", &format!("space {round}"))).await;
    }
    expect_no_findings(&store).await;
    store.close().await.unwrap();
    let store = open(&file).await;
    for id in &acknowledged {
        assert!(mailbox(&store).load_dispatch(&id.parse().unwrap()).await.unwrap().is_some(), "{id} is lost");
    }
    store.close().await.unwrap();
    println!("the disk was full twice, {} dispatches of 100 kB: none lost", acknowledged.len());
}
