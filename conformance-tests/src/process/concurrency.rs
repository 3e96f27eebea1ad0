//! Concurrent calls on the same threads all end, and leave consistent data.

use std::sync::Arc;

use store_core::{
    ChildStrategy, Commit, CommitCoordinator, DeleteRequest, Expect, ParentFilter, Result, RunChange, RunOutcome,
    RunStatus, ThreadFilter, ThreadId, ThreadPatch, ThreadRunStore,
};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::{id, keyed_commit_with_message, run_concurrently},
};

/// The id of one of the six threads that all tasks use.
fn shared_thread_id(at: usize) -> ThreadId {
    id(&format!("t-{}", at % 6))
}

/// Makes one call. The calls of the tasks use threads, runs and parents in different orders.
async fn make_one_call(
    commits: &dyn CommitCoordinator,
    threads: &dyn ThreadRunStore,
    task: usize,
    at: usize,
) -> Result<()> {
    let (thread, other_thread) = (shared_thread_id(task + at), shared_thread_id(task * 5 + at * 3 + 1));
    let parent_patch = ThreadPatch::default().with_parent(Some(other_thread.clone()));
    let run = |status| RunChange::new(id(&format!("r-{}", at % 5)), status).with_agent(id("agent"));
    match (task + at) % 7 {
        0 => threads.update_thread(&thread, parent_patch, Expect::Any).await.map(drop),
        1 => threads.validate_parent(&thread, &other_thread).await,
        2 => commits.commit(Commit::new(thread).with_run(run(RunStatus::Running))).await.map(drop),
        3 => commits.commit(Commit::new(thread).with_run(run(RunStatus::done(RunOutcome::NaturalEnd)))).await.map(drop),
        4 if at.is_multiple_of(5) => {
            let request = DeleteRequest { children: ChildStrategy::Cascade, expect: Expect::Any };
            threads.delete_thread(&thread, request).await.map(drop)
        }
        5 if at.is_multiple_of(5) => threads.delete_thread(&other_thread, DeleteRequest::default()).await.map(drop),
        5 => {
            commits.commit(keyed_commit_with_message(&thread, "absent", "x").expecting(Expect::Absent)).await.map(drop)
        }
        _ => commits.commit(keyed_commit_with_message(&thread, &format!("{task}-{at}"), "x")).await.map(drop),
    }
}

/// Concurrent calls that change parents, write the same run, delete families and write to the same threads all end.
/// The remaining data is consistent: logs have no gaps, parents exist, and runs belong to threads that exist.
pub(super) async fn concurrent_calls_never_deadlock(given: &Given) -> Verdict {
    let (commits, threads) = (given.commits()?, given.threads()?);
    let results = run_concurrently(12, |task| {
        let (commits, threads) = (Arc::clone(&commits), Arc::clone(&threads));
        async move {
            for at in 0..80 {
                // A refusal does not matter here, because other tasks create and delete the threads.
                let _result = make_one_call(&*commits, &*threads, task, at).await;
            }
        }
    });
    results.await;
    for at in 0..6 {
        let Some(thread) = threads.load_thread(&shared_thread_id(at)).await? else { continue };
        let seqs: Vec<_> = given.read_log(&thread.id).await?.iter().map(|entry| entry.seq).collect();
        expect_eq(seqs, (1..=thread.version.number()).collect::<Vec<_>>())?;
        if let Some(parent) = &thread.parent_thread_id {
            expect(threads.load_thread(parent).await?.is_some(), "a parent does not exist")?;
            let mut filter = ThreadFilter::default();
            filter.parent = Some(ParentFilter::Of(parent.clone()));
            expect(threads.count_threads(&filter).await? > 0, "a child is not listed")?;
        }
        for run in &thread.open_runs {
            expect_eq(threads.load_run(run).await?.map(|run| run.thread), Some(thread.id.clone()))?;
        }
    }
    Ok(())
}
