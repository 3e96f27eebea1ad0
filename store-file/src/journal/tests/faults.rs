//! A call fails: the batch is refused and leaves nothing, or its outcome is unknown and the journal refuses all others.

use super::{Bug, Durability, Failure, Found, Ran, Script, Store, reopened, run, survivors};
use crate::{
    journal::History,
    vfs::{
        Open, Vfs,
        sim::{Fault, SimDisk, Survivors},
    },
};

/// Every call of a script fails once. What a refused batch has left is looked for after every kind of power cut.
pub(super) fn at_every_call(fault: Fault, bug: Option<Bug>) -> Found {
    let script = Script::new(11, 30);
    let first = {
        let disk = SimDisk::new();
        Store::open(&disk, Durability::Sync, bug).map_err(|error| error.to_string())?;
        disk.calls()
    };
    for call in first.. {
        let disk = SimDisk::new().with_fault(call, fault);
        let (store, _) = Store::open(&disk, Durability::Sync, bug).map_err(|error| error.to_string())?;
        let (ran, failure) = run(&store, &script, 0);
        let is_poisoned = matches!(failure, Some(Failure::Failed(_)));
        let next = store.journal.commit(&script.batches[0]);
        if is_poisoned && !matches!(next, Err(Failure::Poisoned)) {
            return Err(format!("{fault:?} at call {call}: after a failed write a batch was taken"));
        }
        if is_poisoned && store.journal.sync().is_ok() {
            return Err(format!("{fault:?} at call {call}: after a failed write a sync was tried"));
        }
        if !is_poisoned && failure.is_some() {
            // Refused without effect, so it can be done again; the batch above was another one.
            refused(&script, call, fault, bug)?;
            continue;
        }
        if !is_poisoned && disk.calls() <= call {
            // The script came to its end before the call.
            return Ok(());
        }
        if !is_poisoned {
            // The call is none that this fault fails.
            continue;
        }
        for survivors in survivors(&disk, 6) {
            reopened(&disk.after_crash(survivors), &script, ran, bug)
                .map_err(|error| format!("{fault:?} at call {call}, {survivors:?}: {error}"))?;
        }
    }
    Ok(())
}

/// What a refused batch has left, and whether the store goes on.
fn refused(script: &Script, call: u64, fault: Fault, bug: Option<Bug>) -> Found {
    let fail = |text: String| format!("{fault:?} at call {call}: {text}");
    let disk = SimDisk::new().with_fault(call, fault);
    let (store, _) = Store::open(&disk, Durability::Sync, bug).map_err(|error| fail(error.to_string()))?;
    let (ran, _) = run(&store, script, 0);
    for survivors in survivors(&disk, 6) {
        reopened(&disk.after_crash(survivors), script, ran, bug)
            .map_err(|error| fail(format!("{survivors:?}: {error}")))?;
    }
    let (ran, failure) = run(&store, script, ran.acknowledged);
    if let Some(failure) = failure {
        return Err(fail(format!("tried again: {failure}")));
    }
    for survivors in survivors(&disk, 3) {
        reopened(&disk.after_crash(survivors), script, ran, bug)
            .map_err(|error| fail(format!("in the end, {survivors:?}: {error}")))?;
    }
    Ok(())
}

/// The disk is full from a batch on, then there is space again.
pub(super) fn on_a_full_disk(bug: Option<Bug>) -> Found {
    let script = Script::new(12, 40);
    for full_from in 0..20 {
        let disk = SimDisk::new();
        let (store, _) = Store::open(&disk, Durability::Sync, bug).map_err(|error| error.to_string())?;
        let short = Script::new(12, full_from);
        run(&store, &short, 0);
        disk.set_full(true);
        let (ran, failure) = run(&store, &script, full_from);
        let fail = |text: &str| format!("full from batch {full_from}: {text}");
        match failure {
            Some(Failure::Full(_)) => {}
            other => return Err(fail(&format!("{other:?}"))),
        }
        for survivors in survivors(&disk, 4) {
            reopened(&disk.after_crash(survivors), &script, ran, bug).map_err(|error| fail(&error))?;
        }
        disk.set_full(false);
        let (ran, failure) = run(&store, &script, ran.acknowledged);
        if failure.is_some() || ran.acknowledged != 40 {
            return Err(fail(&format!("with space again: {failure:?}")));
        }
        reopened(&disk, &script, ran, bug).map_err(|error| fail(&error))?;
    }
    Ok(())
}

#[test]
fn an_error_at_any_call_loses_nothing_and_stops_all_writes() {
    at_every_call(Fault::Eio, None).unwrap();
}

#[test]
fn a_batch_that_was_refused_for_space_is_never_found() {
    at_every_call(Fault::Enospc, None).unwrap();
    at_every_call(Fault::EnospcLate, None).unwrap();
}

#[test]
fn a_full_disk_refuses_batches_and_takes_them_later() {
    on_a_full_disk(None).unwrap();
}

#[test]
fn a_batch_that_frees_space_may_use_the_reserve() {
    let script = Script::new(12, 20);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
    run(&store, &script, 0);
    disk.set_full(true);
    let more = Script::new(12, 40);
    let (ran, _) = run(&store, &more, 20);
    let mut batch = more.batches[ran.acknowledged].clone();
    assert!(matches!(store.journal.commit(&batch), Err(Failure::Full(_))));
    batch.use_reserve();
    store.journal.commit(&batch).unwrap();
    let ran = Ran { acknowledged: ran.acknowledged + 1, possible: ran.acknowledged + 1 };
    reopened(&disk.after_crash(Survivors::All), &more, ran, None).unwrap();
    // Other files use up the space of the reserve: now no batch is taken.
    disk.set_full(true);
    let mut batch = more.batches[ran.acknowledged].clone();
    batch.use_reserve();
    assert!(matches!(store.journal.commit(&batch), Err(Failure::Full(_))));
    assert!(!store.journal.is_poisoned());
}

#[test]
fn a_lost_or_foreign_journal_is_refused_by_name() {
    let script = Script::new(13, 10);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
    run(&store, &script, 0);
    for name in ["journal.0", "journal.1"] {
        let disk = disk.after_crash(Survivors::All);
        disk.unlink(&super::path(name)).unwrap();
        let error = History::read(&disk, super::ROOT).unwrap_err();
        assert!(error.to_string().contains(name) && error.to_string().contains("missing"), "{error}");
    }
    let error = History::read(&disk, "another").unwrap_err();
    assert!(error.to_string().contains("another store"), "{error}");
    assert!(History::read(&SimDisk::new(), super::ROOT).unwrap().is_none());
}

#[test]
fn a_log_that_lost_bytes_is_reported_and_left_alone() {
    let script = Script::new(14, 60);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
    run(&store, &script, 0);
    let disk = disk.after_crash(Survivors::All);
    let history = History::read(&disk, super::ROOT).unwrap().unwrap();
    let appends = history.appends().unwrap();
    let (victim, _) = appends.iter().find(|(_, log)| !log.is_made && !log.is_dropped).unwrap();
    disk.unlink(victim).unwrap();
    let redone = history.redo(&disk).unwrap();
    assert_eq!(redone.damaged.iter().collect::<Vec<_>>(), [victim]);
    assert!(disk.open(victim, Open::Read).is_err(), "it is not made anew");
}
