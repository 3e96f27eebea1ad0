//! Subscriptions.

use std::{sync::Arc, time::Duration};

use store_core::{AppendEvents, ErrorKind, Event, EventStore, Start, Subscribe, TrimBefore, TrimRequest};

use super::draft::{
    all_events, append, events, follow, kinds, next, of_run, of_thread, take_events, thread_and_run_event, thread_event,
};
use crate::{
    Failure, Given, Length, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, race, race_two},
};

async fn write(store: Arc<dyn EventStore>, task: usize, count: usize) -> store_core::Result<()> {
    for at in 0..count {
        store.append_events(AppendEvents::new([thread_event(&format!("{task}.{at}"))])).await?;
    }
    Ok(())
}

/// A subscription delivers the stored events after its start, and then the new events, each once and in order.
pub(super) async fn a_subscriber_gets_stored_events_and_then_new_ones(given: &Given) -> Verdict {
    let store = events(given)?;
    let appended = append(given, &["a", "b", "c"]).await?;
    let second = appended[1].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    let mut from_first = follow(given, of_thread("t"), Start::First).await?;
    let mut from_second = follow(given, of_thread("t"), Start::After(second)).await?;
    expect_eq(kinds(&take_events(&mut from_first, 3).await?), "a b c")?;
    race(4, |task| write(Arc::clone(&store), task, 25)).await.into_iter().collect::<store_core::Result<Vec<()>>>()?;
    let whole = all_events(given, &of_thread("t")).await?;
    expect_eq(take_events(&mut from_first, 100).await?, whole[3..].to_vec())?;
    expect_eq(take_events(&mut from_second, 101).await?, whole[2..].to_vec())
}

/// A subscription that starts at `Now` delivers the events that are appended after the call returned. It returns the
/// cursor of the last event before its start.
pub(super) async fn a_subscription_from_now_starts_after_all_existing_events(given: &Given) -> Verdict {
    let store = events(given)?;
    let begun = store.subscribe(Subscribe::new(of_thread("u"), Start::Now)).await?;
    expect_eq(begun.started_after, None)?;
    let appended = append(given, &["a", "b"]).await?;
    let mut begun = store.subscribe(Subscribe::new(of_thread("t"), Start::Now)).await?;
    expect_eq(begun.started_after.as_ref(), appended[1].cursors.thread.as_ref())?;
    append(given, &["c"]).await?;
    expect_eq(kinds(&take_events(&mut begun.events, 1).await?), "c")
}

/// An event whose append races with a subscription is delivered once, or the subscription starts after it.
pub(super) async fn an_append_that_races_with_a_subscription_is_not_lost(given: &Given) -> Verdict {
    for round in 0..30 {
        let (one, other) = (events(given)?, events(given)?);
        let request = AppendEvents::new([thread_and_run_event(&format!("{round}"))]);
        let (appended, begun) = race_two(async move { one.append_events(request).await }, async move {
            other.subscribe(Subscribe::new(of_run("r"), Start::Now)).await
        })
        .await;
        let (event, mut begun) = (appended?.events.remove(0), begun?);
        let is_before = begun.started_after == event.cursors.run;
        let last =
            events(given)?.append_events(AppendEvents::new([thread_and_run_event("last")])).await?.events.remove(0);
        let wanted = if is_before { vec![last] } else { vec![event, last] };
        expect_eq(take_events(&mut begun.events, wanted.len()).await?, wanted)?;
    }
    Ok(())
}

/// A slow subscriber receives every event, in order and once.
pub(super) async fn a_slow_subscriber_misses_nothing(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut slow = follow(given, of_thread("t"), Start::First).await?;
    let (mut seen, each) = (Vec::<Event>::new(), Length::choose(75, 150, 150));
    for round in 0..4 {
        race(4, |task| write(Arc::clone(&store), round * 4 + task, each))
            .await
            .into_iter()
            .collect::<store_core::Result<Vec<()>>>()?;
        seen.extend(take_events(&mut slow, 7).await?);
    }
    seen.extend(take_events(&mut slow, 16 * each - 28).await?);
    let whole = all_events(given, &of_thread("t")).await?;
    expect(
        seen == whole,
        format!("the subscriber got {} of {} events, or got them in another order", seen.len(), whole.len()),
    )
}

