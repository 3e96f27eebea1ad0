//! Ids with characters that have a meaning in subjects (NA-2, ID-3 to ID-5), and ids under which several threads
//! enqueue.

use store_core::{ErrorKind, Limits, TenantId};

use crate::{
    fixture::TempStore,
    helpers::{ack, all_dispatches, claim, enqueue, mailbox, new_dispatch, stream_info},
};

/// Ids with characters that are special in subjects, and ids that look like the token of another id: `YQ` is `a` in
/// base64.
const IDS: &[&str] = &[
    "a",
    "A",
    "a.b",
    ".",
    "..",
    "*",
    ">",
    "$JS.API",
    "a b",
    " a",
    "a/b",
    "tYQ",
    "YQ",
    "-_",
    "_INBOX.x",
    "é",
    "e\u{301}",
    "\u{1F600}",
    "CON",
    "a\\b",
    "\"",
    "%00",
];

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_any_kind_do_not_collide() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let longest = "\u{e9}".repeat(128);
    let ids: Vec<&str> = IDS.iter().copied().chain([longest.as_str()]).collect();
    for tenant in ["a", "a.b", "*", ">", &longest] {
        let mailbox = store.tenant(&TenantId::new(tenant).unwrap()).unwrap().mailbox.unwrap();
        for id in &ids {
            enqueue(&*mailbox, new_dispatch(id).with_id(id.parse().unwrap())).await.unwrap();
        }
        let found: Vec<_> = all_dispatches(&*mailbox).await.iter().map(|found| found.id.to_string()).collect();
        assert_eq!(found.len(), ids.len());
        for id in &ids {
            let found = mailbox.load_dispatch(&id.parse().unwrap()).await.unwrap().unwrap();
            assert_eq!((found.id.as_str(), found.thread.as_str()), (*id, *id));
        }
        while let Some(held) = claim(&*mailbox).await.unwrap() {
            ack(&*mailbox, &held).await.unwrap();
        }
        assert_eq!(mailbox.count_dispatches(None).await.unwrap().acked, ids.len() as u64);
    }
    // Only the process that has the store open has a consumer, however many tenants and threads there are (NA-3).
    let client = async_nats::connect(crate::fixture::server_url()).await.unwrap();
    let info = stream_info(&client, temp_store.config().prefix()).await;
    assert_eq!(info["state"]["consumer_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_wanted_by_several_threads_goes_to_one_of_them() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let (first_store, second_store) = (temp_store.open_store().await.unwrap(), temp_store.open_store().await.unwrap());
    let mailboxes = [mailbox(&*first_store), mailbox(&*second_store)];
    for round in 0..30 {
        let id = format!("d-{round}");
        let tasks = (0..6).map(|at| {
            let mailbox = std::sync::Arc::clone(&mailboxes[at % 2]);
            let new = new_dispatch(&format!("t-{at}")).with_id(id.parse().unwrap());
            tokio::spawn(async move { enqueue(&*mailbox, new).await })
        });
        let mut accepted = 0;
        for task in tasks.collect::<Vec<_>>() {
            match task.await.unwrap() {
                Ok(_) => accepted += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
        assert_eq!(accepted, 1, "round {round}");
    }
    assert_eq!(all_dispatches(&*mailboxes[0]).await.len(), 30);
    assert_eq!(mailboxes[1].count_dispatches(None).await.unwrap().queued, 30);
}

/// If a process reserved an id for a thread and died before it enqueued, another thread can use the id.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_reserved_without_an_enqueue_can_be_used() {
    let temp_store = TempStore::new(Limits::default()).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let mailbox = mailbox(&*store);
    enqueue(&*mailbox, new_dispatch("t").with_id("first".parse().unwrap())).await.unwrap();
    let incarnation = claim(&*mailbox).await.unwrap().unwrap().number.incarnation;
    let client = async_nats::connect(crate::fixture::server_url()).await.unwrap();
    // This message reserves the id `lost` for the thread `dead`.
    let subject = format!("{}.log.id.tdefault.{incarnation}.tlost", temp_store.config().prefix());
    client.request(subject, r#"{"v":1,"thread":"dead"}"#.into()).await.unwrap();
    let new = new_dispatch("alive").with_id("lost".parse().unwrap());
    assert!(!enqueue(&*mailbox, new.clone()).await.unwrap().deduplicated);
    assert!(enqueue(&*mailbox, new).await.unwrap().deduplicated);
    let refusal = enqueue(&*mailbox, new_dispatch("dead").with_id("lost".parse().unwrap())).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::AlreadyExists);
    store.close().await.unwrap();
}
