//! Every bit of a journal is changed: what was committed is there, or the journal is refused.

use super::{Bug, Durability, Found, Script, Store, contents, path, run};
use crate::{
    journal::{History, planted::Planted},
    vfs::{
        Open, Vfs,
        sim::{SimDisk, Survivors},
    },
};

/// Changes every bit of both halves, one at a time, after different numbers of batches. The logs have nothing but what
/// they had at their last flush.
pub(super) fn of_every_bit(bug: Option<Bug>) -> Found {
    let mut refused = 0;
    for batches in 24..28 {
        refused += after(batches, bug)?;
    }
    if refused > 1_000 { Ok(()) } else { Err(format!("only {refused} changed bits were refused")) }
}

/// How many changed bits were refused after so many batches.
fn after(batches: usize, bug: Option<Bug>) -> Result<u32, String> {
    let script = Script::new(21, batches);
    let disk = SimDisk::new();
    let (store, _) = Store::open(&disk, Durability::Sync, bug).map_err(|error| error.to_string())?;
    run(&store, &script, 0);
    let disk = disk.after_crash(Survivors::Synced);
    let (whole, before) = (&script.states[batches], &script.states[batches - 1]);
    let mut refused = 0;
    for name in ["journal.0", "journal.1"] {
        let bytes = disk.open(&path(name), Open::Read).unwrap().len().unwrap();
        for bit in 0..bytes * 8 {
            let disk = disk.after_crash(Survivors::All);
            disk.flip(&path(name), bit).unwrap();
            let Ok(history) = History::read_with(&disk, super::ROOT, Planted(bug)) else {
                refused += 1;
                continue;
            };
            let history = history.ok_or("the journal is gone")?;
            let redone = history.redo(&disk).map_err(|error| error.to_string());
            let found = contents(&disk);
            // A batch at the end with a wrong checksum looks like one that was not committed.
            if redone.is_err() || (found != *whole && found != *before) {
                return Err(format!("{name}, bit {bit}: {redone:?}"));
            }
        }
    }
    Ok(refused)
}

#[test]
fn a_changed_bit_is_refused_or_harmless() {
    of_every_bit(None).unwrap();
}
