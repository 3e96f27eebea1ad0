//! Roots that are damaged, changed by others or cut short: what is noticed, what is reported, what stays as it was.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use store_core::{
    EntryQuery, Error, ErrorKind, Expect, PageRequest, Progress, Result, Store, TenantId, ThreadQuery, Version,
};
use store_file::{Durability, FileStore};

use crate::folder::{Place, answers, commit, copy_tree, edit, fill, say, saying, thread, threads};

/// A store that was written and not closed, and the root as a killed process would leave it.
pub(crate) async fn killed() -> (Place, Vec<String>) {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    (place.copy(), answers(&store).await.unwrap())
}

/// The same, but the journal has nothing: everything was in the logs, durably, before the store was opened last.
pub(crate) async fn killed_when_idle() -> (Place, Vec<String>) {
    let (place, expected) = closed().await;
    let _store = place.open();
    (place.copy(), expected)
}

/// A root that was written and closed.
pub(crate) async fn closed() -> (Place, Vec<String>) {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    (place, expected)
}

fn below_root(place: &Place, path: &Path) -> String {
    path.strip_prefix(place.root()).unwrap().to_str().unwrap().to_owned()
}

pub(crate) async fn entries(store: &FileStore, id: &str) -> Result<usize> {
    Ok(threads(store).list_entries(&thread(id), EntryQuery::all()).await?.items.len())
}

/// Removes the last batches of a journal, as a power cut does where they were not synced. The logs may have them.
pub(crate) fn lose_batches(place: &Place, count: usize) {
    edit(&place.root().join("journal.0"), |journal| {
        for _ in 0..count {
            let mut starts = (0..journal.len()).step_by(512);
            let last = starts.rfind(|at| journal[*at..].starts_with(b"\0batch\0\x01")).unwrap();
            journal[last..last + 64].fill(0);
        }
    });
}

/// Removes the last commit of a log.
fn cut_commit(log: &mut Vec<u8>) {
    let last = log.len() - 1;
    let ends: Vec<usize> = (0..last).filter(|at| log[*at] == b'\n').collect();
    let group = ends.iter().rposition(|end| log[..*end].ends_with(b"\"}") && is_commit(&log[..*end])).unwrap();
    log.truncate(ends[group] + 1);
}

fn is_commit(text: &[u8]) -> bool {
    let line = text.rsplit(|byte| *byte == b'\n').next().unwrap();
    line.starts_with(br#"{"t":"commit","#)
}

/// The offsets at which the groups of a log start, and its length.
pub(crate) fn groups(log: &Path) -> Vec<usize> {
    let bytes = fs::read(log).unwrap();
    let mut starts = vec![bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1];
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n' && is_commit(&bytes[..*at]));
    starts.extend(ends.map(|end| end + 1));
    starts
}

/// Shows FI-3: what a killed process left behind the last whole commit goes to a file of its own and is reported, and
/// the log goes on.
#[tokio::test]
async fn a_torn_tail_is_set_aside_and_reported() {
    let (place, expected) = killed().await;
    let torn = br#"{"t":"entry","seq":7,"id":"e"#;
    let log = place.log("a");
    let end = fs::metadata(&log).unwrap().len();
    edit(&log, |log| log.extend_from_slice(torn));
    let store = place.open();
    let found = store.opening().set_aside.clone();
    assert!(store.opening().unclean && store.opening().damaged.is_empty());
    assert_eq!(found.len(), 1, "{found:?}");
    let (name, bytes) = (below_root(&place, &log), torn.len() as u64);
    assert_eq!((&found[0].log, found[0].offset, found[0].bytes, found[0].acknowledged), (&name, end, bytes, false));
    assert_eq!(fs::read(place.root().join(found[0].path.as_ref().unwrap())).unwrap(), torn);
    assert_eq!(fs::metadata(&log).unwrap().len(), end);
    assert_eq!(answers(&store).await.unwrap(), expected);
    say(&store, "a", "it goes on").await.unwrap();
    store.close().await.unwrap();
    let store = place.open();
    assert_eq!((entries(&store, "a").await.unwrap(), store.opening().set_aside.len()), (7, 0));
}

/// Whether an error is damage of this file, told with an offset.
fn tells_damage<T: std::fmt::Debug>(result: Result<T>, place: &Place, log: &Path) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&format!("{} at byte ", below_root(place, log))), "{error}");
    error
}

