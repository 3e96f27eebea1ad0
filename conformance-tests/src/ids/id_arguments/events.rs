//! Ids of events: thread, run, kind, origin, writer, key, causation, correlation.

use store_core::{
    AppendEvents, AppendedEvents, Event, EventFilter, EventQuery, EventStore, NewEvent, Scope, Subscribe,
    SubscriptionStart,
};

use crate::{
    Failure, Verdict,
    check::{expect, expect_eq},
    event::next_event,
    given::id,
};

fn scopes(text: &str) -> [Scope; 2] {
    [Scope::Thread(id(text)), Scope::Run(id(text))]
}

/// Two appends of the same event. The first has `text` as its writer, and a key that is the same for all texts. The
/// second has `text` as its key, and a writer that is the same for all texts.
fn append_requests(text: &str) -> [AppendEvents; 2] {
    let mut draft = NewEvent::new(id(text), scopes(text));
    (draft.origin, draft.causation_id, draft.correlation_id) = (Some(id(text)), Some(id(text)), Some(id(text)));
    [(text, "key"), ("writer", text)]
        .map(|(writer, key)| AppendEvents::new([draft.clone()]).with_key(id(writer), id(key)))
}

/// Makes both appends of `text`.
async fn append_both(store: &dyn EventStore, text: &str) -> Result<[AppendedEvents; 2], Failure> {
    let [by_writer, by_key] = append_requests(text);
    Ok([store.append_events(by_writer).await?, store.append_events(by_key).await?])
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(store: &dyn EventStore, text: &str) -> Verdict {
    for appended in append_both(store, text).await? {
        expect(!appended.deduplicated, "the first append was deduplicated")?;
    }
    Ok(())
}

/// Repeats the two appends of `text`, and checks that their events are found by each id.
pub(super) async fn expect_found_by_each_id(store: &dyn EventStore, text: &str) -> Verdict {
    let repeats = append_both(store, text).await?;
    expect(repeats.iter().all(|repeat| repeat.deduplicated), "a repeat with the key was not deduplicated")?;
    let events: Vec<Event> = repeats.into_iter().flat_map(|repeat| repeat.events).collect();
    let mut filter = EventFilter::default();
    filter.kinds = Some(vec![id(text)]);
    for scope in scopes(text) {
        expect_eq(store.load_scope(&scope).await?.appended, 2)?;
        expect_eq(store.count_events(&scope, &filter).await?, 2)?;
        expect_eq(&store.list_events(EventQuery::new(scope.clone())).await?.items, &events)?;
        let mut stream = store.subscribe(Subscribe::new(scope, SubscriptionStart::First)).await?.events;
        for event in &events {
            expect_eq(next_event(&mut stream).await.transpose()?.as_ref(), Some(event))?;
        }
    }
    for event in events {
        expect_eq((&event.thread, &event.run), (&Some(id(text)), &Some(id(text))))?;
        expect_eq((&event.kind, &event.origin), (&id(text), &Some(id(text))))?;
        expect_eq((&event.causation_id, &event.correlation_id), (&Some(id(text)), &Some(id(text))))?;
    }
    Ok(())
}
