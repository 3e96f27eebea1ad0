//! Removal of old events.

use std::time::Duration;

use store_core::{
    AppendEvents, Cursor, DeleteRequest, Detail, Direction, ErrorKind, Event, EventFilter, EventQuery, IgnoreProgress,
    PageRequest, RedactEvent, Scope, TrimBefore, TrimRequest,
};

use super::helpers::{
    all_events, append_one_by_one, append_together, events, expect_event_kinds, list_from_cursor, run_scope,
    thread_and_run_event, thread_event, thread_scope,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind},
    given::{id, keyed_commit_with_message},
    log::entry_drafts::json,
};

fn trim_request_up_to(event: &Event, scope: &Scope) -> Result<TrimRequest, Failure> {
    let cursor = event.cursor(scope).cloned().ok_or_else(|| Failure::new("the event has no cursor in the scope"))?;
    Ok(TrimRequest::new(scope.clone(), TrimBefore::Cursor(cursor)))
}

/// A trim removes the oldest events of a scope, up to and including the event of the cursor. Later events continue the
/// numbering. A dry run changes nothing.
pub(super) async fn a_trim_removes_the_oldest_events(given: &Given) -> Verdict {
    let (store, scope) = (events(given)?, thread_scope("t"));
    let appended = append_one_by_one(given, &["a", "b", "c", "d"]).await?;
    let dry_run = store.trim_events(trim_request_up_to(&appended[1], &scope)?.dry()).await?;
    expect_eq((dry_run.events, dry_run.floor), (2, 2))?;
    expect_event_kinds(given, &scope, "a b c d").await?;
    let trim_result = store.trim_events(trim_request_up_to(&appended[1], &scope)?).await?;
    expect_eq((trim_result.events, trim_result.floor), (2, 2))?;
    expect_event_kinds(given, &scope, "c d").await?;
    expect_eq(store.count_events(&scope, &EventFilter::default()).await?, 2)?;
    let repeated_trim = store.trim_events(trim_request_up_to(&appended[0], &scope)?).await?;
    expect_eq((repeated_trim.events, repeated_trim.floor), (0, 2))?;
    append_one_by_one(given, &["e"]).await?;
    let info = store.load_scope(&scope).await?;
    expect_eq((info.appended, info.floor, info.events), (5, 2, 3))?;
    expect_eq(store.load_event(&appended[0].id).await?, None)?;
    let last_events = append_one_by_one(given, &["f"]).await?;
    expect_eq(store.trim_events(trim_request_up_to(&last_events[0], &scope)?).await?.events, 4)?;
    expect_event_kinds(given, &scope, "").await?;
    append_one_by_one(given, &["g"]).await?;
    expect_eq(store.load_scope(&scope).await?.appended, 7)
}

/// A trim by time removes the oldest events of a scope until it reaches an event that is not older than the given time.
pub(super) async fn a_trim_by_time_stops_at_the_first_newer_event(given: &Given) -> Verdict {
    let (store, scope) = (events(given)?, thread_scope("t"));
    let mut times = Vec::new();
    for kind in ["a", "b", "c", "d"] {
        times.push(append_one_by_one(given, &[kind]).await?[0].created_at);
        given.advance(Duration::from_secs(10)).await;
    }
    let trim_before = |time| TrimRequest::new(scope.clone(), TrimBefore::Time(time));
    expect_eq(store.trim_events(trim_before(times[0])).await?.events, 0)?;
    expect_eq(store.trim_events(trim_before(times[2]).dry()).await?.events, 2)?;
    expect_eq(store.trim_events(trim_before(times[2])).await?.events, 2)?;
    expect_event_kinds(given, &scope, "c d").await?;
    let after_last_event = times[3].saturating_add(Duration::from_secs(1));
    expect_eq(store.trim_events(trim_before(after_last_event)).await?.events, 2)
}

/// The floor of a scope is the number of its last trimmed event. Lists and subscriptions refuse a cursor below the
/// floor with `CursorExpired`, and accept a cursor at the floor.
pub(super) async fn a_cursor_below_the_floor_is_refused(given: &Given) -> Verdict {
    let (store, scope) = (events(given)?, thread_scope("t"));
    let appended = append_one_by_one(given, &["a", "b", "c"]).await?;
    let cursors: Vec<Cursor> = appended.iter().filter_map(|event| event.cursors.thread.clone()).collect();
    store.trim_events(trim_request_up_to(&appended[1], &scope)?).await?;
    let error =
        expect_kind(list_from_cursor(given, &scope, &cursors[0], Direction::Forward).await, ErrorKind::CursorExpired)?;
    expect_eq(error.detail(), &Detail::CursorExpired { floor: 2 })?;
    let subscribe_below_floor =
        store_core::Subscribe::new(scope.clone(), store_core::SubscriptionStart::After(cursors[0].clone()));
    let error = store.subscribe(subscribe_below_floor).await.map(drop);
    expect_kind(error, ErrorKind::CursorExpired)?;
    for (cursor, remaining) in [(&cursors[1], 1), (&cursors[2], 0)] {
        expect_eq(list_from_cursor(given, &scope, cursor, Direction::Forward).await?.len(), remaining)?;
    }
    let trim_with_foreign_cursor = TrimRequest::new(thread_scope("u"), TrimBefore::Cursor(cursors[2].clone()));
    expect_kind(store.trim_events(trim_with_foreign_cursor).await, ErrorKind::InvalidCursor).map(drop)
}

