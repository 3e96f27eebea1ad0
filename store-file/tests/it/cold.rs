//! Logs that are compressed: what can be done with them, and what is left of them on the disk (FI-14).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use conformance_tests::TestLength;
use store_core::{
    AppendEvents, DeleteRequest, Direction, EntryQuery, ErrorKind, IgnoreProgress, Message, NewEntry, NewEvent,
    PageRequest, Progress, Scope, Store, Subscribe, SubscriptionStart, TenantId, inspect::FindingKind, log::RewindTo,
};
use store_file::{CompressLogs, CompressedLogs, FileStore};

use crate::folder::{Place, answers, commit, commits, edit, fill, say, saying, thread, threads};

/// Compresses what was not written since the last second.
pub(crate) async fn compress(place: &Place, store: &FileStore) -> CompressedLogs {
    place.clock.advance(Duration::from_secs(2));
    let request = CompressLogs::new(Duration::from_secs(1));
    store.compress_logs(&TenantId::default_tenant(), request, &IgnoreProgress).await.unwrap()
}

async fn verified(store: &FileStore) -> Vec<(FindingKind, String)> {
    let inspection = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    inspection.findings.into_iter().map(|finding| (finding.kind, finding.place)).collect()
}

/// The compressed file of a log.
fn zst(log: &Path) -> PathBuf {
    log.with_extension("jsonl.zst")
}

/// Entries of so many bytes, in one commit.
async fn write(store: &FileStore, id: &str, entries: usize, bytes: usize) {
    let texts = (0..entries).map(|number| format!("{id} {number} ").repeat(bytes / 4 + 1)[..bytes].to_owned());
    let more = texts.map(|text| NewEntry::new(Message::user(text)));
    commit(store, saying(id, "begin").entries(more)).await.unwrap();
}

/// Small threads, one with many entries and one with large ones. The last one has 16 KiB exactly, or less.
async fn filled(place: &Place) -> FileStore {
    let store = place.open();
    fill(&store).await;
    for _ in 0..4 {
        write(&store, "many", 500, 60).await;
        write(&store, "large", 3, 300_000).await;
    }
    write(&store, "less", 1, 15_000).await;
    store
}

