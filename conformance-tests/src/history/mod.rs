//! Histories of many concurrent calls, the tests that record them, and the checks of these histories.
//!
//! - [`Recorder`], [`Operation`]: record when each call was made, when it returned, and its answer
//! - [`Spec`], [`check()`]: describe what an object does when its operations are executed one after another, and
//!   decide whether a history of the object is linearizable; [`Registers`] and [`GuardedLogs`] are such descriptions
//! - [`GuardedCommits`]: checks the history of the commits of a store; [`FaultyCoordinator`] makes outcomes unknown
//! - [`RacingClaims`], [`StaleHolders`], [`LeaseExpiryRaces`]: check which worker holds a dispatch, and which holder
//!   may still write
//! - [`CommitAtomicity`]: readers read the parts of a thread one after another, and must never see only a part of a
//!   commit
//! - [`AbandonedWork`], [`JumpingClock`]: check that every dispatch finishes although workers abandon dispatches, or
//!   although the store's clock jumps
//! - [`LongLists`]: checks lists and subscriptions of many pages
//! - [`OversizedArguments`], [`check_text_sizes`]: check arguments at the limits and above them
//! - [`EventOrder`]: records which events readers and subscriptions receive; [`check_order`] checks their order

mod abandoned;
mod atomicity;
mod check;
mod claims;
mod commits;
mod event_order;
mod events;
mod faulty_coordinator;
mod guarded_logs;
mod long_lists;
mod oversized_arguments;
mod record;
mod register;

use std::future::Future;

use tokio::runtime::Builder;

use crate::check::Failure;

pub use self::{
    abandoned::{AbandonedFigures, AbandonedWork, JumpingClock, JumpingFigures},
    atomicity::{AtomicityFigures, CommitAtomicity},
    check::{CheckFigures, Spec, Violation, check},
    claims::{ClaimFigures, LeaseExpiryFigures, LeaseExpiryRaces, RacingClaims, StaleHolders},
    commits::{CommitFigures, GuardedCommits},
    event_order::{EventAct, EventAnswer, EventOp, check_order},
    events::{EventFigures, EventOrder},
    faulty_coordinator::FaultyCoordinator,
    guarded_logs::{GuardedLogs, LogAct, LogAnswer, LogOp},
    long_lists::{LongListFigures, LongLists},
    oversized_arguments::{OversizedArguments, RefusalFigures, check_text_sizes},
    record::{Invocation, Operation, Recorder, from_json_lines, to_json_lines},
    register::{RegisterAct, RegisterAnswer, RegisterOp, Registers},
};

/// Turns each history into a test of a backend.
///
/// The argument is an expression that makes a fixture. It must name functions by their path from the crate root, as in
/// `crate::fixture()`. The comment of each test begins with its id in docs/reliability.md, such as LC1. The `default`
/// of each history documents how large its test is, for example
/// [`GuardedCommits::default`](crate::history::GuardedCommits::default) and
/// [`EventOrder::default`](crate::history::EventOrder::default).
#[macro_export]
macro_rules! histories {
    ($fixture:expr) => {
        mod histories {
            /// LC1. Tests CM-3, CM-5, CM-10, CM-17, CM-35 and PR-10.
            #[test]
            fn guarded_commits_are_linearizable() {
                let test = $crate::history::GuardedCommits::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            /// LC5. Tests EV-3, EV-4, EV-13 to EV-17, EV-22 and PR-10.
            #[test]
            fn all_readers_see_the_same_order_of_events() {
                let test = $crate::history::EventOrder::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            /// MT4. Tests EV-3, EV-11, EV-14, PG-4 and PG-8.
            #[test]
            fn long_lists_return_every_record_once() {
                let test = $crate::history::LongLists::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            $crate::histories_of_mailboxes! { $fixture }

            /// LC4. Tests CM-1, CM-23, CM-33 and PR-10.
            #[test]
            fn no_reader_sees_part_of_a_commit() {
                let test = $crate::history::CommitAtomicity::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }
        }
    };
}

/// Turns each history that needs only a mailbox into a test. A backend without threads uses this macro instead of
/// [`histories!`](crate::histories).
#[macro_export]
macro_rules! mailbox_histories {
    ($fixture:expr) => {
        mod histories {
            $crate::histories_of_mailboxes! { $fixture }
        }
    };
}

/// Expands to the tests that need only a mailbox.
#[doc(hidden)]
#[macro_export]
macro_rules! histories_of_mailboxes {
    ($fixture:expr) => {
        /// LC2. Tests MB-18, MB-19, MB-25 and MB-46.
        #[test]
        fn work_has_one_holder_at_a_time() {
            let test = $crate::history::RacingClaims::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LK3. Tests MB-30, MB-31 and MB-34.
        #[test]
        fn at_the_end_of_a_lease_either_a_settlement_or_a_claim_succeeds() {
            let test = $crate::history::LeaseExpiryRaces::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LK2. Tests MB-18, MB-31, CM-33, PR-4 and PR-6.
        #[test]
        fn no_dispatch_ends_twice_when_the_clock_jumps() {
            let test = $crate::history::JumpingClock::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LC6. Tests MB-29, MB-36, MB-37, PR-11 and PR-12.
        #[test]
        fn other_workers_finish_abandoned_work() {
            let test = $crate::history::AbandonedWork::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LC3. Tests MB-33, MB-34, CM-31 and CM-33.
        #[test]
        fn stale_holders_write_nothing() {
            let test = $crate::history::StaleHolders::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }
    };
}

/// Runs the test of a history. The tests that [`histories!`](crate::histories) makes call it.
///
/// # Panics
/// If the test fails. The test harness counts a panic as a failure.
#[doc(hidden)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run<T>(test: impl Future<Output = Result<T, Failure>>) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    match runtime.block_on(test) {
        Ok(figures) => figures,
        Err(failure) => panic!("{failure}"),
    }
}
