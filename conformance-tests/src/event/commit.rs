//! Events that are appended by commits.

use std::sync::Arc;

use store_core::{AppendEvents, Commit, ErrorKind, Expect, NewEvent, StateChange, SubscriptionStart, Timestamp};

use super::helpers::{
    all_events, append_one_by_one, events, expect_event_kinds, joined_kinds, next_event, run_scope, subscribe,
    thread_and_run_event, thread_event, thread_scope,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message, run_concurrently},
    log::entry_drafts::{json, user_entry},
    run::helpers::{done_run, running_run, write_run},
};

fn commit_with_events(commit: Commit, drafts: impl IntoIterator<Item = NewEvent>) -> Commit {
    commit.with_events(AppendEvents::new(drafts))
}

/// The events of a commit are appended together with it, in the order of the request. A commit that has only events
/// needs no guard and does not change the version.
pub(super) async fn events_are_appended_with_their_commit(given: &Given) -> Verdict {
    let commit = commit_with_events(
        keyed_commit_with_message(&id("t"), "k", "x").with_run(running_run("r")),
        [thread_and_run_event("a"), thread_event("b")],
    );
    let receipt = given.commit(commit).await?;
    let stored_events = all_events(given, &thread_scope("t")).await?;
    expect_eq(joined_kinds(&stored_events), "a b")?;
    let refs: Vec<_> = stored_events.iter().map(store_core::EventRef::from).collect();
    expect_eq(receipt.events, refs)?;
    expect_event_kinds(given, &run_scope("r"), "a").await?;
    let receipt_of_events_only = given.commit(commit_with_events(Commit::new(id("t")), [thread_event("c")])).await?;
    expect_eq(
        (receipt_of_events_only.version, receipt_of_events_only.entry_ids.len(), receipt_of_events_only.events.len()),
        (receipt.version, 0, 1),
    )?;
    let receipt_of_new_thread = given
        .commit(commit_with_events(Commit::new(id("new")), [NewEvent::new(id("d"), [thread_scope("new")])]))
        .await?;
    expect_eq(receipt_of_new_thread.version.number(), 0)?;
    expect_eq(given.thread(&id("new")).await?.version.number(), 0)
}

/// The scopes of a commit's events must be its thread, its run, or another run of the thread.
pub(super) async fn events_of_a_commit_belong_to_its_thread_or_runs(given: &Given) -> Verdict {
    write_run(given, "t", done_run("earlier")).await?;
    write_run(given, "u", running_run("foreign")).await?;
    let event_in = |scopes: Vec<store_core::Scope>| NewEvent::new(id("x"), scopes);
    for draft in [
        event_in(vec![thread_scope("u")]),
        event_in(vec![run_scope("foreign")]),
        event_in(vec![thread_scope("t"), run_scope("unknown")]),
        event_in(vec![thread_scope("u"), run_scope("r")]),
    ] {
        let commit = commit_with_events(
            keyed_commit_with_message(&id("t"), "k", "x").with_run(running_run("r")),
            [thread_event("good"), draft],
        );
        let error = expect_kind(given.commits()?.commit(commit).await, ErrorKind::Invalid)?;
        expect_eq(error.part(), Some("events[1]"))?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 0)?;
    let drafts = [thread_and_run_event("a"), event_in(vec![run_scope("earlier")])];
    given
        .expect_accepted(commit_with_events(
            keyed_commit_with_message(&id("t"), "k", "x").with_run(running_run("r")),
            drafts,
        ))
        .await?;
    expect_event_kinds(given, &run_scope("earlier"), "x").await
}

