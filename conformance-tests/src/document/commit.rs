//! Documents that are written by commits.

use std::sync::Arc;

use store_core::{Commit, DocumentChange, DocumentExpect, ErrorKind, Expect, StateChange};

use super::helpers::{
    all_notes, expect_keys, list, load, load_existing, note, note_of_thread, put, put_at, text_of, write_notes,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    given::{id, keyed_commit_with_message, run_concurrently},
    log::entry_drafts::{json, user_entry},
};

/// A commit writes documents of the tenant and of its thread in its own step. The receipt has their revision.
pub(super) async fn a_commit_writes_documents_in_its_step(given: &Given) -> Verdict {
    write_notes(given, &["old"]).await?;
    let changes = [put("a", "x"), put_at(note_of_thread("t", "a"), "x"), DocumentChange::delete(note("old"))];
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "k", "x").with_documents(changes)).await?;
    let revision = expect_some(receipt.document_revision, "revision")?;
    for document in [note("a"), note_of_thread("t", "a")] {
        let found = load_existing(given, &document).await?;
        expect_eq((found.revision, found.created_at, found.updated_at), (revision, receipt.time, receipt.time))?;
    }
    expect_eq(load(given, &note("old")).await?, None)?;
    let without_puts = Commit::new(id("t")).with_documents([DocumentChange::delete(note("a"))]);
    expect_eq(given.commit(without_puts).await?.document_revision, None)?;
    expect(write_notes(given, &["a"]).await? > revision, "a later write got no larger revision")
}

/// A commit that has only documents needs no guard. It creates its thread and does not change the version.
pub(super) async fn a_commit_may_have_only_documents(given: &Given) -> Verdict {
    let commit = |text: &str| Commit::new(id("t")).with_documents([put_at(note_of_thread("t", "a"), text)]);
    let first = given.commit(commit("1")).await?;
    let second = given.commit(commit("2")).await?;
    expect_eq((first.version.number(), second.version), (0, first.version))?;
    expect(second.document_revision > first.document_revision, "the revision did not grow")?;
    let check = DocumentChange::check(note("a"), DocumentExpect::Absent);
    given.expect_accepted(Commit::new(id("u")).with_documents([check])).await?;
    expect_eq(given.thread(&id("u")).await?.version.number(), 0)
}

/// If any part of a commit is refused, none of its documents is changed. If a document is refused, nothing of the
/// commit is written.
pub(super) async fn a_refused_commit_changes_no_document(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    write_notes(given, &["a"]).await?;
    let commit = || keyed_commit_with_message(&id("t"), "k", "y").with_state(StateChange::new().set("s", json("1")));
    let documents = || [put("a", "changed"), put("b", "new")];
    let missing = put("c", "x").expecting(DocumentExpect::Present);
    for (commit, kind) in [
        (commit().expecting(Expect::Absent).with_documents(documents()), ErrorKind::Conflict),
        (commit().entry(user_entry("e").below(id("unknown"))).with_documents(documents()), ErrorKind::Invalid),
        (commit().with_documents(documents()).with_documents([missing]), ErrorKind::Conflict),
    ] {
        expect_kind(given.commits()?.commit(commit).await, kind)?;
        expect_eq(text_of(given, "a").await?.as_deref(), Some("a"))?;
        expect_keys(given, all_notes(), "a").await?;
        expect_eq(given.thread(&id("t")).await?.state_revision, 0)?;
        expect_eq(given.read_log(&id("t")).await?.len(), 1)?;
    }
    given.expect_accepted(commit().with_documents(documents())).await?;
    expect_keys(given, all_notes(), "a b").await
}

/// The expectations of a commit's documents are judged after its key, its guard and the revision of its state, and
/// before its entries.
pub(super) async fn documents_are_judged_after_the_guard(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    let failing = || put("a", "x").expecting(DocumentExpect::Present);
    let commit = || keyed_commit_with_message(&id("t"), "k", "y").with_documents([failing()]);
    let wrong_guard = given.commits()?.commit(commit().expecting(Expect::Absent)).await;
    expect_eq(expect_kind(wrong_guard, ErrorKind::Conflict)?.part(), None)?;
    let wrong_state = commit().with_state(StateChange::new().set("s", json("1")).expecting(7));
    let error = expect_kind(given.commits()?.commit(wrong_state).await, ErrorKind::Conflict)?;
    expect(error.part() != Some("documents[0]"), "the document was judged before the revision of the state")?;
    let bad_entry = commit().entry(user_entry("e").below(id("unknown")));
    let error = expect_kind(given.commits()?.commit(bad_entry).await, ErrorKind::Conflict)?;
    expect_eq(error.part(), Some("documents[0]"))?;
    // A commit whose key determines the answer checks no document.
    write_notes(given, &["a"]).await?;
    given.expect_accepted(commit()).await?;
    given.expect_accepted(Commit::new(id("t")).with_documents([DocumentChange::delete(note("a"))])).await?;
    expect(given.commit(commit()).await?.deduplicated, "the repeated commit was judged again")
}

