//! Tests LV-9: an enqueue in one process soon wakes a caller that waits in another process, and waiting takes almost no
//! processor time.

#![expect(clippy::disallowed_methods, reason = "the test measures real time")]

use std::{
    fs,
    time::{Duration, Instant},
};

use conformance_tests::TestLength;
use store_core::Store;

use super::{
    child_process::start_child,
    helpers::{Folder, enqueue, mailbox, new_dispatch, open},
};

/// Returns the processor time of a process, in hundredths of a second.
fn processor_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    // The times spent in user mode and in the kernel.
    rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_one_process_wakes_another() {
    let (folder, rounds) = (Folder::new(), TestLength::pick_by_env(10, 30, 200));
    let store = open(&folder.file()).await;
    let mut waiter = start_child("wait", &folder.file(), "w", 0);
    assert_eq!(waiter.next_line().unwrap(), "open");
    let mut delays = Vec::new();
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let began = Instant::now();
        enqueue(&*mailbox(&store), new_dispatch("t", &format!("{round}"))).await;
        let enqueue_time = began.elapsed();
        assert_eq!(waiter.next_line().unwrap(), format!("got {round}"));
        delays.push(began.elapsed().saturating_sub(enqueue_time));
    }
    delays.sort_unstable();
    let (median, longest) = (delays[rounds / 2], delays[rounds - 1]);
    println!("{rounds} dispatches woke another process: {median:?} median, {longest:?} at most");
    assert!(median < Duration::from_millis(50), "{median:?}");
    let (time_before, seconds) = (processor_time(waiter.id()), 3);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let time_spent = processor_time(waiter.id()) - time_before;
    println!("{seconds} s of waiting took {time_spent} hundredths of a second of processor time");
    assert!(time_spent <= 10 * seconds, "the wait keeps the processor busy");
    waiter.kill();
    store.close().await.unwrap();
}
