//! Several nodes with one write buffer.

use std::{sync::Arc, time::Duration};

use conformance_tests::TestLength;
use futures_util::StreamExt as _;
use store_core::{
    AppendEvents, Commit, CommitCoordinator, CommitKey, DeleteRequest, EntryQuery, ErrorKind, EventFilter, Expect,
    Limits, Message, NewEntry, NewEvent, PageRequest, Result, Scope, Store, Subscribe, SubscriptionStart, TenantId,
    ThreadId, Version, buffer::BufferTarget,
};
use store_memory::MemoryStore;
use store_nats::{BaselinePublisher, BufferReads, Buffered, TestPrefix};

use super::fixture::TempBuffer;

pub(super) fn id(text: &str) -> ThreadId {
    text.parse().unwrap()
}

pub(super) fn commits(store: &dyn Store) -> Arc<dyn CommitCoordinator> {
    store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap()
}

pub(super) fn message(thread: &str, text: &str) -> Commit {
    Commit::new(id(thread)).entry(NewEntry::new(Message::user(text)))
}

async fn two_nodes(change: impl Fn(&mut TempBuffer)) -> (TempBuffer, Buffered<MemoryStore>, Buffered<MemoryStore>) {
    let mut temp = TempBuffer::new(&Limits::default()).unwrap();
    change(&mut temp);
    let (first, second) = (temp.open().await.unwrap(), temp.open().await.unwrap());
    (temp, first, second)
}

/// Nothing is applied unless a call asks for it.
fn never_flush(temp: &mut TempBuffer) {
    temp.config.flush_interval = Duration::from_secs(3_600);
    temp.config.batch = 1_000_000;
}

pub(super) async fn count_entries(store: &dyn Store, thread: &str) -> usize {
    let query = EntryQuery::all().with_page(PageRequest::first(1_000));
    commits(store).threads().list_entries(&id(thread), query).await.unwrap().items.len()
}

/// Commits `count` messages to a thread, each guarded by the version that the one before has left.
pub(super) async fn commit_many(commits: &dyn CommitCoordinator, thread: &str, count: usize) -> Result<Version> {
    let mut version = commits.commit(message(thread, "0").expecting(Expect::Absent)).await?.version;
    for number in 1..count {
        let next = message(thread, &number.to_string()).expecting(Expect::Version(version));
        version = commits.commit(next).await?.version;
    }
    Ok(version)
}

/// Tests NB-3.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_acknowledged_every_node_shows() {
    let (temp, first, second) = two_nodes(never_flush).await;
    for number in 0..50 {
        let thread = format!("t{}", number % 5);
        let (text, key) = (number.to_string(), CommitKey::new(format!("k{number}")).unwrap());
        let receipt = commits(&first).commit(message(&thread, &text).with_key(key)).await.unwrap();
        let threads = commits(&second).threads();
        let loaded = threads.load_thread(&id(&thread)).await.unwrap().unwrap();
        assert_eq!(loaded.version, receipt.version);
        let entry = threads.load_entry(&id(&thread), &receipt.entry_ids[0]).await.unwrap().unwrap();
        assert_eq!(Some(entry.seq), receipt.first_seq);
    }
    // None of these reads needed the inner store, and lists show the same.
    assert!(commits(&temp.inner).threads().load_thread(&id("t0")).await.unwrap().is_none());
    assert_eq!(count_entries(&second, "t0").await, 10);
}

/// Tests NB-2.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_with_one_guard_exactly_one_succeeds() {
    let (_temp, first, second) = two_nodes(|_| ()).await;
    let mut version = commits(&first).commit(message("t", "0").expecting(Expect::Absent)).await.unwrap().version;
    for round in 0..50 {
        let commit = |text: &str| message("t", text).expecting(Expect::Version(version));
        let (first_commits, second_commits) = (commits(&first), commits(&second));
        let (a, b) = tokio::join!(first_commits.commit(commit("a")), second_commits.commit(commit("b")));
        let (receipt, error) = match (a, b) {
            (Ok(receipt), Err(error)) | (Err(error), Ok(receipt)) => (receipt, error),
            other => panic!("round {round}: {other:?}"),
        };
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        version = receipt.version;
    }
    assert_eq!(count_entries(&second, "t").await, 51);
}

