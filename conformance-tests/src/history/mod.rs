//! Histories of many calls at once, and what checks them.
//!
//! - [`Recorder`], [`Operation`]: what was called when, and what it answered
//! - [`Spec`], [`check()`]: what an object does when calls come one after the other, and whether a history of it is
//!   linearizable; [`Registers`] and [`GuardedLogs`] are such objects
//! - [`GuardedCommits`]: a test of a store by the history of its commits; [`Faulty`] makes outcomes unknown
//! - [`RacingClaims`], [`StaleHolders`], [`LeaseEdges`]: tests of a store by who holds work, and who may still write
//! - [`WholeCommits`]: a test of a store by readers who look at one part of commits after the other
//! - [`ForsakenWork`], [`JumpingClock`]: tests of a store by workers who die, and by a clock that jumps
//! - [`LongLists`]: a test of a store by lists and subscriptions of many pages
//! - [`RefusedBounds`], [`default_sizes`]: tests of a store by arguments at its limits and above
//! - [`EventOrder`]: a test of a store by what readers and followers see of events; [`check_order`] judges it

mod bounds;
mod check;
mod claims;
mod commits;
mod events;
mod faulty;
mod forsaken;
mod log;
mod order;
mod record;
mod register;
mod streams;
mod whole;

use std::future::Future;

use tokio::runtime::Builder;

use crate::check::Failure;

pub use self::{
    bounds::{BoundFigures, RefusedBounds, default_sizes},
    check::{Checked, Spec, Violation, check},
    claims::{ClaimFigures, EdgeFigures, LeaseEdges, RacingClaims, StaleHolders},
    commits::{CommitFigures, GuardedCommits},
    events::{EventFigures, EventOrder},
    faulty::Faulty,
    forsaken::{ForsakenFigures, ForsakenWork, JumpingClock, JumpingFigures},
    log::{GuardedLogs, LogAct, LogAnswer, LogOp},
    order::{EventAct, EventAnswer, EventOp, check_order},
    record::{Invocation, Operation, Recorder, from_lines, to_lines},
    register::{RegisterAct, RegisterAnswer, RegisterOp, Registers},
    streams::{LongFigures, LongLists},
    whole::{WholeCommits, WholeFigures},
};

/// Histories of a backend, each as a test. The fixture is an expression that makes one, by a path from the root:
/// `crate::fixture()`. How much: [`GuardedCommits::default`](crate::history::GuardedCommits::default) and
/// [`EventOrder::default`](crate::history::EventOrder::default).
#[macro_export]
macro_rules! histories {
    ($fixture:expr) => {
        mod histories {
            /// LC1. Shows CM-3, CM-5, CM-10, CM-17, CM-35 and PR-10.
            #[test]
            fn guarded_commits_are_linearizable() {
                let test = $crate::history::GuardedCommits::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            /// LC5. Shows EV-3, EV-4, EV-13 to EV-17, EV-22 and PR-10.
            #[test]
            fn everybody_sees_one_order_of_events() {
                let test = $crate::history::EventOrder::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            /// MT4. Shows EV-3, EV-11, EV-14, PG-4 and PG-8.
            #[test]
            fn long_lists_have_everything_once() {
                let test = $crate::history::LongLists::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }

            $crate::histories_of_mailboxes! { $fixture }

            /// LC4. Shows CM-1, CM-23, CM-33 and PR-10.
            #[test]
            fn nobody_sees_half_a_commit() {
                let test = $crate::history::WholeCommits::default();
                println!("{}", $crate::history::run(test.run($fixture)));
            }
        }
    };
}

/// Those [`histories!`](crate::histories) that a backend with a mailbox and without threads can have.
#[macro_export]
macro_rules! mailbox_histories {
    ($fixture:expr) => {
        mod histories {
            $crate::histories_of_mailboxes! { $fixture }
        }
    };
}

/// Histories that need a mailbox only.
#[doc(hidden)]
#[macro_export]
macro_rules! histories_of_mailboxes {
    ($fixture:expr) => {
        /// LC2. Shows MB-18, MB-19, MB-25 and MB-46.
        #[test]
        fn work_has_one_holder_at_a_time() {
            let test = $crate::history::RacingClaims::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LK3. Shows MB-30, MB-31 and MB-34.
        #[test]
        fn the_end_of_a_lease_has_one_winner() {
            let test = $crate::history::LeaseEdges::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LK2. Shows MB-18, MB-31, CM-33, PR-4 and PR-6.
        #[test]
        fn a_clock_that_jumps_ends_nothing_twice() {
            let test = $crate::history::JumpingClock::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LC6. Shows MB-29, MB-36, MB-37, PR-11 and PR-12.
        #[test]
        fn work_of_bad_workers_is_done_by_others() {
            let test = $crate::history::ForsakenWork::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }

        /// LC3. Shows MB-33, MB-34, CM-31 and CM-33.
        #[test]
        fn stale_holders_write_nothing() {
            let test = $crate::history::StaleHolders::default();
            println!("{}", $crate::history::run(test.run($fixture)));
        }
    };
}

/// Runs a test of histories: what [`histories!`](crate::histories) expands to.
///
/// # Panics
/// If it fails; that is how a test fails.
#[doc(hidden)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run<T>(test: impl Future<Output = Result<T, Failure>>) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    match runtime.block_on(test) {
        Ok(figures) => figures,
        Err(failure) => panic!("{failure}"),
    }
}
