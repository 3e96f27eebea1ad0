//! Crashes of a store whose index outlives them: after a power cut the index is as after any of its batches since it
//! was last made durable, after the mere end of the process as after the last one; beside it the disk has lost what it
//! may. Nothing acknowledged and durable is lost, nothing shows in part, what was deleted stays so, and a verification
//! finds nothing (PR-9, FI-2, FI-8, FI-10, FI-12, FI-16).

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use conformance_tests::TestLength;
use store_core::{
    EntryQuery, ErrorKind, IgnoreProgress, ManualClock, PageRequest, Result, Store, ThreadQuery, inspect::Inspector,
};
use store_file::{
    Durability, FileStore,
    testing::{Fault, Journal, SimDisk, Survivors},
};

use crate::{
    play::{Played, all, play},
    reference::{Reference, found, reference},
    script::{Step, script},
    world::{Call, at, config, saying, shown, wait},
};

/// A disk, and the index beside it.
struct Root {
    disk: SimDisk,
    journal: Journal,
}

impl Root {
    fn stopping(call: u64) -> Self {
        let disk = SimDisk::new().with_fault(call, Fault::Stop);
        Self { journal: Journal::new(disk.clone()), disk }
    }

    fn open(&self, durability: Durability) -> Result<(ManualClock, FileStore)> {
        let (clock, config) = config();
        let config = config.with_durability(durability);
        Ok((clock, FileStore::open_with(Arc::new(self.disk.clone()), config, &self.journal)?))
    }

    fn crashed(&self, survivors: Survivors, batches: usize) -> Self {
        let disk = self.disk.after_crash(survivors);
        Self { journal: self.journal.after_crash(batches, disk.clone()), disk }
    }

    /// What crashes may leave: of the disk, and of the batches of the index.
    fn left(&self, seed: u64, count: u64) -> Vec<(Survivors, usize)> {
        let (least, most) = self.journal.left().into_inner();
        let spread = |seed: u64| least + usize::try_from(mixed(seed) % (most - least + 1) as u64).unwrap();
        // The end of the process takes nothing.
        let mut left = vec![(Survivors::All, most), (Survivors::Synced, least), (Survivors::Synced, most)];
        left.extend((0..count).map(|n| (Survivors::Random(n), spread(seed * 64 + n))));
        left.extend((0..count).map(|n| (Survivors::All, spread(seed * 64 + 32 + n))));
        left
    }
}

/// Pseudo-random bits (splitmix64).
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Opening and a verification find nothing wrong.
fn sound(store: &FileStore) -> Result<(), String> {
    let opening = store.opening();
    let lost = opening.set_aside.iter().any(|aside| aside.acknowledged);
    let findings = wait(store.verify(&IgnoreProgress)).map_err(|error| error.to_string())?.findings;
    let good = opening.damaged.is_empty() && !lost && findings.is_empty();
    if good { Ok(()) } else { Err(format!("{opening:?} {findings:?}")) }
}

/// Tells the places of the first failures, and how many there were.
#[derive(Default)]
struct Failures(Mutex<Vec<String>>);

impl Failures {
    fn add(&self, place: &str, why: &str) {
        self.0.lock().unwrap().push(format!("{place}: {why}"));
    }

    fn none(self) {
        let failures = self.0.into_inner().unwrap();
        let first: Vec<_> = failures.iter().take(12).map(|text| text.chars().take(900).collect::<String>()).collect();
        assert!(failures.is_empty(), "{} failures, the first ones:\n{}", failures.len(), first.join("\n\n"));
    }
}

/// Does a job for each number, several at a time; in quick tests for few of them.
fn each(numbers: u64, job: impl Fn(u64) + Sync) {
    let (next, every) = (AtomicU64::new(0), TestLength::pick_by_env(29, 1, 1));
    let work = || {
        loop {
            let number = next.fetch_add(every, Ordering::SeqCst);
            if number >= numbers {
                return;
            }
            job(number);
        }
    };
    std::thread::scope(|scope| (0..4).map(|_| scope.spawn(work)).for_each(drop));
}