/// Tests NB-15: one node commits events, the other one has a subscription.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_subscription_applies_events_at_once() {
    let (temp, first, second) = two_nodes(never_flush).await;
    let scope = Scope::Thread(id("t"));
    let emit = |kind: &str| {
        let event = NewEvent::new(kind.parse().unwrap(), [Scope::Thread(id("t"))]);
        let commit = message("t", kind).with_key(kind.parse().unwrap()).with_events(AppendEvents::new([event]));
        let commits = commits(&first);
        async move { commits.commit(commit).await.unwrap() }
    };
    let _receipt = emit("before").await;
    assert!(commits(&temp.inner).threads().load_thread(&id("t")).await.unwrap().is_none());
    let subscribe = Subscribe::new(scope.clone(), SubscriptionStart::First);
    let mut subscription = commits(&second).events().subscribe(subscribe).await.unwrap();
    for kind in ["before", "one", "two"] {
        if kind != "before" {
            let _receipt = emit(kind).await;
        }
        let next = tokio::time::timeout(Duration::from_secs(20), subscription.events.next()).await;
        assert_eq!(next.unwrap().unwrap().unwrap().kind.as_str(), kind);
    }
    drop(subscription);
    // No subscription is open any more, so it waits for the interval.
    let _receipt = emit("three").await;
    let inner = commits(&temp.inner).events();
    assert_eq!(inner.count_events(&scope, &EventFilter::default()).await.unwrap(), 3);
}

/// Tests NB-4 and NB-12: eight threads are written through two nodes at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn every_delta_is_applied_once_however_many_nodes_apply() {
    let (temp, first, second) = two_nodes(|temp| {
        temp.config.flush_interval = Duration::from_millis(1);
        temp.config.batch = 3;
    })
    .await;
    let writers = (0..8).map(|number| {
        let commits = commits(if number % 2 == 0 { &first } else { &second });
        async move { commit_many(&*commits, &format!("t{number}"), 30).await }
    });
    for version in futures_util::future::join_all(writers).await {
        assert_eq!(version.unwrap().number(), 30);
    }
    first.drain().await.unwrap();
    // The inner store alone has every entry once, in order.
    for number in 0..8 {
        let query = EntryQuery::all().with_page(PageRequest::first(1_000));
        let entries = commits(&temp.inner).threads().list_entries(&id(&format!("t{number}")), query).await.unwrap();
        let texts: Vec<_> = entries.items.iter().map(|entry| entry.message().unwrap().blocks.clone()).collect();
        let expected: Vec<_> = (0..30).map(|number| Message::user(number.to_string()).blocks).collect();
        assert_eq!(texts, expected);
    }
}

/// Tests NB-5.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_death_of_every_node() {
    let (temp, first, second) = two_nodes(never_flush).await;
    let _version = commit_many(&*commits(&first), "t", 20).await.unwrap();
    // The handles go away without a close, as with a process that is killed.
    drop((first, second));
    assert!(commits(&temp.inner).threads().load_thread(&id("t")).await.unwrap().is_none());
    let third = temp.open().await.unwrap();
    assert_eq!(count_entries(&third, "t").await, 20);
    third.drain().await.unwrap();
    assert_eq!(count_entries(&temp.inner, "t").await, 20);
}

/// Tests NB-10.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_of_a_thread_and_a_drain_return_when_the_inner_store_has_everything() {
    let (temp, first, second) = two_nodes(never_flush).await;
    let tenant = TenantId::default_tenant();
    let _version = commit_many(&*commits(&first), "t", 5).await.unwrap();
    let _version = commit_many(&*commits(&first), "u", 5).await.unwrap();
    second.flush(&tenant, &id("t")).await.unwrap();
    assert_eq!(count_entries(&temp.inner, "t").await, 5);
    second.drain().await.unwrap();
    assert_eq!(count_entries(&temp.inner, "u").await, 5);
    let status = first.status().await.unwrap();
    assert_eq!((status.waiting, status.last_error), (0, None));
}

/// Tests NB-10.
#[tokio::test(flavor = "multi_thread")]
async fn closing_applies_everything_and_another_node_goes_on() {
    let (temp, first, second) = two_nodes(never_flush).await;
    let _version = commit_many(&*commits(&first), "t", 5).await.unwrap();
    let inner = first.into_inner().await.unwrap();
    assert_eq!(count_entries(&inner, "t").await, 5);
    let _receipt = commits(&second).commit(message("t", "x").with_key("k".parse().unwrap())).await.unwrap();
    assert_eq!(count_entries(&second, "t").await, 6);
    drop(temp);
}

