//! What becomes of an order whose card is declined, and of one whose request is not sent.

use agentstore::{
    Backoff, Effect, EffectQuery, EffectStatus, EntryQuery, Stores, TenantId, Work, WorkSummary, Worker, WorkerOptions,
};
use payment_worker_example::{Order, Payments, pay, place_order, reconcile};

use crate::{
    process::PaymentServer,
    store::{TestStore, list_effects},
};

pub(crate) fn order(id: &str, card: &str) -> Order {
    Order { id: id.to_owned(), card: card.to_owned(), cents: 500 }
}

pub(crate) fn quick_options() -> WorkerOptions {
    WorkerOptions::default().with_backoff(Backoff::new(std::time::Duration::ZERO, std::time::Duration::ZERO))
}

/// Pays the order `o`. The first attempt uses another payment server than the later ones. Returns what the worker did,
/// the status of the effect, and the last message of the thread.
async fn pay_order(stores: &Stores, card: &str, [first, later]: [Payments; 2]) -> (WorkSummary, EffectStatus, String) {
    place_order(stores, &order("o", card)).await.unwrap();
    let (tenant, asked) = (TenantId::default_tenant(), later.clone());
    let handler = move |work: Work| {
        let payments = if work.attempt() == 1 { first.clone() } else { later.clone() };
        async move { pay(work, payments).await }
    };
    let worker = Worker::with_options(stores, &tenant, handler, quick_options())
        .unwrap()
        .with_reconciler("payment".parse().unwrap(), move |effect: Effect| reconcile(effect, asked.clone()));
    let summary = worker.run_until_idle().await.unwrap();
    let listed = list_effects(stores, EffectQuery::default()).await;
    let [effect] = listed.as_slice() else { panic!("{listed:?}") };
    let log = stores.threads(&tenant).unwrap().list_entries(&"o".parse().unwrap(), EntryQuery::all()).await.unwrap();
    let last = log.items.last().and_then(|entry| entry.message()).unwrap();
    (summary, effect.status, format!("{:?}", last.blocks))
}

#[tokio::test]
async fn a_declined_card_is_not_charged_and_not_tried_again() {
    let (store, server) = (TestStore::on_files(), PaymentServer::start(&[]));
    let stores = store.open().await;
    let (summary, status, text) = pay_order(&stores, "declined", [server.payments(), server.payments()]).await;
    assert_eq!((summary.acked, summary.retried, status), (1, 0, EffectStatus::Failed));
    assert!(text.contains("Not paid: the card is declined."), "{text}");
    assert!(server.payments().list().await.unwrap().is_empty());
    stores.close().await.unwrap();
    store.remove().await;
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_sent_again() {
    let (store, server) = (TestStore::on_files(), PaymentServer::start(&["--ignore-keys"]));
    let stores = store.open().await;
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let payments = [Payments::new(unused.to_string()), server.payments()];
    let (summary, status, text) = pay_order(&stores, "card", payments).await;
    assert_eq!((summary.acked, summary.retried, status), (1, 1, EffectStatus::Done));
    assert!(text.contains("Paid: receipt 1."), "{text}");
    assert_eq!(server.payments().list().await.unwrap(), [("o".to_owned(), 1)].into());
    stores.close().await.unwrap();
    store.remove().await;
}

/// The answer of the first request is lost, and the server forgets keys: the handler never charges again.
#[tokio::test]
async fn a_lost_answer_of_a_server_that_forgets_keys_leaves_a_doubt() {
    let (store, server) = (TestStore::on_files(), PaymentServer::start(&["--ignore-keys", "--lose-every", "1"]));
    let stores = store.open().await;
    let (summary, status, _) = pay_order(&stores, "card", [server.payments(), server.payments()]).await;
    assert_eq!((summary.dead_lettered, status), (1, EffectStatus::Unknown));
    assert_eq!(server.payments().list().await.unwrap(), [("o".to_owned(), 1)].into());
    let mailbox = stores.mailbox(&TenantId::default_tenant()).unwrap();
    let dispatch = mailbox.load_dispatch(&"o".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(dispatch.last_error.as_deref(), Some("effect o/o/charge is in doubt"));
    stores.close().await.unwrap();
    store.remove().await;
}
