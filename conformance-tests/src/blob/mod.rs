//! Cases about blobs (promises BL of the contract), which core keeps in objects and documents.

mod collect;
mod commit;
mod erase;
pub(crate) mod helpers;
mod moved;
mod pending;
mod put;
mod reading;
mod verify;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! blob {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] blob
            put: a_blob_is_read_as_it_was_put ["BL-1", "BL-2"] [Threads];
            put: the_same_bytes_are_stored_once ["BL-1"] [Threads];
            put: concurrent_puts_store_the_same_bytes_once ["BL-1"] [Threads, Race];
            put: blobs_of_tenants_are_apart ["BL-1", "TN-1"] [Threads];
            put: a_stream_that_fails_stores_nothing ["BL-1"] [Threads];
            put: blobs_survive_a_reopen ["BL-1"] [Threads, Reopen];
            put: a_deleted_tenant_has_no_blobs ["BL-1", "TN-8"] [Threads];
            put: blobs_are_listed_by_hash_in_pages ["BL-7", "PG-1"] [Threads];
            put: what_is_known_about_a_blob_is_loaded ["BL-7"] [Threads];
            reading: a_part_of_a_blob_is_read ["BL-2"] [Threads];
            reading: a_part_that_begins_after_the_end_is_refused ["BL-2"] [Threads];
            reading: an_unknown_blob_is_not_found ["BL-2"] [Threads];
            reading: changed_bytes_are_corrupt ["BL-2"] [Threads];
            reading: a_part_with_changed_bytes_is_corrupt ["BL-2"] [Threads];
            reading: missing_bytes_are_corrupt ["BL-2"] [Threads];
            verify: changed_and_missing_bytes_are_found ["BL-8", "VF-1"] [Threads];
            verify: what_interrupted_calls_left_is_no_damage ["BL-8"] [Threads];
            moved: a_large_block_comes_back_as_it_was ["BL-3"] [Threads];
            moved: every_kind_of_large_block_comes_back ["BL-3"] [Threads];
            moved: a_large_block_leaves_its_record ["BL-3"] [Threads];
            moved: a_call_of_a_tool_stays_in_its_record ["BL-3"] [Threads];
            moved: moving_can_be_switched_off ["BL-3"] [Threads];
            moved: equal_blocks_are_stored_once ["BL-1", "BL-3"] [Threads];
            moved: a_repeated_commit_returns_its_receipt ["BL-3", "CM-10"] [Threads];
            moved: a_budget_counts_whole_messages ["BL-3", "CX-19"] [Threads];
            moved: a_raw_line_comes_back ["BL-3"] [Threads];
            moved: a_moved_block_whose_blob_is_missing_is_corrupt ["BL-3"] [Threads];
            moved: a_page_of_large_blocks_is_short ["BL-3", "PG-10"] [Threads];
            commit: a_commit_that_names_a_missing_blob_is_refused ["BL-4"] [Threads];
            commit: a_commit_that_names_no_hash_is_refused ["BL-4"] [Threads];
            commit: a_commit_refers_to_the_blobs_that_it_names ["BL-4", "BL-7"] [Threads];
            commit: a_refused_commit_refers_to_nothing ["BL-4"] [Threads];
            commit: an_application_can_refer_to_a_blob ["BL-4"] [Threads];
            pending: input_that_names_a_missing_blob_is_refused ["BL-4"] [Threads];
            pending: large_input_comes_back_as_it_was ["BL-3"] [Threads];
            pending: a_blob_of_pending_input_stays ["BL-5"] [Threads, Time];
            collect: a_collection_leaves_a_blob_for_the_grace_time ["BL-5"] [Threads, Time];
            collect: a_blob_that_is_put_again_stays ["BL-5"] [Threads, Time];
            collect: a_touched_blob_stays ["BL-5"] [Threads, Time];
            collect: a_blob_of_a_thread_stays ["BL-5"] [Threads, Time];
            collect: a_blob_goes_after_its_last_thread ["BL-5"] [Threads, Time];
            collect: a_commit_takes_back_a_mark ["BL-4", "BL-5"] [Threads, Time];
            collect: a_removed_blob_can_be_put_again ["BL-5"] [Threads, Time];
            collect: a_collection_and_a_commit_exclude_each_other ["BL-4", "BL-5"] [Threads, Time, Race];
            collect: a_dry_collection_changes_nothing ["BL-5"] [Threads, Time];
            collect: a_collection_can_be_stopped_and_repeated ["BL-5"] [Threads, Time];
            collect: a_short_grace_time_is_refused ["BL-5"] [Threads];
            collect: what_interrupted_calls_left_is_removed ["BL-5"] [Threads, Time];
            collect: a_put_that_was_stopped_for_too_long_fails ["BL-5"] [Threads, Time];
            collect: unreferenced_blobs_are_removed_at_once ["BL-5"] [Threads];
            erase: the_blobs_of_an_erased_thread_are_gone ["BL-5", "PV-1"] [Threads];
            erase: an_interrupted_erasure_removes_the_blobs_later ["BL-5", "PV-2"] [Threads];
        }
    };
}

blob!(case_slice);
