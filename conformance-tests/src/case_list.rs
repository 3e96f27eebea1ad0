//! Which cases belong to which contract. Each case is registered once, in the list of its area.
//!
//! An area's `mod.rs` ends with its list: a macro that passes lines such as `file: case [ids] [needs];`
//! to another macro. One of these other macros defines the area's slice of cases. Another defines, in a backend's
//! crate, a test for each case.
//!
//! The cases of some areas run for every contract, with the records of that contract. Cases of these areas that need
//! threads would do the same for every contract, so they run only once, for [`Contract::ThreadRunStore`]. They are in
//! braces at the end of the area's list.

use crate::case::{Case, Contract};

/// Defines the cases of an area as two slices: `CASES` for every contract that has the area, and `THREAD_CASES` for the
/// cases in braces.
#[doc(hidden)]
#[macro_export]
macro_rules! case_slice {
    ([] $area:ident $($file:ident: $name:ident $ids:tt $needs:tt;)* $({$($thread_cases:tt)*})?) => {
        pub(crate) static CASES: &[$crate::Case] = $crate::case_slice! { @ $area $($file: $name $ids $needs;)* };
        $(pub(crate) static THREAD_CASES: &[$crate::Case] = $crate::case_slice! { @ $area $($thread_cases)* };)?
    };
    (@ $area:ident $($file:ident: $name:ident [$($id:literal),+] [$($need:ident),*];)*) => {
        &[$($crate::Case {
            name: concat!(stringify!($area), "::", stringify!($name)),
            ids: &[$($id),+],
            needs: &[$($crate::Need::$need),*],
            run: |given| Box::pin($file::$name(given)),
        }),*]
    };
}

/// Defines a test for each case of an area that runs for a contract.
#[doc(hidden)]
#[macro_export]
macro_rules! case_tests {
    ([ThreadRunStore $fixture:expr] $area:ident $($file:ident: $name:ident $ids:tt $needs:tt;)* {$($thread_cases:tt)*}) => {
        $crate::case_tests! { [ThreadRunStore $fixture] $area $($file: $name $ids $needs;)* $($thread_cases)* }
    };
    ([$contract:ident $fixture:expr] $area:ident $($file:ident: $name:ident $ids:tt $needs:tt;)* $({$($thread_cases:tt)*})?) => {
        mod $area {$(
            #[test]
            fn $name() {
                $crate::run_case_as_test(
                    $crate::Contract::$contract,
                    concat!(stringify!($area), "::", stringify!($name)),
                    $fixture,
                );
            }
        )*}
    };
}

/// Collects the slices of a contract's areas. For each area after the semicolon it also collects the cases in braces.
macro_rules! area_slices {
    ($($area:ident)*) => { vec![$(crate::$area::CASES),*] };
    ($($area:ident)*; $($with_thread_cases:ident)*) => {
        vec![$(crate::$area::CASES,)* $(crate::$with_thread_cases::CASES, crate::$with_thread_cases::THREAD_CASES),*]
    };
}

/// Defines the tests of a contract's areas.
#[doc(hidden)]
#[macro_export]
macro_rules! area_tests {
    ([$contract:ident $fixture:expr] $($area:ident)*) => {$( $crate::$area! { case_tests $contract $fixture } )*};
}

/// Runs every case of threads, logs, contexts and runs, and those that all contracts share, each as a test of
/// its own. `$fixture` is an expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! thread_run_store {
    ($fixture:expr) => {
        mod thread_run_store {
            $crate::area_tests! { [ThreadRunStore $fixture] thread log context run tenant page ids errors process }
        }
    };
}

/// Runs every case of commits, and those that all contracts share, each as a test of its own. `$fixture` is an
/// expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! commit_coordinator {
    ($fixture:expr) => {
        mod commit_coordinator {
            $crate::area_tests! { [CommitCoordinator $fixture] commit tenant page ids errors process }
        }
    };
}

/// Runs every case of pending input, and those that all contracts share, each as a test of its own. `$fixture`
/// is an expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! pending_store {
    ($fixture:expr) => {
        mod pending_store {
            $crate::area_tests! { [PendingStore $fixture] pending tenant page ids errors process }
        }
    };
}

/// Runs every case of events, and those that all contracts share, each as a test of its own. `$fixture` is an
/// expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! event_store {
    ($fixture:expr) => {
        mod event_store {
            $crate::area_tests! { [EventStore $fixture] event tenant page ids errors process }
        }
    };
}

