//! Cases about opening, closing, time and durability (promises PR of the contract). The cases in the inner
//! braces of the list do not depend on the contract, and run only once, for threads. The others run for every contract.

mod capability;
mod close;
mod concurrency;
mod dropped_calls;
mod dropped_store_calls;
mod health;
mod identity;
mod inspect;
mod visibility;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! process {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] process
            capability: a_store_has_the_declared_capabilities ["PR-1"] [];
            capability: sync_succeeds_or_is_unsupported ["PR-19"] [];
            capability: handles_can_be_sent_and_cloned ["PR-7"] [];
            close: a_closed_store_refuses_every_call ["PR-8"] [];
            close: a_deleted_tenant_refuses_every_call ["TN-8"] [];
            close: writes_racing_with_close_succeed_or_are_refused ["PR-8", "PR-12"] [Race];
            close: closing_finishes_accepted_calls ["PR-8"] [Reopen, Race];
            close: dropping_the_last_handle_closes_the_store ["PR-8"] [Reopen];
            close: handles_keep_the_store_open ["PR-8"] [];
            close: opening_twice_returns_one_store_or_an_error ["PR-14"] [SecondOpening];
            identity: another_store_has_another_identity ["PR-23"] [];
            identity: each_opening_of_a_store_has_its_identity ["PR-23", "CP-3"] [SecondOpening];
            health: the_health_of_a_store_is_read ["CP-6"] [];
            health: the_health_shows_the_clock_of_the_store ["CP-6"] [Time];
            visibility: writes_are_read_back_through_every_handle ["PR-10"] [Race];
            visibility: acknowledged_data_survives_a_reopen ["PR-9", "CM-1"] [Reopen, Race];
            dropped_store_calls: a_dropped_call_on_a_store_leaves_nothing_locked ["PR-11", "PR-20", "TN-8"] [];
            dropped_store_calls: a_dropped_close_is_finished_by_the_next_one ["PR-8", "PR-11"] [];
            inspect: damage_never_causes_a_panic ["ER-8"] [Damage];
            {
                capability: times_come_from_the_clock_of_the_store ["PR-3", "EN-27"] [Threads, Time];
                capability: a_coordinator_returns_its_own_thread_store ["CM-2"] [Threads];
                visibility: a_read_of_several_records_shows_whole_commits ["PR-13", "CM-1"] [Threads, Race];
                visibility: calls_take_effect_in_their_order ["PR-16", "PR-5"] [Threads];
                dropped_calls: a_dropped_creation_is_all_or_nothing ["PR-11"] [Threads];
                dropped_calls: a_dropped_commit_is_all_or_nothing ["PR-11"] [Threads];
                dropped_calls: a_dropped_update_is_all_or_nothing ["PR-11"] [Threads];
                dropped_calls: a_dropped_deletion_is_all_or_nothing ["PR-11"] [Threads];
                dropped_calls: a_dropped_prune_is_all_or_nothing ["PR-11", "PR-16", "PR-17"] [Threads, Time];
                dropped_calls: a_dropped_commit_does_not_take_effect_late ["PR-16"] [Threads];
                dropped_calls: a_dropped_change_does_not_take_effect_late ["PR-16"] [Threads];
                dropped_calls: many_dropped_calls_leave_a_store_that_works ["PR-11", "PR-12"] [Threads, Race];
                concurrency: concurrent_calls_never_deadlock ["PR-12"] [Threads, Race];
                inspect: checks_of_an_undamaged_store_find_nothing_and_can_be_stopped ["PR-17"] [Threads];
                inspect: a_purge_can_be_stopped ["PR-17"] [Threads];
            }
        }
    };
}

process!(case_slice);
