//! Tests of relays: outbox rows are delivered under the same rules as dispatches.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use store_core::{
    ClaimOutbox, Commit, ErrorKind, Json, NewOutboxRow, OutboxFilter, OutboxId, OutboxRow, OutboxStatus, OutboxStore,
    RequeueOutbox,
};
use tokio::sync::mpsc;

use super::{
    faulty_store::{Fault, Faults, FaultyStore},
    options_without_delays,
    test_bed::TestBed,
};
use crate::{CancelReason, Failure, OutboxDelivery, Relay};

const LEASE: Duration = Duration::from_millis(300);

fn outbox(bed: &TestBed) -> Arc<dyn OutboxStore> {
    bed.commits().outbox()
}

fn new_row(payload: &str) -> NewOutboxRow {
    NewOutboxRow::new("hooks".parse().unwrap(), "there".parse().unwrap(), Json::parse(payload).unwrap())
}

/// Commits rows, and returns their ids.
async fn commit_rows(bed: &TestBed, rows: impl IntoIterator<Item = NewOutboxRow>) -> Vec<OutboxId> {
    bed.commits().commit(Commit::new("t".parse().unwrap()).with_outbox(rows)).await.unwrap().outbox
}

async fn load_row(bed: &TestBed, id: &OutboxId) -> OutboxRow {
    outbox(bed).load_outbox(id).await.unwrap().unwrap()
}

async fn wait_for_row(
    bed: &TestBed,
    id: &OutboxId,
    has_expected_state: impl Fn(&OutboxRow) -> bool + Send + Sync,
) -> OutboxRow {
    loop {
        let found = load_row(bed, id).await;
        if has_expected_state(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn relay(bed: &TestBed, deliver: impl crate::Deliver) -> Relay {
    Relay::new(&bed.stores, &bed.tenant, "hooks".parse().unwrap(), deliver).unwrap()
}

/// Tests WK-10 and OB-11: rows with one order key are delivered in order, even if one fails. A relay delivers no rows
/// of other lanes.
pub(super) async fn rows_with_one_order_key_are_delivered_in_order(bed: &TestBed) {
    let ordered_rows = (0..5).map(|at| new_row(&at.to_string()).with_order_key("o".parse().unwrap()));
    let row_of_other_lane =
        NewOutboxRow::new("mails".parse().unwrap(), "there".parse().unwrap(), Json::parse("9").unwrap());
    let ids = commit_rows(bed, ordered_rows.chain([row_of_other_lane])).await;
    let delivered_payloads = Arc::new(Mutex::new(Vec::new()));
    let shared_payloads = Arc::clone(&delivered_payloads);
    let deliver = move |delivery: OutboxDelivery| {
        let shared_payloads = Arc::clone(&shared_payloads);
        async move {
            let payload = delivery.row().payload.as_str().to_owned();
            // The first row fails once. The later rows wait for it.
            if payload == "0" && delivery.attempt() == 1 {
                return Err(Failure::new("not yet"));
            }
            shared_payloads.lock().unwrap().push(payload);
            Ok(())
        }
    };
    let summary = relay(bed, deliver).with_options(options_without_delays()).unwrap().run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried), (5, 1), "{summary:?}");
    assert_eq!(*delivered_payloads.lock().unwrap(), ["0", "1", "2", "3", "4"]);
    assert_eq!(load_row(bed, &ids[0]).await.attempts, 1);
    assert_eq!(load_row(bed, &ids[5]).await.status, OutboxStatus::Pending);
}

/// Tests WK-10: errors, panics, permanent failures, and dead letters that an operator requeues.
pub(super) async fn failed_deliveries_are_tried_again_and_given_up(bed: &TestBed) {
    let rows = ["\"fails\"", "\"panics\"", "\"never\""];
    let ids = commit_rows(bed, rows.map(|text| new_row(text).with_max_attempts(2))).await;
    let deliver = |delivery: OutboxDelivery| async move {
        match delivery.row().payload.as_str() {
            "\"never\"" => Err(Failure::permanent("gone")),
            "\"panics\"" if delivery.attempt() == 1 => panic!("once"),
            "\"fails\"" => Err(Failure::new("no network")),
            _ => Ok(()),
        }
    };
    let options = options_without_delays();
    let summary = relay(bed, deliver).with_options(options.clone()).unwrap().run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried, summary.dead_lettered), (1, 2, 2), "{summary:?}");
    let [fails, panics, never] =
        [load_row(bed, &ids[0]).await, load_row(bed, &ids[1]).await, load_row(bed, &ids[2]).await];
    assert_eq!(
        (fails.status, fails.attempts, fails.last_error.as_deref()),
        (OutboxStatus::DeadLetter, 2, Some("no network"))
    );
    assert_eq!((panics.status, panics.last_error.as_deref()), (OutboxStatus::Delivered, Some("panicked: once")));
    assert_eq!((never.status, never.last_error.as_deref()), (OutboxStatus::DeadLetter, Some("gone")));
    let requeued = outbox(bed).requeue_outbox(RequeueOutbox::oldest(9)).await.unwrap();
    assert_eq!(requeued.len(), 2);
    let summary =
        relay(bed, |_: OutboxDelivery| async { Ok(()) }).with_options(options).unwrap().run_until_idle().await.unwrap();
    assert_eq!(summary.acked, 2);
}

