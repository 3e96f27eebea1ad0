//! Cases about commits (promises CM of the contract).

mod atomic;
mod claim;
mod dropped_calls;
mod fence;
mod guard;
mod helpers;
mod key;
mod limits;
mod order;
mod race;
mod receipt;
mod state;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! commit {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] commit
            atomic: every_part_of_a_commit_is_stored ["CM-1"] [];
            atomic: every_part_of_a_commit_survives_a_reopen ["CM-1"] [Reopen];
            atomic: no_part_of_a_refused_commit_is_stored ["CM-1", "CM-13"] [];
            atomic: no_part_of_a_refused_commit_appears_after_a_reopen ["CM-1", "CM-13", "ER-3"] [Reopen];
            atomic: a_refused_commit_creates_no_thread ["CM-1"] [];
            atomic: an_error_names_the_part_of_the_commit ["CM-19"] [];
            atomic: an_update_writes_no_entry_run_or_state ["CM-2", "TH-9"] [];
            dropped_calls: a_dropped_settling_commit_is_all_or_nothing ["PR-11", "PR-16", "CM-33"] [Fenced, Race];
            dropped_calls: an_unknown_outcome_of_a_settling_commit_can_be_resolved ["PR-20", "CM-17"] [Fenced];
            guard: a_guard_is_checked_against_the_version ["CM-3"] [];
            guard: version_zero_can_be_a_guard ["CM-3"] [];
            guard: the_guard_any_creates_a_thread_that_never_existed ["CM-4", "TH-23", "TH-24"] [];
            guard: entries_need_a_guard_or_a_key ["CM-7"] [];
            guard: a_commit_without_entries_does_not_change_the_version ["CM-8"] [];
            guard: a_commit_with_nothing_in_it_is_refused ["CM-9"] [];
            guard: create_fields_apply_only_to_a_new_thread ["CM-3", "TH-10"] [];
            race: one_of_several_commits_with_the_same_guard_succeeds ["CM-5"] [Race];
            race: unguarded_commits_all_take_effect ["CM-6"] [Race];
            race: commits_with_the_same_key_are_applied_once ["CM-14"] [Race];
            race: a_key_with_different_content_is_refused ["CM-12", "CM-14"] [Race];
            race: a_refused_commit_does_not_affect_other_writers ["CM-18"] [Race];
            race: a_thousand_commits_follow_each_other ["CM-37"] [];
            race: many_writers_leave_complete_logs_and_exact_counters ["CM-37"] [Race];
            race: a_stale_commit_can_be_rebased ["CM-38"] [Race];
            key: a_repeat_gives_the_first_receipt ["CM-10"] [];
            key: a_commit_key_survives_a_reopen ["CM-10"] [Reopen];
            key: guard_fence_and_map_order_are_not_part_of_the_content ["CM-11"] [];
            key: the_same_key_with_other_content_is_a_mismatch ["CM-11", "CM-12"] [];
            key: a_refused_commit_does_not_use_up_its_key ["CM-13"] [];
            key: keys_belong_to_one_thread ["CM-15"] [];
            key: a_key_lives_as_long_as_its_thread ["CM-16"] [Time];
            key: a_repeat_is_checked_by_its_key_alone ["CM-43"] [];
            state: state_changes_by_key ["CM-24"] [];
            state: state_is_kept_if_a_commit_does_not_change_it ["CM-24", "CM-26"] [];
            state: a_commit_names_a_state_key_at_most_once ["CM-25"] [];
            state: an_operation_on_a_value_of_another_type_is_refused ["CM-39"] [];
            state: an_operation_applies_to_the_stored_value ["CM-39"] [];
            state: concurrent_operations_all_take_effect ["CM-39"] [Race];
            state: one_of_several_commits_with_the_same_state_revision_succeeds ["CM-40"] [Race];
            fence: a_lower_claim_is_refused ["CM-32"] [];
            fence: a_commit_with_only_a_fence_raises_the_claim_number ["CM-9", "CM-32"] [];
            fence: the_claim_number_of_a_deleted_thread_is_remembered ["CM-32"] [];
            fence: the_highest_claim_number_survives_a_reopen ["CM-32"] [Reopen];
            fence: no_lower_claim_writes_after_a_higher_one ["CM-32"] [Race];
            fence: a_fence_can_be_reset ["CM-42"] [];
            fence: the_fence_of_an_update_is_checked ["CM-44"] [];
            fence: claim_numbers_of_commits_and_updates_survive_a_reopen ["CM-32", "CM-44"] [Reopen];
            claim: a_lost_claim_writes_nothing ["CM-31"] [Fenced, Time];
            claim: a_stale_claim_writes_nothing ["CM-31", "MB-33"] [Fenced, Time];
            claim: a_commit_settles_its_claim ["CM-33", "CM-1"] [Fenced];
            claim: a_refused_commit_settles_nothing ["CM-33", "CM-43", "CM-1"] [Fenced];
            claim: a_repeat_of_a_settling_commit_gives_its_receipt ["CM-33", "CM-10", "CM-11"] [Fenced];
            claim: event_appends_and_thread_updates_check_their_fence ["CM-44", "CM-31"] [Fenced, Time];
            claim: an_expired_lease_can_write_until_another_claim ["CM-31", "MB-31"] [Fenced, Time];
            claim: either_a_settling_commit_or_a_competing_claim_succeeds ["CM-31", "CM-33"] [Fenced, Time, Race];
            claim: settling_needs_a_fence ["CM-33"] [];
            limits: a_commit_has_a_thousand_entries_at_most ["CM-36", "ER-9"] [];
            limits: state_has_a_thousand_keys_at_most ["CM-36", "ER-9"] [];
            limits: state_has_a_megabyte_at_most ["CM-36", "ER-9"] [];
            limits: a_thread_has_64_open_runs_at_most ["CM-36", "ER-9"] [];
            limits: a_text_has_a_kibibyte_at_most ["CM-36", "ER-9"] [];
            limits: metadata_has_64_kibibytes_at_most ["CM-36", "ER-9"] [];
            limits: a_record_has_a_limit ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: a_state_value_has_a_limit ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: the_depth_of_a_state_value_is_limited ["CM-36", "ER-9"] [];
            limits: smaller_limits_are_enforced ["CM-36", "ER-10"] [Limits];
            limits: the_parts_of_a_commit_count_together ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: totals_are_checked_in_the_atomic_step ["CM-36", "ER-9"] [Race];
            order: the_first_failing_check_determines_the_error ["CM-43"] [];
            order: a_deleted_thread_is_reported_before_other_errors ["CM-43", "TH-23"] [];
            order: limits_of_the_commit_are_checked_first ["CM-43"] [];
            receipt: a_receipt_says_what_the_next_read_gives ["CM-34"] [];
            receipt: times_do_not_decrease ["CM-35", "PR-5"] [Time];
            receipt: versions_follow_the_order_of_commits ["CM-35"] [Race];
            receipt: a_commit_time_can_be_given ["CM-41"] [];
            receipt: a_commit_time_in_the_future_is_refused ["CM-41"] [];
        }
    };
}

commit!(case_slice);
