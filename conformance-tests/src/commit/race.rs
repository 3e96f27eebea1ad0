//! Commits of many concurrent writers.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{
    Commit, CommitCoordinator, ContextRequest, Error, ErrorKind, Expect, Receipt, StateChange, StateOp, ThreadId,
    ThreadRunStore,
};

use crate::{
    check::{Failure, Verdict, expect, expect_eq, expect_exactly_one, expect_kinds},
    given::{Given, commit_with_message, id, keyed_commit_with_message, message_entry, run_concurrently},
    log::entry_drafts::{json, user_entry},
    run::helpers::{done_run, running_run},
};

/// Of several concurrent commits with the same version as their guard, exactly one succeeds. The others are refused
/// with `Conflict`. No two receipts have the same version.
pub(crate) async fn one_of_several_commits_with_the_same_guard_succeeds(given: &Given) -> Verdict {
    const ROUNDS: u64 = 40;
    let (thread, mut guard) = (id("t"), Expect::Absent);
    let mut versions = BTreeSet::new();
    for round in 1..=ROUNDS {
        let commits = given.commits()?;
        let results = run_concurrently(6, |task| {
            let (commits, commit) =
                (Arc::clone(&commits), commit_with_message(&thread, guard, &format!("{round}-{task}")));
            async move { commits.commit(commit).await }
        })
        .await;
        let (receipt, errors) = expect_exactly_one(results)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        expect_eq(receipt.version.number(), round)?;
        versions.insert(receipt.version.number());
        guard = Expect::Version(receipt.version);
    }
    let log = given.read_log(&thread).await?;
    expect_eq((log.len() as u64, versions.len() as u64), (ROUNDS, ROUNDS))?;
    expect_eq(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=ROUNDS).collect::<Vec<_>>())
}

/// Concurrent commits without a guard all take effect. The entries of each commit have consecutive numbers, and each is
/// a child of the one before it.
pub(crate) async fn unguarded_commits_all_take_effect(given: &Given) -> Verdict {
    const TASKS: usize = 12;
    let (thread, commits) = (id::<ThreadId>("t"), given.commits()?);
    for round in 0..5 {
        let results = run_concurrently(TASKS, |task| {
            let (commits, commit) =
                (Arc::clone(&commits), keyed_commit_with_message(&thread, &format!("{round}-{task}"), "first"));
            async move { commits.commit(commit.entries([message_entry("second"), message_entry("third")])).await }
        })
        .await;
        let log = given.read_log(&thread).await?;
        expect_eq(log.len(), (round + 1) * TASKS * 3)?;
        for receipt in results.into_iter().collect::<Result<Vec<Receipt>, Error>>()? {
            let first_index = usize::try_from(receipt.first_seq.unwrap_or_default()).unwrap_or_default() - 1;
            let entry_ids: Vec<_> = log[first_index..first_index + 3].iter().map(|entry| entry.id.clone()).collect();
            expect_eq(&entry_ids, &receipt.entry_ids)?;
            expect_eq(log[first_index + 1].parent.as_ref(), entry_ids.first())?;
            expect_eq(receipt.head.as_ref(), entry_ids.last())?;
        }
    }
    expect_eq(given.thread(&thread).await?.leaves, 1)
}

/// Of several concurrent commits with the same key and the same content, exactly one is applied. All of them return its
/// receipt.
pub(crate) async fn commits_with_the_same_key_are_applied_once(given: &Given) -> Verdict {
    let (thread, commits) = (id::<ThreadId>("t"), given.commits()?);
    for round in 0..30_u64 {
        let results = run_concurrently(6, |_| {
            let (commits, commit) =
                (Arc::clone(&commits), keyed_commit_with_message(&thread, &round.to_string(), "once"));
            async move { commits.commit(commit).await }
        })
        .await;
        let mut receipts = results.into_iter().collect::<Result<Vec<Receipt>, Error>>()?;
        expect_eq(receipts.iter().filter(|receipt| !receipt.deduplicated).count(), 1)?;
        receipts.iter_mut().for_each(|receipt| receipt.deduplicated = false);
        expect(receipts.windows(2).all(|pair| pair[0] == pair[1]), format!("the receipts differ: {receipts:?}"))?;
        expect_eq(given.read_log(&thread).await?.len() as u64, round + 1)?;
    }
    Ok(())
}

