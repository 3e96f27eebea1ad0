//! Cases about config and its feed (promises CF of the contract).

mod feed;
pub(crate) mod helpers;
mod write;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! config {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] config
            write: a_record_is_loaded_as_it_was_put ["CF-1"] [];
            write: records_are_listed_by_id_in_pages ["CF-1", "PG-1"] [];
            write: namespaces_are_listed_once_in_order ["CF-10"] [];
            write: a_deleted_record_is_gone ["CF-1"] [];
            write: a_seed_keeps_what_users_changed ["CF-8"] [];
            write: overrides_are_merged_into_the_value ["CF-8"] [];
            write: only_an_existing_record_is_overridden_or_hidden ["CF-8"] [];
            write: revisions_grow_across_deletion_and_put ["CF-2"] [];
            write: an_expectation_that_does_not_hold_changes_nothing ["CF-3"] [];
            write: one_of_several_writers_with_one_revision_succeeds ["CF-3"] [Race];
            write: a_delete_and_a_put_with_one_revision_exclude_each_other ["CF-3"] [Race];
            write: writers_without_expectations_all_succeed ["CF-3", "CF-5"] [Race];
            write: several_records_change_together ["CF-4"] [];
            write: a_call_names_a_record_once ["CF-4"] [];
            feed: every_change_has_one_entry ["CF-5"] [];
            feed: a_change_that_changes_nothing_has_no_entry ["CF-5"] [];
            feed: the_revision_of_a_record_is_its_number_in_the_feed ["CF-2", "CF-5"] [];
            feed: a_subscription_continues_after_a_position ["CF-6"] [];
            feed: a_snapshot_and_its_subscription_miss_nothing ["CF-6"] [Race];
            feed: a_watch_gives_what_is_present_and_every_change ["CF-9"] [];
            feed: a_watch_has_one_namespace ["CF-9"] [];
            feed: config_and_its_feed_survive_a_reopen ["CF-2", "CF-6", "AU-2"] [Reopen];
            feed: old_entries_are_trimmed_and_records_stay ["CF-7"] [Time];
            feed: a_position_before_the_floor_is_refused ["CF-7"] [Time];
        }
    };
}

config!(case_slice);
