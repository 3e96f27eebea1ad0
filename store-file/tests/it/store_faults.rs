//! F4 and F5 for the whole store: an error of the disk, or a full one, at every call of the disk.

use std::{collections::BTreeMap, time::Duration};

use store_core::{
    ChildStrategy, ClaimNumber, ClaimRequest, ClaimToken, Commit, Detail, Error, ErrorKind, Expect, Fence, Json,
    ManualClock, NewDispatch, NewOutboxRow, NewThread, OutboxSettlement, Outcome, Result, Settlement, Store,
    ThreadPatch,
};
use store_file::{
    FileStore,
    testing::{Asked, Fault, FilePath, Open, SimDisk, Survivors, Vfs},
};

use crate::{
    play::{Played, all, play, play_singly},
    reference::{Reference, found, open, reference},
    work::{Under, Work},
    world::{Call, at_least, saying, shown, swept, thread, wait},
};

/// A store on a disk where a call fails, and how far the script comes there; the error of the opening if that failed.
struct Faulty {
    disk: SimDisk,
    place: String,
    opened: Result<(ManualClock, FileStore)>,
}

impl Faulty {
    fn new(call: u64, fault: Fault) -> Self {
        let disk = SimDisk::new().with_fault(call, fault);
        let opened = open(&disk);
        Self { disk, place: format!("{fault:?} at call {call}"), opened }
    }
}

/// The script goes on at call `from` with the same answers, and ends as it should.
fn finish(store: &FileStore, clock: &ManualClock, from: usize, reference: &Reference, place: &str) {
    let rest = play_singly(store, clock, from, &reference.answers);
    assert!(rest.open.is_empty(), "{place}, resumed at {from}: {rest:?}");
    assert_eq!(Some(&wait(shown(store)).unwrap()), reference.shown.last(), "{place}, resumed at {from}");
}

/// Opened again, even after a power cut, the store shows what was acknowledged and nothing half; the script goes on.
fn reopen_everywhere(disk: &SimDisk, played: &Played, reference: &Reference, place: &str) {
    for survivors in [Survivors::All, Survivors::Synced, Survivors::Contents, Survivors::Names, Survivors::Random(7)] {
        let place = format!("{place}, {survivors:?}");
        let (_, store) = open(&disk.after_crash(survivors)).unwrap_or_else(|error| panic!("{place}: {error}"));
        found(&store, played, reference).unwrap_or_else(|difference| panic!("{place}: {difference}"));
    }
    let (clock, store) = open(disk).unwrap_or_else(|error| panic!("{place}, again: {error}"));
    let shows = found(&store, played, reference).unwrap_or_else(|difference| panic!("{place}, again: {difference}"));
    // What is shown is durable, whatever the failed sync has left (FI-6).
    let (_, cut) = open(&disk.after_crash(Survivors::Synced)).unwrap();
    assert_eq!(wait(shown(&cut)).unwrap(), reference.shown[shows], "{place}, again and cut");
    finish(&store, &clock, shows, reference, place);
    wait(store.close()).unwrap();
}

fn error(answer: &Result<String>) -> &Error {
    answer.as_ref().unwrap_err()
}

/// One write of each kind, none of which needs anything to be there.
fn writes() -> Vec<Call> {
    vec![
        Call::Commit(Box::new(saying("z", "z", &["x"]))),
        Call::Commit(Box::new(saying("a", "z", &["x"]))),
        Call::Create(Box::new(NewThread::new(thread("z")))),
        Call::Update(thread("a"), Box::new(ThreadPatch::default().with_title("x"))),
        Call::Delete(thread("a"), ChildStrategy::Detach),
        Call::Prune(Duration::ZERO),
        Call::Purge,
        Call::ResetFence(thread("a")),
        Call::DropTenant,
    ]
}

