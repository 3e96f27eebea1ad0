//! The tests of histories fail on broken stores, and pass on the model.

use std::fmt::Display;

use conformance_tests::{
    Failure,
    history::{
        AbandonedWork, CommitAtomicity, EventOrder, GuardedCommits, JumpingClock, LeaseEdges, LongLists, RacingClaims,
        StaleHolders, run,
    },
    model::{Bug, ModelFixture},
};
use tokio::runtime::Builder;

/// The histories are short, because the model searches all of its data in each call.
const COMMITS: GuardedCommits =
    GuardedCommits { operations: 3_000, tasks: 16, threads: 2, unknown_once_in: 66, seed: 1, saves_history: false };
const EVENTS: EventOrder = EventOrder { events: 1_500, writers: 8, threads: 2, seed: 1 };

const CLAIMS: RacingClaims = RacingClaims { dispatches: 400, threads: 40, consumers: 16, seed: 1 };
const HOLDERS: StaleHolders = StaleHolders { rounds: 10 };
const LISTS: LongLists = LongLists { events: 1_200, threads: 300 };
const EDGES: LeaseEdges = LeaseEdges { rounds: 60 };
const JUMPS: JumpingClock = JumpingClock { dispatches: 200, threads: 20, workers: 16 };
const ABANDONED_WORK: AbandonedWork = AbandonedWork { dispatches: 200, threads: 20, workers: 8, seed: 1 };
const ATOMICITY: CommitAtomicity = CommitAtomicity { commits: 200, threads: 2, readers: 4, seed: 1 };

#[test]
fn histories_of_the_model_pass() {
    println!("{}", run(COMMITS.run(crate::fixture())));
    println!("{}", run(EVENTS.run(crate::fixture())));
    println!("{}", run(CLAIMS.run(crate::fixture())));
    println!("{}", run(HOLDERS.run(crate::fixture())));
    println!("{}", run(LISTS.run(crate::fixture())));
    println!("{}", run(EDGES.run(crate::fixture())));
    println!("{}", run(JUMPS.run(crate::fixture())));
    println!("{}", run(ABANDONED_WORK.run(crate::fixture())));
    println!("{}", run(ATOMICITY.run(crate::fixture())));
}

/// Bugs of claims are visible in which worker holds which dispatch.
#[test]
fn histories_of_claims_find_broken_stores() {
    expect_rejected(Bug::BusyThreadsGiveMore, |store| CLAIMS.run(store));
    for bug in [Bug::TokenUnchecked, Bug::ClaimUnchecked] {
        expect_rejected(bug, |store| HOLDERS.run(store));
    }
}

/// Bugs of leases are visible at the ends of leases, when the clock jumps, and when holders abandon their work.
#[test]
fn histories_of_leases_find_broken_stores() {
    for bug in [Bug::TokenUnchecked, Bug::LeaseJudgedEarly] {
        expect_rejected(bug, |store| EDGES.run(store));
    }
    expect_rejected(Bug::SettledFirst, |store| JUMPS.run(store));
    expect_rejected(Bug::BusyThreadsGiveMore, |store| ABANDONED_WORK.run(store));
}

/// A commit that takes effect in two steps is visible to a reader that reads its parts one after the other.
#[test]
fn histories_of_atomicity_find_broken_stores() {
    expect_rejected(Bug::SettledFirst, |store| ATOMICITY.run(store));
}

/// Bugs of commits are visible in the history of the commits.
#[test]
fn histories_of_commits_find_broken_stores() {
    for bug in [
        Bug::VersionOffByOne,
        Bug::AckWithoutWriting,
        Bug::GuardOutsideTheLock,
        Bug::KeyIgnored,
        Bug::RefusedButApplied,
        Bug::RefusedKeyStays,
        Bug::StaleRead,
    ] {
        expect_rejected(bug, |store| COMMITS.run(store));
    }
}

/// Bugs in the order of events are visible in the events that readers receive.
#[test]
fn histories_of_events_find_broken_stores() {
    for bug in [Bug::EventsSeenLater, Bug::SubscriberSkips, Bug::NowIsEarlier] {
        expect_rejected(bug, |store| EVENTS.run(store));
    }
}

/// Bugs of long lists are visible in records that the lists leave out or return twice.
#[test]
fn long_lists_find_broken_stores() {
    for bug in [Bug::SubscriberSkips, Bug::CursorSkipsTies, Bug::CursorRepeats] {
        expect_rejected(bug, |store| LISTS.run(store));
    }
}

/// Checks that the test of a history fails on a store with this bug. The test is repeated: its tasks run in a random
/// order, and a single history of this length can miss the bug.
fn expect_rejected<T: Display, H: Future<Output = Result<T, Failure>>>(bug: Bug, history: impl Fn(ModelFixture) -> H) {
    const HISTORIES: u32 = 20;
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for _ in 0..HISTORIES {
        match runtime.block_on(history(ModelFixture::broken(bug))) {
            Err(failure) => return println!("{bug:?}: {}", failure.to_string().lines().next().unwrap_or_default()),
            Ok(figures) => println!("{bug:?} was not found: {figures}"),
        }
    }
    panic!("{bug:?} was not found by {HISTORIES} histories");
}
