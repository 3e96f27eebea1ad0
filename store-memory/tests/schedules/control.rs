//! Controls: scenarios with a fault that the checker must find. They fail if the checker can find nothing. Each fault
//! is found only if the crate that the scenario calls uses the locks of the checker.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use shuttle::{future::spawn, sync::Mutex};
use store_core::{Commit, ThreadId, event::Followers};

use crate::{
    check::check_fault_is_found,
    test_store::{TestStore, id, user_entry},
};

/// Each task releases the lock between its read and its write.
#[test]
fn a_counter_that_loses_an_update_is_found() {
    check_fault_is_found("a counter that loses an update", "an update is lost", || async {
        let counter = Arc::new(Mutex::new(0));
        let tasks = [Arc::clone(&counter), Arc::clone(&counter)].map(|counter| {
            spawn(async move {
                let value_read = *counter.lock().unwrap();
                *counter.lock().unwrap() = value_read + 1;
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
        assert!(*counter.lock().unwrap() == 2, "an update is lost");
    });
}

/// Each task reads the version and then commits without a guard. Between the two, the other task can run at a lock of
/// store-memory.
#[test]
fn a_writer_without_a_guard_is_found() {
    check_fault_is_found("a writer that expects nothing", "another writer was faster", || async {
        let test_store = Arc::new(TestStore::new());
        let tasks = ["x", "y"].map(|text| {
            let test_store = Arc::clone(&test_store);
            spawn(async move {
                let thread: ThreadId = id("t");
                let version_read = test_store.version_number(&thread).await;
                let commit = Commit::new(thread).with_key(id(text)).entry(user_entry(text));
                let receipt = test_store.commits.commit(commit).await.unwrap();
                assert!(receipt.version.number() == version_read + 1, "another writer was faster");
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// The main task reads the flag before it calls `follow`. Between the two, the other task can run at a lock of
/// store-core.
#[test]
fn a_wake_up_that_is_lost_is_found() {
    check_fault_is_found("a wake-up that is lost", "deadlock", || async {
        let (followers, flag) = (Arc::new(Followers::<u8>::default()), Arc::new(AtomicBool::new(false)));
        let (task_followers, task_flag) = (Arc::clone(&followers), Arc::clone(&flag));
        let notifier = spawn(async move {
            task_flag.store(true, Ordering::SeqCst);
            task_followers.notify([&1]);
        });
        if !flag.load(Ordering::SeqCst) {
            followers.follow(&1).next().await.unwrap();
        }
        notifier.await.unwrap();
    });
}
