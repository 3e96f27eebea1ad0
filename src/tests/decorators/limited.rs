//! What is refused for a tenant, with which error, and that nothing is written (CP-9).

use std::{fmt::Debug, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, AppendPending, BlobStoreExt, ClaimRequest, Commit, Detail, DocumentChange, DocumentKey, ErrorKind,
    Expect, Json, KeySegment, Limits, Message, NewDispatch, NewEntry, NewEvent, NewInput, NewThread, Scope, Settlement,
    TenantId, ThreadFields, ThreadPatch, Timestamp, WriteDocuments,
};

use crate::{Clock, Limited, ManualClock, OpenOptions, Rate, Stores, TenantLimits};

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

async fn open(limited: Limited) -> (Stores, ManualClock) {
    let clock = ManualClock::new(Timestamp::from_millis(1_000_000).unwrap());
    let options = OpenOptions::new().with_clock(Arc::new(clock.clone()));
    let stores = options.open("memory:").await.unwrap();
    (stores.decorated(&limited.with_clock(Arc::new(clock.clone()))), clock)
}

fn message_of(bytes: usize) -> Message {
    Message::user("x".repeat(bytes))
}

fn commit_of(thread: &str, bytes: usize) -> Commit {
    let commit = Commit::new(thread.parse().unwrap()).expecting(Expect::Absent);
    commit.entry(NewEntry::new(message_of(bytes)))
}

async fn enqueue(stores: &Stores, tenant: &TenantId, bytes: &[usize]) -> store_core::Result<usize> {
    let payload = |bytes: &usize| Json::of(&"x".repeat(*bytes)).unwrap();
    let dispatch = |bytes| NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap()).with_payload(payload(bytes));
    stores.mailbox(tenant)?.enqueue(bytes.iter().map(dispatch).collect()).await.map(|answers| answers.len())
}

/// Checks that a call was refused because it came too soon, and for no other reason.
fn expect_above_rate(answer: store_core::Result<impl Debug>) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
    assert!(error.to_string().contains("4 writes in a second"), "{error}");
}

/// Tests CP-9: each call that adds something too large is refused with `LimitExceeded`, for the tenants that have the
/// limit, and nothing is written.
#[tokio::test]
async fn calls_that_are_too_large_are_refused_as_a_whole() {
    let mut sizes = Limits::default();
    (sizes.record_bytes, sizes.text_bytes, sizes.call_dispatches) = (1_000, 10, 2);
    let limits = TenantLimits::new().with_sizes(sizes).with_object_bytes(100);
    let (stores, _) = open(Limited::new(limits).with_tenant(tenant("big"), TenantLimits::new())).await;
    let (small, big) = (tenant("small"), tenant("big"));
    for (of, is_refused) in [(&small, true), (&big, false)] {
        let handles = stores.tenant(of).unwrap();
        let (commits, threads) = (handles.commits.unwrap(), handles.threads.unwrap());
        let mut results = Vec::new();
        results.push(("commit", commits.commit(commit_of("a", 2_000)).await.map(drop)));
        let title = "a title that is too long";
        let mut fields = ThreadFields::default();
        fields.title = Some(title.to_owned());
        let new_thread = NewThread::new("b".parse().unwrap()).with_fields(fields);
        results.push(("create_thread", threads.create_thread(new_thread).await.map(drop)));
        let inputs = AppendPending::new("c".parse().unwrap(), [NewInput::message(message_of(2_000))]);
        results.push(("append_pending", commits.pending().append_pending(inputs).await.map(drop)));
        let long_text = || Json::of(&"x".repeat(2_000)).unwrap();
        let event = NewEvent::new("kind".parse().unwrap(), [Scope::Topic("news".parse().unwrap())]);
        let events = AppendEvents::new([event.with_payload(long_text())]);
        results.push(("append_events", commits.events().append_events(events).await.map(drop)));
        let key = DocumentKey::new("c".parse().unwrap(), [KeySegment::id("k").unwrap()]).unwrap();
        let write = WriteDocuments::new([DocumentChange::put(key, long_text())]);
        results.push(("write_documents", commits.documents().unwrap().write_documents(write).await.map(drop)));
        results.push(("enqueue", enqueue(&stores, of, &[1, 2_000]).await.map(drop)));
        results.push(("enqueue many", enqueue(&stores, of, &[1, 1, 1]).await.map(drop)));
        let blobs = stores.blobs(of).unwrap();
        results.push(("put_bytes", blobs.put_bytes(vec![0; 200]).await.map(drop)));
        for (call, result) in results {
            let kind = result.err().map(|error| error.kind());
            assert_eq!(kind, is_refused.then_some(ErrorKind::LimitExceeded), "{call} of {of}");
        }
        let threads = threads.count_threads(&Default::default()).await.unwrap();
        let queued = stores.mailbox(of).unwrap().count_dispatches(None).await.unwrap().queued;
        assert_eq!((threads > 0, queued), (!is_refused, if is_refused { 0 } else { 5 }), "{of}");
        let objects = handles.objects.unwrap().list_objects(Default::default()).await.unwrap().items;
        assert_eq!(objects.is_empty(), is_refused);
    }
    let handles = stores.tenant(&small).unwrap();
    let _receipt = handles.commits.as_ref().unwrap().commit(commit_of("t", 100)).await.unwrap();
    let patch = ThreadPatch::default().with_title("a title that is too long");
    let update = handles.threads.unwrap().update_thread(&"t".parse().unwrap(), patch, Expect::Any).await;
    let error = update.unwrap_err();
    assert!(matches!(error.detail(), Detail::LimitExceeded { limit: "title bytes", max: 10, .. }), "{error:?}");
}

