//! Following a journal: a reader sees every change once, whatever it looks at between two batches.

use std::collections::{BTreeMap, BTreeSet};

use super::{Durability, Script, SimDisk, Store, contents};
use crate::{
    journal::{Follower, StepKind},
    vfs::{FilePath, Open, Vfs, read_exact_at},
};

/// The logs as a reader has them that copies what steps name.
#[derive(Default)]
struct Copy(BTreeMap<FilePath, Vec<u8>>);

impl Copy {
    /// Takes over the steps up to a batch; `false` if the journal does not have them any more.
    fn follow(&mut self, disk: &SimDisk, follower: &mut Follower, last: u64) -> bool {
        let Some(steps) = follower.steps(disk, last).unwrap() else { return false };
        for step in steps {
            match step.kind {
                StepKind::Made => drop(self.0.insert(step.path, Vec::new())),
                StepKind::Dropped => drop(self.0.remove(&step.path)),
                StepKind::Appended(from, to) => {
                    let log = self.0.get_mut(&step.path).unwrap();
                    assert_eq!(log.len() as u64, from, "{}", step.path);
                    let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
                    // A later batch may have dropped it.
                    match disk.open(&step.path, Open::Read) {
                        Ok(file) if file.len().unwrap() >= to => read_exact_at(&*file, &mut bytes, from).unwrap(),
                        _ => {}
                    }
                    log.extend_from_slice(&bytes);
                }
            }
        }
        true
    }
}

#[test]
fn a_follower_sees_each_change_once_and_notices_what_it_missed() {
    for every in [1, 2, 3, 40] {
        let script = Script::new(every, 120);
        let disk = SimDisk::new();
        let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
        let mut follower = Follower::behind(&disk, 0).unwrap();
        let (mut copy, mut is_complete, mut misses) = (Copy::default(), true, 0);
        for (at, batch) in script.batches.iter().enumerate() {
            let last = store.journal.commit(batch).unwrap();
            if !(at as u64 + 1).is_multiple_of(every) {
                continue;
            }
            if copy.follow(&disk, &mut follower, last) {
                assert!(!is_complete || copy.0 == script.states[at + 1] || every > 1, "batch {at}");
                assert_eq!(copy.0.keys().collect::<Vec<_>>(), script.states[at + 1].keys().collect::<Vec<_>>());
            } else {
                // The halves were used again before this look: a reader reads the logs, and goes on from there.
                (is_complete, misses) = (false, misses + 1);
                copy = Copy(contents(&disk));
                follower = Follower::behind(&disk, last).unwrap();
            }
        }
        assert_eq!(misses > 0, every == 40, "{every}: {misses}");
        // Another opening begins the files anew.
        let last = store.journal.last();
        store.journal.close().unwrap();
        drop(store);
        let (store, _) = Store::open(&disk, Durability::Sync, None).unwrap();
        let next = Script::new(every + 100, 4);
        let mut from = Follower::behind(&disk, last).unwrap();
        for (name, follower) in [("the same", &mut follower), ("a new one", &mut from)] {
            assert_eq!(follower.steps(&disk, last).unwrap().map(|steps| steps.len()), Some(0), "{name}");
        }
        for batch in &next.batches {
            // Its logs have the numbers and places of other ones, which are no matter to the journal.
            store.journal.commit(batch).unwrap();
        }
        let seen = from.steps(&disk, store.journal.last()).unwrap().unwrap();
        assert_eq!(follower.steps(&disk, store.journal.last()).unwrap().unwrap(), seen);
        let batches: BTreeSet<u64> = seen.iter().map(|step| step.batch).collect();
        assert!(batches.first() == Some(&(last + 1)) && batches.len() == next.batches.len(), "{batches:?}");
    }
}