/// Every later write is refused as `Poisoned` and asks nothing of the disk, a close neither; reads go on.
fn check_poisoned(faulty: &Faulty, store: &FileStore, played: &Played, reference: &Reference) {
    let (disk, place) = (&faulty.disk, &faulty.place);
    let calls = disk.calls();
    for tenant in ["default", "another"] {
        for call in writes() {
            let Err(refused) = wait(call.make(store, tenant)) else { panic!("{place}: {call:?} was accepted") };
            let told = (refused.kind(), refused.outcome());
            assert_eq!(told, (ErrorKind::Poisoned, Outcome::NotApplied), "{place}, {call:?}: {refused}");
        }
    }
    assert_eq!(wait(store.sync()).unwrap_err().kind(), ErrorKind::Poisoned, "{place}");
    found(store, played, reference).unwrap_or_else(|difference| panic!("{place}, poisoned: {difference}"));
    wait(store.close()).unwrap();
    assert_eq!(disk.calls(), calls, "{place}: a poisoned store wrote or synced");
}

/// Shows FI-6, PR-9 and ER-2: the call whose write or sync fails never ends with `Ok`, and nothing is written after it;
/// what fails before anything is written is refused, and the store goes on.
#[test]
fn an_error_at_any_disk_call_is_reported_and_loses_nothing() {
    let reference = reference();
    let mut seen = BTreeMap::new();
    for call in swept(reference.calls) {
        let faulty = Faulty::new(call, Fault::Eio);
        let place = &faulty.place;
        let Ok((clock, store)) = &faulty.opened else {
            let refused = faulty.opened.as_ref().unwrap_err();
            assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{place}");
            reopen_everywhere(&faulty.disk, &Played::default(), &reference, place);
            *seen.entry("openings refused").or_insert(0) += 1;
            continue;
        };
        let in_opening = faulty.disk.failed().is_some();
        let played = play(store, clock, 0, &reference.answers);
        let is_poisoned = wait(store.sync()).is_err_and(|error| error.kind() == ErrorKind::Poisoned);
        let (result, played) = match (played.open.first().map(error), faulty.disk.failed()) {
            (Some(told), Some(_)) if is_poisoned => {
                // What a deletion removes behind its answer may be what fails.
                let behind = told.kind() == ErrorKind::Poisoned;
                let unknown = (told.kind(), told.outcome()) == (ErrorKind::CommitUnknown, Outcome::Unknown);
                // One that was judged by what was then not written had no effect.
                let judged = (told.kind(), told.outcome()) == (ErrorKind::Unavailable, Outcome::NotApplied);
                assert!(unknown || behind || judged, "{place}: {told}");
                check_poisoned(&faulty, store, &played, &reference);
                ("calls unknown, the store poisoned", played)
            }
            (Some(told), Some(_)) => {
                let kinds = [ErrorKind::Unavailable, ErrorKind::CommitUnknown];
                assert!(kinds.contains(&told.kind()), "{place}: {told}");
                finish(store, clock, played.acknowledged, &reference, place);
                ("calls refused, the store going on", reference.played())
            }
            // There is no reserve then, and that is all.
            (None, Some(Asked::Make | Asked::Allocate)) if in_opening => ("openings without a reserve", played),
            (None, Some(_)) if is_poisoned => {
                check_poisoned(&faulty, store, &played, &reference);
                ("removals unknown, the store poisoned", played)
            }
            (None, Some(Asked::Remove | Asked::Allocate)) => ("removals left for later", played),
            (None, None) if wait(store.close()).is_err() => ("closes failed", played),
            // Calls that are made together need fewer of the disk.
            (None, None) if faulty.disk.calls() <= call => break,
            (told, asked) => panic!("{place}: {asked:?} failed, and the answer was {told:?}"),
        };
        *seen.entry(result).or_insert(0) += 1;
        drop(faulty.opened);
        reopen_everywhere(&faulty.disk, &played, &reference, &faulty.place);
    }
    println!("{} calls of the disk, an error at each: {seen:?}", reference.calls);
    assert!(seen["calls unknown, the store poisoned"] >= at_least(100), "{seen:?}");
}