/// An event that was trimmed from one of its scopes is still in the other. It can be loaded by its id until it was
/// trimmed from both.
pub(super) async fn an_event_stays_in_its_other_scope(given: &Given) -> Verdict {
    let store = events(given)?;
    let appended = append_together(given, ["a", "b"].map(thread_and_run_event)).await?;
    store.trim_events(trim_request_up_to(&appended[1], &thread_scope("t"))?).await?;
    expect_event_kinds(given, &thread_scope("t"), "").await?;
    expect_eq(all_events(given, &run_scope("r")).await?, appended.clone())?;
    expect_eq(store.load_event(&appended[0].id).await?, Some(appended[0].clone()))?;
    store.trim_events(trim_request_up_to(&appended[0], &run_scope("r"))?).await?;
    expect_eq(store.load_event(&appended[0].id).await?, None)?;
    expect_eq(store.load_event(&appended[1].id).await?, Some(appended[1].clone()))
}

/// Deleting a thread does not remove its events. The events of a new thread with the same id follow them in the same
/// scope.
pub(super) async fn events_survive_the_deletion_of_their_thread(given: &Given) -> Verdict {
    let commit = keyed_commit_with_message(&id("t"), "k", "x")
        .with_events(AppendEvents::new([thread_event("a"), thread_event("b")]));
    given.expect_accepted(commit).await?;
    append_one_by_one(given, &["c"]).await?;
    let events_before = all_events(given, &thread_scope("t")).await?;
    let cursor = events_before[0].cursors.thread.clone();
    let threads = given.threads()?;
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    threads.purge_deleted(&IgnoreProgress).await?;
    expect_eq(all_events(given, &thread_scope("t")).await?, events_before.clone())?;
    expect_eq(events(given)?.load_event(&events_before[1].id).await?.as_ref(), Some(&events_before[1]))?;
    given.create_empty_thread("t").await?;
    append_one_by_one(given, &["d"]).await?;
    expect_event_kinds(given, &thread_scope("t"), "a b c d").await?;
    // A cursor that was made before the deletion is still valid.
    let query = EventQuery::new(thread_scope("t")).with_page(PageRequest { limit: None, cursor });
    let later_events = events(given)?.list_events(query).await?.items;
    expect_eq(later_events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), vec!["b", "c", "d"])
}

/// A redaction removes what callers wrote of an event, or replaces its payload. Its place, its kind and its times stay.
/// It may be repeated, and unknown events are left out.
pub(super) async fn a_redacted_event_keeps_its_place(given: &Given) -> Verdict {
    let (store, scope) = (events(given)?, thread_scope("t"));
    let mut draft = thread_and_run_event("a").with_payload(json(r#"{"text":"secret"}"#));
    (draft.origin, draft.correlation_id) = (Some(id("someone")), Some(id("secret")));
    let appended = append_together(given, vec![draft, thread_event("b").with_payload(json("1"))]).await?;
    append_one_by_one(given, &["c"]).await?;
    let before = all_events(given, &scope).await?;
    let redact = RedactEvent::new(appended[0].id.clone());
    let replace = RedactEvent::new(appended[1].id.clone()).with_payload(json("2"));
    let unknown = RedactEvent::new(id("unknown"));
    let requests = vec![redact.clone(), unknown, replace];
    expect_eq(store.redact_events(requests.clone()).await?, 2)?;
    expect_eq(store.redact_events(requests).await?, 0)?;
    let after = all_events(given, &scope).await?;
    let (first, second) = (&after[0], &after[1]);
    expect_eq((&first.payload, &first.origin, &first.correlation_id, first.redacted), (&None, &None, &None, true))?;
    expect_eq((second.payload.clone(), second.redacted), (Some(json("2")), true))?;
    for (old, new) in before.iter().zip(&after) {
        expect_eq(
            (&old.id, &old.kind, old.created_at, &old.cursors),
            (&new.id, &new.kind, new.created_at, &new.cursors),
        )?;
    }
    expect_eq(&after[2], &before[2])?;
    expect_eq(all_events(given, &run_scope("r")).await?.len(), 1)?;
    expect_eq(store.load_event(&first.id).await?.as_ref(), Some(first))?;
    let too_many = vec![redact; 1_001];
    expect_kind(store.redact_events(too_many).await, ErrorKind::LimitExceeded).map(drop)
}

/// The key of an append is forgotten with the content of any of its events.
pub(super) async fn a_redaction_forgets_the_key_of_its_append(given: &Given) -> Verdict {
    let (store, scope) = (events(given)?, thread_scope("t"));
    let append = || AppendEvents::new([thread_event("a"), thread_event("b")]).with_key(id("writer"), id("key"));
    let first = store.append_events(append()).await?;
    expect_eq(store.append_events(append()).await?.deduplicated, true)?;
    store.redact_events(vec![RedactEvent::new(first.events[1].id.clone())]).await?;
    expect_eq(store.append_events(append()).await?.deduplicated, false)?;
    expect_event_kinds(given, &scope, "a b a b").await?;
    expect_eq(store.append_events(append()).await?.deduplicated, true)
}
