//! The power goes at every call, in every way; what was acknowledged is there, whole, and nothing else.

use std::collections::HashSet;

use super::{Bug, Durability, Found, Ran, Script, Store, contents, reopened, run, survivors};
use crate::{
    journal::History,
    vfs::sim::{Fault, SimDisk, Survivors},
};

/// Runs a script on a disk that stops at a call. The state of a store that never came to open is that of an empty one.
fn stopped(script: &Script, call: u64, bug: Option<Bug>) -> (SimDisk, Ran) {
    let disk = SimDisk::new().with_fault(call, Fault::Stop);
    let ran = match Store::open(&disk, Durability::Sync, bug) {
        Ok((store, _)) => run(&store, script, 0).0,
        Err(_) => Ran::default(),
    };
    (disk, ran)
}

fn calls(script: &Script) -> u64 {
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
    assert!(run(&store, script, 0).1.is_none());
    disk.calls()
}

/// Every call of a script is cut. Returns how many different disks were opened again.
pub(super) fn at_every_call(seed: u64, bug: Option<Bug>) -> Result<usize, String> {
    let script = Script::new(seed, 40);
    let mut states = HashSet::new();
    for call in 0..=calls(&script) {
        let (disk, ran) = stopped(&script, call, bug);
        for survivors in survivors(&disk, 8) {
            let crashed = disk.after_crash(survivors);
            if !states.insert((ran.acknowledged, crashed.fingerprint())) {
                continue;
            }
            let found = reopened(&crashed, &script, ran, bug)
                .map_err(|error| format!("seed {seed}, call {call}, {survivors:?}: {error}"))?;
            // What was shown is durable: another power cut does not take it back (FI-6).
            let same = Ran { acknowledged: found, possible: found };
            reopened(&crashed.after_crash(Survivors::Synced), &script, same, bug)
                .map_err(|error| format!("seed {seed}, call {call}, {survivors:?}, once more: {error}"))?;
        }
    }
    Ok(states.len())
}

