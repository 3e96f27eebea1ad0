//! After an erasure and the reclaiming of space, the erased text is in no stream and in no file of the server (PV-3).

use std::{fs, path::Path, time::Duration};

use conformance_tests::{ErasureSubject, model::ModelStore};
use store_core::{
    EraseThread, ErasureLayer, ErasureStore, IgnoreProgress, Json, Limits, ManualClock, NewAudit, NewDispatch, Store,
    TenantId, Timestamp,
};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;

const ADA: ErasureSubject = ErasureSubject::new("ada-1", "ada", "Qz7RxV2mKp9LwTtD4sHb");
const BOB: ErasureSubject = ErasureSubject::new("bob-1", "bob", "Jh5TkS0dRy7PnCiF2oLg");

fn count(folder: &Path, subject: &ErasureSubject) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found += count(&path, subject);
        } else if let Ok(bytes) = fs::read(&path) {
            let marker = subject.marker.as_bytes();
            found += bytes.windows(marker.len()).filter(|text| *text == marker).count();
        }
    }
    found
}

/// Tests PV-1 for a composition, and PV-3: the threads are in another store.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_text_is_in_no_stream() {
    let server = Nats::start("jetstream { sync_interval: always }").unwrap();
    let mut config = NatsConfig::new(&server.url()).unwrap();
    (config.allow_unsafe, config.garbage_retention) = (true, Duration::from_millis(200));
    let store = NatsStore::open(config).await.unwrap();
    let threads = ModelStore::new(Limits::default(), ManualClock::new(Timestamp::MIN), None);
    let tenant = TenantId::default_tenant();
    let mut stores = threads.tenant(&tenant).unwrap();
    stores.mailbox = store.tenant(&tenant).unwrap().mailbox;
    let mailbox = stores.mailbox.clone().unwrap();
    for subject in [&ADA, &BOB] {
        subject.plant_dispatches(&*mailbox).await.unwrap();
        // Large payloads are in a stream of their own.
        let mut large = NewDispatch::new(subject.name.parse().unwrap(), subject.run().parse().unwrap());
        large.payload = Some(Json::of(&format!("{}{}", "x".repeat(5_000), subject.marker)).unwrap());
        mailbox.enqueue(vec![large]).await.unwrap().remove(0).unwrap();
    }
    assert!(count(server.folder(), &ADA) > 5, "the control found {}", count(server.folder(), &ADA));
    let request = EraseThread::new("ada-1".parse().unwrap(), NewAudit::new("admin".parse().unwrap()));
    let erased = ErasureLayer::new(stores, None).unwrap().erase_thread(request, &IgnoreProgress).await.unwrap();
    assert_eq!(erased.dispatches, 5);
    assert!(!store.reclaim_space(&IgnoreProgress).await.unwrap().stopped);
    assert_eq!(count(server.folder(), &ADA), 0);
    assert!(count(server.folder(), &BOB) > 5);
    assert_eq!(mailbox.count_dispatches(Some(&"bob-1".parse().unwrap())).await.unwrap().total(), 5);
    store.close().await.unwrap();
    server.stop().unwrap();
}
