//! The tests of histories fail on broken stores, and pass on the model.

use std::fmt::Display;

use conformance_tests::{
    Failure,
    history::{
        AbandonedWork, CommitAtomicity, EventOrder, GuardedCommits, JumpingClock, LeaseExpiryRaces, LongLists,
        RacingClaims, StaleHolders, run,
    },
    model::{Bug, ModelFixture},
};
use tokio::runtime::Builder;

/// The histories are short, because the model searches all of its data in each call.
const GUARDED_COMMITS: GuardedCommits = GuardedCommits {
    operations: 3_000,
    tasks: 16,
    threads: 2,
    commits_per_unknown_outcome: 66,
    seed: 1,
    saves_history: false,
};
const EVENT_ORDER: EventOrder = EventOrder { events: 1_500, writers: 8, threads: 2, seed: 1 };

const RACING_CLAIMS: RacingClaims = RacingClaims { dispatches: 400, threads: 40, workers: 16, seed: 1 };
const STALE_HOLDERS: StaleHolders = StaleHolders { rounds: 10 };
const LONG_LISTS: LongLists = LongLists { events: 1_200, threads: 300 };
const LEASE_EXPIRY_RACES: LeaseExpiryRaces = LeaseExpiryRaces { rounds: 60 };
const JUMPING_CLOCK: JumpingClock = JumpingClock { dispatches: 200, threads: 20, workers: 16 };
const ABANDONED_WORK: AbandonedWork = AbandonedWork { dispatches: 200, threads: 20, workers: 8, seed: 1 };
const COMMIT_ATOMICITY: CommitAtomicity = CommitAtomicity { commits: 200, threads: 2, readers: 4, seed: 1 };

#[test]
fn histories_of_the_model_pass() {
    println!("{}", run(GUARDED_COMMITS.run(crate::fixture())));
    println!("{}", run(EVENT_ORDER.run(crate::fixture())));
    println!("{}", run(RACING_CLAIMS.run(crate::fixture())));
    println!("{}", run(STALE_HOLDERS.run(crate::fixture())));
    println!("{}", run(LONG_LISTS.run(crate::fixture())));
    println!("{}", run(LEASE_EXPIRY_RACES.run(crate::fixture())));
    println!("{}", run(JUMPING_CLOCK.run(crate::fixture())));
    println!("{}", run(ABANDONED_WORK.run(crate::fixture())));
    println!("{}", run(COMMIT_ATOMICITY.run(crate::fixture())));
}

/// Bugs of claims are visible in histories that record which worker holds which dispatch.
#[test]
fn histories_of_claims_find_broken_stores() {
    expect_rejected(Bug::BusyThreadClaimed, |store| RACING_CLAIMS.run(store));
    for bug in [Bug::TokenUnchecked, Bug::FenceOfLostClaimAccepted] {
        expect_rejected(bug, |store| STALE_HOLDERS.run(store));
    }
}

/// Bugs of leases are visible at the ends of leases, when the clock jumps, and when holders abandon their work.
#[test]
fn histories_of_leases_find_broken_stores() {
    for bug in [Bug::TokenUnchecked, Bug::LeaseExpiresEarly] {
        expect_rejected(bug, |store| LEASE_EXPIRY_RACES.run(store));
    }
    expect_rejected(Bug::CommitSettlesInOwnStep, |store| JUMPING_CLOCK.run(store));
    expect_rejected(Bug::BusyThreadClaimed, |store| ABANDONED_WORK.run(store));
}

/// If a commit takes effect in two steps, a reader that reads its parts one by one can see some of them and miss the
/// others.
#[test]
fn histories_of_atomicity_find_broken_stores() {
    expect_rejected(Bug::CommitSettlesInOwnStep, |store| COMMIT_ATOMICITY.run(store));
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
        expect_rejected(bug, |store| GUARDED_COMMITS.run(store));
    }
}

/// Bugs in the order of events are visible in the events that readers receive.
#[test]
fn histories_of_events_find_broken_stores() {
    for bug in [Bug::EventsVisibleLate, Bug::SubscriberSkips, Bug::NowStartsAtLastEvent] {
        expect_rejected(bug, |store| EVENT_ORDER.run(store));
    }
}

/// Bugs of long lists are visible in records that the lists leave out or return twice.
#[test]
fn long_lists_find_broken_stores() {
    for bug in [Bug::SubscriberSkips, Bug::CursorSkipsTies, Bug::CursorRepeats] {
        expect_rejected(bug, |store| LONG_LISTS.run(store));
    }
}

/// Checks that the test of a history fails on a store with this bug. The test is repeated: its tasks run in a random
/// order, and a single history of this length can miss the bug.
fn expect_rejected<T: Display, H: Future<Output = Result<T, Failure>>>(
    bug: Bug,
    run_history: impl Fn(ModelFixture) -> H,
) {
    const MAX_HISTORIES: u32 = 20;
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for _ in 0..MAX_HISTORIES {
        match runtime.block_on(run_history(ModelFixture::with_bug(bug))) {
            Err(failure) => return println!("{bug:?}: {}", failure.to_string().lines().next().unwrap_or_default()),
            Ok(summary) => println!("{bug:?} was not found: {summary}"),
        }
    }
    panic!("{bug:?} was not found by {MAX_HISTORIES} histories");
}
