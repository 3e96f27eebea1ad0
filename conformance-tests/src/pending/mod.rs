//! Cases about pending input (promises PI of the contract).

mod append;
mod change;
mod consume;
mod decision;
mod dropped_calls;
mod helpers;
mod race;
mod select;
mod thread_lifecycle;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! pending {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] pending
            append: inputs_are_appended_in_order ["PI-1", "PI-5"] [];
            append: pending_inputs_round_trip ["PI-1", "PI-5"] [Reopen];
            append: an_append_is_all_or_none ["PI-1", "PI-2"] [];
            append: a_repeated_append_returns_the_first_inputs ["PI-2"] [];
            append: an_id_in_use_is_refused ["PI-2"] [];
            append: an_input_with_an_invalid_message_is_refused ["PI-3"] [];
            append: an_append_creates_the_thread ["PI-4"] [];
            append: a_deleted_thread_takes_no_input ["PI-4", "TH-32"] [];
            append: an_unknown_thread_has_an_empty_queue ["PI-5"] [];
            append: a_queue_has_ten_thousand_inputs_at_most ["ER-9"] [];
            append: smaller_limits_of_a_store_apply ["ER-9", "ER-10"] [Limits];
            change: an_update_keeps_the_position ["PI-6"] [];
            change: an_update_of_a_stale_revision_is_refused ["PI-6"] [];
            change: an_input_update_without_effect_raises_no_revision ["PI-6"] [];
            change: a_retraction_returns_the_input ["PI-7"] [];
            change: a_reorder_names_every_input ["PI-8"] [];
            change: a_refused_reorder_changes_nothing ["PI-8"] [];
            change: consumed_input_can_no_longer_be_changed ["PI-9"] [];
            change: an_unknown_input_is_not_found ["PI-9"] [];
            change: revisions_never_decrease ["PI-7", "PI-6"] [];
            change: changes_of_a_queue_survive_a_reopen ["PI-6", "PI-7", "PI-8", "PR-9"] [Reopen];
            consume: consumed_input_is_an_entry_and_no_longer_pending ["CM-27", "PI-14", "CM-1"] [];
            consume: consumed_input_comes_first_in_the_order_given ["CM-27", "CM-30"] [];
            consume: only_pending_input_of_the_named_revision_is_consumed ["CM-28"] [];
            consume: a_refused_commit_consumes_nothing ["CM-1", "CM-28"] [];
            consume: consumed_input_needs_a_guard_or_a_key ["CM-30", "CM-7"] [];
            consume: consumed_input_is_part_of_the_content_of_a_commit ["CM-11", "CM-10"] [];
            consume: a_commit_consumes_a_thousand_inputs_at_most ["CM-36", "ER-9"] [];
            consume: an_entry_cannot_take_the_id_of_pending_input ["EN-16"] [];
            consume: consumption_survives_a_reopen ["CM-1", "PI-14"] [Reopen];
            decision: a_decision_becomes_an_entry ["PI-22", "RU-16"] [];
            decision: a_decision_needs_a_waiting_run ["PI-22"] [];
            decision: a_ticket_is_decided_once ["RU-16"] [];
            decision: a_ticket_stays_decided_after_consumption ["RU-16"] [Reopen];
            decision: a_decision_of_an_unfinished_run_cannot_be_changed ["RU-16"] [];
            decision: a_decision_of_a_finished_run_can_be_retracted ["RU-16", "PI-7"] [];
            decision: one_of_several_concurrent_decisions_is_accepted ["RU-16"] [Race];
            select: inputs_are_taken_at_their_boundary ["PI-15", "PI-16", "PI-21"] [];
            select: a_targeted_input_is_taken_by_its_run ["PI-17"] [];
            select: nothing_behind_a_barrier_is_taken ["PI-18", "PI-19"] [];
            select: an_input_of_granularity_one_is_taken_alone ["PI-18", "PI-20"] [];
            race: concurrent_appends_lose_nothing ["PI-11"] [Race];
            race: an_input_is_consumed_once ["CM-29"] [Race];
            race: an_update_and_a_consumption_exclude_each_other ["PI-12"] [Race];
            dropped_calls: a_dropped_call_on_a_queue_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: an_unknown_outcome_on_a_queue_can_be_resolved ["PR-20", "PI-2"] [];
            race: a_dropped_append_is_all_or_nothing ["PR-11", "PR-16"] [];
            thread_lifecycle: threads_with_input_are_listed ["PI-10"] [];
            thread_lifecycle: deleting_a_thread_deletes_its_queue ["PI-13", "TH-21", "TH-24"] [];
            thread_lifecycle: a_thread_with_input_is_not_pruned ["TH-26"] [Time];
            thread_lifecycle: queue_changes_do_not_change_the_thread ["PI-14", "TH-9", "CM-8"] [Time];
        }
    };
}

pending!(case_slice);
