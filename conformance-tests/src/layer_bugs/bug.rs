//! The list of the planted bugs of layers.

macro_rules! layer_bugs {
    ($($(#[$doc:meta])* $bug:ident = $finding_case:literal,)*) => {
        /// A planted bug of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum LayerBug {
            $($(#[$doc])* #[doc = concat!("Found by the case `", $finding_case, "`.")] $bug,)*
        }

        impl LayerBug {
            /// Every planted bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Returns the name of the case that must fail with this bug.
            #[must_use]
            pub const fn finding_case(self) -> &'static str {
                match self {
                    $(Self::$bug => $finding_case,)*
                }
            }
        }
    };
}

layer_bugs! {
    /// The value of a profile is parsed and written again.
    ProfileNumbersRewritten = "profile::a_value_is_loaded_as_it_was_put",
    /// For a value that does not exist, another one is returned.
    ProfileMissingValueInvented = "profile::an_unknown_value_is_absent",
    /// Profiles are lost when the store is opened again.
    ReopenForgetsProfiles = "profile::values_survive_a_reopen",
    /// A put that expects a revision is made at any revision.
    ProfileRevisionIgnored = "profile::a_revision_can_be_expected",
    /// A put that expects no value replaces one.
    ProfileAbsenceIgnored = "profile::the_absence_of_a_value_can_be_expected",
    /// Expectations are checked some time before the write.
    ProfileCheckedEarly = "profile::one_of_several_writers_with_one_expectation_succeeds",
    /// A deletion does not check its expectation.
    ProfileDeletionUnguarded = "profile::a_deletion_checks_its_expectation",
    /// Deleting a value that does not exist is a conflict.
    ProfileDeletionNeedsTheValue = "profile::a_deletion_may_be_repeated",
    /// The revision of a value that is put again starts with 1.
    ProfileRevisionStartsAgain = "profile::revisions_grow_across_deletion_and_put",
    /// A profile is listed backwards.
    ProfileListedBackward = "profile::a_profile_is_listed_by_key_in_pages",
    /// A list has the values of all owners of a type.
    ProfileListHasAllOwners = "profile::a_list_has_one_owner",
    /// Clearing a profile removes the values of all owners of its type.
    ProfileClearHasAllOwners = "profile::clearing_removes_the_values_of_one_owner",
    /// Owners of different types with equal ids are one owner.
    ProfileOwnersMerged = "profile::owners_with_equal_ids_are_apart",
    /// Keys are kept in lower case.
    ProfileKeysFolded = "profile::keys_are_kept_as_given",
    /// A write makes its first change only.
    ProfileFirstChangeOnly = "profile::several_keys_change_together",
    /// The first change of a refused write is made.
    ProfileRefusedChangeStays = "profile::a_refused_write_changes_no_key",
    /// Of two changes of one key the last one is made.
    ProfileKeyNamedTwice = "profile::a_write_names_a_key_once",
    /// Operations are applied to no value, whatever is stored.
    ProfileOperationsForgetTheValue = "profile::operations_follow_the_rules_of_the_state",
    /// Expectations of operations are compared with a revision that is one too high.
    ProfileRevisionTooHigh = "profile::an_operation_checks_its_expectation",
    /// An operation overwrites what was written since it was decided.
    ProfileOperationUnguarded = "profile::concurrent_additions_all_count",

    /// Each version is written over the first one.
    VersionsOverwritten = "registry::changed_content_gets_the_next_version",
    /// Content is never recognised as that of the current version.
    CurrentHashForgotten = "registry::equal_content_gets_no_version",
    /// Content is compared with the first version instead of the current one.
    ComparedWithTheFirstVersion = "registry::content_of_an_older_version_is_new",
    /// A new version replaces the content of the first one.
    FirstVersionFollows = "registry::a_version_never_changes",
    /// Archiving removes the first version.
    ArchivingRemovesAVersion = "registry::versions_of_an_archived_definition_are_read",
    /// Definitions are lost when the store is opened again.
    ReopenForgetsDefinitions = "registry::the_registry_survives_a_reopen",
    /// The stored hash has no name in front.
    HashWithoutName = "registry::a_content_hash_is_the_same_everywhere",
    /// Versions are written without expectations.
    VersionsUnguarded = "registry::concurrent_contents_get_different_versions",
    /// A copy does not note where it comes from.
    CopyWithoutOrigin = "registry::a_rollback_copies_an_older_version",
    /// Archived definitions are published.
    ArchivedIgnored = "registry::an_archived_definition_is_not_published",
    /// Archiving changes nothing.
    ArchivingForgotten = "registry::archiving_may_be_repeated",
    /// The last new version of a publication is not written.
    LastVersionForgotten = "registry::versions_are_published_together",
    /// The entry of the feed is written before the publication is judged.
    FeedBeforeTheDecision = "registry::a_refused_publication_changes_nothing",
    /// The ids of publications are not remembered.
    PublicationIdForgotten = "registry::the_id_of_a_publication_is_used_once",
    /// Publications are written without expectations.
    PublicationsUnguarded = "registry::snapshot_numbers_have_no_gaps",
    /// The latest snapshot number is not written.
    LatestForgotten = "registry::a_publication_can_expect_the_latest_snapshot",
    /// The expected snapshot is checked some time before the write.
    SnapshotCheckedEarly = "registry::one_of_several_guarded_publications_succeeds",
    /// A publication does not note which snapshot it goes back to.
    RollbackForgotten = "registry::an_earlier_publication_is_published_again",
    /// Publications are listed oldest first.
    PublicationsOldestFirst = "registry::publications_are_listed_with_what_their_publishers_say",
    /// The id of each publication stands for the latest one.
    IdsNameTheLatest = "registry::a_manifest_has_the_published_versions",
    /// Deleted versions are still loaded.
    DeletedVersionsLoaded = "registry::a_manifest_without_its_version_is_corrupt",
    /// Changed versions are loaded as they were.
    ChangedVersionsIgnored = "registry::a_manifest_with_other_content_is_corrupt",
    /// The manifest of a snapshot is that of the next one.
    NextSnapshotLoaded = "registry::references_are_resolved_inside_of_a_manifest",
    /// Publications do not keep their versions.
    PublishedForgotten = "registry::a_purge_keeps_what_is_needed",
    /// A purge finds no pins.
    PinsNotFound = "registry::a_dry_purge_changes_nothing",
    /// The mark of a version that stays is not taken back.
    MarksStay = "registry::a_pinned_version_stays_until_its_run_is_done",
    /// A pin does not look for the mark of a purge.
    MarksUnchecked = "registry::a_version_about_to_be_removed_cannot_be_pinned",
    /// A pin is written while a purge that has found no pin removes the version.
    PinsUnguarded = "registry::no_run_loses_a_version_that_it_pins",
    /// Each entry of the feed is written twice.
    FeedWrittenTwice = "registry::publications_and_archivals_come_once_in_order",
    /// Each entry of the feed names the first snapshot.
    FeedNamesTheFirst = "registry::a_subscription_continues_after_a_cursor",
}
