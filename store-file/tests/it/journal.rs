//! The journal of a root: what it mends, what becomes of it when it is lost or changed, what nothing may replace.

use std::fs;

use store_core::{ErrorKind, Store};
use store_file::FileStore;

use crate::{
    damage::{closed, entries, groups, killed},
    folder::{Place, answers, edit, say},
};

/// Shows FI-2: whatever is missing in a log of what the journal has is written again.
#[tokio::test]
async fn a_log_cut_at_any_place_is_mended_by_the_journal() {
    let (place, _) = killed().await;
    let last = groups(&place.log("b"));
    let (from, to) = (last[last.len() - 2], last[last.len() - 1]);
    for with_index in [true, false] {
        for cut in (0..from).step_by(397).chain((from..to).step_by(41)) {
            let place = place.copy();
            if !with_index {
                fs::remove_dir_all(place.root().join("index")).unwrap();
            }
            edit(&place.log("b"), |log| log.truncate(cut));
            let store = place.open();
            assert_eq!(entries(&store, "b").await.unwrap(), 4, "cut at {cut}");
            let opening = store.opening();
            assert!(opening.set_aside.is_empty() && opening.damaged.is_empty(), "cut at {cut}: {opening:?}");
            say(&store, "b", "it goes on").await.unwrap();
            assert_eq!(entries(&store, "a").await.unwrap(), 6);
        }
    }
}

/// A journal that is gone, cut short in its middle or of another root is refused by name. With the consent of the
/// caller the root is opened without it, in a new incarnation, and what was lost is told.
#[tokio::test]
async fn a_lost_journal_is_refused_and_can_be_accepted() {
    type Plant = fn(&Place, &Place);
    let plants: [(&str, Plant); 4] = [
        ("missing", |place, _| fs::remove_file(place.root().join("journal.0")).unwrap()),
        ("missing", |place, _| {
            for name in ["journal.0", "journal.1"] {
                fs::remove_file(place.root().join(name)).unwrap();
            }
        }),
        ("another store", |place, other| {
            for name in ["journal.0", "journal.1"] {
                fs::copy(other.root().join(name), place.root().join(name)).unwrap();
            }
        }),
        ("journal.0", |place, _| edit(&place.root().join("journal.0"), |journal| journal[512 + 60] ^= 1)),
    ];
    let (other, _) = killed().await;
    for (word, plant) in plants {
        let (place, expected) = killed().await;
        plant(&place, &other);
        let before = place.tree();
        let error = place.try_open().unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(word), "{word}: {error}");
        let kept = |tree: crate::folder::Tree| {
            tree.into_iter()
                .filter(|(name, _)| name.starts_with("tenants") || name.starts_with("journal"))
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(place.tree()), kept(before), "{word}");
        // The end of a log that the journal had, and a power cut took.
        edit(&place.log("b"), |log| log.truncate(log.len() - 20));
        let store = FileStore::open(place.root(), place.config().accepting_a_lost_journal()).unwrap();
        assert!(store.opening().lost_journal.as_ref().unwrap().contains(word), "{:?}", store.opening());
        assert_eq!(store.opening().set_aside.len(), 1, "{:?}", store.opening());
        assert_eq!((entries(&store, "a").await.unwrap(), entries(&store, "b").await.unwrap()), (6, 3));
        assert_ne!(answers(&store).await.unwrap(), expected);
        let seen = store.inspector().unwrap().verify(&store_core::IgnoreProgress).await.unwrap();
        assert!(seen.findings.iter().any(|found| found.detail.contains("is lost")), "{:?}", seen.findings);
        let version = say(&store, "b", "goes on").await.unwrap();
        assert_eq!((version.number(), version.incarnation()), (4, 1));
        store.close().await.unwrap();
        let store = place.open();
        assert_eq!((entries(&store, "b").await.unwrap(), store.opening().lost_journal.is_some()), (4, false));
        say(&store, "b", "and on").await.unwrap();
        assert_eq!(entries(&place.copy().open(), "b").await.unwrap(), 5);
    }
}

