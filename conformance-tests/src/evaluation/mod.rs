//! Cases about evaluation runs (promises TR-4 to TR-6 of the contract), which core implements over documents.

mod compare;
mod create;
pub(crate) mod helpers;
mod missing;
mod result;
mod retention;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! evaluation {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] evaluation
            create: an_evaluation_is_loaded_as_it_was_created ["TR-4"] [];
            create: an_evaluation_goes_on_under_its_id ["TR-4"] [];
            create: an_id_belongs_to_one_evaluation ["TR-4"] [];
            create: what_an_evaluation_names_must_exist ["TR-4"] [];
            create: an_evaluation_keeps_its_dataset_version ["TR-3", "TR-4"] [];
            create: an_evaluation_is_completed_with_all_results ["TR-4"] [];
            create: an_evaluation_ends_once ["TR-4"] [];
            create: an_ended_evaluation_takes_no_results ["TR-4"] [];
            result: a_result_is_loaded_as_it_was_recorded ["TR-4"] [];
            result: an_identical_repeat_changes_nothing ["TR-4"] [];
            result: another_result_is_refused ["TR-4"] [];
            result: one_of_several_results_is_recorded ["TR-4"] [Race];
            result: a_result_belongs_to_a_case_cell_and_sample ["TR-4"] [];
            missing: missing_results_are_listed_in_order ["TR-4"] [];
            missing: a_walk_of_missing_results_goes_on ["TR-4"] [];
            missing: an_interrupted_evaluation_goes_on ["TR-4"] [Reopen];
            missing: a_cursor_belongs_to_one_evaluation ["TR-4", "PG-6"] [];
            compare: a_summary_counts_results ["TR-4"] [];
            compare: two_evaluations_are_compared ["TR-5"] [];
            compare: a_comparison_spans_dataset_versions ["TR-5"] [];
            compare: a_comparison_is_read_in_pages ["TR-5", "PG-6"] [];
            retention: old_evaluations_are_removed ["TR-6"] [Time];
            retention: the_newest_evaluations_of_a_dataset_stay ["TR-6"] [];
            retention: pinned_and_running_evaluations_stay ["TR-6"] [];
            retention: a_dry_purge_removes_no_evaluation ["TR-6"] [];
            retention: a_purge_of_evaluations_goes_on_where_it_stopped ["TR-6"] [];
            retention: a_removed_evaluation_leaves_nothing ["TR-6"] [];
            retention: what_an_evaluation_refers_to_stays ["TR-6"] [Threads];
        }
    };
}

evaluation!(case_slice);
