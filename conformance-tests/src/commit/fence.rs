//! Fences: the store remembers, for each thread id, the highest claim number under which a caller wrote.

use std::sync::Arc;

use store_core::{
    ClaimNumber, ClaimToken, Commit, DeleteRequest, ErrorKind, Expect, Fence, IgnoreProgress, NewThread, ThreadPatch,
};

use crate::{
    check::{Verdict, expect, expect_eq, expect_kind},
    given::{Given, commit_with_message, id, keyed_commit_with_message, run_concurrently},
    log::{
        entry_drafts::{user_entries, user_entry},
        writer::{ThreadWriter, reopen_if},
    },
};

fn fence_of_claim(incarnation: u64, counter: u64) -> Fence {
    Fence::new(id("dispatch"), ClaimToken::new("token"), 1, ClaimNumber { incarnation, counter })
}

/// A commit with a fence and no other content.
fn commit_with_only_fence(thread: &str, fence: Fence) -> Commit {
    Commit::new(id(thread)).fenced(fence)
}

/// A commit is refused if its claim number is lower than the highest number under which a caller wrote to the thread.
/// An equal or a higher number is accepted. The incarnation is compared before the counter. Commits without a fence are
/// not checked.
pub(crate) async fn a_lower_claim_is_refused(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let steps = [((1, 5), true), ((1, 5), true), ((1, 4), false), ((1, 6), true), ((1, 5), false), ((2, 1), true)];
    let more_steps = [((1, 900), false), ((2, 0), false), ((2, 2), true), ((0, 0), false), ((2, 2), true)];
    for (number, ((incarnation, counter), is_accepted)) in steps.into_iter().chain(more_steps).enumerate() {
        let commit = keyed_commit_with_message(&writer.thread, &number.to_string(), "text")
            .fenced(fence_of_claim(incarnation, counter));
        if is_accepted {
            given.expect_accepted(commit).await?;
        } else {
            writer.expect_commit_refused(commit, ErrorKind::StaleEpoch).await?;
        }
    }
    given.expect_accepted(keyed_commit_with_message(&writer.thread, "unfenced", "text")).await?;
    // A refused commit does not raise the highest claim number.
    let conflicting_commit = commit_with_message(&writer.thread, Expect::Absent, "x").fenced(fence_of_claim(9, 9));
    writer.expect_commit_refused(conflicting_commit, ErrorKind::Conflict).await?;
    given.expect_accepted(keyed_commit_with_message(&writer.thread, "last", "text").fenced(fence_of_claim(2, 2))).await
}

/// A commit with a fence and no other content raises the highest claim number, so that later commits with a lower
/// number are refused. It works even before the thread exists, and does not create the thread.
pub(crate) async fn a_commit_with_only_a_fence_raises_the_claim_number(given: &Given) -> Verdict {
    let receipt = given.commit(commit_with_only_fence("t", fence_of_claim(1, 5))).await?;
    expect_eq((receipt.version.number(), receipt.head, receipt.first_seq), (0, None, None))?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    let commit_under_lower_claim = commit_with_message(&id("t"), Expect::Absent, "late").fenced(fence_of_claim(1, 4));
    expect_kind(given.commits()?.commit(commit_under_lower_claim).await, ErrorKind::StaleEpoch)?;
    expect_kind(
        given.commits()?.commit(commit_with_only_fence("t", fence_of_claim(1, 4))).await,
        ErrorKind::StaleEpoch,
    )?;
    let first = given.commit(commit_with_message(&id("t"), Expect::Absent, "a").fenced(fence_of_claim(1, 5))).await?;
    let receipt = given.commit(commit_with_only_fence("t", fence_of_claim(1, 7))).await?;
    expect_eq((receipt.version, receipt.head), (first.version, first.head))?;
    let commit_under_lower_claim = keyed_commit_with_message(&id("t"), "k", "late").fenced(fence_of_claim(1, 6));
    ThreadWriter::new(given, "t").expect_commit_refused(commit_under_lower_claim, ErrorKind::StaleEpoch).await?;
    // The guard of such a commit is checked like that of any other commit.
    let conflicting_commit = commit_with_only_fence("t", fence_of_claim(1, 8)).expecting(Expect::Absent);
    expect_kind(given.commits()?.commit(conflicting_commit).await, ErrorKind::Conflict)?;
    given.expect_accepted(commit_with_only_fence("t", fence_of_claim(1, 7))).await
}