/// Shows FI-14: a compressed log is read, verified and appended to, and `zstd` alone reads it.
#[tokio::test]
async fn a_compressed_log_is_read_verified_and_appended_to() {
    let place = Place::new();
    let store = filled(&place).await;
    let (many, large) = (place.log("many"), place.log("large"));
    let former = [fs::read(&many).unwrap(), fs::read(&large).unwrap()];
    let expected = answers(&store).await.unwrap();
    let done = compress(&place, &store).await;
    let sizes = [&many, &large].map(|log| fs::metadata(zst(log)).unwrap().len());
    assert_eq!((done.logs, done.damaged, done.stopped), (2, 0, false));
    assert_eq!(done.bytes_before, former.iter().map(|log| log.len() as u64).sum::<u64>());
    assert_eq!(done.bytes_after, sizes.iter().sum::<u64>());
    assert!(done.bytes_after * 3 < done.bytes_before, "{done:?}");
    for (log, text) in [&many, &large].into_iter().zip(&former) {
        assert_eq!(fs::read(log).unwrap(), b"");
        assert!(zstd::decode_all(&*fs::read(zst(log)).unwrap()).unwrap() == *text);
    }
    assert!(answers(&store).await.unwrap() == expected);
    assert_eq!(verified(&store).await, []);
    assert_eq!(compress(&place, &store).await, CompressedLogs::default());
    // Pages, entries by their ids, and a rewind, which is an append.
    let mut page = PageRequest::first(7);
    let first = threads(&store).list_entries(&thread("many"), EntryQuery::all().with_page(page.clone())).await.unwrap();
    page = page.after(first.next.unwrap());
    let second = threads(&store).list_entries(&thread("many"), EntryQuery::all().with_page(page)).await.unwrap();
    assert_eq!(second.items.first().unwrap().seq, 8);
    let entry = Arc::clone(&second.items[3]);
    assert_eq!(threads(&store).load_entry(&thread("many"), &entry.id).await.unwrap().as_ref(), Some(&entry));
    let back = saying("many", "before").entry(NewEntry::new(RewindTo::Entry(entry.id.clone())));
    commit(&store, back).await.unwrap();
    say(&store, "many", "after the rewind").await.unwrap();
    let plain = fs::read(&many).unwrap();
    assert!(plain.starts_with(b"{\"t\":\"entry\"") && plain.len() < 4_000);
    let expected = answers(&store).await.unwrap();
    assert_eq!(verified(&store).await, []);
    // It goes on behind a close and without the index, for a reader, too.
    store.close().await.unwrap();
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    assert!(answers(&reader).await.unwrap() == expected);
    assert_eq!(verified(&reader).await, []);
    drop(reader);
    for without_index in [false, true] {
        if without_index {
            fs::remove_dir_all(place.root().join("index")).unwrap();
        }
        let store = place.open();
        assert_eq!(store.opening().index_rebuilt, without_index);
        assert!(answers(&store).await.unwrap() == expected);
        assert_eq!(verified(&store).await, []);
        store.close().await.unwrap();
    }
    // What grew enough is compressed again.
    let store = place.open();
    write(&store, "many", 300, 60).await;
    let (text, expected) = (fs::read(&many).unwrap(), answers(&store).await.unwrap());
    assert_eq!(compress(&place, &store).await.logs, 1);
    let whole = zstd::decode_all(&*fs::read(zst(&many)).unwrap()).unwrap();
    assert!(whole.starts_with(&former[0]) && whole.ends_with(&text) && whole.len() == former[0].len() + text.len());
    assert!(answers(&store).await.unwrap() == expected);
    assert_eq!(verified(&store).await, []);
}

/// Shows FI-14 and TH-20: with a deleted thread or tenant both files of its log go.
#[tokio::test]
async fn a_deletion_removes_both_files() {
    let place = Place::new();
    let store = filled(&place).await;
    let event = NewEvent::new("said".parse().unwrap(), [Scope::Thread(thread("many"))]);
    commit(&store, saying("many", "with an event").with_events(AppendEvents::new([event]))).await.unwrap();
    compress(&place, &store).await;
    let log = place.log("many");
    threads(&store).delete_thread(&thread("many"), DeleteRequest::default()).await.unwrap();
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    assert!(!log.exists() && !zst(&log).exists());
    // The event was read from the compressed log.
    let info = commits(&store).events().load_scope(&Scope::Thread(thread("many"))).await.unwrap();
    assert_eq!((info.appended, info.events), (1, 1));
    assert_eq!(verified(&store).await, []);
    store.delete_tenant(&TenantId::default_tenant()).await.unwrap();
    let names: Vec<_> = place.tree().into_keys().filter(|name| name.starts_with("tenants/")).collect();
    assert_eq!(names, Vec::<String>::new());
}

/// Stops after the first log.
#[derive(Debug)]
struct Once;

impl Progress for Once {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        assert_eq!((done, total), (1, Some(2)));
        false
    }
}

