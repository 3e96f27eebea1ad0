//! Cases about logs (promises EN of the contract).

mod append;
mod checkpoint;
mod compaction;
mod content;
pub(crate) mod entry_drafts;
mod list;
mod message;
mod rewind;
mod snapshot;
mod tree;
mod usage;
pub(crate) mod writer;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! log {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] log
            append: entries_are_numbered_in_the_order_given ["EN-1"] [];
            append: concurrent_writers_leave_no_gap ["EN-1", "CM-6"] [Race];
            append: each_entry_is_the_parent_of_the_next ["EN-3"] [];
            append: every_entry_but_a_side_entry_becomes_the_head ["EN-5"] [];
            append: an_entry_never_changes ["EN-2"] [];
            append: an_entry_id_is_used_once ["EN-16"] [];
            append: one_of_several_commits_with_the_same_entry_id_succeeds ["EN-16"] [Race];
            tree: a_parent_is_an_earlier_entry ["EN-4"] [];
            tree: a_new_root_can_be_started ["EN-4"] [];
            tree: a_side_entry_is_on_no_path ["EN-6"] [];
            tree: a_fork_leaves_other_branches_alone ["EN-9"] [];
            tree: leaves_are_listed_by_sequence ["EN-11"] [];
            tree: branch_points_are_listed_by_sequence ["EN-31"] [];
            tree: paths_of_a_large_tree_follow_the_parents ["EN-12"] [];
            rewind: a_rewind_moves_the_head ["EN-7"] [];
            rewind: a_rewind_needs_a_valid_target ["EN-7"] [];
            rewind: a_rewind_and_the_entries_after_it_take_effect_together ["EN-3"] [];
            rewind: an_abandoned_branch_stays_as_it_was ["EN-8"] [];
            rewind: a_rewind_is_always_a_side_entry ["EN-7"] [];
            rewind: a_rewind_to_the_start_keeps_the_log ["EN-28"] [];
            rewind: convenience_methods_make_single_commits ["EN-7", "EN-9", "EN-28"] [];
            checkpoint: checkpoints_are_numbered_along_their_path ["EN-21"] [];
            checkpoint: a_context_has_the_next_checkpoint_number ["EN-33"] [];
            checkpoint: a_message_that_announces_a_checkpoint_is_committed_with_it ["EN-33"] [];
            checkpoint: a_rewind_by_number_finds_the_nearest_checkpoint ["EN-22"] [];
            checkpoint: a_rewind_by_label_finds_the_nearest_checkpoint ["EN-22"] [];
            checkpoint: a_checkpoint_number_is_reused_after_a_rewind ["EN-23"] [];
            checkpoint: no_checkpoint_number_follows_the_largest ["EN-21", "ER-8"] [];
            snapshot: snapshots_are_listed_by_name ["EN-30"] [];
            snapshot: a_label_renames_a_snapshot ["EN-25", "EN-30"] [];
            snapshot: a_snapshot_is_restored_from_any_branch ["EN-30"] [];
            snapshot: a_label_needs_an_existing_target ["EN-25"] [];
            compaction: an_interval_lies_on_the_path ["EN-24"] [];
            compaction: intervals_do_not_partially_overlap ["EN-24"] [];
            compaction: intervals_of_other_branches_do_not_matter ["EN-24"] [];
            message: tool_calls_occur_only_in_assistant_messages ["EN-18"] [];
            message: tool_results_occur_only_in_tool_messages ["EN-18"] [];
            message: unpaired_calls_and_results_are_accepted ["EN-19"] [];
            message: an_unknown_kind_with_a_known_name_is_refused ["EN-17", "ID-11", "ER-8"] [];
            content: every_block_round_trips ["EN-17", "EN-20"] [];
            content: every_block_survives_a_reopen ["EN-17", "EN-20"] [Reopen];
            content: every_body_round_trips ["EN-17"] [];
            content: every_body_survives_a_reopen ["EN-17"] [Reopen];
            content: large_contents_round_trip ["EN-17"] [];
            content: large_contents_survive_a_reopen ["EN-17"] [Reopen];
            content: given_fields_are_kept_and_none_are_invented ["EN-27"] [];
            usage: token_usage_is_summed ["EN-26"] [];
            usage: sums_are_exact_under_concurrent_writers ["EN-26"] [Race];
            usage: a_context_has_the_newest_context_size ["EN-26", "EN-29"] [];
            usage: a_context_size_belongs_to_its_path ["EN-29"] [];
            list: a_path_is_listed_from_either_end ["EN-12"] [];
            list: a_long_path_is_listed_in_one_page ["EN-12", "PG-1"] [];
            list: a_path_is_stable_while_it_is_listed ["EN-12"] [];
            list: entries_are_filtered ["EN-13"] [];
            list: an_entry_must_match_all_filters ["EN-13", "PG-9"] [];
            list: a_window_includes_its_bounds ["EN-13"] [];
            list: an_entry_is_found_by_its_id ["EN-15"] [];
            list: entries_stream_in_order ["EN-32"] [];
            list: a_cursor_belongs_to_its_path ["EN-12", "PG-6"] [];
        }
    };
}

log!(case_slice);
