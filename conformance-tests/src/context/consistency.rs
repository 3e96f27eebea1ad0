//! A context, and the thread, state and runs that are returned with it, show the same moment.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use store_core::{
    Commit, ContextRequest, RunChange, RunOutcome, RunStatus, StateChange, ThreadContext, ThreadId, ThreadRunStore,
};

use crate::{
    check::{Verdict, expect, expect_eq, expect_some},
    given::{Given, id, run_two_concurrently},
    log::entry_drafts::{json, user_entry},
};

const MIN_ROUNDS: u64 = 100;
const MIN_READS: u64 = 20;

/// Commit number `round` writes an entry, the state and a run together. An even number starts a run, and an odd number
/// ends it.
fn commit_of_round(thread: &ThreadId, round: u64) -> Commit {
    let run_id = id(&format!("r{}", round / 2));
    let mut run = match round % 2 {
        0 => RunChange::new(run_id, RunStatus::Running).with_agent(id("agent")),
        _ => RunChange::new(run_id, RunStatus::done(RunOutcome::NaturalEnd)),
    };
    run.steps = u32::try_from(round).ok();
    let state = StateChange::new().set("round", json(&round.to_string()));
    let commit = Commit::new(thread.clone()).with_key(id(&round.to_string()));
    commit.entry(user_entry(&round.to_string())).with_run(run).with_state(state)
}

/// Checks that all parts of a context are from the same moment. The version of the thread tells which commit was the
/// last one, and each part must be as this commit left it.
fn expect_consistent(thread_context: &ThreadContext) -> Verdict {
    let last_round = thread_context.thread.version.number() - 1;
    let expected_head = Some(id(&last_round.to_string()));
    expect_eq((&thread_context.thread.head, &thread_context.at), (&expected_head, &expected_head))?;
    expect_eq(thread_context.context.messages.len() as u64, last_round + 1)?;
    expect_eq(thread_context.context.messages.last().map(|message| &message.entry), expected_head.as_ref())?;
    expect_eq(thread_context.state.get("round"), Some(&json(&last_round.to_string())))?;
    let run = expect_some(thread_context.latest_run.as_ref(), "latest run")?;
    expect_eq(u64::from(run.steps), last_round)?;
    expect_eq(run.is_open(), last_round.is_multiple_of(2))?;
    let open_run_ids: Vec<_> = thread_context.open_runs.iter().map(|run| run.id.clone()).collect();
    expect_eq(&open_run_ids, &thread_context.thread.open_runs)?;
    expect_eq(open_run_ids.len(), usize::from(run.is_open()))
}

/// While another task commits, each read shows thread, head, version, context, state and runs as of the same moment.
pub(crate) async fn a_context_is_a_consistent_snapshot(given: &Given) -> Verdict {
    let (commits, threads) = (given.commits()?, given.threads()?);
    let thread: ThreadId = id("t");
    given.expect_accepted(commit_of_round(&thread, 0)).await?;
    let (reads, is_done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let reader = read_until_done(threads, thread.clone(), (Arc::clone(&reads), Arc::clone(&is_done)));
    let writer = async move {
        let mut next_round = 1;
        let mut result = Ok(());
        // The writer continues until the reader has read often enough, but not forever if the reader failed.
        while result.is_ok()
            && (next_round < MIN_ROUNDS || (reads.load(Ordering::SeqCst) < MIN_READS && next_round < 20 * MIN_ROUNDS))
        {
            result = commits.commit(commit_of_round(&thread, next_round)).await.map(drop);
            next_round += 1;
            tokio::task::yield_now().await;
        }
        is_done.store(true, Ordering::SeqCst);
        result.map(|()| next_round)
    };
    let (commit_count, reader_result) = run_two_concurrently(writer, reader).await;
    reader_result?;
    let final_context = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(final_context.thread.version.number(), commit_count?)?;
    expect_consistent(&final_context)
}

/// Reads the context until `is_done` is set, counts the reads in `reads`, and checks each context.
async fn read_until_done(
    threads: Arc<dyn ThreadRunStore>,
    thread: ThreadId,
    (reads, is_done): (Arc<AtomicU64>, Arc<AtomicBool>),
) -> Verdict {
    let mut newest = 0;
    while !is_done.load(Ordering::SeqCst) {
        let thread_context = threads.load_context(&thread, ContextRequest::head()).await?;
        expect_consistent(&thread_context)?;
        let version = thread_context.thread.version.number();
        expect(version >= newest, format!("version {version} was read after version {newest}"))?;
        newest = version;
        reads.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    Ok(())
}
