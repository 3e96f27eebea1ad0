//! Cases about the outbox (promises OB of the contract).

mod claim;
mod commit;
mod dedupe_key;
mod dropped_calls;
mod helpers;
mod list;
mod order_key;
mod settle;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! outbox {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] outbox
            commit: outbox_rows_are_written_with_their_commit ["OB-1", "CM-1", "CM-8", "CM-20"] [];
            commit: a_refused_commit_writes_no_row ["OB-1", "CM-1", "CM-22"] [];
            commit: a_repeated_commit_returns_its_first_rows ["CM-10", "CM-11"] [];
            commit: readers_see_all_rows_of_a_commit_or_none ["CM-23"] [Race];
            commit: outbox_rows_survive_a_reopen ["OB-1", "OB-7", "PR-9"] [Reopen];
            commit: outbox_rows_survive_the_deletion_of_their_thread ["TH-21"] [];
            commit: a_row_needs_at_least_one_attempt ["OB-1"] [];
            commit: a_commit_has_a_thousand_rows_at_most ["ER-9", "CM-36"] [];
            commit: a_payload_has_a_limit ["ER-9", "ER-10"] [Limits];
            dedupe_key: the_same_key_gives_the_first_row ["OB-2"] [];
            dedupe_key: a_key_with_other_content_refuses_the_commit ["OB-2", "CM-22"] [];
            dedupe_key: a_key_belongs_to_one_lane_and_target ["OB-2"] [];
            dedupe_key: a_key_is_taken_until_its_row_is_purged ["OB-3"] [Time];
            dedupe_key: concurrent_commits_with_one_key_write_one_row ["OB-3"] [Race];
            claim: a_claim_takes_the_first_rows_of_its_lane ["OB-4"] [Time];
            claim: every_row_has_its_own_token ["OB-4", "OB-7"] [];
            claim: the_size_and_lease_of_a_claim_are_bounded ["OB-4", "ER-9"] [];
            claim: a_row_has_one_holder ["OB-5"] [Race];
            claim: an_expired_lease_frees_its_row ["OB-5", "OB-6"] [Time, StoppedClock];
            claim: lost_leases_use_up_attempts ["OB-6"] [Time];
            claim: no_row_is_claimed_before_it_is_available ["OB-4", "OB-9"] [Time, StoppedClock];
            claim: final_rows_are_never_claimed ["OB-10"] [Time];
            dropped_calls: a_claim_that_was_not_received_is_released ["PR-11"] [];
            dropped_calls: a_dropped_call_on_an_outbox_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: an_unknown_outcome_on_an_outbox_can_be_resolved ["PR-20"] [];
            dropped_calls: a_row_whose_claim_was_lost_can_be_claimed_after_the_lease ["PR-20", "OB-5"] [Time];
            settle: settlements_end_an_attempt ["OB-7"] [];
            settle: without_the_token_nothing_changes ["OB-7", "OB-8"] [];
            settle: a_row_without_remaining_attempts_becomes_a_dead_letter ["OB-6"] [Time];
            settle: a_retried_row_waits_for_its_delay ["OB-9"] [Time, StoppedClock];
            settle: an_extension_prolongs_a_claim ["OB-8"] [Time, StoppedClock];
            settle: a_long_error_is_truncated ["ER-10"] [];
            order_key: rows_of_an_order_key_are_claimed_one_at_a_time ["OB-11"] [];
            order_key: a_waiting_row_blocks_later_rows_of_its_order_key ["OB-11"] [Time];
            order_key: a_final_row_blocks_nothing ["OB-11"] [];
            order_key: a_requeued_row_keeps_its_position ["OB-11", "OB-13"] [];
            order_key: rows_keep_the_order_of_their_commits ["OB-11"] [Race];
            list: lists_filter_by_lane_target_and_status ["OB-12"] [];
            list: counts_are_exact ["OB-12"] [];
            list: dead_letters_are_requeued_with_all_their_attempts ["OB-13"] [];
            list: the_oldest_dead_letters_are_requeued_up_to_the_limit ["OB-13"] [];
            list: a_purge_removes_records_that_ended_before_its_time ["OB-13"] [Time];
            list: a_purge_can_name_rows ["OB-14", "OB-7"] [];
        }
    };
}

outbox!(case_slice);