/// A recovery is cut at every call, and done again.
pub(super) fn during_recovery(bug: Option<Bug>) -> Found {
    let script = Script::new(3, 30);
    let total = calls(&script);
    for cut in (0..total).step_by(11) {
        let (disk, ran) = stopped(&script, cut, bug);
        for first in [Survivors::Synced, Survivors::All, Survivors::Random(cut)] {
            let crashed = disk.after_crash(first);
            for call in 0.. {
                let recovering = crashed.after_crash(Survivors::All).with_fault(call, Fault::Stop);
                let finished = Store::open(&recovering, Durability::Sync, bug).is_ok();
                for survivors in survivors(&recovering, 3).into_iter().step_by(2) {
                    reopened(&recovering.after_crash(survivors), &script, ran, bug)
                        .map_err(|error| format!("cut {cut}, {first:?}, call {call}, {survivors:?}: {error}"))?;
                }
                if finished {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// A process ends, and the power goes while the next one recovers: what the first one wrote and did not sync was read,
/// and may be gone.
pub(super) fn after_a_killed_process(bug: Option<Bug>) -> Found {
    let script = Script::new(4, 24);
    for call in (0..calls(&script)).step_by(2) {
        for fault in [Fault::Eio, Fault::Stop] {
            let disk = SimDisk::new().with_fault(call, fault);
            let Ok((store, _)) = Store::open(&disk, Durability::Sync, bug) else { continue };
            let ran = run(&store, &script, 0).0;
            let killed = disk.after_kill();
            for later in 0.. {
                let recovering = killed.after_kill().with_fault(killed.calls() + later, Fault::Stop);
                let finished = Store::open(&recovering, Durability::Sync, bug).is_ok();
                for survivors in [Survivors::Synced, Survivors::Random(later), Survivors::Random(later + 100)] {
                    reopened(&recovering.after_crash(survivors), &script, ran, bug).map_err(|error| {
                        format!("{fault:?} at call {call}, recovery cut at {later}, {survivors:?}: {error}")
                    })?;
                }
                if finished {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// A store is cut, opened, written to, and cut again, many times.
pub(super) fn one_after_the_other(bug: Option<Bug>) -> Found {
    for seed in 0..60 {
        let script = Script::new(seed, 60);
        let mut disk = SimDisk::new();
        let mut at = 0;
        for round in 0..12 {
            let stopping = disk.clone().with_fault(disk.calls() + 14 + (seed + round) % 9, Fault::Stop);
            let ran = match Store::open(&stopping, Durability::Sync, bug) {
                Ok((store, _)) => run(&store, &script, at).0,
                Err(_) => Ran { acknowledged: at, possible: at },
            };
            disk = stopping.after_crash(Survivors::Random(seed * 100 + round));
            at = reopened(&disk, &script, ran, bug).map_err(|error| format!("seed {seed}, round {round}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn no_power_cut_loses_what_was_acknowledged() {
    let states: usize = (1..=3).map(|seed| at_every_call(seed, None).unwrap()).sum();
    println!("{states} distinct crash states");
    assert!(states >= 5_000, "only {states} distinct crash states");
}

#[test]
fn a_recovery_can_be_cut_at_every_call() {
    during_recovery(None).unwrap();
}

#[test]
fn a_power_cut_during_the_recovery_from_a_killed_process_leaves_no_part_of_a_batch() {
    after_a_killed_process(None).unwrap();
}

#[test]
fn a_store_survives_one_power_cut_after_the_other() {
    one_after_the_other(None).unwrap();
}

#[test]
fn relaxed_durability_loses_the_last_batches_only() {
    let script = Script::new(5, 60);
    let disk = SimDisk::new();
    Store::open(&disk, Durability::None, None).unwrap();
    let total = {
        let disk = disk.after_crash(Survivors::All);
        let (store, _) = Store::open(&disk, Durability::None, None).unwrap();
        run(&store, &script, 0);
        disk.calls()
    };
    let mut lost = 0;
    for call in 0..=total {
        let stopping = disk.after_crash(Survivors::All).with_fault(call, Fault::Stop);
        let ran = match Store::open(&stopping, Durability::None, None) {
            Ok((store, _)) => run(&store, &script, 0).0,
            Err(_) => continue,
        };
        for survivors in survivors(&stopping, 8) {
            let crashed = stopping.after_crash(survivors);
            let (_, redone) = Store::open(&crashed, Durability::None, None).unwrap();
            assert!(redone.damaged.is_empty(), "call {call}, {survivors:?}");
            // After what was committed a log may have more: bytes of batches that are lost.
            let found = contents(&crashed);
            let is_state = |number: &usize| {
                script.states[*number]
                    .iter()
                    .all(|(path, bytes)| found.get(path).is_some_and(|found| found.starts_with(bytes)))
                    && redone.ends.iter().all(|(path, end)| {
                        script.states[*number].get(path).is_some_and(|bytes| bytes.len() as u64 == *end)
                    })
            };
            let state = (0..=ran.possible).rev().find(is_state);
            let state = state.unwrap_or_else(|| panic!("call {call}, {survivors:?}: {ran:?}, {:?}", redone.ends));
            lost += usize::from(state < ran.acknowledged);
        }
    }
    // The control: without syncs something must be lost.
    assert!(lost > 100, "{lost}");
}

#[test]
fn a_synced_batch_survives_with_relaxed_durability() {
    let script = Script::new(6, 20);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::None, None).unwrap();
    run(&store, &script, 0);
    store.journal.sync().unwrap();
    let all = Ran { acknowledged: 20, possible: 20 };
    reopened(&store.disk.after_crash(Survivors::Synced), &script, all, None).unwrap();
}

#[test]
fn a_closed_journal_is_empty_and_its_numbers_go_on() {
    let script = Script::new(7, 30);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
    run(&store, &script, 0);
    let last = store.journal.last();
    store.journal.close().unwrap();
    assert!(store.journal.commit(&script.batches[0]).is_err(), "after its close it takes nothing");
    let disk = disk.after_crash(Survivors::Synced);
    assert_eq!(contents(&disk), script.states[30]);
    let history = History::read(&disk, super::ROOT).unwrap().unwrap();
    assert!(history.is_empty() && history.last() == last);
}

#[test]
fn a_close_can_be_cut_at_every_call() {
    let script = Script::new(8, 12);
    for call in 0.. {
        let disk = SimDisk::new();
        let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
        run(&store, &script, 0);
        let disk = disk.clone().with_fault(disk.calls() + call, Fault::Stop);
        let closed = store.journal.close().is_ok();
        let all = Ran { acknowledged: 12, possible: 12 };
        for survivors in survivors(&disk, 8) {
            reopened(&disk.after_crash(survivors), &script, all, None)
                .unwrap_or_else(|error| panic!("call {call}, {survivors:?}: {error}"));
        }
        if closed {
            break;
        }
    }
}
