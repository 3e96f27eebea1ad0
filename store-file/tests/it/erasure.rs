//! After an erasure and the reclaiming of space, the erased text is in no file of the root (PV-3).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use conformance_tests::ErasureSubject;
use store_core::{
    AppendEvents, AuditResource, Clock, Commit, EraseResource, Erased, ErasureLayer, ErasureStore, IgnoreProgress,
    Json, ManualClock, Message, NewAudit, NewEntry, Store, SystemClock, TenantId, TenantStores, Timestamp,
    layers::audit::planned,
};
use store_file::{CompressLogs, FileConfig, FileStore};

pub(crate) const ADA: ErasureSubject = ErasureSubject::new("ada-1", "ada", "Qz7RxV2mKp9LwTtD4sHb");
pub(crate) const ADA_TOO: ErasureSubject = ErasureSubject::new("ada-2", "ada", "Wc8NfY3jGq6ZvBeX1uMa");
pub(crate) const BOB: ErasureSubject = ErasureSubject::new("bob-1", "bob", "Jh5TkS0dRy7PnCiF2oLg");

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// The files in which a text of a subject stands in any of its forms, also after they were decompressed.
pub(crate) fn files_with(folder: &Path, subject: &ErasureSubject) -> Vec<String> {
    let mut found = Vec::new();
    for path in files(folder) {
        let mut bytes = fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "zst") {
            bytes = zstd::decode_all(&*bytes).unwrap();
        }
        for form in subject.forms() {
            let places = bytes.windows(form.len()).enumerate().filter(|(_, window)| *window == form);
            found.extend(places.map(|(at, _)| {
                let around = bytes.get(at..(at + 60).min(bytes.len())).unwrap_or_default();
                format!("{}: {}", path.display(), String::from_utf8_lossy(around))
            }));
        }
    }
    found
}

pub(crate) fn stores(store: &FileStore) -> TenantStores {
    store.tenant(&TenantId::default_tenant()).unwrap()
}

pub(crate) async fn erase(store: &FileStore) -> Erased {
    let erasure = ErasureLayer::new(stores(store), None).unwrap();
    let request = EraseResource::new("ada".parse().unwrap(), NewAudit::new("admin".parse().unwrap()));
    erasure.erase_resource(request, &IgnoreProgress).await.unwrap()
}

pub(crate) async fn seen_of_bob(store: &FileStore) -> usize {
    let seen = ErasureSubject::read_everything(&stores(store), &[&BOB]).await.unwrap();
    seen.matches(BOB.marker).count()
}

pub(crate) async fn expect_sound(store: &FileStore) {
    let seen = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    assert!(seen.findings.is_empty(), "{:?}", seen.findings);
}

/// Tests PV-3: the text is in no file, neither while the store is open nor after a close, and the store is whole.
#[tokio::test(flavor = "multi_thread")]
async fn an_erased_text_is_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let open = || FileStore::open(&root, FileConfig::default()).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = open();
    for subject in [&ADA, &BOB] {
        subject.plant(&stores(&store), &clock).await.unwrap();
    }
    // Tables of the index, and empty halves of the journal.
    store.close().await.unwrap();
    let store = open();
    ADA_TOO.plant(&stores(&store), &clock).await.unwrap();
    let bob = seen_of_bob(&store).await;
    // The same search finds the text where it is: in logs, in the journal and in the index.
    let found = [files_with(&root, &ADA), files_with(&root, &ADA_TOO)].concat();
    for place in ["ada-1.", "ada-2.", "_outbox.", "_mailbox.", "_documents_", "_topic_", "/journal.", "/index/"] {
        assert!(found.iter().any(|file| file.contains(place)), "nothing found in {place}");
    }
    fs::create_dir_all(root.join("aside")).unwrap();
    let log = found.iter().find(|file| file.contains("_outbox.")).unwrap().split(": ").next().unwrap();
    let aside = Path::new(log).strip_prefix(&root).unwrap().to_str().unwrap().replace('/', "+");
    fs::write(root.join("aside").join(format!("{aside}.17")), ADA.marker).unwrap();
    expect_sound(&store).await;

    let erased = erase(&store).await;
    assert_eq!((erased.threads.len(), erased.stopped), (4, false));
    assert!(!store.reclaim_space(&IgnoreProgress).await.unwrap().stopped);
    for subject in [&ADA, &ADA_TOO] {
        let left = files_with(&root, subject);
        assert!(left.is_empty(), "{}", left.join("\n"));
    }
    assert!(!files_with(&root, &BOB).is_empty());
    assert_eq!(seen_of_bob(&store).await, bob);
    expect_sound(&store).await;
    store.close().await.unwrap();
    assert_eq!([files_with(&root, &ADA), files_with(&root, &ADA_TOO)].concat(), Vec::<String>::new());
    // What the logs say now is enough to make the index anew.
    for is_rebuilt in [false, true] {
        if is_rebuilt {
            fs::remove_dir_all(root.join("index")).unwrap();
        }
        let store = open();
        assert_eq!(seen_of_bob(&store).await, bob);
        let seen = ErasureSubject::read_everything(&stores(&store), &[&ADA, &ADA_TOO]).await.unwrap();
        assert!(!seen.contains(ADA.marker) && !seen.contains(ADA_TOO.marker));
        expect_sound(&store).await;
        store.close().await.unwrap();
    }
}

/// Tests PV-3 for the values of an audit record that the commit of another thread wrote: they are in the compressed log
/// of that thread, which is compressed again without them.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_record_in_a_compressed_log_loses_its_values() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let clock = ManualClock::new(Timestamp::from_millis(1_767_225_600_000).unwrap());
    let config = || FileConfig::default().with_clock(Arc::new(clock.clone()));
    let store = FileStore::open(&root, config()).unwrap();
    let resource = AuditResource::of(["profile", "user", "ada", "name"]).unwrap();
    let value = Json::of(&ADA.marker.to_owned()).unwrap();
    let audit = planned(&NewAudit::new("admin".parse().unwrap()), &resource, None, Some(&value)).unwrap();
    let filler = NewEntry::new(Message::user("x".repeat(40_000)));
    let commit = Commit::new("other".parse().unwrap()).with_key("k".parse().unwrap()).entry(filler);
    let commit = commit.with_events(AppendEvents::new([audit])).creating(Default::default());
    let _receipt = stores(&store).commits.unwrap().commit(commit).await.unwrap();
    clock.advance(Duration::from_secs(3_600));
    let tenant = TenantId::default_tenant();
    let request = CompressLogs::new(Duration::from_secs(60));
    assert_eq!(store.compress_logs(&tenant, request, &IgnoreProgress).await.unwrap().logs, 1);
    let found = files_with(&root, &ADA);
    assert!(found.iter().any(|file| file.contains(".zst")), "{found:?}");
    assert_eq!(erase(&store).await.audit_records, 1);
    store.reclaim_space(&IgnoreProgress).await.unwrap();
    assert_eq!(files_with(&root, &ADA), Vec::<String>::new());
    assert!(files(&root).iter().any(|path| path.extension().is_some_and(|extension| extension == "zst")));
    expect_sound(&store).await;
    store.close().await.unwrap();
    let store = FileStore::open(&root, config()).unwrap();
    expect_sound(&store).await;
    assert_eq!(
        stores(&store).threads.unwrap().load_thread(&"other".parse().unwrap()).await.unwrap().unwrap().version.number(),
        1
    );
}