/// Shows FI-6: commits that wait together with the one that failed are not acknowledged behind it, and each error names
/// the key of its own commit.
#[test]
fn calls_that_wait_with_a_failed_call_are_not_acknowledged() {
    let opening = {
        let disk = SimDisk::new();
        let _store = open(&disk).unwrap();
        disk.calls()
    };
    let (mut unknown, mut poisoned) = (0, 0);
    for call in opening..opening + 9 {
        let faulty = Faulty::new(call, Fault::Eio);
        let (Ok((_, store)), place) = (&faulty.opened, &faulty.place) else { panic!("{}", faulty.place) };
        let keys = ["k-0", "k-1", "k-2"];
        let calls = keys.map(|key| Call::Commit(Box::new(saying("new", key, &["x"]))));
        let answers = wait(all(calls.iter().map(|call| call.make(store, "new")).collect()));
        let mut failed = false;
        for (answer, key) in answers.iter().zip(keys) {
            let Err(error) = answer else {
                assert!(!failed, "{place}: acknowledged behind a failure: {answers:?}");
                continue;
            };
            failed |= error.outcome() == Outcome::Unknown || error.kind() == ErrorKind::Poisoned;
            poisoned += usize::from(error.kind() == ErrorKind::Poisoned);
            if let Detail::CommitUnknown { key: named } = error.detail() {
                unknown += 1;
                assert_eq!(named.as_ref().map(ToString::to_string).as_deref(), Some(key), "{place}");
            }
        }
    }
    println!("{unknown} commits unknown, {poisoned} refused behind them");
    assert!(unknown >= 5, "{unknown} unknown, {poisoned} poisoned");
}

/// Shows ER-2, ER-3 and CM-13: of calls that wait together, one whose effect is durable is not told that there was no
/// space, and none is judged by a commit that was not written.
#[test]
fn calls_that_wait_together_are_checked_only_against_written_commits() {
    let opening = {
        let disk = SimDisk::new();
        let _store = open(&disk).unwrap();
        disk.calls()
    };
    let claim = |counter| {
        Fence::new("d".parse().unwrap(), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter })
    };
    let mut refused = 0;
    for (call, fault) in (opening..opening + 12).flat_map(|call| [(call, Fault::Enospc), (call, Fault::Full)]) {
        let faulty = Faulty::new(call, fault);
        let (Ok((_, store)), place) = (&faulty.opened, &faulty.place) else { panic!("{}", faulty.place) };
        // The last ones find a disk that is full from the beginning.
        faulty.disk.set_full(call == opening + 11);
        let fence = Commit::new(thread("new")).fenced(claim(5));
        // Together they are more than the reserve, each for itself is not.
        let (one, other) = ("x".repeat(700_000), "y".repeat(700_000));
        let calls = [fence, saying("new", "k", &[one.as_str()]), saying("new", "k", &[other.as_str()])];
        let calls = calls.map(|commit| Call::Commit(Box::new(commit)));
        let answers = wait(all(calls.iter().map(|call| call.make(store, "new")).collect()));
        let late = Call::Commit(Box::new(saying("new", "late", &["z"]).fenced(claim(1))));
        let late = wait(late.make(store, "new")).map_err(|error| error.kind());
        assert_eq!(answers[0].is_ok(), late == Err(ErrorKind::StaleEpoch), "{place}: {answers:?}, then {late:?}");
        if let Err(error) = &answers[1] {
            let other = answers[2].as_ref().map_err(Error::kind);
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{place}: {error}");
            assert_ne!(other, Err(ErrorKind::IdempotencyMismatch), "{place}: judged by what was not written");
            refused += 1;
        }
    }
    assert!(refused > 0, "there was always space");
}

/// Calls that find no space say so, as calls without effect that may be repeated.
fn check_full(played: &Played, place: &str) {
    for told in played.open.iter().map(error) {
        let (kind, outcome) = (told.kind(), told.outcome());
        assert_eq!((kind, outcome), (ErrorKind::StorageFull, Outcome::NotApplied), "{place}: {told:?}");
        assert!(told.is_retryable(), "{place}");
    }
}

