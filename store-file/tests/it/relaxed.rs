//! What a store with relaxed durability promises all the same: `sync` and `close` leave nothing out, and a power cut
//! leaves no half (PR-8, PR-11, PR-19, FI-12).

#![expect(clippy::disallowed_methods, reason = "when something is synced is real time")]

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Barrier, Mutex, mpsc},
    task::{Context, Waker},
    thread::sleep,
    time::{Duration, Instant},
};

use store_core::{
    ChildStrategy, ClaimRequest, Commit, DispatchId, DispatchStatus, EntryQuery, ErrorKind, Expect, IgnoreProgress,
    NewDispatch, NewThread, PageRequest, RunChange, RunFilter, RunQuery, RunStatus, Settlement, Store, ThreadFields,
    Version, inspect::Inspector,
};
use store_file::{
    Durability, FileStore,
    testing::{Fault, FilePath, Journal, Kind, Open, SimDisk, Survivors, Vfs},
};

use crate::{
    syncing::Syncing,
    work::{Under, Work},
    world::{Call, config, saying, tenant, thread, wait},
};

/// A disk with its index.
struct Root {
    disk: SimDisk,
    journal: Journal,
}

impl Root {
    fn new() -> Self {
        Self::of(SimDisk::new())
    }

    fn of(disk: SimDisk) -> Self {
        Self { journal: Journal::new(disk.clone()), disk }
    }

    fn try_open(&self, durability: Durability) -> store_core::Result<FileStore> {
        let (_, config) = config();
        FileStore::open_with(Arc::new(self.disk.clone()), config.with_durability(durability), &self.journal)
    }

    fn open(&self, durability: Durability) -> FileStore {
        self.try_open(durability).unwrap()
    }

    /// After a power cut, with all of the index, or what was durable of it.
    fn cut(&self, survivors: Survivors, index: bool) -> Self {
        let disk = self.disk.after_crash(survivors);
        let left = self.journal.left();
        Self { journal: self.journal.after_crash(if index { *left.end() } else { *left.start() }, disk.clone()), disk }
    }

    fn cuts(&self) -> impl Iterator<Item = (Survivors, Self)> + '_ {
        let ways = [Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names];
        let ways = ways.into_iter().chain((0..60).map(Survivors::Random));
        ways.flat_map(|way| [true, false].map(|index| (way, self.cut(way, index))))
    }
}

fn call(store: &FileStore, call: &Call) {
    wait(call.make(store, "default")).unwrap_or_else(|error| panic!("{call:?}: {error}"));
}

fn commit(store: &FileStore, commit: Commit) {
    call(store, &Call::Commit(Box::new(commit)));
}

fn entries(store: &FileStore, id: &str) -> store_core::Result<usize> {
    let threads = store.tenant(&tenant("default")).unwrap().threads.unwrap();
    wait(threads.list_entries(&thread(id), EntryQuery::all())).map(|page| page.items.len())
}

fn check_sound(store: &FileStore, place: &str) {
    let opening = store.opening();
    let lost = opening.set_aside.iter().any(|aside| aside.acknowledged);
    assert!(opening.damaged.is_empty() && !lost, "{place}: {opening:?}");
    let found = wait(store.verify(&IgnoreProgress)).unwrap();
    assert!(found.findings.is_empty(), "{place}: {:?}", found.findings);
}

/// A child whose parent goes: the writer has to load it again for what comes then.
fn child_of_deleted(store: &FileStore) {
    call(store, &Call::Create(Box::new(NewThread::new(thread("parent")))));
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(thread("parent"));
    commit(store, saying("child", "k-1", &["first"]).creating(fields));
    call(store, &Call::Delete(thread("parent"), ChildStrategy::Detach));
}

/// Shows PR-19 and PR-8: what was not synced when the writer let go of its thread is synced all the same.
#[test]
fn a_sync_covers_every_thread() {
    for close in [false, true] {
        for more in [false, true] {
            let root = Root::new();
            let store = root.open(Durability::None);
            child_of_deleted(&store);
            if more {
                commit(&store, saying("child", "k-2", &["second"]));
            }
            wait(async { if close { store.close().await } else { store.sync().await } }).unwrap();
            for (way, cut) in root.cuts() {
                let store = cut.open(Durability::Sync);
                let place = format!("{way:?}, close: {close}, more: {more}");
                check_sound(&store, &place);
                assert_eq!(entries(&store, "child").unwrap(), 1 + usize::from(more), "{place}");
            }
        }
    }
}