/// Shows FI-4: what a log lost of which the journal has nothing any more is damage, and is never taken for a crash.
#[tokio::test]
async fn acknowledged_bytes_that_are_lost_are_reported() {
    for with_index in [true, false] {
        for (says_more, cut) in [(true, 1), (true, 30), (false, 1), (false, 30)] {
            let (place, _) = closed().await;
            let len = fs::metadata(place.log("b")).unwrap().len();
            let store = place.open();
            if says_more {
                say(&store, "b", "more").await.unwrap();
            }
            let place = place.copy();
            edit(&place.log("b"), |log| log.truncate(usize::try_from(len).unwrap() - cut));
            if !with_index {
                fs::remove_dir_all(place.root().join("index")).unwrap();
            }
            let store = place.open();
            let found = (entries(&store, "b").await, store.opening().set_aside.len());
            if !with_index && !says_more {
                // Nothing says that there was more than whole commits.
                assert_eq!((found.0.unwrap(), found.1), (3, 1));
                continue;
            }
            assert_eq!(found.0.unwrap_err().kind(), ErrorKind::Corrupt, "{with_index}, {says_more}, {cut}");
            // What the journal had of it is kept.
            let kept = store.opening().set_aside.iter().filter(|aside| aside.acknowledged && aside.bytes > 100);
            assert_eq!(kept.count(), usize::from(says_more), "{:?}", store.opening());
            assert_eq!(say(&store, "b", "x").await.unwrap_err().kind(), ErrorKind::Corrupt);
            assert_eq!(store.opening().damaged.len(), usize::from(says_more), "{:?}", store.opening());
            say(&store, "a", "works").await.unwrap();
            // Nor is it forgotten later on.
            store.close().await.unwrap();
            assert_eq!(entries(&place.open(), "b").await.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}

/// A journal that lacks batches which the logs or the index have is refused: an older one in its place, or one whose
/// last batch is damaged. What was acknowledged is never rolled back in silence.
#[tokio::test]
async fn a_journal_that_lacks_batches_is_refused() {
    let early = Place::new();
    let store = early.open();
    say(&store, "a", "first").await.unwrap();
    store.close().await.unwrap();
    let late = early.copy();
    let store = late.open();
    say(&store, "a", "second").await.unwrap();
    say(&store, "b", "third").await.unwrap();
    let killed = late.copy();
    store.close().await.unwrap();
    for name in ["journal.0", "journal.1"] {
        fs::copy(early.root().join(name), late.root().join(name)).unwrap();
    }
    edit(&killed.root().join("journal.0"), |journal| {
        let last = (0..journal.len()).step_by(512).rfind(|at| journal[*at..].starts_with(b"\0batch\0\x01")).unwrap();
        journal[last + 60] ^= 1;
    });
    for place in [late, killed] {
        for with_index in [true, false] {
            let place = place.copy();
            if !with_index {
                fs::remove_dir_all(place.root().join("index")).unwrap();
            }
            let logs = |place: &Place| place.logs().iter().map(|log| fs::read(log).unwrap()).collect::<Vec<_>>();
            let before = logs(&place);
            for _ in 0..2 {
                let error = place.try_open().unwrap_err();
                assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("lacks batches"), "{error}");
            }
            assert_eq!(logs(&place), before);
            let store = FileStore::open(place.root(), place.config().accepting_a_lost_journal()).unwrap();
            assert_eq!((entries(&store, "a").await.unwrap(), entries(&store, "b").await.unwrap()), (2, 1));
            assert!(store.opening().lost_journal.is_some());
        }
    }
}

/// Behind a clean close the journal is empty: without its files nothing is lost, as long as the index says how far it
/// was.
#[tokio::test]
async fn a_journal_that_is_gone_behind_a_clean_close_begins_anew() {
    let (place, expected) = closed().await;
    for name in ["journal.0", "journal.1"] {
        fs::remove_file(place.root().join(name)).unwrap();
    }
    let bare = place.copy();
    fs::remove_dir_all(bare.root().join("index")).unwrap();
    let error = bare.try_open().unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("missing"), "{error}");
    let store = place.open();
    assert_eq!(answers(&store).await.unwrap(), expected);
    assert!(store.opening().lost_journal.is_none());
    say(&store, "b", "goes on").await.unwrap();
    let killed = place.copy();
    drop(store);
    assert_eq!(entries(&killed.open(), "b").await.unwrap(), 5);
}

/// Shows FI-4: a log that the index does not know, because its beginning is damaged, is not replaced by a new one.
#[tokio::test]
async fn a_damaged_log_is_not_replaced() {
    for at in [5, 200] {
        let (place, _) = closed().await;
        let log = place.log("b");
        edit(&log, |log| log[at] ^= 1);
        let damaged = fs::read(&log).unwrap();
        fs::remove_dir_all(place.root().join("index")).unwrap();
        place.open().close().await.unwrap();
        // From here on the index is as good as any, and has nothing of the log.
        let store = place.open();
        assert_eq!(say(&store, "b", "x").await.unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
        say(&store, "a", "works").await.unwrap();
        store.close().await.unwrap();
        assert_eq!(fs::read(&log).unwrap(), damaged, "{at}");
    }
}
