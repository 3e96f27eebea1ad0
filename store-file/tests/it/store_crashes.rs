//! F1 for the whole store: the power goes at every call of the disk, in every way; every call that was acknowledged has
//! its whole effect then, one that was not has all of it or none, and the rest of the script goes on as if nothing had
//! been (PR-9, FI-2, FI-6, FI-8, FI-16).

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use conformance_tests::TestLength;
use store_core::{NewThread, PageRequest, Store, ThreadFilter};
use store_file::{
    FileStore,
    testing::{Fault, SimDisk, Survivors, Vfs},
};

use crate::{
    play::{Played, play},
    reference::{Reference, found, open, reference},
    syncing::Syncing,
    world::{config, shown, tenant, thread, wait},
};

/// Plays the script on this disk until it stops.
fn played(disk: Arc<dyn Vfs>, reference: &Reference) -> Played {
    let (clock, config) = config();
    let Ok(store) = FileStore::open_on(disk, config) else {
        return Played::default();
    };
    let played = play(&store, &clock, 0, &reference.answers);
    if played.open.is_empty() {
        let _ = wait(store.close());
    }
    played
}

/// What may be left at a power cut, the last write torn every `step` bytes.
fn survivors(disk: &SimDisk, seeds: u64, step: usize) -> Vec<Survivors> {
    let mut all =
        vec![Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::AllButRenames];
    all.extend((0..seeds).map(Survivors::Random));
    all.extend((0..=disk.last_unsynced_write().unwrap_or(0)).step_by(step).map(Survivors::Torn));
    all
}

