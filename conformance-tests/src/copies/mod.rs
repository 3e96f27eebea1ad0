//! Tests of copies from one store to another (promises VF of the contract).
//!
//! [`copies!`](crate::copies) defines them for a backend, and [`mailbox_copies!`](crate::mailbox_copies) for one that
//! keeps mailboxes only. [`CopyingFixture`] copies a store each time that it is opened again, so that the model and the
//! cases that open a store again test the copy: every answer must be that of the store that was copied.

mod bugs;
mod checks;
mod fixture;
mod mailbox_checks;
mod random_store;

use std::{fmt::Debug, future::Future, sync::Arc};

use tokio::runtime::Builder;

pub use self::{
    bugs::{BuggyCopies, CopyBug},
    checks::{
        a_copy_has_every_record, a_copy_has_what_was_given, a_cursor_of_the_source_is_refused,
        a_dry_run_writes_nothing, a_stopped_copy_continues, a_target_with_other_data_is_refused,
        changed_records_are_found, what_has_no_place_is_reported_first,
    },
    fixture::CopyingFixture,
    mailbox_checks::{
        a_copied_mailbox_has_every_record, a_hold_keeps_writers_away, a_stopped_copy_of_a_mailbox_is_repeated,
        records_without_a_place_are_refused, work_goes_on_in_a_copied_mailbox,
    },
    random_store::RandomStore,
};
use crate::{Fixture, Verdict};

/// Runs a check of copies as a test.
///
/// # Panics
/// If the check fails, because a test fails by panicking.
#[doc(hidden)]
pub fn run_as_test<F, C>(fixture: impl Fixture, check: C)
where
    C: FnOnce(Arc<dyn Fixture>) -> F,
    F: Future<Output = Verdict>,
{
    run(fixture, check).expect("the check passes");
}

/// Runs a check of copies on stores of a fixture.
///
/// # Errors
/// The failure of the check.
///
/// # Panics
/// If no runtime can be started.
pub fn run<F, C>(fixture: impl Fixture, check: C) -> Result<(), impl Debug>
where
    C: FnOnce(Arc<dyn Fixture>) -> F,
    F: Future<Output = Verdict>,
{
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let verdict = runtime.block_on(check(Arc::new(fixture)));
    runtime.shutdown_background();
    verdict
}

/// Defines a test for each check of copies. `$fixture` is an expression that makes a fixture. Its path must begin with
/// `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! copies {
    (@tests $fixture:expr; $($check:ident)*) => {$(
        #[test]
        fn $check() {
            $crate::copies::run_as_test($fixture, $crate::copies::$check);
        }
    )*};
    ($fixture:expr) => {
        mod copies {
            $crate::copies! { @tests $fixture;
                a_copy_has_every_record a_copy_has_what_was_given a_stopped_copy_continues
                a_target_with_other_data_is_refused changed_records_are_found a_cursor_of_the_source_is_refused
                a_dry_run_writes_nothing what_has_no_place_is_reported_first
            }
            $crate::mailbox_copies! { @tests $fixture }
        }
    };
}

/// Defines a test for each check of copies of mailboxes, as [`copies!`](crate::copies) does: for stores that keep
/// mailboxes only.
#[macro_export]
macro_rules! mailbox_copies {
    (@tests $fixture:expr) => {
        $crate::copies! { @tests $fixture;
            a_copied_mailbox_has_every_record work_goes_on_in_a_copied_mailbox
            records_without_a_place_are_refused a_hold_keeps_writers_away
        }
    };
    ($fixture:expr) => {
        mod copies {
            $crate::mailbox_copies! { @tests $fixture }
            $crate::copies! { @tests $fixture; a_stopped_copy_of_a_mailbox_is_repeated }
        }
    };
}
