//! Cases about the registry (promises RG of the contract), which core implements over documents and topics.

mod feed;
pub(crate) mod helpers;
mod manifest;
mod publication;
mod retention;
mod version;

/// Passes the list of the cases of this area to the macro `$callback`. Each item of the list has the file, the case,
/// the promises of the contract that the case tests, and what the case needs.
#[doc(hidden)]
#[macro_export]
macro_rules! registry {
    ($callback:ident $($arguments:tt)*) => {
        $crate::$callback! { [$($arguments)*] registry
            version: changed_content_gets_the_next_version ["RG-1"] [];
            version: equal_content_gets_no_version ["RG-1", "RG-3"] [];
            version: content_of_an_older_version_is_new ["RG-1"] [];
            version: a_version_never_changes ["RG-2"] [];
            version: versions_of_an_archived_definition_are_read ["RG-2"] [];
            version: the_registry_survives_a_reopen ["RG-2"] [Reopen];
            version: a_content_hash_is_the_same_everywhere ["RG-3"] [];
            version: values_without_a_hash_are_refused ["RG-3"] [];
            version: concurrent_contents_get_different_versions ["RG-4"] [Race];
            version: a_rollback_copies_an_older_version ["RG-5"] [];
            version: an_archived_definition_is_not_published ["RG-5", "RG-7"] [];
            version: archiving_may_be_repeated ["RG-5"] [];
            version: kinds_are_listed_once_in_order ["RG-14"] [];
            publication: versions_are_published_together ["RG-6"] [];
            publication: a_refused_publication_changes_nothing ["RG-6", "RG-12"] [];
            publication: the_id_of_a_publication_is_used_once ["RG-6"] [];
            publication: a_publication_names_each_definition_once ["RG-7"] [];
            publication: snapshot_numbers_have_no_gaps ["RG-4", "RG-7"] [Race];
            publication: a_publication_can_expect_the_latest_snapshot ["RG-8"] [];
            publication: one_of_several_guarded_publications_succeeds ["RG-8"] [Race];
            publication: an_earlier_publication_is_published_again ["RG-13"] [];
            publication: publications_are_listed_with_what_their_publishers_say ["RG-13"] [];
            manifest: a_manifest_has_the_published_versions ["RG-9"] [];
            manifest: a_manifest_without_its_version_is_corrupt ["RG-9"] [];
            manifest: a_manifest_with_other_content_is_corrupt ["RG-9"] [];
            manifest: references_are_resolved_inside_of_a_manifest ["RG-10"] [];
            retention: a_purge_keeps_what_is_needed ["RG-11"] [Threads];
            retention: a_dry_purge_changes_nothing ["RG-11"] [Threads];
            retention: a_purge_can_be_stopped ["RG-11"] [Threads];
            retention: a_pinned_version_stays_until_its_run_is_done ["RG-11"] [Threads];
            retention: a_version_about_to_be_removed_cannot_be_pinned ["RG-11"] [Threads];
            retention: no_run_loses_a_version_that_it_pins ["RG-11"] [Threads, Race];
            feed: publications_and_archivals_come_once_in_order ["RG-12"] [];
            feed: a_subscription_continues_after_a_cursor ["RG-12"] [];
        }
    };
}

registry!(case_slice);