/// Runs every case of the mailbox, and those that all contracts share, each as a test of its own. `$fixture` is
/// an expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! mailbox_store {
    ($fixture:expr) => {
        mod mailbox_store {
            $crate::area_tests! { [MailboxStore $fixture] mailbox tenant page ids errors process }
        }
    };
}

/// Runs every case of the outbox, and those that all contracts share, each as a test of its own. `$fixture` is
/// an expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! outbox_store {
    ($fixture:expr) => {
        mod outbox_store {
            $crate::area_tests! { [OutboxStore $fixture] outbox tenant page ids errors process }
        }
    };
}

/// Runs every case of the live channel and of wake-ups, each as a test of its own. If a store does not have one
/// of the two, its fixture declares this in [`Fixture::why_unmet`](crate::Fixture::why_unmet). `$fixture` is an
/// expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! live_channel {
    ($fixture:expr) => {
        mod live_channel {
            $crate::area_tests! { [LiveChannel $fixture] live }
        }
    };
}

/// Runs every case of documents and topics, those that all contracts share, and one for each atomic step that the
/// layers rely on, each as a test of its own. `$fixture` is an expression that makes a fixture. Its path must begin
/// with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! document_store {
    ($fixture:expr) => {
        mod document_store {
            $crate::area_tests! { [DocumentStore $fixture] document tenant page ids errors process }
        }
        mod layer_steps {
            $crate::step_tests! { $fixture;
                config: several_records_change_together writers_without_expectations_all_succeed
                    one_of_several_writers_with_one_revision_succeeds a_snapshot_and_its_subscription_miss_nothing
                    config_and_its_feed_survive_a_reopen a_position_before_the_floor_is_refused;
                profile: one_of_several_writers_with_one_expectation_succeeds several_keys_change_together
                    concurrent_additions_all_count keys_are_kept_as_given;
                registry: concurrent_contents_get_different_versions snapshot_numbers_have_no_gaps
                    a_refused_publication_changes_nothing no_run_loses_a_version_that_it_pins
                    publications_and_archivals_come_once_in_order the_registry_survives_a_reopen;
                audit: a_refused_change_has_no_record old_records_are_purged_from_every_order;
                replay: an_append_is_all_or_nothing bytes_are_returned_exactly concurrent_repeats_append_one_record
                    a_subscription_continues_after_a_cursor a_purge_removes_expired_records a_hole_is_corrupt
                    a_record_is_part_of_a_commit a_refused_commit_has_no_record an_append_can_carry_a_claim
                    a_record_about_a_deleted_thread_is_refused records_survive_a_reopen;
                stream_checkpoint: a_checkpoint_is_loaded_as_it_was_put the_highest_of_concurrent_puts_stays
                    a_commit_removes_the_checkpoint_that_it_names a_finished_run_has_no_checkpoint
                    checkpoints_are_deleted_with_their_thread a_checkpoint_can_carry_a_claim
                    checkpoints_survive_a_reopen;
                effect: one_of_several_callers_is_told_that_an_effect_is_new a_lower_claim_begins_no_effect
                    only_the_holder_of_a_claim_begins_an_effect a_commit_carries_the_outcome
                    a_refused_commit_leaves_an_effect_in_doubt effects_survive_a_reopen effects_go_with_their_thread
                    effects_that_have_not_ended_come_first old_effects_that_ended_are_removed;
                trace: spans_are_loaded_as_they_were_put concurrent_puts_are_all_stored spans_survive_a_reopen
                    a_committed_run_has_a_trace a_trace_has_what_its_run_wrote traces_are_listed_newest_first
                    traces_with_errors_are_listed traces_go_with_their_thread a_pin_and_a_purge_exclude_each_other
                    old_traces_are_purged scenarios_of_the_conventions_come_back_equal;
                dataset: each_change_makes_the_next_version one_of_several_changes_of_a_version_succeeds
                    concurrent_changes_all_get_versions a_refused_change_changes_nothing
                    a_walk_gives_the_cases_of_its_version datasets_survive_a_reopen
                    a_case_stays_when_its_run_is_deleted;
                evaluation: a_result_is_loaded_as_it_was_recorded one_of_several_results_is_recorded
                    an_ended_evaluation_takes_no_results a_walk_of_missing_results_goes_on
                    an_interrupted_evaluation_goes_on a_comparison_is_read_in_pages old_evaluations_are_removed
                    a_removed_evaluation_leaves_nothing;
                erasure: no_reader_sees_anything_of_an_erased_thread dispatches_are_erased
                    outbox_rows_are_erased_whatever_their_status events_of_the_thread_and_its_runs_are_erased
                    events_in_topics_lose_their_content replay_streams_of_the_thread_are_removed
                    records_made_from_erased_events_lose_their_bytes named_replay_streams_are_removed
                    layers_keep_no_entry_of_an_erased_thread audit_records_lose_their_values
                    profiles_of_the_thread_are_removed descendants_are_erased children_of_another_resource_stay
                    an_erasure_is_audited_without_content nothing_else_changes a_resource_is_erased_with_its_profile
                    a_dry_run_counts_what_is_erased an_erasure_can_be_repeated what_a_deletion_left_is_erased
                    a_stopped_erasure_goes_on an_erased_thread_stays_erased_after_a_reopen
                    space_is_reclaimed_beside_other_calls;
            }
        }
    };
}