/// Shows FI-14 and PR-17: a compression can be counted first, and stopped between two logs; a store that is open for
/// reading refuses it.
#[tokio::test]
async fn a_compression_can_be_counted_and_stopped() {
    let place = Place::new();
    let store = filled(&place).await;
    let default = TenantId::default_tenant();
    let request = CompressLogs::new(Duration::from_secs(1));
    let run = async |request| store.compress_logs(&default, request, &IgnoreProgress).await.unwrap();
    assert_eq!(run(request).await, CompressedLogs::default(), "nothing is old enough");
    place.clock.advance(Duration::from_secs(2));
    let before = place.tree();
    let counted = run(request.dry()).await;
    assert_eq!((counted.logs, counted.bytes_after, place.tree() == before), (2, 0, true));
    let stopped = store.compress_logs(&default, request, &Once).await.unwrap();
    assert_eq!((stopped.logs, stopped.stopped), (1, true));
    let rest = run(request).await;
    assert_eq!((rest.logs, rest.stopped), (1, false));
    assert_eq!(stopped.bytes_before + rest.bytes_before, counted.bytes_before);
    let other = TenantId::new("other").unwrap();
    assert_eq!(store.compress_logs(&other, request, &IgnoreProgress).await.unwrap(), CompressedLogs::default());
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let refused = reader.compress_logs(&default, request, &IgnoreProgress).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

/// Shows FI-4 and FI-14: a damaged log is not compressed, and stays as it is.
#[tokio::test]
async fn a_damaged_log_is_not_compressed() {
    let place = Place::new();
    let store = filled(&place).await;
    store.close().await.unwrap();
    edit(&place.log("many"), |log| log[9_000] ^= 1);
    edit(&place.log("large"), |log| log.truncate(300_000));
    let before = [fs::read(place.log("many")).unwrap(), fs::read(place.log("large")).unwrap()];
    let store = place.open();
    let done = compress(&place, &store).await;
    assert_eq!((done.logs, done.damaged), (0, 2));
    assert_eq!([fs::read(place.log("many")).unwrap(), fs::read(place.log("large")).unwrap()], before);
    assert!(!zst(&place.log("many")).exists() && !zst(&place.log("large")).exists());
    assert!(!place.root().join("cold.new").exists());
}

/// Shows FI-4, FI-11 and FI-14: damage of a compressed file concerns its own thread, with and without the index, is
/// named by a verification, and no repair makes it worse.
#[tokio::test]
async fn damage_of_a_compressed_file_is_found() {
    let place = Place::new();
    let store = filled(&place).await;
    compress(&place, &store).await;
    say(&store, "many", "plain").await.unwrap();
    store.close().await.unwrap();
    let name = zst(&place.log("many")).strip_prefix(place.root()).unwrap().to_str().unwrap().to_owned();
    let len = fs::metadata(place.root().join(&name)).unwrap().len();
    type Change = fn(&Path);
    let changes: [(&str, Change, String); 6] = [
        ("the first frame", |file| edit(file, |bytes| bytes[500] ^= 1), format!("{name}:0")),
        ("the table", |file| edit(file, |bytes| *bytes.iter_mut().nth_back(20).unwrap() ^= 1), format!("{name}:{len}")),
        ("an end that is missing", |file| edit(file, |bytes| bytes.truncate(1_000)), format!("{name}:1000")),
        ("an empty file", |file| edit(file, Vec::clear), format!("{name}:0")),
        ("a missing file", |file| fs::remove_file(file).unwrap(), name.trim_end_matches(".zst").to_owned()),
        ("a folder", |file| (fs::remove_file(file).unwrap(), fs::create_dir(file).unwrap()).1, format!("{name}:0")),
    ];
    for (what, change, at) in changes {
        let copy = place.copy();
        change(&copy.root().join(&name));
        for without_index in [false, true] {
            if without_index {
                fs::remove_dir_all(copy.root().join("index")).unwrap();
            }
            let place = format!("{what}, without index: {without_index}");
            let store = copy.open();
            let read = threads(&store).list_entries(&thread("many"), EntryQuery::all()).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt, "{place}");
            assert_eq!(say(&store, "many", "x").await.unwrap_err().kind(), ErrorKind::Corrupt, "{place}");
            let others = threads(&store).list_entries(&thread("large"), EntryQuery::all()).await.unwrap();
            assert!(!others.items.is_empty(), "{place}");
            say(&store, "large", "goes on").await.unwrap();
            let before = fs::read(copy.log("many")).unwrap();
            let found = verified(&store).await;
            let is_named = found.iter().any(|(_, place)| place.starts_with(&at));
            assert!(found.len() == 1 && is_named, "{place}: {found:?} and not {at}");
            store.inspector().unwrap().repair(false, &IgnoreProgress).await.unwrap();
            assert_eq!(fs::read(copy.log("many")).unwrap(), before, "{place}");
            assert_eq!(verified(&store).await, found, "{place}");
            store.close().await.unwrap();
        }
    }
    // With the file as it was all is there again.
    let store = place.open();
    assert_eq!(verified(&store).await, []);
}

