//! Cases about threads (promises TH of the contract).

mod after_deletion;
mod create;
mod delete;
mod dropped_calls;
mod limits;
mod list;
mod page;
mod parent;
pub(crate) mod prune;
mod update;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! thread {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] thread
            create: a_new_thread_is_loaded_as_it_was_created ["TH-1"] [];
            create: a_new_thread_survives_a_reopen ["TH-1", "PR-9"] [Reopen];
            create: an_id_in_use_is_refused ["TH-2"] [];
            create: one_of_several_concurrent_creations_succeeds ["TH-2"] [Race];
            create: loading_an_unknown_thread_returns_none ["TH-3"] [];
            create: a_creation_time_can_be_given ["TH-29"] [];
            update: an_update_keeps_fields_that_it_does_not_name ["TH-4"] [];
            update: metadata_is_patched_key_by_key ["TH-4"] [];
            update: an_update_without_effect_keeps_the_revision ["TH-5"] [];
            update: an_update_renews_the_time ["TH-5", "PR-5"] [Time];
            update: an_update_can_state_its_time ["TH-29"] [];
            update: a_stale_update_is_refused ["TH-6"] [];
            update: one_of_several_concurrent_guarded_updates_succeeds ["TH-6"] [Race];
            update: unguarded_updates_of_different_keys_all_take_effect ["TH-7"] [Race];
            update: an_update_of_an_unknown_thread_is_refused ["TH-8"] [];
            update: updates_and_commits_do_not_affect_each_others_guards ["TH-9"] [];
            update: concurrent_updates_and_commits_all_take_effect ["TH-9"] [Race];
            parent: a_parent_must_exist ["TH-10"] [];
            parent: a_commit_to_an_existing_thread_ignores_the_given_parent ["TH-10"] [];
            parent: a_thread_is_never_its_own_ancestor ["TH-11"] [];
            parent: two_concurrent_updates_create_no_cycle ["TH-11"] [Race];
            parent: three_concurrent_updates_create_no_cycle ["TH-11"] [Race];
            parent: a_child_created_during_a_deletion_is_never_orphaned ["TH-12"] [Race];
            parent: a_detached_child_is_not_deleted_with_its_parent ["TH-19"] [Race];
            parent: validate_parent_answers_as_an_update_would ["TH-30"] [];
            parent: children_are_listed_without_grandchildren ["TH-13", "TH-31"] [];
            list: threads_are_filtered_by_resource_and_creation ["TH-14", "TH-31", "PG-9"] [];
            list: threads_are_filtered_by_metadata ["TH-14", "TH-31", "PG-9"] [];
            list: threads_are_filtered_by_open_runs ["TH-14", "TH-31"] [];
            list: threads_are_filtered_by_activity ["TH-14", "TH-31"] [];
            list: threads_are_ordered_by_activity_or_creation ["TH-15", "TH-29"] [];
            list: a_commit_moves_its_thread_to_the_front ["TH-16"] [Time];
            list: activity_never_goes_back ["TH-16", "PR-5", "PR-22"] [Time];
            delete: reject_refuses_a_thread_with_children ["TH-17"] [];
            delete: detach_leaves_children_without_a_parent ["TH-18"] [];
            delete: cascade_deletes_all_descendants ["TH-19"] [];
            delete: a_deletion_of_too_many_threads_is_refused ["TH-19", "ER-9"] [Limits];
            delete: a_deletion_becomes_visible_atomically ["TH-20", "PR-13"] [Race];
            delete: purging_leaves_nothing_behind ["TH-20"] [];
            delete: a_deletion_removes_everything_of_the_thread ["TH-21", "TH-24"] [];
            delete: a_deletion_can_be_guarded ["TH-22"] [];
            after_deletion: a_late_write_does_not_restore_a_deleted_thread ["TH-23"] [];
            after_deletion: a_deleted_thread_stays_deleted_after_a_reopen ["TH-23", "TH-24"] [Reopen];
            after_deletion: a_write_racing_with_a_deletion_does_not_restore_the_thread ["TH-23"] [Race];
            after_deletion: a_recreated_thread_is_a_different_thread ["TH-24"] [];
            after_deletion: a_deletion_while_the_clock_is_behind_is_remembered ["TH-25", "PR-22"] [Time];
            after_deletion: deleted_ids_are_remembered_for_thirty_days ["TH-25"] [Time];
            prune: idle_threads_are_pruned ["TH-26", "TH-23"] [Time];
            prune: a_fence_reset_does_not_count_as_a_write ["TH-26", "CM-42"] [Time];
            prune: threads_with_open_runs_are_not_pruned ["TH-26"] [Time];
            prune: threads_whose_children_stay_are_not_pruned ["TH-26"] [Time];
            prune: a_dry_run_gives_the_same_list ["TH-26"] [Time];
            prune: a_thread_written_meanwhile_is_not_pruned ["TH-27"] [Time, Race];
            prune: an_import_counts_as_a_write ["TH-26"] [];
            prune: an_import_does_not_protect_idle_threads ["TH-26"] [Time];
            prune: at_most_limit_threads_are_pruned ["TH-28"] [Time];
            page: a_walk_with_deletions_between_pages_skips_nothing ["PG-3"] [];
            page: a_walk_by_activity_gives_each_thread_once ["PG-5"] [];
            page: an_ascending_walk_by_activity_ends ["PG-5"] [];
            page: filters_apply_before_the_limit ["PG-10", "TH-14"] [Time];
            page: rare_entries_are_found_among_thousands ["PG-10"] [];
            page: an_empty_filter_list_matches_nothing ["PG-9"] [];
            page: a_cursor_is_bound_to_its_filters ["PG-6"] [];
            page: a_walk_continues_after_long_names ["PG-6"] [];
            limits: a_title_has_at_most_a_kibibyte ["ER-9"] [];
            limits: metadata_has_at_most_64_kibibytes ["ER-9"] [];
            limits: smaller_limits_are_enforced_in_the_same_way ["ER-9", "ER-10"] [Limits];
            dropped_calls: a_dropped_read_leaves_nothing_locked ["PR-11", "PR-12"] [Race];
            dropped_calls: a_dropped_write_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: an_unknown_outcome_of_a_write_can_be_resolved ["PR-20", "CM-17"] [];
        }
    };
}

thread!(case_slice);