/// Shows FI-12: a group says no more to be durable than is, also behind a writer that was let go: what a power cut
/// takes is never called damage.
#[test]
fn data_lost_in_a_power_cut_is_not_reported_as_damage() {
    let root = Root::new();
    let store = root.open(Durability::None);
    child_of_deleted(&store);
    for number in 2..5 {
        commit(&store, saying("child", &format!("k-{number}"), &["x".repeat(700).as_str()]));
    }
    let mut seen = [0; 5];
    for (way, cut) in root.cuts() {
        let store = cut.open(Durability::Sync);
        check_sound(&store, &format!("{way:?}"));
        seen[entries(&store, "child").unwrap()] += 1;
        commit(&store, saying("child", "more", &["goes on"]));
    }
    println!("the number of times that 0 to 4 entries were left: {seen:?}");
    // The first one is durable along with the deletion behind it.
    assert!(seen[0] == 0 && seen[1] > 0 && seen[2] > 0 && seen[4] > 0, "{seen:?}");
}

/// A disk that holds up the next sync of it once it is asked to.
fn held_up() -> (SimDisk, Syncing, Arc<Mutex<bool>>, Arc<Barrier>) {
    let disk = SimDisk::new();
    let (armed, gate) = (Arc::new(Mutex::new(false)), Arc::new(Barrier::new(2)));
    let (asked, opened) = (Arc::clone(&armed), Arc::clone(&gate));
    let syncing = Syncing::new(disk.clone(), move || {
        let holds = std::mem::take(&mut *asked.lock().unwrap());
        if holds {
            // Once to say that it is here, once to go on.
            opened.wait();
            opened.wait();
        }
        true
    });
    (disk, syncing, armed, gate)
}

/// Shows FI-12: what is acknowledged becomes durable by itself, when its time has come and not before.
#[test]
fn acknowledged_data_becomes_durable_after_the_interval() {
    let durable = |disk: &SimDisk| entries(&Root::of(disk.after_crash(Survivors::Synced)).open(Durability::Sync), "a");
    let opened = |every| {
        let disk = SimDisk::new();
        let config = config().1.with_durability(Durability::Interval(every));
        let store = FileStore::open_on(Arc::new(disk.clone()), config).unwrap();
        commit(&store, saying("a", "k-0", &["its log is made, and synced"]));
        wait(store.sync()).unwrap();
        (disk, store)
    };
    let (disk, store) = opened(Duration::from_secs(3_600));
    commit(&store, saying("a", "k", &["x"]));
    sleep(Duration::from_millis(200));
    assert_eq!(durable(&disk).unwrap(), 1, "synced long before its time");
    let (every, mut longest) = (Duration::from_millis(20), Duration::ZERO);
    let (disk, store) = opened(every);
    for number in 1..=20 {
        commit(&store, saying("a", &format!("k-{number}"), &["x"]));
        let acknowledged = Instant::now();
        while durable(&disk).unwrap() <= number {
            assert!(acknowledged.elapsed() < Duration::from_secs(10), "it is not synced");
            sleep(Duration::from_millis(1));
        }
        longest = longest.max(acknowledged.elapsed());
    }
    println!("durable after at most {longest:?}, with an interval of {every:?}");
}

/// Shows PR-19 and PR-8: a sync, or a close, that meets the store's own sync waits until that has ended.
#[test]
fn a_sync_waits_for_a_running_sync() {
    for close in [false, true] {
        let (disk, syncing, armed, gate) = held_up();
        let (_, config) = config();
        let config = config.with_durability(Durability::Interval(Duration::from_millis(1)));
        let store = FileStore::open_on(Arc::new(syncing), config).unwrap();
        commit(&store, saying("a", "k-0", &["its log is made, and synced"]));
        wait(store.sync()).unwrap();
        *armed.lock().unwrap() = true;
        commit(&store, saying("a", "k", &["x"]));
        gate.wait();
        let (sender, done) = mpsc::channel();
        let (of, left) = (store.clone(), disk.clone());
        let caller = std::thread::spawn(move || {
            wait(async { if close { of.close().await } else { of.sync().await } }).unwrap();
            let _ = sender.send(());
            left.after_crash(Survivors::Synced)
        });
        let early = done.recv_timeout(Duration::from_millis(100)).is_ok();
        gate.wait();
        let cut = Root::of(caller.join().unwrap());
        let store = cut.open(Durability::Sync);
        assert_eq!((early, entries(&store, "a").ok()), (false, Some(2)), "close: {close}");
    }
}