/// Shows FI-14 and FI-15: a reader in another process goes on while the holder compresses and appends.
#[tokio::test]
async fn a_reader_beside_the_holder_goes_on() {
    let place = Place::new();
    let store = filled(&place).await;
    let scope = Scope::Thread(thread("many"));
    let event = || AppendEvents::new([NewEvent::new("said".parse().unwrap(), [scope.clone()])]);
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    assert!(answers(&reader).await.unwrap() == answers(&store).await.unwrap());
    let subscribe = Subscribe::new(scope.clone(), SubscriptionStart::First);
    let mut events = commits(&reader).events().subscribe(subscribe).await.unwrap().events;
    for round in 0..3 {
        let expected = answers(&store).await.unwrap();
        compress(&place, &store).await;
        assert!(answers(&reader).await.unwrap() == answers(&reader).await.unwrap());
        if round == 0 {
            assert!(answers(&reader).await.unwrap() == expected);
        }
        write(&store, "many", 200, 100).await;
        commit(&store, saying("many", "said").with_events(event())).await.unwrap();
        // With the event the reader has the rest of the log.
        std::future::poll_fn(|context| events.as_mut().poll_next(context)).await.unwrap().unwrap();
        assert!(answers(&reader).await.unwrap() == answers(&store).await.unwrap(), "round {round}");
    }
}

/// Shows FI-14: threads are written and read while their logs are compressed again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn writers_and_readers_go_on_during_a_compression() {
    let place = Place::new();
    let store = place.open();
    let count: u64 = TestLength::pick_by_env(40, 200, 2_000);
    let is_done = AtomicBool::new(false);
    let writers = async {
        let writer = |id: &'static str| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 1..=count {
                    write(&store, id, 4, 2_000).await;
                    if number.is_multiple_of(8) {
                        // A log is not compressed if it was written while its compressed form was made.
                        tokio::time::sleep(Duration::from_millis(30)).await;
                    }
                    assert!(
                        !threads(&store).list_entries(&thread(id), EntryQuery::all()).await.unwrap().items.is_empty()
                    );
                }
            })
        };
        for writer in ["a", "b", "c"].map(writer) {
            writer.await.unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
    };
    let compressing = async {
        let mut logs = 0;
        while !is_done.load(Ordering::SeqCst) {
            place.clock.advance(Duration::from_millis(5));
            let request = CompressLogs::new(Duration::ZERO);
            logs += store.compress_logs(&TenantId::default_tenant(), request, &IgnoreProgress).await.unwrap().logs;
            tokio::task::yield_now().await;
        }
        logs
    };
    let ((), logs) = tokio::join!(writers, compressing);
    let last = compress(&place, &store).await;
    println!("{logs} compressions beside the writers, and {} at the end", last.logs);
    assert!(logs + last.logs >= 3, "{logs}");
    for id in ["a", "b", "c"] {
        let page = PageRequest::first(1);
        let last = EntryQuery::all().with_page(page).with_direction(Direction::Backward);
        let last = threads(&store).list_entries(&thread(id), last).await.unwrap().items.remove(0);
        assert_eq!(last.seq, count * 5);
    }
    assert_eq!(verified(&store).await, []);
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    assert!(answers(&place.open()).await.unwrap() == expected);
}
