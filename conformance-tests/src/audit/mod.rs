//! Cases about the audit log (promises AU of the contract).

mod helpers;
mod list;
mod purge;
mod restore;
mod write;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! audit {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] audit
            write: a_change_and_its_record_are_written_together ["AU-1"] [];
            write: a_refused_change_has_no_record ["AU-1"] [];
            write: a_change_that_changes_nothing_has_no_record ["AU-1"] [];
            write: the_action_follows_from_the_change ["AU-1"] [];
            write: a_record_can_be_written_alone ["AU-1"] [];
            write: values_of_secret_keys_are_not_stored ["AU-4"] [];
            write: changes_of_a_profile_and_their_records_are_written_together ["AU-1", "AU-4"] [];
            write: a_refused_writer_of_a_profile_has_no_record ["AU-1"] [Race];
            write: publications_and_their_records_are_written_together ["AU-1"] [];
            write: a_refused_publication_has_no_record ["AU-1"] [Race];
            list: records_are_listed_newest_first_in_pages ["AU-3", "PG-1"] [];
            list: records_of_an_actor_are_listed ["AU-3"] [];
            list: records_of_actors_with_a_prefix_are_listed ["AU-3"] [];
            list: records_of_a_resource_are_listed ["AU-3"] [];
            list: records_below_a_folder_are_listed ["AU-3"] [];
            list: records_below_a_deep_folder_are_listed ["AU-3"] [];
            list: records_of_actions_are_listed ["AU-3"] [];
            list: records_of_a_time_are_listed ["AU-3"] [Time];
            list: all_filters_must_hold ["AU-3", "PG-9"] [];
            list: a_cursor_belongs_to_one_order ["AU-3", "PG-6"] [];
            list: a_subscription_gives_old_and_new_records ["AU-3"] [];
            purge: old_records_are_purged_from_every_order ["AU-5"] [Time];
            purge: a_dry_run_counts_old_records ["AU-5"] [Time];
            restore: the_value_after_a_change_is_restored ["AU-6"] [];
            restore: the_value_before_a_deletion_is_restored ["AU-6"] [];
            restore: a_restoration_can_expect_a_revision ["AU-6", "CF-3"] [];
            restore: a_value_of_a_profile_is_restored ["AU-6"] [];
            restore: a_version_is_restored ["AU-6"] [];
            restore: what_has_no_value_of_the_record_is_not_restored ["AU-6"] [];
        }
    };
}

audit!(case_slice);