/// A refused commit appends no event. If one of its events is refused, because of the draft, a key or an expectation,
/// the whole commit is refused.
pub(super) async fn a_refused_commit_appends_nothing(given: &Given) -> Verdict {
    let store = events(given)?;
    store.append_events(AppendEvents::new([thread_event("first")]).with_key(id("w"), id("used"))).await?;
    given.create_thread_with_messages("t", &["x"]).await?;
    let commit = || keyed_commit_with_message(&id("t"), "k", "y").with_state(StateChange::new().set("a", json("1")));
    let drafts = || AppendEvents::new([thread_event("a"), thread_event("b")]);
    let mut draft_without_version = thread_event("c");
    draft_without_version.schema_version = 0;
    for (commit, kind) in [
        (commit().expecting(Expect::Absent).with_events(drafts()), ErrorKind::Conflict),
        (commit().entry(user_entry("e").below(id("unknown"))).with_events(drafts()), ErrorKind::Invalid),
        (commit().with_events(drafts().expecting(thread_scope("t"), 7)), ErrorKind::Conflict),
        (commit().with_events(drafts().with_key(id("w"), id("used"))), ErrorKind::IdempotencyMismatch),
        (commit_with_events(commit(), [thread_event("a"), draft_without_version]), ErrorKind::Invalid),
        (commit_with_events(commit(), []), ErrorKind::Invalid),
    ] {
        expect_kind(given.commits()?.commit(commit).await, kind)?;
        expect_event_kinds(given, &thread_scope("t"), "first").await?;
        expect_eq(given.thread(&id("t")).await?.state_revision, 0)?;
        expect_eq(given.read_log(&id("t")).await?.len(), 1)?;
    }
    given.expect_accepted(commit().with_events(drafts().expecting(thread_scope("t"), 1))).await?;
    expect_event_kinds(given, &thread_scope("t"), "first a b").await
}

/// If a commit is repeated with the same commit key and content, the receipt has the first events. A commit with that
/// key and other events is refused.
pub(super) async fn a_repeated_commit_returns_its_first_events(given: &Given) -> Verdict {
    let commit = |kind: &str| commit_with_events(keyed_commit_with_message(&id("t"), "k", "x"), [thread_event(kind)]);
    let first = given.commit(commit("a")).await?;
    append_one_by_one(given, &["b"]).await?;
    let repeat_receipt = given.commit(commit("a")).await?;
    expect_eq((repeat_receipt.deduplicated, repeat_receipt.events), (true, first.events))?;
    expect_kind(given.commits()?.commit(commit("c")).await, ErrorKind::IdempotencyMismatch)?;
    expect_kind(
        given.commits()?.commit(keyed_commit_with_message(&id("t"), "k", "x")).await,
        ErrorKind::IdempotencyMismatch,
    )?;
    expect_event_kinds(given, &thread_scope("t"), "a b").await
}

/// A subscriber that has received an event of a commit can read the entries of that commit. It receives no event of a
/// refused commit.
pub(super) async fn a_subscriber_sees_whole_commits(given: &Given) -> Verdict {
    let mut stream = subscribe(given, thread_scope("t"), SubscriptionStart::Now).await?;
    let commits = given.commits()?;
    let writers = tokio::spawn(run_concurrently(3, move |task| {
        let commits = Arc::clone(&commits);
        async move {
            for number in 0..30 {
                let name = format!("{task}.{number}");
                let commit = commit_with_events(keyed_commit_with_message(&id("t"), &name, "x"), [thread_event(&name)]);
                // Every third commit is refused.
                let commit = if number % 3 == 0 { commit.entry(user_entry("y").below(id("unknown"))) } else { commit };
                let is_refused = commits.commit(commit).await.is_err();
                assert_eq!(is_refused, number % 3 == 0, "{name}");
            }
        }
    }));
    for received in 1..=60_usize {
        let event = next_event(&mut stream).await.ok_or_else(|| Failure::new("the subscription ended"))??;
        let number: usize =
            event.kind.as_str().split('.').nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
        expect(!number.is_multiple_of(3), format!("`{}` is an event of a refused commit", event.kind))?;
        let version = given.thread(&id("t")).await?.version.number();
        expect(version >= received as u64, format!("{received} events were received at version {version}"))?;
    }
    writers.await.map(drop).map_err(|error| Failure::new(error.to_string()))
}

/// If the caller gives the time of a commit, the events of the commit have that time.
pub(super) async fn events_have_the_time_of_their_commit(given: &Given) -> Verdict {
    let commit_time = Timestamp::from_millis(1_000_000_000_000)?;
    given
        .expect_accepted(
            commit_with_events(keyed_commit_with_message(&id("t"), "k", "x"), [thread_event("a")]).at(commit_time),
        )
        .await?;
    let stored_events = all_events(given, &thread_scope("t")).await?;
    expect_eq(stored_events.iter().map(|event| event.created_at).collect::<Vec<_>>(), vec![commit_time])
}
