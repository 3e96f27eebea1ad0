//! Guards: what a commit expects of its thread.

use store_core::{Commit, DeleteRequest, Detail, ErrorKind, Expect, Json, StateChange, ThreadFields, Version};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, commit_with_message, id, keyed_commit_with_message},
    log::{
        entry_drafts::{side_entry, user_entries},
        writer::ThreadWriter,
    },
    run::helpers::{done_run, running_run, write_run},
};

/// Checks that a commit is refused with a conflict. The conflict must name the actual version of the thread, or no
/// version if there is no thread.
async fn expect_conflict(given: &Given, commit: Commit, expected: Option<Version>) -> Verdict {
    let error = expect_kind(given.commits()?.commit(commit).await, ErrorKind::Conflict)?;
    let Detail::Conflict { actual, .. } = error.detail() else { return Err(Failure::new(format!("{error:?}"))) };
    expect_eq(*actual, expected)
}

/// With `Absent` the thread must not exist, and the commit creates it. With `Version` the thread must exist at that
/// version. `Any` checks nothing. A commit whose guard does not match is refused with a conflict that names the actual
/// version.
pub(crate) async fn a_guard_is_checked_against_the_version(given: &Given) -> Verdict {
    let thread = id("t");
    let version_zero = Expect::Version(Version::new(0, 1, 0));
    expect_conflict(given, commit_with_message(&thread, version_zero, "x"), None).await?;
    expect_eq(given.threads()?.load_thread(&thread).await?, None)?;
    let first = given.commit(commit_with_message(&thread, Expect::Absent, "a")).await?;
    for expect in [Expect::Absent, version_zero, Expect::Version(first.version.plus(1))] {
        expect_conflict(given, commit_with_message(&thread, expect, "x"), Some(first.version)).await?;
    }
    let second = given.commit(commit_with_message(&thread, Expect::Version(first.version), "b")).await?;
    expect_conflict(given, commit_with_message(&thread, Expect::Version(first.version), "x"), Some(second.version))
        .await?;
    let third = given.commit(keyed_commit_with_message(&thread, "k", "c")).await?;
    expect_eq(third.version.number(), 3)?;
    let other_generation = Version::new(3, 2, third.version.incarnation());
    expect_conflict(given, commit_with_message(&thread, Expect::Version(other_generation), "x"), Some(third.version))
        .await?;
    expect_eq(given.read_log(&thread).await?.len(), 3)
}

/// A thread that was created without a commit has version 0, which a guard can name.
pub(crate) async fn version_zero_can_be_a_guard(given: &Given) -> Verdict {
    let thread = given.create_empty_thread("t").await?;
    expect_conflict(given, commit_with_message(&thread.id, Expect::Absent, "x"), Some(thread.version)).await?;
    let receipt = given.commit(commit_with_message(&thread.id, Expect::Version(thread.version), "a")).await?;
    expect_eq(receipt.version, thread.version.plus(1))
}

/// A commit with `Any`, with or without entries, creates its thread if no thread ever had this id. It never creates a
/// deleted thread again; a commit with `Absent` does.
pub(crate) async fn the_guard_any_creates_a_thread_that_never_existed(given: &Given) -> Verdict {
    let (thread, threads) = (id("t"), given.threads()?);
    given.expect_accepted(keyed_commit_with_message(&thread, "k", "a")).await?;
    let commit_of_state = Commit::new(id("by state")).with_state(StateChange::new().set("k", Json::null()));
    given.expect_accepted(commit_of_state).await?;
    write_run(given, "by run", running_run("r")).await?;
    for name in ["by state", "by run"] {
        expect_eq(given.thread(&id(name)).await?.version.number(), 0)?;
    }
    let deleted_version = given.thread(&thread).await?.version;
    threads.delete_thread(&thread, DeleteRequest::default()).await?;
    let creating_commit = Commit::new(thread.clone()).creating(ThreadFields::default());
    for commit in [
        keyed_commit_with_message(&thread, "l", "x"),
        commit_with_message(&thread, Expect::Version(deleted_version), "x"),
        creating_commit,
    ] {
        expect_kind(given.commits()?.commit(commit).await, ErrorKind::NotFound)?;
    }
    expect_eq(threads.load_thread(&thread).await?, None)?;
    let recreated = given.commit(commit_with_message(&thread, Expect::Absent, "b")).await?;
    expect_eq((recreated.version.number(), recreated.version.generation()), (1, deleted_version.generation() + 1))?;
    expect_conflict(given, commit_with_message(&thread, Expect::Version(deleted_version), "x"), Some(recreated.version))
        .await
}

