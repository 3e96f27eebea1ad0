//! Cases about runs (promises RU of the contract).

mod field;
pub(crate) mod helpers;
mod latest;
mod list;
mod transition;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! run {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] run
            transition: status_transitions_follow_the_table ["RU-3"] [];
            transition: a_done_run_never_changes ["RU-4"] [];
            transition: a_run_ends_once ["RU-4"] [Race];
            transition: times_are_set_once ["RU-7"] [Time];
            field: a_run_round_trips ["RU-1", "RU-15"] [];
            field: a_run_survives_a_reopen ["RU-1", "RU-15"] [Reopen];
            field: an_outcome_round_trips ["RU-1", "RU-2"] [];
            field: fixed_fields_never_change ["RU-5"] [];
            field: a_manifest_is_set_once ["RU-5"] [];
            field: counts_never_fall ["RU-5"] [];
            field: a_run_belongs_to_one_thread ["RU-6"] [];
            field: ranges_lie_inside_the_log ["RU-11"] [];
            field: run_state_changes_by_key ["RU-12"] [];
            field: a_parent_run_must_exist ["RU-13"] [];
            field: dispatches_are_only_added ["RU-1"] [];
            field: deleting_a_thread_deletes_its_runs ["RU-14"] [];
            field: a_long_error_text_is_cut ["ER-9", "ER-10"] [];
            latest: the_run_written_last_is_the_latest ["RU-8", "RU-9"] [];
            latest: times_do_not_decide_which_run_is_the_latest ["RU-9", "PR-5"] [Time];
            latest: concurrent_runs_all_appear ["RU-8"] [Race];
            list: runs_are_filtered ["RU-10", "RU-17"] [Time];
            list: a_changed_run_keeps_its_position ["RU-10", "RU-17"] [Time];
            list: runs_are_filtered_by_time ["RU-10", "RU-17"] [Time];
            list: runs_are_ordered_by_creation ["RU-10"] [];
        }
    };
}

run!(case_slice);
