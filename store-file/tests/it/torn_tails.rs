//! F6: a log cut at every byte opens, shows whole groups only, and the rest is set aside and reported (FI-3).

use store_core::ErrorKind;
use store_file::testing::{FilePath, Open, Recovery, SimDisk, Survivors, Vfs, read_small};

use crate::given::{self, TestLog};

#[test]
fn a_log_cut_at_any_byte_of_its_last_groups_can_be_continued() {
    let whole = SimDisk::new();
    let (log, placed) = given::log(&whole, 6);
    let len = log.position().offset;
    for cut in placed[3].start..=len {
        let disk = whole.after_crash(Survivors::All);
        let file = given::open(&disk);
        file.truncate(cut).unwrap();
        file.sync_data().unwrap();
        let kept = placed.iter().filter(|group| group.end.offset <= cut).count();
        let (numbers, found) = given::recovered(&disk, Recovery::default()).unwrap();
        assert_eq!(numbers.len(), kept, "cut at {cut}");
        let good = placed[kept - 1].end;
        assert_eq!((found.end, found.header.is_some()), (good, true));
        assert_eq!(found.aside.as_ref().map_or(0, |aside| aside.bytes), cut - good.offset);
        if let Some(aside) = found.aside {
            assert_eq!((aside.offset, aside.acknowledged, &aside.log), (good.offset, false, &given::path()));
            let name = format!("aside/threads+t-1.log.{}", good.offset);
            assert_eq!(aside.path, Some(FilePath::new(name).unwrap()));
        }
        // It goes on, durably, and a second recovery finds nothing to do.
        let disk = disk.after_crash(Survivors::Synced);
        let mut log = TestLog::resume(&disk, good);
        given::append(&mut log, [kept as u64]);
        let (numbers, found) = given::recovered(&disk, Recovery::default()).unwrap();
        assert_eq!((numbers.len(), found.aside), (kept + 1, None));
    }
}

#[test]
fn a_tail_set_aside_is_kept_whole_and_never_replaced() {
    let disk = SimDisk::new();
    let (log, _) = given::log(&disk, 2);
    let end = log.position().offset;
    for (round, tail) in [&b"{\"t\":\"entry\""[..], b"\0\0\0\0", b"{}\n{}\n"].into_iter().enumerate() {
        given::open(&disk).write_at(tail, end).unwrap();
        let (numbers, found) = given::recovered(&disk, Recovery::default()).unwrap();
        assert_eq!(numbers.len(), 2);
        let path = found.aside.unwrap().path.unwrap();
        assert_eq!(path.as_str().ends_with(&format!(".{round}")), round > 0, "{path}");
        let survivor = disk.after_crash(Survivors::Synced);
        assert_eq!(read_small(&survivor, &path, 100).unwrap().unwrap(), tail);
    }
    assert_eq!(disk.list(&FilePath::new("aside").unwrap()).unwrap().len(), 3);
}

#[test]
fn a_torn_header_leaves_nothing_behind() {
    let whole = SimDisk::new();
    let (_, placed) = given::log(&whole, 1);
    for cut in 0..given::first_group(&placed).offset {
        let disk = whole.after_crash(Survivors::All);
        given::open(&disk).truncate(cut).unwrap();
        let (numbers, found) = given::recovered(&disk, Recovery::default()).unwrap();
        assert_eq!((numbers.len(), found.header, found.end.offset), (0, None, 0));
        assert_eq!(found.aside.map_or(0, |aside| aside.bytes), cut);
    }
}

#[test]
fn a_group_of_a_batch_that_was_not_committed_is_a_torn_tail() {
    let disk = SimDisk::new();
    let mut log = given::new_log(&disk);
    given::append(&mut log, [0]);
    let together = given::append(&mut log, [1, 2, 3]);
    let lost = Recovery { last_batch: 1, ..Recovery::default() };
    let whole = disk.after_crash(Survivors::All);
    let (numbers, found) = given::recovered(&whole, lost).unwrap();
    assert_eq!((numbers.len(), found.aside.unwrap().bytes), (1, log.position().offset - together[0].start));
    // The same where the power cut has also taken a part of the first of them.
    disk.flip(&given::path(), (together[0].start + 20) * 8).unwrap();
    let crashed = disk.after_crash(Survivors::All);
    let (numbers, found) = given::recovered(&crashed, lost).unwrap();
    assert_eq!((numbers.len(), found.aside.unwrap().bytes), (1, log.position().offset - together[0].start));
    // The same bytes, but the batch was committed.
    assert_eq!(given::recovered(&disk, Recovery::default()).unwrap_err().kind(), ErrorKind::Corrupt);
    // The same bytes, and they are known to have been acknowledged.
    let known = Recovery { acknowledged: log.position().offset, last_batch: 2, ..Recovery::default() };
    assert_eq!(given::recovered(&disk, known).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn damage_is_not_taken_for_a_crash() {
    let disk = SimDisk::new();
    let (_, placed) = given::log(&disk, 5);
    disk.flip(&given::path(), (placed[2].start + 3) * 8).unwrap();
    let calls = disk.calls();
    let unclean = Recovery { rewrite_from: Some(0), ..Recovery::default() };
    assert_eq!(given::recovered(&disk, unclean).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(disk.calls(), calls, "nothing was written");
}

#[test]
fn a_log_that_is_shorter_than_it_was_is_reported() {
    let disk = SimDisk::new();
    let (log, placed) = given::log(&disk, 3);
    given::open(&disk).truncate(placed[2].start).unwrap();
    let known = Recovery { acknowledged: log.position().offset, ..Recovery::default() };
    let (numbers, found) = given::recovered(&disk, known).unwrap();
    let aside = found.aside.unwrap();
    assert_eq!((numbers.len(), aside.bytes, aside.path, aside.acknowledged), (2, 0, None, true));
}

#[test]
fn a_read_only_recovery_writes_nothing() {
    let disk = SimDisk::new();
    let (log, _) = given::log(&disk, 2);
    given::open(&disk).write_at(b"{\"t\":", log.position().offset).unwrap();
    let calls = disk.calls();
    let known = Recovery { read_only: true, rewrite_from: Some(0), ..Recovery::default() };
    let (numbers, found) = given::recovered(&disk, known).unwrap();
    assert_eq!((numbers.len(), found.aside, disk.calls()), (2, None, calls));
}

#[test]
fn a_group_from_another_log_is_reported_as_damage() {
    let (disk, other) = (SimDisk::new(), SimDisk::new());
    let (log, _) = given::log(&disk, 3);
    let mut stranger = given::new_log(&other);
    given::append(&mut stranger, [5]);
    let mut theirs = given::append(&mut stranger, [6]);
    let (start, end) = (theirs[0].start, theirs.remove(0).end.offset);
    let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
    given::open(&other).read_at(&mut bytes, start).unwrap();
    given::open(&disk).write_at(&bytes, log.position().offset).unwrap();
    let error = given::recovered(&disk, Recovery::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("threads/t-1.log at byte"), "{error}");
    assert!(disk.open(&FilePath::new("aside").unwrap(), Open::Read).is_err());
}