/// A commit with entries needs a guard or a key. A commit with neither is refused, even if its only entry is a side
/// entry.
pub(crate) async fn entries_need_a_guard_or_a_key(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let unguarded_commit = || Commit::new(id("t"));
    for commit in [
        unguarded_commit().entries(user_entries(&["x"])),
        unguarded_commit().entry(side_entry("x")).with_run(running_run("r")),
    ] {
        expect_kind(given.commits()?.commit(commit).await, ErrorKind::Invalid)?;
    }
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    writer.expect_accepted(user_entries(&["a"])).await?;
    writer.expect_commit_refused(unguarded_commit().entries(user_entries(&["x"])), ErrorKind::Invalid).await?;
    given.expect_accepted(unguarded_commit().entries(user_entries(&["b"])).with_key(id("k"))).await?;
    let guarded_and_keyed_commit = writer.guarded_commit().await?.entries(user_entries(&["c"])).with_key(id("l"));
    given.expect_accepted(guarded_and_keyed_commit).await?;
    writer.expect_log_ids("a b c").await
}

/// A commit without entries needs no guard. If it has one, the guard is checked. The commit does not change the
/// version.
pub(crate) async fn a_commit_without_entries_does_not_change_the_version(given: &Given) -> Verdict {
    let thread_before = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?.load_thread().await?;
    let commit_without_entries = || Commit::new(id("t"));
    let state = || StateChange::new().set("k", Json::null());
    for commit in [
        commit_without_entries().with_run(running_run("r")),
        commit_without_entries().with_state(state()),
        commit_without_entries()
            .with_run(done_run("r"))
            .with_state(state())
            .expecting(Expect::Version(thread_before.version)),
        commit_without_entries().with_run(running_run("s")).with_key(id("k")),
    ] {
        let receipt = given.commit(commit).await?;
        expect_eq((receipt.version, receipt.first_seq), (thread_before.version, None))?;
        expect_eq((receipt.entry_ids.len(), receipt.head), (0, thread_before.head.clone()))?;
    }
    let stale_version = Version::new(1, 1, thread_before.version.incarnation());
    for expect in [Expect::Absent, Expect::Version(stale_version)] {
        expect_conflict(
            given,
            commit_without_entries().with_state(state()).expecting(expect),
            Some(thread_before.version),
        )
        .await?;
        expect_conflict(
            given,
            commit_without_entries().with_run(done_run("s")).expecting(expect),
            Some(thread_before.version),
        )
        .await?;
    }
    expect_eq(given.thread(&id("t")).await?.open_runs, vec![id("s")])
}

/// A commit without content is refused, even if it has a guard, a key or a time. The part `create` alone is enough
/// content.
pub(crate) async fn a_commit_with_nothing_in_it_is_refused(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let empty_commit = || Commit::new(id("t"));
    let (guarded_commit, time) = (writer.guarded_commit().await?, store_core::Timestamp::MIN);
    for commit in [
        empty_commit(),
        guarded_commit,
        empty_commit().with_key(id("k")),
        empty_commit().at(time),
        empty_commit().with_state(StateChange::new()),
    ] {
        writer.expect_commit_refused(commit, ErrorKind::Invalid).await?;
    }
    let empty_commit_to_no_thread = Commit::new(id("absent")).expecting(Expect::Absent);
    expect_kind(given.commits()?.commit(empty_commit_to_no_thread).await, ErrorKind::Invalid)?;
    expect_eq(given.threads()?.load_thread(&id("absent")).await?, None)?;
    given.expect_accepted(Commit::new(id("created")).creating(ThreadFields::default())).await?;
    expect_eq(given.thread(&id("created")).await?.version.number(), 0)
}

/// The fields of `create` apply to a thread that the commit creates. A thread that exists keeps its own fields.
pub(crate) async fn create_fields_apply_only_to_a_new_thread(given: &Given) -> Verdict {
    given.create_empty_thread("parent").await?;
    let mut fields = ThreadFields::default();
    fields.title = Some("title".to_owned());
    fields.resource_id = Some(id("resource"));
    fields.parent_thread_id = Some(id("parent"));
    fields.metadata = [("k".to_owned(), Json::null())].into();
    given.expect_accepted(commit_with_message(&id("t"), Expect::Absent, "a").creating(fields.clone())).await?;
    let created_thread = given.thread(&id("t")).await?;
    expect_eq((&created_thread.title, &created_thread.resource_id), (&fields.title, &fields.resource_id))?;
    expect_eq(
        (&created_thread.parent_thread_id, &created_thread.metadata),
        (&fields.parent_thread_id, &fields.metadata),
    )?;
    expect_eq(created_thread.revision.number(), 1)?;
    let mut other_fields = ThreadFields::default();
    (other_fields.title, other_fields.parent_thread_id) = (Some("other".to_owned()), Some(id("unknown")));
    given.expect_accepted(keyed_commit_with_message(&id("t"), "k", "b").creating(other_fields.clone())).await?;
    let existing_thread = given.thread(&id("t")).await?;
    expect_eq((existing_thread.title, existing_thread.revision), (created_thread.title, created_thread.revision))?;
    expect_eq(existing_thread.parent_thread_id, created_thread.parent_thread_id)?;
    let commit_with_unknown_parent = commit_with_message(&id("orphan"), Expect::Absent, "a").creating(other_fields);
    let error = expect_kind(given.commits()?.commit(commit_with_unknown_parent).await, ErrorKind::NotFound)?;
    expect_eq(error.to_string().contains("unknown"), true)?;
    expect_eq(given.threads()?.load_thread(&id("orphan")).await?, None)
}