/// Of several concurrent commits with the same key and different contents, exactly one is applied. The others are
/// refused with `IdempotencyMismatch`.
pub(crate) async fn a_key_with_different_content_is_refused(given: &Given) -> Verdict {
    let (thread, commits) = (id::<ThreadId>("t"), given.commits()?);
    for round in 0..20 {
        let results = run_concurrently(4, |task| {
            let (commits, commit) =
                (Arc::clone(&commits), keyed_commit_with_message(&thread, &format!("k{round}"), &task.to_string()));
            async move { commits.commit(commit).await }
        })
        .await;
        let (receipt, errors) = expect_exactly_one(results)?;
        expect_kinds(errors, ErrorKind::IdempotencyMismatch)?;
        expect_eq((receipt.version.number(), receipt.deduplicated), (round + 1, false))?;
    }
    Ok(())
}

/// A commit with many parts that is refused because of one of them.
fn commit_to_refuse(thread: &ThreadId, task: usize) -> Commit {
    let commit_with_run = keyed_commit_with_message(thread, &format!("refused {task}"), "refused")
        .with_run(running_run(&format!("refused {task}")));
    let state = StateChange::new().with("count", StateOp::Add(1_000)).with("refused", StateOp::Add(1));
    match task % 3 {
        0 => commit_with_run.with_state(state).entry(message_entry("x").below(id("unknown"))),
        1 => commit_with_run.with_state(state.with("text", StateOp::Add(1))),
        _ => commit_with_run.with_state(state).with_run(done_run("done")),
    }
}

/// A refused commit does not affect the concurrent commits of other callers, and none of its parts is stored.
pub(crate) async fn a_refused_commit_does_not_affect_other_writers(given: &Given) -> Verdict {
    const TASKS: usize = 12;
    const ROUNDS: usize = 10;
    let (thread, commits) = (id::<ThreadId>("t"), given.commits()?);
    let text = StateChange::new().set("text", json("\"x\""));
    given.expect_accepted(Commit::new(thread.clone()).with_run(done_run("done")).with_state(text)).await?;
    let results = run_concurrently(TASKS, |task| {
        let (commits, thread) = (Arc::clone(&commits), thread.clone());
        async move {
            let mut task_results = Vec::new();
            for round in 0..ROUNDS {
                let accepted_commit = keyed_commit_with_message(&thread, &format!("{task}-{round}"), "accepted");
                let accepted_commit = accepted_commit.with_state(StateChange::new().with("count", StateOp::Add(1)));
                task_results.push(
                    commits
                        .commit(if task % 2 == 0 { accepted_commit } else { commit_to_refuse(&thread, task / 2) })
                        .await,
                );
            }
            task_results
        }
    })
    .await;
    let accepted_count = TASKS / 2 * ROUNDS;
    for (task, task_results) in results.into_iter().enumerate() {
        expect(
            task_results.iter().all(|result| result.is_ok() == (task % 2 == 0)),
            format!("task {task}: {task_results:?}"),
        )?;
    }
    let context = given.threads()?.load_context(&thread, ContextRequest::head()).await?;
    expect_eq(context.context.messages.len(), accepted_count)?;
    expect_eq(context.state.get("count"), Some(&json(&accepted_count.to_string())))?;
    expect_eq((context.state.len(), context.thread.open_runs.len()), (2, 0))?;
    expect_eq(context.thread.state_revision, accepted_count as u64 + 1)
}

/// After a thousand commits in a row, the log has no gaps, the counters are exact, and every acknowledged entry is
/// stored.
pub(crate) async fn a_thousand_commits_follow_each_other(given: &Given) -> Verdict {
    let (thread, commits) = (id::<ThreadId>("t"), given.commits()?);
    let mut guard = Expect::Absent;
    for number in 0..1_000 {
        let commit = Commit::new(thread.clone()).expecting(guard).entry(user_entry(&number.to_string()));
        let receipt = commits.commit(commit.with_state(StateChange::new().with("n", StateOp::Add(1)))).await?;
        guard = Expect::Version(receipt.version);
    }
    let record = given.thread(&thread).await?;
    expect_eq((record.version.number(), record.state_revision, record.leaves), (1_000, 1_000, 1))?;
    let log = given.read_log(&thread).await?;
    expect(
        log.iter()
            .enumerate()
            .all(|(number, entry)| entry.seq == number as u64 + 1 && entry.id.as_str() == number.to_string()),
        "the log has gaps or is out of order",
    )
}

