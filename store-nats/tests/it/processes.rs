//! One store that is opened twice, as two processes would open it, with the server's own time.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{
    ClaimNumber, ClaimRequest, DeliverLive, ErrorKind, IdSource, LiveCommand, LiveDelivery, LiveTarget, PageRequest,
    Store, UuidSource, WaitResult, WorkerId,
};
use store_nats::{NatsConfig, NatsStore};
use tokio::{
    runtime::Runtime,
    time::{Instant, sleep, timeout},
};

use crate::{
    fixture::server_url,
    helpers::{ack, claim, enqueue, mailbox, new_dispatch, tenant_stores},
};

/// Opens a store twice. Returns both, and their configuration.
pub(crate) async fn open_twice() -> (Arc<dyn Store>, Arc<dyn Store>, NatsConfig) {
    let mut config =
        NatsConfig::new(&server_url()).unwrap().with_prefix(&format!("test-{}", UuidSource.next_id())).unwrap();
    config.allow_unsafe = true;
    let first_store = NatsStore::open(config.clone()).await.unwrap();
    let second_store = NatsStore::open(config.clone()).await.unwrap();
    (Arc::new(first_store), Arc::new(second_store), config)
}

pub(crate) async fn remove_streams(config: &NatsConfig) {
    let client = async_nats::connect(server_url()).await.unwrap();
    for suffix in ["", "-data"] {
        let delete = format!("$JS.API.STREAM.DELETE.{}{suffix}", config.prefix());
        client.request(delete, "".into()).await.unwrap();
    }
}

/// Tests LV-9: an enqueue in one process wakes a worker that waits in another process, faster than polling would.
#[tokio::test(flavor = "multi_thread")]
async fn new_work_wakes_waiting_workers_of_another_process() {
    let (first_store, second_store, config) = open_twice().await;
    let (waiter, producer) = (tenant_stores(&*first_store), mailbox(&*second_store));
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        let wake_ups = Arc::clone(waiter.wake_ups.as_ref().unwrap());
        let wait_task = tokio::spawn(async move { wake_ups.wait(Duration::from_mins(1)).await });
        sleep(Duration::from_millis(30)).await;
        enqueue(&*producer, new_dispatch(&format!("t-{round}"))).await.unwrap();
        let begun = Instant::now();
        assert_eq!(wait_task.await.unwrap().unwrap(), WaitResult::Woken);
        slowest = slowest.max(begun.elapsed());
        let mailbox = waiter.mailbox.as_ref().unwrap();
        let claimed = claim(&**mailbox).await.unwrap().unwrap();
        ack(&**mailbox, &claimed).await.unwrap();
    }
    assert!(slowest < Duration::from_millis(900), "a dispatch was found by polling: {slowest:?}");
    remove_streams(&config).await;
}

/// Tests NA-4: if the server loses the consumer of a process, the process gets no more notifications, but still finds
/// work.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_found_soon_after_a_lost_notification() {
    let (first_store, second_store, config) = open_twice().await;
    let (waiter, producer) = (tenant_stores(&*first_store), mailbox(&*second_store));
    let client = async_nats::connect(server_url()).await.unwrap();
    for round in 0..3 {
        let names = client.request(format!("$JS.API.CONSUMER.NAMES.{}", config.prefix()), "".into()).await.unwrap();
        let names: serde_json::Value = serde_json::from_slice(&names.payload).unwrap();
        let consumers = names["consumers"].as_array().unwrap();
        assert_eq!(consumers.len(), 2, "{consumers:?}");
        let wake_ups = Arc::clone(waiter.wake_ups.as_ref().unwrap());
        let wait_task = tokio::spawn(async move { wake_ups.wait(Duration::from_mins(1)).await });
        sleep(Duration::from_millis(100)).await;
        for consumer in consumers {
            let delete = format!("$JS.API.CONSUMER.DELETE.{}.{}", config.prefix(), consumer.as_str().unwrap());
            client.request(delete, "".into()).await.unwrap();
        }
        let begun = Instant::now();
        enqueue(&*producer, new_dispatch(&format!("t-{round}"))).await.unwrap();
        assert_eq!(wait_task.await.unwrap().unwrap(), WaitResult::Woken);
        let mailbox = waiter.mailbox.as_ref().unwrap();
        let claimed = claim(&**mailbox).await.unwrap().unwrap();
        let elapsed = begun.elapsed();
        println!("found after {elapsed:?}");
        assert!(elapsed < Duration::from_secs(10), "the dispatch was found after {elapsed:?}");
        ack(&**mailbox, &claimed).await.unwrap();
    }
    remove_streams(&config).await;
}

