//! Logs that are compressed, on a simulated disk: the power goes or the process ends at every call of the disk, calls
//! fail, space runs out, and bits change (FI-14).

use std::{sync::Arc, time::Duration};

use conformance_tests::TestLength;
use store_core::{
    ChildStrategy, DeleteRequest, EntryQuery, ErrorKind, IgnoreProgress, ManualClock, PageRequest, Result, Store,
    ThreadRunStore, inspect::Inspector,
};
use store_file::{
    CompressLogs, Durability, FileStore,
    testing::{Fault, FilePath, Journal, SimDisk, Survivors},
};

use crate::world::{at, config, saying, shown, swept, tenant, thread, wait};

/// What a script does next.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// A commit to a thread, of some entries with so many bytes.
    Say(&'static str, usize, usize),
    Compress,
    Delete(&'static str),
    Purge,
}

/// Logs that are compressed, appended to, compressed again and deleted. The journal is so small that its halves are
/// used again between these steps.
const SCRIPT: [Act; 22] = [
    Act::Say("a", 3, 3_000),
    Act::Say("b", 1, 100),
    Act::Say("a", 2, 5_000),
    Act::Compress,
    Act::Say("a", 1, 50),
    Act::Compress,
    Act::Say("b", 1, 20_000),
    Act::Compress,
    Act::Say("a", 4, 5_000),
    Act::Say("c", 30, 700),
    Act::Compress,
    Act::Say("b", 1, 100),
    Act::Say("c", 1, 100),
    Act::Say("a", 1, 100),
    Act::Delete("b"),
    Act::Purge,
    Act::Say("c", 1, 30_000),
    Act::Compress,
    Act::Say("d", 3, 6_000),
    Act::Compress,
    Act::Say("d", 1, 100),
    Act::Delete("a"),
];

fn threads(store: &FileStore) -> Arc<dyn ThreadRunStore> {
    store.tenant(&tenant("default")).unwrap().threads.unwrap()
}

impl Act {
    fn make(self, (number, store): (usize, &FileStore), clock: &ManualClock) -> Result<()> {
        clock.set(at(10 * number as u64 + 10));
        match self {
            Self::Say(id, entries, bytes) => {
                let text = |n: usize| format!("{number} {n} ").repeat(bytes)[..bytes].to_owned();
                let texts: Vec<String> = (0..entries).map(text).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let commits = store.tenant(&tenant("default"))?.commits.unwrap();
                wait(commits.commit(saying(id, &format!("k-{number}"), &texts))).map(drop)
            }
            Self::Compress => {
                let request = CompressLogs::new(Duration::from_secs(1));
                wait(store.compress_logs(&tenant("default"), request, &IgnoreProgress)).map(drop)
            }
            Self::Delete(id) => {
                let request = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
                wait(threads(store).delete_thread(&thread(id), request)).map(drop)
            }
            Self::Purge => wait(threads(store).purge_deleted(&IgnoreProgress)).map(drop),
        }
    }
}

/// Plays the script from a step on. How many steps were acknowledged, and the error of the next one.
fn play(store: &FileStore, clock: &ManualClock, from: usize) -> (usize, Option<ErrorKind>) {
    for (number, act) in SCRIPT.iter().enumerate().skip(from) {
        if let Err(error) = act.make((number, store), clock) {
            return (number, Some(error.kind()));
        }
    }
    (SCRIPT.len(), None)
}

/// Plays the script, and closes the store, which would otherwise write in the background while the test looks at the
/// disk. How many steps were acknowledged.
fn played_and_closed(store: &FileStore, clock: &ManualClock) -> usize {
    let (acknowledged, _) = play(store, clock, 0);
    let _ = wait(store.close());
    acknowledged
}

/// A disk, and the index beside it.
struct Root {
    disk: SimDisk,
    journal: Journal,
}

impl Root {
    fn on(disk: SimDisk) -> Self {
        Self { journal: Journal::new(disk.clone()), disk }
    }

    fn open(&self, durability: Durability) -> Result<(ManualClock, FileStore)> {
        let (clock, config) = config();
        let config = config.with_durability(durability);
        Ok((clock, FileStore::open_with(Arc::new(self.disk.clone()), config, &self.journal)?))
    }

    /// What power cuts and the end of the process may leave, with an index that is behind or as it was, or none.
    fn left(&self, seeds: u64) -> Vec<(String, Self)> {
        let (least, most) = self.journal.left().into_inner();
        let kinds =
            [Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::AllButRenames];
        let mut left = Vec::new();
        for kind in kinds.into_iter().chain((0..seeds).map(Survivors::Random)) {
            for batches in if least == most { vec![most] } else { vec![least, most] } {
                let disk = self.disk.after_crash(kind);
                let journal = self.journal.after_crash(batches, disk.clone());
                left.push((format!("{kind:?}, {batches} batches"), Self { disk, journal }));
            }
            left.push((format!("{kind:?}, no index"), Self::on(self.disk.after_crash(kind))));
        }
        let disk = self.disk.after_kill();
        left.push(("killed".to_owned(), Self { journal: self.journal.after_crash(most, disk.clone()), disk }));
        left.push(("killed, no index".to_owned(), Self::on(self.disk.after_kill())));
        left
    }
}

/// Everything that the script shows after each of its steps, and how many calls of the disk it takes.
fn rehearsed(durability: Durability) -> (Vec<String>, u64) {
    let root = Root::on(SimDisk::new());
    let (clock, store) = root.open(durability).unwrap();
    let mut expected = vec![wait(shown(&store)).unwrap()];
    for (number, act) in SCRIPT.iter().enumerate() {
        act.make((number, &store), &clock).unwrap();
        expected.push(wait(shown(&store)).unwrap());
    }
    wait(store.close()).unwrap();
    (expected, root.disk.calls())
}

/// Opening and a verification find nothing wrong.
fn check_sound(store: &FileStore, place: &str) {
    let opening = store.opening();
    assert!(
        opening.damaged.is_empty() && opening.set_aside.iter().all(|aside| !aside.acknowledged),
        "{place}: {opening:?}"
    );
    let findings = wait(store.verify(&IgnoreProgress)).unwrap().findings;
    assert!(findings.is_empty(), "{place}: {findings:?}");
}

/// Opens what a crash left, and returns how much of the script it shows: what was acknowledged, or one step more.
fn check_left(root: &Root, expected: &[String], acknowledged: usize, place: &str) -> (ManualClock, FileStore, usize) {
    let (clock, store) = root.open(Durability::Sync).unwrap_or_else(|error| panic!("{place}: {error}"));
    let found = wait(shown(&store)).unwrap_or_else(|error| panic!("{place}: {error}"));
    let last = expected.len() - 1;
    let step = (acknowledged..=last.min(acknowledged + 1)).rev().find(|step| expected[*step] == found);
    let step = step.unwrap_or_else(|| panic!("{place}: neither {acknowledged} steps nor one more"));
    check_sound(&store, place);
    (clock, store, step)
}

/// Shows FI-8 and FI-14: a crash at any call leaves every acknowledged call, the index can be made anew from what is
/// compressed, and the rest of the script goes on.
#[test]
fn no_crash_around_a_compression_loses_anything() {
    let (expected, calls) = rehearsed(Durability::Sync);
    let (seeds, mut states) = (TestLength::pick_by_env(2, 6, 16), 0);
    for call in swept(calls) {
        let root = Root::on(SimDisk::new().with_fault(call, Fault::Stop));
        let acknowledged = match root.open(Durability::Sync) {
            Ok((clock, store)) => played_and_closed(&store, &clock),
            Err(_) => 0,
        };
        for (number, (what, left)) in root.left(seeds).into_iter().enumerate() {
            let place = format!("call {call} of {calls}, {acknowledged} steps, {what}");
            let (clock, store, step) = check_left(&left, &expected, acknowledged, &place);
            states += 1;
            if number % 3 == 0 {
                let (end, error) = play(&store, &clock, step);
                assert_eq!((end, error), (SCRIPT.len(), None), "{place}");
                assert_eq!(wait(shown(&store)).as_ref().ok(), expected.last(), "{place}");
                check_sound(&store, &place);
            }
        }
    }
    println!("{calls} calls of the disk, {states} crash states");
}

/// Shows FI-12 and FI-14: with relaxed durability, too, a power cut takes whole commits at the end, and never leaves a
/// compressed log with more than the journal has.
#[test]
fn a_relaxed_store_loses_whole_commits_around_a_compression() {
    let (expected, calls) = rehearsed(Durability::None);
    let strip = |text: &str| {
        let parts = text.split("incarnation: ").map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
        parts.collect::<String>()
    };
    let seeds = TestLength::pick_by_env(2, 6, 16);
    for call in swept(calls) {
        let root = Root::on(SimDisk::new().with_fault(call, Fault::Stop));
        let Ok((clock, store)) = root.open(Durability::None) else { continue };
        let acknowledged = played_and_closed(&store, &clock);
        for (what, left) in root.left(seeds) {
            let place = format!("call {call} of {calls}, {acknowledged} steps, {what}");
            let (_, store) = left.open(Durability::None).unwrap_or_else(|error| panic!("{place}: {error}"));
            let found = wait(shown(&store)).unwrap_or_else(|error| panic!("{place}: {error}"));
            let known = expected[..=expected.len().min(acknowledged + 2) - 1].iter();
            assert!(known.into_iter().any(|text| strip(text) == strip(&found)), "{place}");
            check_sound(&store, &place);
        }
    }
}

/// Shows FI-6, FI-7 and FI-14: a call of the disk that fails during a compression loses nothing. A full disk stops a
/// compression, and the store works on.
#[test]
fn a_failed_call_during_a_compression_loses_nothing() {
    let (expected, calls) = rehearsed(Durability::Sync);
    for fault in [Fault::Eio, Fault::Enospc, Fault::EnospcLate, Fault::Full] {
        for call in swept(calls) {
            let root = Root::on(SimDisk::new().with_fault(call, fault));
            let place = format!("{fault:?} at call {call} of {calls}");
            let mut acknowledged = 0;
            if let Ok((clock, store)) = root.open(Durability::Sync) {
                let (steps, error) = play(&store, &clock, 0);
                acknowledged = steps;
                if error == Some(ErrorKind::StorageFull) {
                    root.disk.set_full(false);
                    let rest = play(&store, &clock, acknowledged);
                    assert_eq!(rest, (SCRIPT.len(), None), "{place}");
                    acknowledged = SCRIPT.len();
                    assert_eq!(wait(shown(&store)).as_ref().ok(), expected.last(), "{place}");
                }
                let _ = wait(store.close());
            }
            let (least, most) = root.journal.left().into_inner();
            // The end of the process takes nothing of the index.
            for (disk, batches) in [(root.disk.after_kill(), most), (root.disk.after_crash(Survivors::Synced), least)] {
                let left = Root { journal: root.journal.after_crash(batches, disk.clone()), disk };
                check_left(&left, &expected, acknowledged, &place);
            }
        }
    }
}

/// Shows FI-7 and FI-14: on a full disk a compression is refused, and changes nothing.
#[test]
fn a_full_disk_refuses_a_compression() {
    let root = Root::on(SimDisk::new());
    let (clock, store) = root.open(Durability::Sync).unwrap();
    Act::Say("a", 3, 10_000).make((0, &store), &clock).unwrap();
    let before = (root.disk.fingerprint(), wait(shown(&store)).unwrap());
    root.disk.set_full(true);
    let refused = Act::Compress.make((1, &store), &clock).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert_eq!((root.disk.fingerprint(), wait(shown(&store)).unwrap()), before);
    root.disk.set_full(false);
    Act::Compress.make((2, &store), &clock).unwrap();
    assert!(root.disk.fingerprint() != before.0);
    assert_eq!(wait(shown(&store)).unwrap(), before.1);
    check_sound(&store, "with space");
}

/// Shows FI-4 and FI-14: a changed bit of a compressed file is damage of its thread, or nothing; never another text.
#[test]
fn a_changed_bit_of_a_compressed_file_is_damage_of_its_thread() {
    let root = Root::on(SimDisk::new());
    let (clock, store) = root.open(Durability::Sync).unwrap();
    for (number, act) in
        [Act::Say("a", 300, 900), Act::Say("b", 1, 100), Act::Compress, Act::Say("a", 1, 100)].iter().enumerate()
    {
        act.make((number, &store), &clock).unwrap();
    }
    let log = store.log_path(&tenant("default"), &thread("a")).unwrap().unwrap();
    let file = FilePath::new(format!("{}.zst", log.to_str().unwrap())).unwrap();
    let entries = |store: &FileStore, id: &str| {
        let query = EntryQuery::all().with_page(PageRequest::first(1_000));
        wait(threads(store).list_entries(&thread(id), query)).map(|page| page.items)
    };
    let (a, b) = (entries(&store, "a").unwrap(), entries(&store, "b").unwrap());
    wait(store.close()).unwrap();
    drop(store);
    let (mut bit, mut damaged) = (0, 0);
    let step = 97 * TestLength::pick_by_env(16, 1, 1);
    while root.disk.flip(&file, bit).is_ok() {
        for with_index in [true, false] {
            let disk = root.disk.after_crash(Survivors::All);
            let (_, most) = root.journal.left().into_inner();
            let journal =
                if with_index { root.journal.after_crash(most, disk.clone()) } else { Journal::new(disk.clone()) };
            let (_, store) = Root { disk, journal }.open(Durability::Sync).unwrap();
            let place = format!("bit {bit}, with index: {with_index}");
            match entries(&store, "a") {
                Ok(found) => assert!(found == a, "{place}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{place}: {error}");
                    assert!(format!("{error:?}").contains(file.as_str()), "{place}: {error:?}");
                    let findings = wait(store.verify(&IgnoreProgress)).unwrap().findings;
                    assert!(findings.iter().any(|f| f.place.starts_with(file.as_str())), "{place}: {findings:?}");
                    damaged += 1;
                }
            }
            assert_eq!(entries(&store, "b").unwrap(), b, "{place}");
        }
        root.disk.flip(&file, bit).unwrap();
        bit += step;
    }
    println!("{} bits, {damaged} of twice as many openings found damage", bit / step);
    assert!(damaged > bit / step, "{damaged} of {}", bit / step);
}