/// Opens again with space what could not be opened without.
fn reopen_with_space(faulty: &Faulty, reference: &Reference) {
    let (refused, place) = (faulty.opened.as_ref().unwrap_err(), &faulty.place);
    let told = (refused.kind(), refused.outcome());
    assert_eq!(told, (ErrorKind::StorageFull, Outcome::NotApplied), "{place}: {refused}");
    faulty.disk.set_full(false);
    reopen_everywhere(&faulty.disk, &Played::default(), reference, place);
}

/// Shows FI-7: a call that finds no space in its middle leaves nothing behind; it and all others succeed right after.
#[test]
fn running_out_of_space_at_any_disk_call_loses_nothing() {
    let reference = reference();
    let (mut refused, mut helped) = (0, 0);
    for call in swept(reference.calls) {
        let faulty = Faulty::new(call, Fault::Enospc);
        let place = &faulty.place;
        let Ok((clock, store)) = &faulty.opened else {
            reopen_with_space(&faulty, &reference);
            continue;
        };
        let in_opening = faulty.disk.failed().is_some();
        let played = play_singly(store, clock, 0, &reference.answers);
        check_full(&played, place);
        refused += played.open.len();
        let (_, left) = open(&faulty.disk.after_crash(Survivors::All)).unwrap();
        assert!(left.opening().set_aside.is_empty(), "{place}: {:?}", left.opening());
        // What is true of several threads takes the place of the reserve.
        helped += usize::from(played.open.is_empty() && faulty.disk.failed().is_some() && !in_opening);
        found(store, &played, &reference).unwrap_or_else(|difference| panic!("{place}, full: {difference}"));
        finish(store, clock, played.acknowledged, &reference, place);
        drop(faulty.opened);
        reopen_everywhere(&faulty.disk, &reference.played(), &reference, &faulty.place);
    }
    println!(
        "{} calls of the disk, no space at each: {refused} calls of the store refused, {helped} helped",
        reference.calls
    );
    assert!(refused >= at_least(40) && helped >= at_least(5), "{refused} refused, {helped} helped");
}

/// How large the reserve is.
fn reserve(disk: &SimDisk) -> u64 {
    disk.open(&FilePath::new("reserve").unwrap(), Open::Read).map_or(0, |file| file.len().unwrap())
}

/// Shows FI-7: on a disk that stays full reads work, and writes do again as soon as there is space, without an opening.
#[test]
fn a_full_disk_can_be_read_and_writes_resume_with_space() {
    let reference = reference();
    let mut refused = 0;
    for call in swept(reference.calls) {
        let faulty = Faulty::new(call, Fault::Full);
        let place = &faulty.place;
        let Ok((clock, store)) = &faulty.opened else {
            reopen_with_space(&faulty, &reference);
            continue;
        };
        let played = play(store, clock, 0, &reference.answers);
        check_full(&played, place);
        refused += usize::from(!played.open.is_empty());
        found(store, &played, &reference).unwrap_or_else(|difference| panic!("{place}, full: {difference}"));
        faulty.disk.set_full(false);
        finish(store, clock, played.acknowledged, &reference, place);
        // The next write takes it.
        if !played.open.is_empty() {
            assert!(reserve(&faulty.disk) >= 1 << 20, "{place}: the reserve was not taken again");
        }
        drop(faulty.opened);
        reopen_everywhere(&faulty.disk, &reference.played(), &reference, &faulty.place);
    }
    println!(
        "{} calls of the disk, full from each on: {refused} times a call of the store was refused",
        reference.calls
    );
    assert!(refused >= at_least(150), "{refused}");
}