/// Shows PR-8 and PR-11: a close whose future was dropped is finished by the next one, or by the drop of the store; two
/// together end together.
#[test]
fn a_dropped_close_is_finished() {
    for next in ["close", "drop", "together"] {
        let (disk, syncing, armed, gate) = held_up();
        let store = FileStore::open_on(Arc::new(syncing), config().1.with_durability(Durability::None)).unwrap();
        commit(&store, saying("a", "k", &["x"]));
        // A call is at work that the close waits for.
        *armed.lock().unwrap() = true;
        let (busy, opener) = (store.clone(), Arc::clone(&gate));
        let at_work = std::thread::spawn(move || wait(busy.sync()));
        gate.wait();
        let begun = pin!(store.close()).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(begun, "{next}: nothing kept the close from ending");
        let going_on = std::thread::spawn(move || {
            sleep(Duration::from_millis(50));
            opener.wait();
        });
        match next {
            "close" => wait(store.close()).unwrap(),
            "drop" => {}
            _ => wait(async {
                let (left, right) = tokio::join!(store.close(), store.close());
                left.and(right).unwrap();
            }),
        }
        if next == "drop" {
            drop(store);
            going_on.join().unwrap();
            at_work.join().unwrap().unwrap();
            // The last handle may be one of the pool.
            sleep(Duration::from_millis(100));
        } else {
            // The lock is let go already.
            assert!(
                Root::of(disk.clone()).try_open(Durability::Sync).is_ok_and(|next| !next.opening().unclean),
                "{next}"
            );
            going_on.join().unwrap();
            at_work.join().unwrap().unwrap();
        }
        let store = Root::of(disk.after_crash(Survivors::Synced)).open(Durability::Sync);
        assert_eq!(entries(&store, "a").unwrap(), 1, "{next}");
    }
}

/// Shows FI-12: what a power cut took is refused as lost even if the openings behind it were cut off, wherever.
#[test]
fn a_second_crash_does_not_hide_the_first() {
    let root = Root::new();
    let store = root.open(Durability::None);
    commit(&store, saying("a", "k-1", &["durable"]));
    wait(store.sync()).unwrap();
    commit(&store, saying("a", "k-2", &["lost"]));
    let mut stops = 0;
    for call in 0..60 {
        let mut next = root.cut(Survivors::Synced, false);
        for again in 0..3 {
            let disk = next.disk.after_crash(Survivors::All).with_fault(call + again, Fault::Stop);
            let journal = next.journal.after_crash(*next.journal.left().end(), disk.clone());
            let root = Root { disk, journal };
            let opened = root.try_open(Durability::Sync);
            next = root.cut(Survivors::All, true);
            stops += u32::from(opened.is_err());
            std::mem::forget(opened);
        }
        let store = next.open(Durability::Sync);
        assert_eq!(entries(&store, "a").unwrap(), 1);
        let old =
            saying("a", "k-3", &["at the version that was lost"]).expecting(Expect::Version(Version::new(1, 1, 0)));
        let refused = wait(Call::Commit(Box::new(old)).make(&store, "default")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "stopped at {call}: {refused}");
    }
    println!("{stops} openings were stopped");
    assert!(stops >= 20, "{stops}");
}

/// Shows FI-12: what is lost with the end of a log, or with all of it, is lost from every list, and its ids can be used
/// again; an id that was deleted before stays so.
#[test]
fn an_index_ahead_of_a_lost_log_shows_nothing_of_it() {
    let root = Root::new();
    let store = root.open(Durability::None);
    let run = |to: &str, key: &str, id: &str| {
        let run = RunChange::new(id.parse().unwrap(), RunStatus::Running).with_agent("coder".parse().unwrap());
        saying(to, key, &["in a run"]).with_run(run)
    };
    commit(&store, saying("old", "k-1", &["of the first"]));
    commit(&store, saying("a", "k-1", &["durable"]));
    call(&store, &Call::Delete(thread("old"), ChildStrategy::Detach));
    call(&store, &Call::Purge);
    wait(store.sync()).unwrap();
    commit(&store, run("a", "k-2", "r-1"));
    commit(&store, run("new", "k-1", "r-2"));
    commit(&store, run("old", "k-2", "r-3").expecting(Expect::Absent));
    let mut lost = 0;
    for (way, cut) in root.cuts() {
        let place = format!("{way:?}");
        let store = cut.open(Durability::Sync);
        check_sound(&store, &place);
        let threads = store.tenant(&tenant("default")).unwrap().threads.unwrap();
        let mut query = RunQuery::new(RunFilter::default());
        query.page = PageRequest::first(10);
        let runs = wait(threads.list_runs(query)).unwrap().items.len();
        assert_eq!(wait(threads.count_runs(&RunFilter::default())).unwrap(), runs as u64, "{place}");
        if runs == 0 {
            lost += 1;
            // What was deleted is remembered as deleted.
            let plain = Call::Commit(Box::new(saying("old", "k-9", &["x"])));
            let refused = wait(plain.make(&store, "default")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound, "{place}: {refused}");
            for (to, id) in [("a", "r-1"), ("new", "r-2")] {
                commit(&store, run(to, "k-3", id));
            }
            commit(&store, run("old", "k-3", "r-3").expecting(Expect::Absent));
            assert_eq!(entries(&store, "new").unwrap(), 1, "{place}");
            check_sound(&store, &place);
        }
    }
    println!("{lost} times all of it was lost");
    assert!(lost >= 4, "{lost}");
}