/// Shows FI-4: a byte changed in the middle of a log, found as the log is read again, concerns its thread alone, and
/// nothing is cut off.
#[tokio::test]
async fn a_changed_byte_affects_only_its_own_thread() {
    let (place, _) = killed_when_idle().await;
    let log = place.log("a");
    let start = groups(&log)[2];
    edit(&log, |log| log[start + 40] ^= 4);
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let damaged = fs::read(&log).unwrap();
    for _ in 0..2 {
        let store = place.open();
        assert_eq!((store.opening().damaged.len(), store.opening().set_aside.len()), (1, 0));
        let error = tells_damage(entries(&store, "a").await, &place, &log);
        assert!(error.to_string().ends_with(&format!("at byte {start}")), "{error}");
        tells_damage(say(&store, "a", "x").await, &place, &log);
        tells_damage(threads(&store).load_thread(&thread("a")).await, &place, &log);
        say(&store, "b", "works").await.unwrap();
        say(&store, "c", "works").await.unwrap();
        assert!(entries(&store, "b").await.unwrap() > 4);
        store.close().await.unwrap();
        assert_eq!(fs::read(&log).unwrap(), damaged);
        // Unclean again, and again without an index.
        fs::remove_file(place.root().join("lock")).unwrap();
    }
}

/// Shows FI-4: a byte changed after a clean close is found by whoever reads its record, and by nobody else.
#[tokio::test]
async fn a_changed_byte_after_a_close_is_found_when_it_is_read() {
    let (place, _) = closed().await;
    let log = place.log("a");
    let start = groups(&log)[2];
    edit(&log, |log| log[start + 40] ^= 4);
    let damaged = fs::read(&log).unwrap();
    let store = place.open();
    tells_damage(entries(&store, "a").await, &place, &log);
    let last = EntryQuery::all().with_direction(store_core::Direction::Backward).with_page(PageRequest::first(1));
    assert_eq!(threads(&store).list_entries(&thread("a"), last).await.unwrap().items.len(), 1);
    assert_eq!(entries(&store, "b").await.unwrap(), 4);
    store.close().await.unwrap();
    assert_eq!(fs::read(&log).unwrap(), damaged);
}

/// Shows FI-10: an index that was deleted is made again and answers the same.
#[tokio::test]
async fn a_deleted_index_is_rebuilt() {
    for (place, expected) in [closed().await, killed().await] {
        fs::remove_dir_all(place.root().join("index")).unwrap();
        let store = place.open();
        assert!(store.opening().index_rebuilt && store.opening().logs_read == 2, "{:?}", store.opening());
        assert_eq!(answers(&store).await.unwrap(), expected);
        store.close().await.unwrap();
        let store = place.open();
        assert!(!store.opening().index_rebuilt);
        assert_eq!(answers(&store).await.unwrap(), expected);
    }
}

/// Steps that were heard of, up to which it goes on.
#[derive(Debug)]
struct Steps(Mutex<Vec<(u64, Option<u64>)>>, u64);

impl Progress for Steps {
    fn advance(&self, done: u64, total: Option<u64>) -> bool {
        self.0.lock().unwrap().push((done, total));
        done < self.1
    }
}

