//! Creating threads, and loading them by id.

use std::{sync::Arc, time::Duration};

use store_core::{ErrorKind, Json, NewThread, Thread, ThreadFields, ThreadId, Timestamp};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds},
    given::{id, run_concurrently},
};

/// The draft of a thread with a resource, a title and metadata.
fn draft_with_all_fields(name: &str) -> NewThread {
    let mut fields = ThreadFields::default();
    fields.resource_id = Some(id("user-7"));
    fields.title = Some("a \u{2028} title\u{0}".to_owned());
    fields.metadata.insert("k".to_owned(), Json::parse(r#"{"b":1.0,"a":[1e2]}"#).expect("json"));
    NewThread::new(id(name)).with_fields(fields)
}

/// Checks that a thread has the fields of its draft, and that its counters and lists are those of a new thread.
fn expect_new_thread(thread: &Thread, draft: &NewThread) -> Verdict {
    expect_eq((thread.version.number(), thread.revision.number(), thread.generation()), (0, 1, 1))?;
    expect_eq((&thread.head, &thread.latest_run, thread.open_runs.len(), thread.leaves), (&None, &None, 0, 0))?;
    let found = (&thread.id, &thread.resource_id, &thread.title, &thread.metadata);
    let fields = &draft.fields;
    expect_eq(found, (&draft.id, &fields.resource_id, &fields.title, &fields.metadata))?;
    expect_eq(thread.created_at, thread.updated_at)
}

/// A new thread has version 0, revision 1, generation 1, no head, and the fields that were given. `load_thread` returns
/// an equal thread.
pub(super) async fn a_new_thread_is_loaded_as_it_was_created(given: &Given) -> Verdict {
    let draft = draft_with_all_fields("t");
    let created_thread = given.threads()?.create_thread(draft.clone()).await?;
    expect_new_thread(&created_thread, &draft)?;
    expect_eq(given.thread(&draft.id).await?, created_thread)
}

/// After the store is closed and reopened, a thread is loaded with all its fields unchanged.
pub(super) async fn a_new_thread_survives_a_reopen(given: &Given) -> Verdict {
    let created_thread = given.threads()?.create_thread(draft_with_all_fields("t")).await?;
    given.reopen().await?;
    expect_eq(given.thread(&created_thread.id).await?, created_thread)
}

/// Creating a thread with an id that is in use is refused with `AlreadyExists`, whatever fields are given. The stored
/// thread does not change.
pub(super) async fn an_id_in_use_is_refused(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let created_thread = given.create_empty_thread("t").await?;
    for draft in [NewThread::new(id("t")), draft_with_all_fields("t")] {
        expect_kind(threads.create_thread(draft).await, ErrorKind::AlreadyExists)?;
    }
    expect_eq(given.thread(&created_thread.id).await?, created_thread)?;
    given.create_thread_with_messages("u", &["x"]).await?;
    expect_kind(threads.create_thread(NewThread::new(id("u"))).await, ErrorKind::AlreadyExists)?;
    expect_eq(given.read_log(&id("u")).await?.len(), 1)
}

/// Of several concurrent creations with the same id, exactly one succeeds. The others are refused with `AlreadyExists`.
pub(super) async fn one_of_several_concurrent_creations_succeeds(given: &Given) -> Verdict {
    for round in 0..20 {
        let (threads, name): (_, ThreadId) = (given.threads()?, id(&format!("t-{round}")));
        let creations = run_concurrently(8, |at| {
            let (threads, mut draft) = (Arc::clone(&threads), NewThread::new(name.clone()));
            draft.fields.title = Some(format!("title {at}"));
            async move { threads.create_thread(draft).await }
        });
        let (succeeded, refused) = expect_exactly_one(creations.await)?;
        expect_kinds(refused, ErrorKind::AlreadyExists)?;
        expect_eq(given.thread(&name).await?, succeeded)?;
    }
    Ok(())
}

/// `load_thread` returns `None` for an unknown id, even if similar ids exist.
pub(super) async fn loading_an_unknown_thread_returns_none(given: &Given) -> Verdict {
    let threads = given.threads()?;
    expect_eq(threads.load_thread(&id("t")).await?, None)?;
    given.create_empty_thread("t").await?;
    for other in ["T", "t ", "t1", "%", "_", "*"] {
        expect_eq(threads.load_thread(&id(other)).await?, None)?;
    }
    Ok(())
}

/// An import may state when a thread was created, and the store keeps that time. A time later than store time is
/// refused with `Invalid`.
pub(super) async fn a_creation_time_can_be_given(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let now = given.create_empty_thread("now").await?.created_at;
    for (name, past_time) in [("past", now.saturating_sub(Duration::from_secs(86_400))), ("first", Timestamp::MIN)] {
        let mut draft = NewThread::new(id(name));
        draft.at = Some(past_time);
        let created_thread = threads.create_thread(draft).await?;
        expect_eq((created_thread.created_at, created_thread.updated_at), (past_time, past_time))?;
        expect_eq(given.thread(&created_thread.id).await?, created_thread)?;
    }
    for future_time in [now.saturating_add(Duration::from_secs(3600)), Timestamp::MAX] {
        let mut draft = NewThread::new(id("future"));
        draft.at = Some(future_time);
        expect_kind(threads.create_thread(draft).await, ErrorKind::Invalid)?;
    }
    expect(threads.load_thread(&id("future")).await?.is_none(), "a refused call created the thread")
}
