//! Tests of the index, on disk and in memory.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread::scope,
};

use super::{Changes, Condition, Direction, Index, Key};
use crate::{vfs::Disk, walk::Walk};

fn each(check: impl Fn(&Index)) {
    check(&Index::in_memory());
    let temp = tempfile::tempdir().unwrap();
    let (index, condition) = Index::open(&Disk::open(temp.path()).unwrap()).unwrap();
    assert_eq!(condition, Condition::New);
    check(&index);
}

fn changed(index: &Index, change: impl FnOnce(&mut Changes)) {
    let mut changes = Changes::default();
    change(&mut changes);
    index.apply(&changes).unwrap();
}

fn keys(index: &Index, prefix: &str, direction: Direction) -> Vec<String> {
    let snapshot = index.snapshot();
    let pairs = snapshot.prefix(prefix.as_bytes(), direction);
    pairs.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect()
}

#[test]
fn ranges_are_read_in_both_directions() {
    each(|index| {
        changed(index, |changes| ["a1", "a2", "a3", "b1"].iter().for_each(|key| changes.put(*key, "v")));
        assert_eq!(keys(index, "a", Direction::Forward), ["a1", "a2", "a3"]);
        assert_eq!(keys(index, "a", Direction::Backward), ["a3", "a2", "a1"]);
        assert_eq!(keys(index, "", Direction::Backward).len(), 4);
        let snapshot = index.snapshot();
        assert_eq!(snapshot.range(b"a2", b"b1", Direction::Forward).count(), 2);
        assert_eq!(snapshot.range(b"b", b"a", Direction::Forward).count(), 0);
    });
}

#[test]
fn an_index_of_another_release_is_rebuilt() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("index");
    let database = fjall::Database::builder(&folder).open().unwrap();
    let keyspace = database.keyspace("index", fjall::KeyspaceCreateOptions::default).unwrap();
    keyspace.insert("key", "value").unwrap();
    drop((keyspace, database));
    for condition in [Condition::New, Condition::Ready] {
        let (index, found) = Index::open(&Disk::open(temp.path()).unwrap()).unwrap();
        assert_eq!(found, condition);
        assert_eq!(keys(&index, "", Direction::Forward).len(), 0);
        index.close().unwrap();
    }
    let database = fjall::Database::builder(&folder).open().unwrap();
    assert_eq!(database.keyspace_count(), 1);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    each(|index| {
        changed(index, |changes| changes.put("k", "old"));
        let snapshot = index.snapshot();
        changed(index, |changes| {
            changes.put("k", "new");
            changes.put("l", "new");
        });
        assert_eq!(snapshot.get(b"k").unwrap().unwrap(), b"old");
        assert_eq!(snapshot.prefix(b"", Direction::Forward).count(), 1);
        assert_eq!(index.get(b"k").unwrap().unwrap(), b"new");
    });
}

/// Tables are written and merged all the while, which fjall does without waiting for a batch that is being applied.
#[test]
fn no_view_shows_a_batch_in_part() {
    each(|index| {
        let is_done = AtomicBool::new(false);
        let key = |number: u64| Key::new(1).number(number).into_bytes();
        scope(|threads| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    threads.spawn(|| {
                        while !is_done.load(Ordering::SeqCst) {
                            let snapshot = index.snapshot();
                            let first = snapshot.get(&key(0)).unwrap();
                            assert_eq!(
                                first,
                                snapshot.get(&key(99)).unwrap(),
                                "the last of the batch beside the first"
                            );
                        }
                    })
                })
                .collect();
            for round in 0..300_u64 {
                changed(index, |changes| {
                    (0..100).for_each(|number| changes.put(key(number), round.to_string().repeat(2_000)));
                });
            }
            is_done.store(true, Ordering::SeqCst);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    });
}

#[test]
fn the_last_change_of_a_batch_counts() {
    each(|index| {
        changed(index, |changes| ["p1", "p2", "q"].iter().for_each(|key| changes.put(*key, "v")));
        changed(index, |changes| {
            changes.put("q", "w");
            changes.delete("q");
            changes.put("p2", "once");
            changes.delete("p1");
            changes.put("p2", "again");
        });
        assert_eq!(keys(index, "", Direction::Forward), ["p2"]);
        assert_eq!(index.get(b"p2").unwrap().unwrap(), b"again");
    });
}