/// Shows FI-10 and PR-17: the opening says how far it is with a new index; one that is stopped does no harm.
#[tokio::test]
async fn rebuilding_the_index_reports_progress() {
    let (place, expected) = closed().await;
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let open = |until| {
        let steps = Arc::new(Steps(Mutex::default(), until));
        let opened = FileStore::open(place.root(), place.config().with_progress(Arc::<Steps>::clone(&steps)));
        (opened, std::mem::take(&mut *steps.0.lock().unwrap()))
    };
    let (stopped, steps) = open(1);
    assert_eq!((stopped.unwrap_err().kind(), steps), (ErrorKind::Unavailable, vec![(1, Some(2))]));
    let (store, steps) = open(9);
    let store = store.unwrap();
    assert!(store.opening().index_rebuilt);
    assert_eq!(steps, [(1, Some(2)), (2, Some(2))]);
    assert_eq!(answers(&store).await.unwrap(), expected);
    store.close().await.unwrap();
    assert_eq!(open(0).1, [], "a trusted index needs no logs");
}

/// Shows FI-10: of a damaged index nothing comes but right answers or `Corrupt`, and without it all is right.
#[tokio::test]
async fn a_damaged_index_never_gives_wrong_answers() {
    let (place, expected) = closed().await;
    let files: Vec<String> = place.tree().into_iter().filter_map(index_file).collect();
    assert!(files.len() >= 2, "{files:?}");
    let mut noticed = 0;
    for (number, name) in files.iter().cycle().take(files.len() * 4).enumerate() {
        let place = place.copy();
        let len = fs::metadata(place.root().join(name)).unwrap().len();
        let at = usize::try_from(len * (number as u64 * 7 % 20) / 20).unwrap();
        edit(&place.root().join(name), |bytes| bytes[at] ^= 1 << (number % 8));
        let store = place.try_open().unwrap_or_else(|error| panic!("{name} at byte {at}: {error}"));
        noticed += usize::from(store.opening().index_rebuilt);
        match answers(&store).await {
            Ok(found) => assert_eq!(found, expected, "{name} at byte {at}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{name} at byte {at}: {error}");
                drop(store);
                let again = place.open();
                assert!(again.opening().index_rebuilt, "{name} at byte {at}");
                assert_eq!(answers(&again).await.unwrap(), expected, "{name} at byte {at}");
                continue;
            }
        }
        drop(store);
        fs::remove_dir_all(place.root().join("index")).unwrap();
        assert_eq!(answers(&place.open()).await.unwrap(), expected);
    }
    assert!(noticed > 0);
}

fn index_file((name, (_, bytes)): (String, (u32, Option<Vec<u8>>))) -> Option<String> {
    (name.starts_with("index/") && bytes.is_some_and(|bytes| !bytes.is_empty())).then_some(name)
}

fn put_index_back(place: &Place, index: &Path) {
    fs::remove_dir_all(place.root().join("index")).unwrap();
    copy_tree(index, &place.root().join("index"));
}

/// Shows FI-10: an index of an older state, copied back after a clean close, is noticed and made again.
#[tokio::test]
async fn an_index_of_an_earlier_close_is_rebuilt() {
    let (place, _) = closed().await;
    let old = place.around.path().join("old");
    copy_tree(&place.root().join("index"), &old);
    let store = place.open();
    say(&store, "a", "later").await.unwrap();
    say(&store, "c", "later").await.unwrap();
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    put_index_back(&place, &old);
    let store = place.open();
    assert!(store.opening().index_rebuilt);
    assert_eq!(answers(&store).await.unwrap(), expected);
}

/// Shows FI-10: an index that lags behind after an unclean end catches up from the logs.
#[tokio::test]
async fn an_index_that_lags_behind_catches_up() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let early = place.copy();
    say(&store, "a", "later").await.unwrap();
    say(&store, "c", "later").await.unwrap();
    threads(&store).delete_thread(&thread("b"), store_core::DeleteRequest::default()).await.unwrap();
    let expected = answers(&store).await.unwrap();
    let late = place.copy();
    put_index_back(&late, &early.root().join("index"));
    let store = late.open();
    assert!(store.opening().unclean && !store.opening().index_rebuilt && store.opening().logs_read > 0);
    assert_eq!(answers(&store).await.unwrap(), expected);
}

