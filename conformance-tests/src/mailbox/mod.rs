//! Cases of the mailbox (MB).

mod cancel;
mod claim;
pub(crate) mod draft;
mod enqueue;
mod interrupt;
mod lease;
mod list;
mod maintain;
mod race;
mod reopen;
mod settle;

/// The cases of this area.
#[doc(hidden)]
#[macro_export]
macro_rules! mailbox {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] mailbox
            enqueue: a_dispatch_is_as_it_was_given ["MB-1", "MB-10"] [];
            enqueue: answers_are_independent ["MB-2"] [];
            enqueue: an_equal_enqueue_gets_the_first_answer ["MB-3", "PR-20"] [];
            enqueue: a_key_is_taken_until_its_dispatch_is_over ["MB-4", "MB-5"] [Still];
            enqueue: an_interrupt_frees_the_keys_of_what_was_queued ["MB-5", "MB-12"] [];
            enqueue: a_lost_lease_gives_up_its_key_with_the_last_attempt ["MB-29", "MB-5"] [Time, Still];
            enqueue: a_dispatch_has_an_attempt_and_needs_no_thread ["MB-9", "MB-10"] [];
            enqueue: only_what_is_queued_is_cancelled ["MB-11"] [];
            enqueue: a_call_has_a_thousand_dispatches_at_most ["ER-9"] [];
            enqueue: a_payload_has_a_limit ["ER-9", "ER-10"] [Limits];
            interrupt: an_interrupt_supersedes_what_is_queued ["MB-12", "MB-26"] [Time];
            interrupt: each_shows_its_own_interrupt ["MB-12"] [Time];
            interrupt: a_key_makes_an_interrupt_repeatable ["MB-12", "PR-20"] [];
            interrupt: epochs_never_fall ["MB-13", "MB-49"] [Time];
            interrupt: what_comes_after_an_interrupt_is_claimable ["MB-14", "MB-26"] [];
            interrupt: an_enqueue_races_with_an_interrupt ["MB-15"] [Race];
            interrupt: an_interrupt_is_of_one_thread ["MB-16"] [];
            interrupt: a_holder_loses_its_claim_to_an_interrupt ["MB-33"] [];
            interrupt: a_stale_lease_is_superseded ["MB-26", "MB-29"] [Time];
            interrupt: a_take_over_frees_the_thread ["MB-53", "MB-12"] [];
            interrupt: a_take_over_is_a_fence ["MB-53"] [Fenced];
            interrupt: what_was_superseded_is_found_by_epoch ["MB-54", "MB-45"] [];
            claim: a_claim_gives_one_of_each_thread ["MB-17"] [];
            claim: a_claim_may_name_a_thread ["MB-17"] [];
            claim: nothing_comes_before_its_time ["MB-20", "MB-47"] [Time, Still];
            claim: time_that_goes_back_gives_nothing_early ["MB-20", "PR-6"] [Time, Still];
            claim: priority_comes_first_inside_of_a_thread ["MB-21"] [Time];
            claim: priority_comes_first_among_threads ["MB-22"] [Time];
            claim: who_waited_longest_comes_first ["MB-22"] [Time];
            claim: a_claim_by_id_says_why_not ["MB-23"] [];
            claim: a_lease_has_its_length ["MB-24", "MB-32"] [];
            claim: claim_numbers_grow ["MB-25", "MB-49"] [Time];
            claim: an_emptied_mailbox_goes_on_above_its_claims ["MB-25", "TN-8"] [];
            claim: an_empty_mailbox_gives_nothing ["MB-27", "MB-26"] [Time];
            cancel: a_claim_that_nobody_received_is_given_back ["PR-11"] [];
            cancel: a_dropped_call_on_a_mailbox_is_whole_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            cancel: a_dropped_reclaim_is_whole_or_nothing ["PR-11", "PR-12", "PR-16"] [Race, Time];
            cancel: an_unknown_end_on_a_mailbox_is_found_out ["PR-20", "MB-3", "MB-39"] [];
            cancel: an_unknown_reclaim_is_found_out ["PR-20"] [Time];
            cancel: an_unknown_claim_comes_back_when_its_lease_is_over ["PR-20", "MB-29"] [Time];
            lease: a_lease_that_is_over_is_claimable ["MB-29", "MB-30", "MB-34", "PR-4"] [Time, Still];
            lease: the_last_lost_lease_makes_a_dead_letter ["MB-29"] [Time];
            lease: the_token_decides_and_not_the_clock ["MB-31", "PR-4"] [Time, Still];
            lease: an_extension_counts_from_now ["MB-32"] [Time, Still];
            lease: an_old_holder_writes_nothing ["MB-34"] [Time];
            lease: an_old_holder_is_refused_beside_the_new_one ["MB-34", "MB-38"] [Time];
            lease: a_settlement_races_with_a_claim ["MB-18", "MB-19", "MB-34"] [Time, Race];
            lease: work_is_started_once ["MB-35"] [Time, Still];
            lease: a_reclaim_ends_what_is_over ["MB-36"] [Time, Still];
            lease: reclaims_count_each_once ["MB-36"] [Time, Race];
            lease: a_lost_attempt_leaves_no_trace_beside_history ["MB-37"] [Time];
            lease: jumps_of_time_give_no_two_holders ["PR-6", "MB-18"] [Time];
            settle: a_settlement_does_what_the_table_says ["MB-41", "MB-42"] [];
            settle: the_last_retry_makes_a_dead_letter ["MB-40"] [];
            settle: putting_off_costs_no_attempt ["MB-40"] [Time, Still];
            settle: settlements_are_independent ["MB-38"] [];
            settle: a_repeat_gets_the_first_answer ["MB-39", "MB-44", "PR-20"] [];
            settle: twenty_attempts_are_remembered ["MB-39"] [];
            settle: a_retry_waits_its_time ["MB-40"] [Time, Still];
            settle: outcomes_come_back_as_given ["MB-43", "MB-41"] [];
            settle: a_settled_thread_is_free ["MB-42"] [];
            list: filters_name_what_is_wanted ["MB-45", "PG-9"] [Time];
            list: orders_by_creation_and_end ["MB-45", "PG-11"] [Time];
            list: what_ended_in_one_moment_is_in_order ["MB-45", "PG-8", "PG-11"] [];
            list: the_order_of_claims_is_that_of_a_thread ["MB-45"] [];
            list: counts_are_exact ["MB-46"] [Time];
            list: ready_threads_are_those_that_a_claim_takes ["MB-47"] [Time];
            maintain: a_purge_removes_what_ended_before ["MB-49"] [Time];
            maintain: what_was_superseded_is_purged_by_its_interrupt ["MB-49", "MB-12"] [Time];
            maintain: dead_letters_go_back_into_the_queue ["MB-50"] [];
            maintain: requeueing_respects_keys_and_filters ["MB-50"] [Time];
            reopen: a_mailbox_outlives_a_reopen ["MB-1", "MB-13", "MB-25", "MB-52"] [Reopen, Time];
            reopen: the_work_of_a_lost_worker_goes_on ["MB-51", "MB-52"] [Reopen, Time];
            reopen: every_step_of_a_claim_outlives_a_reopen ["MB-52", "PR-9"] [Reopen, Time];
            reopen: every_end_outlives_a_reopen ["MB-52", "PR-9"] [Reopen];
            reopen: a_loss_by_trying_outlives_a_reopen ["MB-33", "MB-52"] [Reopen, Time];
            reopen: the_keys_of_interrupts_outlive_a_reopen ["MB-12", "MB-52"] [Reopen];
            reopen: claim_numbers_grow_over_emptying_and_reopening ["MB-25", "TN-8"] [Reopen];
            race: one_key_has_one_winner ["MB-6"] [Race];
            race: enqueues_lose_nothing ["MB-8"] [Race];
            race: purges_that_meet_remove_each_once ["MB-49"] [Race];
            race: a_dispatch_goes_to_one_claimant ["MB-18", "MB-19"] [Race];
            race: a_lost_lease_has_one_winner ["MB-18", "MB-19", "MB-29"] [Race, Time];
        }
    };
}

mailbox!(case_slice);