/// A batch that becomes a table at once is as any other, also among others.
#[test]
fn a_large_batch_counts_as_a_small_one() {
    let temp = tempfile::tempdir().unwrap();
    let disk = Disk::open(temp.path()).unwrap();
    let key = |number: u64| Key::new(1).number(number).into_bytes();
    let value = |round: &str| round.repeat(300).into_bytes();
    let (index, _) = Index::open(&disk).unwrap();
    changed(&index, |changes| (0..10).for_each(|number| changes.put(key(number), "small")));
    let held = index.snapshot();
    changed(&index, |changes| {
        (2..10_000).for_each(|number| changes.put(key(number), value("large")));
        changes.delete(key(1));
    });
    changed(&index, |changes| changes.put(key(3), "small again"));
    let check = |index: &Index| {
        let found = |number| index.get(&key(number)).unwrap();
        assert_eq!((found(0), found(1)), (Some(b"small".to_vec()), None));
        assert_eq!((found(2), found(3)), (Some(value("large")), Some(b"small again".to_vec())));
        assert_eq!(index.snapshot().prefix(b"", Direction::Forward).count(), 9_999);
    };
    check(&index);
    assert_eq!(held.get(&key(1)).unwrap().unwrap(), b"small");
    assert_eq!(held.prefix(b"", Direction::Forward).count(), 10);
    drop(held);
    index.persist().unwrap();
    drop(index);
    let (index, _) = Index::open(&disk).unwrap();
    check(&index);
    index.close().unwrap();
    check(&Index::open(&disk).unwrap().0);
}

#[test]
fn persisted_data_survives_a_reopen_of_the_index() {
    let temp = tempfile::tempdir().unwrap();
    let disk = Disk::open(temp.path()).unwrap();
    let key = Key::new(1).text("t-1").number(7).into_bytes();
    let (index, _) = Index::open(&disk).unwrap();
    changed(&index, |changes| changes.put(key.clone(), "v"));
    index.persist().unwrap();
    drop(index);
    let (index, condition) = Index::open(&disk).unwrap();
    assert_eq!(condition, Condition::Ready);
    assert_eq!(index.get(&key).unwrap().unwrap(), b"v");
}

/// The next opening has no journal to read, however much was written and however often.
#[test]
fn a_close_leaves_an_empty_journal() {
    let temp = tempfile::tempdir().unwrap();
    let disk = Disk::open(temp.path()).unwrap();
    let value = |round: u64, number: u64| format!("{round}-{number}-").repeat(200).into_bytes();
    let key = |number: u64| Key::new(1).number(number).into_bytes();
    for round in 0..4_u64 {
        let (index, condition) = Index::open(&disk).unwrap();
        assert_eq!(condition, if round == 0 { Condition::New } else { Condition::Ready });
        for number in 0..4_000 {
            let expected = (round > 0 && number % 5 != round - 1).then(|| value(round - 1, number));
            assert_eq!(index.get(&key(number)).unwrap(), expected, "{round} {number}");
        }
        (0..4_000).for_each(|number| changed(&index, |changes| changes.put(key(number), value(round, number))));
        let held = index.snapshot();
        (0..4_000).filter(|number| number % 5 == round).for_each(|number| {
            changed(&index, |changes| changes.delete(key(number)));
        });
        index.close().unwrap();
        assert_eq!(index.get(&key(1)).unwrap_err().kind(), store_core::ErrorKind::Closed);
        drop(held);
        let mut files = Vec::new();
        list(&temp.path().join("index"), &mut files);
        files.retain(|file| file.extension().is_some_and(|extension| extension == "jnl"));
        let journals: Vec<u64> = files.iter().map(|file| file.metadata().unwrap().len()).collect();
        assert_eq!(journals, [0], "{round}");
    }
}

/// Damage of the files may cost the index, never show a value that was not put.
#[test]
fn damaged_files_are_noticed_and_never_show_another_value() {
    [false, true].into_iter().for_each(damaged_files);
}

