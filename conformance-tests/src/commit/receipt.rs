//! Receipts, and the times of commits.

use std::{sync::Arc, time::Duration};

use store_core::{Commit, ErrorKind, Expect, Receipt, RunOutcome, RunStatus, StateChange, ThreadFields, Timestamp};

use crate::{
    check::{Verdict, expect, expect_eq, expect_kind},
    given::{Given, commit_with_message, id, keyed_commit_with_message, run_concurrently},
    log::{
        entry_drafts::{json, rewind, rewind_to_start, side_entry, user_entries, user_entry},
        writer::ThreadWriter,
    },
    run::helpers::{load_run, run_change, running_run},
};

/// The next read returns the same version, head, ids, state revision, run status and time as the receipt.
pub(crate) async fn a_receipt_says_what_the_next_read_gives(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let state = |value: &str| StateChange::new().set("k", json(value));
    let failed_status = RunStatus::done(RunOutcome::Failed { error: "x".repeat(2_000) });
    for (number, commit) in [
        Commit::new(id("t")).creating(ThreadFields::default()),
        Commit::new(id("t")).entries(user_entries(&["a", "b"])).with_run(running_run("r")),
        Commit::new(id("t")).entries([side_entry("c"), rewind("a")]).with_state(state("1")),
        Commit::new(id("t")).entries([user_entry("d"), rewind_to_start()]),
        Commit::new(id("t")).with_run(run_change("r", failed_status)).with_state(state("2")),
        Commit::new(id("t")).entries([user_entry("e")]),
    ]
    .into_iter()
    .enumerate()
    {
        let writes_run = commit.run.is_some();
        let receipt = given.commit(commit.with_key(id(&number.to_string()))).await?;
        let (thread, log) = (writer.load_thread().await?, given.read_log(&writer.thread).await?);
        expect_eq((&receipt.thread, receipt.version, &receipt.head), (&thread.id, thread.version, &thread.head))?;
        expect_eq((receipt.state_revision, receipt.time), (thread.state_revision, thread.updated_at))?;
        let new_entries = &log[log.len() - receipt.entry_ids.len()..];
        expect_eq(receipt.first_seq, new_entries.first().map(|entry| entry.seq))?;
        expect_eq(receipt.entry_ids, new_entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>())?;
        let status = if writes_run { Some(load_run(given, "r").await?.status) } else { None };
        expect_eq(receipt.run_status, status)?;
        expect_eq(receipt.deduplicated, false)?;
    }
    Ok(())
}

/// Neither the times of successive commits nor `updated_at` decrease, even if the clock is set back.
pub(crate) async fn times_do_not_decrease(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let mut last_time = Timestamp::MIN;
    for round in 0..12 {
        match round % 4 {
            0 => given.advance(Duration::from_millis(500)).await,
            2 => given.set_back(Duration::from_secs(3_600)).await,
            _ => {}
        }
        let receipt = given.commit(keyed_commit_with_message(&writer.thread, &round.to_string(), "text")).await?;
        expect(receipt.time >= last_time, format!("time {} follows {last_time}", receipt.time))?;
        last_time = receipt.time;
        let thread = writer.load_thread().await?;
        expect_eq(thread.updated_at, last_time)?;
        expect(thread.created_at <= thread.updated_at, "the thread was updated before it was created")?;
        let entry = given.read_log(&writer.thread).await?.last().map(|entry| entry.timestamp);
        expect_eq(entry, Some(last_time))?;
    }
    Ok(())
}

