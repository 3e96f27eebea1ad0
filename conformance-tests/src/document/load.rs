//! Loading documents, and limits of loads and writes.

use std::sync::Arc;

use store_core::{Document, DocumentRef, ErrorKind, WriteDocuments};

use super::helpers::{
    all_notes, documents, expect_write_refused, list, note, note_of_thread, put, put_at, text, write, write_notes,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind},
    given::run_concurrently,
};

/// Documents are loaded in the order given, each as often as it is named. A missing one is absent.
pub(super) async fn documents_are_loaded_in_the_order_given(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    write_notes(given, &["a", "b", "c"]).await?;
    write(given, [put_at(note_of_thread("t", "a"), "of t")]).await?;
    let wanted = [note("c"), note("missing"), note_of_thread("t", "a"), note("a"), note("c")];
    let found = documents(given)?.load_documents(&wanted).await?;
    let texts: Vec<_> = found.iter().map(|found| found.as_ref().map(text)).collect();
    let text = |text: &str| Some(text.to_owned());
    expect_eq(texts, vec![text("c"), None, text("of t"), text("a"), text("c")])?;
    expect_eq(documents(given)?.load_documents(&[]).await?, vec![])
}

/// A document that does not exist is absent: in the load of one, of several, of a thread that does not exist, and of
/// another collection.
pub(super) async fn a_missing_document_is_absent(given: &Given) -> Verdict {
    write_notes(given, &["a"]).await?;
    let elsewhere = super::helpers::key_in("others", &[super::helpers::segment("a")]).into();
    for missing in [note("b"), note_of_thread("t", "a"), elsewhere] {
        expect_eq(documents(given)?.load_documents(std::slice::from_ref(&missing)).await?, vec![None])?;
    }
    let all_missing = documents(given)?.load_documents(&["x", "y", "z"].map(note)).await?;
    expect_eq(all_missing, vec![None, None, None])
}

/// A load shows all its documents as of one moment, while another task changes them together.
pub(super) async fn a_load_shows_one_moment(given: &Given) -> Verdict {
    const WRITES: usize = 60;
    let names = ["a", "b", "c", "d"];
    write(given, names.map(|name| put(name, "start"))).await?;
    let store = documents(given)?;
    let results = run_concurrently(3, |task| {
        let store = Arc::clone(&store);
        async move {
            let mut mixed_loads = 0;
            for at in 0..WRITES {
                if task == 0 {
                    let changes = names.map(|name| put(name, &at.to_string()));
                    let _written = store.write_documents(WriteDocuments::new(changes)).await?;
                    tokio::task::yield_now().await;
                } else {
                    let found = store.load_documents(&names.map(note)).await?;
                    let texts: Vec<_> = found.iter().flatten().map(text).collect();
                    mixed_loads += usize::from(texts.iter().any(|text| text != &texts[0]));
                }
            }
            Ok::<_, store_core::Error>(mixed_loads)
        }
    });
    let results = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    expect_eq(results.into_iter().sum::<usize>(), 0)
}

/// A load of 1,000 documents is accepted, and a load of more is refused.
pub(super) async fn a_load_has_a_thousand_documents_at_most(given: &Given) -> Verdict {
    write_notes(given, &["7"]).await?;
    let names: Vec<DocumentRef> = (0..1_001).map(|number| note(&number.to_string())).collect();
    let found = documents(given)?.load_documents(&names[..1_000]).await?;
    expect_eq((found.len(), found.iter().flatten().count()), (1_000, 1))?;
    expect_kind(documents(given)?.load_documents(&names).await, ErrorKind::LimitExceeded).map(drop)
}

/// The values of a load have a limit together: values that are exactly as large are loaded, one byte more is refused. A
/// document that is named twice counts twice. A single document is loaded even if it alone is above the limit.
pub(super) async fn a_load_has_a_limit_of_bytes(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.load_bytes = 2_500).await?;
    for (name, bytes) in [("a", 1_000), ("b", 1_000), ("c", 500), ("d", 501), ("large", 2_501)] {
        write(&small_store, [put(name, &"x".repeat(bytes - 2))]).await?;
    }
    for names in [&["a", "c", "b"][..], &["large"], &["missing", "large"]] {
        let found = load_notes(&small_store, names).await?;
        expect_eq(found?.iter().flatten().count(), names.iter().filter(|name| **name != "missing").count())?;
    }
    let refusals: [(&[&str], &str); 4] = [
        (&["a", "b", "missing", "d"], "documents[3]"),
        (&["a", "a", "a"], "documents[2]"),
        (&["large", "missing", "c"], "documents[2]"),
        (&["missing", "c", "large", "a"], "documents[2]"),
    ];
    for (names, part) in refusals {
        let error = expect_kind(load_notes(&small_store, names).await?, ErrorKind::LimitExceeded)?;
        expect_eq(error.part(), Some(part))?;
    }
    Ok(())
}

async fn load_notes(given: &Given, names: &[&str]) -> Result<store_core::Result<Vec<Option<Document>>>, Failure> {
    let names: Vec<_> = names.iter().map(|name| note(name)).collect();
    Ok(documents(given)?.load_documents(&names).await)
}

/// A write with 1,000 changes is accepted, and a write with more is refused.
pub(super) async fn a_write_has_a_thousand_changes_at_most(given: &Given) -> Verdict {
    let changes = |count: usize| (0..count).map(|number| put(&number.to_string(), "x"));
    write(given, changes(1_000)).await?;
    expect_write_refused(given, WriteDocuments::new(changes(1_001)), ErrorKind::LimitExceeded).await?;
    expect_eq(list(given, all_notes()).await?.len(), 1_000)
}

/// A value whose size is exactly the limit of a record is accepted, and one byte more is refused. So are values that
/// together exceed the limit of a commit.
pub(super) async fn a_value_has_a_limit(given: &Given) -> Verdict {
    let small_store = given
        .open_another_store_with_limits(|limits| (limits.record_bytes, limits.commit_bytes) = (1_000, 2_500))
        .await?;
    let put_bytes = |name: &str, bytes: usize| put(name, &"x".repeat(bytes - 2));
    write(&small_store, [put_bytes("a", 1_000), put_bytes("b", 1_000)]).await?;
    let too_large = WriteDocuments::new([put_bytes("a", 10), put_bytes("b", 1_001)]);
    let error = expect_write_refused(&small_store, too_large, ErrorKind::LimitExceeded).await?;
    expect_eq(error.part(), Some("documents[1]"))?;
    let too_many = WriteDocuments::new([put_bytes("a", 1_000), put_bytes("b", 1_000), put_bytes("c", 501)]);
    expect_write_refused(&small_store, too_many, ErrorKind::LimitExceeded).await?;
    write(&small_store, [put_bytes("a", 1_000), put_bytes("b", 1_000), put_bytes("c", 500)]).await.map(drop)
}