fn damaged_files(closed: bool) {
    let temp = tempfile::tempdir().unwrap();
    let (whole, root) = (temp.path().join("whole"), temp.path().join("root"));
    let (folder, disk) = (root.join("index"), Disk::create(&root).unwrap());
    let value = |number: u64| format!("value-{number}").repeat(180);
    let key = |number: u64| Key::new(1).number(number).into_bytes();
    let (index, _) = Index::open(&Disk::create(&whole).unwrap()).unwrap();
    (0..3_000).for_each(|number| changed(&index, |changes| changes.put(key(number), value(number))));
    index.persist().unwrap();
    if closed {
        index.close().unwrap();
    }
    drop(index);
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut conditions = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..24 {
        copy(&whole.join("index"), &folder);
        let mut files = Vec::new();
        list(&folder, &mut files);
        let target = &files[next(files.len())];
        let mut bytes = std::fs::read(target).unwrap();
        if !bytes.is_empty() {
            let at = next(bytes.len());
            bytes[at] ^= 1 << next(8);
        }
        std::fs::File::create(target).unwrap().write_all(&bytes).unwrap();
        let (index, condition) = Index::open(&disk).unwrap();
        let (mut ended, mut refused) = (false, 0);
        for number in (0..3_000).step_by(7) {
            match index.get(&key(number)) {
                // What is lost is lost from one batch on.
                Ok(Some(found)) => assert!(!ended && found == value(number).into_bytes(), "{number}"),
                Ok(None) => ended = true,
                Err(error) => {
                    assert_eq!(error.kind(), store_core::ErrorKind::Corrupt);
                    refused += 1;
                }
            }
        }
        for pair in index.snapshot().prefix(b"", Direction::Forward).flatten() {
            assert!(pair.0.len() == 9 && pair.1.starts_with(b"value-"));
        }
        *conditions.entry(format!("{condition:?}, ended {ended}, refused {}", refused > 0)).or_default() += 1;
        drop(index);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    println!("{conditions:?}");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, files) } else { files.push(path) }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn a_link_among_the_index_files_is_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let (root, outside) = (temp.path().join("root"), temp.path().join("outside"));
    let disk = Disk::create(&root).unwrap();
    drop(Index::open(&disk).unwrap());
    std::fs::rename(root.join("index"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("index")).unwrap();
    assert!(Index::open(&disk).is_err());
    std::fs::remove_file(root.join("index")).unwrap();
    std::fs::create_dir(root.join("index")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("index/keyspaces")).unwrap();
    let (index, condition) = Index::open(&disk).unwrap();
    changed(&index, |changes| changes.put("k", "v"));
    assert_eq!((condition, outside.join("version").exists()), (Condition::Damaged, true));
}

/// The first key of a list, for a view of any age, after any puts before it and removals from its front since the view.
#[test]
fn a_list_begins_at_the_first_key_of_its_snapshot() {
    each(|index| {
        let mut seed = 7_u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut views = std::collections::VecDeque::from([(index.snapshot(), BTreeSet::new())]);
        let mut now: BTreeSet<String> = BTreeSet::new();
        for _ in 0..1_000 {
            changed(index, |changes| {
                for _ in 0..next(4) {
                    let list = ["a", "b"][usize::try_from(next(2)).unwrap()];
                    // Mostly the first key is removed; else a key is put.
                    let key = format!("{list}{:03}", next(1_000));
                    match now.range(list.to_owned()..format!("{list}~")).next().cloned() {
                        Some(first) if next(3) > 0 => {
                            changes.delete(first.as_str());
                            now.remove(&first);
                        }
                        _ => {
                            changes.put(key.as_str(), "v");
                            now.insert(key);
                        }
                    }
                }
            });
            views.push_back((index.snapshot(), now.clone()));
            for (view, keys) in &views {
                for list in ["a", "b"] {
                    let wanted = keys.range(list.to_owned()..format!("{list}~")).next().cloned();
                    let found = Walk::next(view, &Key::from_bytes(list.as_bytes()), None, Direction::Forward).unwrap();
                    assert_eq!(found.map(|key| String::from_utf8(key).unwrap()), wanted);
                }
            }
            if views.len() > 5 {
                views.pop_front();
            }
        }
    });
}