/// Shows FI-10: the index of another root is noticed.
#[tokio::test]
async fn an_index_of_another_root_is_rebuilt() {
    let ((place, expected), (other, _)) = (closed().await, closed().await);
    put_index_back(&place, &other.root().join("index"));
    let store = place.open();
    assert!(store.opening().index_rebuilt);
    assert_eq!(answers(&store).await.unwrap(), expected);
}

/// What somebody did to the log of `a` while nobody had the root open.
type Change = fn(&Place, PathBuf);

const CHANGES: [(&str, Change); 5] = [
    ("longer", |_, log| edit(&log, |log| log.extend_from_slice(b"{\"t\":\"entry\"}\n"))),
    ("shorter", |_, log| edit(&log, cut_commit)),
    ("another", |place, log| edit(&log, |log| *log = fs::read(place.log("b")).unwrap())),
    ("damaged", |_, log| edit(&log, |log| log[5] ^= 1)),
    ("missing", |_, log| fs::remove_file(log).unwrap()),
];

/// Shows FI-11: a log that others changed after a clean close is noticed at the next use of its thread, reported and
/// not touched; other threads work.
#[tokio::test]
async fn a_log_changed_by_another_program_is_noticed() {
    let (whole, _) = closed().await;
    for (word, change) in CHANGES {
        let place = whole.copy();
        let log = place.log("a");
        change(&place, log.clone());
        let changed = fs::read(&log).ok();
        for write_first in [true, false] {
            let store = place.open();
            let write = if write_first { Some(say(&store, "a", "x").await) } else { None };
            let errors = [write.map(Result::unwrap_err), Some(entries(&store, "a").await.unwrap_err())];
            for error in errors.into_iter().flatten() {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{word}: {error}");
                assert!(error.to_string().contains(&below_root(&place, &log)), "{word}: {error}");
            }
            say(&store, "b", "works").await.unwrap();
            store.close().await.unwrap();
            assert_eq!(fs::read(&log).ok(), changed, "{word}");
        }
    }
}

/// Shows FI-11: the log of another thread of the same length and end is told by its header, and by its last commit.
#[tokio::test]
async fn a_log_replaced_by_one_of_the_same_length_is_noticed() {
    let (place, _) = closed().await;
    let (a, b) = (place.log("a"), place.log("b"));
    let len = fs::metadata(&b).unwrap().len();
    edit(&a, |log| log.truncate(usize::try_from(len).unwrap()));
    fs::copy(&a, &b).unwrap();
    let store = place.open();
    let error = entries(&store, "b").await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("another thread"), "{error}");
}

/// A store that acknowledges before it syncs, after a sync and some commits more.
async fn unsynced(place: &Place) -> FileStore {
    let store = FileStore::open(place.root(), place.config().with_durability(Durability::None)).unwrap();
    fill(&store).await;
    store.sync().await.unwrap();
    for number in 0..3 {
        say(&store, "a", &format!("not synced {number}")).await.unwrap();
    }
    store
}

