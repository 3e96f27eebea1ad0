//! Expectations of documents, and revisions.

use std::sync::Arc;

use store_core::{Detail, DocumentChange, DocumentExpect, DocumentStoreExt, ErrorKind, WriteDocuments};

use super::helpers::{
    documents, expect_write_refused, load, load_existing, note, put, text_of, write, write_and_get_revision,
    write_notes,
};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_exactly_one, expect_kinds, expect_some},
    given::{id, run_concurrently},
};

/// A change that expects that there is no document is made only if there is none.
pub(super) async fn the_absence_of_a_document_can_be_expected(given: &Given) -> Verdict {
    let create = |text: &str| put("a", text).expecting(DocumentExpect::Absent);
    write(given, [create("1")]).await?;
    expect_write_refused(given, WriteDocuments::new([create("2")]), ErrorKind::Conflict).await?;
    write(given, [DocumentChange::delete(note("a"))]).await?;
    write(given, [create("3")]).await?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("3"))
}

/// A change that expects that there is a document is made only if there is one, whatever its revision is.
pub(super) async fn the_presence_of_a_document_can_be_expected(given: &Given) -> Verdict {
    let replace = |text: &str| put("a", text).expecting(DocumentExpect::Present);
    expect_write_refused(given, WriteDocuments::new([replace("1")]), ErrorKind::Conflict).await?;
    write_notes(given, &["a"]).await?;
    write(given, [replace("2")]).await?;
    write(given, [replace("3")]).await?;
    write(given, [DocumentChange::delete(note("a")).expecting(DocumentExpect::Present)]).await?;
    let delete = DocumentChange::delete(note("a")).expecting(DocumentExpect::Present);
    expect_write_refused(given, WriteDocuments::new([delete]), ErrorKind::Conflict).await.map(drop)
}

/// A change that expects a revision is made only if the document has exactly this revision.
pub(super) async fn a_revision_can_be_expected(given: &Given) -> Verdict {
    let at_revision = |revision, text: &str| put("a", text).expecting(DocumentExpect::Revision(revision));
    expect_write_refused(given, WriteDocuments::new([at_revision(1, "1")]), ErrorKind::Conflict).await?;
    let first = write_notes(given, &["a"]).await?;
    let second = write_and_get_revision(given, [at_revision(first, "2")]).await?;
    for wrong in [0, first, second + 1, u64::MAX] {
        expect_write_refused(given, WriteDocuments::new([at_revision(wrong, "3")]), ErrorKind::Conflict).await?;
        let delete = DocumentChange::delete(note("a")).expecting(DocumentExpect::Revision(wrong));
        expect_write_refused(given, WriteDocuments::new([delete]), ErrorKind::Conflict).await?;
    }
    write(given, [DocumentChange::delete(note("a")).expecting(DocumentExpect::Revision(second))]).await?;
    expect_eq(load(given, &note("a")).await?, None)
}

/// The revision of a deleted document matches nothing: neither its absence, nor the document that is put again.
pub(super) async fn a_revision_does_not_match_a_deleted_document(given: &Given) -> Verdict {
    let revision = write_notes(given, &["a"]).await?;
    write(given, [DocumentChange::delete(note("a"))]).await?;
    let late = put("a", "late").expecting(DocumentExpect::Revision(revision));
    expect_write_refused(given, WriteDocuments::new([late.clone()]), ErrorKind::Conflict).await?;
    write_notes(given, &["a"]).await?;
    expect_write_refused(given, WriteDocuments::new([late]), ErrorKind::Conflict).await.map(drop)
}