/// Tests PR-8: calls do not hang after the runtime of a store has ended.
#[test]
fn a_store_whose_runtime_ended_still_answers() {
    let (store_runtime, caller_runtime) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (store, _, config) = store_runtime.block_on(open_twice());
    drop(store_runtime);
    let call = async { timeout(Duration::from_secs(30), store.list_tenants(PageRequest::default())).await };
    assert_eq!(caller_runtime.block_on(call).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    caller_runtime.block_on(remove_streams(&config));
}

/// Tests NA-1, MB-18 and MB-19: if two processes make decisions about a thread at the same time, the server accepts
/// only one of them.
#[tokio::test(flavor = "multi_thread")]
async fn claims_of_two_processes_never_collide() {
    let (first_store, second_store, config) = open_twice().await;
    let mailboxes = [mailbox(&*first_store), mailbox(&*second_store)];
    let new = (0..120).map(|at| new_dispatch(&format!("t-{}", at % 6))).collect();
    mailboxes[0].enqueue(new).await.unwrap();
    let claimed_threads = Arc::new(Mutex::new(HashSet::new()));
    let workers = (0..8).map(|worker| {
        let (mailbox, claimed_threads) = (Arc::clone(&mailboxes[worker % 2]), Arc::clone(&claimed_threads));
        tokio::spawn(async move {
            let (mut claims, begun) = (Vec::new(), Instant::now());
            while mailbox.count_dispatches(None).await.unwrap().acked < 120 {
                assert!(begun.elapsed() < Duration::from_secs(50), "some dispatches are left");
                let Some(claimed) = claim(&*mailbox).await.unwrap() else { continue };
                let thread = claimed.dispatch.thread.clone();
                assert!(claimed_threads.lock().unwrap().insert(thread.clone()), "{thread} is claimed twice");
                claims.push((claimed.dispatch.id.clone(), claimed.dispatch.attempts));
                tokio::task::yield_now().await;
                assert!(claimed_threads.lock().unwrap().remove(&thread));
                ack(&*mailbox, &claimed).await.unwrap();
            }
            claims
        })
    });
    let mut claims = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        claims.extend(worker.await.unwrap());
    }
    assert!(claims.iter().all(|(_, attempts)| *attempts == 0));
    assert_eq!((claims.len(), claims.into_iter().collect::<HashSet<_>>().len()), (120, 120));
    remove_streams(&config).await;
}

/// Tests MB-29 and MB-34: leases expire by the leader's clock.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_goes_to_another_process() {
    let (first_store, second_store, config) = open_twice().await;
    let (first, second) = (mailbox(&*first_store), mailbox(&*second_store));
    enqueue(&*first, new_dispatch("t")).await.unwrap();
    let lease = Duration::from_millis(700);
    let request = ClaimRequest::new(WorkerId::new("w").unwrap(), lease);
    let begun = Instant::now();
    let first_claim = first.claim(request).await.unwrap().claimed.pop().unwrap();
    let second_claim = loop {
        match claim(&*second).await.unwrap() {
            Some(claimed) => break claimed,
            None => sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(begun.elapsed() >= lease, "it was claimed again after {:?}", begun.elapsed());
    assert!(begun.elapsed() < lease * 4, "it was claimed again after {:?}", begun.elapsed());
    assert_eq!((&second_claim.dispatch.id, second_claim.dispatch.attempts), (&first_claim.dispatch.id, 1));
    assert!(second_claim.number > first_claim.number);
    let refusal = first.extend(&first_claim.claim(), lease).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::ClaimLost);
    ack(&*second, &second_claim).await.unwrap();
    remove_streams(&config).await;
}

/// Tests LV-2 and LV-3: a command reaches the receiver that was opened last, no matter which process has opened it.
#[tokio::test(flavor = "multi_thread")]
async fn commands_reach_receivers_of_another_process() {
    let (first_store, second_store, config) = open_twice().await;
    let (first_live, second_live) =
        (tenant_stores(&*first_store).live.unwrap(), tenant_stores(&*second_store).live.unwrap());
    let claim = ClaimNumber { incarnation: 1, counter: 7 };
    let target = LiveTarget::new("t".parse().unwrap(), "r".parse().unwrap(), "d".parse().unwrap(), claim);
    let cancel = || DeliverLive::new(target.clone(), LiveCommand::Cancel);
    assert_eq!(second_live.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
    let mut receiver = first_live.open_live(target.clone()).await.unwrap();
    for _ in 0..20 {
        let (delivered, received) =
            tokio::join!(second_live.deliver(cancel()), async { receiver.next().await.unwrap().unwrap().accept() });
        assert_eq!((delivered.unwrap(), received), (LiveDelivery::Delivered, Some(LiveCommand::Cancel)));
    }
    // A later receiver of the same target ends the first one.
    let mut later_receiver = second_live.open_live(target.clone()).await.unwrap();
    assert!(receiver.next().await.unwrap().is_none());
    // The later receiver drops the command without accepting it (LV-2).
    let (delivered, ()) = tokio::join!(first_live.deliver(cancel()), async { drop(later_receiver.next().await) });
    assert_eq!(delivered.unwrap(), LiveDelivery::NoReceiver);
    drop(later_receiver);
    assert_eq!(first_live.deliver(cancel()).await.unwrap(), LiveDelivery::NoReceiver);
    remove_streams(&config).await;
}

/// Tests TN-8: if a tenant is deleted, its handles in other processes are also closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_deleted_for_every_process() {
    let (first_store, second_store, config) = open_twice().await;
    let (first, second) = (mailbox(&*first_store), mailbox(&*second_store));
    enqueue(&*first, new_dispatch("t")).await.unwrap();
    assert_eq!(second.count_dispatches(None).await.unwrap().queued, 1);
    second_store.delete_tenant(&"default".parse().unwrap()).await.unwrap();
    assert_eq!(enqueue(&*first, new_dispatch("t")).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(second.count_dispatches(None).await.unwrap_err().kind(), ErrorKind::Closed);
    for store in [&first_store, &second_store] {
        assert_eq!(mailbox(&**store).count_dispatches(None).await.unwrap().queued, 0);
    }
    remove_streams(&config).await;
}
