//! Cases about contexts (promises CX of the contract).

mod budget;
mod compaction;
mod compare;
mod consistency;
mod pairing;
mod path;
mod short_form;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! context {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] context
            path: a_context_is_made_of_the_path ["CX-1"] [];
            path: without_a_head_the_context_is_empty ["CX-1", "EN-28"] [];
            path: a_context_has_only_messages_visible_to_the_model ["CX-2"] [];
            path: a_context_names_the_model_used_last ["CX-1"] [];
            path: a_context_never_changes ["CX-11"] [];
            path: an_unknown_thread_or_entry_is_not_found ["CX-14"] [];
            compaction: a_summary_replaces_its_interval ["CX-3"] [];
            compaction: replacement_messages_appear_instead_of_the_summary ["CX-3"] [];
            compaction: a_compaction_without_an_interval_comes_first ["CX-3"] [];
            compaction: of_compactions_with_the_same_start_the_latest_counts ["CX-4"] [];
            compaction: a_compaction_inside_another_is_hidden ["CX-4"] [];
            compaction: a_compaction_of_another_branch_has_no_effect ["CX-5"] [];
            compaction: repeated_compaction_keeps_the_entries_after_the_interval ["CX-3", "CX-4"] [];
            compaction: a_compaction_is_due_when_the_window_fills ["CX-15", "CX-18"] [];
            compaction: a_split_keeps_calls_with_their_results ["CX-15"] [];
            compaction: a_compaction_request_contains_the_older_messages ["CX-18"] [];
            pairing: a_result_without_its_call_is_left_out ["CX-6", "CX-9", "CX-10"] [];
            pairing: a_result_on_another_branch_answers_no_call ["CX-1", "CX-7"] [];
            pairing: a_call_without_a_result_is_treated_as_requested ["CX-7", "CX-10"] [];
            pairing: results_follow_their_calls ["CX-8"] [];
            pairing: of_several_results_the_last_counts ["CX-8"] [];
            pairing: a_call_id_may_be_reused ["CX-8"] [];
            pairing: an_empty_message_is_left_out ["CX-9", "CX-10"] [];
            pairing: parts_of_one_message_are_merged ["CX-17"] [];
            pairing: unrelated_messages_are_not_merged ["CX-17"] [];
            pairing: only_assistant_messages_are_merged ["CX-17"] [];
            budget: the_oldest_turns_are_left_out_first ["CX-19"] [];
            budget: the_last_summary_is_always_kept ["CX-19"] [];
            budget: no_budget_separates_a_call_from_its_result ["CX-19"] [];
            consistency: a_context_is_a_consistent_snapshot ["CX-13", "CM-1", "PR-13"] [Race];
            compare: two_leaves_are_compared ["CX-16"] [];
        }
    };
}

context!(case_slice);
