//! Writers of one thread, and of one run.

use std::sync::{Arc, Mutex};

use shuttle::future::spawn;
use store_core::{Commit, ErrorKind, Expect, Receipt, RunChange, RunId, RunStatus, ThreadId, Version};

use crate::{
    check::{Tally, check_all_schedules},
    given::{Given, id, user_entry},
};

const WRITERS: usize = 3;
const COMMITS: usize = 2;

#[test]
fn each_version_has_one_commit() {
    check_all_schedules("each version has one commit", &["conflicts", "refusals"], versions);
}

/// Writers expect the version that they read. Another writer expects a version that never exists. While the thread does
/// not exist, each call of that writer makes the store create a slot and drop it again.
async fn versions(tally: Tally) {
    let given = Arc::new(Given::new());
    let thread: ThreadId = id("t");
    let won = Arc::new(Mutex::new(Vec::new()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (given, thread, won, tally) = (Arc::clone(&given), thread.clone(), Arc::clone(&won), tally.clone());
            spawn(async move {
                for number in 0..COMMITS {
                    let version = write(&given, &thread, &format!("{writer} {number}"), &tally).await;
                    won.lock().unwrap().push(version);
                }
            })
        })
        .collect();
    let conflicting_writer = {
        let (given, thread) = (Arc::clone(&given), thread.clone());
        spawn(async move {
            for _ in 0..COMMITS {
                let foreign = Expect::Version(Version::new(1, 7, 0));
                let commit = Commit::new(thread.clone()).expecting(foreign).entry(user_entry("never"));
                assert_eq!(given.commits.commit(commit).await.unwrap_err().kind(), ErrorKind::Conflict);
                tally.count("refusals");
            }
        })
    };
    for writer in writers {
        writer.await.unwrap();
    }
    conflicting_writer.await.unwrap();
    let mut won = std::mem::take(&mut *won.lock().unwrap());
    won.sort_unstable();
    let all = (WRITERS * COMMITS) as u64;
    assert_eq!(won, (1..=all).collect::<Vec<_>>());
    assert_eq!(given.version(&thread).await, all);
    let mut texts = given.texts(&thread).await;
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), WRITERS * COMMITS);
}

/// Reads the version and commits if the version is still the same. Repeats this until no other writer was faster.
/// Returns the new version.
async fn write(given: &Given, thread: &ThreadId, text: &str, tally: &Tally) -> u64 {
    loop {
        let found = given.commits.threads().load_thread(thread).await.unwrap();
        let (expect, seen) = match &found {
            None => (Expect::Absent, 0),
            Some(thread) => (Expect::Version(thread.version), thread.version.number()),
        };
        match given.commits.commit(Commit::new(thread.clone()).expecting(expect).entry(user_entry(text))).await {
            Ok(receipt) => {
                assert_eq!(receipt.version.number(), seen + 1);
                return receipt.version.number();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
        }
        tally.count("conflicts");
    }
}

#[test]
fn a_key_has_one_effect() {
    check_all_schedules("a key has one effect", &["first task first", "second task first"], keys);
}

async fn keys(tally: Tally) {
    let given = Arc::new(Given::new());
    let thread: ThreadId = id("t");
    let commit = |text: &str| {
        let (given, commit) =
            (Arc::clone(&given), Commit::new(thread.clone()).with_key(id(text)).entry(user_entry(text)));
        spawn(async move { given.commits.commit(commit).await.unwrap() })
    };
    let both = [commit("keyed"), commit("keyed")];
    let other = commit("other");
    let mut receipts: Vec<Receipt> = Vec::new();
    for task in both {
        receipts.push(task.await.unwrap());
    }
    let _other = other.await.unwrap();
    tally.count(if receipts[0].deduplicated { "second task first" } else { "first task first" });
    assert!(receipts[0].deduplicated != receipts[1].deduplicated);
    receipts[0].deduplicated = receipts[1].deduplicated;
    assert_eq!(receipts[0], receipts[1]);
    let mut texts = given.texts(&thread).await;
    assert_eq!(texts[usize::try_from(receipts[0].version.number()).unwrap() - 1], "keyed");
    texts.sort_unstable();
    assert_eq!(texts, ["keyed", "other"]);
}

#[test]
fn a_new_run_belongs_to_one_thread() {
    check_all_schedules("a new run belongs to one thread", &["thread 0", "thread 1", "thread 2"], runs);
}

/// Writers of different threads create the same run. None of them holds a lock on another writer's thread while it
/// looks for the run.
async fn runs(tally: Tally) {
    const NAMES: [&str; 3] = ["thread 0", "thread 1", "thread 2"];
    let given = Arc::new(Given::new());
    let run: RunId = id("r");
    let tasks = NAMES.map(|name| {
        let change = RunChange::new(run.clone(), RunStatus::Running).with_agent(id("a"));
        let (given, commit) =
            (Arc::clone(&given), Commit::new(id(name)).with_key(id("k")).with_run(change).entry(user_entry(name)));
        spawn(async move { given.commits.commit(commit).await })
    });
    let mut winners = Vec::new();
    for (task, name) in tasks.into_iter().zip(NAMES) {
        match task.await.unwrap() {
            Ok(_) => winners.push(name),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
        }
    }
    let [winner] = winners[..] else { panic!("{winners:?}") };
    tally.count(winner);
    let threads = given.commits.threads();
    assert_eq!(threads.load_run(&run).await.unwrap().unwrap().thread, id(winner));
    for name in NAMES {
        assert_eq!(given.version(&id(name)).await, u64::from(name == winner));
    }
}