/// Shows FI-7: on a full disk a thread can be deleted, for good, because of the reserve.
#[test]
fn deleting_works_on_a_full_disk() {
    let reference = reference();
    let mut deleted = 0;
    for call in swept(reference.calls) {
        let faulty = Faulty::new(call, Fault::Full);
        let (Ok((clock, store)), place) = (&faulty.opened, &faulty.place) else { continue };
        let played = play(store, clock, 0, &reference.answers);
        let had = wait(shown(store)).unwrap();
        let kept = reserve(&faulty.disk) > 0;
        if played.open.is_empty() || !had.contains("Thread { id: \"a\"") {
            continue;
        }
        let delete = Call::Delete(thread("a"), ChildStrategy::Detach);
        let answer = wait(delete.make(store, "default"));
        if let Err(error) = &answer {
            assert!(!kept && error.kind() == ErrorKind::StorageFull, "{place}: {error}");
            continue;
        }
        wait(Call::Purge.make(store, "default")).unwrap_or_else(|error| panic!("{place}: {error}"));
        deleted += 1;
        let left = wait(shown(store)).unwrap();
        assert_ne!(left, had, "{place}");
        let (_, cut) = open(&faulty.disk.after_crash(Survivors::Synced)).unwrap();
        assert_eq!(wait(shown(&cut)).unwrap(), left, "{place}");
        let anew = Call::Commit(Box::new(saying("a", "anew", &["once more"]).expecting(Expect::Absent)));
        assert_eq!(wait(anew.make(store, "default")).unwrap_err().kind(), ErrorKind::StorageFull, "{place}");
        faulty.disk.set_full(false);
        wait(anew.make(store, "default")).unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    println!("{deleted} deletions on a full disk");
    assert!(deleted >= at_least(100), "{deleted}");
}

/// Shows FI-7: so does settling, while others find no space.
#[test]
fn settling_works_on_a_full_disk() {
    let disk = SimDisk::new();
    let (_, store) = open(&disk).unwrap();
    let call = |call: Call| wait(call.make(&store, "default")).unwrap_or_else(|error| panic!("{call:?}: {error}"));
    let work = |work| call(Call::Work(Box::new(work)));
    let (ids, mail) = (["d-1", "d-2", "d-3"], "mail".parse().unwrap());
    for id in ids {
        let dispatch = NewDispatch::new(thread(id), "r".parse().unwrap()).with_id(id.parse().unwrap());
        work(Work::Enqueue(vec![dispatch]));
        work(Work::Claim(ClaimRequest::new("w".parse().unwrap(), Duration::from_secs(600))));
    }
    let row = NewOutboxRow::new(mail, "ada".parse().unwrap(), Json::of("text").unwrap());
    call(Call::Commit(Box::new(saying("a", "k", &["x"]).with_outbox([row]))));
    call(Call::Claim(1));
    disk.set_full(true);
    let refused = Call::Commit(Box::new(saying("a", "full", &["x"])));
    assert_eq!(wait(refused.make(&store, "default")).unwrap_err().kind(), ErrorKind::StorageFull);
    let dead = Settlement::DeadLetter { error: "never".to_owned() };
    let ends = [Settlement::Ack { result: None }, Settlement::Release, dead];
    for (id, end) in ids.into_iter().zip(ends) {
        work(Work::Under(id.parse().unwrap(), Under::Settle(end)));
    }
    let settled = call(Call::Settle(OutboxSettlement::Delivered));
    assert!(settled.contains("Delivered"), "{settled}");
    let shows = wait(shown(&store)).unwrap();
    let (_, cut) = open(&disk.after_crash(Survivors::Synced)).unwrap();
    assert_eq!(wait(shown(&cut)).unwrap(), shows);
}

/// Shows FI-7: the reserve also lets a root be opened where even setting a torn tail aside needs space.
#[test]
fn a_root_on_a_full_disk_can_be_opened() {
    let disk = SimDisk::new();
    let (_, store) = open(&disk).unwrap();
    wait(Call::Commit(Box::new(saying("a", "k", &["x"]))).make(&store, "default")).unwrap();
    let had = wait(shown(&store)).unwrap();
    wait(store.close()).unwrap();
    let mut path = FilePath::new("tenants").unwrap();
    for _ in 0..2 {
        path = path.join(&disk.list(&path).unwrap()[0].name).unwrap();
    }
    let log = disk.open(&path, Open::Write).unwrap();
    log.write_at(b"{\"t\":", log.len().unwrap()).unwrap();
    disk.set_full(true);
    let (_, store) = open(&disk).unwrap();
    assert_eq!(store.opening().set_aside.len(), 1);
    assert_eq!(wait(shown(&store)).unwrap(), had);
}
