//! The simulated disk loses what it should, and only that.

use store_file::testing::{Fault, FilePath, Open, SimDisk, Survivors, Vfs, ensure_dir, read_small, replace};

fn path(text: &str) -> FilePath {
    FilePath::new(text).unwrap()
}

fn content(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    read_small(disk, &path(name), 10_000).unwrap()
}

/// A durable file with these bytes.
fn durable(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    let file = disk.open(&path("f"), Open::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(&FilePath::root()).unwrap();
    disk
}

#[test]
fn a_write_without_a_sync_is_lost() {
    let disk = durable(b"old");
    let file = disk.open(&path("f"), Open::Write).unwrap();
    file.write_at(b"new", 0).unwrap();
    assert_eq!(content(&disk, "f").unwrap(), b"new");
    assert_eq!(content(&disk.after_crash(Survivors::Synced), "f").unwrap(), b"old");
    assert_eq!(content(&disk.after_crash(Survivors::All), "f").unwrap(), b"new");
    file.sync_data().unwrap();
    assert_eq!(content(&disk.after_crash(Survivors::Synced), "f").unwrap(), b"new");
}

#[test]
fn a_name_without_a_sync_of_its_folder_is_lost() {
    let disk = SimDisk::new();
    ensure_dir(&disk, &path("d")).unwrap();
    let file = disk.open(&path("d/f"), Open::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&disk.after_crash(Survivors::Synced), "d/f"), None);
    assert_eq!(content(&disk.after_crash(Survivors::Names), "d/f").unwrap(), b"x");
    disk.sync_dir(&path("d")).unwrap();
    disk.unlink(&path("d/f")).unwrap();
    assert_eq!(content(&disk.after_crash(Survivors::Synced), "d/f").unwrap(), b"x");
    assert_eq!(content(&disk.after_crash(Survivors::All), "d/f"), None);
}

#[test]
fn a_rename_survives_whole_or_not_at_all() {
    let disk = durable(b"old");
    replace(&disk, &path("f"), b"new").unwrap();
    disk.rename(&path("f"), &path("g")).unwrap();
    for seed in 0..50 {
        let after = disk.after_crash(Survivors::Random(seed));
        assert_eq!(content(&after, "f").is_some(), content(&after, "g").is_none());
    }
    assert_eq!(content(&disk.after_crash(Survivors::AllButRenames), "f").unwrap(), b"new");
}

#[test]
fn the_last_write_is_torn_at_any_byte() {
    let disk = durable(b"0123456789");
    disk.open(&path("f"), Open::Write).unwrap().write_at(b"abcdef", 2).unwrap();
    assert_eq!(disk.last_unsynced_write(), Some(6));
    for keep in 0..=6 {
        let expected = ["01", &"abcdef"[..keep], &"23456789"[keep..]].concat();
        assert_eq!(content(&disk.after_crash(Survivors::Torn(keep)), "f").unwrap(), expected.as_bytes());
    }
}

#[test]
fn unsynced_sectors_survive_in_any_combination() {
    let disk = durable(&[0; 2048]);
    disk.open(&path("f"), Open::Write).unwrap().write_at(&[1; 2048], 0).unwrap();
    let seen: std::collections::BTreeSet<_> =
        (0..200).map(|seed| disk.after_crash(Survivors::Random(seed)).fingerprint()).collect();
    assert_eq!(seen.len(), 16);
}

#[test]
fn faults_occur_at_the_chosen_call() {
    for (fault, calls) in [(Fault::Stop, 5), (Fault::Eio, 5), (Fault::Enospc, 2)] {
        let mut failed = 0;
        for call in 0..5 {
            let disk = SimDisk::new().with_fault(call, fault);
            let outcome = (|| {
                let file = disk.open(&path("f"), Open::CreateNew)?;
                file.write_at(b"four", 0)?;
                file.sync_data()?;
                disk.rename(&path("f"), &path("g"))?;
                disk.sync_dir(&FilePath::root())
            })();
            failed += usize::from(outcome.is_err());
            let lives = disk.list(&FilePath::root()).is_ok();
            assert_eq!(lives, fault != Fault::Stop);
            if call == 1 && fault != Fault::Stop {
                assert_eq!(content(&disk, "f").unwrap(), b"fo", "a failed write reached the file in part");
            }
        }
        assert_eq!(failed, calls, "{fault:?}");
    }
}

#[test]
fn a_failed_sync_loses_its_writes_and_a_second_one_does_not_help() {
    let disk = durable(b"old").after_crash(Survivors::All).with_fault(1, Fault::Eio);
    let file = disk.open(&path("f"), Open::Write).unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "f").unwrap(), b"new");
    assert_eq!(content(&disk.after_crash(Survivors::All), "f").unwrap(), b"old");
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&disk.after_crash(Survivors::Synced), "f").unwrap(), b"new");
}

#[test]
fn a_full_disk_refuses_what_needs_space() {
    let disk = durable(b"old");
    disk.set_full(true);
    let file = disk.open(&path("f"), Open::Write).unwrap();
    assert!(file.write_at(b"x", 9).is_err() && disk.create_dir(&path("d")).is_err());
    file.truncate(0).unwrap();
    disk.set_full(false);
    file.write_at(b"x", 0).unwrap();
}
