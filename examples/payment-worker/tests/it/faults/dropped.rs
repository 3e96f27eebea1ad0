//! The future of the handler is dropped after each possible number of polls.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use agentstore::{Done, Effect, EffectQuery, Failure, TenantId, Work, Worker};
use payment_worker_example::{pay, pay_without_effects, place_order, reconcile};

use crate::{
    outcomes::{order, quick_options},
    process::PaymentServer,
    store::{TestStore, list_effects, orders_in_doubt},
};

/// More polls than the handler needs.
const MAX_POLLS: usize = 500;

type HandlerCall = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;

/// What was found after the handler had been dropped at each point, each time with another order.
struct Sweep {
    /// The number of points, which is the number of orders but the last.
    points: usize,
    finished: u64,
    in_doubt: BTreeSet<String>,
    effects: usize,
    charges: BTreeMap<String, u64>,
}

/// Polls a call at most `polls` times, waits for `pause`, and drops it. Returns how it ended, or none if it was
/// dropped.
async fn poll_then_drop(mut call: HandlerCall, polls: usize, pause: Duration) -> Option<Result<Done, Failure>> {
    let mut remaining_polls = polls;
    let ended = std::future::poll_fn(|context| {
        if remaining_polls == 0 {
            return Poll::Ready(None);
        }
        remaining_polls -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if remaining_polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    let ended = ended.await;
    if ended.is_none() {
        tokio::time::sleep(pause).await;
    }
    drop(call);
    ended
}

impl Sweep {
    /// Drops the handler of the first attempt after 0 polls, 1 poll and so on, until it ends before it is dropped. The
    /// later attempts are not dropped.
    async fn run(store: TestStore, server_arguments: &[&str], with_effects: bool) -> Self {
        let server = PaymentServer::start(&[server_arguments, &["--delay-millis", "1"]].concat());
        let (stores, tenant) = (store.open().await, TenantId::default_tenant());
        // Without effects, a request that the last poll has begun is to reach the server before the call is dropped.
        let pause = if with_effects { Duration::ZERO } else { Duration::from_millis(50) };
        let mut points = 0;
        loop {
            place_order(&stores, &order(&format!("order-{points}"), "card")).await.unwrap();
            let was_dropped = Arc::new(AtomicBool::new(false));
            let (payments, asked, sets_dropped) = (server.payments(), server.payments(), Arc::clone(&was_dropped));
            let handler = move |work: Work| {
                let (payments, was_dropped, is_first) =
                    (payments.clone(), Arc::clone(&sets_dropped), work.attempt() == 1);
                let call: HandlerCall = if with_effects {
                    Box::pin(pay(work, payments))
                } else {
                    Box::pin(pay_without_effects(work, payments))
                };
                async move {
                    if !is_first {
                        return call.await;
                    }
                    poll_then_drop(call, points, pause).await.unwrap_or_else(|| {
                        was_dropped.store(true, SeqCst);
                        Err(Failure::new("the handler was dropped"))
                    })
                }
            };
            let worker = Worker::with_options(&stores, &tenant, handler, quick_options())
                .unwrap()
                .with_reconciler("payment".parse().unwrap(), move |effect: Effect| reconcile(effect, asked.clone()));
            worker.run_until_idle().await.unwrap();
            if !was_dropped.load(SeqCst) {
                break;
            }
            points += 1;
            assert!(points < MAX_POLLS, "the handler does not end");
        }
        let charges = server.payments().list().await.unwrap();
        let counts = stores.mailbox(&tenant).unwrap().count_dispatches(None).await.unwrap();
        let (in_doubt, effects) =
            (orders_in_doubt(&stores).await, list_effects(&stores, EffectQuery::default()).await.len());
        assert_eq!(counts.acked + counts.dead_letter, points as u64 + 1);
        stores.close().await.unwrap();
        store.remove().await;
        println!("{points} points, {} finished, {} in doubt", counts.acked, in_doubt.len());
        Self { points, finished: counts.acked, in_doubt, effects, charges }
    }
}

async fn check_every_point(new_store: fn() -> TestStore) {
    // The server makes one charge for each key.
    let swept = Sweep::run(new_store(), &[], true).await;
    assert_eq!((swept.finished, swept.in_doubt.len()), (swept.points as u64 + 1, 0));
    assert_eq!(swept.charges.len(), swept.points + 1);
    assert!(swept.charges.values().all(|count| *count == 1), "{:?}", swept.charges);

    // The server forgets keys.
    let swept = Sweep::run(new_store(), &["--ignore-keys"], true).await;
    assert!(swept.charges.values().all(|count| *count == 1), "{:?}", swept.charges);
    assert_eq!(swept.finished + swept.in_doubt.len() as u64, swept.points as u64 + 1);
    for order in (0..=swept.points).map(|point| format!("order-{point}")) {
        let is_listed = swept.in_doubt.contains(&order);
        assert!(is_listed || swept.charges.contains_key(&order), "{order} is finished, but was not charged");
    }
    assert!(!swept.in_doubt.is_empty() && swept.finished > 1, "{:?}", swept.in_doubt);
}

/// Tests EF-7: wherever the handler is dropped, its order is charged once, or listed in doubt.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_on_files_that_is_dropped_charges_no_order_twice() {
    check_every_point(TestStore::on_files).await;
}

/// Tests EF-7 on PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_on_postgresql_that_is_dropped_charges_no_order_twice() {
    check_every_point(TestStore::on_postgres).await;
}

/// Without effects, a handler that is dropped charges orders twice.
#[tokio::test(flavor = "multi_thread")]
async fn without_effects_a_dropped_handler_charges_orders_twice() {
    let swept = Sweep::run(TestStore::on_files(), &["--ignore-keys"], false).await;
    assert!(swept.charges.values().any(|count| *count > 1), "{:?}", swept.charges);
    assert_eq!((swept.effects, swept.in_doubt.len()), (0, 0));
}