/// Tests CP-9: calls that come too soon are refused with a retryable error that says when to repeat them. Each tenant
/// has its own rate, and what ends work is never refused.
#[tokio::test]
async fn calls_that_come_too_soon_are_refused() {
    let writes = TenantLimits::new().with_writes(Rate::per_second(4).with_burst(3));
    let (stores, clock) = open(Limited::new(writes).with_tenant(tenant("free"), TenantLimits::new())).await;
    let (one, two, free) = (tenant("one"), tenant("two"), tenant("free"));
    let mut made = 0;
    let mut commit = async |of: &TenantId| {
        made += 1;
        stores.commits(of).unwrap().commit(commit_of(&format!("t-{made}"), 1)).await.map(drop)
    };
    for of in [&one, &two] {
        for _ in 0..3 {
            commit(of).await.unwrap();
        }
        let error = commit(of).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
        assert!(error.to_string().contains("4 writes in a second: repeat the call in 250 ms"), "{error}");
    }
    for _ in 0..20 {
        commit(&free).await.unwrap();
    }
    clock.advance(Duration::from_millis(249));
    expect_above_rate(commit(&one).await);
    clock.advance(Duration::from_millis(1));
    commit(&one).await.unwrap();
    expect_above_rate(commit(&one).await);
    // A long time gives no more than the burst, and a clock that goes back gives nothing.
    clock.advance(Duration::from_hours(1));
    for _ in 0..3 {
        commit(&one).await.unwrap();
    }
    expect_above_rate(commit(&one).await);
    clock.set(clock.now().saturating_sub(Duration::from_hours(2)));
    expect_above_rate(commit(&one).await);
    clock.advance(Duration::from_millis(250));
    enqueue(&stores, &one, &[1]).await.unwrap();
    expect_above_rate(enqueue(&stores, &one, &[1]).await);
    let mailbox = stores.mailbox(&one).unwrap();
    let claims = mailbox.claim(ClaimRequest::new("w".parse().unwrap(), Duration::from_secs(30))).await.unwrap();
    let claim = claims.claimed[0].claim();
    let settled = mailbox.settle(vec![(claim, Settlement::Ack { result: None })]).await.unwrap();
    assert!(settled[0].is_ok());
}