/// Tests NB-3.
#[tokio::test(flavor = "multi_thread")]
async fn reads_that_are_strong_or_eventual_show_the_inner_store() {
    for reads in [BufferReads::Strong, BufferReads::Eventual] {
        let (temp, first, second) = two_nodes(|temp| {
            never_flush(temp);
            temp.config.reads = reads;
        })
        .await;
        let receipt = commits(&first).commit(message("t", "x").expecting(Expect::Absent)).await.unwrap();
        let shown = commits(&second).threads().load_thread(&id("t")).await.unwrap();
        let stored = commits(&temp.inner).threads().load_thread(&id("t")).await.unwrap();
        assert_eq!(shown, stored);
        let expected = (reads == BufferReads::Strong).then_some(receipt.version);
        assert_eq!(shown.map(|thread| thread.version), expected);
    }
}

/// Tests NB-9.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_made_anew_is_not_touched_by_old_deltas() {
    let (temp, first, second) = two_nodes(never_flush).await;
    let version = commit_many(&*commits(&first), "t", 3).await.unwrap();
    commits(&second).threads().delete_thread(&id("t"), DeleteRequest::default()).await.unwrap();
    let late = commits(&first).commit(message("t", "late").expecting(Expect::Version(version))).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::NotFound);
    let receipt = commits(&first).commit(message("t", "anew").expecting(Expect::Absent)).await.unwrap();
    assert_eq!((receipt.version.generation(), receipt.first_seq), (2, Some(1)));
    first.drain().await.unwrap();
    assert_eq!(count_entries(&temp.inner, "t").await, 1);
}

/// Tests NB-9.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_and_commits_of_two_nodes_leave_one_history() {
    let (temp, first, second) = two_nodes(|temp| temp.config.flush_interval = Duration::from_millis(2)).await;
    for round in 0..30 {
        let thread = format!("t{round}");
        let version = commit_many(&*commits(&first), &thread, 2).await.unwrap();
        let (first_commits, second_commits) = (commits(&first), commits(&second).threads());
        let target = id(&thread);
        let (commit, deletion) = tokio::join!(
            first_commits.commit(message(&thread, "x").expecting(Expect::Version(version))),
            second_commits.delete_thread(&target, DeleteRequest::default()),
        );
        deletion.unwrap();
        match commit {
            Ok(receipt) => assert_eq!(receipt.version.number(), 3),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        }
        assert_eq!(commits(&first).threads().load_thread(&target).await.unwrap(), None);
    }
    first.drain().await.unwrap();
    for round in 0..30 {
        let stored = commits(&temp.inner).threads().load_thread(&id(&format!("t{round}"))).await.unwrap();
        assert_eq!(stored, None);
    }
}

/// Tests NB-14.
#[tokio::test(flavor = "multi_thread")]
async fn another_buffer_is_refused_until_the_first_is_detached() {
    let temp = TempBuffer::new(&Limits::default()).unwrap();
    let first = temp.open().await.unwrap();
    let _version = commit_many(&*commits(&first), "t", 3).await.unwrap();
    let mut other = TempBuffer::new(&Limits::default()).unwrap();
    other.inner = temp.inner.clone();
    let attached = temp.inner.applied_position().await.unwrap().buffer.unwrap();
    let error = other.open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&attached), "{error}");
    let inner = first.detach().await.unwrap();
    assert_eq!(count_entries(&inner, "t").await, 3);
    let second = other.open().await.unwrap();
    let _version = commit_many(&*commits(&second), "u", 3).await.unwrap();
    second.detach().await.unwrap();
    // The first one can come back: nothing of its stream is applied a second time.
    let first = temp.open().await.unwrap();
    let _receipt = commits(&first).commit(message("t", "x").with_key("k".parse().unwrap())).await.unwrap();
    assert_eq!((count_entries(&first, "t").await, count_entries(&first, "u").await), (4, 3));
}