/// Documents are part of the content of a commit; their expectations and their order are not. A repeated commit
/// changes nothing and returns the first revision.
pub(super) async fn documents_are_part_of_the_content_of_a_commit(given: &Given) -> Verdict {
    let commit = |changes: Vec<DocumentChange>| keyed_commit_with_message(&id("t"), "k", "x").with_documents(changes);
    let first = given.commit(commit(vec![put("a", "1"), put("b", "2")])).await?;
    write_notes(given, &["a"]).await?;
    let absent = put("a", "1").expecting(DocumentExpect::Absent);
    let repeated = given.commit(commit(vec![put("b", "2"), absent])).await?;
    expect_eq((repeated.deduplicated, repeated.document_revision), (true, first.document_revision))?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("a"))?;
    for other in [
        vec![put("a", "1")],
        vec![put("a", "1"), put("b", "3")],
        vec![put("a", "1"), DocumentChange::delete(note("b"))],
        vec![put("a", "1"), put_at(note_of_thread("t", "b"), "2")],
    ] {
        expect_kind(given.commits()?.commit(commit(other)).await, ErrorKind::IdempotencyMismatch)?;
    }
    Ok(())
}

/// A commit can name documents of its own thread and of the tenant, and no others. The rules of a write hold.
pub(super) async fn a_commit_names_documents_of_its_own_thread(given: &Given) -> Verdict {
    given.create_empty_thread("u").await?;
    let commit = |changes: Vec<DocumentChange>| Commit::new(id("t")).with_documents(changes);
    for (changes, kind) in [
        (vec![put("a", "x"), put_at(note_of_thread("u", "a"), "x")], ErrorKind::Invalid),
        (vec![put("a", "x"), put("a", "y")], ErrorKind::Invalid),
    ] {
        let error = expect_kind(given.commits()?.commit(commit(changes)).await, kind)?;
        expect_eq(error.part(), Some("documents[1]"))?;
    }
    let too_many = (0..1_001).map(|number| put(&number.to_string(), "x")).collect();
    expect_kind(given.commits()?.commit(commit(too_many)).await, ErrorKind::LimitExceeded)?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    expect_eq(list(given, all_notes()).await?.len(), 0)
}

/// Documents and receipts of commits survive a reopen.
pub(super) async fn documents_of_commits_survive_a_reopen(given: &Given) -> Verdict {
    let commit = || {
        let changes = [put("a", "x"), put_at(note_of_thread("t", "a"), "x")];
        keyed_commit_with_message(&id("t"), "k", "x").with_documents(changes)
    };
    let first = given.commit(commit()).await?;
    let before = load(given, &note_of_thread("t", "a")).await?;
    given.reopen().await?;
    expect_eq(load(given, &note_of_thread("t", "a")).await?, before)?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("x"))?;
    let repeated = given.commit(commit()).await?;
    expect_eq((repeated.deduplicated, repeated.document_revision), (true, first.document_revision))
}

/// Of several commits to different threads that expect one revision of a document, one succeeds.
pub(super) async fn one_of_several_commits_with_one_revision_succeeds(given: &Given) -> Verdict {
    const ROUNDS: usize = 20;
    let commits = given.commits()?;
    let mut revision = write_notes(given, &["a"]).await?;
    for round in 0..ROUNDS {
        let results = run_concurrently(6, |task| {
            let change = put("a", &task.to_string()).expecting(DocumentExpect::Revision(revision));
            let commit = keyed_commit_with_message(&id(&format!("t-{task}")), &round.to_string(), "x");
            let (commits, commit) = (Arc::clone(&commits), commit.with_documents([change]));
            async move { commits.commit(commit).await }
        });
        let (winner, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        revision = expect_some(winner.document_revision, "revision")?;
        expect_eq(load_existing(given, &note("a")).await?.revision, revision)?;
    }
    Ok(())
}
