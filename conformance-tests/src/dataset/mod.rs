//! Cases about datasets (promises TR-2 and TR-3 of the contract), which core implements over documents.

mod change;
pub(crate) mod helpers;
mod read;
mod run;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! dataset {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] dataset
            change: a_case_is_loaded_as_it_was_added ["TR-3"] [];
            change: each_change_makes_the_next_version ["TR-3"] [];
            change: a_change_that_changes_nothing_makes_no_version ["TR-3"] [];
            change: a_change_can_expect_the_current_version ["TR-3"] [];
            change: one_of_several_changes_of_a_version_succeeds ["TR-3"] [Race];
            change: concurrent_changes_all_get_versions ["TR-3"] [Race];
            change: a_refused_change_changes_nothing ["TR-3"] [];
            change: a_removed_case_can_be_added_again ["TR-3"] [];
            change: only_what_changes_is_written ["TR-3"] [];
            read: a_version_never_changes ["TR-3"] [];
            read: a_walk_gives_the_cases_of_its_version ["TR-3"] [];
            read: datasets_are_listed_by_id_in_pages ["TR-3", "PG-1"] [];
            read: cases_of_datasets_are_apart ["TR-3"] [];
            read: a_cursor_belongs_to_one_list_of_cases ["TR-3", "PG-6"] [];
            read: datasets_survive_a_reopen ["TR-3"] [Reopen];
            run: a_case_is_made_from_a_run ["TR-2"] [Threads];
            run: a_case_stays_when_its_run_is_deleted ["TR-2"] [Threads];
        }
    };
}

dataset!(case_slice);
