//! Writers of one thread, and of one run.

use std::sync::{Arc, Mutex};

use shuttle::future::spawn;
use store_core::{Commit, ErrorKind, Expect, Receipt, RunChange, RunId, RunStatus, ThreadId, Version};

use crate::{
    check::{Tally, check_all_schedules},
    test_store::{TestStore, id, user_entry},
};

const WRITERS: usize = 3;
const COMMITS: usize = 2;

#[test]
fn each_version_has_one_commit() {
    check_all_schedules("each version has one commit", &["conflicts", "refusals"], version_scenario);
}

/// Writers expect the version that they read. Another writer expects a version that never exists. While the thread does
/// not exist, each call of that writer makes the store create a slot and drop it again.
async fn version_scenario(tally: Tally) {
    let test_store = Arc::new(TestStore::new());
    let thread: ThreadId = id("t");
    let committed_versions = Arc::new(Mutex::new(Vec::new()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (test_store, thread, committed_versions, tally) =
                (Arc::clone(&test_store), thread.clone(), Arc::clone(&committed_versions), tally.clone());
            spawn(async move {
                for number in 0..COMMITS {
                    let version =
                        commit_until_accepted(&test_store, &thread, &format!("{writer} {number}"), &tally).await;
                    committed_versions.lock().unwrap().push(version);
                }
            })
        })
        .collect();
    let conflicting_writer = {
        let (test_store, thread) = (Arc::clone(&test_store), thread.clone());
        spawn(async move {
            for _ in 0..COMMITS {
                let foreign_version = Expect::Version(Version::new(1, 7, 0));
                let commit = Commit::new(thread.clone()).expecting(foreign_version).entry(user_entry("never"));
                assert_eq!(test_store.commits.commit(commit).await.unwrap_err().kind(), ErrorKind::Conflict);
                tally.count("refusals");
            }
        })
    };
    for writer in writers {
        writer.await.unwrap();
    }
    conflicting_writer.await.unwrap();
    let mut committed_versions = std::mem::take(&mut *committed_versions.lock().unwrap());
    committed_versions.sort_unstable();
    let commit_count = (WRITERS * COMMITS) as u64;
    assert_eq!(committed_versions, (1..=commit_count).collect::<Vec<_>>());
    assert_eq!(test_store.version_number(&thread).await, commit_count);
    let mut texts = test_store.entry_texts(&thread).await;
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), WRITERS * COMMITS);
}

/// Reads the version and commits if the version is still the same. Repeats this until no other writer was faster.
/// Returns the new version.
async fn commit_until_accepted(test_store: &TestStore, thread: &ThreadId, text: &str, tally: &Tally) -> u64 {
    loop {
        let thread_before = test_store.commits.threads().load_thread(thread).await.unwrap();
        let (expect, version_before) = match &thread_before {
            None => (Expect::Absent, 0),
            Some(thread) => (Expect::Version(thread.version), thread.version.number()),
        };
        match test_store.commits.commit(Commit::new(thread.clone()).expecting(expect).entry(user_entry(text))).await {
            Ok(receipt) => {
                assert_eq!(receipt.version.number(), version_before + 1);
                return receipt.version.number();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
        }
        tally.count("conflicts");
    }
}

#[test]
fn a_repeated_commit_key_has_one_effect() {
    check_all_schedules(
        "a repeated commit key has one effect",
        &["first task first", "second task first"],
        key_scenario,
    );
}

async fn key_scenario(tally: Tally) {
    let test_store = Arc::new(TestStore::new());
    let thread: ThreadId = id("t");
    let commit = |text: &str| {
        let (test_store, commit) =
            (Arc::clone(&test_store), Commit::new(thread.clone()).with_key(id(text)).entry(user_entry(text)));
        spawn(async move { test_store.commits.commit(commit).await.unwrap() })
    };
    let keyed_commits = [commit("keyed"), commit("keyed")];
    let other_commit = commit("other");
    let mut receipts: Vec<Receipt> = Vec::new();
    for task in keyed_commits {
        receipts.push(task.await.unwrap());
    }
    let _other = other_commit.await.unwrap();
    tally.count(if receipts[0].deduplicated { "second task first" } else { "first task first" });
    assert!(receipts[0].deduplicated != receipts[1].deduplicated);
    receipts[0].deduplicated = receipts[1].deduplicated;
    assert_eq!(receipts[0], receipts[1]);
    let mut texts = test_store.entry_texts(&thread).await;
    assert_eq!(texts[usize::try_from(receipts[0].version.number()).unwrap() - 1], "keyed");
    texts.sort_unstable();
    assert_eq!(texts, ["keyed", "other"]);
}

#[test]
fn a_new_run_belongs_to_one_thread() {
    check_all_schedules("a new run belongs to one thread", &["thread 0", "thread 1", "thread 2"], run_scenario);
}

/// Writers of different threads create the same run. None of them holds a lock on another writer's thread while it
/// looks for the run.
async fn run_scenario(tally: Tally) {
    const NAMES: [&str; 3] = ["thread 0", "thread 1", "thread 2"];
    let test_store = Arc::new(TestStore::new());
    let run: RunId = id("r");
    let tasks = NAMES.map(|name| {
        let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(id("a"));
        let (test_store, commit) =
            (Arc::clone(&test_store), Commit::new(id(name)).with_key(id("k")).with_run(change).entry(user_entry(name)));
        spawn(async move { test_store.commits.commit(commit).await })
    });
    let mut succeeded_names = Vec::new();
    for (task, name) in tasks.into_iter().zip(NAMES) {
        match task.await.unwrap() {
            Ok(_) => succeeded_names.push(name),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
        }
    }
    let [owner] = succeeded_names[..] else { panic!("{succeeded_names:?}") };
    tally.count(owner);
    let threads = test_store.commits.threads();
    assert_eq!(threads.load_run(&run).await.unwrap().unwrap().thread, id(owner));
    for name in NAMES {
        assert_eq!(test_store.version_number(&id(name)).await, u64::from(name == owner));
    }
}