/// A conflict is about the first change whose expectation does not hold. It names the document, what was expected and
/// what was found.
pub(super) async fn the_first_expectation_that_fails_is_named(given: &Given) -> Verdict {
    let revision = write_notes(given, &["a", "b"]).await?;
    let changes = |second: DocumentChange| {
        let last = put("c", "x").expecting(DocumentExpect::Present);
        WriteDocuments::new([put("a", "x").expecting(DocumentExpect::Revision(revision)), second, last])
    };
    for (name, expected, actual) in [
        ("b", DocumentExpect::Absent, Some(revision)),
        ("b", DocumentExpect::Revision(revision + 1), Some(revision)),
        ("missing", DocumentExpect::Present, None),
        ("missing", DocumentExpect::Revision(7), None),
    ] {
        let request = changes(put(name, "x").expecting(expected));
        let error = expect_write_refused(given, request, ErrorKind::Conflict).await?;
        let wanted = Detail::DocumentConflict { document: Box::new(note(name)), expected, actual };
        expect_eq((error.part(), error.detail()), (Some("documents[1]"), &wanted))?;
    }
    Ok(())
}

/// A check has an expectation and changes nothing: not the value, not the revision, not the times. If it does not
/// hold, the other changes are not made.
pub(super) async fn a_check_changes_nothing(given: &Given) -> Verdict {
    let revision = write_notes(given, &["a"]).await?;
    let before = load(given, &note("a")).await?;
    let check = |name: &str, expect| DocumentChange::check(note(name), expect);
    let answer =
        write(given, [check("a", DocumentExpect::Revision(revision)), check("b", DocumentExpect::Absent)]).await?;
    expect_eq((answer.revision, load(given, &note("a")).await?), (None, before.clone()))?;
    expect_eq(load(given, &note("b")).await?, None)?;
    write(given, [put("c", "1"), check("a", DocumentExpect::Present)]).await?;
    expect_eq(load(given, &note("a")).await?, before)?;
    for failing in [check("a", DocumentExpect::Absent), check("b", DocumentExpect::Present)] {
        expect_write_refused(given, WriteDocuments::new([put("c", "2"), failing]), ErrorKind::Conflict).await?;
    }
    Ok(())
}

/// Deleting a document that does not exist is no error.
pub(super) async fn a_missing_document_can_be_deleted(given: &Given) -> Verdict {
    let deleted = write(given, [DocumentChange::delete(note("a"))]).await?;
    expect_eq(deleted.revision, None)?;
    write(given, [put("b", "1"), DocumentChange::delete(note("a"))]).await?;
    write(given, [DocumentChange::delete(note("a")).expecting(DocumentExpect::Absent)]).await?;
    expect_eq(text_of(given, "b").await?.as_deref(), Some("1"))
}

/// All documents that one write puts have one revision. Later writes have larger ones.
pub(super) async fn documents_of_one_write_have_one_revision(given: &Given) -> Verdict {
    let first = write_notes(given, &["a", "b", "c"]).await?;
    for name in ["a", "b", "c"] {
        expect_eq(load_existing(given, &note(name)).await?.revision, first)?;
    }
    let second = write_notes(given, &["b"]).await?;
    expect(second > first, format!("revision {second} does not follow {first}"))?;
    expect_eq(load_existing(given, &note("a")).await?.revision, first)?;
    expect_eq(load_existing(given, &note("b")).await?.revision, second)
}

/// The revision of a document is larger than every earlier one of its key, although the document was deleted.
pub(super) async fn revisions_grow_across_deletion_and_put(given: &Given) -> Verdict {
    let mut last = 0;
    for round in 0..4 {
        for _ in 0..round {
            last = write_notes(given, &["a"]).await?;
        }
        write(given, [DocumentChange::delete(note("a"))]).await?;
        let revision = write_notes(given, &["a"]).await?;
        expect(revision > last, format!("revision {revision} follows {last}"))?;
        expect_eq(load_existing(given, &note("a")).await?.revision, revision)?;
        last = revision;
    }
    Ok(())
}

/// Revisions grow after a reopen, also that of a document that was deleted before.
pub(super) async fn revisions_grow_after_a_reopen(given: &Given) -> Verdict {
    write_notes(given, &["a", "b"]).await?;
    let last = write_notes(given, &["a", "b"]).await?;
    write(given, [DocumentChange::delete(note("a"))]).await?;
    given.reopen().await?;
    let revision = write_notes(given, &["a"]).await?;
    expect(revision > last, format!("revision {revision} follows {last}"))?;
    expect_eq(load_existing(given, &note("b")).await?.revision, last)
}

