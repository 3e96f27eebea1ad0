//! F1: a log is written, the power goes at every call in every way; what was acknowledged is there, whole, in order.

use std::collections::HashSet;

use store_core::ErrorKind;
use store_file::testing::{
    AppendError, Fault, LogWriter, Open, Recovery, SimDisk, Survivors, Vfs, ensure_dir, rewrite_tail,
};

use crate::given;

/// Writes 60 groups in batches of 1 to 3. Returns how many groups were acknowledged.
fn script(disk: &SimDisk, sync: bool) -> u64 {
    let mut acknowledged = 0;
    if ensure_dir(disk, &given::path().parent()).is_err() {
        return 0;
    }
    let Ok(mut log) = LogWriter::create(disk, &given::path(), given::HEADER) else { return 0 };
    let mut number = 0;
    while number < 60 {
        let mut batch = log.batch();
        let count = 1 + number % 3;
        for number in number..number + count {
            let (lines, fields) = given::group(number);
            batch.push(&lines, &fields).unwrap();
        }
        number += count;
        if log.append(&batch).is_err() || sync && log.sync(disk).is_err() {
            break;
        }
        acknowledged = number;
    }
    acknowledged
}

/// After an unclean close nothing but the header is taken as durable.
fn unclean() -> Recovery {
    Recovery { rewrite_from: Some(0), ..Recovery::default() }
}

/// Recovers and returns how many groups there are; 0 if there is no log.
fn count(disk: &SimDisk) -> store_core::Result<u64> {
    if disk.open(&given::path(), Open::Read).is_err() {
        return Ok(0);
    }
    given::recovered(disk, unclean()).map(|(numbers, _)| numbers.len() as u64)
}

fn survivors(disk: &SimDisk) -> Vec<Survivors> {
    let mut all =
        vec![Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::AllButRenames];
    all.extend((0..16).map(Survivors::Random));
    all.extend((0..=disk.last_unsynced_write().unwrap_or(0)).map(Survivors::Torn));
    all
}

#[test]
fn no_power_cut_loses_what_was_acknowledged() {
    let total = {
        let disk = SimDisk::new();
        assert_eq!(script(&disk, true), 60);
        disk.calls()
    };
    let mut states = HashSet::new();
    for call in 0..=total {
        let disk = SimDisk::new().with_fault(call, Fault::Stop);
        let acknowledged = script(&disk, true);
        for survivors in survivors(&disk) {
            let crashed = disk.after_crash(survivors);
            if !states.insert((acknowledged, crashed.fingerprint())) {
                continue;
            }
            let found = count(&crashed).unwrap_or_else(|error| panic!("call {call}, {survivors:?}: {error}"));
            assert!(acknowledged <= found, "call {call}, {survivors:?}: {found} of {acknowledged}");
            if states.len() % 4 != 0 {
                continue;
            }
            // What was shown is durable: another power cut does not take it back (FI-6).
            let again = count(&crashed.after_crash(Survivors::Synced)).unwrap();
            assert_eq!(found, again, "call {call}, {survivors:?}");
        }
    }
    println!("{} distinct crash states", states.len());
    assert!(states.len() >= 5_000, "only {} distinct crash states", states.len());
}

#[test]
fn a_power_cut_during_recovery_changes_nothing() {
    let disk = SimDisk::new().with_fault(33, Fault::Stop);
    let acknowledged = script(&disk, true);
    let mut states = 0;
    for seed in 0..40 {
        let crashed = disk.after_crash(Survivors::Random(seed));
        for call in 0.. {
            let recovering = crashed.after_crash(Survivors::All).with_fault(call, Fault::Stop);
            let finished = count(&recovering).is_ok();
            for survivors in survivors(&recovering).into_iter().step_by(3) {
                states += 1;
                let found = count(&recovering.after_crash(survivors)).unwrap();
                assert!(acknowledged <= found, "seed {seed}, call {call}, {survivors:?}");
            }
            if finished {
                break;
            }
        }
    }
    assert!(states > 1_000, "{states}");
}

/// The control: the same script without its syncs must lose, or the test above sees nothing.
#[test]
fn without_syncs_the_same_test_fails() {
    let disk = SimDisk::new().with_fault(40, Fault::Stop);
    let acknowledged = script(&disk, false);
    assert!(acknowledged > 10);
    let lost = survivors(&disk)
        .into_iter()
        .filter(|survivors| count(&disk.after_crash(*survivors)).is_ok_and(|found| found < acknowledged));
    assert!(lost.count() >= 10);
}

#[test]
fn an_error_at_any_disk_call_is_reported_and_loses_no_acknowledged_group() {
    for fault in [Fault::Eio, Fault::Enospc] {
        for call in 0..90 {
            let disk = SimDisk::new().with_fault(call, fault);
            let acknowledged = script(&disk, true);
            for survivors in [Survivors::All, Survivors::Synced, Survivors::Random(call)] {
                let found = count(&disk.after_crash(survivors)).unwrap();
                assert!(acknowledged <= found, "{fault:?} at {call}, {survivors:?}: {found} of {acknowledged}");
            }
        }
    }
}

#[test]
fn without_space_the_log_is_unchanged_and_continues_later() {
    let disk = SimDisk::new();
    let (mut log, _) = given::log(&disk, 2);
    let mut batch = log.batch();
    let (lines, fields) = given::group(2);
    batch.push(&lines, &fields).unwrap();
    disk.set_full(true);
    assert!(matches!(log.append(&batch), Err(AppendError::Full(_))));
    assert_eq!(given::open(&disk).len().unwrap(), log.position().offset);
    disk.set_full(false);
    given::append(&disk, &mut log, [2]);
    assert_eq!(count(&disk).unwrap(), 3);
    assert!(matches!(log.append(&batch), Err(AppendError::Failed(_))), "a batch from before");
}

#[test]
fn bytes_that_never_reached_the_disk_are_written_again() {
    let disk = SimDisk::new();
    let (mut log, _) = given::log(&disk, 1);
    let from = log.position().offset;
    let mut batch = log.batch();
    let (lines, fields) = given::group(1);
    batch.push(&lines, &fields).unwrap();
    log.append(&batch).unwrap();
    let disk = disk.clone().with_fault(disk.calls(), Fault::Eio);
    log.sync(&disk).unwrap_err();
    assert_eq!(count(&disk.after_crash(Survivors::All)).unwrap(), 1, "the system believes that they are written");
    rewrite_tail(&*given::open(&disk), from, log.position().offset).unwrap();
    assert_eq!(count(&disk.after_crash(Survivors::Synced)).unwrap(), 2);
}

#[test]
fn damage_is_not_taken_for_a_crash() {
    let disk = SimDisk::new();
    let (_, placed) = given::log(&disk, 5);
    disk.flip(&given::path(), (placed[2].start + 3) * 8).unwrap();
    let calls = disk.calls();
    assert_eq!(count(&disk).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(disk.calls(), calls, "nothing was written");
}