/// If a subscription starts at a forged cursor or at a cursor of another scope, the call fails.
pub(super) async fn an_invalid_start_is_refused(given: &Given) -> Verdict {
    let appended = append(given, &["a"]).await?;
    let cursor = appended[0].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    let store = events(given)?;
    let foreign = Subscribe::new(of_thread("u"), Start::After(cursor));
    expect_kind(store.subscribe(foreign).await.map(drop), ErrorKind::InvalidCursor)?;
    let forged = Start::After(store_core::Cursor::from_text("forged"));
    let forged = Subscribe::new(of_thread("t"), forged);
    expect_kind(store.subscribe(forged).await.map(drop), ErrorKind::InvalidCursor).map(drop)
}

/// If a trim removes events that a subscriber has not received, the subscriber gets the error `CursorExpired` and its
/// stream ends.
pub(super) async fn a_trim_ends_subscriptions_that_lag_behind(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut stream = follow(given, of_thread("t"), Start::First).await?;
    let appended = append(given, &["a", "b", "c"]).await?;
    let cursor = appended[1].cursors.thread.clone().ok_or_else(|| Failure::new("the event has no cursor"))?;
    store.trim_events(TrimRequest::new(of_thread("t"), TrimBefore::Cursor(cursor.clone()))).await?;
    let error = next(&mut stream).await.ok_or_else(|| Failure::new("the stream ended without an error"))?;
    expect_kind(error, ErrorKind::CursorExpired)?;
    expect(next(&mut stream).await.is_none(), "the stream continues after an error")?;
    let mut again = follow(given, of_thread("t"), Start::After(cursor)).await?;
    expect_eq(kinds(&take_events(&mut again, 1).await?), "c")
}

/// A subscription that is dropped, before its first event or between two events, does not affect appends and other
/// subscriptions.
pub(super) async fn a_dropped_subscription_affects_nothing_else(given: &Given) -> Verdict {
    append(given, &["a"]).await?;
    for round in 0..50_usize {
        let mut stream = follow(given, of_thread("t"), Start::First).await?;
        let other = follow(given, of_thread(&format!("nobody.{round}")), Start::Now).await?;
        drop(other);
        take_events(&mut stream, round % 2).await?;
        // The stream first begins to wait for the next event. It is dropped after that.
        let _waited = tokio::time::timeout(Duration::from_millis(1), take_events(&mut stream, 2)).await;
        drop(stream);
        append(given, &["b"]).await?;
    }
    expect_eq(all_events(given, &of_thread("t")).await?.len(), 51)
}

/// Each of many subscribers of a scope receives every event.
pub(super) async fn every_subscriber_gets_everything(given: &Given) -> Verdict {
    let store = events(given)?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(follow(given, of_thread("t"), Start::Now).await?);
    }
    race(4, |task| write(Arc::clone(&store), task, 20)).await.into_iter().collect::<store_core::Result<Vec<()>>>()?;
    let whole = all_events(given, &of_thread("t")).await?;
    for stream in &mut streams {
        expect_eq(&take_events(stream, 80).await?, &whole)?;
    }
    Ok(())
}

/// When the store is closed, a subscription that waits for an event ends with `Closed`.
pub(super) async fn closing_ends_subscriptions(given: &Given) -> Verdict {
    append(given, &["a"]).await?;
    let mut waiting = follow(given, of_thread("t"), Start::Now).await?;
    let waits = tokio::spawn(async move { next(&mut waiting).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    expect(!waits.is_finished(), "the subscription ended before the store was closed")?;
    given.store().close().await?;
    expect_closed(waits).await
}

/// When the tenant is deleted, a subscription that waits for an event ends with `Closed`.
pub(super) async fn deleting_the_tenant_ends_subscriptions(given: &Given) -> Verdict {
    append(given, &["a"]).await?;
    let mut waiting = follow(given, of_thread("t"), Start::Now).await?;
    let waits = tokio::spawn(async move { next(&mut waiting).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    expect(!waits.is_finished(), "the subscription ended before the tenant was deleted")?;
    given.store().delete_tenant(&id("default")).await?;
    expect_closed(waits).await
}

async fn expect_closed(waits: tokio::task::JoinHandle<Option<store_core::Result<Event>>>) -> Verdict {
    let ended = tokio::time::timeout(Duration::from_secs(10), waits).await;
    let ended = ended.map_err(|_| Failure::new("the subscription did not end"))?;
    let ended = ended.map_err(|error| Failure::new(error.to_string()))?;
    let ended = ended.ok_or_else(|| Failure::new("the subscription ended without an error"))?;
    expect_kind(ended, ErrorKind::Closed).map(drop)
}
