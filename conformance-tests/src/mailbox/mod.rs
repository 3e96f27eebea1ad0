//! Cases about the mailbox (promises MB of the contract).

mod claim;
mod dropped_calls;
mod enqueue;
pub(crate) mod helpers;
mod interrupt;
mod lease;
mod list;
mod purge_and_requeue;
mod race;
mod reopen;
mod settle;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! mailbox {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] mailbox
            enqueue: an_enqueued_dispatch_has_the_given_fields ["MB-1", "MB-10"] [];
            enqueue: each_enqueued_dispatch_has_its_own_answer ["MB-2"] [];
            enqueue: a_repeated_enqueue_returns_the_first_answer ["MB-3", "PR-20"] [];
            enqueue: a_key_is_taken_until_its_dispatch_ends ["MB-4", "MB-5"] [StoppedClock];
            enqueue: an_interrupt_frees_the_keys_of_queued_dispatches ["MB-5", "MB-12"] [];
            enqueue: a_lost_lease_frees_its_key_only_with_the_last_attempt ["MB-29", "MB-5"] [Time, StoppedClock];
            enqueue: a_dispatch_needs_a_positive_max_attempts_but_no_thread ["MB-9", "MB-10"] [];
            enqueue: only_a_queued_dispatch_can_be_cancelled ["MB-11"] [];
            enqueue: a_call_has_a_thousand_dispatches_at_most ["ER-9"] [];
            enqueue: a_payload_has_a_limit ["ER-9", "ER-10"] [Limits];
            interrupt: an_interrupt_supersedes_queued_dispatches ["MB-12", "MB-26"] [Time];
            interrupt: each_dispatch_shows_the_interrupt_that_superseded_it ["MB-12"] [Time];
            interrupt: a_key_makes_an_interrupt_repeatable ["MB-12", "PR-20"] [];
            interrupt: an_interrupt_can_forget_earlier_keys ["MB-56"] [];
            interrupt: epochs_never_decrease ["MB-13", "MB-49"] [Time];
            interrupt: a_dispatch_enqueued_after_an_interrupt_can_be_claimed ["MB-14", "MB-26"] [];
            interrupt: an_enqueue_takes_effect_before_or_after_an_interrupt ["MB-15"] [Race];
            interrupt: an_interrupt_affects_only_its_thread ["MB-16"] [];
            interrupt: a_holder_loses_its_claim_to_an_interrupt ["MB-33"] [];
            interrupt: the_expired_claim_of_an_interrupted_thread_is_superseded ["MB-26", "MB-29"] [Time];
            interrupt: a_take_over_frees_the_thread ["MB-53", "MB-12"] [];
            interrupt: a_take_over_fences_out_the_old_holder ["MB-53"] [Fenced];
            interrupt: superseded_dispatches_are_found_by_epoch ["MB-54", "MB-45"] [];
            claim: a_claim_returns_at_most_one_dispatch_per_thread ["MB-17"] [];
            claim: a_claim_may_name_a_thread ["MB-17"] [];
            claim: no_dispatch_is_claimed_before_it_is_available ["MB-20", "MB-47"] [Time, StoppedClock];
            claim: nothing_is_claimed_early_after_the_clock_goes_back ["MB-20", "PR-6"] [Time, StoppedClock];
            claim: priority_decides_within_a_thread ["MB-21"] [Time];
            claim: priority_decides_among_threads ["MB-22"] [Time];
            claim: the_thread_that_waited_longest_comes_first ["MB-22"] [Time];
            claim: a_claim_by_id_reports_why_it_returned_nothing ["MB-23"] [];
            claim: a_lease_has_the_requested_length ["MB-24", "MB-32"] [];
            claim: claim_numbers_grow ["MB-25", "MB-49"] [Time];
            claim: claim_numbers_continue_to_grow_in_a_recreated_tenant ["MB-25", "TN-8"] [];
            claim: a_claim_of_an_empty_mailbox_returns_nothing ["MB-27", "MB-26"] [Time];
            dropped_calls: a_claim_that_was_not_received_is_released ["PR-11"] [];
            dropped_calls: a_dropped_call_on_a_mailbox_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: a_dropped_reclaim_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race, Time];
            dropped_calls: an_unknown_outcome_on_a_mailbox_can_be_resolved ["PR-20", "MB-3", "MB-39"] [];
            dropped_calls: an_unknown_outcome_of_a_reclaim_can_be_resolved ["PR-20"] [Time];
            dropped_calls: a_dispatch_whose_claim_was_lost_can_be_claimed_after_the_lease ["PR-20", "MB-29"] [Time];
            lease: a_dispatch_can_be_claimed_after_its_lease ["MB-29", "MB-30", "MB-34", "PR-4"] [Time, StoppedClock];
            lease: the_last_lost_lease_makes_a_dead_letter ["MB-29"] [Time];
            lease: an_expired_claim_is_valid_until_another_caller_claims ["MB-31", "PR-4"] [Time, StoppedClock];
            lease: an_extension_counts_from_now ["MB-32"] [Time, StoppedClock];
            lease: an_old_holder_writes_nothing ["MB-34"] [Time];
            lease: one_call_refuses_the_old_holder_and_accepts_the_new_one ["MB-34", "MB-38"] [Time];
            lease: either_a_settlement_or_a_competing_claim_succeeds ["MB-18", "MB-19", "MB-34"] [Time, Race];
            lease: only_one_instance_can_start_a_claim ["MB-35"] [Time, StoppedClock];
            lease: a_reclaim_ends_expired_claims ["MB-36"] [Time, StoppedClock];
            lease: concurrent_reclaims_count_each_claim_once ["MB-36"] [Time, Race];
            lease: earlier_attempts_show_only_in_history_and_last_error ["MB-37"] [Time];
            lease: clock_jumps_never_give_a_dispatch_two_holders ["PR-6", "MB-18"] [Time];
            settle: each_settlement_changes_the_dispatch_as_the_contract_says ["MB-41", "MB-42"] [];
            settle: the_last_retry_makes_a_dead_letter ["MB-40"] [];
            settle: a_snooze_or_release_uses_up_no_attempt ["MB-40"] [Time, StoppedClock];
            settle: each_settlement_has_its_own_answer ["MB-38"] [];
            settle: a_repeated_settlement_returns_the_first_answer ["MB-39", "MB-44", "PR-20"] [];
            settle: twenty_attempts_are_remembered ["MB-39"] [];
            settle: a_retried_dispatch_waits_for_its_delay ["MB-40"] [Time, StoppedClock];
            settle: results_errors_and_reasons_round_trip ["MB-43", "MB-41"] [];
            settle: a_thread_is_free_after_any_settlement ["MB-42"] [];
            list: dispatches_are_filtered_by_all_given_fields ["MB-45", "PG-9"] [Time];
            list: dispatches_are_ordered_by_creation_or_end ["MB-45", "PG-11"] [Time];
            list: dispatches_that_ended_at_the_same_time_are_ordered_by_id ["MB-45", "PG-8", "PG-11"] [];
            list: only_dispatches_of_one_thread_can_be_listed_in_claim_order ["MB-45"] [];
            list: counts_are_exact ["MB-46"] [Time];
            list: ready_threads_are_those_that_a_claim_takes ["MB-47"] [Time];
            purge_and_requeue: a_purge_removes_records_that_ended_before_its_time ["MB-49"] [Time];
            purge_and_requeue: superseded_dispatches_are_purged_by_the_time_of_their_interrupt ["MB-49", "MB-12"] [Time];
            purge_and_requeue: a_purge_can_name_dispatches ["MB-57"] [];
            purge_and_requeue: dead_letters_can_be_requeued ["MB-50"] [];
            purge_and_requeue: requeueing_respects_keys_and_filters ["MB-50"] [Time];
            reopen: a_mailbox_survives_a_reopen ["MB-1", "MB-13", "MB-25", "MB-52"] [Reopen, Time];
            reopen: another_worker_can_claim_the_work_of_a_lost_one ["MB-51", "MB-52"] [Reopen, Time];
            reopen: every_step_of_a_claim_survives_a_reopen ["MB-52", "PR-9"] [Reopen, Time];
            reopen: every_end_of_a_dispatch_survives_a_reopen ["MB-52", "PR-9"] [Reopen];
            reopen: a_dispatch_superseded_by_a_refused_write_stays_so_after_a_reopen ["MB-33", "MB-52"] [Reopen, Time];
            reopen: the_keys_of_interrupts_survive_a_reopen ["MB-12", "MB-52"] [Reopen];
            reopen: claim_numbers_grow_across_tenant_deletion_and_reopen ["MB-25", "TN-8"] [Reopen];
            race: one_of_several_enqueues_with_the_same_key_is_accepted ["MB-6"] [Race];
            race: concurrent_enqueues_all_take_effect ["MB-8"] [Race];
            race: concurrent_purges_remove_each_dispatch_once ["MB-49"] [Race];
            race: a_dispatch_goes_to_one_claimant ["MB-18", "MB-19"] [Race];
            race: one_of_several_claims_gets_a_dispatch_after_its_lease ["MB-18", "MB-19", "MB-29"] [Race, Time];
        }
    };
}

mailbox!(case_slice);
