//! Writes of documents: all of a write happens, or nothing of it.

use std::{sync::Arc, time::Duration};

use store_core::{AppendEvents, DocumentChange, DocumentExpect, ErrorKind, WriteDocuments};

use super::helpers::{
    all_events, documents, expect_event_kinds, expect_write_refused, load, load_existing, note, put, text, text_of,
    topic, topic_event, write, write_notes,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// What was put is loaded as it was given, with a revision and store time. The answer has the same revision and time.
pub(super) async fn a_written_document_is_loaded_as_it_was_given(given: &Given) -> Verdict {
    let value = json(r#"{"b":1.50,"a":[1e2,"\u0000é"],"a":2}"#);
    let written = write(given, [DocumentChange::put(note("a"), value.clone())]).await?;
    let found = load_existing(given, &note("a")).await?;
    expect_eq((&found.scope, &found.key), (&note("a").scope, &note("a").key))?;
    expect_eq((&found.value, Some(found.revision)), (&value, written.revision))?;
    expect_eq((found.created_at, found.updated_at), (written.time, written.time))?;
    expect_eq((written.events.len(), found.revision > 0), (0, true))?;
    write(given, [DocumentChange::put(note("null"), json("null"))]).await?;
    expect_eq(load_existing(given, &note("null")).await?.value.as_str(), "null")
}

/// A write changes documents of several collections at once. If one of its changes is refused, none of them is made.
pub(super) async fn a_write_happens_as_a_whole_or_not_at_all(given: &Given) -> Verdict {
    write_notes(given, &["old"]).await?;
    let other = super::helpers::key_in("others", &[super::helpers::segment("o")]);
    let put_other = DocumentChange::put(other.clone(), json("1"));
    write(given, [put("a", "1"), put_other, DocumentChange::delete(note("old"))]).await?;
    expect_eq((text_of(given, "a").await?.as_deref(), text_of(given, "old").await?), (Some("1"), None))?;
    expect(load(given, &other.into()).await?.is_some(), "a change of another collection was not made")?;
    let refused = put("c", "3").expecting(DocumentExpect::Present);
    for changes in [
        vec![put("a", "2"), put("b", "2"), refused.clone()],
        vec![DocumentChange::delete(note("a")), refused.clone()],
        vec![refused, put("b", "2")],
    ] {
        expect_write_refused(given, WriteDocuments::new(changes), ErrorKind::Conflict).await?;
    }
    expect_eq(text_of(given, "a").await?.as_deref(), Some("1"))
}

/// Documents and their revisions survive a reopen.
pub(super) async fn documents_survive_a_reopen(given: &Given) -> Verdict {
    write_notes(given, &["a", "b", "c"]).await?;
    write(given, [put("a", "2"), DocumentChange::delete(note("b"))]).await?;
    let before = documents(given)?.load_documents(&["a", "b", "c"].map(note)).await?;
    given.reopen().await?;
    expect_eq(documents(given)?.load_documents(&["a", "b", "c"].map(note)).await?, before.clone())?;
    let loaded = before.iter().flatten().map(text).collect::<Vec<_>>();
    expect_eq(loaded, ["2", "c"])?;
    let change =
        put("a", "3").expecting(DocumentExpect::Revision(before[0].as_ref().map_or(0, |found| found.revision)));
    write(given, [change]).await.map(drop)
}

/// The events of a write are appended in the same step: none of them if a document is refused, and no document is
/// changed if an event is refused.
pub(super) async fn events_are_appended_with_the_documents(given: &Given) -> Verdict {
    let request = |change: DocumentChange| {
        WriteDocuments::new([change]).with_events(AppendEvents::new([topic_event("fact", &["facts"])]))
    };
    let written = documents(given)?.write_documents(request(put("a", "1"))).await?;
    expect_eq(written.events, all_events(given, &topic("facts")).await?)?;
    let refused = put("a", "2").expecting(DocumentExpect::Absent);
    expect_write_refused(given, request(refused), ErrorKind::Conflict).await?;
    let mut wrong_count = request(put("b", "2"));
    wrong_count.events = wrong_count.events.map(|append| append.expecting(topic("facts"), 7));
    expect_write_refused(given, wrong_count, ErrorKind::Conflict).await?;
    let only_events = WriteDocuments::default().with_events(AppendEvents::new([topic_event("alone", &["facts"])]));
    let answer = documents(given)?.write_documents(only_events).await?;
    expect_eq((answer.revision, answer.events.len()), (None, 1))?;
    expect_event_kinds(given, &topic("facts"), "fact alone").await
}

/// If the events of a write repeat an append under its key, they are not appended again. The documents are written.
pub(super) async fn repeated_events_of_a_write_are_appended_once(given: &Given) -> Verdict {
    let request = |text: &str| {
        let append = AppendEvents::new([topic_event("fact", &["facts"])]).with_key(id("writer"), id("key"));
        WriteDocuments::new([put("a", text)]).with_events(append)
    };
    let first = documents(given)?.write_documents(request("1")).await?;
    let second = documents(given)?.write_documents(request("2")).await?;
    expect_eq(&second.events, &first.events)?;
    expect(second.revision > first.revision, "the second write got no larger revision")?;
    expect_eq(text_of(given, "a").await?.as_deref(), Some("2"))?;
    expect_event_kinds(given, &topic("facts"), "fact").await
}

/// A write that names a document twice is refused.
pub(super) async fn a_write_names_a_document_once(given: &Given) -> Verdict {
    for changes in [
        [put("a", "1"), put("a", "2")],
        [put("a", "1"), DocumentChange::delete(note("a"))],
        [put("a", "1"), DocumentChange::check(note("a"), DocumentExpect::Absent)],
    ] {
        let error = expect_write_refused(given, WriteDocuments::new(changes), ErrorKind::Invalid).await?;
        expect_eq(error.part(), Some("documents[1]"))?;
    }
    Ok(())
}

/// A write without changes and without events is refused.
pub(super) async fn an_empty_write_is_refused(given: &Given) -> Verdict {
    expect_write_refused(given, WriteDocuments::default(), ErrorKind::Invalid).await.map(drop)
}

/// A put over an existing document replaces its value. The document keeps the time of its creation, until it is
/// deleted and put again.
pub(super) async fn a_put_replaces_the_value_and_keeps_the_creation(given: &Given) -> Verdict {
    write_notes(given, &["a"]).await?;
    let first = load_existing(given, &note("a")).await?;
    given.advance(Duration::from_secs(60)).await;
    let written = write(given, [put("a", "2")]).await?;
    let second = load_existing(given, &note("a")).await?;
    expect_eq((text(&second), second.created_at, second.updated_at), ("2".to_owned(), first.created_at, written.time))?;
    expect(written.time > first.updated_at, "the time did not advance")?;
    write(given, [DocumentChange::delete(note("a"))]).await?;
    let written = write(given, [put("a", "3")]).await?;
    expect_eq(load_existing(given, &note("a")).await?.created_at, written.time)
}

/// If the clock is set back, a put leaves `updated_at` as it is.
pub(super) async fn the_times_of_a_document_never_go_back(given: &Given) -> Verdict {
    write_notes(given, &["a"]).await?;
    let before = load_existing(given, &note("a")).await?;
    given.set_back(Duration::from_secs(3_600)).await;
    write(given, [put("a", "2")]).await?;
    let after = load_existing(given, &note("a")).await?;
    expect_eq((after.created_at, after.updated_at), (before.created_at, before.updated_at))?;
    expect_eq(text(&after).as_str(), "2")
}

/// No reader sees a part of a write, neither in a load nor in a list.
pub(super) async fn readers_see_whole_writes(given: &Given) -> Verdict {
    const WRITES: usize = 50;
    write_notes(given, &["a", "b"]).await?;
    let store = documents(given)?;
    let results = run_concurrently(4, |task| {
        let store = Arc::clone(&store);
        async move {
            let mut partial_reads = 0;
            for at in 0..WRITES {
                if task % 2 == 0 {
                    let text = format!("{task}.{at}");
                    let request = WriteDocuments::new([put("a", &text), put("b", &text)]);
                    let _written = store.write_documents(request).await?;
                    continue;
                }
                let loaded = store.load_documents(&["a", "b"].map(note)).await?;
                let listed = store.list_documents(super::helpers::all_notes()).await?.items;
                let revisions =
                    |found: Vec<store_core::Document>| found.into_iter().map(|note| note.revision).collect();
                let pairs: [Vec<u64>; 2] = [revisions(loaded.into_iter().flatten().collect()), revisions(listed)];
                partial_reads += pairs.iter().filter(|pair| pair.len() != 2 || pair[0] != pair[1]).count();
            }
            Ok::<_, store_core::Error>(partial_reads)
        }
    });
    let partial_reads: usize = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?.into_iter().sum();
    expect_eq(partial_reads, 0)
}
