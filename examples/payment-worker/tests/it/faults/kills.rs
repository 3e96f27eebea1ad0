//! Workers are killed at random moments, and started again until each order is finished (EF-7, EF-8).

use std::collections::{BTreeMap, BTreeSet};

use agentstore::{EffectQuery, Json, Requeue, Resolution, ResolveEffect, TenantId};
use conformance_tests::{Random, TestLength, seed_from_env};
use payment_worker_example::place_order;

use crate::{
    outcomes::order,
    process::PaymentServer,
    store::{TestStore, list_effects, orders_in_doubt},
};

/// A worker is killed after at most this number of lines. It and the server print about six lines for each order.
const MAX_LINES: usize = 40;
/// How many orders are placed for each kill, and again when a worker has finished all of them.
const ORDERS_PER_KILL: usize = 3;
/// More workers than are needed to finish the orders after the last kill.
const MAX_WORKERS: usize = 200;

struct KillTest {
    store: TestStore,
    server: PaymentServer,
    worker_arguments: &'static [&'static str],
    random: Random,
    orders: usize,
    kills: usize,
}

impl KillTest {
    /// Kills workers this number of times, and then lets workers work until nothing is left to do.
    async fn run(
        store: TestStore,
        server_arguments: &[&str],
        worker_arguments: &'static [&'static str],
        kills: usize,
    ) -> Self {
        let server = PaymentServer::start(&[server_arguments, &["--delay-millis", "1"]].concat());
        let random = Random::new(seed_from_env("AGENTSTORE_SEED"));
        let mut test = Self { store, server, worker_arguments, random, orders: 0, kills: 0 };
        test.place_orders(kills * ORDERS_PER_KILL).await;
        while test.kills < kills {
            let lines = 1 + test.random.below(MAX_LINES);
            if test.server.run_worker(&test.store.url, worker_arguments, Some(lines)) {
                test.kills += 1;
            } else {
                test.place_orders(ORDERS_PER_KILL).await;
            }
        }
        test.finish_work().await;
        test
    }

    async fn place_orders(&mut self, count: usize) {
        let stores = self.store.open().await;
        for _ in 0..count {
            place_order(&stores, &order(&format!("order-{}", self.orders), "card")).await.unwrap();
            self.orders += 1;
        }
        stores.close().await.unwrap();
    }

    /// Starts workers until no dispatch is left to do: the claims of killed workers have to expire first.
    async fn finish_work(&self) {
        for _ in 0..MAX_WORKERS {
            assert!(!self.server.run_worker(&self.store.url, self.worker_arguments, None));
            let stores = self.store.open().await;
            let mailbox = stores.mailbox(&TenantId::default_tenant()).unwrap();
            let counts = mailbox.count_dispatches(None).await.unwrap();
            stores.close().await.unwrap();
            if counts.queued + counts.claimed == 0 {
                return;
            }
        }
        panic!("the orders are not finished");
    }

    /// Returns how often each order was charged.
    async fn charges(&self) -> BTreeMap<String, u64> {
        self.server.payments().list().await.unwrap()
    }

    /// Returns the orders whose charge is listed in doubt. They are those whose dispatch is a dead letter.
    async fn in_doubt(&self) -> BTreeSet<String> {
        let stores = self.store.open().await;
        let in_doubt = orders_in_doubt(&stores).await;
        let counts = stores.mailbox(&TenantId::default_tenant()).unwrap().count_dispatches(None).await.unwrap();
        assert_eq!(counts.dead_letter, in_doubt.len() as u64);
        stores.close().await.unwrap();
        in_doubt
    }

    /// Does what a person does with the charges in doubt: says what is found in the books of the payment server. With
    /// `guesses`, says of every second order that the card was not charged, without looking. Returns these orders.
    async fn resolve(&mut self, guesses: bool) -> BTreeSet<String> {
        let (charges, stores) = (self.charges().await, self.store.open().await);
        let (tenant, mut guessed, mut resolved) = (TenantId::default_tenant(), BTreeSet::new(), Vec::new());
        let effects = stores.effects(&tenant).unwrap();
        for effect in list_effects(&stores, EffectQuery::default().in_doubt()).await {
            let order = effect.name.thread().to_string();
            let resolution = if guesses && self.random.below(2) == 0 {
                guessed.insert(order.clone());
                Resolution::Retry
            } else if charges.contains_key(&order) {
                Resolution::Done(Json::of("found in the books").unwrap())
            } else {
                Resolution::Retry
            };
            effects.resolve_effect(ResolveEffect::new(effect.name, resolution)).await.unwrap();
            resolved.push(order.parse().unwrap());
        }
        for part in resolved.chunks(100) {
            let requeued = stores.mailbox(&tenant).unwrap().requeue(Requeue::ids(part.to_vec())).await.unwrap();
            assert!(requeued.iter().all(|(_, answer)| answer.is_ok()), "{requeued:?}");
        }
        stores.close().await.unwrap();
        guessed
    }
}

