//! Cases of commits (CM).

mod atomic;
mod cancel;
mod claim;
mod draft;
mod fence;
mod guard;
mod key;
mod limits;
mod order;
mod race;
mod receipt;
mod state;

/// The cases of this area.
#[doc(hidden)]
#[macro_export]
macro_rules! commit {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] commit
            atomic: every_part_is_there ["CM-1"] [];
            atomic: every_part_outlives_a_reopen ["CM-1"] [Reopen];
            atomic: no_part_of_a_refused_commit_is_there ["CM-1", "CM-13"] [];
            atomic: no_part_of_a_refused_commit_comes_later ["CM-1", "CM-13", "ER-3"] [Reopen];
            atomic: a_refused_commit_makes_no_thread ["CM-1"] [];
            atomic: an_error_names_the_part ["CM-19"] [];
            atomic: an_update_writes_no_entry_run_or_state ["CM-2", "TH-9"] [];
            cancel: a_dropped_turn_is_whole_or_nothing ["PR-11", "PR-16", "CM-33"] [Fenced, Race];
            cancel: an_unknown_end_of_a_turn_is_found_out ["PR-20", "CM-17"] [Fenced];
            guard: a_guard_is_judged_by_the_version ["CM-3"] [];
            guard: version_zero_is_a_guard ["CM-3"] [];
            guard: any_makes_a_thread_that_never_existed ["CM-4", "TH-23", "TH-24"] [];
            guard: entries_want_a_guard_or_a_key ["CM-7"] [];
            guard: a_commit_without_entries_leaves_the_version ["CM-8"] [];
            guard: a_commit_with_nothing_in_it_is_refused ["CM-9"] [];
            guard: create_is_for_a_new_thread ["CM-3", "TH-10"] [];
            race: one_guard_has_one_winner ["CM-5"] [Race];
            race: unguarded_commits_all_land ["CM-6"] [Race];
            race: a_key_is_applied_once ["CM-14"] [Race];
            race: a_key_has_one_content ["CM-12", "CM-14"] [Race];
            race: a_refused_commit_disturbs_nobody ["CM-18"] [Race];
            race: a_thousand_commits_follow_each_other ["CM-37"] [];
            race: many_writers_leave_exact_logs ["CM-37"] [Race];
            race: a_stale_commit_can_be_rebased ["CM-38"] [Race];
            key: a_repeat_gives_the_first_receipt ["CM-10"] [];
            key: a_key_outlives_a_reopen ["CM-10"] [Reopen];
            key: what_is_no_content_does_not_matter ["CM-11"] [];
            key: other_content_is_a_mismatch ["CM-11", "CM-12"] [];
            key: a_refused_commit_leaves_no_key ["CM-13"] [];
            key: keys_belong_to_one_thread ["CM-15"] [];
            key: a_key_lives_as_long_as_its_thread ["CM-16"] [Time];
            key: a_repeat_is_judged_by_its_key_alone ["CM-43"] [];
            state: state_changes_by_key ["CM-24"] [];
            state: state_stays_without_changes ["CM-24", "CM-26"] [];
            state: a_key_is_changed_once ["CM-25"] [];
            state: an_operation_wants_its_type ["CM-39"] [];
            state: an_operation_works_on_what_is_stored ["CM-39"] [];
            state: concurrent_operations_all_take_effect ["CM-39"] [Race];
            state: a_state_revision_has_one_winner ["CM-40"] [Race];
            fence: a_lower_claim_is_refused ["CM-32"] [];
            fence: a_claim_alone_takes_over ["CM-9", "CM-32"] [];
            fence: a_claim_is_remembered_with_the_id ["CM-32"] [];
            fence: a_claim_outlives_a_reopen ["CM-32"] [Reopen];
            fence: no_lower_claim_writes_after_a_higher ["CM-32"] [Race];
            fence: a_fence_can_be_reset ["CM-42"] [];
            fence: an_update_takes_a_fence ["CM-44"] [];
            fence: claims_outlive_a_reopen ["CM-32", "CM-44"] [Reopen];
            claim: a_lost_claim_writes_nothing ["CM-31"] [Fenced, Time];
            claim: a_stale_claim_writes_nothing ["CM-31", "MB-33"] [Fenced, Time];
            claim: a_commit_settles_its_claim ["CM-33", "CM-1"] [Fenced];
            claim: a_refused_commit_settles_nothing ["CM-33", "CM-43", "CM-1"] [Fenced];
            claim: a_repeat_of_a_settling_commit_gives_its_receipt ["CM-33", "CM-10", "CM-11"] [Fenced];
            claim: a_claim_is_checked_wherever_a_fence_is ["CM-44", "CM-31"] [Fenced, Time];
            claim: a_lease_that_nobody_took_still_writes ["CM-31", "MB-31"] [Fenced, Time];
            claim: a_settling_commit_races_with_a_claim ["CM-31", "CM-33"] [Fenced, Time, Race];
            claim: settling_needs_a_fence ["CM-33"] [];
            limits: a_commit_has_a_thousand_entries_at_most ["CM-36", "ER-9"] [];
            limits: state_has_a_thousand_keys_at_most ["CM-36", "ER-9"] [];
            limits: state_has_a_megabyte_at_most ["CM-36", "ER-9"] [];
            limits: a_thread_has_64_open_runs_at_most ["CM-36", "ER-9"] [];
            limits: a_text_has_a_kibibyte_at_most ["CM-36", "ER-9"] [];
            limits: metadata_has_64_kibibytes_at_most ["CM-36", "ER-9"] [];
            limits: a_record_has_a_limit ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: a_state_value_has_a_limit ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: a_state_value_has_a_depth ["CM-36", "ER-9"] [];
            limits: smaller_limits_hold ["CM-36", "ER-10"] [Limits];
            limits: the_parts_of_a_commit_count_together ["CM-36", "ER-9", "ER-10"] [Limits];
            limits: totals_are_judged_in_the_atomic_step ["CM-36", "ER-9"] [Race];
            order: the_first_check_that_fails_is_the_answer ["CM-43"] [];
            order: a_deleted_thread_is_the_answer_before_the_rest ["CM-43", "TH-23"] [];
            order: limits_of_the_commit_come_first ["CM-43"] [];
            receipt: a_receipt_says_what_the_next_read_gives ["CM-34"] [];
            receipt: times_do_not_decrease ["CM-35", "PR-5"] [Time];
            receipt: versions_follow_the_order_of_commits ["CM-35"] [Race];
            receipt: a_commit_may_say_when_it_happened ["CM-41"] [];
            receipt: a_commit_is_not_of_the_future ["CM-41"] [];
        }
    };
}

commit!(case_slice);
