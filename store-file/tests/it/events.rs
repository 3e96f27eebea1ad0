//! Where events stand, and who reads them there.

use std::{fs, path::PathBuf};

use store_core::{
    AppendEvents, AppendedEvents, DeleteRequest, ErrorKind, Event, EventQuery, EventStream, IgnoreProgress, NewEvent,
    PageRequest, Result, Scope, Store, Subscribe, SubscriptionStart, TrimBefore, TrimRequest,
};
use store_file::FileStore;

use crate::folder::{Place, answers, commits, edit, say, saying, thread, threads};

fn scope(id: &str) -> Scope {
    Scope::Thread(thread(id))
}

fn facts(id: &str, kinds: &[&str]) -> AppendEvents {
    AppendEvents::new(kinds.iter().map(|kind| NewEvent::new(kind.parse().unwrap(), [scope(id)])))
}

async fn append(store: &FileStore, request: AppendEvents) -> AppendedEvents {
    commits(store).events().append_events(request).await.unwrap()
}

async fn listed(store: &FileStore, id: &str) -> Result<Vec<Event>> {
    let query = EventQuery::new(scope(id)).with_page(PageRequest::first(1_000));
    Ok(commits(store).events().list_events(query).await?.items)
}

async fn next(events: &mut EventStream) -> Option<Result<Event>> {
    std::future::poll_fn(|context| events.as_mut().poll_next(context)).await
}

/// The logs of an id: without the rest of their names.
fn logs(place: &Place, id: &str) -> Vec<PathBuf> {
    let is_its = |log: &PathBuf| log.file_name().unwrap().to_str().unwrap().starts_with(&format!("{id}."));
    place.logs().into_iter().filter(is_its).collect()
}