/// Tests NB-14: a node that still writes when another one detaches the buffer acknowledges nothing that is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_detachment_beside_a_writer_loses_nothing() {
    for round in 0..5 {
        let (temp, first, second) = two_nodes(|_| ()).await;
        let commits_of_second = commits(&second);
        let of_writer = Arc::clone(&commits_of_second);
        let (progress, mut acknowledged_by_now) = tokio::sync::watch::channel(0);
        let writer = tokio::spawn(async move {
            let mut acknowledged = 0;
            loop {
                let commit = message("t", "x").with_key(CommitKey::new(acknowledged.to_string()).unwrap());
                match of_writer.commit(commit).await {
                    Ok(_) => acknowledged += 1,
                    Err(error) => return (acknowledged, error),
                }
                progress.send_replace(acknowledged);
            }
        });
        acknowledged_by_now.wait_for(|acknowledged| *acknowledged >= 10 * round).await.unwrap();
        let inner = first.detach().await.unwrap();
        let (acknowledged, error) = writer.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("detached"), "{error}");
        assert_eq!(count_entries(&inner, "t").await, acknowledged);
        let read = commits_of_second.threads().load_thread(&id("t")).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Unavailable);
        second.into_inner().await.unwrap();
        let _receipt = commits(&inner).commit(message("t", "x").with_key("alone".parse().unwrap())).await.unwrap();
        let again = temp.open().await.unwrap();
        let _receipt = commits(&again).commit(message("t", "x").with_key("again".parse().unwrap())).await.unwrap();
        assert_eq!(count_entries(&again, "t").await, acknowledged + 2);
        let inner = again.detach().await.unwrap();
        assert_eq!(count_entries(&inner, "t").await, acknowledged + 2);
    }
}

/// Tests NB-14.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_writes_is_not_put_in_front_of_another_store() {
    let mut temp = TempBuffer::new(&Limits::default()).unwrap();
    let first = temp.open().await.unwrap();
    let _version = commit_many(&*commits(&first), "t", 3).await.unwrap();
    drop(first);
    temp.inner = TempBuffer::new(&Limits::default()).unwrap().inner.clone();
    assert_eq!(temp.open().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Tests NB-8.
#[tokio::test(flavor = "multi_thread")]
async fn a_delta_that_is_too_large_is_refused_as_a_whole() {
    let (_temp, first, second) = two_nodes(|_| ()).await;
    let text = "x".repeat(400 << 10);
    let commit =
        message("t", &text).entry(NewEntry::new(Message::user(&text))).entry(NewEntry::new(Message::user(&text)));
    let error = commits(&first).commit(commit.expecting(Expect::Absent)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(commits(&second).threads().load_thread(&id("t")).await.unwrap().is_none());
    let _version = commit_many(&*commits(&second), "t", 1).await.unwrap();
}

/// Tests NB-13.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_backlog_refuses_writes_and_says_why() {
    let (_temp, first, _second) = two_nodes(|temp| {
        never_flush(temp);
        temp.config.backlog_bytes = 10 << 10;
    })
    .await;
    let error = commit_many(&*commits(&first), "t", 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    first.drain().await.unwrap();
    let _receipt = commits(&first).commit(message("t", "x").with_key("k".parse().unwrap())).await.unwrap();
}

/// How many times something can be done one after another in this time, a second.
async fn rate<F: Future<Output = ()>>(duration: Duration, mut act: impl FnMut() -> F) -> f64 {
    let (began, mut count) = (tokio::time::Instant::now(), 0_u32);
    while began.elapsed() < duration {
        act().await;
        count += 1;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// Prints how many commits to one thread are acknowledged one after another, beside messages that are only published.
/// Meanwhile another node reads what each commit has written, and shows it (NB-3).
#[tokio::test(flavor = "multi_thread")]
async fn reads_after_commits_are_never_stale_and_figures_are_printed() {
    let (temp, first, second) = two_nodes(|_| ()).await;
    let duration = Duration::from_millis(TestLength::pick_by_env(300, 1_000, 5_000));
    let publisher = BaselinePublisher::open(&TestPrefix::from_config(temp.config.servers.clone())).await.unwrap();
    let body = "x".repeat(600);
    let published = rate(duration, || async { publisher.publish(&body, 1).await.unwrap() }).await;
    let (commits, numbers) = (commits(&first), std::sync::atomic::AtomicU64::new(0));
    let commit_next = || async {
        let key = format!("k{}", numbers.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        commits.commit(message("t", &key).with_key(CommitKey::new(&key).unwrap())).await.unwrap()
    };
    let committed = rate(duration, || async { drop(commit_next().await) }).await;
    let threads = self::commits(&second).threads();
    let pairs = TestLength::pick_by_env(100, 1_000, 10_000);
    for _ in 0..pairs {
        let receipt = commit_next().await;
        let shown = threads.load_thread(&id("t")).await.unwrap().unwrap();
        assert_eq!(shown.version, receipt.version);
    }
    let share = 100.0 * committed / published;
    println!("{committed:.0} commits and {published:.0} messages a second, {share:.0} %; {pairs} reads, none stale");
}