fn kills() -> usize {
    TestLength::pick_by_env(6, 40, 1_000)
}

async fn check_a_server_that_knows_keys(store: TestStore) {
    let test = KillTest::run(store, &["--lose-every", "7"], &[], kills()).await;
    assert_eq!(test.in_doubt().await, BTreeSet::new());
    let charges = test.charges().await;
    let doubled = charges.values().filter(|count| **count != 1).count();
    println!("{} kills, {} orders, {doubled} charged twice", test.kills, test.orders);
    assert_eq!((charges.len(), doubled), (test.orders, 0), "{charges:?}");
    test.store.remove().await;
}

async fn check_a_server_that_forgets_keys(store: TestStore) {
    let mut test = KillTest::run(store, &["--ignore-keys", "--lose-every", "7"], &[], kills()).await;
    let (listed, charges) = (test.in_doubt().await, test.charges().await);
    assert!(charges.values().all(|count| *count == 1), "a card was charged twice: {charges:?}");
    for order in (0..test.orders).map(|number| format!("order-{number}")) {
        assert!(charges.contains_key(&order) || listed.contains(&order), "{order} is neither charged nor in doubt");
    }
    // Lost answers bring new doubts, which are looked up.
    let guessed = test.resolve(true).await;
    test.finish_work().await;
    let mut doubts = test.in_doubt().await;
    while !doubts.is_empty() {
        test.resolve(false).await;
        test.finish_work().await;
        doubts = test.in_doubt().await;
    }
    let charges = test.charges().await;
    let doubled: BTreeSet<_> =
        charges.iter().filter(|(_, count)| **count > 1).map(|(order, _)| order.clone()).collect();
    let (kills, orders) = (test.kills, test.orders);
    println!(
        "{kills} kills, {orders} orders, {} in doubt, {} guessed, {} charged twice",
        listed.len(),
        guessed.len(),
        doubled.len()
    );
    assert_eq!(charges.len(), test.orders, "{charges:?}");
    assert!(!listed.is_empty(), "nothing was in doubt");
    assert!(doubled.is_subset(&guessed), "{doubled:?} were charged twice, and only {guessed:?} were tried again");
    assert!(guessed.is_subset(&listed));
    test.store.remove().await;
}

/// Tests EF-8: the server makes one charge for each key, and each order is charged once.
#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_on_files_charge_each_order_once() {
    check_a_server_that_knows_keys(TestStore::on_files()).await;
}

/// Tests EF-8 on PostgreSQL.
#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_on_postgresql_charge_each_order_once() {
    check_a_server_that_knows_keys(TestStore::on_postgres()).await;
}

/// Tests EF-8: the server forgets keys. No order is charged twice before a person says so, and each charge that may
/// have been made without its outcome is listed in doubt.
#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_on_files_list_every_charge_in_doubt() {
    check_a_server_that_forgets_keys(TestStore::on_files()).await;
}

/// Tests EF-8 on PostgreSQL, with a server that forgets keys.
#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_on_postgresql_list_every_charge_in_doubt() {
    check_a_server_that_forgets_keys(TestStore::on_postgres()).await;
}

/// Without effects, the same handler charges orders twice, and nothing is listed. So the tests above can fail.
#[tokio::test(flavor = "multi_thread")]
async fn without_effects_killed_workers_charge_orders_twice() {
    let kills = TestLength::pick_by_env(3, 20, 100);
    let arguments = ["--ignore-keys", "--lose-every", "5"];
    let test = KillTest::run(TestStore::on_files(), &arguments, &["--without-effects"], kills).await;
    let charges = test.charges().await;
    let doubled = charges.values().filter(|count| **count > 1).count();
    println!("{} kills, {} orders, {doubled} charged twice", test.kills, test.orders);
    assert_eq!((charges.len(), test.in_doubt().await.len()), (test.orders, 0));
    assert!(doubled > 0, "{charges:?}");
    test.store.remove().await;
}
