//! Subscriptions.

use std::{sync::Arc, time::Duration};

use store_core::{AppendEvents, ErrorKind, Event, EventStore, Subscribe, SubscriptionStart, TrimBefore, TrimRequest};

use super::helpers::{
    all_events, append_one_by_one, events, joined_kinds, next_event, run_scope, subscribe, take_events,
    thread_and_run_event, thread_event, thread_scope,
};
use crate::{
    Failure, Given, TestLength, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, run_concurrently, run_two_concurrently},
};

async fn append_numbered_events(store: Arc<dyn EventStore>, task: usize, count: usize) -> store_core::Result<()> {
    for number in 0..count {
        store.append_events(AppendEvents::new([thread_event(&format!("{task}.{number}"))])).await?;
    }
    Ok(())
}

/// A subscription delivers the stored events after its start, and then the new events, each once and in order.
pub(super) async fn a_subscriber_gets_stored_events_and_then_new_ones(given: &Given) -> Verdict {
    let store = events(given)?;
    let appended = append_one_by_one(given, &["a", "b", "c"]).await?;
    let second_cursor = appended[1].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    let mut stream_from_first = subscribe(given, thread_scope("t"), SubscriptionStart::First).await?;
    let mut stream_from_second = subscribe(given, thread_scope("t"), SubscriptionStart::After(second_cursor)).await?;
    expect_eq(joined_kinds(&take_events(&mut stream_from_first, 3).await?), "a b c")?;
    run_concurrently(4, |task| append_numbered_events(Arc::clone(&store), task, 25))
        .await
        .into_iter()
        .collect::<store_core::Result<Vec<()>>>()?;
    let stored_events = all_events(given, &thread_scope("t")).await?;
    expect_eq(take_events(&mut stream_from_first, 100).await?, stored_events[3..].to_vec())?;
    expect_eq(take_events(&mut stream_from_second, 101).await?, stored_events[2..].to_vec())
}

/// A subscription that starts at `Now` delivers the events that are appended after the call returned. The call also
/// returns the cursor of the last event before the start.
pub(super) async fn a_subscription_from_now_starts_after_all_existing_events(given: &Given) -> Verdict {
    let store = events(given)?;
    let subscription = store.subscribe(Subscribe::new(thread_scope("u"), SubscriptionStart::Now)).await?;
    expect_eq(subscription.started_after, None)?;
    let appended = append_one_by_one(given, &["a", "b"]).await?;
    let mut subscription = store.subscribe(Subscribe::new(thread_scope("t"), SubscriptionStart::Now)).await?;
    expect_eq(subscription.started_after.as_ref(), appended[1].cursors.thread.as_ref())?;
    append_one_by_one(given, &["c"]).await?;
    expect_eq(joined_kinds(&take_events(&mut subscription.events, 1).await?), "c")
}

/// An event whose append races with a subscription is delivered once, or the subscription starts after it.
pub(super) async fn an_append_that_races_with_a_subscription_is_not_lost(given: &Given) -> Verdict {
    for round in 0..30 {
        let (store, other_store) = (events(given)?, events(given)?);
        let request = AppendEvents::new([thread_and_run_event(&format!("{round}"))]);
        let (appended, subscription) =
            run_two_concurrently(async move { store.append_events(request).await }, async move {
                other_store.subscribe(Subscribe::new(run_scope("r"), SubscriptionStart::Now)).await
            })
            .await;
        let (event, mut subscription) = (appended?.events.remove(0), subscription?);
        let event_is_before_start = subscription.started_after == event.cursors.run;
        let last_event =
            events(given)?.append_events(AppendEvents::new([thread_and_run_event("last")])).await?.events.remove(0);
        let expected_events = if event_is_before_start { vec![last_event] } else { vec![event, last_event] };
        expect_eq(take_events(&mut subscription.events, expected_events.len()).await?, expected_events)?;
    }
    Ok(())
}

/// A slow subscriber receives every event, in order and once.
pub(super) async fn a_slow_subscriber_misses_nothing(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut slow_stream = subscribe(given, thread_scope("t"), SubscriptionStart::First).await?;
    let (mut received_events, events_per_task) = (Vec::<Event>::new(), TestLength::pick_by_env(75, 150, 150));
    for round in 0..4 {
        run_concurrently(4, |task| append_numbered_events(Arc::clone(&store), round * 4 + task, events_per_task))
            .await
            .into_iter()
            .collect::<store_core::Result<Vec<()>>>()?;
        received_events.extend(take_events(&mut slow_stream, 7).await?);
    }
    received_events.extend(take_events(&mut slow_stream, 16 * events_per_task - 28).await?);
    let stored_events = all_events(given, &thread_scope("t")).await?;
    expect(
        received_events == stored_events,
        format!(
            "the subscriber got {} of {} events, or got them in another order",
            received_events.len(),
            stored_events.len()
        ),
    )
}