#[test]
fn no_crash_leaves_an_index_that_loses_or_restores_records() {
    let reference = reference();
    let states = Mutex::new(HashSet::new());
    let failures = Failures::default();
    let count = TestLength::pick_by_env(2, 3, 16);
    each(reference.calls + 1, |call| {
        let root = Root::stopping(call);
        let played = root.open(Durability::Sync).map_or_else(
            |_| Played::default(),
            |(clock, store)| {
                let played = play(&store, &clock, 0, &reference.answers);
                if played.open.is_empty() {
                    let _ = wait(store.close());
                }
                played
            },
        );
        for (survivors, batches) in root.left(call, count) {
            let crashed = root.crashed(survivors, batches);
            let is_new = states.lock().unwrap().insert((played.acknowledged, crashed.disk.fingerprint(), batches));
            if is_new {
                let number = states.lock().unwrap().len();
                let place = format!("call {call}, {survivors:?}, {batches} batches of {:?}", root.journal.left());
                if let Err(why) = after(&crashed, &played, (&reference, number)) {
                    failures.add(&place, &format!("{why}, {played:?}"));
                }
            }
        }
    });
    println!("{} calls of the disk, {} states of disk and index", reference.calls, states.lock().unwrap().len());
    assert!(states.lock().unwrap().len() >= TestLength::pick_by_env(20, 1_000, 1_000));
    failures.none();
}

/// A store that was crashed shows what it should, each third one again after another power cut, and with each fifth one
/// the script goes on.
fn after(crashed: &Root, played: &Played, (reference, number): (&Reference, usize)) -> Result<(), String> {
    let text = |error: store_core::Error| error.to_string();
    let (clock, store) = crashed.open(Durability::Sync).map_err(text)?;
    let calls = found(&store, played, reference)?;
    sound(&store)?;
    let (least, most) = crashed.journal.left().into_inner();
    for batches in [least, least.midpoint(most)].into_iter().filter(|_| number.is_multiple_of(3)) {
        let (_, store) = crashed.crashed(Survivors::Synced, batches).open(Durability::Sync).map_err(text)?;
        if wait(shown(&store)).map_err(text)? != reference.shown[calls] {
            return Err(format!("another cut with {batches} batches shows something else"));
        }
        sound(&store)?;
    }
    if !number.is_multiple_of(5) {
        return Ok(());
    }
    let rest = play(&store, &clock, calls, &reference.answers);
    if !rest.open.is_empty() || Some(&wait(shown(&store)).map_err(text)?) != reference.shown.last() {
        return Err(format!("resumed at {calls}: {rest:?}"));
    }
    Ok(())
}

/// The entries of each thread, and of each tenant without threads nothing.
type Logs = BTreeMap<(String, String), Vec<String>>;

fn logs(store: &FileStore) -> Result<Logs> {
    wait(async {
        let mut logs = Logs::new();
        let page = PageRequest::first(1000);
        for tenant in store.list_tenants(page.clone()).await?.items {
            let Some(threads) = store.tenant(&tenant)?.threads else { continue };
            for thread in threads.list_threads(ThreadQuery::default().with_page(page.clone())).await?.items {
                let entries = threads.list_entries(&thread.id, EntryQuery::all().with_page(page.clone())).await?;
                let entries = entries.items.iter().map(|entry| format!("{entry:?}")).collect();
                logs.insert((tenant.to_string(), thread.id.to_string()), entries);
            }
        }
        Ok(logs)
    })
}

/// What the script gives, step by step: the logs after each step, the first before all.
fn rehearsed() -> (Vec<Logs>, u64) {
    let root = Root::stopping(u64::MAX);
    let (clock, store) = root.open(Durability::None).unwrap();
    let mut after = vec![Logs::new()];
    steps_of(&store, &clock, |_| after.push(logs(&store).unwrap()));
    wait(store.close()).unwrap();
    (after, root.disk.calls())
}

