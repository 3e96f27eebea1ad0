//! Keys that make appends safe to repeat.

use std::time::Duration;

use store_core::{AppendEvents, ErrorKind, NewEvent, TrimBefore, TrimRequest};

use super::helpers::{
    all_events, append_one_by_one, events, expect_append_refused, run_scope, thread_and_run_event, thread_event,
    thread_scope,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::id,
    log::entry_drafts::json,
};

fn keyed_append(writer: &str, drafts: Vec<NewEvent>) -> AppendEvents {
    AppendEvents::new(drafts).with_key(id(writer), id("k"))
}

/// If an append is repeated with the same writer, key and drafts, it returns the first events and writes nothing, even
/// if other events were appended since then. The number of events that it expects is not checked again.
pub(super) async fn a_repeated_append_returns_the_first_events(given: &Given) -> Verdict {
    let store = events(given)?;
    let request =
        || keyed_append("w", vec![thread_event("a"), thread_and_run_event("b")]).expecting(thread_scope("t"), 0);
    let first = store.append_events(request()).await?;
    expect(!first.deduplicated, "the first append was deduplicated")?;
    append_one_by_one(given, &["c"]).await?;
    let events_before = all_events(given, &thread_scope("t")).await?;
    let repeated = store.append_events(request()).await?;
    expect_eq((repeated.events, repeated.deduplicated), (first.events, true))?;
    expect_eq(all_events(given, &thread_scope("t")).await?, events_before)
}

/// An append with the key of an earlier append and other drafts is refused. Everything in a draft is compared, except
/// the order of its scopes.
pub(super) async fn a_key_with_different_content_is_refused(given: &Given) -> Verdict {
    let store = events(given)?;
    store.append_events(keyed_append("w", vec![thread_and_run_event("a").with_payload(json("1"))])).await?;
    let mut draft_with_swapped_scopes =
        NewEvent::new(id("a"), [run_scope("r"), thread_scope("t")]).with_payload(json("1"));
    expect(
        store.append_events(keyed_append("w", vec![draft_with_swapped_scopes.clone()])).await?.deduplicated,
        "the order of scopes matters",
    )?;
    draft_with_swapped_scopes.origin = Some(id("other"));
    for drafts in [
        vec![thread_and_run_event("b").with_payload(json("1"))],
        vec![thread_and_run_event("a").with_payload(json("1.0"))],
        vec![thread_and_run_event("a")],
        vec![thread_event("a").with_payload(json("1"))],
        vec![thread_and_run_event("a").with_payload(json("1")), thread_and_run_event("a").with_payload(json("1"))],
        vec![draft_with_swapped_scopes],
    ] {
        expect_append_refused(given, keyed_append("w", drafts), ErrorKind::IdempotencyMismatch).await?;
    }
    Ok(())
}

/// An append with a key must name a writer. Two writers can use the same key.
pub(super) async fn a_key_belongs_to_its_writer(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut append_without_writer = keyed_append("w", vec![thread_event("x")]);
    append_without_writer.writer = None;
    expect_append_refused(given, append_without_writer, ErrorKind::Invalid).await?;
    for (writer, kind) in [("w", "a"), ("v", "b")] {
        expect(
            !store.append_events(keyed_append(writer, vec![thread_event(kind)])).await?.deduplicated,
            "two writers share a key",
        )?;
    }
    let mut append_without_key = AppendEvents::new([thread_event("c")]);
    append_without_key.writer = Some(id("w"));
    for _ in 0..2 {
        store.append_events(append_without_key.clone()).await?;
    }
    super::helpers::expect_event_kinds(given, &thread_scope("t"), "a b c c").await
}

/// A key is remembered for at least 30 days, even if its events are trimmed before that. If they are trimmed later, the
/// key is remembered until then.
pub(super) async fn a_key_is_remembered_for_thirty_days(given: &Given) -> Verdict {
    const DAY: Duration = Duration::from_hours(24);
    let store = events(given)?;
    let kept_append = store.append_events(keyed_append("kept", vec![thread_event("kept")])).await?;
    given.advance(29 * DAY).await;
    let trimmed_append =
        store.append_events(keyed_append("gone", vec![NewEvent::new(id("gone"), [run_scope("r")])])).await?;
    let cursor = trimmed_append.events[0].cursors.run.clone();
    let cursor = cursor.ok_or_else(|| crate::Failure::new("the event has no cursor"))?;
    store.trim_events(TrimRequest::new(run_scope("r"), TrimBefore::Cursor(cursor))).await?;
    given.advance(29 * DAY).await;
    let repeated = store.append_events(keyed_append("gone", vec![NewEvent::new(id("gone"), [run_scope("r")])])).await?;
    expect_eq((repeated.deduplicated, repeated.events.len()), (true, 0))?;
    let repeated = store.append_events(keyed_append("kept", vec![thread_event("kept")])).await?;
    expect_eq((repeated.deduplicated, repeated.events), (true, kept_append.events))
}