/// If a subscription starts at a forged cursor or at a cursor of another scope, the call fails.
pub(super) async fn an_invalid_start_is_refused(given: &Given) -> Verdict {
    let appended = append_one_by_one(given, &["a"]).await?;
    let cursor = appended[0].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    let store = events(given)?;
    let from_foreign_cursor = Subscribe::new(thread_scope("u"), SubscriptionStart::After(cursor));
    expect_kind(store.subscribe(from_foreign_cursor).await.map(drop), ErrorKind::InvalidCursor)?;
    let from_forged_cursor = SubscriptionStart::After(store_core::Cursor::from_text("forged"));
    let from_forged_cursor = Subscribe::new(thread_scope("t"), from_forged_cursor);
    expect_kind(store.subscribe(from_forged_cursor).await.map(drop), ErrorKind::InvalidCursor).map(drop)
}

/// If a trim removes events that a subscriber has not received, the subscriber gets the error `CursorExpired` and its
/// stream ends.
pub(super) async fn a_trim_ends_subscriptions_that_lag_behind(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut stream = subscribe(given, thread_scope("t"), SubscriptionStart::First).await?;
    let appended = append_one_by_one(given, &["a", "b", "c"]).await?;
    let cursor = appended[1].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    store.trim_events(TrimRequest::new(thread_scope("t"), TrimBefore::Cursor(cursor.clone()))).await?;
    let error = next_event(&mut stream).await.ok_or_else(|| Failure::new("the stream ended without an error"))?;
    expect_kind(error, ErrorKind::CursorExpired)?;
    expect(next_event(&mut stream).await.is_none(), "the stream continues after an error")?;
    let mut new_stream = subscribe(given, thread_scope("t"), SubscriptionStart::After(cursor)).await?;
    expect_eq(joined_kinds(&take_events(&mut new_stream, 1).await?), "c")
}

/// A subscription that is dropped, before its first event or between two events, does not affect appends and other
/// subscriptions.
pub(super) async fn a_dropped_subscription_affects_nothing_else(given: &Given) -> Verdict {
    append_one_by_one(given, &["a"]).await?;
    for round in 0..50_usize {
        let mut stream = subscribe(given, thread_scope("t"), SubscriptionStart::First).await?;
        let unused_subscription =
            subscribe(given, thread_scope(&format!("unused.{round}")), SubscriptionStart::Now).await?;
        drop(unused_subscription);
        take_events(&mut stream, round % 2).await?;
        // The stream first begins to wait for the next event. It is dropped after that.
        let _waited = tokio::time::timeout(Duration::from_millis(1), take_events(&mut stream, 2)).await;
        drop(stream);
        append_one_by_one(given, &["b"]).await?;
    }
    expect_eq(all_events(given, &thread_scope("t")).await?.len(), 51)
}

/// Each of many subscribers of a scope receives every event.
pub(super) async fn every_subscriber_gets_everything(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(subscribe(given, thread_scope("t"), SubscriptionStart::Now).await?);
    }
    run_concurrently(4, |task| append_numbered_events(Arc::clone(&store), task, 20))
        .await
        .into_iter()
        .collect::<store_core::Result<Vec<()>>>()?;
    let stored_events = all_events(given, &thread_scope("t")).await?;
    for stream in &mut streams {
        expect_eq(&take_events(stream, 80).await?, &stored_events)?;
    }
    Ok(())
}

/// When the store is closed, a subscription that waits for an event ends with `Closed`.
pub(super) async fn closing_ends_subscriptions(given: &Given) -> Verdict {
    append_one_by_one(given, &["a"]).await?;
    let mut waiting_stream = subscribe(given, thread_scope("t"), SubscriptionStart::Now).await?;
    let waiting_task = tokio::spawn(async move { next_event(&mut waiting_stream).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    expect(!waiting_task.is_finished(), "the subscription ended before the store was closed")?;
    given.store().close().await?;
    expect_closed(waiting_task).await
}

/// When the tenant is deleted, a subscription that waits for an event ends with `Closed`.
pub(super) async fn deleting_the_tenant_ends_subscriptions(given: &Given) -> Verdict {
    append_one_by_one(given, &["a"]).await?;
    let mut waiting_stream = subscribe(given, thread_scope("t"), SubscriptionStart::Now).await?;
    let waiting_task = tokio::spawn(async move { next_event(&mut waiting_stream).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    expect(!waiting_task.is_finished(), "the subscription ended before the tenant was deleted")?;
    given.store().delete_tenant(&id("default")).await?;
    expect_closed(waiting_task).await
}

async fn expect_closed(waiting_task: tokio::task::JoinHandle<Option<store_core::Result<Event>>>) -> Verdict {
    let item = tokio::time::timeout(Duration::from_secs(10), waiting_task).await;
    let item = item.map_err(|_| Failure::new("the subscription did not end"))?;
    let item = item.map_err(|error| Failure::new(error.to_string()))?;
    let item = item.ok_or_else(|| Failure::new("the subscription ended without an error"))?;
    expect_kind(item, ErrorKind::Closed).map(drop)
}