/// The highest claim number is remembered after the thread is deleted: a commit that creates the thread again needs a
/// number that is at least as high.
pub(crate) async fn the_claim_number_of_a_deleted_thread_is_remembered(given: &Given) -> Verdict {
    expect_claim_numbers_remembered(given, false).await
}

/// The highest claim number is still known after the store is closed and reopened, even if the thread does not exist
/// yet or was deleted.
pub(crate) async fn the_highest_claim_number_survives_a_reopen(given: &Given) -> Verdict {
    expect_claim_numbers_remembered(given, true).await
}

async fn expect_claim_numbers_remembered(given: &Given, with_reopen: bool) -> Verdict {
    given.expect_accepted(keyed_commit_with_message(&id("t"), "k", "a").fenced(fence_of_claim(1, 5))).await?;
    given.expect_accepted(commit_with_only_fence("absent", fence_of_claim(1, 5))).await?;
    reopen_if(given, with_reopen).await?;
    for thread in ["t", "absent"] {
        expect_kind(
            given.commits()?.commit(commit_with_only_fence(thread, fence_of_claim(1, 4))).await,
            ErrorKind::StaleEpoch,
        )?;
    }
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.threads()?.purge_deleted(&IgnoreProgress).await?;
    reopen_if(given, with_reopen).await?;
    let recreating_commit =
        |counter| commit_with_message(&id("t"), Expect::Absent, "anew").fenced(fence_of_claim(1, counter));
    expect_kind(given.commits()?.commit(recreating_commit(4)).await, ErrorKind::StaleEpoch)?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    given.expect_accepted(recreating_commit(5)).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.threads()?.create_thread(NewThread::new(id("t"))).await?;
    expect_kind(
        given.commits()?.commit(commit_with_only_fence("t", fence_of_claim(1, 4))).await,
        ErrorKind::StaleEpoch,
    )?;
    // The claim numbers of one thread have no effect on another thread.
    given.expect_accepted(commit_with_only_fence("other", fence_of_claim(0, 1))).await
}

/// Of several concurrent writers with different claim numbers, none can write after a writer with a higher number has
/// written.
pub(crate) async fn no_lower_claim_writes_after_a_higher_one(given: &Given) -> Verdict {
    for round in 0..20 {
        let (thread, commits) = (id(&format!("t{round}")), given.commits()?);
        let results = run_concurrently(6, |task| {
            let (commits, thread) = (Arc::clone(&commits), store_core::ThreadId::clone(&thread));
            async move {
                let mut accepted_count = 0;
                for step in 0..4 {
                    let name = format!("{task}-{step}");
                    let commit = Commit::new(thread.clone()).with_key(id(&name)).entry(user_entry(&name));
                    match commits.commit(commit.fenced(fence_of_claim(1, task as u64))).await {
                        Ok(_) => accepted_count += 1,
                        Err(error) => expect_eq(error.kind(), ErrorKind::StaleEpoch)?,
                    }
                }
                Ok::<usize, crate::check::Failure>(accepted_count)
            }
        })
        .await;
        let accepted_by_task = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let log = given.read_log(&thread).await?;
        let claims: Vec<_> = log.iter().map(|entry| entry.id.as_str().split('-').next().map(str::to_owned)).collect();
        expect(claims.is_sorted(), format!("the entries are not in the order of their claims: {claims:?}"))?;
        // The last task has the highest claim number, so all its commits are accepted.
        expect_eq((log.len(), accepted_by_task.last().copied()), (accepted_by_task.iter().sum(), Some(4)))?;
    }
    Ok(())
}

