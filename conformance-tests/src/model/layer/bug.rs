//! The planted bugs of layers: what each of them changes, and which case must find it.

use crate::model::bug::bugs;

bugs! {
    /// A planted bug: a deliberate mistake in a layer.
    LayerBug:
    /// A put forgets that the record is hidden.
    ContentRewritten = "config::a_record_is_loaded_as_it_was_put",
    /// A page of records has the last id first.
    RecordsUnordered = "config::records_are_listed_by_id_in_pages",
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
    /// As `GivesUpOnConflict`.
    GivesUpAtOnce = "layer::config_writers_at_the_same_time_all_have_entries",
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
    PositionForgotten = "layer::config_and_its_feed_survive_a_reopen",
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
    /// As `ExpiredPositionContinues`.
    TrimmedEntriesLeftOut = "layer::a_trimmed_feed_and_a_purged_audit_log_are_not_read_by_mistake",
    /// Config changes have no audit records.
    AuditForgotten = "audit::a_change_and_its_record_are_written_together",
    /// The audit record is written before the change.
    AuditBeforeTheChange = "audit::a_refused_change_has_no_record",
    /// As `AuditBeforeTheChange`.
    AuditInAStepOfItsOwn = "layer::config_its_feed_and_its_audit_are_one_step",
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
}
