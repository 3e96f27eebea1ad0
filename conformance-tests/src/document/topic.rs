//! Topics: the lines of the contract about events (EV) hold for them.

use std::{future::poll_fn, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, Commit, Cursor, DeleteRequest, Direction, ErrorKind, Event, EventFilter, EventQuery, EventStream,
    EventVisibility, NewEvent, Scope, Subscribe, SubscriptionStart, TrimBefore, TrimRequest,
};
use tokio::time::timeout;

use super::helpers::{all_events, events, expect_event_kinds, topic, topic_event};
use crate::{
    Given, Verdict,
    check::{Failure, expect, expect_eq, expect_exactly_one, expect_kind, expect_kinds, expect_some},
    given::{id, keyed_commit_with_message, run_concurrently},
};

async fn append(given: &Given, drafts: impl IntoIterator<Item = NewEvent>) -> Result<Vec<Event>, Failure> {
    Ok(events(given)?.append_events(AppendEvents::new(drafts)).await?.events)
}

/// An event in a thread, a run and several topics is in each of these scopes, once, with a cursor in each.
pub(super) async fn an_event_is_in_each_of_its_topics(given: &Given) -> Verdict {
    let mut draft = topic_event("fact", &["b", "a"]);
    draft.scopes.extend([Scope::Thread(id("t")), Scope::Run(id("r"))]);
    let event = append(given, [draft]).await?.remove(0);
    expect_eq((&event.thread, &event.run, &event.topics), (&Some(id("t")), &Some(id("r")), &vec![id("a"), id("b")]))?;
    for scope in [topic("a"), topic("b"), Scope::Thread(id("t")), Scope::Run(id("r"))] {
        expect_eq(all_events(given, &scope).await?, vec![event.clone()])?;
        let cursor = expect_some(event.cursor(&scope).cloned(), "cursor")?;
        expect_eq(list_after(given, &scope, cursor, Direction::Forward).await?, vec![])?;
    }
    expect_eq(event.cursors.topics.len(), 2)?;
    expect_eq(events(given)?.load_event(&event.id).await?, Some(event))?;
    expect_eq(all_events(given, &topic("c")).await?, vec![])
}

/// Lists the events of a scope after a cursor, or, in the backward direction, those before it.
async fn list_after(given: &Given, scope: &Scope, cursor: Cursor, direction: Direction) -> Result<Vec<Event>, Failure> {
    let page = store_core::PageRequest::first(1_000).after(cursor);
    let query = EventQuery::new(scope.clone()).with_direction(direction).with_page(page);
    Ok(events(given)?.list_events(query).await?.items)
}

/// An event may be in 8 topics, and in no topic twice.
pub(super) async fn an_event_is_in_eight_topics_at_most(given: &Given) -> Verdict {
    let names: Vec<String> = (0..9).map(|number| format!("topic-{number}")).collect();
    let in_topics = |count: usize| NewEvent::new(id("fact"), names[..count].iter().map(|name| topic(name)));
    let mut in_ten_scopes = in_topics(8);
    in_ten_scopes.scopes.extend([Scope::Thread(id("t")), Scope::Run(id("r"))]);
    append(given, [in_ten_scopes]).await?;
    for (draft, kind) in
        [(in_topics(9), ErrorKind::LimitExceeded), (topic_event("fact", &["topic-0", "topic-0"]), ErrorKind::Invalid)]
    {
        let request = AppendEvents::new([in_topics(1), draft]);
        expect_kind(events(given)?.append_events(request).await, kind)?;
    }
    for name in &names[..8] {
        expect_event_kinds(given, &topic(name), "fact").await?;
    }
    expect_event_kinds(given, &topic(&names[8]), "").await
}

/// A topic numbers its events from 1 without gaps, in the order of their appends. A topic, a thread and a run of one
/// name are different scopes.
pub(super) async fn a_topic_numbers_its_events(given: &Given) -> Verdict {
    append(given, [topic_event("1", &["x"]), topic_event("2", &["x", "y"])]).await?;
    append(given, [NewEvent::new(id("thread"), [Scope::Thread(id("x"))]), topic_event("3", &["y"])]).await?;
    append(given, [NewEvent::new(id("run"), [Scope::Run(id("x"))]), topic_event("4", &["x"])]).await?;
    for (scope, kinds, count) in [
        (topic("x"), "1 2 4", 3),
        (topic("y"), "2 3", 2),
        (Scope::Thread(id("x")), "thread", 1),
        (Scope::Run(id("x")), "run", 1),
    ] {
        expect_event_kinds(given, &scope, kinds).await?;
        let info = events(given)?.load_scope(&scope).await?;
        expect_eq((info.appended, info.floor, info.events), (count, 0, count))?;
        expect_eq(events(given)?.count_events(&scope, &EventFilter::default()).await?, count)?;
    }
    Ok(())
}