/// Concurrent commits take effect in the order of their versions: their entries, times and state revisions have the
/// same order.
pub(crate) async fn versions_follow_the_order_of_commits(given: &Given) -> Verdict {
    let commits = given.commits()?;
    let results = run_concurrently(8, |task| {
        let commits = Arc::clone(&commits);
        async move {
            let mut receipts = Vec::new();
            for round in 0..10 {
                let name = format!("{task}-{round}");
                let state = StateChange::new().set("last", json(&format!("\"{name}\"")));
                let commit = Commit::new(id("t")).with_key(id(&name)).entry(user_entry(&name)).with_state(state);
                receipts.push(commits.commit(commit).await?);
            }
            Ok::<Vec<Receipt>, store_core::Error>(receipts)
        }
    })
    .await;
    let receipts_by_task = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    for receipts in &receipts_by_task {
        expect(receipts.windows(2).all(|pair| pair[0].version.number() < pair[1].version.number()), "out of order")?;
    }
    let mut all_receipts = receipts_by_task.concat();
    all_receipts.sort_by_key(|receipt| receipt.version.number());
    let log = given.read_log(&id("t")).await?;
    for (receipt, entry) in all_receipts.iter().zip(&log) {
        expect_eq((receipt.version.number(), receipt.head.as_ref()), (entry.seq, Some(&entry.id)))?;
    }
    expect(all_receipts.windows(2).all(|pair| pair[0].time <= pair[1].time), "the times of the receipts decrease")?;
    expect(
        all_receipts.windows(2).all(|pair| pair[0].state_revision < pair[1].state_revision),
        "state revisions do not grow",
    )
}

/// If a commit states a time `at`, this becomes the time of the thread, and of each entry that has no time of its own.
/// `updated_at` never decreases.
pub(crate) async fn a_commit_time_can_be_given(given: &Given) -> Verdict {
    let now = given.commit(keyed_commit_with_message(&id("clock"), "k", "text")).await?.time;
    let seconds_before_now = |seconds: u64| now.saturating_sub(Duration::from_secs(seconds));
    let writer = ThreadWriter::new(given, "t");
    let entry_with_own_time = user_entry("own").with_timestamp(Timestamp::MAX);
    let first = Commit::new(id("t"))
        .expecting(Expect::Absent)
        .entries([user_entry("a"), entry_with_own_time])
        .at(seconds_before_now(900));
    let receipt = given.commit(first).await?;
    expect(receipt.time >= now, "the receipt does not give store time")?;
    let created = writer.load_thread().await?;
    expect_eq((created.created_at, created.updated_at), (seconds_before_now(900), seconds_before_now(900)))?;
    for (name, at, updated) in [("b", 500, 500), ("c", 700, 500), ("d", 0, 0)] {
        given
            .expect_accepted(writer.guarded_commit().await?.entry(user_entry(name)).at(seconds_before_now(at)))
            .await?;
        expect_eq(writer.load_entry(name).await?.timestamp, seconds_before_now(at))?;
        expect_eq(writer.load_thread().await?.updated_at, seconds_before_now(updated))?;
    }
    expect_eq(writer.load_thread().await?.created_at, seconds_before_now(900))?;
    expect_eq(writer.load_entry("a").await?.timestamp, seconds_before_now(900))?;
    expect_eq(writer.load_entry("own").await?.timestamp, Timestamp::MAX)?;
    let receipt = writer.append([user_entry("e")]).await?;
    expect_eq(writer.load_thread().await?.updated_at, receipt.time)
}

/// A commit with an `at` later than store time is refused, and creates nothing.
pub(crate) async fn a_commit_time_in_the_future_is_refused(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let now = writer.load_thread().await?.updated_at;
    for at in [now.saturating_add(Duration::from_secs(24 * 3_600)), Timestamp::MAX] {
        writer
            .expect_commit_refused(writer.guarded_commit().await?.entry(user_entry("x")).at(at), ErrorKind::Invalid)
            .await?;
        let creating_commit = commit_with_message(&id("new"), Expect::Absent, "x").at(at);
        expect_kind(given.commits()?.commit(creating_commit).await, ErrorKind::Invalid)?;
    }
    expect_eq(given.threads()?.load_thread(&id("new")).await?, None)?;
    given.expect_accepted(writer.guarded_commit().await?.entry(user_entry("b")).at(now)).await
}