/// Plays the script with a sync behind every ninth step, as long as there is power; tells how many steps there were.
fn steps_of(store: &FileStore, clock: &ManualClock, mut each: impl FnMut(usize)) -> (usize, usize) {
    let (mut synced, mut steps) = (0, 0);
    for Step { seconds, tenant, calls } in script() {
        clock.set(at(seconds));
        let answers = wait(all(calls.iter().map(|call| call.make(store, tenant)).collect()));
        let lost = |answer: &Result<String>| matches!(answer, Err(error) if [ErrorKind::CommitUnknown, ErrorKind::Poisoned, ErrorKind::Unavailable].contains(&error.kind()));
        if answers.iter().any(lost) {
            return (synced, steps);
        }
        steps += 1;
        each(steps);
        if steps.is_multiple_of(9) {
            if wait(store.sync()).is_err() {
                return (synced, steps);
            }
            synced = steps;
        }
    }
    (synced, steps)
}

#[test]
fn relaxed_durability_loses_only_the_ends_of_logs() {
    let (rehearsed, calls) = rehearsed();
    let states = Mutex::new(HashSet::new());
    let failures = Failures::default();
    let count = TestLength::pick_by_env(2, 4, 16);
    each(calls + 1, |call| {
        let root = Root::stopping(call);
        let played = root.open(Durability::None).map_or((0, 0), |(clock, store)| {
            let played = steps_of(&store, &clock, |_| {});
            // Dropped, it would close behind what was taken for its end.
            let _ = wait(store.close());
            played
        });
        for (survivors, batches) in root.left(call, count) {
            let crashed = root.crashed(survivors, batches);
            if states.lock().unwrap().insert((crashed.disk.fingerprint(), batches)) {
                let place = format!("call {call}, {survivors:?}, {batches} batches of {:?}", root.journal.left());
                if let Err(why) = after_loss(&crashed, played, &rehearsed) {
                    failures.add(&place, &format!("{why}, {played:?}"));
                }
            }
        }
    });
    println!("{calls} calls of the disk, {} states of disk and index", states.lock().unwrap().len());
    assert!(states.lock().unwrap().len() >= TestLength::pick_by_env(15, 300, 300));
    failures.none();
}

/// Of each log a beginning is left, as far as it was synced at least; what was deleted is gone; everything can be used.
fn after_loss(crashed: &Root, (synced, steps): (usize, usize), rehearsed: &[Logs]) -> Result<(), String> {
    let text = |error: store_core::Error| error.to_string();
    let (_, store) = crashed.open(Durability::Sync).map_err(text)?;
    let found = logs(&store).map_err(text)?;
    wait(shown(&store)).map_err(text)?;
    sound(&store)?;
    // The step at which the power went may have happened or not.
    let last = (steps + 1).min(rehearsed.len() - 1);
    let ids = rehearsed[..=last].iter().flat_map(Logs::keys).chain(found.keys());
    for id in ids.collect::<HashSet<_>>() {
        let since = (0..=steps).rev().find(|step| !rehearsed[*step].contains_key(id)).map_or(0, |step| step + 1);
        let lives = |step: usize| rehearsed[step].get(id);
        let could_be: Vec<_> = (since..=last).filter_map(lives).collect();
        match found.get(id) {
            Some(log) if !could_be.iter().any(|whole| whole.starts_with(log)) => {
                return Err(format!("{id:?} shows what it never had, or what was deleted: {log:?}"));
            }
            log => {
                let must = (since <= synced && lives(last).is_some()).then(|| lives(synced)).flatten();
                if must.is_some_and(|must| !log.is_some_and(|log| log.starts_with(must))) {
                    return Err(format!("{id:?} lost what was synced: {log:?}"));
                }
            }
        }
    }
    for (of, id) in found.keys() {
        let commit = saying(id, "afterwards", &["goes on"]);
        wait(Call::Commit(Box::new(commit)).make(&store, of)).map_err(|error| format!("{id}: {error}"))?;
    }
    sound(&store)
}
