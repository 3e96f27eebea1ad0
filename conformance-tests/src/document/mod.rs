//! Cases about documents and topics (promises DO of the contract, and EV for topics).

mod claim;
mod commit;
mod dropped_calls;
mod expectation;
mod helpers;
mod key;
mod list;
mod load;
mod prefix;
mod tenants;
mod thread;
mod topic;
mod write;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! document {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] document
            write: a_written_document_is_loaded_as_it_was_given ["DO-1", "DO-5"] [];
            write: a_write_happens_as_a_whole_or_not_at_all ["DO-1", "DO-2"] [];
            write: documents_survive_a_reopen ["DO-1", "DO-3", "PR-9"] [Reopen];
            write: events_are_appended_with_the_documents ["DO-1"] [];
            write: repeated_events_of_a_write_are_appended_once ["DO-1", "EV-5"] [];
            write: a_write_names_a_document_once ["DO-1"] [];
            write: an_empty_write_is_refused ["DO-1"] [];
            write: a_put_replaces_the_value_and_keeps_the_creation ["DO-1", "PR-5"] [Time];
            write: the_times_of_a_document_never_go_back ["PR-5"] [Time];
            write: readers_see_whole_writes ["DO-1", "DO-5", "PR-13"] [Race];
            expectation: the_absence_of_a_document_can_be_expected ["DO-2"] [];
            expectation: the_presence_of_a_document_can_be_expected ["DO-2"] [];
            expectation: a_revision_can_be_expected ["DO-2"] [];
            expectation: a_revision_does_not_match_a_deleted_document ["DO-2", "DO-3"] [];
            expectation: the_first_expectation_that_fails_is_named ["DO-2"] [];
            expectation: a_check_changes_nothing ["DO-2"] [];
            expectation: a_missing_document_can_be_deleted ["DO-2"] [];
            expectation: documents_of_one_write_have_one_revision ["DO-3"] [];
            expectation: revisions_grow_across_deletion_and_put ["DO-3"] [];
            expectation: revisions_grow_after_a_reopen ["DO-3"] [Reopen];
            expectation: revisions_of_a_deleted_tenant_do_not_return ["DO-3", "TN-8"] [];
            expectation: one_of_several_writers_with_one_revision_succeeds ["DO-4"] [Race];
            expectation: one_of_several_creations_or_deletions_succeeds ["DO-4"] [Race];
            expectation: writers_without_expectations_all_succeed ["DO-3", "DO-4"] [Race];
            load: documents_are_loaded_in_the_order_given ["DO-5"] [];
            load: a_missing_document_is_absent ["DO-5"] [];
            load: a_load_shows_one_moment ["DO-5"] [Race];
            load: a_load_has_a_thousand_documents_at_most ["DO-5", "ER-9"] [];
            load: a_load_has_a_limit_of_bytes ["DO-5", "ER-9", "ER-10"] [Limits];
            load: a_write_has_a_thousand_changes_at_most ["DO-1", "ER-9"] [];
            load: a_value_has_a_limit ["ER-9", "ER-10"] [Limits];
            list: keys_are_ordered_segment_by_segment ["DO-6"] [];
            list: a_prefix_ends_with_a_segment ["DO-6", "DO-7"] [];
            list: bounds_limit_a_list ["DO-6", "PG-9"] [];
            list: a_list_continues_after_a_prefix ["DO-6", "PG-9"] [];
            list: a_bound_is_not_longer_than_a_key ["DO-6"] [];
            list: a_list_is_walked_both_ways_in_pages ["DO-6", "PG-1", "PG-11"] [];
            list: a_walk_with_writes_misses_and_repeats_nothing ["DO-6", "PG-3"] [];
            list: a_list_that_ends_early_goes_on ["DO-6", "PG-10"] [];
            list: a_list_has_one_collection_and_one_scope ["DO-6"] [];
            list: a_cursor_belongs_to_one_list_of_documents ["DO-6", "PG-6"] [];
            key: ids_in_keys_are_kept_as_given ["DO-7", "ID-2"] [];
            key: segments_never_run_into_each_other ["DO-7", "ID-4"] [];
            key: a_number_is_not_its_text ["DO-7"] [];
            key: the_longest_keys_work ["DO-7", "ID-3"] [];
            thread: a_document_of_a_thread_needs_the_thread ["DO-8"] [];
            thread: documents_are_deleted_with_their_thread ["DO-8", "TH-21"] [];
            thread: a_recreated_thread_has_no_old_documents ["DO-8", "DO-3", "TH-24"] [];
            thread: every_thread_has_its_own_documents ["DO-8"] [];
            thread: a_write_concerns_one_thread_at_most ["DO-8"] [];
            thread: documents_do_not_change_their_thread ["DO-8", "TH-26"] [Time];
            thread: no_document_outlives_a_deletion_that_it_races_with ["DO-8"] [Race];
            commit: a_commit_writes_documents_in_its_step ["DO-9", "CM-1"] [];
            commit: a_commit_may_have_only_documents ["DO-9", "CM-8"] [];
            commit: a_refused_commit_changes_no_document ["DO-9", "CM-1"] [];
            commit: documents_are_judged_after_the_guard ["DO-9", "CM-43"] [];
            commit: documents_are_part_of_the_content_of_a_commit ["DO-9", "CM-10", "CM-11"] [];
            commit: a_commit_names_documents_of_its_own_thread ["DO-8", "DO-9"] [];
            commit: documents_of_commits_survive_a_reopen ["DO-9", "CM-10"] [Reopen];
            commit: one_of_several_commits_with_one_revision_succeeds ["DO-4", "DO-9"] [Race];
            claim: a_lower_claim_writes_no_document ["DO-13", "CM-32"] [];
            claim: a_refused_write_takes_no_thread_over ["DO-13"] [];
            claim: a_lost_claim_writes_no_document ["DO-13"] [Fenced, Time];
            claim: a_claim_covers_its_own_thread_only ["DO-13"] [];
            topic: an_event_is_in_each_of_its_topics ["EV-1"] [];
            topic: an_event_is_in_eight_topics_at_most ["EV-2", "ER-9"] [];
            topic: a_topic_numbers_its_events ["EV-3", "EV-12", "ID-7"] [];
            topic: a_list_of_a_topic_continues_after_its_cursor ["EV-10", "EV-11", "EV-27"] [];
            topic: topics_are_part_of_the_content_of_an_append ["EV-5", "EV-6"] [];
            topic: an_append_can_expect_the_count_of_a_topic ["EV-8", "EV-9"] [Race];
            topic: a_topic_can_be_subscribed ["EV-14", "EV-15"] [];
            topic: a_topic_can_be_trimmed ["EV-23", "EV-24", "EV-25"] [];
            topic: a_commit_appends_to_topics ["DO-9", "CM-21", "CM-22"] [];
            topic: topics_survive_a_reopen ["EV-1", "EV-3"] [Reopen];
            topic: topics_outlive_threads ["EV-26"] [];
            topic: a_tenant_with_topics_or_documents_exists ["TN-8"] [];
            prefix: documents_of_a_prefix_are_counted ["DO-11"] [];
            prefix: documents_of_a_prefix_are_deleted ["DO-11"] [];
            prefix: only_documents_that_were_not_put_since_are_deleted ["DO-11"] [Time];
            prefix: a_deletion_can_be_stopped_between_batches ["DO-11", "PR-17"] [];
            tenants: tenants_have_their_own_documents ["DO-12", "TN-1", "TN-2"] [];
            dropped_calls: a_dropped_call_on_documents_is_all_or_nothing ["PR-11", "PR-12", "PR-16"] [Race];
            dropped_calls: an_unknown_outcome_on_documents_can_be_resolved ["PR-20"] [];
        }
    };
}

document!(case_slice);
