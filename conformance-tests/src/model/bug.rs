//! The planted bugs: what each of them breaks in the model, and which case must find it.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $killer:literal,)*) => {
        /// A planted bug: a deliberate mistake in the model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[$doc])* #[doc = concat!("Killed by `", $killer, "`.")] $bug,)*
        }

        impl Bug {
            /// Every planted bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Returns the name of the case that must fail on a store with this bug.
            #[must_use]
            pub const fn killer(self) -> &'static str {
                match self {
                    $(Self::$bug => $killer,)*
                }
            }
        }
    };
}

bugs! {
    /// A guard that is one below the version is accepted.
    VersionOffByOne = "commit::a_guard_is_judged_by_the_version",
    /// A guard is accepted if the entry at its version has the same time as the newest entry.
    VersionByTime = "commit::any_makes_a_thread_that_never_existed",
    /// A commit of entries is acknowledged but not written if the new version is divisible by four.
    AckWithoutWriting = "commit::a_thousand_commits_follow_each_other",
    /// The guard of a commit is checked before the lock is taken.
    GuardOutsideTheLock = "commit::one_guard_has_one_winner",
    /// A commit that repeats a commit key is applied again.
    KeyIgnored = "commit::a_key_is_applied_once",
    /// A commit with the key of an earlier commit returns its receipt, even if the content is different.
    KeyContentIgnored = "commit::other_content_is_a_mismatch",
    /// The commit keys of one thread count for all threads of the tenant.
    KeysOfAllThreads = "commit::keys_belong_to_one_thread",
    /// A refused commit uses up its key.
    RefusedKeyStays = "commit::a_refused_commit_leaves_no_key",
    /// A commit that is refused with `Conflict` is written nevertheless.
    RefusedButApplied = "commit::no_part_of_a_refused_commit_comes_later",
    /// The state changes of a refused commit are written.
    StateWithoutEntries = "commit::no_part_of_a_refused_commit_is_there",
    /// The entries of a refused commit are written up to the one that is refused.
    EntriesBeforeTheBadOne = "log::a_parent_is_an_earlier_entry",
    /// A refused commit restores the data from the beginning of the call, and so undoes what others wrote since.
    RefusalRollsBack = "commit::a_refused_commit_disturbs_nobody",
    /// A write is accepted although a higher claim number wrote before.
    FenceIgnored = "commit::no_lower_claim_writes_after_a_higher",
    /// A late commit creates a deleted thread again.
    LateCommitRevives = "thread::a_late_write_does_not_bring_it_back",
    /// A deleted id is forgotten at once.
    DeletionForgetsTheId = "thread::deleted_ids_are_remembered_for_thirty_days",
    /// A thread that is created under a deleted id has generation 1 again.
    GenerationForgotten = "thread::a_thread_made_anew_is_another_one",
    /// A thread that is created under a deleted id has the log of the old thread.
    OldLogReturns = "thread::a_deletion_removes_everything_of_the_thread",
    /// A commit raises the revision of the thread.
    CommitMovesTheRevision = "thread::updates_and_commits_keep_out_of_each_others_guards",
    /// An update of metadata removes the keys that it does not name.
    UpdateForgetsMetadata = "thread::unguarded_updates_of_different_keys_all_land",
    /// An update that changes nothing raises the revision.
    UnchangedCounts = "thread::an_update_that_changes_nothing_raises_nothing",
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
    /// A deletion with `Detach` detaches the children in a step of its own, after which the call can be dropped.
    DetachBeforeDeletion = "thread::a_dropped_write_is_whole_or_nothing",
    /// A deletion with `Cascade` deletes the children, but not their children.
    CascadeStopsEarly = "thread::cascade_deletes_all_descendants",
    /// `prune_threads` deletes threads with open runs.
    PruneTakesOpenRuns = "thread::threads_with_open_runs_are_not_pruned",
    /// `prune_threads` deletes threads whose children stay.
    PruneTakesParents = "thread::threads_whose_children_stay_are_not_pruned",
    /// A rewind removes the entries after its target.
    RewindDeletes = "log::an_abandoned_branch_stays_as_it_was",
    /// A fork becomes the parent of the entries that were already children of its parent.
    ForkTakesTheBranch = "log::a_fork_leaves_other_branches_alone",
    /// A side entry becomes the head.
    SideEntryIsHead = "log::a_side_entry_lies_beside_the_path",
    /// Checkpoints are numbered across all branches.
    CheckpointsCountTheLog = "log::checkpoints_are_numbered_along_their_path",
    /// The token counts of a thread are twice as large as they should be.
    SumsCountedTwice = "log::what_was_spent_is_summed",
    /// NUL characters are removed from texts.
    NulStripped = "ids::any_text_comes_back_equal",
    /// Texts are cut at 65,535 bytes.
    LongTextsCut = "errors::any_size_up_to_the_limit_is_kept",
    /// JSON values are parsed and written again, which changes their numbers.
    NumbersRewritten = "ids::json_comes_back_byte_for_byte",
    /// Thread ids are compared without case.
    CaseFolded = "ids::hostile_ids_are_kept_as_they_are",
    /// The dedupe keys of dispatches are compared without the blanks at their ends.
    DedupeKeysTrimmed = "ids::hostile_ids_work_everywhere",
    /// `load_entry` looks up the thread id and the entry id as one key, joined with a dot.
    IdsJoined = "ids::pairs_of_thread_and_entry_never_meet",
    /// A compaction of another branch changes the context.
    ForeignCompaction = "context::a_compaction_of_another_branch_has_no_effect",
    /// The context contains results without a call.
    OrphanResultsKept = "context::a_result_without_its_call_is_left_out",
    /// The context contains messages with visibility `aside`.
    AsideIsSent = "context::a_context_has_what_a_model_may_see",
    /// A run that is done can be written again.
    DoneRunChanges = "run::a_done_run_never_changes",
    /// A run that is not done can change to any status.
    AnyTransition = "run::a_status_becomes_what_the_table_allows",
    /// A commit can use the run id of another thread.
    RunTakenOver = "run::a_run_belongs_to_one_thread",
    /// `add` sets the value instead of adding to it.
    AddSets = "commit::an_operation_works_on_what_is_stored",
    /// A page leaves out records that have the same time as the last record of the page before.
    CursorSkipsTies = "page::orders_are_total",
    /// A page begins with the last record of the page before.
    CursorRepeats = "page::writing_between_pages_skips_and_repeats_nothing",
    /// Lists are in the order in which their records were created.
    InsertionOrder = "thread::orders_by_activity_and_creation",
    /// A page ignores its limit and contains the rest of the list.
    LimitIgnored = "page::a_page_holds_at_most_limit",
    /// A cursor is accepted for any filter and order of its list.
    CursorUnbound = "page::a_cursor_is_bound_to_its_list",
    /// A read does not see the last write.
    StaleRead = "process::writes_are_read_back_through_every_handle",
    /// A tenant sees the data of tenants whose names begin with its own name.
    TenantByPrefix = "tenant::tenants_see_only_their_own",
    /// A deletion also deletes the threads of tenants whose names differ only in case.
    DeletionFoldsCase = "tenant::nothing_of_another_tenant_is_reached",
    /// A claim that finds nothing claims from tenants whose names end with the name of its own tenant.
    ClaimsBySuffix = "tenant::nothing_of_another_tenant_is_reached",
    /// A subscription treats a tenant's name that ends with `*` as a pattern.
    FollowsByPattern = "tenant::nothing_of_another_tenant_is_reached",
    /// A list of threads that continues from a cursor shows the tenant as it was before its deletion.
    DeletedTenantReturns = "page::a_cursor_brings_no_deleted_tenant_back",
    /// Handles of a deleted tenant still work.
    DeletedTenantAnswers = "process::a_deleted_tenant_refuses_every_call",
    /// A closed store still works.
    ClosedAnswers = "process::a_closed_store_refuses_every_call",
    /// Consumed input stays in the queue.
    ConsumedStays = "pending::consumed_input_is_an_entry_and_no_longer_pending",
    /// Consumed input comes after the other entries of its commit.
    ConsumedComesLast = "pending::consumed_input_comes_first_in_the_order_given",
    /// A commit consumes an input without checking its revision.
    ConsumeUnguarded = "pending::what_is_consumed_is_as_it_was_seen",
    /// Calls on a queue do not notice that an id is already in the log.
    ConsumedIdIsFree = "pending::what_was_consumed_stays_as_it_is",
    /// A commit can give an entry the id of a pending input.
    PendingIdIsFree = "pending::a_pending_id_is_taken",
    /// An append is written although some of its inputs are already pending.
    AppendInPart = "pending::an_append_is_all_or_none",
    /// An append writes its first input in a step of its own, after which the call can be dropped.
    InputsOneByOne = "pending::a_dropped_call_on_a_queue_is_whole_or_nothing",
    /// A changed input moves to the end of the queue.
    UpdateMovesToTheEnd = "pending::a_change_keeps_the_place",
    /// A change of an input is made without checking the expected revision.
    UpdateUnguarded = "pending::a_stale_change_is_refused",
    /// A new order is accepted without checking the revision of the queue.
    ReorderUnguarded = "pending::an_order_names_the_whole_queue",
    /// The revision of a queue returns to 0 when the last input is retracted.
    RetractForgetsTheRevision = "pending::revisions_never_fall",
    /// A ticket can be decided more than once.
    DecidedTwice = "pending::a_ticket_is_decided_once",
    /// `prune_threads` deletes threads that have pending input.
    PruneTakesPending = "pending::a_thread_with_input_is_not_pruned",
    /// The first event of an append is written on its own, and stays if the append is refused.
    EventsInPart = "event::an_append_is_all_or_none",
    /// An append that repeats a key appends its events again.
    EventKeyIgnored = "event::a_repeat_gives_the_first_events",
    /// Events are numbered first and become visible when their append returns, some after later events.
    EventsSeenLater = "event::no_event_comes_before_an_earlier_one",
    /// An append does not check what it expects of a scope.
    EventsUnguarded = "event::an_expectation_is_of_the_counter",
    /// A cursor below the floor is accepted.
    TrimmedCursorGoesOn = "event::a_cursor_below_the_floor_is_refused",
    /// Trimming a scope also trims all other scopes of the trimmed events.
    TrimTakesBothScopes = "event::an_event_stays_in_its_other_scope",
    /// `list_events` ignores its filter and returns internal events too.
    InternalEventsShown = "event::the_public_sees_public_events",
    /// A subscription that starts at `Now` begins with the last stored event.
    NowIsEarlier = "event::now_is_behind_all_that_is_there",
    /// A subscription leaves out the event after every fifth one.
    SubscriberSkips = "event::a_subscriber_gets_history_and_what_comes",
    /// The events of a refused commit are appended.
    RefusedEventsStay = "event::a_refused_commit_appends_nothing",
    /// Any token can settle, extend and start a claimed dispatch.
    TokenUnchecked = "mailbox::an_old_holder_writes_nothing",
    /// An `extend` with the token of an earlier claim takes the dispatch away from the current holder.
    ExtendRevives = "mailbox::a_lease_that_is_over_is_claimable",
    /// An interrupt supersedes the queued dispatches, but does not raise the epoch.
    InterruptLeavesTheEpoch = "mailbox::an_interrupt_supersedes_what_is_queued",
    /// A dispatch releases its dedupe key when it is claimed.
    KeyFreedByAClaim = "mailbox::a_key_is_taken_until_its_dispatch_is_over",
    /// A finished dispatch keeps its dedupe key.
    KeyNeverFreed = "mailbox::an_interrupt_frees_the_keys_of_what_was_queued",
    /// A lease expires one millisecond after its end.
    LeaseJudgedLate = "mailbox::a_lease_that_is_over_is_claimable",
    /// A lease expires one millisecond before its end.
    LeaseJudgedEarly = "mailbox::an_extension_counts_from_now",
    /// A retried dispatch is available at once, whatever its delay.
    RetryComesEarly = "mailbox::a_retry_waits_its_time",
    /// A dispatch whose lease expires does not count the attempt.
    LostLeaseIsNoAttempt = "mailbox::the_last_lost_lease_makes_a_dead_letter",
    /// The repeat of a settlement counts one more attempt.
    SettledTwice = "mailbox::a_repeat_gets_the_first_answer",
    /// Within a thread, claims follow the order of the enqueues and ignore the priority.
    PriorityIgnored = "mailbox::priority_comes_first_inside_of_a_thread",
    /// A claim can take a superseded dispatch.
    SupersededIsGivenOut = "mailbox::an_empty_mailbox_gives_nothing",
    /// A claim can take a dispatch of a thread that already has a claimed dispatch.
    BusyThreadsGiveMore = "mailbox::a_dispatch_goes_to_one_claimant",
    /// A purge also removes dispatches that ended exactly at the given time.
    PurgeTakesTheMoment = "mailbox::a_purge_removes_what_ended_before",
    /// The fence of a commit is checked by its claim number only, and not by the mailbox.
    ClaimUnchecked = "commit::a_lost_claim_writes_nothing",
    /// A commit settles its claim before its guard is checked; the settlement stays if the commit is refused.
    SettledBeforeTheGuard = "commit::a_refused_commit_settles_nothing",
    /// The outbox rows of a refused commit are written.
    RefusedRowsStay = "outbox::a_refused_commit_writes_no_row",
    /// A row is written although its dedupe key is taken.
    RowKeyIgnored = "outbox::the_same_key_gives_the_first_row",
    /// A row whose dedupe key is taken is answered with the first row, even if the content is different.
    RowKeyContentIgnored = "outbox::other_content_refuses_the_commit",
    /// A final row releases its dedupe key before it is purged.
    RowKeyFreedEarly = "outbox::a_key_is_taken_until_its_row_is_purged",
    /// Any token can settle and extend a claimed row.
    RowTokenIgnored = "outbox::without_the_token_nothing_changes",
    /// A claim call waits after it has claimed; if it is dropped there, its dispatches stay claimed.
    ClaimKept = "mailbox::a_claim_that_nobody_received_is_given_back",
    /// A claim call of the outbox waits after it has claimed; if it is dropped there, its rows stay claimed.
    RowClaimKept = "outbox::a_claim_that_nobody_received_is_given_back",
    /// The lease of a row expires one millisecond after its end.
    RowLeaseEndsLate = "outbox::a_lease_that_is_over_frees_the_row",
    /// A row whose lease expires does not count the attempt.
    LostLeaseUncounted = "outbox::lost_leases_use_up_attempts",
    /// A row does not count failed attempts.
    AttemptUncounted = "outbox::attempts_run_out",
    /// A retried row is available at once, whatever its delay.
    RetriedAtOnce = "outbox::a_retried_row_waits",
    /// A claim can take a dead letter of the outbox.
    DeadLetterClaimed = "outbox::final_rows_are_never_claimed",
    /// Several rows with one order key can be claimed at the same time.
    OrderKeyIgnored = "outbox::rows_of_an_order_key_go_one_after_the_other",
    /// A row can be claimed before an earlier row of its order key that is not yet available.
    WaitingRowOvertaken = "outbox::a_row_that_waits_blocks_those_behind_it",
    /// A requeued row comes after all other rows with its order key.
    RequeuedComesLast = "outbox::a_requeued_row_has_its_old_place",
    /// A purge also removes rows that ended exactly at the given time.
    PurgeTakesTheBound = "outbox::a_purge_removes_what_ended_before",
    /// A command counts as delivered as soon as it is sent.
    DeliveredWhenSent = "live::delivered_means_accepted",
    /// A command without a receiver waits for the next receiver of its target.
    CommandKept = "live::delivered_means_accepted",
    /// When the deadline passes, the delivery is `NoReceiver` instead of `Unknown`.
    LateIsNoReceiver = "live::a_late_answer_is_unknown",
    /// Opening a target again does not end the earlier receiver.
    EarlierReceiverStays = "live::opening_again_ends_the_earlier_receiver",
    /// The command that was sent last is received first.
    LastCommandFirst = "live::commands_of_a_sender_arrive_in_order",
    /// All attempts of a dispatch have the same target.
    AttemptIgnored = "live::an_earlier_attempt_gets_nothing",
    /// The delivery of a command that its receiver cannot read is `NoReceiver`.
    UnreadableDropped = "live::what_cannot_be_read_is_refused",
    /// All tenants share their targets.
    TargetsOfAllTenants = "live::tenants_have_their_own_targets",
    /// A receiver goes on waiting after the store is closed.
    ReceiverOutlivesClosing = "live::closing_ends_receivers",
    /// An append checks whether its ids are in the log, and writes the inputs some time later.
    AppendLooksEarly = "live::input_enters_the_log_once",
    /// No work ends a wait before its timeout.
    NewWorkWakesNobody = "live::new_work_wakes_who_waits",
    /// A wait does not end when work becomes available because time passes.
    DueWorkWakesNobody = "live::what_becomes_due_wakes_who_waits",
    /// A wait ends at once, even if there is no work.
    WakesAtOnce = "live::a_wait_ends_at_its_timeout",
    /// A wait goes on after the store is closed.
    WaitOutlivesClosing = "live::closing_ends_waits",
    /// A claim finds nothing before a worker has called `wait`.
    ClaimWantsAWait = "live::polling_alone_finds_everything",
    /// An enqueue with an id that is in use is refused, even if it repeats the first enqueue exactly.
    EnqueueForgetsItsAnswer = "mailbox::an_unknown_end_on_a_mailbox_is_found_out",
    /// A claim of rows that finds none returns rows that were claimed before, with their tokens.
    ClaimedRowGivenAgain = "outbox::an_unknown_end_on_an_outbox_is_found_out",
    /// The reset of a fence does nothing.
    FenceKept = "errors::an_unknown_end_of_maintenance_is_found_out",
    /// A commit settles its claim in a step of its own, after which the call can be dropped.
    SettledFirst = "commit::a_dropped_turn_is_whole_or_nothing",
    /// A reclaim counts lost attempts in a step of its own, after which the call can be dropped.
    ReclaimInTwoSteps = "mailbox::a_dropped_reclaim_is_whole_or_nothing",
    /// If a deletion of a tenant is dropped halfway, its repeat removes nothing.
    DeletionNotGoneOnWith = "process::a_dropped_call_on_a_store_leaves_nothing_locked",
    /// A store that is dropped closes the handles of its tenants.
    HandlesEndWithTheStore = "process::handles_keep_the_store_open",
    /// Commit keys are lost when the store is opened again.
    ReopenForgetsKeys = "commit::a_key_outlives_a_reopen",
}
