//! Appends of events.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use store_core::{
    AppendEvents, ClaimNumber, ClaimToken, ErrorKind, EventQuery, EventStore, EventVisibility, Fence, NewEvent,
    PageRequest, Scope, Timestamp,
};

use super::helpers::{
    all_events, append_one_by_one, append_together, events, expect_append_refused, expect_event_kinds, run_scope,
    thread_and_run_event, thread_event, thread_scope,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_exactly_one, expect_kind},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// An event is in each of its scopes, and has a cursor for each of them. It can be loaded by its id, with every
/// field as the caller gave it.
pub(super) async fn an_event_is_in_each_of_its_scopes(given: &Given) -> Verdict {
    let mut draft =
        thread_and_run_event("run.started").with_payload(json(r#"{"n":1.50}"#)).with_visibility(EventVisibility::Audit);
    draft.origin = Some(id("worker"));
    draft.causation_id = Some(id("cause"));
    draft.correlation_id = Some(id("turn"));
    draft.schema_version = 3;
    let event = append_together(given, [draft.clone()]).await?.remove(0);
    expect_eq((&event.thread, &event.run), (&Some(id("t")), &Some(id("r"))))?;
    expect_eq((&event.payload, event.visibility), (&draft.payload, draft.visibility))?;
    expect_eq((&event.origin, &event.causation_id), (&draft.origin, &draft.causation_id))?;
    expect_eq((&event.correlation_id, event.schema_version), (&draft.correlation_id, 3))?;
    expect(event.cursors.thread.is_some() && event.cursors.run.is_some(), "the event lacks a cursor")?;
    let store = events(given)?;
    expect_eq(store.load_event(&event.id).await?, Some(event.clone()))?;
    expect_eq(store.load_event(&id("unknown")).await?, None)?;
    expect_eq(all_events(given, &thread_scope("t")).await?, vec![event.clone()])?;
    expect_eq(all_events(given, &run_scope("r")).await?, vec![event])?;
    expect_eq(all_events(given, &thread_scope("r")).await?, vec![])
}

/// Events, their order and their cursors survive a reopen. New events follow the earlier ones.
pub(super) async fn events_survive_a_reopen(given: &Given) -> Verdict {
    append_together(given, [thread_and_run_event("a"), thread_event("b")]).await?;
    let events_before = (all_events(given, &thread_scope("t")).await?, all_events(given, &run_scope("r")).await?);
    given.reopen().await?;
    expect_eq(
        (all_events(given, &thread_scope("t")).await?, all_events(given, &run_scope("r")).await?),
        events_before,
    )?;
    append_one_by_one(given, &["c"]).await?;
    expect_event_kinds(given, &thread_scope("t"), "a b c").await
}

/// A draft must have the scope of one thread, of one run, or of one of each, and a schema version of at least 1.
pub(super) async fn an_event_draft_needs_a_scope_and_a_version(given: &Given) -> Verdict {
    let event_in = |scopes: Vec<Scope>| NewEvent::new(id("x"), scopes);
    let mut draft_without_version = thread_event("x");
    draft_without_version.schema_version = 0;
    for draft in [
        event_in(vec![]),
        event_in(vec![thread_scope("t"), thread_scope("u")]),
        event_in(vec![run_scope("r"), run_scope("s")]),
        event_in(vec![thread_scope("t"), run_scope("r"), run_scope("s")]),
        event_in(vec![thread_scope("t"), thread_scope("t")]),
        draft_without_version,
    ] {
        expect_append_refused(given, AppendEvents::new([thread_event("good"), draft]), ErrorKind::Invalid).await?;
    }
    expect_append_refused(given, AppendEvents::new([]), ErrorKind::Invalid).await?;
    append_together(given, [event_in(vec![run_scope("r"), thread_scope("t")]), event_in(vec![run_scope("r")])])
        .await
        .map(drop)
}

/// The events of a scope are in the order in which they were appended, and are numbered from 1 without gaps.
pub(super) async fn sequences_are_dense_in_each_scope(given: &Given) -> Verdict {
    append_together(given, [thread_event("a"), thread_and_run_event("b")]).await?;
    append_together(given, [NewEvent::new(id("c"), [run_scope("r")])]).await?;
    append_together(given, [thread_and_run_event("d"), thread_event("e")]).await?;
    expect_event_kinds(given, &thread_scope("t"), "a b d e").await?;
    expect_event_kinds(given, &run_scope("r"), "b c d").await?;
    let store = events(given)?;
    expect_eq(store.load_scope(&thread_scope("t")).await?.appended, 4)?;
    expect_eq(store.load_scope(&run_scope("r")).await?.appended, 3)?;
    let times: Vec<_> = all_events(given, &thread_scope("t")).await?.iter().map(|event| event.created_at).collect();
    expect(times.is_sorted(), "the times of the events decrease")
}

/// An append appends all of its drafts or none of them. In each scope its events follow each other directly, even if
/// other callers append at the same time.
pub(super) async fn an_append_is_all_or_none(given: &Given) -> Verdict {
    let mut invalid_draft = thread_event("bad");
    invalid_draft.schema_version = 0;
    expect_append_refused(
        given,
        AppendEvents::new([thread_event("a"), thread_event("b"), invalid_draft]),
        ErrorKind::Invalid,
    )
    .await?;
    let append_with_wrong_count =
        AppendEvents::new([thread_event("a"), thread_and_run_event("b")]).expecting(run_scope("r"), 7);
    expect_append_refused(given, append_with_wrong_count, ErrorKind::Conflict).await?;
    let store = events(given)?;
    run_concurrently(4, |task| {
        let store = Arc::clone(&store);
        async move {
            for round in 0..20 {
                let drafts = (0..3).map(|number| thread_event(&format!("{task}.{round}.{number}")));
                store.append_events(AppendEvents::new(drafts)).await?;
            }
            Ok::<_, store_core::Error>(())
        }
    })
    .await
    .into_iter()
    .collect::<store_core::Result<Vec<()>>>()?;
    let stored_events = all_events(given, &thread_scope("t")).await?;
    expect_eq(stored_events.len(), 240)?;
    for events_of_append in stored_events.chunks(3) {
        let prefix = events_of_append[0].kind.as_str().trim_end_matches('0').to_owned();
        expect_eq(super::helpers::joined_kinds(events_of_append), format!("{prefix}0 {prefix}1 {prefix}2"))?;
    }
    Ok(())
}

/// A caller can state how many events it expects to have been appended to a scope so far, including trimmed ones. If
/// the number differs, the append is refused. It is also refused if none of its drafts is in that scope.
pub(super) async fn an_expectation_counts_all_events_ever_appended(given: &Given) -> Verdict {
    let store = events(given)?;
    let append_expecting =
        |kind: &str, scope: Scope, count| AppendEvents::new([thread_and_run_event(kind)]).expecting(scope, count);
    store.append_events(append_expecting("a", thread_scope("t"), 0).expecting(run_scope("r"), 0)).await?;
    for (scope, count) in [(thread_scope("t"), 0), (thread_scope("t"), 2), (run_scope("r"), 0), (run_scope("r"), 7)] {
        expect_append_refused(given, append_expecting("x", scope, count), ErrorKind::Conflict).await?;
    }
    expect_append_refused(given, append_expecting("x", thread_scope("u"), 0), ErrorKind::Invalid).await?;
    store.append_events(append_expecting("b", thread_scope("t"), 1).expecting(run_scope("r"), 1)).await?;
    expect_event_kinds(given, &thread_scope("t"), "a b").await
}

/// Of several concurrent appends that expect the same number of events, exactly one succeeds.
pub(super) async fn one_of_several_appends_with_the_same_expectation_succeeds(given: &Given) -> Verdict {
    let store = events(given)?;
    for round in 0..10 {
        let results = run_concurrently(6, |task| {
            let store = Arc::clone(&store);
            let request =
                AppendEvents::new([thread_event(&format!("{round}.{task}"))]).expecting(thread_scope("t"), round);
            async move { store.append_events(request).await }
        });
        let (_, errors) = expect_exactly_one(results.await)?;
        for error in errors {
            expect_kind::<()>(Err(error), ErrorKind::Conflict)?;
        }
    }
    expect_eq(all_events(given, &thread_scope("t")).await?.len(), 10)
}

/// A reader that sees an event also sees all earlier events of the same scope, even if the futures of the appends are
/// polled at different intervals.
pub(super) async fn no_event_becomes_visible_before_an_earlier_one(given: &Given) -> Verdict {
    const WRITERS: usize = 4;
    let (store, ended_writers) = (events(given)?, Arc::new(AtomicUsize::new(0)));
    let results = run_concurrently(1 + WRITERS, |task| {
        let (store, ended_writers) = (Arc::clone(&store), Arc::clone(&ended_writers));
        async move {
            let mut earlier_ids: Vec<store_core::EventId> = Vec::new();
            // The task 0 reads. The others append.
            if task > 0 {
                let appended = append_slowly(&*store, task).await;
                ended_writers.fetch_add(1, Ordering::SeqCst);
                return appended;
            }
            while ended_writers.load(Ordering::SeqCst) < WRITERS {
                let query = EventQuery::new(run_scope("r")).with_page(PageRequest::first(1_000));
                let current_ids: Vec<_> =
                    store.list_events(query).await?.items.into_iter().map(|event| event.id).collect();
                if !current_ids.starts_with(&earlier_ids) {
                    return Err(store_core::Error::corrupt("an event was inserted before an earlier one"));
                }
                earlier_ids = current_ids;
                tokio::task::yield_now().await;
            }
            Ok(())
        }
    });
    results.await.into_iter().collect::<store_core::Result<Vec<()>>>()?;
    expect_eq(all_events(given, &run_scope("r")).await?.len(), 240)
}

async fn append_slowly(store: &dyn EventStore, task: usize) -> store_core::Result<()> {
    for number in 0..60 {
        let request = AppendEvents::new([thread_and_run_event(&format!("{task}.{number}"))]);
        poll_slowly(store.append_events(request), task * number % 7).await?;
    }
    Ok(())
}

/// Polls a call until it ends. Between two polls it yields to other tasks, `yields` + 1 times.
async fn poll_slowly<T>(call: impl Future<Output = T>, yields: usize) -> T {
    let mut call = pin!(call);
    loop {
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        if let Poll::Ready(answer) = polled {
            return answer;
        }
        for _ in 0..=yields {
            tokio::task::yield_now().await;
        }
    }
}

fn fence_with_claim_counter(counter: u64) -> Fence {
    Fence::new(id("dispatch"), ClaimToken::new("token"), 0, ClaimNumber { incarnation: 0, counter })
}

/// An append under a claim is refused if a claim with a higher number has already written to the thread of the events.
/// An append whose events belong to no thread cannot be made under a claim.
pub(super) async fn the_fence_of_an_event_append_is_checked(given: &Given) -> Verdict {
    let store = events(given)?;
    let fenced_append = |drafts: Vec<NewEvent>, counter| {
        let mut request = AppendEvents::new(drafts);
        request.fence = Some(fence_with_claim_counter(counter));
        request
    };
    store.append_events(fenced_append(vec![thread_event("a")], 5)).await?;
    expect_append_refused(given, fenced_append(vec![thread_event("x")], 4), ErrorKind::StaleEpoch).await?;
    expect_append_refused(given, fenced_append(vec![NewEvent::new(id("x"), [run_scope("r")])], 9), ErrorKind::Invalid)
        .await?;
    store.append_events(fenced_append(vec![thread_event("b"), thread_and_run_event("c")], 5)).await?;
    let late_commit = crate::given::keyed_commit_with_message(&id("t"), "k", "x").fenced(fence_with_claim_counter(4));
    expect_kind(given.commits()?.commit(late_commit).await, ErrorKind::StaleEpoch)?;
    expect_event_kinds(given, &thread_scope("t"), "a b c").await
}

/// If store time has gone back, a new event has the later of two times: that of its append, and that of the latest
/// event in its scopes. An event may be earlier than the last commit to its thread. This holds for appends with and
/// without a claim.
pub(super) async fn the_time_of_an_event_follows_earlier_events_of_its_scopes(given: &Given) -> Verdict {
    let hour = Duration::from_secs(3_600);
    let thread_time = given.commit(crate::given::keyed_commit_with_message(&id("t"), "k", "x")).await?.time;
    given.set_back(hour).await;
    let mut last_time = Timestamp::MIN;
    for fence in [Some(fence_with_claim_counter(1)), None, Some(fence_with_claim_counter(2))] {
        let mut request = AppendEvents::new([thread_event("a")]);
        request.fence = fence;
        let appended = events(given)?.append_events(request).await?;
        let event_time = appended.events.iter().map(|event| event.created_at).max().unwrap_or(Timestamp::MAX);
        expect(
            last_time <= event_time && event_time < thread_time,
            format!("event time {event_time} follows {last_time}, thread time is {thread_time}"),
        )?;
        last_time = event_time;
    }
    Ok(())
}

/// The claim number of an append survives a reopen, even if the thread of the events does not exist.
pub(super) async fn the_claim_number_of_an_append_survives_a_reopen(given: &Given) -> Verdict {
    given.expect_accepted(crate::given::keyed_commit_with_message(&id("t"), "k", "x")).await?;
    for thread in ["t", "u"] {
        let mut request = AppendEvents::new([NewEvent::new(id("x"), [thread_scope(thread)])]);
        request.fence = Some(fence_with_claim_counter(5));
        events(given)?.append_events(request).await?;
    }
    given.reopen().await?;
    for thread in ["t", "u"] {
        let commit = |key: &str, counter| {
            crate::given::keyed_commit_with_message(&id(thread), key, "x").fenced(fence_with_claim_counter(counter))
        };
        expect_kind(given.commits()?.commit(commit("l", 4)).await, ErrorKind::StaleEpoch)?;
        given.expect_accepted(commit("m", 5)).await?;
        expect_event_kinds(given, &thread_scope(thread), "x").await?;
    }
    Ok(())
}

/// An append of 1,000 events is accepted. An append of more events is refused.
pub(super) async fn an_append_has_a_thousand_events_at_most(given: &Given) -> Verdict {
    let append_of_events = |count: usize| AppendEvents::new((0..count).map(|_| thread_event("x")));
    expect_append_refused(given, append_of_events(1_001), ErrorKind::LimitExceeded).await?;
    expect_eq(events(given)?.append_events(append_of_events(1_000)).await?.events.len(), 1_000)
}

/// A payload whose size is exactly the limit of a record is accepted. One byte more is refused.
pub(super) async fn a_payload_has_a_limit(given: &Given) -> Verdict {
    let given = given.open_another_store_with_limits(|limits| limits.record_bytes = 2_000).await?;
    let event_with_payload_size =
        |bytes: usize| thread_event("x").with_payload(json(&format!("\"{}\"", "x".repeat(bytes - 2))));
    expect_append_refused(&given, AppendEvents::new([event_with_payload_size(2_001)]), ErrorKind::LimitExceeded)
        .await?;
    append_together(&given, [event_with_payload_size(2_000)]).await.map(drop)
}