/// A tenant whose name is used again after its deletion has none of its old documents, and gives larger revisions.
pub(super) async fn revisions_of_a_deleted_tenant_do_not_return(given: &Given) -> Verdict {
    write_notes(given, &["a"]).await?;
    let last = write_notes(given, &["a"]).await?;
    given.store().delete_tenant(&id("default")).await?;
    expect_eq(load(given, &note("a")).await?, None)?;
    let revision = write_notes(given, &["a"]).await?;
    expect(revision > last, format!("revision {revision} follows {last}"))
}

/// Of several writers that expect the same revision of a document, one succeeds, and the others get `Conflict`.
pub(super) async fn one_of_several_writers_with_one_revision_succeeds(given: &Given) -> Verdict {
    const ROUNDS: usize = 20;
    let store = documents(given)?;
    let mut revision = write_notes(given, &["a"]).await?;
    for _ in 0..ROUNDS {
        let results = run_concurrently(8, |task| {
            let store = Arc::clone(&store);
            let change = put("a", &task.to_string()).expecting(DocumentExpect::Revision(revision));
            async move { store.write_documents(WriteDocuments::new([change])).await }
        });
        let (winner, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
        revision = expect_some(winner.revision, "revision")?;
        expect_eq(store.load_document(&note("a")).await?.map(|found| found.revision), Some(revision))?;
    }
    Ok(())
}

/// Of several writers that create or delete a document at the same time, one succeeds.
pub(super) async fn one_of_several_creations_or_deletions_succeeds(given: &Given) -> Verdict {
    const ROUNDS: usize = 20;
    let store = documents(given)?;
    for _ in 0..ROUNDS {
        for change in [
            put("a", "x").expecting(DocumentExpect::Absent),
            DocumentChange::delete(note("a")).expecting(DocumentExpect::Present),
        ] {
            let results = run_concurrently(6, |_| {
                let (store, change) = (Arc::clone(&store), change.clone());
                async move { store.write_documents(WriteDocuments::new([change])).await }
            });
            let (_, errors) = expect_exactly_one(results.await)?;
            expect_kinds(errors, ErrorKind::Conflict)?;
        }
    }
    Ok(())
}

/// Writers of different documents all succeed, and all get different revisions. So do writers of one document that
/// expect nothing; its last revision is the largest.
pub(super) async fn writers_without_expectations_all_succeed(given: &Given) -> Verdict {
    const WRITES: usize = 30;
    let store = documents(given)?;
    let results = run_concurrently(6, |task| {
        let store = Arc::clone(&store);
        async move {
            let mut revisions = Vec::new();
            for at in 0..WRITES {
                let (own, text) = (format!("own-{task}"), at.to_string());
                let changes = [put("shared", "x"), put(&own, &text)];
                revisions.extend(store.write_documents(WriteDocuments::new(changes)).await?.revision);
                let found = store.load_document(&note(&own)).await?;
                if found.map(|found| super::helpers::text(&found)) != Some(text) {
                    return Err(store_core::Error::unavailable("the own write is not visible"));
                }
            }
            Ok::<_, store_core::Error>(revisions)
        }
    });
    let mut revisions = Vec::new();
    for of_task in results.await {
        let of_task = of_task?;
        expect(of_task.is_sorted(), "the revisions of one task decrease")?;
        revisions.extend(of_task);
    }
    let largest = revisions.iter().max().copied();
    revisions.sort_unstable();
    revisions.dedup();
    expect_eq(revisions.len(), 6 * WRITES)?;
    expect_eq(Some(load_existing(given, &note("shared")).await?.revision), largest)?;
    for task in 0..6 {
        let last_text = text_of(given, &format!("own-{task}")).await?;
        expect_eq(last_text, Some((WRITES - 1).to_string())).map_err(|failure: Failure| failure.about(task))?;
    }
    Ok(())
}
