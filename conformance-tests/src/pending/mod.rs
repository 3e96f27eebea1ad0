//! Cases of pending input (PI).

mod append;
mod cancel;
mod change;
mod consume;
mod decide;
mod draft;
mod life;
mod race;
mod select;

/// The cases of this area.
#[doc(hidden)]
#[macro_export]
macro_rules! pending {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] pending
            append: inputs_are_appended_in_order ["PI-1", "PI-5"] [];
            append: inputs_come_back_as_they_were_given ["PI-1", "PI-5"] [Reopen];
            append: an_append_is_all_or_none ["PI-1", "PI-2"] [];
            append: an_equal_append_gives_the_first_answer ["PI-2"] [];
            append: an_id_in_use_is_refused ["PI-2"] [];
            append: messages_follow_their_rules ["PI-3"] [];
            append: an_append_makes_the_thread ["PI-4"] [];
            append: a_deleted_thread_takes_no_input ["PI-4", "TH-32"] [];
            append: an_unknown_thread_has_an_empty_queue ["PI-5"] [];
            append: a_queue_has_ten_thousand_inputs_at_most ["ER-9"] [];
            append: smaller_limits_hold ["ER-9", "ER-10"] [Limits];
            change: a_change_keeps_the_place ["PI-6"] [];
            change: a_stale_change_is_refused ["PI-6"] [];
            change: a_change_of_nothing_changes_nothing ["PI-6"] [];
            change: a_retracted_input_is_given_back ["PI-7"] [];
            change: an_order_names_the_whole_queue ["PI-8"] [];
            change: a_refused_order_changes_nothing ["PI-8"] [];
            change: what_was_consumed_stays_as_it_is ["PI-9"] [];
            change: an_unknown_input_is_not_found ["PI-9"] [];
            change: revisions_never_fall ["PI-7", "PI-6"] [];
            change: changes_outlive_a_reopen ["PI-6", "PI-7", "PI-8", "PR-9"] [Reopen];
            consume: consumed_input_is_an_entry_and_no_longer_pending ["CM-27", "PI-14", "CM-1"] [];
            consume: consumed_input_comes_first_in_the_order_given ["CM-27", "CM-30"] [];
            consume: what_is_consumed_is_as_it_was_seen ["CM-28"] [];
            consume: a_refused_commit_consumes_nothing ["CM-1", "CM-28"] [];
            consume: consumed_input_wants_a_guard_or_a_key ["CM-30", "CM-7"] [];
            consume: consumption_is_content ["CM-11", "CM-10"] [];
            consume: a_commit_consumes_a_thousand_inputs_at_most ["CM-36", "ER-9"] [];
            consume: a_pending_id_is_taken ["EN-16"] [];
            consume: consumption_outlives_a_reopen ["CM-1", "PI-14"] [Reopen];
            decide: a_decision_becomes_an_entry ["PI-22", "RU-16"] [];
            decide: a_decision_wants_a_waiting_run ["PI-22"] [];
            decide: a_ticket_is_decided_once ["RU-16"] [];
            decide: a_ticket_stays_decided_after_consumption ["RU-16"] [Reopen];
            decide: a_decision_stays_as_it_is ["RU-16"] [];
            decide: a_decision_without_its_run_can_be_retracted ["RU-16", "PI-7"] [];
            decide: one_of_several_decisions_counts ["RU-16"] [Race];
            select: inputs_are_taken_at_their_boundary ["PI-15", "PI-16", "PI-21"] [];
            select: a_target_is_a_run ["PI-17"] [];
            select: a_barrier_ends_the_scan ["PI-18", "PI-19"] [];
            select: an_input_may_want_to_be_alone ["PI-18", "PI-20"] [];
            race: concurrent_appends_lose_nothing ["PI-11"] [Race];
            race: an_input_is_consumed_once ["CM-29"] [Race];
            race: a_change_and_a_consumption_exclude_each_other ["PI-12"] [Race];
            cancel: a_dropped_call_on_a_queue_is_whole_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            cancel: an_unknown_end_on_a_queue_is_found_out ["PR-20", "PI-2"] [];
            race: a_dropped_append_had_its_effect_or_none ["PR-11", "PR-16"] [];
            life: threads_with_input_are_listed ["PI-10"] [];
            life: a_deletion_takes_the_queue ["PI-13", "TH-21", "TH-24"] [];
            life: a_thread_with_input_is_not_pruned ["TH-26"] [Time];
            life: input_leaves_the_thread_alone ["PI-14", "TH-9", "CM-8"] [Time];
        }
    };
}

pending!(case_slice);
