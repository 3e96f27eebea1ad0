//! Rounds of the writer that overlap: one is planned while the one before it is committed, which may fail.

use std::{collections::BTreeMap, sync::Arc, thread::sleep, time::Duration};

use store_core::{Commit, EntryQuery, ErrorKind, Expect, IgnoreProgress, Outcome, PageRequest, Store};
use store_file::{
    FileStore,
    testing::{Fault, SimDisk, Survivors},
};

use crate::{
    folder::{commit, commits, threads},
    syncing::Syncing,
    world::{config, said, swept, thread},
};

const WRITERS: usize = 6;
const COMMITS: usize = 12;

/// A store whose syncs take long enough for others to hand in what they have to write.
fn open(disk: &SimDisk) -> store_core::Result<FileStore> {
    let slow = Syncing::new(disk.clone(), || {
        sleep(Duration::from_micros(300));
        true
    });
    let (_, mut config) = config();
    config.threads = 4;
    FileStore::open_on(Arc::new(slow), config)
}

/// What became of the commits of all writers, by the ids of their entries; nothing went wrong with those that were
/// acknowledged.
type Told = BTreeMap<String, Option<Outcome>>;

/// An entry for a log that all writers write to, or for one that only this writer does.
fn one(writer: usize, number: usize) -> (String, Commit) {
    let id = format!("{writer}-{number:02}");
    let to = if number.is_multiple_of(3) { format!("own-{writer}") } else { "shared".to_owned() };
    (id.clone(), Commit::new(thread(&to)).with_key(id.parse().unwrap()).entry(said(&id, "text")))
}

/// Lets writers commit side by side. `again` says which refused commits are tried once more.
async fn write(store: &FileStore, again: fn(ErrorKind) -> bool) -> Told {
    let writers = (0..WRITERS).map(|writer| {
        let commits = commits(store);
        tokio::spawn(async move {
            let mut told = Told::new();
            for number in 0..COMMITS {
                let (id, commit) = one(writer, number);
                let mut answer = commits.commit(commit.clone()).await;
                while answer.as_ref().is_err_and(|error| again(error.kind())) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    answer = commits.commit(commit.clone()).await;
                }
                told.insert(id, answer.err().map(|error| error.outcome()));
            }
            told
        })
    });
    let mut told = Told::new();
    for writer in writers.collect::<Vec<_>>() {
        told.extend(writer.await.unwrap());
    }
    told
}

/// The store shows what was acknowledged, each writer's entries in their order, and nothing that was refused.
async fn check(store: &FileStore, told: &Told, place: &str) {
    let mut shown = Vec::new();
    let own = (0..WRITERS).map(|writer| format!("own-{writer}"));
    for id in own.chain(["shared".to_owned()]) {
        let query = EntryQuery::all().with_page(PageRequest::first(1000));
        match threads(store).list_entries(&thread(&id), query).await {
            Ok(page) => shown.push(page.items.iter().map(|entry| entry.id.to_string()).collect::<Vec<_>>()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{place}: {error}"),
        }
    }
    for log in &shown {
        for writer in 0..WRITERS {
            let of_writer = log.iter().filter(|id| id.starts_with(&format!("{writer}-"))).collect::<Vec<_>>();
            assert!(of_writer.is_sorted(), "{place}: {of_writer:?}");
        }
    }
    let shown = shown.concat();
    for (id, outcome) in told {
        let is_there = shown.contains(id);
        match outcome {
            None => assert!(is_there, "{place}: {id} was acknowledged"),
            Some(Outcome::NotApplied) => assert!(!is_there, "{place}: {id} was refused"),
            Some(Outcome::Unknown) => {}
        }
    }
    let found = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    assert_eq!(found.findings, [], "{place}");
}

async fn calls_of_a_run() -> (u64, u64) {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let first = disk.calls();
    let told = write(&store, |_| false).await;
    assert!(told.values().all(Option::is_none), "{told:?}");
    check(&store, &told, "without a fault").await;
    (first, disk.calls())
}

/// Shows FI-6 and CM-1: an error at any call, while rounds overlap. What was acknowledged is there after a power cut,
/// and nothing that was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_at_any_call_fails_the_round_and_what_was_planned_over_it() {
    let (first, calls) = calls_of_a_run().await;
    let mut unknown = 0;
    for call in swept(calls - first).map(|call| first + call) {
        let place = format!("an error at call {call}");
        let disk = SimDisk::new().with_fault(call, Fault::Eio);
        let store = open(&disk).unwrap();
        let told = write(&store, |_| false).await;
        unknown += told.values().filter(|outcome| **outcome == Some(Outcome::Unknown)).count();
        drop(store);
        for survivors in [Survivors::Synced, Survivors::All, Survivors::Random(call)] {
            let store = open(&disk.after_crash(survivors)).unwrap();
            check(&store, &told, &format!("{place}, {survivors:?}")).await;
        }
    }
    assert!(unknown > 0, "no error left an outcome open");
}

