//! Cases about effects of runs (promises EF of the contract), which core implements over documents.

mod begin;
mod claim;
mod end;
pub(crate) mod helpers;
pub(crate) mod kills;
mod list;
mod resolve;
mod retention;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! effect {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] effect
            begin: a_new_effect_is_loaded_as_it_was_begun ["EF-1"] [Threads];
            begin: an_effect_that_was_begun_is_in_doubt ["EF-1"] [Threads];
            begin: an_effect_that_ended_is_finished ["EF-1", "EF-3"] [Threads];
            begin: a_name_stands_for_one_intent ["EF-1"] [Threads];
            begin: an_effect_needs_its_thread ["EF-1"] [Threads];
            begin: effects_survive_a_reopen ["EF-1"] [Threads, Reopen];
            begin: names_of_effects_are_apart ["EF-1"] [Threads];
            begin: every_effect_has_a_key_of_its_own ["EF-6"] [Threads];
            begin: a_caller_may_choose_the_key ["EF-6"] [Threads];
            begin: one_of_several_callers_is_told_that_an_effect_is_new ["EF-2"] [Threads, Race];
            begin: one_of_several_callers_tries_an_effect_again ["EF-2", "EF-6"] [Threads, Race];
            claim: a_lower_claim_begins_no_effect ["EF-2", "DO-13"] [Threads];
            claim: only_the_holder_of_a_claim_begins_an_effect ["EF-2", "DO-13"] [Threads, Fenced, Time];
            claim: a_lower_claim_ends_no_effect ["EF-3", "DO-13"] [Threads];
            end: an_outcome_is_recorded_alone ["EF-3"] [Threads];
            end: a_commit_carries_the_outcome ["EF-3"] [Threads];
            end: a_refused_commit_leaves_an_effect_in_doubt ["EF-3"] [Threads];
            end: an_effect_that_changed_refuses_the_commit ["EF-3", "EF-4"] [Threads];
            end: an_ended_effect_keeps_its_outcome ["EF-4"] [Threads];
            end: an_end_may_be_repeated ["EF-4"] [Threads];
            end: an_unknown_outcome_is_in_doubt ["EF-1", "EF-3"] [Threads];
            end: only_the_last_attempt_ends_an_effect ["EF-3"] [Threads];
            end: an_attempt_can_ask_for_another_one ["EF-3", "EF-6"] [Threads];
            resolve: a_doubt_is_resolved ["EF-6"] [Threads];
            resolve: a_retry_has_the_same_idempotency_key ["EF-6"] [Threads];
            resolve: what_has_ended_is_not_resolved ["EF-4", "EF-6"] [Threads];
            resolve: a_resolution_can_expect_a_revision ["EF-6"] [Threads];
            resolve: a_resolution_is_audited ["EF-6", "AU-1"] [Threads];
            list: effects_that_have_not_ended_come_first ["EF-5"] [Threads];
            list: effects_of_a_thread_and_of_a_run_are_listed ["EF-5"] [Threads];
            list: effects_of_a_status_are_listed ["EF-5"] [Threads];
            list: a_walk_misses_no_effect_that_ends_meanwhile ["EF-5"] [Threads];
            list: a_cursor_belongs_to_one_list_of_effects ["EF-5", "PG-6"] [Threads];
            list: effects_go_with_their_thread ["EF-5", "DO-8"] [Threads];
            retention: old_effects_that_ended_are_removed ["EF-5"] [Threads, Time];
            retention: an_effect_in_doubt_is_never_removed ["EF-5"] [Threads, Time];
            retention: effects_of_open_runs_stay ["EF-5"] [Threads, Time];
            retention: a_dry_purge_removes_no_effect ["EF-5"] [Threads, Time];
            retention: a_purge_removes_what_deleted_threads_left ["EF-5"] [Threads, Time];
        }
    };
}

effect!(case_slice);