/// A list of a topic continues at the cursor of any of its events, in both directions, and can be filtered. A cursor
/// of one topic is refused by another.
pub(super) async fn a_list_of_a_topic_continues_after_its_cursor(given: &Given) -> Verdict {
    let audit = topic_event("b", &["x", "y"]).with_visibility(EventVisibility::Audit);
    let appended = append(given, [topic_event("a", &["x", "y"]), audit, topic_event("c", &["x"])]).await?;
    let cursor = expect_some(appended[1].cursor(&topic("x")).cloned(), "cursor")?;
    let kinds = |found: Vec<Event>| found.iter().map(|event| event.kind.to_string()).collect::<Vec<_>>();
    expect_eq(kinds(list_after(given, &topic("x"), cursor.clone(), Direction::Forward).await?), ["c"])?;
    expect_eq(kinds(list_after(given, &topic("x"), cursor.clone(), Direction::Backward).await?), ["a"])?;
    let public = EventQuery::new(topic("x")).with_filter(EventFilter::public());
    expect_eq(kinds(events(given)?.list_events(public).await?.items), ["a", "c"])?;
    for scope in [topic("y"), Scope::Thread(id("x"))] {
        let query = EventQuery::new(scope).with_page(store_core::PageRequest::first(1).after(cursor.clone()));
        expect_kind(events(given)?.list_events(query).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// The key of an append belongs to its topics, too. The order in which the scopes are given does not matter.
pub(super) async fn topics_are_part_of_the_content_of_an_append(given: &Given) -> Verdict {
    let request = |topics: &[&str]| AppendEvents::new([topic_event("fact", topics)]).with_key(id("w"), id("k"));
    let first = events(given)?.append_events(request(&["x", "y"])).await?;
    let repeated = events(given)?.append_events(request(&["y", "x"])).await?;
    expect_eq((repeated.deduplicated, &repeated.events), (true, &first.events))?;
    for other in [&["x"][..], &["x", "z"], &["x", "y", "z"]] {
        let answer = events(given)?.append_events(request(other)).await;
        expect_kind(answer, ErrorKind::IdempotencyMismatch)?;
    }
    expect_event_kinds(given, &topic("x"), "fact").await?;
    expect_event_kinds(given, &topic("z"), "").await
}

/// An append can state how many events a topic has had. Of several appends that state the same number, one succeeds.
pub(super) async fn an_append_can_expect_the_count_of_a_topic(given: &Given) -> Verdict {
    let store = events(given)?;
    for count in 0..10 {
        let results = run_concurrently(4, |_| {
            let store = Arc::clone(&store);
            let request = AppendEvents::new([topic_event("fact", &["x", "y"])]).expecting(topic("y"), count);
            async move { store.append_events(request).await }
        });
        let (_, errors) = expect_exactly_one(results.await)?;
        expect_kinds(errors, ErrorKind::Conflict)?;
    }
    let elsewhere = AppendEvents::new([topic_event("fact", &["x"])]).expecting(topic("y"), 10);
    expect_kind(store.append_events(elsewhere).await, ErrorKind::Invalid)?;
    expect_eq(store.load_scope(&topic("x")).await?.appended, 10)
}

async fn next_kinds(stream: &mut EventStream, count: usize) -> Result<Vec<String>, Failure> {
    const MAX_WAIT: Duration = Duration::from_secs(20);
    let mut kinds = Vec::new();
    while kinds.len() < count {
        let next = timeout(MAX_WAIT, poll_fn(|context| stream.as_mut().poll_next(context))).await;
        let next = next.map_err(|_| Failure::new(format!("only {} of {count} events arrived", kinds.len())))?;
        kinds.push(expect_some(next, "event")??.kind.to_string());
    }
    Ok(kinds)
}

/// A subscription to a topic delivers what is stored, and then what appends, commits and writes of documents add.
pub(super) async fn a_topic_can_be_subscribed(given: &Given) -> Verdict {
    append(given, [topic_event("stored", &["x"])]).await?;
    let subscribe = Subscribe::new(topic("x"), SubscriptionStart::First);
    let mut stream = events(given)?.subscribe(subscribe).await?.events;
    let from_now = Subscribe::new(topic("x"), SubscriptionStart::Now);
    let mut new_events = events(given)?.subscribe(from_now).await?.events;
    expect_eq(next_kinds(&mut stream, 1).await?, ["stored"])?;
    append(given, [topic_event("appended", &["x"]), topic_event("other", &["y"])]).await?;
    let by_commit = AppendEvents::new([topic_event("committed", &["x"])]);
    given.expect_accepted(Commit::new(id("t")).with_events(by_commit)).await?;
    let request = store_core::WriteDocuments::default();
    let request = request.with_events(AppendEvents::new([topic_event("written", &["y", "x"])]));
    let _written = super::helpers::documents(given)?.write_documents(request).await?;
    let wanted = ["appended", "committed", "written"];
    expect_eq(next_kinds(&mut stream, 3).await?, wanted)?;
    expect_eq(next_kinds(&mut new_events, 3).await?, wanted)
}

/// A trim removes the oldest events of a topic. They stay in their other scopes, and numbers are not used again.
pub(super) async fn a_topic_can_be_trimmed(given: &Given) -> Verdict {
    let in_both = |kind: &str| topic_event(kind, &["x", "y"]);
    let appended = append(given, [in_both("a"), in_both("b"), in_both("c")]).await?;
    let cursor_of = |at: usize| expect_some(appended[at].cursor(&topic("x")).cloned(), "cursor");
    let trim = TrimRequest::new(topic("x"), TrimBefore::Cursor(cursor_of(1)?));
    let trimmed = events(given)?.trim_events(trim).await?;
    expect_eq((trimmed.events, trimmed.floor), (2, 2))?;
    expect_event_kinds(given, &topic("x"), "c").await?;
    expect_event_kinds(given, &topic("y"), "a b c").await?;
    let expired = EventQuery::new(topic("x")).with_page(store_core::PageRequest::first(1).after(cursor_of(0)?));
    expect_kind(events(given)?.list_events(expired).await, ErrorKind::CursorExpired)?;
    expect_eq(list_after(given, &topic("x"), cursor_of(1)?, Direction::Forward).await?.len(), 1)?;
    append(given, [in_both("d")]).await?;
    expect_eq(events(given)?.load_scope(&topic("x")).await?.appended, 4)
}

/// A commit may append to any topics, alone or beside the scopes of its thread. If it is refused, nothing is appended.
pub(super) async fn a_commit_appends_to_topics(given: &Given) -> Verdict {
    let mut in_thread = topic_event("turn", &["x", "y"]);
    in_thread.scopes.push(Scope::Thread(id("t")));
    let commit = |events: AppendEvents| keyed_commit_with_message(&id("t"), "k", "x").with_events(events);
    let drafts = [in_thread, topic_event("alone", &["y"])];
    let receipt = given.commit(commit(AppendEvents::new(drafts.clone()))).await?;
    expect_eq(receipt.events.len(), 2)?;
    let cursors: Vec<_> = receipt.events.iter().map(|event| event.cursors.topics.len()).collect();
    expect_eq(cursors, [2, 1])?;
    expect_event_kinds(given, &topic("x"), "turn").await?;
    expect_event_kinds(given, &topic("y"), "turn alone").await?;
    expect_event_kinds(given, &Scope::Thread(id("t")), "turn").await?;
    let repeated = given.commit(commit(AppendEvents::new(drafts.clone()))).await?;
    expect_eq((repeated.deduplicated, repeated.events), (true, receipt.events))?;
    let refused = Commit::new(id("t")).with_events(AppendEvents::new(drafts).expecting(topic("y"), 7));
    expect_kind(given.commits()?.commit(refused).await, ErrorKind::Conflict)?;
    expect_event_kinds(given, &topic("y"), "turn alone").await
}

/// Topics and their cursors survive a reopen, and new events follow the earlier ones.
pub(super) async fn topics_survive_a_reopen(given: &Given) -> Verdict {
    append(given, [topic_event("a", &["x"]), topic_event("b", &["x", "y"])]).await?;
    let before = (all_events(given, &topic("x")).await?, all_events(given, &topic("y")).await?);
    given.reopen().await?;
    expect_eq((all_events(given, &topic("x")).await?, all_events(given, &topic("y")).await?), before.clone())?;
    append(given, [topic_event("c", &["x"])]).await?;
    let cursor = expect_some(before.0[1].cursor(&topic("x")).cloned(), "cursor")?;
    expect_eq(list_after(given, &topic("x"), cursor, Direction::Forward).await?.len(), 1)?;
    expect_event_kinds(given, &topic("x"), "a b c").await
}

/// The events of a topic stay when a thread is deleted that they also belong to.
pub(super) async fn topics_outlive_threads(given: &Given) -> Verdict {
    let mut draft = topic_event("turn", &["x"]);
    draft.scopes.push(Scope::Thread(id("t")));
    given.expect_accepted(Commit::new(id("t")).with_events(AppendEvents::new([draft]))).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_event_kinds(given, &topic("x"), "turn").await?;
    append(given, [topic_event("later", &["x"])]).await?;
    expect_event_kinds(given, &topic("x"), "turn later").await
}

/// A tenant that has only events in topics, or only documents, is in the list of tenants. Its deletion removes them.
pub(super) async fn a_tenant_with_topics_or_documents_exists(given: &Given) -> Verdict {
    let facts = AppendEvents::new([topic_event("fact", &["x"])]);
    expect_some(given.tenant("topics")?.events, "events")?.append_events(facts).await?;
    let documents = expect_some(given.tenant("documents")?.documents, "documents")?;
    let _written = documents.write_documents(store_core::WriteDocuments::new([super::helpers::put("a", "x")])).await?;
    let names = given.store().list_tenants(store_core::PageRequest::default()).await?.items;
    expect_eq(names, vec![id("documents"), id("topics")])?;
    for name in ["topics", "documents"] {
        given.store().delete_tenant(&id(name)).await?;
    }
    let names = given.store().list_tenants(store_core::PageRequest::default()).await?.items;
    expect(names.is_empty(), format!("{names:?} still exist"))?;
    let events = expect_some(given.tenant("topics")?.events, "events")?;
    expect_eq(events.load_scope(&topic("x")).await?.appended, 0)
}
