//! Calls that meet: deletions and purges against commits and reads of other threads.

use std::{sync::Arc, time::Duration};

use store_core::{
    ChildStrategy, DeleteRequest, IgnoreProgress, NewThread, RunChange, RunId, RunOutcome, RunStatus, Store,
    ThreadFields, ThreadRunStore,
};
use store_file::FileStore;
use tokio::time::timeout;

use crate::folder::{Place, commit, commits, say, saying, thread, threads};

fn running(id: &str) -> RunChange {
    RunChange::new(id.parse().unwrap(), RunStatus::Running).with_agent("guide".parse().unwrap())
}

fn deleting(children: ChildStrategy) -> DeleteRequest {
    DeleteRequest { children, ..DeleteRequest::default() }
}

async fn child(threads: &Arc<dyn ThreadRunStore>, id: &str, parent: &str) {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(thread(parent));
    threads.create_thread(NewThread::new(thread(id)).with_fields(fields)).await.unwrap();
}

/// Shows RU-6 and CM-1: the id of a run whose thread was deleted is used again while the purge removes what was left of
/// it; the new run stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_never_removes_a_run_created_meanwhile() {
    const RUNS: usize = 400;
    let place = Place::new();
    let store = place.open();
    for round in 0..6 {
        let old = format!("old-{round}");
        for run in 0..RUNS {
            let done = RunChange::new(format!("r-{run}").parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
            commit(&store, saying(&old, "x").with_run(running(&format!("r-{run}")))).await.unwrap();
            commit(&store, saying(&old, "x").with_run(done)).await.unwrap();
        }
        threads(&store).delete_thread(&thread(&old), DeleteRequest::default()).await.unwrap();
        let purge = tokio::spawn({
            let threads = threads(&store);
            async move { threads.purge_deleted(&IgnoreProgress).await.unwrap() }
        });
        let new = format!("new-{round}");
        for run in (0..RUNS).rev().step_by(7) {
            commit(&store, saying(&new, "y").with_run(running(&format!("r-{run}")))).await.unwrap();
            let done = RunChange::new(format!("r-{run}").parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
            commit(&store, saying(&new, "y").with_run(done)).await.unwrap();
        }
        purge.await.unwrap();
        threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
        for run in (0..RUNS).rev().step_by(7) {
            let id: RunId = format!("r-{run}").parse().unwrap();
            let found = threads(&store).load_run(&id).await.unwrap();
            assert_eq!(found.map(|run| run.thread), Some(thread(&new)), "{id} in round {round}");
        }
        threads(&store).delete_thread(&thread(&new), DeleteRequest::default()).await.unwrap();
        threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    }
    let found = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    assert_eq!(found.findings, []);
}

/// Shows PR-12: a commit that looks at a run of another thread for the first time, and the deletion of that thread,
/// both end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_and_a_deletion_of_its_parent_thread_never_deadlock() {
    let place = Place::new();
    let rounds = 30;
    let store = place.open();
    for round in 0..rounds {
        commit(&store, saying(&format!("a-{round}"), "x").with_run(running(&format!("parent-{round}")))).await.unwrap();
        child(&threads(&store), &format!("b-{round}"), &format!("a-{round}")).await;
    }
    store.close().await.unwrap();
    // Opened again, no log was looked at yet.
    let store = place.open();
    for round in 0..rounds {
        let mut below = running(&format!("child-{round}"));
        below.parent_run = Some(format!("parent-{round}").parse().unwrap());
        let (writer, admin) = (commits(&store), threads(&store));
        let commit = saying(&format!("b-{round}"), "y").with_run(below);
        let written = tokio::spawn(async move { writer.commit(commit).await });
        let deleted = tokio::spawn(async move {
            admin.delete_thread(&thread(&format!("a-{round}")), deleting(ChildStrategy::Detach)).await
        });
        let both = async { (written.await.unwrap(), deleted.await.unwrap()) };
        let (written, deleted) = timeout(Duration::from_secs(20), both).await.expect("they wait for each other");
        deleted.unwrap();
        if let Err(error) = written {
            assert_eq!(error.kind().name(), "not_found", "{error}");
        }
    }
    timeout(Duration::from_secs(20), store.close()).await.expect("the store does not close").unwrap();
}

/// Shows TH-20 and PR-13: of a family that is deleted nobody sees one gone and then another still there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_family_disappears_atomically_for_every_reader() {
    let place = Place::new();
    let store = place.open();
    for round in 0..5 {
        let top = format!("a-{round}");
        say(&store, &top, "x").await.unwrap();
        for number in 0..150 {
            child(&threads(&store), &format!("{top}-{number:03}"), &top).await;
        }
        let (reader, last) = (threads(&store), thread(&format!("{top}-149")));
        let first = thread(&top);
        let seen = tokio::spawn(async move {
            while reader.load_thread(&first).await.unwrap().is_some() {}
            reader.load_thread(&last).await.unwrap()
        });
        threads(&store).delete_thread(&thread(&top), deleting(ChildStrategy::Cascade)).await.unwrap();
        assert_eq!(seen.await.unwrap(), None, "in round {round}");
    }
}

/// Shows PR-12 and FI-13: reads go on while a purge waits for one that began before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_continue_during_a_large_purge() {
    let place = Place::new();
    let store: FileStore = place.open();
    for number in 0..200 {
        say(&store, &format!("t-{number}"), "x").await.unwrap();
    }
    let work = async {
        for number in 0..200 {
            threads(&store).delete_thread(&thread(&format!("t-{number}")), DeleteRequest::default()).await.unwrap();
            say(&store, "stays", "y").await.unwrap();
            assert!(threads(&store).load_thread(&thread("stays")).await.unwrap().is_some());
        }
    };
    timeout(Duration::from_secs(60), work).await.expect("purges hold up other calls");
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(place.logs().len(), 1);
}
