//! The planted bugs of config, the audit log, profiles and the registry: what each of them changes, and which case must
//! find it.

/// Passes this list of planted bugs on, behind what it was given.
macro_rules! settings_bugs {
    ($next:ident $($given:tt)*) => {
        $next! { $($given)*
            /// A put forgets that the record is hidden.
            ContentRewritten = "config::a_record_is_loaded_as_it_was_put",
            /// A page of records has the last id first.
            RecordsUnordered = "config::records_are_listed_by_id_in_pages",
            /// Each list of namespaces begins with the first one.
            NamespacesFromTheFirst = "config::namespaces_are_listed_once_in_order",
            /// A deletion only hides the record.
            DeleteHides = "config::a_deleted_record_is_gone",
            /// A seed replaces the whole record.
            SeedReplaces = "config::a_seed_keeps_what_users_changed",
            /// Overrides replace the value.
            OverridesReplace = "config::overrides_are_merged_into_the_value",
            /// Overrides and hiding make a record.
            OverrideMakesARecord = "config::only_an_existing_record_is_overridden_or_hidden",
            /// Every record is loaded with the revision 1.
            RevisionStays = "config::revisions_grow_across_deletion_and_put",
            /// Expectations are not checked.
            ExpectationIgnored = "config::an_expectation_that_does_not_hold_changes_nothing",
            /// Expectations are checked before the write.
            ExpectationCheckedEarly = "config::one_of_several_writers_with_one_revision_succeeds",
            /// The expectation of a deletion is not checked.
            DeleteUnguarded = "config::a_delete_and_a_put_with_one_revision_exclude_each_other",
            /// A write is refused while another one runs.
            GivesUpOnConflict = "config::writers_without_expectations_all_succeed",
            /// The changes of a call are made one after another.
            ChangesOneByOne = "config::several_records_change_together",
            /// Of several changes of a record in one call, the last one is made.
            RecordNamedTwice = "config::a_call_names_a_record_once",
            /// Subscriptions leave out deletions.
            DeletionsHaveNoEntry = "config::every_change_has_one_entry",
            /// A put of the same value is written.
            UnchangedHasAnEntry = "config::a_change_that_changes_nothing_has_no_entry",
            /// All records of a call get the same revision in its answer.
            NumbersRepeat = "config::the_revision_of_a_record_is_its_number_in_the_feed",
            /// A subscription begins with the first entry.
            PositionIgnored = "config::a_subscription_continues_after_a_position",
            /// As `PositionIgnored`.
            PositionForgotten = "config::config_and_its_feed_survive_a_reopen",
            /// A snapshot reads its position after its records.
            SnapshotPositionLate = "config::a_snapshot_and_its_subscription_miss_nothing",
            /// A watch begins without records.
            WatchWithoutRecords = "config::a_watch_gives_what_is_present_and_every_change",
            /// A watch begins with the records of all namespaces.
            WatchOfAllNamespaces = "config::a_watch_has_one_namespace",
            /// A trim of the feed removes every entry.
            TrimIgnoresTime = "config::old_entries_are_trimmed_and_records_stay",
            /// A subscription from an expired position continues with what is there.
            ExpiredPositionContinues = "config::a_position_before_the_floor_is_refused",
            /// Config changes have no audit records.
            AuditForgotten = "audit::a_change_and_its_record_are_written_together",
            /// The audit record is written before the change.
            AuditBeforeTheChange = "audit::a_refused_change_has_no_record",
            /// A change that changes nothing has an audit record.
            UnchangedAudited = "audit::a_change_that_changes_nothing_has_no_record",
            /// Each change is recorded as an update.
            ActionAlwaysUpdate = "audit::the_action_follows_from_the_change",
            /// A record forgets its error.
            ErrorForgotten = "audit::a_record_can_be_written_alone",
            /// Secret values are stored.
            SecretsStored = "audit::values_of_secret_keys_are_not_stored",
            /// A page of records has the oldest one first.
            OldestFirst = "audit::records_are_listed_newest_first_in_pages",
            /// Lists ignore the actor.
            ActorFilterIgnored = "audit::records_of_an_actor_are_listed",
            /// A prefix of an actor must be the whole actor.
            PrefixIsWhole = "audit::records_of_actors_with_a_prefix_are_listed",
            /// Lists of a resource have the records of all resources.
            ResourceFilterIgnored = "audit::records_of_a_resource_are_listed",
            /// A folder contains itself, and everything else that begins with its name.
            FolderIsAPrefix = "audit::records_below_a_folder_are_listed",
            /// Only the first five folders of a path are looked at.
            DeepFolderCut = "audit::records_below_a_deep_folder_are_listed",
            /// Lists ignore the actions.
            ActionFilterIgnored = "audit::records_of_actions_are_listed",
            /// The first time of a list is excluded.
            FromExcluded = "audit::records_of_a_time_are_listed",
            /// The last time of a list is included.
            BeforeIncluded = "audit::records_of_a_time_are_listed",
            /// The filter for the actor is ignored if there is one for the resource.
            SecondFilterIgnored = "audit::all_filters_must_hold",
            /// A cursor of another order begins the list again.
            CursorOfAnotherOrder = "audit::a_cursor_belongs_to_one_order",
            /// A subscription gives the records of all actors and resources.
            SubscriptionUnfiltered = "audit::a_subscription_gives_old_and_new_records",
            /// A purge leaves the records in the order of their actors and resources.
            PurgeOfOneOrder = "audit::old_records_are_purged_from_every_order",
            /// A dry run of a purge removes records.
            DryRunPurges = "audit::a_dry_run_counts_old_records",
            /// A restoration takes the value before the change.
            RestoreTakesBefore = "audit::the_value_after_a_change_is_restored",
            /// A deletion cannot be restored.
            DeletionNotRestored = "audit::the_value_before_a_deletion_is_restored",
            /// A restoration ignores its expectation.
            RestoreUnguarded = "audit::a_restoration_can_expect_a_revision",
            /// A record of another resource is restored.
            RestoreAcrossResources = "audit::what_has_no_value_of_the_record_is_not_restored",

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
            /// After an owner, the other owners of its type are left out.
            ProfileOwnersLeftOut = "profile::owners_are_listed_once_in_order",
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
            /// A kind is listed once more for each of its definitions.
            KindsRepeated = "registry::kinds_are_listed_once_in_order",
            /// The last new version of a publication is not written.
            LastVersionForgotten = "registry::versions_are_published_together",
            /// The entry of the feed is written before the publication is judged.
            FeedBeforeTheDecision = "registry::a_refused_publication_changes_nothing",
            /// The ids of publications are not remembered.
            PublicationIdForgotten = "registry::the_id_of_a_publication_is_used_once",
            /// Publications are written without expectations.
            PublicationsUnguarded = "registry::snapshot_numbers_have_no_gaps",
            /// The latest publication is not found.
            LatestNotFound = "registry::a_publication_can_expect_the_latest_snapshot",
            /// The expected snapshot is checked some time before the write.
            SnapshotCheckedEarly = "registry::one_of_several_guarded_publications_succeeds",
            /// A publication does not note which snapshot it goes back to.
            RollbackForgotten = "registry::an_earlier_publication_is_published_again",
            /// Publications are listed oldest first.
            PublicationsOldestFirst = "registry::publications_are_listed_with_what_their_publishers_say",
            /// The id of each publication stands for the next one.
            IdsNameTheNext = "registry::a_manifest_has_the_published_versions",
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
            /// No pin is ever removed.
            PinsStay = "registry::a_purge_can_be_stopped",
            /// A pin does not look for the mark of a purge.
            MarksUnchecked = "registry::a_version_about_to_be_removed_cannot_be_pinned",
            /// A pin is written while a purge that has found no pin removes the version.
            PinsUnguarded = "registry::no_run_loses_a_version_that_it_pins",
            /// Each entry of the feed is written twice.
            FeedWrittenTwice = "registry::publications_and_archivals_come_once_in_order",
            /// Each entry of the feed names the first snapshot.
            FeedNamesTheFirst = "registry::a_subscription_continues_after_a_cursor",

            /// Audit records of a profile are not written.
            ProfileAuditForgotten = "audit::changes_of_a_profile_and_their_records_are_written_together",
            /// Audit records of a profile are written before the change.
            ProfileAuditInAStepOfItsOwn = "audit::a_refused_writer_of_a_profile_has_no_record",
            /// Audit records of the registry are not written.
            RegistryAuditForgotten = "audit::publications_and_their_records_are_written_together",
            /// Audit records of the registry are written before the change.
            RegistryAuditInAStepOfItsOwn = "audit::a_refused_publication_has_no_record",
            /// A restoration of a profile writes `null`.
            RestoredProfileIsNull = "audit::a_value_of_a_profile_is_restored",
            /// A restoration of a definition writes `null`.
            RestoredVersionIsNull = "audit::a_version_is_restored",
        }
    };
}

pub(super) use settings_bugs;
