//! Cases of contexts (CX).

mod budget;
mod compaction;
mod compare;
mod moment;
mod pairing;
mod path;
mod sketch;

/// The cases of this area.
#[doc(hidden)]
#[macro_export]
macro_rules! context {
    ($then:ident $($with:tt)*) => {
        $crate::$then! { [$($with)*] context
            path: a_context_is_made_of_the_path ["CX-1"] [];
            path: without_a_head_the_context_is_empty ["CX-1", "EN-28"] [];
            path: a_context_has_what_a_model_may_see ["CX-2"] [];
            path: the_model_last_in_effect_is_named ["CX-1"] [];
            path: a_context_never_changes ["CX-11"] [];
            path: an_unknown_thread_or_entry_is_not_found ["CX-14"] [];
            compaction: a_summary_stands_for_its_interval ["CX-3"] [];
            compaction: replacements_stand_instead_of_the_summary ["CX-3"] [];
            compaction: a_compaction_of_nothing_stands_first ["CX-3"] [];
            compaction: of_one_beginning_the_latest_counts ["CX-4"] [];
            compaction: what_lies_inside_is_hidden ["CX-4"] [];
            compaction: a_compaction_of_another_branch_has_no_effect ["CX-5"] [];
            compaction: repeated_compaction_keeps_the_rest ["CX-3", "CX-4"] [];
            compaction: a_compaction_is_due_when_the_window_fills ["CX-15", "CX-18"] [];
            compaction: a_split_keeps_calls_with_their_results ["CX-15"] [];
            compaction: a_compaction_request_tells_the_older_messages ["CX-18"] [];
            pairing: a_result_without_its_call_is_left_out ["CX-6", "CX-9", "CX-10"] [];
            pairing: a_result_of_another_branch_answers_nothing ["CX-1", "CX-7"] [];
            pairing: a_call_without_a_result_is_treated_as_asked ["CX-7", "CX-10"] [];
            pairing: results_follow_their_calls ["CX-8"] [];
            pairing: of_several_results_the_last_counts ["CX-8"] [];
            pairing: a_call_id_may_come_again ["CX-8"] [];
            pairing: an_empty_message_is_left_out ["CX-9", "CX-10"] [];
            pairing: parts_of_one_message_become_one ["CX-17"] [];
            pairing: other_messages_stay_apart ["CX-17"] [];
            pairing: only_assistant_messages_become_one ["CX-17"] [];
            budget: the_oldest_turns_go_first ["CX-19"] [];
            budget: the_last_summary_stays ["CX-19"] [];
            budget: no_budget_parts_a_call_from_its_result ["CX-19"] [];
            moment: a_context_is_of_one_moment ["CX-13", "CM-1", "PR-13"] [Race];
            compare: two_leaves_are_compared ["CX-16"] [];
        }
    };
}

context!(case_slice);