/// Shows FI-7 and CM-1: a disk that is full at any call while rounds overlap. With space, everything is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_at_any_call_loses_nothing_and_orders_nothing_anew() {
    let (first, calls) = calls_of_a_run().await;
    for call in swept(calls - first).map(|call| first + call) {
        for fault in [Fault::Enospc, Fault::EnospcLate] {
            let place = format!("{fault:?} at call {call}");
            let disk = SimDisk::new().with_fault(call, fault);
            let store = open(&disk).unwrap();
            let told = write(&store, |kind| kind == ErrorKind::StorageFull).await;
            assert!(told.values().all(Option::is_none), "{place}: {told:?}");
            check(&store, &told, &place).await;
            drop(store);
            let store = open(&disk.after_crash(Survivors::Synced)).unwrap();
            check(&store, &told, &format!("{place}, and a power cut")).await;
        }
    }
}

/// Shows FI-7: two commits that a caller hands in one after the other, without waiting for the first answer, keep their
/// order where there is no space for the round of the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_handed_in_one_after_the_other_keep_their_order_on_a_full_disk() {
    let (first, calls) = calls_of_a_run().await;
    for call in swept(calls - first).map(|call| first + call) {
        let disk = SimDisk::new().with_fault(call, Fault::Enospc);
        let store = open(&disk).unwrap();
        let writers = (0..WRITERS).map(|writer| {
            let commits = commits(&store);
            tokio::spawn(async move {
                let mut told = Told::new();
                for number in (0..COMMITS).step_by(2) {
                    let ((id, commit), (next_id, next)) = (one(writer, number), one(writer, number + 1));
                    let (answer, next) = tokio::join!(commits.commit(commit), commits.commit(next));
                    told.insert(id, answer.err().map(|error| error.outcome()));
                    told.insert(next_id, next.err().map(|error| error.outcome()));
                }
                told
            })
        });
        let mut told = Told::new();
        for writer in writers.collect::<Vec<_>>() {
            told.extend(writer.await.unwrap());
        }
        check(&store, &told, &format!("full at call {call}")).await;
    }
}

/// Shows CM-5: an expectation is judged by the round before, which is not committed yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_commits_that_expect_one_version_one_succeeds_while_rounds_overlap() {
    let store = open(&SimDisk::new()).unwrap();
    let mut version = commit(&store, one(0, 1).1).await.unwrap();
    for number in 0..60 {
        let same = (0..4).map(|writer| {
            let (commits, id) = (commits(&store), format!("{number}-{writer}"));
            let commit = Commit::new(thread("shared")).entry(said(&id, "x")).expecting(Expect::Version(version));
            tokio::spawn(async move { commits.commit(commit).await })
        });
        // Others keep the writer at work.
        let other = tokio::spawn({
            let commits = commits(&store);
            let id = format!("other-{number}");
            let commit = Commit::new(thread("other")).with_key(id.parse().unwrap()).entry(said(&id, "x"));
            async move { commits.commit(commit).await }
        });
        let mut next = Vec::new();
        for answer in same.collect::<Vec<_>>() {
            match answer.await.unwrap() {
                Ok(receipt) => next.push(receipt.version),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
        let _ = other.await.unwrap().unwrap();
        assert_eq!(next.len(), 1, "{next:?}");
        version = next[0];
    }
}