/// After `reset_fence`, a caller can write under a lower claim number again. Calling `reset_fence` for an unknown
/// thread is not an error.
pub(crate) async fn a_fence_can_be_reset(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    given.expect_accepted(keyed_commit_with_message(&writer.thread, "k", "a").fenced(fence_of_claim(5, 5))).await?;
    let thread_before = writer.load_thread().await?;
    let commit_under_lower_claim = || keyed_commit_with_message(&writer.thread, "l", "b").fenced(fence_of_claim(1, 1));
    writer.expect_commit_refused(commit_under_lower_claim(), ErrorKind::StaleEpoch).await?;
    given.threads()?.reset_fence(&id("other")).await?;
    writer.expect_commit_refused(commit_under_lower_claim(), ErrorKind::StaleEpoch).await?;
    given.threads()?.reset_fence(&writer.thread).await?;
    expect_eq(writer.load_thread().await?, thread_before)?;
    given.expect_accepted(commit_under_lower_claim()).await?;
    // Now the claim number 1 is the highest one.
    let commit_under_lowest_claim = keyed_commit_with_message(&writer.thread, "m", "c").fenced(fence_of_claim(1, 0));
    writer.expect_commit_refused(commit_under_lowest_claim, ErrorKind::StaleEpoch).await?;
    given.threads()?.reset_fence(&id("unknown")).await?;
    expect_eq(given.threads()?.load_thread(&id("unknown")).await?, None)
}

/// The fence of a thread update is checked like the fence of a commit, and it also raises the highest claim number.
pub(crate) async fn the_fence_of_an_update_is_checked(given: &Given) -> Verdict {
    let (writer, threads) = (ThreadWriter::new(given, "t"), given.threads()?);
    given.expect_accepted(keyed_commit_with_message(&writer.thread, "k", "a").fenced(fence_of_claim(1, 5))).await?;
    let update = |title: &str, fence: Fence| {
        let mut patch = ThreadPatch::default().with_title(title);
        patch.fence = Some(fence);
        threads.update_thread(&writer.thread, patch, Expect::Any)
    };
    let thread_before = writer.load_thread().await?;
    expect_kind(update("late", fence_of_claim(1, 4)).await, ErrorKind::StaleEpoch)?;
    expect_eq(writer.load_thread().await?, thread_before)?;
    update("a", fence_of_claim(1, 5)).await?;
    update("b", fence_of_claim(1, 7)).await?;
    writer
        .expect_commit_refused(
            keyed_commit_with_message(&writer.thread, "l", "x").fenced(fence_of_claim(1, 6)),
            ErrorKind::StaleEpoch,
        )
        .await?;
    expect_kind(update("c", fence_of_claim(1, 6)).await, ErrorKind::StaleEpoch)?;
    // An update that changes nothing also raises the highest claim number.
    let unchanged = update("b", fence_of_claim(1, 9)).await?;
    expect_eq(&unchanged, &writer.load_thread().await?)?;
    expect_kind(update("c", fence_of_claim(1, 8)).await, ErrorKind::StaleEpoch)?;
    given.expect_accepted(keyed_commit_with_message(&writer.thread, "m", "y").fenced(fence_of_claim(1, 9))).await
}

/// After the store is closed and reopened, the claim numbers of a commit, of an update and of an update that
/// changed nothing are still known.
pub(crate) async fn claim_numbers_of_commits_and_updates_survive_a_reopen(given: &Given) -> Verdict {
    for thread in ["a", "b", "c"] {
        given.expect_accepted(keyed_commit_with_message(&id(thread), "k", "x").fenced(fence_of_claim(1, 5))).await?;
    }
    for (thread, patch) in [("b", ThreadPatch::default().with_title("b")), ("c", ThreadPatch::default())] {
        let mut patch = patch;
        patch.fence = Some(fence_of_claim(1, 7));
        given.threads()?.update_thread(&id(thread), patch, Expect::Any).await?;
    }
    given.reopen().await?;
    for (thread, counter) in [("a", 5), ("b", 7), ("c", 7)] {
        let writer = ThreadWriter::new(given, thread);
        let commit_under_lower_claim =
            keyed_commit_with_message(&writer.thread, "l", "x").fenced(fence_of_claim(1, counter - 1));
        writer.expect_commit_refused(commit_under_lower_claim, ErrorKind::StaleEpoch).await?;
        given
            .expect_accepted(keyed_commit_with_message(&writer.thread, "m", "y").fenced(fence_of_claim(1, counter)))
            .await?;
    }
    Ok(())
}