/// Shows FI-11: a log that was durable once and is gone is damage, not a loss that was agreed to.
#[test]
fn a_missing_durable_log_is_reported_as_damage() {
    let root = Root::new();
    let store = root.open(Durability::None);
    commit(&store, saying("a", "k-1", &["durable"]));
    wait(store.close()).unwrap();
    let store = root.open(Durability::None);
    commit(&store, saying("a", "k-2", &["not yet"]));
    let cut = root.cut(Survivors::All, true);
    let mut path = FilePath::new("tenants").unwrap();
    while let Some(below) = cut.disk.list(&path).unwrap().first() {
        path = path.join(&below.name).unwrap();
        if below.kind == Kind::File {
            break;
        }
    }
    cut.disk.unlink(&path).unwrap();
    assert!(cut.disk.open(&path, Open::Read).is_err());
    let store = cut.open(Durability::Sync);
    assert_eq!(entries(&store, "a").unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Shows MB-19 and PR-19: what became of a dispatch and was made durable is not undone by the removal of the log in
/// which it stood, if the end of the log that says what came behind it is lost.
#[test]
fn the_end_of_a_dispatch_survives_the_removal_of_its_log() {
    let id: DispatchId = "d-1".parse().unwrap();
    let ends = [
        (Settlement::Ack { result: None }, Work::Purge(100)),
        (Settlement::DeadLetter { error: "never".to_owned() }, Work::Requeue(id.clone())),
    ];
    for (end, behind) in ends {
        let root = Root::new();
        let store = root.open(Durability::None);
        let work = |work| call(&store, &Call::Work(Box::new(work)));
        let dispatch = NewDispatch::new(thread("x"), "r-1".parse().unwrap()).with_id(id.clone());
        work(Work::Enqueue(vec![dispatch]));
        work(Work::Claim(ClaimRequest::new("w".parse().unwrap(), Duration::from_secs(60))));
        let last = saying("x", "k-1", &["done"]).settling(end);
        work(Work::Under(id.clone(), Under::Commit(Box::new(last))));
        wait(store.sync()).unwrap();
        work(behind);
        call(&store, &Call::Delete(thread("x"), ChildStrategy::Detach));
        call(&store, &Call::Purge);
        for (way, cut) in root.cuts() {
            let store = cut.open(Durability::Sync);
            let place = format!("{way:?}");
            check_sound(&store, &place);
            let mailbox = store.tenant(&tenant("default")).unwrap().mailbox.unwrap();
            let left = wait(mailbox.load_dispatch(&id)).unwrap().map(|dispatch| dispatch.status);
            assert_ne!(left, Some(DispatchStatus::Claimed), "{place}");
        }
    }
}

/// Shows TN-8 and TH-20: what a dropped tenant had not synced is not looked for when its name is used again.
#[test]
fn a_deleted_tenant_leaves_nothing_to_sync() {
    let root = Root::new();
    let store = root.open(Durability::None);
    let dispatch = NewDispatch::new(thread("x"), "r-1".parse().unwrap());
    call(&store, &Call::Work(Box::new(Work::Enqueue(vec![dispatch]))));
    call(&store, &Call::DropTenant);
    commit(&store, saying("x", "k-1", &["of a tenant without a mailbox"]));
    call(&store, &Call::Delete(thread("x"), ChildStrategy::Detach));
    call(&store, &Call::Purge);
    check_sound(&store, "behind the purge");
}
