//! After an erasure and the reclaiming of space, the erased text is in no file of the mailbox (PV-3).

use std::{fs, path::Path};

use conformance_tests::{ErasureSubject, model::ModelStore};
use store_core::{
    EraseThread, ErasureLayer, ErasureStore, IgnoreProgress, Limits, ManualClock, NewAudit, Store, TenantId, Timestamp,
};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};

const ADA: ErasureSubject = ErasureSubject::new("ada-1", "ada", "Qz7RxV2mKp9LwTtD4sHb");
const BOB: ErasureSubject = ErasureSubject::new("bob-1", "bob", "Jh5TkS0dRy7PnCiF2oLg");

fn count(folder: &Path, subject: &ErasureSubject) -> usize {
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files
        .map(|bytes| bytes.windows(subject.marker.len()).filter(|text| *text == subject.marker.as_bytes()).count())
        .sum()
}

/// Tests PV-1 for a composition, and PV-3: the threads are in another store.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_text_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mailbox.db");
    let store = SqliteMailbox::open(SqliteConfig::new(file)).await.unwrap();
    let threads = ModelStore::new(Limits::default(), ManualClock::new(Timestamp::MIN), None);
    let tenant = TenantId::default_tenant();
    let mut stores = threads.tenant(&tenant).unwrap();
    stores.mailbox = store.tenant(&tenant).unwrap().mailbox;
    let mailbox = stores.mailbox.clone().unwrap();
    for subject in [&ADA, &BOB] {
        subject.plant_dispatches(&*mailbox).await.unwrap();
    }
    assert!(count(folder.path(), &ADA) > 5, "the control found {}", count(folder.path(), &ADA));
    let request = EraseThread::new("ada-1".parse().unwrap(), NewAudit::new("admin".parse().unwrap()));
    let erased = ErasureLayer::new(stores, None).unwrap().erase_thread(request, &IgnoreProgress).await.unwrap();
    assert_eq!(erased.dispatches, 4);
    assert!(!store.reclaim_space(&IgnoreProgress).await.unwrap().stopped);
    assert_eq!(count(folder.path(), &ADA), 0);
    assert!(count(folder.path(), &BOB) > 5);
    assert_eq!(mailbox.count_dispatches(Some(&"bob-1".parse().unwrap())).await.unwrap().total(), 4);
    store.close().await.unwrap();
    assert_eq!(count(folder.path(), &ADA), 0);
}