/// Shows FI-12: after an unclean end a store that acknowledged what it had not synced opens in a new incarnation, which
/// refuses versions and cursors of the one before.
#[tokio::test]
async fn a_store_with_unsynced_data_reopens_in_a_new_incarnation() {
    let place = Place::new();
    let store = unsynced(&place).await;
    let version = threads(&store).load_thread(&thread("a")).await.unwrap().unwrap().version;
    let query = ThreadQuery::default().with_page(PageRequest::first(1));
    let cursor = threads(&store).list_threads(query.clone()).await.unwrap().next.unwrap();
    let cut = place.copy();
    lose_batches(&cut, 2);
    let store = cut.open();
    assert_eq!((entries(&store, "a").await.unwrap(), store.opening().set_aside.len()), (7, 1));
    let now = threads(&store).load_thread(&thread("a")).await.unwrap().unwrap().version;
    assert_eq!((version.incarnation(), now.incarnation()), (0, 1));
    for number in 1..=version.number() {
        let old = saying("a", "x").expecting(Expect::Version(Version::new(number, 1, 0)));
        assert_eq!(commit(&store, old).await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    let again = query.clone().with_page(PageRequest::first(1).after(cursor));
    assert_eq!(threads(&store).list_threads(again).await.unwrap_err().kind(), ErrorKind::InvalidCursor);
    commit(&store, saying("a", "x").expecting(Expect::Version(now))).await.unwrap();
    // A clean close after that: the incarnation stays.
    store.close().await.unwrap();
    assert_eq!(threads(&cut.open()).load_thread(&thread("a")).await.unwrap().unwrap().version.incarnation(), 1);
}

/// Shows FI-12: a power cut takes the end of what was not synced, never its middle, even if the index knows more.
#[tokio::test]
async fn unsynced_data_is_lost_only_from_the_end() {
    let place = Place::new();
    let _store = unsynced(&place).await;
    for with_index in [true, false] {
        for lost in 0..3 {
            let cut = place.copy();
            lose_batches(&cut, lost);
            if !with_index {
                fs::remove_dir_all(cut.root().join("index")).unwrap();
            }
            let store = cut.open();
            assert!(store.opening().damaged.is_empty(), "{:?}", store.opening());
            assert_eq!(store.opening().set_aside.len(), usize::from(lost > 0), "{:?}", store.opening());
            assert_eq!(entries(&store, "a").await.unwrap(), 9 - lost, "with index: {with_index}");
            say(&store, "a", "goes on").await.unwrap();
            assert_eq!(entries(&store, "a").await.unwrap(), 10 - lost);
        }
    }
}

/// Shows FI-12: after a clean close nothing is refused, and a store that syncs before it acknowledges never is.
#[tokio::test]
async fn a_close_or_a_sync_keeps_the_incarnation() {
    let place = Place::new();
    unsynced(&place).await.close().await.unwrap();
    let store = place.open();
    let version = say(&store, "a", "x").await.unwrap();
    let killed = place.copy();
    let store = killed.open();
    assert!(store.opening().unclean);
    commit(&store, saying("a", "y").expecting(Expect::Version(version))).await.unwrap();
}

/// Shows FI-12: if nothing can be read of who had the root last, what it may have lost is taken as lost.
#[tokio::test]
async fn an_unreadable_lock_counts_as_an_unclean_close() {
    let place = Place::new();
    unsynced(&place).await.close().await.unwrap();
    for lock in [&b""[..], b"{\"clean\":true}\n", b"\0\0\0\0"] {
        let place = place.copy();
        fs::write(place.root().join("lock"), lock).unwrap();
        edit(&place.log("a"), |log| log.extend_from_slice(b"torn"));
        let store = place.open();
        assert!(store.opening().unclean && store.opening().set_aside.len() == 1);
        assert_eq!(say(&store, "a", "x").await.unwrap().incarnation(), 1);
    }
}

/// Shows FI-4, TN-3: what is reported names files, and no tenant by its name.
#[tokio::test]
async fn reports_of_damage_do_not_name_tenants() {
    let place = Place::new();
    let store = place.open();
    let commits = store.tenant(&TenantId::new("secret-name").unwrap()).unwrap().commits.unwrap();
    commits.commit(saying("a", "x")).await.map(drop).unwrap();
    store.close().await.unwrap();
    edit(&place.log("a"), |log| log[2] ^= 1);
    let store = place.open();
    let threads = store.tenant(&TenantId::new("secret-name").unwrap()).unwrap().threads.unwrap();
    let error = threads.list_entries(&thread("a"), EntryQuery::all()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && !error.to_string().contains("secret"), "{error}");
}
