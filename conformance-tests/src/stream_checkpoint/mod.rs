//! Cases about stream checkpoints (promises SC of the contract), which core implements over documents of threads.

pub(crate) mod helpers;
mod lifetime;
mod purge;
mod put;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! stream_checkpoint {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] stream_checkpoint
            put: a_checkpoint_is_loaded_as_it_was_put ["SC-1"] [Threads];
            put: an_unknown_checkpoint_is_none ["SC-1"] [Threads];
            put: each_run_has_one_checkpoint ["SC-1"] [Threads];
            put: checkpoints_survive_a_reopen ["SC-1"] [Threads, Reopen];
            put: a_lower_sequence_is_ignored ["SC-2"] [Threads];
            put: an_ignored_put_says_so ["SC-2"] [Threads];
            put: the_highest_of_concurrent_puts_stays ["SC-2"] [Threads, Race];
            put: an_answer_goes_on_by_what_was_received ["SC-5"] [Threads];
            put: a_checkpoint_is_not_part_of_the_thread ["SC-6"] [Threads];
            put: a_failing_put_does_not_fail_the_commit ["SC-7"] [Threads, Limits];
            put: a_checkpoint_can_carry_a_claim ["CM-44"] [Threads];
            lifetime: a_deleted_checkpoint_is_gone ["SC-3"] [Threads];
            lifetime: deleting_an_unknown_checkpoint_is_no_error ["SC-3"] [Threads];
            lifetime: a_commit_removes_the_checkpoint_that_it_names ["SC-3", "CM-1"] [Threads];
            lifetime: a_refused_commit_leaves_the_checkpoint ["SC-3", "CM-1"] [Threads];
            lifetime: a_finished_run_has_no_checkpoint ["SC-4"] [Threads];
            lifetime: a_checkpoint_put_after_the_end_of_its_run_is_not_loaded ["SC-4"] [Threads];
            lifetime: checkpoints_are_deleted_with_their_thread ["SC-4", "TH-21", "TH-24"] [Threads];
            lifetime: a_checkpoint_of_a_deleted_thread_is_refused ["TH-32"] [Threads];
            purge: old_checkpoints_are_purged ["SC-4"] [Threads, Time];
            purge: a_purge_removes_what_finished_runs_left ["SC-4"] [Threads];
            purge: a_dry_run_of_a_checkpoint_purge_changes_nothing ["SC-4"] [Threads, Time];
        }
    };
}

stream_checkpoint!(case_slice);