#[test]
fn no_power_cut_loses_acknowledged_calls_or_leaves_half_a_call() {
    let reference = reference();
    let (seeds, step) = TestLength::pick_by_env((2, 12), (6, 6), (16, 1));
    let every = TestLength::pick_by_env(17, 1, 1);
    let states = Mutex::new(HashSet::new());
    let (next, again, resumed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let call = next.fetch_add(every, Ordering::SeqCst);
            if call > reference.calls {
                return;
            }
            let disk = SimDisk::new().with_fault(call, Fault::Stop);
            let played = played(Arc::new(disk.clone()), &reference);
            for survivors in survivors(&disk, seeds, step) {
                let crashed = disk.after_crash(survivors);
                let is_new = states.lock().unwrap().insert((played.acknowledged, crashed.fingerprint()));
                if is_new {
                    let count = states.lock().unwrap().len();
                    let place = format!("call {call}, {survivors:?}, {played:?}");
                    let (clock, store) = open(&crashed).unwrap_or_else(|error| panic!("{place}: {error}"));
                    let found = found(&store, &played, &reference).unwrap_or_else(|difference| {
                        panic!("{place}: {difference}");
                    });
                    if count % 4 == 0 {
                        // What is shown is durable: another power cut does not take it back.
                        again.fetch_add(1, Ordering::SeqCst);
                        let (_, store) = open(&crashed.after_crash(Survivors::Synced)).unwrap();
                        assert_eq!(wait(shown(&store)).unwrap(), reference.shown[found], "{place}, again");
                    }
                    if count % 8 == 1 {
                        // The rest of the script goes on, with the same answers.
                        resumed.fetch_add(1, Ordering::SeqCst);
                        let rest = play(&store, &clock, found, &reference.answers);
                        assert_eq!(rest.acknowledged, reference.answers.len(), "{place}, resumed at {found}: {rest:?}");
                        assert_eq!(Some(&wait(shown(&store)).unwrap()), reference.shown.last(), "{place}, resumed");
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let states = states.lock().unwrap().len();
    println!(
        "{} calls of the store, {} of the disk: {states} distinct crash states, {} cut again, {} resumed",
        reference.answers.len(),
        reference.calls,
        again.load(Ordering::SeqCst),
        resumed.load(Ordering::SeqCst),
    );
    assert!(states >= TestLength::pick_by_env(80, 5_000, 20_000), "only {states} distinct crash states");
}

#[test]
fn a_power_cut_during_recovery_changes_nothing() {
    let reference = reference();
    let (every, seeds) = TestLength::pick_by_env((96, 2), (6, 3), (1, 8));
    let (mut states, mut stops) = (HashSet::new(), 0);
    for call in (0..reference.calls).step_by(every) {
        let disk = SimDisk::new().with_fault(call, Fault::Stop);
        let played = played(Arc::new(disk.clone()), &reference);
        for seed in 0..seeds {
            let crashed = disk.after_crash(Survivors::Random(seed));
            for stop in 0.. {
                let recovering = crashed.after_crash(Survivors::All).with_fault(stop, Fault::Stop);
                let finished = open(&recovering).is_ok() && recovering.calls() < stop;
                stops += 1;
                let survivors = [Survivors::All, Survivors::Synced, Survivors::Names, Survivors::Random(stop)];
                for survivors in survivors {
                    let after = recovering.after_crash(survivors);
                    if states.insert((call, after.fingerprint())) {
                        let place = format!("call {call}, seed {seed}, stopped again at {stop}, {survivors:?}");
                        let (_, store) = open(&after).unwrap_or_else(|error| panic!("{place}: {error}"));
                        found(&store, &played, &reference).unwrap_or_else(|difference| panic!("{place}: {difference}"));
                    }
                }
                if finished {
                    break;
                }
            }
        }
    }
    println!("{stops} power cuts during recovery, {} distinct states after them", states.len());
    let (least_stops, least_states) = TestLength::pick_by_env((30, 8), (1_000, 200), (1_000, 200));
    assert!(stops >= least_stops && states.len() >= least_states, "{stops} stops, {} states", states.len());
}

/// The control: with syncs that do nothing the same check must find losses, or it sees nothing (PR-9).
#[test]
fn without_syncs_the_same_check_fails() {
    let reference = reference();
    let (mut lost, mut stops) = (0, 0);
    for call in (60..150).step_by(9) {
        let disk = SimDisk::new().with_fault(call, Fault::Stop);
        let played = played(Arc::new(Syncing::new(disk.clone(), || false)), &reference);
        assert!(played.acknowledged > 10, "{played:?}");
        let left = [Survivors::Synced, Survivors::Names, Survivors::Contents, Survivors::Random(call)];
        let bad = left.into_iter().filter(|survivors| {
            open(&disk.after_crash(*survivors)).map_or(true, |(_, store)| {
                wait(shown(&store)).map_or(true, |shown| {
                    let last = played.acknowledged + played.open.len();
                    !reference.shown[played.acknowledged..=last].contains(&shown)
                })
            })
        });
        stops += 1;
        lost += usize::from(bad.count() > 0);
    }
    println!("{lost} of {stops} power cuts lost something");
    assert_eq!(lost, stops);
}

/// The script reaches what it is for: every kind of answer and every kind of fact.
#[test]
fn the_script_covers_every_kind_of_answer_and_fact() {
    let reference = reference();
    let kinds: BTreeSet<&str> =
        reference.answers.iter().filter_map(|answer| answer.split([' ', '(', ':']).next()).collect();
    println!("{} calls, answers {kinds:?}", reference.answers.len());
    assert!(!kinds.contains("NotFound"), "{:#?}", reference.answers);
    for kind in ["Receipt", "Thread", "Deletion", "Pruned", "Conflict", "StaleEpoch", "HasChildren"] {
        assert!(kinds.contains(kind), "{kind}: {:#?}", reference.answers);
    }
    let distinct: HashSet<&String> = reference.shown.iter().collect();
    assert!(distinct.len() > 50, "{}", distinct.len());
    let last = reference.shown.last().unwrap();
    assert!(last.contains("a year later") && !last.contains("the second of its id"));
}

/// How many threads the large tenant has: its deletion takes several steps.
const LARGE: usize = 1_100;

fn threads_of(store: &FileStore, name: &str) -> u64 {
    let threads = store.tenant(&tenant(name)).unwrap().threads.unwrap();
    wait(threads.count_threads(&ThreadFilter::default())).unwrap()
}

/// A root with a large tenant beside another.
fn with_a_large_tenant() -> SimDisk {
    let disk = SimDisk::new();
    let (_, store) = open(&disk).unwrap();
    for (name, count) in [("large", LARGE), ("other", 3)] {
        let threads = store.tenant(&tenant(name)).unwrap().threads.unwrap();
        for number in 0..count {
            wait(threads.create_thread(NewThread::new(thread(&format!("t-{number}"))))).unwrap();
        }
    }
    wait(store.close()).unwrap();
    disk
}

/// TN-8: a deletion that takes several steps, cut anywhere. A tenant is whole, or it is gone, and deleted again it is
/// gone; the tenant beside it has everything.
#[test]
fn a_cut_deletion_leaves_a_large_tenant_whole_or_deleted() {
    let whole = with_a_large_tenant();
    let (mut cuts, mut left) = (0, [0, 0]);
    let (first, later) = TestLength::pick_by_env((20, 1_501), (8, 397), (1, 7));
    // The opening and the decision, then what follows from that.
    for call in (0..80).step_by(first).chain((80..).step_by(later)) {
        let disk = whole.after_crash(Survivors::All).with_fault(call, Fault::Stop);
        let deleted = open(&disk).and_then(|(_, store)| {
            wait(store.delete_tenant(&tenant("large")))?;
            wait(store.close())
        });
        for survivors in [Survivors::All, Survivors::Synced, Survivors::Random(call)] {
            let place = format!("call {call}, {survivors:?}");
            let (_, store) = open(&disk.after_crash(survivors)).unwrap_or_else(|error| panic!("{place}: {error}"));
            let count = threads_of(&store, "large");
            assert!(count == 0 || (count == LARGE as u64 && deleted.is_err()), "{place}: {count} threads are left");
            left[usize::from(count == 0)] += 1;
            wait(store.delete_tenant(&tenant("large"))).unwrap();
            assert_eq!((threads_of(&store, "large"), threads_of(&store, "other")), (0, 3), "{place}");
            let names = wait(store.list_tenants(PageRequest::first(10))).unwrap().items;
            assert_eq!(names, [tenant("other")], "{place}");
            cuts += 1;
        }
        if deleted.is_ok() && disk.calls() < call {
            break;
        }
    }
    println!("{cuts} cuts of the deletion of {LARGE} threads: {} left all of it, {} nothing", left[0], left[1]);
    assert!(left[0] > 0 && left[1] > 0);
}