/// Tests WK-10: a relay keeps its claim as long as it extends the lease, and tells a delivery that its claim is lost.
pub(super) async fn a_delivery_is_notified_when_its_claim_is_lost(bed: &TestBed) {
    let ids = commit_rows(bed, [new_row("1")]).await;
    let (sender, mut reasons) = mpsc::unbounded_channel();
    let deliver = move |delivery: OutboxDelivery| {
        let sender = sender.clone();
        async move {
            // `None` says that the delivery has begun.
            sender.send(None).unwrap();
            sender.send(Some(delivery.cancellation().cancelled().await)).unwrap();
            Ok(())
        }
    };
    // The relay runs one attempt at a time. So it cannot claim the row again while this delivery runs.
    let options = options_without_delays().with_lease(LEASE).with_concurrency(1);
    let running_relay = relay(bed, deliver).with_options(options).unwrap().start().unwrap();
    assert_eq!(reasons.recv().await, Some(None));
    for _ in 0..3 {
        let lease = load_row(bed, &ids[0]).await.claim.unwrap().lease_until;
        bed.advance(LEASE / 2).await;
        wait_for_row(bed, &ids[0], |found| found.claim.as_ref().unwrap().lease_until > lease).await;
    }
    let newly_claimed_row = loop {
        bed.advance(LEASE * 2).await;
        let request = ClaimOutbox::new("hooks".parse().unwrap(), "other".parse().unwrap(), 1);
        if let Some(row) = outbox(bed).claim_outbox(request).await.unwrap().rows.pop() {
            break row;
        }
    };
    assert_eq!(reasons.recv().await, Some(Some(CancelReason::Lost)));
    assert_eq!(running_relay.stop().await.unwrap().lost, 1);
    let found = load_row(bed, &ids[0]).await;
    assert_eq!((found.status, found.attempts), (OutboxStatus::Claimed, 1));
    assert_eq!(found.claim.unwrap().worker, newly_claimed_row.row.claim.unwrap().worker);
}

/// Tests WK-10: a delivery that does not end in time is aborted, and its row is released without a failure.
pub(super) async fn deliveries_are_released_when_a_relay_stops(bed: &TestBed) {
    let ids = commit_rows(bed, [new_row("1")]).await;
    let (sender, mut start_receiver) = mpsc::unbounded_channel();
    let deliver = move |_: OutboxDelivery| {
        let sender = sender.clone();
        async move {
            sender.send(()).unwrap();
            std::future::pending().await
        }
    };
    let options =
        options_without_delays().with_stop_deadline(Duration::from_millis(20)).with_grace(Duration::from_millis(20));
    let running_relay = relay(bed, deliver).with_options(options).unwrap().start().unwrap();
    start_receiver.recv().await.unwrap();
    assert_eq!(running_relay.stop().await.unwrap().released, 1);
    let found = load_row(bed, &ids[0]).await;
    assert_eq!((found.status, found.attempts), (OutboxStatus::Pending, 0));
}

/// Tests WK-10 and OB-7: a call without an answer is repeated. The repeated call is refused, and the row shows whether
/// the first call took effect.
pub(super) async fn the_outcome_of_a_delivery_without_an_answer_is_resolved(bed: &TestBed) {
    commit_rows(bed, [new_row("1"), new_row("2")]).await;
    let faults = Arc::new(Faults::default());
    faults.settle_outbox.lock().unwrap().extend([
        Fault::LostAnswer,
        Fault::LostCall,
        Fault::Unavailable,
        Fault::LostAnswer,
    ]);
    let stores = FaultyStore::with_faults(bed, &faults);
    let deliver = |delivery: OutboxDelivery| async move {
        let fails = delivery.row().payload.as_str() == "2" && delivery.attempt() == 1;
        if fails { Err(Failure::new("once")) } else { Ok(()) }
    };
    let relay = Relay::new(&stores, &bed.tenant, "hooks".parse().unwrap(), deliver).unwrap();
    let summary =
        relay.with_options(options_without_delays().with_concurrency(1)).unwrap().run_until_idle().await.unwrap();
    assert_eq!((summary.acked, summary.retried, summary.lost, summary.unknown), (2, 1, 0, 0), "{summary:?}");
    let counts = outbox(bed).count_outbox(&OutboxFilter::default()).await.unwrap();
    assert_eq!((counts.delivered, counts.pending), (2, 0));
}

/// Tests WK-11: after an error that waiting does not resolve, a relay repeats the call for a while, and then ends.
pub(super) async fn a_persistent_error_ends_a_relay(bed: &TestBed) {
    commit_rows(bed, [new_row("1")]).await;
    let faults = Arc::new(Faults::default());
    let relay = |patience| {
        let stores = FaultyStore::with_faults(bed, &faults);
        let deliver = |_: OutboxDelivery| async { Ok::<_, Failure>(()) };
        let relay = Relay::new(&stores, &bed.tenant, "hooks".parse().unwrap(), deliver).unwrap();
        relay.with_options(options_without_delays().with_patience(patience)).unwrap()
    };
    faults.claim_outbox.lock().unwrap().extend([Fault::Corrupt, Fault::Unavailable]);
    assert_eq!(relay(Duration::from_secs(60)).run_until_idle().await.unwrap().acked, 1);
    faults.claim_outbox.lock().unwrap().extend([Fault::Corrupt; 1_000]);
    let result = relay(Duration::from_millis(5)).start().unwrap().join().await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
}
