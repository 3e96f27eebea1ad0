//! What one process writes another one hears of (EV-14, LV-8, PO-13).

use std::{sync::Arc, time::Duration};

use conformance_tests::{Fixture, Opened};
use futures_util::StreamExt;
use store_core::{
    AppendEvents, ClaimNumber, DeliverLive, Limits, LiveCommand, LiveDelivery, LiveTarget, NewDispatch, NewEvent,
    Scope, Start, Store, Subscribe, TenantId, TenantStores, ThreadId, Waited,
};

/// A store, the same opened again, and the handles of both.
async fn two() -> (Opened, Arc<dyn Store>, [TenantStores; 2]) {
    let fixture = crate::fixture();
    let opened = fixture.open(Limits::default()).await.unwrap();
    let other = fixture.open_beside(&opened).await.unwrap();
    let tenant = TenantId::default_tenant();
    let stores = [opened.store.tenant(&tenant).unwrap(), other.tenant(&tenant).unwrap()];
    (opened, other, stores)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_subscribers_of_another_process() {
    let (_opened, _beside, [one, other]) = two().await;
    let scope = Scope::Thread(ThreadId::new("t").unwrap());
    let mut events = one.events.unwrap().subscribe(Subscribe::new(scope.clone(), Start::First)).await.unwrap().events;
    for number in 1..=20_u32 {
        let fact = NewEvent::new(format!("n-{number}").parse().unwrap(), [scope.clone()]);
        other.events.as_ref().unwrap().append_events(AppendEvents::new([fact])).await.unwrap();
        let heard = events.next().await.unwrap().unwrap();
        assert_eq!(heard.kind.as_str(), format!("n-{number}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_wakes_who_waits_in_another_process() {
    let (_opened, _beside, [one, other]) = two().await;
    let wake_ups = one.wake_ups.unwrap();
    let waiting = tokio::spawn(async move { wake_ups.wait(Duration::from_mins(1)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let new = NewDispatch::new(ThreadId::new("t").unwrap(), "r".parse().unwrap());
    other.mailbox.unwrap().enqueue(vec![new]).await.unwrap().remove(0).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Waited::Woken);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_receivers_of_another_process() {
    let (_opened, _beside, [one, other]) = two().await;
    let (here, there) = (one.live.unwrap(), other.live.unwrap());
    let claim = ClaimNumber { incarnation: 1, counter: 7 };
    let target = LiveTarget::new("t".parse().unwrap(), "r".parse().unwrap(), "d".parse().unwrap(), claim);
    let cancel = || DeliverLive::new(target.clone(), LiveCommand::Cancel);
    assert_eq!(there.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
    let mut receiver = here.open_live(target.clone()).await.unwrap();
    for _ in 0..20 {
        let (delivered, received) =
            tokio::join!(there.deliver(cancel()), async { receiver.next().await.unwrap().unwrap().accept() });
        assert_eq!((delivered.unwrap(), received), (LiveDelivery::Delivered, Some(LiveCommand::Cancel)));
    }
    // Whoever opens it later has it, wherever.
    let mut later = there.open_live(target.clone()).await.unwrap();
    assert!(receiver.next().await.unwrap().is_none());
    let (delivered, ()) = tokio::join!(here.deliver(cancel()), async { drop(later.next().await) });
    assert_eq!(delivered.unwrap(), LiveDelivery::NoReceiver);
    drop(later);
    assert_eq!(here.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
}