/// After commits of 64 concurrent writers to 8 threads, the logs have no gaps, the counters are exact, and every
/// acknowledged entry is stored.
pub(crate) async fn many_writers_leave_complete_logs_and_exact_counters(given: &Given) -> Verdict {
    const ROUNDS: usize = 8;
    let commits = given.commits()?;
    let results = run_concurrently(64, |task| commit_rounds(Arc::clone(&commits), task, ROUNDS)).await;
    let mut acknowledged_ids = vec![BTreeSet::new(); 8];
    for (task, receipts) in results.into_iter().enumerate() {
        for receipt in receipts? {
            acknowledged_ids[task % 8].extend(receipt.entry_ids);
        }
    }
    for (number, expected_ids) in acknowledged_ids.into_iter().enumerate() {
        let thread = id::<ThreadId>(&format!("t{number}"));
        let log = given.read_log(&thread).await?;
        expect_eq(log.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=8 * ROUNDS as u64).collect::<Vec<_>>())?;
        expect_eq(log.iter().map(|entry| entry.id.clone()).collect::<BTreeSet<_>>(), expected_ids)?;
        let context = given.threads()?.load_context(&thread, ContextRequest::head()).await?;
        expect_eq((context.thread.version.number(), context.thread.leaves), (8 * ROUNDS as u64, 1))?;
        expect_eq(context.state.get("n"), Some(&json(&(8 * ROUNDS).to_string())))?;
    }
    Ok(())
}

/// Makes `rounds` commits of a task to its thread. The tasks share eight threads. Returns the receipts.
async fn commit_rounds(
    commits: Arc<dyn CommitCoordinator>,
    task: usize,
    rounds: usize,
) -> Result<Vec<Receipt>, Failure> {
    let thread = id(&format!("t{}", task % 8));
    let mut receipts = Vec::new();
    for round in 0..rounds {
        let commit = keyed_commit_with_message(&thread, &format!("{task}-{round}"), "text");
        let commit = commit.with_state(StateChange::new().with("n", StateOp::Add(1)));
        receipts.push(commits.commit(commit).await?);
    }
    Ok(receipts)
}

/// A commit that was refused because its guard was stale can be tried again: the caller loads the thread, takes the new
/// guard and keeps the key. The commit takes effect once.
pub(crate) async fn a_stale_commit_can_be_rebased(given: &Given) -> Verdict {
    const TASKS: usize = 8;
    let (commits, threads) = (given.commits()?, given.threads()?);
    given.create_empty_thread("t").await?;
    let results =
        run_concurrently(TASKS, |task| commit_until_accepted(Arc::clone(&commits), Arc::clone(&threads), task)).await;
    let receipts = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    expect_eq(receipts.iter().filter(|receipt| receipt.deduplicated).count(), 0)?;
    let log = given.read_log(&id("t")).await?;
    let stored_ids: BTreeSet<_> = log.iter().map(|entry| entry.id.to_string()).collect();
    expect_eq(stored_ids, (0..TASKS).map(|task| task.to_string()).collect())?;
    // After that, repeating a commit returns its first receipt, even if its guard does not match.
    for (task, receipt) in receipts.into_iter().enumerate() {
        let again = Commit::new(id("t")).expecting(Expect::Absent).entry(user_entry(&task.to_string()));
        let again = commits.commit(again.with_key(id(&format!("k{task}")))).await?;
        expect_eq((again.deduplicated, again.version), (true, receipt.version))?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), TASKS)
}

/// Commits the entry `task` with the current version as its guard, and tries again after each conflict.
async fn commit_until_accepted(
    commits: Arc<dyn CommitCoordinator>,
    threads: Arc<dyn ThreadRunStore>,
    task: usize,
) -> Result<Receipt, Failure> {
    loop {
        let thread = threads.load_thread(&id("t")).await?.ok_or_else(|| Failure::new("thread `t` does not exist"))?;
        let commit =
            Commit::new(thread.id).expecting(Expect::Version(thread.version)).entry(user_entry(&task.to_string()));
        match commits.commit(commit.with_key(id(&format!("k{task}")))).await {
            Ok(receipt) => return Ok(receipt),
            Err(error) if error.kind() == ErrorKind::Conflict => tokio::task::yield_now().await,
            Err(error) => return Err(error.into()),
        }
    }
}