/// Runs every case of objects, and of the blobs that core keeps in them, each as a test of its own. `$fixture` is an
/// expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! object_store {
    ($fixture:expr) => {
        mod object_store {
            $crate::area_tests! { [ObjectStore $fixture] object blob }
        }
    };
}

/// Runs every case of the layers, each as a test of its own. The layers are code of core, so one backend is enough.
/// `$fixture` is an expression that makes a fixture. Its path must begin with `crate`: `crate::fixture()`.
#[macro_export]
macro_rules! layers {
    ($fixture:expr) => {
        mod layers {
            $crate::area_tests! {
                [DocumentStore $fixture] config profile registry audit effect erasure replay stream_checkpoint trace
                dataset evaluation
            }
        }
    };
}

/// Defines a test for each named case of some areas.
#[doc(hidden)]
#[macro_export]
macro_rules! step_tests {
    ($fixture:expr; $($area:ident: $($name:ident)+;)+) => {$(
        mod $area {$(
            #[test]
            fn $name() {
                $crate::run_case_as_test(
                    $crate::Contract::DocumentStore,
                    concat!(stringify!($area), "::", stringify!($name)),
                    $fixture,
                );
            }
        )+}
    )+};
}

impl Contract {
    /// Every contract that has a list of cases.
    pub const ALL: &'static [Self] = &[
        Self::ThreadRunStore,
        Self::CommitCoordinator,
        Self::PendingStore,
        Self::EventStore,
        Self::MailboxStore,
        Self::OutboxStore,
        Self::LiveChannel,
        Self::DocumentStore,
        Self::ObjectStore,
    ];

    /// The cases in the list of the contract, area by area.
    pub(crate) fn cases(self) -> impl Iterator<Item = &'static Case> {
        let areas: Vec<&'static [Case]> = match self {
            Self::ThreadRunStore => area_slices!(thread log context run tenant page; ids errors process),
            Self::CommitCoordinator => area_slices!(commit tenant page ids errors process),
            Self::PendingStore => area_slices!(pending tenant page ids errors process),
            Self::EventStore => area_slices!(event tenant page ids errors process),
            Self::MailboxStore => area_slices!(mailbox tenant page ids errors process),
            Self::OutboxStore => area_slices!(outbox tenant page ids errors process),
            Self::LiveChannel => area_slices!(live),
            Self::DocumentStore => {
                area_slices!(
                    document config profile registry audit effect erasure replay stream_checkpoint trace dataset
                    evaluation tenant page ids errors process
                )
            }
            Self::ObjectStore => area_slices!(object blob),
        };
        areas.into_iter().flatten()
    }
}

/// The case `name` in the list of `contract`.
pub(crate) fn find_case(contract: Contract, name: &str) -> Option<&'static Case> {
    contract.cases().find(|case| case.name == name)
}

/// The cases of a contract's list, area by area.
pub fn cases_of(contract: Contract) -> impl Iterator<Item = &'static Case> {
    contract.cases()
}

/// Every case of the suite, sorted by name. A case that runs for several contracts is listed once.
#[must_use]
pub fn cases() -> Vec<&'static Case> {
    let mut all: Vec<_> = Contract::ALL.iter().flat_map(|contract| contract.cases()).collect();
    all.sort_by_key(|case| case.name);
    all.dedup_by_key(|case| case.name);
    all
}

/// Returns a text with a line for each case, such as `area::case: TH-1 TH-2`: the name of the case, and the ids of the
/// lines of the contract that it tests.
#[must_use]
pub fn promises_by_case() -> String {
    cases().iter().map(|case| format!("{}: {}\n", case.name, case.ids.join(" "))).collect()
}
