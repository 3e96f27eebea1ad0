//! Cases about the replay log (promises RP of the contract), which core implements over topics and documents.

mod append;
pub(crate) mod helpers;
mod list;
mod redact;
mod retention;
mod write;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! replay {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] replay
            append: records_are_numbered_and_have_a_cursor ["RP-1"] [];
            append: an_append_is_all_or_nothing ["RP-1"] [];
            append: two_versions_of_a_protocol_are_two_streams ["RP-1"] [];
            append: bytes_are_returned_exactly ["RP-2"] [];
            append: empty_bytes_and_blank_names_are_refused ["RP-2", "ID-1"] [];
            append: an_identical_repeat_gives_the_first_record ["RP-3"] [];
            append: other_content_under_a_wire_id_is_refused ["RP-3"] [];
            append: a_wire_id_belongs_to_one_stream ["RP-3"] [];
            append: concurrent_repeats_append_one_record ["RP-3"] [Race];
            append: a_record_names_its_sources ["RP-9"] [];
            append: records_survive_a_reopen ["RP-1", "RP-2"] [Reopen];
            list: a_list_starts_after_its_cursor ["RP-4", "PG-1"] [];
            list: a_cursor_belongs_to_one_stream ["RP-4", "PG-6"] [];
            list: a_subscription_gives_stored_and_new_records_once ["RP-4"] [];
            list: a_subscription_continues_after_a_cursor ["RP-4"] [];
            list: a_hole_is_corrupt ["RP-9"] [];
            list: a_record_is_found_by_its_wire_id ["RP-10"] [];
            retention: expired_records_are_not_listed ["RP-5"] [];
            retention: an_expired_record_is_loaded_until_its_purge ["RP-8"] [];
            retention: a_purge_removes_expired_records ["RP-5", "RP-8"] [];
            retention: a_dry_run_of_a_replay_purge_changes_nothing ["RP-5"] [];
            retention: a_cursor_before_purged_records_is_refused ["RP-4", "RP-5"] [];
            retention: an_interrupted_purge_harms_no_later_record ["RP-3", "RP-5"] [];
            redact: a_redacted_record_keeps_its_place ["RP-6"] [];
            redact: redacted_bytes_are_gone ["RP-6"] [];
            write: a_record_is_part_of_a_commit ["RP-7", "CM-1"] [Threads];
            write: a_refused_commit_has_no_record ["RP-7", "CM-1"] [Threads];
            write: an_append_can_carry_a_claim ["CM-44"] [Threads];
            write: a_record_about_a_deleted_thread_is_refused ["TH-32"] [Threads];
        }
    };
}

replay!(case_slice);