/// Three events of a thread in a commit and alone, under the key `k` of the writer `w`, the first of them trimmed.
async fn filled(place: &Place) -> (FileStore, Vec<Event>) {
    let store = place.open();
    let _ = commits(&store).commit(saying("t", "hello").with_events(facts("t", &["a", "b"]))).await.unwrap();
    let keyed = facts("t", &["c"]).with_key("w".parse().unwrap(), "k".parse().unwrap());
    append(&store, keyed).await;
    let first = listed(&store, "t").await.unwrap().remove(0);
    let trim = TrimRequest::new(scope("t"), TrimBefore::Cursor(first.cursors.thread.unwrap()));
    assert_eq!(commits(&store).events().trim_events(trim).await.unwrap().events, 1);
    let left = listed(&store, "t").await.unwrap();
    assert_eq!(left.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    (store, left)
}

/// Shows EV-26, TH-21 and FI-2: the log of a deleted thread goes, its events stay, and numbers go on.
#[tokio::test]
async fn events_survive_the_removal_of_the_log_of_their_thread() {
    let place = Place::new();
    let (store, left) = filled(&place).await;
    assert_eq!(logs(&place, "t").len(), 2);
    threads(&store).delete_thread(&thread("t"), DeleteRequest::default()).await.unwrap();
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    let kept = logs(&place, "t");
    assert!(kept.len() == 1 && kept[0].to_str().unwrap().ends_with(".0.jsonl"), "{kept:?}");
    assert_eq!(listed(&store, "t").await.unwrap(), left);
    let again = facts("t", &["c"]).with_key("w".parse().unwrap(), "k".parse().unwrap());
    assert!(append(&store, again.clone()).await.deduplicated);
    assert!(store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings.is_empty());
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert_eq!(listed(&store, "t").await.unwrap(), left);
    assert!(append(&store, again).await.deduplicated);
    let info = commits(&store).events().load_scope(&scope("t")).await.unwrap();
    assert_eq!((info.appended, info.floor), (3, 1));
    assert!(store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings.is_empty());
}

/// Shows FI-10 and EV-24: without the index events, keys and floors are worked out again from the logs.
#[tokio::test]
async fn the_index_of_events_can_be_rebuilt() {
    let place = Place::new();
    let (store, left) = filled(&place).await;
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert_eq!(listed(&store, "t").await.unwrap(), left);
    let appended = append(&store, facts("t", &["d"])).await.events.remove(0);
    let info = commits(&store).events().load_scope(&scope("t")).await.unwrap();
    assert_eq!((info.appended, info.floor, info.last), (4, 1, appended.cursors.thread));
}

/// Shows EV-21 and FI-15: a reader in another process hears of events, even if their thread goes meanwhile.
#[tokio::test]
async fn a_reader_follows_the_events_of_a_writing_process() {
    let place = Place::new();
    let (store, left) = filled(&place).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let begun =
        commits(&reader).events().subscribe(Subscribe::new(scope("t"), SubscriptionStart::First)).await.unwrap();
    let mut events = begun.events;
    let mut seen = vec![next(&mut events).await.unwrap().unwrap(), next(&mut events).await.unwrap().unwrap()];
    assert_eq!(seen, left);
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        append(&writer, facts("t", &["d"])).await;
        threads(&writer).delete_thread(&thread("t"), DeleteRequest::default()).await.unwrap();
        threads(&writer).purge_deleted(&IgnoreProgress).await.unwrap();
        let _ = commits(&writer).commit(saying("t", "anew").with_events(facts("t", &["e"]))).await;
        append(&writer, facts("t", &["f"])).await;
    });
    while seen.len() < 4 {
        seen.push(next(&mut events).await.unwrap().unwrap());
    }
    writing.await.unwrap();
    // A deleted id is made again by a guarded commit only: `e` was refused.
    assert_eq!(seen, listed(&store, "t").await.unwrap());
    reader.close().await.unwrap();
    assert_eq!(next(&mut events).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

/// Shows EV-21 and FI-15: a reader follows a holder whose journal is used again many times, and the holder after it,
/// and sees what it would see if it was opened then.
#[tokio::test]
async fn a_reader_follows_through_many_journals() {
    let place = Place::new();
    let small = || place.config().with_journal_bytes(16 << 10);
    let store = FileStore::open(place.root(), small()).unwrap();
    append(&store, facts("t", &["first"])).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let begun =
        commits(&reader).events().subscribe(Subscribe::new(scope("t"), SubscriptionStart::First)).await.unwrap();
    let mut events = begun.events;
    let mut seen = vec![next(&mut events).await.unwrap().unwrap()];
    let mut store = store;
    for round in 0..6 {
        for number in 0..20 {
            say(&store, &format!("other-{round}-{}", number % 5), "something else").await.unwrap();
            append(&store, facts("t", &[&format!("{round}.{number}")])).await;
            if number % 7 == 0 {
                seen.push(next(&mut events).await.unwrap().unwrap());
            }
        }
        threads(&store).delete_thread(&thread(&format!("other-{round}-0")), DeleteRequest::default()).await.unwrap();
        threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
        if round % 2 == 1 {
            store.close().await.unwrap();
            store = FileStore::open(place.root(), small()).unwrap();
        }
    }
    append(&store, facts("t", &["last"])).await;
    while seen.len() < 122 {
        seen.push(next(&mut events).await.unwrap().unwrap());
    }
    assert_eq!(seen, listed(&store, "t").await.unwrap());
    let opened_now = FileStore::open(place.root(), place.config().read_only()).unwrap();
    assert_eq!(answers(&reader).await.unwrap(), answers(&opened_now).await.unwrap());
    assert_eq!(answers(&reader).await.unwrap(), answers(&store).await.unwrap());
}

/// Shows EV-14: a reader that is given a cursor of an event that it has not read yet goes on behind that one.
#[tokio::test]
async fn a_reader_continues_after_a_cursor_of_the_writing_process() {
    let place = Place::new();
    let (store, _) = filled(&place).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let newer = append(&store, facts("t", &["d"])).await.events.remove(0).cursors.thread.unwrap();
    let last = append(&store, facts("t", &["e"])).await.events;
    let begun =
        commits(&reader).events().subscribe(Subscribe::new(scope("t"), SubscriptionStart::After(newer))).await.unwrap();
    let mut events = begun.events;
    assert_eq!(next(&mut events).await.unwrap().unwrap(), last[0]);
}

/// Shows FI-4: a damaged log of events is told, and concerns its own id only.
#[tokio::test]
async fn a_damaged_event_log_is_reported() {
    let place = Place::new();
    let store = place.open();
    append(&store, facts("t", &["a"])).await;
    append(&store, facts("t", &["b"])).await;
    append(&store, facts("u", &["c"])).await;
    store.close().await.unwrap();
    edit(&logs(&place, "t")[0], |log| log[300] ^= 1);
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert_eq!(store.opening().damaged.len(), 1, "{:?}", store.opening());
    assert_eq!(listed(&store, "t").await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(!store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings.is_empty());
    assert_eq!(listed(&store, "u").await.unwrap().len(), 1);
}

fn of_topic(topic: &str) -> AppendEvents {
    AppendEvents::new([NewEvent::new("fact".parse().unwrap(), [Scope::Topic(topic.parse().unwrap())])])
}

async fn appended(store: &FileStore, topic: &str) -> u64 {
    commits(store).events().load_scope(&Scope::Topic(topic.parse().unwrap())).await.unwrap().appended
}

/// Shows EV-3, EV-23 and FI-4: an index that is made anew beside a damaged log gives no number of a topic again,
/// although the last events of the topic stood in that log. What is lost is reported as damage, and other topics go
/// on.
#[tokio::test]
async fn numbers_of_a_topic_are_not_given_again_after_damage() {
    let place = Place::new();
    let store = place.open();
    append(&store, of_topic("t")).await;
    append(&store, of_topic("t")).await;
    for _ in 0..3 {
        let _ = commits(&store).commit(saying("a", "x").with_events(of_topic("t"))).await.unwrap();
    }
    // The event stands in the log of the first topic.
    let both = ["other", "t"].map(|topic| Scope::Topic(topic.parse().unwrap()));
    append(&store, AppendEvents::new([NewEvent::new("both".parse().unwrap(), both)])).await;
    assert_eq!((appended(&store, "t").await, appended(&store, "other").await), (6, 1));
    store.close().await.unwrap();
    // In the middle of a log, and at the end of logs, where it is set aside.
    for (log, group) in [("a", 1), ("a", 2), ("_topic_other", 0), ("_topic_t", 1)] {
        let place = place.copy();
        let log = place.log(log);
        let start = crate::damage::groups(&log)[group];
        edit(&log, |bytes| bytes[start + 40] ^= 4);
        fs::remove_dir_all(place.root().join("index")).unwrap();
        let store = place.open();
        assert_eq!(store.opening().damaged.len() + store.opening().set_aside.len(), 1);
        assert_eq!(appended(&store, "t").await, 6);
        let topic = EventQuery::new(Scope::Topic("t".parse().unwrap()));
        let read = async || commits(&store).events().list_events(topic.clone()).await.map(|page| page.items.len());
        assert_eq!(read().await.unwrap_err().kind(), ErrorKind::Corrupt, "the last events are missing");
        append(&store, of_topic("t")).await;
        assert_eq!(appended(&store, "t").await, 7);
        append(&store, of_topic("new")).await;
        let _ = commits(&store).commit(saying("b", "x").with_events(of_topic("new"))).await.unwrap();
        assert_eq!(appended(&store, "new").await, 2);
        store.close().await.unwrap();
    }
}

/// Shows FI-4: a topic takes no event while a log is damaged that may show which numbers it gave.
#[tokio::test]
async fn a_topic_with_a_damaged_log_gives_no_numbers() {
    let place = Place::new();
    let store = place.open();
    append(&store, of_topic("t")).await;
    let _ = commits(&store).commit(saying("a", "x").with_events(of_topic("t"))).await.unwrap();
    store.close().await.unwrap();
    for (log, group) in [("_topic_t", None), ("_topics", None), ("_topics", Some(0))] {
        let place = place.copy();
        let log = place.log(log);
        let at = group.map_or(0, |group: usize| crate::damage::groups(&log)[group]) + 5;
        edit(&log, |bytes| bytes[at] ^= 4);
        fs::remove_dir_all(place.root().join("index")).unwrap();
        let store = place.open();
        let appended = commits(&store).events().append_events(of_topic("t")).await;
        assert_eq!(appended.unwrap_err().kind(), ErrorKind::Corrupt, "{log:?} at {at}");
        let committed = commits(&store).commit(saying("a", "y").with_events(of_topic("t"))).await;
        assert_eq!(committed.unwrap_err().kind(), ErrorKind::Corrupt, "{log:?} at {at}");
        say(&store, "a", "works").await.unwrap();
        append(&store, facts("a", &["works"])).await;
        store.close().await.unwrap();
    }
}
