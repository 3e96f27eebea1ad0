//! The planted bugs: what each of them changes in the model, and which case must find it.

/// Defines the planted bugs of a part of the suite.
macro_rules! bugs {
    ($(#[$type_doc:meta])* $type:ident: $($(#[$doc:meta])* $bug:ident = $finding_case:literal,)*) => {
        $(#[$type_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])* #[doc = concat!("Found by the case `", $finding_case, "`.")] $bug,)*
        }

        impl $type {
            /// Every planted bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Returns the name of the case that must fail on a store with this bug.
            #[must_use]
            pub const fn finding_case(self) -> &'static str {
                match self {
                    $(Self::$bug => $finding_case,)*
                }
            }
        }
    };
}

pub(crate) use bugs;

bugs! {
    /// A planted bug: a deliberate mistake in the model.
    Bug:
    /// A guard that is one below the version is accepted.
    VersionOffByOne = "commit::a_guard_is_checked_against_the_version",
    /// A guard with an old version is accepted if the entry at that version has the same time as the newest entry.
    GuardComparesTimes = "commit::the_guard_any_creates_a_thread_that_never_existed",
    /// A commit of entries is acknowledged but not written if the new version is divisible by four.
    AckWithoutWriting = "commit::a_thousand_commits_follow_each_other",
    /// The guard of a commit is checked before the lock is taken.
    GuardOutsideTheLock = "commit::one_of_several_commits_with_the_same_guard_succeeds",
    /// A commit that repeats a commit key is applied again.
    KeyIgnored = "commit::commits_with_the_same_key_are_applied_once",
    /// A commit with the key of an earlier commit returns its receipt, even if the content is different.
    KeyContentIgnored = "commit::the_same_key_with_other_content_is_a_mismatch",
    /// The commit keys of one thread count for all threads of the tenant.
    KeysOfAllThreads = "commit::keys_belong_to_one_thread",
    /// A refused commit uses up its key.
    RefusedKeyStays = "commit::a_refused_commit_does_not_use_up_its_key",
    /// A commit that is refused with `Conflict` is still written.
    RefusedButApplied = "commit::no_part_of_a_refused_commit_appears_after_a_reopen",
    /// The state changes of a refused commit are written.
    StateWithoutEntries = "commit::no_part_of_a_refused_commit_is_stored",
    /// The entries of a refused commit that come before the invalid entry are written.
    EntriesBeforeTheBadOne = "log::a_parent_is_an_earlier_entry",
    /// A refused commit restores the data as it was when the call began, which undoes later writes of other callers.
    RefusalRollsBack = "commit::a_refused_commit_does_not_affect_other_writers",
    /// A write is accepted although a caller has already written under a higher claim number.
    FenceIgnored = "commit::no_lower_claim_writes_after_a_higher_one",
    /// A late commit creates a deleted thread again.
    LateCommitRevives = "thread::a_late_write_does_not_restore_a_deleted_thread",
    /// A deleted id is forgotten immediately.
    DeletionForgetsTheId = "thread::deleted_ids_are_remembered_for_thirty_days",
    /// A thread that is created under a deleted id has generation 1 again.
    GenerationForgotten = "thread::a_recreated_thread_is_a_different_thread",
    /// A thread that is created under a deleted id has the log of the old thread.
    OldLogReturns = "thread::a_deletion_removes_everything_of_the_thread",
    /// A commit raises the revision of the thread.
    CommitRaisesRevision = "thread::updates_and_commits_do_not_affect_each_others_guards",
    /// An update of metadata removes the keys that it does not name.
    UpdateForgetsMetadata = "thread::unguarded_updates_of_different_keys_all_take_effect",
    /// An update that changes nothing raises the revision.
    UnchangedUpdateRaisesRevision = "thread::an_update_without_effect_keeps_the_revision",
    /// `updated_at` goes back when the clock is set back.
    TimeGoesBack = "thread::activity_never_goes_back",
    /// A parent that does not exist is accepted.
    ParentUnchecked = "thread::a_parent_must_exist",
    /// A thread can become its own ancestor.
    CyclesAllowed = "thread::a_thread_is_never_its_own_ancestor",
    /// A deletion with `Reject` does not look for children.
    ChildrenIgnored = "thread::reject_refuses_a_thread_with_children",
    /// A deletion with `Detach` leaves the children with a parent that no longer exists.
    DetachForgotten = "thread::detach_leaves_children_without_a_parent",
    /// A deletion with `Detach` detaches the children in a separate first step, after which the call can be dropped.
    DetachBeforeDeletion = "thread::a_dropped_write_is_all_or_nothing",
    /// A deletion with `Cascade` deletes the children, but not their children.
    CascadeStopsEarly = "thread::cascade_deletes_all_descendants",
    /// `prune_threads` deletes threads with open runs.
    PruneTakesOpenRuns = "thread::threads_with_open_runs_are_not_pruned",
    /// `prune_threads` deletes threads although their children are not deleted.
    PruneTakesParents = "thread::threads_whose_children_stay_are_not_pruned",
    /// A rewind removes the entries after its target.
    RewindDeletes = "log::an_abandoned_branch_stays_as_it_was",
    /// The first entry of a fork becomes the parent of its siblings, which are the earlier children of its own parent.
    ForkTakesTheBranch = "log::a_fork_leaves_other_branches_alone",
    /// A side entry becomes the head.
    SideEntryIsHead = "log::a_side_entry_is_on_no_path",
    /// Checkpoints are numbered across all branches.
    CheckpointsCountTheLog = "log::checkpoints_are_numbered_along_their_path",
    /// The token counts of a thread are twice as large as they should be.
    TokensCountedTwice = "log::token_usage_is_summed",
    /// NUL characters are removed from texts.
    NulStripped = "ids::any_text_round_trips",
    /// Texts are cut at 65,535 bytes.
    LongTextsCut = "errors::texts_up_to_the_limit_are_kept",
    /// JSON values are parsed and written again, which changes their numbers.
    NumbersRewritten = "ids::json_round_trips_byte_for_byte",
    /// Thread ids are compared without case.
    CaseFolded = "ids::unusual_ids_are_stored_unchanged",
    /// The dedupe keys of dispatches are compared without the white space at their ends.
    DedupeKeysTrimmed = "ids::unusual_ids_work_everywhere",
    /// `load_entry` looks up the thread id and the entry id as one key, joined with a dot.
    IdsJoined = "ids::pairs_of_thread_and_entry_never_collide",
    /// A compaction of another branch changes the context.
    ForeignCompaction = "context::a_compaction_of_another_branch_has_no_effect",
    /// The context contains results without a call.
    OrphanResultsKept = "context::a_result_without_its_call_is_left_out",
    /// The context contains messages with visibility `aside`.
    AsideInContext = "context::a_context_has_only_messages_visible_to_the_model",
    /// A run that is done can be written again.
    DoneRunChanges = "run::a_done_run_never_changes",
    /// A run that is not done can change to any status.
    AnyTransition = "run::status_transitions_follow_the_table",
    /// A commit can use the id of a run of another thread.
    RunIdOfAnotherThread = "run::a_run_belongs_to_one_thread",
    /// `add` sets the value instead of adding to it.
    AddReplacesValue = "commit::an_operation_applies_to_the_stored_value",
    /// A page leaves out records that have the same time as the last record of the page before.
    CursorSkipsTies = "page::orders_are_total",
    /// A page begins with the last record of the page before.
    CursorRepeats = "page::a_walk_with_writes_between_pages_skips_and_repeats_nothing",
    /// Lists are in the order in which their records were created.
    InsertionOrder = "thread::threads_are_ordered_by_activity_or_creation",
    /// A page ignores its limit and contains the rest of the list.
    LimitIgnored = "page::no_page_exceeds_its_limit",
    /// A cursor is accepted for any filter and order of its list.
    CursorUnbound = "page::a_cursor_is_bound_to_its_list",
    /// A read does not see the last write.
    StaleRead = "process::writes_are_read_back_through_every_handle",
    /// A tenant sees the data of tenants whose names begin with its own name.
    TenantByPrefix = "tenant::tenants_see_only_their_own_records",
    /// A deletion also deletes the threads of tenants whose names differ only in case.
    DeletionFoldsCase = "tenant::no_data_of_another_tenant_can_be_reached",
    /// If a claim finds nothing, it claims from tenants whose names end with the name of its own tenant.
    ClaimsBySuffix = "tenant::no_data_of_another_tenant_can_be_reached",
    /// A subscription treats a tenant's name that ends with `*` as a pattern.
    SubscribesByPattern = "tenant::no_data_of_another_tenant_can_be_reached",
    /// A list of threads that continues from a cursor shows the tenant as it was before its deletion.
    DeletedTenantReturns = "page::an_old_cursor_shows_nothing_of_a_deleted_tenant",
    /// Handles of a deleted tenant still work.
    DeletedTenantUsable = "process::a_deleted_tenant_refuses_every_call",
    /// A closed store still works.
    ClosedStoreUsable = "process::a_closed_store_refuses_every_call",
    /// Every store of the backend has the same identity.
    IdentityOfTheBackend = "process::another_store_has_another_identity",
    /// Each opening of a store has an identity of its own.
    IdentityOfTheOpening = "process::each_opening_of_a_store_has_its_identity",
    /// A closed store still reports its health.
    HealthOfAClosedStore = "process::the_health_of_a_store_is_read",
    /// The health shows the clock of the host as that of the store.
    HealthOfTheHost = "process::the_health_shows_the_clock_of_the_store",
    /// Consumed input stays in the queue.
    ConsumedStays = "pending::consumed_input_is_an_entry_and_no_longer_pending",
    /// Consumed input is appended after the other entries of its commit.
    ConsumedComesLast = "pending::consumed_input_comes_first_in_the_order_given",
    /// A commit consumes an input without checking its revision.
    ConsumeUnguarded = "pending::only_pending_input_of_the_named_revision_is_consumed",
    /// Calls on a queue do not notice that an id is already in the log.
    ConsumedIdIsFree = "pending::consumed_input_can_no_longer_be_changed",
    /// A commit can give an entry the id of a pending input.
    PendingIdIsFree = "pending::an_entry_cannot_take_the_id_of_pending_input",
    /// An append is written although some of its inputs are already pending.
    AppendInPart = "pending::an_append_is_all_or_none",
    /// An append writes its first input in a separate first step, after which the call can be dropped.
    InputsOneByOne = "pending::a_dropped_call_on_a_queue_is_all_or_nothing",
    /// A changed input moves to the end of the queue.
    UpdateMovesToTheEnd = "pending::an_update_keeps_the_position",
    /// A change of an input is made without checking the expected revision.
    UpdateUnguarded = "pending::an_update_of_a_stale_revision_is_refused",
    /// A new order is accepted without checking the revision of the queue.
    ReorderUnguarded = "pending::a_reorder_names_every_input",
    /// The revision of a queue returns to 0 when the last input is retracted.
    RetractForgetsTheRevision = "pending::revisions_never_decrease",
    /// A ticket can be decided more than once.
    DecidedTwice = "pending::a_ticket_is_decided_once",
    /// `prune_threads` deletes threads that have pending input.
    PruneTakesPending = "pending::a_thread_with_input_is_not_pruned",
    /// The first event of an append is written separately, and is kept if the append is refused.
    FirstEventOfRefusedAppendStays = "event::an_append_is_all_or_none",
    /// An append that repeats a key appends its events again.
    EventKeyIgnored = "event::a_repeated_append_returns_the_first_events",
    /// Events get their numbers first, and become visible only when their append returns. Later events can become
    /// visible earlier.
    EventsVisibleLate = "event::no_event_becomes_visible_before_an_earlier_one",
    /// An append of events does not check the number of events that it expects in a scope.
    EventsUnguarded = "event::an_expectation_counts_all_events_ever_appended",
    /// A cursor below the floor is accepted.
    TrimmedCursorAccepted = "event::a_cursor_below_the_floor_is_refused",
    /// Trimming a scope also trims all other scopes of the trimmed events.
    TrimTakesBothScopes = "event::an_event_stays_in_its_other_scope",
    /// `list_events` ignores its filter and returns internal events too.
    InternalEventsShown = "event::a_filter_for_public_events_returns_no_others",
    /// A subscription that starts at `Now` begins with the last stored event.
    NowStartsAtLastEvent = "event::a_subscription_from_now_starts_after_all_existing_events",
    /// A subscription leaves out each event that follows an event whose number is divisible by five.
    SubscriberSkips = "event::a_subscriber_gets_stored_events_and_then_new_ones",
    /// The events of a refused commit are appended.
    RefusedEventsStay = "event::a_refused_commit_appends_nothing",
    /// Any token can settle, extend and start a claimed dispatch.
    TokenUnchecked = "mailbox::an_old_holder_writes_nothing",
    /// An `extend` with the token of an earlier claim takes the dispatch away from the current holder.
    ExtendRevives = "mailbox::a_dispatch_can_be_claimed_after_its_lease",
    /// An interrupt supersedes the queued dispatches, but does not raise the epoch.
    InterruptLeavesTheEpoch = "mailbox::an_interrupt_supersedes_queued_dispatches",
    /// A dispatch releases its dedupe key when it is claimed.
    KeyFreedByAClaim = "mailbox::a_key_is_taken_until_its_dispatch_ends",
    /// A finished dispatch keeps its dedupe key.
    KeyNeverFreed = "mailbox::an_interrupt_frees_the_keys_of_queued_dispatches",
    /// A lease expires one millisecond after its end.
    LeaseExpiresLate = "mailbox::a_dispatch_can_be_claimed_after_its_lease",
    /// A lease expires one millisecond before its end.
    LeaseExpiresEarly = "mailbox::an_extension_counts_from_now",
    /// A retried dispatch is available immediately, regardless of its delay.
    RetriedDispatchNotDelayed = "mailbox::a_retried_dispatch_waits_for_its_delay",
    /// If the lease of a dispatch expires, the attempt is not counted.
    LostLeaseNotCounted = "mailbox::the_last_lost_lease_makes_a_dead_letter",
    /// The repeat of a settlement counts one more attempt.
    RepeatedSettlementCounted = "mailbox::a_repeated_settlement_returns_the_first_answer",
    /// Within a thread, claims follow the order of the enqueues and ignore the priority.
    PriorityIgnored = "mailbox::priority_decides_within_a_thread",
    /// A claim can take a superseded dispatch.
    SupersededClaimed = "mailbox::a_claim_of_an_empty_mailbox_returns_nothing",
    /// A claim can take a dispatch of a thread that already has a claimed dispatch.
    BusyThreadClaimed = "mailbox::a_dispatch_goes_to_one_claimant",
    /// A purge also removes dispatches that ended exactly at the given time.
    PurgeIncludesItsTime = "mailbox::a_purge_removes_records_that_ended_before_its_time",
    /// A purge that names dispatches removes all that have ended.
    PurgeIgnoresIds = "mailbox::a_purge_can_name_dispatches",
    /// An interrupt remembers the keys that it is asked to forget.
    InterruptForgetsNothing = "mailbox::an_interrupt_can_forget_earlier_keys",
    /// A purge that names rows leaves those that a consumer holds.
    NamedRowPurgeSparesClaims = "outbox::a_purge_can_name_rows",
    /// A redaction leaves the correlation of an event.
    RedactionKeepsCorrelation = "event::a_redacted_event_keeps_its_place",
    /// A redaction does not forget keys.
    RedactionKeepsKeys = "event::a_redaction_forgets_the_key_of_its_append",
    /// The fence of a commit is checked by its claim number only, and not by the mailbox.
    FenceOfLostClaimAccepted = "commit::a_lost_claim_writes_nothing",
    /// A commit settles its claim before its guard is checked. If the commit is refused, the settlement is kept.
    SettledBeforeTheGuard = "commit::a_refused_commit_settles_nothing",
    /// The outbox rows of a refused commit are written.
    RefusedRowsStay = "outbox::a_refused_commit_writes_no_row",
    /// A row is written although its dedupe key is taken.
    RowKeyIgnored = "outbox::the_same_key_gives_the_first_row",
    /// A row whose dedupe key is taken is answered with the first row, even if the content is different.
    RowKeyContentIgnored = "outbox::a_key_with_other_content_refuses_the_commit",
    /// A final row releases its dedupe key before it is purged.
    RowKeyFreedEarly = "outbox::a_key_is_taken_until_its_row_is_purged",
    /// Any token can settle and extend a claimed row.
    RowTokenIgnored = "outbox::without_the_token_nothing_changes",
    /// A claim call waits after it has claimed. If it is dropped while it waits, its dispatches stay claimed.
    ClaimKept = "mailbox::a_claim_that_was_not_received_is_released",
    /// A claim call of the outbox waits after it has claimed. If it is dropped while it waits, its rows stay claimed.
    RowClaimKept = "outbox::a_claim_that_was_not_received_is_released",
    /// The lease of a row expires one millisecond after its end.
    RowLeaseExpiresLate = "outbox::an_expired_lease_frees_its_row",
    /// If the lease of a row expires, the attempt is not counted.
    RowLostLeaseNotCounted = "outbox::lost_leases_use_up_attempts",
    /// Failed attempts of a row are not counted.
    RowAttemptNotCounted = "outbox::a_row_without_remaining_attempts_becomes_a_dead_letter",
    /// A retried row is available immediately, regardless of its delay.
    RetriedRowNotDelayed = "outbox::a_retried_row_waits_for_its_delay",
    /// A claim can take a dead letter of the outbox.
    DeadLetterClaimed = "outbox::final_rows_are_never_claimed",
    /// Several rows with one order key can be claimed at the same time.
    OrderKeyIgnored = "outbox::rows_of_an_order_key_are_claimed_one_at_a_time",
    /// A row can be claimed before an earlier row of its order key that is not yet available.
    WaitingRowDoesNotBlock = "outbox::a_waiting_row_blocks_later_rows_of_its_order_key",
    /// A requeued row comes after all other rows with its order key.
    RequeuedComesLast = "outbox::a_requeued_row_keeps_its_position",
    /// A purge also removes rows that ended exactly at the given time.
    RowPurgeIncludesItsTime = "outbox::a_purge_removes_records_that_ended_before_its_time",
    /// A command counts as delivered as soon as it is sent.
    DeliveredWhenSent = "live::delivered_means_accepted",
    /// A command without a receiver waits for the next receiver of its target.
    CommandKept = "live::delivered_means_accepted",
    /// A receiver may answer only in the first half of the time until the deadline.
    DeadlineHalved = "live::a_receiver_may_answer_until_the_deadline",
    /// When the deadline passes, the delivery ends with `NoReceiver` instead of `Unknown`.
    TimeoutIsNoReceiver = "live::a_delivery_without_a_timely_answer_is_unknown",
    /// If a target is opened again, the earlier receiver does not end.
    EarlierReceiverStays = "live::opening_again_ends_the_earlier_receiver",
    /// The command that was sent last is received first.
    LastCommandFirst = "live::commands_of_a_sender_arrive_in_order",
    /// All attempts of a dispatch have the same target.
    AttemptIgnored = "live::an_earlier_attempt_gets_nothing",
    /// The delivery of a command that its receiver cannot read ends with `NoReceiver` instead of an error.
    UnreadableDropped = "live::an_unreadable_command_is_refused",
    /// All tenants share their targets.
    TargetsOfAllTenants = "live::tenants_have_their_own_targets",
    /// A receiver keeps waiting after the store is closed.
    ReceiverOutlivesClosing = "live::closing_ends_receivers",
    /// An append checks whether its ids are in the log, and writes the inputs some time later.
    AppendChecksEarly = "live::input_enters_the_log_once",
    /// A wait lasts until its timeout, even if there is work.
    NewWorkWakesNobody = "live::new_work_wakes_waiting_workers",
    /// A wait does not end when a dispatch becomes due during the wait.
    DueWorkWakesNobody = "live::a_dispatch_that_becomes_due_wakes_waiting_workers",
    /// A wait ends immediately, even if there is no work.
    WaitEndsAtOnce = "live::a_wait_ends_at_its_timeout",
    /// A wait continues after the store is closed.
    WaitOutlivesClosing = "live::closing_ends_waits",
    /// A claim finds nothing before a worker has called `wait`.
    ClaimNeedsEarlierWait = "live::a_worker_that_never_waits_finds_all_work",
    /// An enqueue with an id that is in use is refused, even if it repeats the first enqueue exactly.
    RepeatedEnqueueRefused = "mailbox::an_unknown_outcome_on_a_mailbox_can_be_resolved",
    /// A claim of rows that finds none returns rows that were claimed before, with their tokens.
    ClaimedRowGivenAgain = "outbox::an_unknown_outcome_on_an_outbox_can_be_resolved",
    /// The reset of a fence does nothing.
    FenceKept = "errors::an_unknown_outcome_of_maintenance_can_be_resolved",
    /// A commit settles its claim in a separate first step, after which the call can be dropped.
    CommitSettlesInOwnStep = "commit::a_dropped_settling_commit_is_all_or_nothing",
    /// A reclaim counts lost attempts in a separate first step, after which the call can be dropped.
    ReclaimInTwoSteps = "mailbox::a_dropped_reclaim_is_all_or_nothing",
    /// If the call that deletes a tenant is dropped halfway, a repeated call removes nothing.
    RepeatedDeletionDoesNothing = "process::a_dropped_call_on_a_store_leaves_nothing_locked",
    /// A store that is dropped closes the handles of its tenants.
    HandlesEndWithTheStore = "process::handles_keep_the_store_open",
    /// Commit keys are lost when the store is opened again.
    ReopenForgetsKeys = "commit::a_commit_key_survives_a_reopen",
    /// The value of a document is parsed and written again.
    DocumentValueRewritten = "document::a_written_document_is_loaded_as_it_was_given",
    /// The changes of a refused write that come before the refused change are made.
    DocumentsBeforeTheRefusedOne = "document::a_write_happens_as_a_whole_or_not_at_all",
    /// Documents are lost when the store is opened again.
    ReopenForgetsDocuments = "document::documents_survive_a_reopen",
    /// The events of a refused write of documents are appended.
    EventsOfRefusedDocuments = "document::events_are_appended_with_the_documents",
    /// A write can name a document twice.
    DocumentNamedTwice = "document::a_write_names_a_document_once",
    /// A write of documents without changes and events is accepted.
    EmptyDocumentWriteAccepted = "document::an_empty_write_is_refused",
    /// A put sets the time of creation again.
    DocumentCreatedAgain = "document::a_put_replaces_the_value_and_keeps_the_creation",
    /// The time of a document goes back when the clock is set back.
    DocumentTimeGoesBack = "document::the_times_of_a_document_never_go_back",
    /// A put over a document leaves its time as it is.
    DocumentTimeStays = "document::only_documents_that_were_not_put_since_are_deleted",
    /// The first change of a write is made in a separate first step.
    DocumentsOneByOne = "document::readers_see_whole_writes",
    /// A change that expects no document is made although there is one.
    AbsenceUnchecked = "document::the_absence_of_a_document_can_be_expected",
    /// A change that expects a document is made although there is none.
    PresenceUnchecked = "document::the_presence_of_a_document_can_be_expected",
    /// A change that expects a revision is made at any revision.
    DocumentRevisionUnchecked = "document::a_revision_can_be_expected",
    /// A change that expects a revision is made although there is no document.
    DeletedRevisionHolds = "document::a_revision_does_not_match_a_deleted_document",
    /// A conflict names the last expectation that does not hold.
    ConflictNamesTheLast = "document::the_first_expectation_that_fails_is_named",
    /// A check puts its document again, with a new revision.
    CheckPutsADocument = "document::a_check_changes_nothing",
    /// Deleting a document that does not exist is a conflict.
    DeleteNeedsTheDocument = "document::a_missing_document_can_be_deleted",
    /// Each document of a write gets a revision of its own.
    RevisionPerChange = "document::documents_of_one_write_have_one_revision",
    /// A revision counts the puts of its document since the document was created.
    RevisionStartsAgain = "document::revisions_grow_across_deletion_and_put",
    /// Revisions begin again when the store is opened again.
    ReopenResetsRevisions = "document::revisions_grow_after_a_reopen",
    /// Revisions begin again after the deletion of the tenant.
    RevisionsOfADeletedTenantReturn = "document::revisions_of_a_deleted_tenant_do_not_return",
    /// The expectations of a write are checked before the lock is taken.
    DocumentGuardOutsideTheLock = "document::one_of_several_writers_with_one_revision_succeeds",
    /// A write is acknowledged but not made if its revision is divisible by seven.
    DocumentAckWithoutWriting = "document::writers_without_expectations_all_succeed",
    /// Documents are loaded in the order of their keys.
    DocumentsLoadedInKeyOrder = "document::documents_are_loaded_in_the_order_given",
    /// A load leaves out documents that do not exist.
    MissingDocumentsLeftOut = "document::a_missing_document_is_absent",
    /// Each document of a load is read in a step of its own.
    DocumentsLoadedOneByOne = "document::a_load_shows_one_moment",
    /// A load may name any number of documents.
    LoadUnlimited = "document::a_load_has_a_thousand_documents_at_most",
    /// The values of a load may have any number of bytes together.
    LoadBytesUnlimited = "document::a_load_has_a_limit_of_bytes",
    /// A write may have any number of changes.
    DocumentChangesUnlimited = "document::a_write_has_a_thousand_changes_at_most",
    /// The value of a document may have any size.
    DocumentValueUnlimited = "document::a_value_has_a_limit",
    /// Numbers in keys are ordered as texts.
    NumbersOrderedAsText = "document::keys_are_ordered_segment_by_segment",
    /// The last segment of a prefix may be the beginning of a longer segment.
    PrefixEndsInsideAnId = "document::a_prefix_ends_with_a_segment",
    /// A list of documents includes its upper bound.
    ListIncludesItsEnd = "document::bounds_limit_a_list",
    /// A list after a prefix has the longer keys that begin with it.
    PrefixNotSkipped = "document::a_list_continues_after_a_prefix",
    /// A prefix or a bound may be longer than any key.
    LongBoundAccepted = "document::a_bound_is_not_longer_than_a_key",
    /// A backward list of documents is a forward list.
    DocumentsOnlyForward = "document::a_list_is_walked_both_ways_in_pages",
    /// A list of documents ends after 64 MiB.
    DocumentsOfOnePageOnly = "document::a_list_that_ends_early_goes_on",
    /// A cursor of a list of documents stands for a number of documents.
    DocumentCursorCounts = "document::a_walk_with_writes_misses_and_repeats_nothing",
    /// A list shows the documents of all collections.
    CollectionIgnored = "document::a_list_has_one_collection_and_one_scope",
    /// Keys of documents are compared without case.
    KeysFolded = "document::ids_in_keys_are_kept_as_given",
    /// Keys of documents are compared as texts, joined with slashes.
    KeySegmentsJoined = "document::segments_never_run_into_each_other",
    /// A number in a key equals the id with the same digits.
    NumbersEqualTheirText = "document::a_number_is_not_its_text",
    /// Only the first 300 characters of a key are compared.
    LongKeysCut = "document::the_longest_keys_work",
    /// A document can belong to a thread that does not exist.
    ThreadOfDocumentUnchecked = "document::a_document_of_a_thread_needs_the_thread",
    /// Documents stay when their thread is deleted.
    DocumentsOutliveTheirThread = "document::documents_are_deleted_with_their_thread",
    /// The cursor of a deleted thread's documents works on those of a new thread.
    DocumentCursorsOutliveTheirThread = "document::a_recreated_thread_has_no_old_documents",
    /// All threads share their documents.
    ThreadsShareDocuments = "document::every_thread_has_its_own_documents",
    /// A write may name documents of several threads.
    SeveralThreadsOfDocuments = "document::a_write_concerns_one_thread_at_most",
    /// A write of a document moves the time of its thread.
    DocumentsRaiseTheirThread = "document::documents_do_not_change_their_thread",
    /// A write checks some time before its atomic step whether the thread exists.
    ThreadOfDocumentCheckedEarly = "document::no_document_outlives_a_deletion_that_it_races_with",
    /// A commit puts documents, but does not delete any.
    CommitDeletesNoDocument = "document::a_commit_writes_documents_in_its_step",
    /// A commit that has only documents counts as empty.
    DocumentsAreNoContent = "document::a_commit_may_have_only_documents",
    /// The documents of a refused commit are changed.
    RefusedDocumentsStay = "document::a_refused_commit_changes_no_document",
    /// The expectations of a commit's documents are checked before its key and guard.
    DocumentsBeforeTheGuard = "document::documents_are_judged_after_the_guard",
    /// The documents of a commit are not part of its content.
    DocumentsNotInTheContent = "document::documents_are_part_of_the_content_of_a_commit",
    /// The receipt of a repeated commit lacks the revision of its documents.
    ReceiptForgetsDocuments = "document::documents_of_commits_survive_a_reopen",
    /// The expectations of a commit's documents are checked before the lock is taken.
    CommitDocumentsUnguarded = "document::one_of_several_commits_with_one_revision_succeeds",
    /// A write of documents does not raise the highest claim number of its thread.
    DocumentFenceForgotten = "document::a_lower_claim_writes_no_document",
    /// A refused write of documents raises the highest claim number of its thread.
    RefusedDocumentFenceStays = "document::a_refused_write_takes_no_thread_over",
    /// A write of documents does not check its claim.
    DocumentFenceIgnored = "document::a_lost_claim_writes_no_document",
    /// Under a claim, events of any thread can be appended with documents.
    FenceCoversAnyThread = "document::a_claim_covers_its_own_thread_only",
    /// An event is only in the first of its topics.
    SecondTopicForgotten = "document::an_event_is_in_each_of_its_topics",
    /// An event can be in any number of topics.
    NinthTopicAccepted = "document::an_event_is_in_eight_topics_at_most",
    /// A draft can name a topic twice.
    TopicNamedTwice = "document::an_event_is_in_eight_topics_at_most",
    /// Events of a topic are also in the scope of the thread with its name.
    TopicsAreThreads = "document::a_topic_numbers_its_events",
    /// The topics of a draft are not part of the content of an append.
    TopicsNotInTheContent = "document::topics_are_part_of_the_content_of_an_append",
    /// Events of a commit that have another scope are in no topic.
    CommitForgetsTopics = "document::a_commit_appends_to_topics",
    /// The events of topics are lost when the store is opened again.
    ReopenForgetsTopics = "document::topics_survive_a_reopen",
    /// The deletion of a thread removes the events of all topics.
    TopicsEndWithAThread = "document::topics_outlive_threads",
    /// A tenant that has only documents is not in the list of tenants.
    TenantOfDocumentsUnlisted = "document::a_tenant_with_topics_or_documents_exists",
}
