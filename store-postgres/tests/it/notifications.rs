//! A process is notified of the writes of another process, even if both keep only handles of a tenant (EV-14, LV-8,
//! PO-13, PR-8).

use std::time::Duration;

use futures_util::StreamExt;
use store_core::{
    AppendEvents, ClaimNumber, DeliverLive, Limits, LiveCommand, LiveDelivery, LiveTarget, NewDispatch, NewEvent,
    Scope, Subscribe, SubscriptionStart, TenantStores, ThreadId, WaitResult,
};
use tokio::time::Instant;

use crate::{faults::helpers::stores, fixture::SchemaGuard};

/// Opens a store twice. Returns the schema, and the handles of both stores.
async fn open_twice() -> (SchemaGuard, [TenantStores; 2]) {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (first_store, second_store) = (test_schema.store().await.unwrap(), test_schema.store().await.unwrap());
    let handles = [stores(&*first_store), stores(&*second_store)];
    (test_schema, handles)
}

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_subscribers_of_another_process() {
    let (_test_schema, [first_stores, second_stores]) = open_twice().await;
    let scope = Scope::Thread(ThreadId::new("t").unwrap());
    let mut events = first_stores
        .events
        .unwrap()
        .subscribe(Subscribe::new(scope.clone(), SubscriptionStart::First))
        .await
        .unwrap()
        .events;
    let mut slow_count = 0;
    for number in 1..=20_u32 {
        let event = NewEvent::new(format!("n-{number}").parse().unwrap(), [scope.clone()]);
        second_stores.events.as_ref().unwrap().append_events(AppendEvents::new([event])).await.unwrap();
        let begun = Instant::now();
        let received = events.next().await.unwrap().unwrap();
        assert_eq!(received.kind.as_str(), format!("n-{number}"));
        slow_count += u32::from(begun.elapsed() > Duration::from_millis(700));
    }
    // A subscriber that is not notified polls once a second.
    assert!(slow_count < 10, "{slow_count} of 20 events were found by polling");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_work_wakes_waiting_workers_of_another_process() {
    let (_test_schema, [first_stores, second_stores]) = open_twice().await;
    let wake_ups = first_stores.wake_ups.unwrap();
    let waiting = tokio::spawn(async move { wake_ups.wait(Duration::from_mins(1)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let new = NewDispatch::new(ThreadId::new("t").unwrap(), "r".parse().unwrap());
    second_stores.mailbox.unwrap().enqueue(vec![new]).await.unwrap().remove(0).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), WaitResult::Woken);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_receivers_of_another_process() {
    let (_test_schema, [first_stores, second_stores]) = open_twice().await;
    let (first_live, second_live) = (first_stores.live.unwrap(), second_stores.live.unwrap());
    let claim = ClaimNumber { incarnation: 1, counter: 7 };
    let target = LiveTarget::new("t".parse().unwrap(), "r".parse().unwrap(), "d".parse().unwrap(), claim);
    let cancel = || DeliverLive::new(target.clone(), LiveCommand::Cancel);
    assert_eq!(second_live.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
    let mut receiver = first_live.open_live(target.clone()).await.unwrap();
    for _ in 0..20 {
        let delivering = async { assert_eq!(second_live.deliver(cancel()).await.unwrap(), LiveDelivery::Delivered) };
        let receiving = async { receiver.next().await.unwrap().unwrap().accept() };
        assert_eq!(tokio::join!(delivering, receiving).1, Some(LiveCommand::Cancel));
    }
    // The receiver that was opened last gets the commands, no matter which process has opened it. Here it drops a
    // command without accepting it. For the sender this is the same as if there were no receiver.
    let mut later_receiver = second_live.open_live(target.clone()).await.unwrap();
    assert!(receiver.next().await.unwrap().is_none());
    let (delivered, ()) = tokio::join!(first_live.deliver(cancel()), async { drop(later_receiver.next().await) });
    assert_eq!(delivered.unwrap(), LiveDelivery::NoReceiver);
    drop(later_receiver);
    assert_eq!(first_live.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
}

/// Tests ER-2: the sender is closed while the receiver in another process has the command. The receiver may still
/// accept it, so the sender does not know the outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_the_sender_does_not_wait_for_is_unknown() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let (receiving_store, sending_store) = (test_schema.store().await.unwrap(), test_schema.store().await.unwrap());
    let (receiving_live, sending_live) =
        (stores(&*receiving_store).live.unwrap(), stores(&*sending_store).live.unwrap());
    let claim = ClaimNumber { incarnation: 1, counter: 7 };
    let target = LiveTarget::new("t".parse().unwrap(), "r".parse().unwrap(), "d".parse().unwrap(), claim);
    let mut receiver = receiving_live.open_live(target.clone()).await.unwrap();
    let delivery =
        tokio::spawn(async move { sending_live.deliver(DeliverLive::new(target, LiveCommand::Cancel)).await });
    let received = receiver.next().await.unwrap().unwrap();
    sending_store.close().await.unwrap();
    assert_eq!(delivery.await.unwrap().unwrap(), LiveDelivery::Unknown);
    assert_eq!(received.accept(), Some(LiveCommand::Cancel));
}
