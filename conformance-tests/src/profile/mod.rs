//! Cases about profiles and shared state (promises PF of the contract), which core implements over documents.

mod change;
pub(crate) mod helpers;
mod owner;
mod value;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! profile {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] profile
            value: a_value_is_loaded_as_it_was_put ["PF-1"] [];
            value: an_unknown_value_is_absent ["PF-1"] [];
            value: values_survive_a_reopen ["PF-1"] [Reopen];
            value: a_revision_can_be_expected ["PF-2"] [];
            value: the_absence_of_a_value_can_be_expected ["PF-2"] [];
            value: one_of_several_writers_with_one_expectation_succeeds ["PF-2"] [Race];
            value: a_deletion_checks_its_expectation ["PF-3"] [];
            value: a_deletion_may_be_repeated ["PF-3"] [];
            value: revisions_grow_across_deletion_and_put ["PF-7"] [];
            owner: a_profile_is_listed_by_key_in_pages ["PF-4"] [];
            owner: a_list_has_one_owner ["PF-4", "PF-6"] [];
            owner: owners_are_listed_once_in_order ["PF-8"] [];
            owner: clearing_removes_the_values_of_one_owner ["PF-4"] [];
            owner: owners_with_equal_ids_are_apart ["PF-6"] [];
            owner: keys_are_kept_as_given ["PF-6"] [];
            change: several_keys_change_together ["PF-5"] [];
            change: a_refused_write_changes_no_key ["PF-5"] [];
            change: a_write_names_a_key_once ["PF-5"] [];
            change: operations_follow_the_rules_of_the_state ["PF-5", "CM-39"] [];
            change: an_operation_checks_its_expectation ["PF-2"] [];
            change: concurrent_additions_all_count ["PF-5"] [Race];
        }
    };
}

profile!(case_slice);
