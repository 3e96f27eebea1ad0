//! Lists and counts of events.

use std::time::Duration;

use store_core::{Cursor, Direction, ErrorKind, Event, EventFilter, EventQuery, EventVisibility, PageRequest, Scope};

use super::helpers::{
    all_events, all_events_of_query, append_one_by_one, append_together, event_with_visibility, events, joined_kinds,
    list_from_cursor, public_events, run_scope, thread_and_run_event, thread_event, thread_scope,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

fn cursor_of(event: &Event, scope: &Scope) -> Result<Cursor, Failure> {
    event.cursor(scope).cloned().ok_or_else(|| Failure::new("the event has no cursor in the scope"))
}

fn filter_with(change: impl FnOnce(&mut EventFilter)) -> EventFilter {
    let mut filter = EventFilter::default();
    change(&mut filter);
    filter
}

/// A list that continues from the cursor of an event begins with the next event or, in the backward direction, with the
/// previous one. The cursor of every event of the scope is accepted. A cursor of another scope is refused.
pub(super) async fn a_list_continues_after_its_cursor(given: &Given) -> Verdict {
    let scope = thread_scope("t");
    let appended = append_together(given, ["a", "b", "c", "d", "e"].map(thread_and_run_event)).await?;
    for (index, event) in appended.iter().enumerate() {
        let cursor = cursor_of(event, &scope)?;
        let later = list_from_cursor(given, &scope, &cursor, Direction::Forward).await?;
        expect_eq(later, appended[index + 1..].to_vec())?;
        let mut earlier = list_from_cursor(given, &scope, &cursor, Direction::Backward).await?;
        earlier.reverse();
        expect_eq(earlier, appended[..index].to_vec())?;
        expect_kind(
            list_from_cursor(given, &run_scope("r"), &cursor, Direction::Forward).await,
            ErrorKind::InvalidCursor,
        )?;
        expect_kind(
            list_from_cursor(given, &thread_scope("u"), &cursor, Direction::Forward).await,
            ErrorKind::InvalidCursor,
        )?;
    }
    let mut reversed =
        all_events_of_query(given, EventQuery::new(scope.clone()).with_direction(Direction::Backward)).await?;
    reversed.reverse();
    expect_eq(reversed, all_events(given, &scope).await?)?;
    expect_eq(all_events(given, &thread_scope("unknown")).await?, vec![])
}

/// Reading all pages of a list with a filter returns every matching event once.
pub(super) async fn a_filtered_walk_misses_and_repeats_nothing(given: &Given) -> Verdict {
    let mut times = Vec::new();
    for round in 0..10 {
        let drafts = [
            thread_event("public"),
            event_with_visibility("internal", EventVisibility::Internal),
            event_with_visibility("audit", EventVisibility::Audit),
            thread_event(&format!("round.{round}")),
        ];
        times.push(append_together(given, drafts).await?[0].created_at);
        given.advance(Duration::from_secs(1)).await;
    }
    let list_and_count = async |filter: EventFilter| {
        let query = EventQuery::new(thread_scope("t")).with_filter(filter.clone());
        let listed = all_events_of_query(given, query.clone()).await?;
        let mut reversed = all_events_of_query(given, query.with_direction(Direction::Backward)).await?;
        reversed.reverse();
        expect_eq(&reversed, &listed)?;
        let count = events(given)?.count_events(&thread_scope("t"), &filter).await?;
        expect_eq(count, listed.len() as u64)?;
        Ok::<_, Failure>(listed)
    };
    let audits = list_and_count(filter_with(|filter| filter.visibility = Some(vec![EventVisibility::Audit]))).await?;
    expect_eq(audits.len(), 10)?;
    expect(audits.iter().all(|event| event.kind.as_str() == "audit"), "an event of another visibility is listed")?;
    let two_kinds = vec![id("round.3"), id("round.7"), id("unknown")];
    expect_eq(
        joined_kinds(&list_and_count(filter_with(|filter| filter.kinds = Some(two_kinds))).await?),
        "round.3 round.7",
    )?;
    // `created_after` includes its time, and `created_before` does not. So these are the rounds 2, 3 and 4.
    let (after, before) = (Some(times[2]), Some(times[5]));
    let between =
        list_and_count(filter_with(|filter| (filter.created_after, filter.created_before) = (after, before))).await?;
    expect_eq(between.len(), 12)?;
    expect_eq(list_and_count(filter_with(|filter| filter.kinds = Some(Vec::new()))).await?.len(), 0)?;
    expect_eq(list_and_count(EventFilter::default()).await?.len(), 40)
}

/// `load_scope` returns how many events were ever appended to a scope, how many of them are still there, the floor, and
/// the cursor of the last event.
pub(super) async fn a_scope_reports_its_counters_and_floor(given: &Given) -> Verdict {
    let store = events(given)?;
    let empty_scope = store.load_scope(&thread_scope("t")).await?;
    expect_eq((empty_scope.appended, empty_scope.floor, empty_scope.events, empty_scope.last), (0, 0, 0, None))?;
    let appended = append_one_by_one(given, &["a", "b", "c"]).await?;
    let info = store.load_scope(&thread_scope("t")).await?;
    expect_eq((info.appended, info.floor, info.events), (3, 0, 3))?;
    expect_eq(info.last.as_ref(), appended[2].cursors.thread.as_ref())?;
    expect_eq(store.count_events(&thread_scope("t"), &EventFilter::default()).await?, 3)?;
    expect_eq(store.count_events(&thread_scope("u"), &EventFilter::default()).await?, 0)?;
    let query_with_limit_zero = EventQuery::new(thread_scope("t")).with_page(PageRequest::first(0));
    expect_kind(store.list_events(query_with_limit_zero).await, ErrorKind::Invalid).map(drop)
}

/// A caller that asks for public events gets no other event: not in a list, not in a count and not in a subscription.
pub(super) async fn a_filter_for_public_events_returns_no_others(given: &Given) -> Verdict {
    for (number, visibility) in EventVisibility::ALL.iter().cycle().take(12).enumerate() {
        append_together(given, [event_with_visibility(&format!("{}.{number}", visibility.name()), *visibility)])
            .await?;
    }
    let listed = all_events_of_query(given, EventQuery::new(thread_scope("t")).with_filter(public_events())).await?;
    expect_eq(joined_kinds(&listed), "public.0 public.4 public.8")?;
    let store = events(given)?;
    expect_eq(store.count_events(&thread_scope("t"), &public_events()).await?, 3)?;
    let request = store_core::Subscribe::new(thread_scope("t"), store_core::SubscriptionStart::First)
        .with_filter(public_events());
    let mut stream = store.subscribe(request).await?.events;
    append_together(given, [event_with_visibility("hidden", EventVisibility::Sensitive), thread_event("public.last")])
        .await?;
    expect_eq(
        joined_kinds(&super::helpers::take_events(&mut stream, 4).await?),
        "public.0 public.4 public.8 public.last",
    )
}
