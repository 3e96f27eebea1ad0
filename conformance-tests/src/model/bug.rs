//! Planted bugs: what is wrong with a broken store, and which case finds it.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $killer:literal,)*) => {
        /// What is wrong with a store that was broken on purpose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[$doc])* #[doc = concat!("Killed by `", $killer, "`.")] $bug,)*
        }

        impl Bug {
            /// Every planted bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// The case that rejects a store with this bug.
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
    /// A guard holds that is one behind the version.
    VersionOffByOne = "commit::a_guard_is_judged_by_the_version",
    /// A guard holds if the thread was last written at the time of that version.
    VersionByTime = "commit::any_makes_a_thread_that_never_existed",
    /// Every fourth entry is acknowledged, and not written.
    AckWithoutWriting = "commit::a_thousand_commits_follow_each_other",
    /// Looks at the guard before it takes the lock.
    GuardOutsideTheLock = "commit::one_guard_has_one_winner",
    /// A repeat with its key is applied again.
    KeyIgnored = "commit::a_key_is_applied_once",
    /// The first receipt answers a key, whatever the content.
    KeyContentIgnored = "commit::other_content_is_a_mismatch",
    /// Keys are kept for the whole tenant.
    KeysOfAllThreads = "commit::keys_belong_to_one_thread",
    /// A refused commit leaves its key behind.
    RefusedKeyStays = "commit::a_refused_commit_leaves_no_key",
    /// A commit that is answered `Conflict` is written all the same.
    RefusedButApplied = "commit::no_part_of_a_refused_commit_comes_later",
    /// State is written before entries are checked.
    StateWithoutEntries = "commit::no_part_of_a_refused_commit_is_there",
    /// Entries are written one by one until one is refused.
    EntriesBeforeTheBadOne = "log::a_parent_is_an_earlier_entry",
    /// A refused commit puts back what the thread was when it began.
    RefusalRollsBack = "commit::a_refused_commit_disturbs_nobody",
    /// An old claim goes on writing.
    FenceIgnored = "commit::no_lower_claim_writes_after_a_higher",
    /// A late commit brings a deleted thread back.
    LateCommitRevives = "thread::a_late_write_does_not_bring_it_back",
    /// A deleted id is forgotten at once.
    DeletionForgetsTheId = "thread::deleted_ids_are_remembered_for_thirty_days",
    /// A thread made anew has the generation of the old one.
    GenerationForgotten = "thread::a_thread_made_anew_is_another_one",
    /// A thread made anew has the log of the old one.
    OldLogReturns = "thread::a_deletion_removes_everything_of_the_thread",
    /// A commit raises the revision of the thread's own fields.
    CommitMovesTheRevision = "thread::updates_and_commits_keep_out_of_each_others_guards",
    /// An update replaces all metadata.
    UpdateForgetsMetadata = "thread::unguarded_updates_of_different_keys_all_land",
    /// An update that changes nothing raises the revision.
    UnchangedCounts = "thread::an_update_that_changes_nothing_raises_nothing",
    /// Times follow a clock that runs back.
    TimeGoesBack = "thread::activity_never_goes_back",
    /// A parent need not exist.
    ParentUnchecked = "thread::a_parent_must_exist",
    /// A thread can become its own ancestor.
    CyclesAllowed = "thread::a_thread_is_never_its_own_ancestor",
    /// A deletion with `Reject` does not look for children.
    ChildrenIgnored = "thread::reject_refuses_a_thread_with_children",
    /// A deletion with `Detach` leaves children that point nowhere.
    DetachForgotten = "thread::detach_leaves_children_without_a_parent",
    /// A deletion with `Detach` lets children go first, and may be dropped there.
    DetachBeforeDeletion = "thread::a_dropped_write_is_whole_or_nothing",
    /// A deletion with `Cascade` goes one level deep.
    CascadeStopsEarly = "thread::cascade_deletes_all_descendants",
    /// Pruning takes threads at work.
    PruneTakesOpenRuns = "thread::threads_with_open_runs_are_not_pruned",
    /// Pruning takes threads with children that stay.
    PruneTakesParents = "thread::threads_whose_children_stay_are_not_pruned",
    /// A rewind removes what lies behind its target.
    RewindDeletes = "log::an_abandoned_branch_stays_as_it_was",
    /// A fork takes over what hung below its parent.
    ForkTakesTheBranch = "log::a_fork_leaves_other_branches_alone",
    /// An entry beside the path becomes the head.
    SideEntryIsHead = "log::a_side_entry_lies_beside_the_path",
    /// Checkpoints are counted over all branches.
    CheckpointsCountTheLog = "log::checkpoints_are_numbered_along_their_path",
    /// Sums count everything twice.
    SumsCountedTwice = "log::what_was_spent_is_summed",
    /// NUL is taken out of texts.
    NulStripped = "ids::any_text_comes_back_equal",
    /// Texts are cut at 65,535 bytes.
    LongTextsCut = "errors::any_size_up_to_the_limit_is_kept",
    /// JSON is read into numbers and written again.
    NumbersRewritten = "ids::json_comes_back_byte_for_byte",
    /// Thread ids are compared without case.
    CaseFolded = "ids::hostile_ids_are_kept_as_they_are",
    /// Dedupe keys are compared without the blanks around them.
    DedupeKeysTrimmed = "ids::hostile_ids_work_everywhere",
    /// Thread and entry are joined into one key with a dot.
    IdsJoined = "ids::pairs_of_thread_and_entry_never_meet",
    /// A compaction of another branch has an effect.
    ForeignCompaction = "context::a_compaction_of_another_branch_has_no_effect",
    /// Results without a call are sent.
    OrphanResultsKept = "context::a_result_without_its_call_is_left_out",
    /// What only people are shown is sent.
    AsideIsSent = "context::a_context_has_what_a_model_may_see",
    /// A done run can be written again.
    DoneRunChanges = "run::a_done_run_never_changes",
    /// A run may go from any status to any other.
    AnyTransition = "run::a_status_becomes_what_the_table_allows",
    /// A run id of another thread is taken over.
    RunTakenOver = "run::a_run_belongs_to_one_thread",
    /// `add` sets.
    AddSets = "commit::an_operation_works_on_what_is_stored",
    /// A page goes on behind all records of the last one's time.
    CursorSkipsTies = "page::orders_are_total",
    /// A page begins with the last record of the page before.
    CursorRepeats = "page::writing_between_pages_skips_and_repeats_nothing",
    /// Lists are ordered as their records were made.
    InsertionOrder = "thread::orders_by_activity_and_creation",
    /// A list is one page.
    LimitIgnored = "page::a_page_holds_at_most_limit",
    /// A cursor opens any list of its kind.
    CursorUnbound = "page::a_cursor_is_bound_to_its_list",
    /// A read sees everything but the last write.
    StaleRead = "process::writes_are_read_back_through_every_handle",
    /// A tenant sees those whose names begin with its own.
    TenantByPrefix = "tenant::tenants_see_only_their_own",
    /// A deletion goes on in tenants whose names differ in case only.
    DeletionFoldsCase = "tenant::nothing_of_another_tenant_is_reached",
    /// A claim that finds nothing goes on in tenants whose names end with the own one.
    ClaimsBySuffix = "tenant::nothing_of_another_tenant_is_reached",
    /// A subscription takes the tenant's name for a pattern.
    FollowsByPattern = "tenant::nothing_of_another_tenant_is_reached",
    /// A page behind a cursor is of the tenant as it was before it was deleted.
    DeletedTenantReturns = "page::a_cursor_brings_no_deleted_tenant_back",
    /// Handles of a deleted tenant go on working.
    DeletedTenantAnswers = "process::a_deleted_tenant_refuses_every_call",
    /// A closed store goes on working.
    ClosedAnswers = "process::a_closed_store_refuses_every_call",
    /// What was consumed stays in the queue.
    ConsumedStays = "pending::consumed_input_is_an_entry_and_no_longer_pending",
    /// What is consumed comes behind the entries of its commit.
    ConsumedComesLast = "pending::consumed_input_comes_first_in_the_order_given",
    /// A commit consumes an input that was changed meanwhile.
    ConsumeUnguarded = "pending::what_is_consumed_is_as_it_was_seen",
    /// An id in the log can be appended again.
    ConsumedIdIsFree = "pending::what_was_consumed_stays_as_it_is",
    /// An entry takes the id of a pending input.
    PendingIdIsFree = "pending::a_pending_id_is_taken",
    /// What is new of an append is written, though the rest is there.
    AppendInPart = "pending::an_append_is_all_or_none",
    /// Inputs of an append are written one by one, and it may be dropped between two.
    InputsOneByOne = "pending::a_dropped_call_on_a_queue_is_whole_or_nothing",
    /// A changed input goes to the end of the queue.
    UpdateMovesToTheEnd = "pending::a_change_keeps_the_place",
    /// A change is made whatever revision was seen.
    UpdateUnguarded = "pending::a_stale_change_is_refused",
    /// An order is taken though inputs came since.
    ReorderUnguarded = "pending::an_order_names_the_whole_queue",
    /// An empty queue begins again at revision 0.
    RetractForgetsTheRevision = "pending::revisions_never_fall",
    /// A ticket is decided again.
    DecidedTwice = "pending::a_ticket_is_decided_once",
    /// Pruning takes threads that have input.
    PruneTakesPending = "pending::a_thread_with_input_is_not_pruned",
    /// Events of an append are written one by one.
    EventsInPart = "event::an_append_is_all_or_none",
    /// The same key appends again.
    EventKeyIgnored = "event::a_repeat_gives_the_first_events",
    /// Events get their places first, and are seen when their append returns: later ones before.
    EventsSeenLater = "event::no_event_comes_before_an_earlier_one",
    /// An expectation is not looked at.
    EventsUnguarded = "event::an_expectation_is_of_the_counter",
    /// A cursor below the floor goes on.
    TrimmedCursorGoesOn = "event::a_cursor_below_the_floor_is_refused",
    /// A trimmed event is gone from its other scope too.
    TrimTakesBothScopes = "event::an_event_stays_in_its_other_scope",
    /// A filter by visibility lets everything through.
    InternalEventsShown = "event::the_public_sees_public_events",
    /// A subscription from now on begins with what was there.
    NowIsEarlier = "event::now_is_behind_all_that_is_there",
    /// A subscriber misses events now and then.
    SubscriberSkips = "event::a_subscriber_gets_history_and_what_comes",
    /// A refused commit leaves its events.
    RefusedEventsStay = "event::a_refused_commit_appends_nothing",
    /// Any token settles, extends and starts what is claimed.
    TokenUnchecked = "mailbox::an_old_holder_writes_nothing",
    /// Extending a claim that another worker took since brings it back.
    ExtendRevives = "mailbox::a_lease_that_is_over_is_claimable",
    /// An interrupt supersedes, and leaves the epoch.
    InterruptLeavesTheEpoch = "mailbox::an_interrupt_supersedes_what_is_queued",
    /// A claim gives the dedupe key back.
    KeyFreedByAClaim = "mailbox::a_key_is_taken_until_its_dispatch_is_over",
    /// What is over keeps its dedupe key.
    KeyNeverFreed = "mailbox::an_interrupt_frees_the_keys_of_what_was_queued",
    /// A lease is over a moment behind its end.
    LeaseJudgedLate = "mailbox::a_lease_that_is_over_is_claimable",
    /// A lease is over a moment before its end.
    LeaseJudgedEarly = "mailbox::an_extension_counts_from_now",
    /// A retry comes at once.
    RetryComesEarly = "mailbox::a_retry_waits_its_time",
    /// A lost lease is no attempt.
    LostLeaseIsNoAttempt = "mailbox::the_last_lost_lease_makes_a_dead_letter",
    /// The repeat of a settlement counts again.
    SettledTwice = "mailbox::a_repeat_gets_the_first_answer",
    /// The order of enqueue is all that counts in a thread.
    PriorityIgnored = "mailbox::priority_comes_first_inside_of_a_thread",
    /// A claim takes what an interrupt superseded.
    SupersededIsGivenOut = "mailbox::an_empty_mailbox_gives_nothing",
    /// A thread gives out more while one of its dispatches is claimed.
    BusyThreadsGiveMore = "mailbox::a_dispatch_goes_to_one_claimant",
    /// A purge takes what ended at its bound.
    PurgeTakesTheMoment = "mailbox::a_purge_removes_what_ended_before",
    /// A commit under a claim is judged by the claim number alone.
    ClaimUnchecked = "commit::a_lost_claim_writes_nothing",
    /// A commit that is refused behind its fence has settled its claim.
    SettledBeforeTheGuard = "commit::a_refused_commit_settles_nothing",
    /// A refused commit leaves its rows in the outbox.
    RefusedRowsStay = "outbox::a_refused_commit_writes_no_row",
    /// A dedupe key of the outbox writes another row.
    RowKeyIgnored = "outbox::the_same_key_gives_the_first_row",
    /// The first row answers a dedupe key, whatever the content.
    RowKeyContentIgnored = "outbox::other_content_refuses_the_commit",
    /// A dedupe key is free when its row is final.
    RowKeyFreedEarly = "outbox::a_key_is_taken_until_its_row_is_purged",
    /// A claim of a row is settled with any token.
    RowTokenIgnored = "outbox::without_the_token_nothing_changes",
    /// Who claims waits behind the claim, and takes it along if it is dropped there.
    ClaimKept = "mailbox::a_claim_that_nobody_received_is_given_back",
    /// The same of the outbox.
    RowClaimKept = "outbox::a_claim_that_nobody_received_is_given_back",
    /// A row whose lease is just over is not given out.
    RowLeaseEndsLate = "outbox::a_lease_that_is_over_frees_the_row",
    /// A lost lease uses up no attempt.
    LostLeaseUncounted = "outbox::lost_leases_use_up_attempts",
    /// A failed attempt is not counted.
    AttemptUncounted = "outbox::attempts_run_out",
    /// A retried row is given out at once.
    RetriedAtOnce = "outbox::a_retried_row_waits",
    /// A dead letter is given out.
    DeadLetterClaimed = "outbox::final_rows_are_never_claimed",
    /// Rows with one order key are given out side by side.
    OrderKeyIgnored = "outbox::rows_of_an_order_key_go_one_after_the_other",
    /// A row overtakes one that is not yet available.
    WaitingRowOvertaken = "outbox::a_row_that_waits_blocks_those_behind_it",
    /// A requeued row stands behind those that came after it.
    RequeuedComesLast = "outbox::a_requeued_row_has_its_old_place",
    /// A purge removes what ended at its bound.
    PurgeTakesTheBound = "outbox::a_purge_removes_what_ended_before",
    /// A command counts as delivered when it was sent.
    DeliveredWhenSent = "live::delivered_means_accepted",
    /// A command that nobody received waits for who comes.
    CommandKept = "live::delivered_means_accepted",
    /// When the deadline passes, nobody received the command.
    LateIsNoReceiver = "live::a_late_answer_is_unknown",
    /// Opening a target again leaves the earlier receiver there.
    EarlierReceiverStays = "live::opening_again_ends_the_earlier_receiver",
    /// The command that was sent last is received first.
    LastCommandFirst = "live::commands_of_a_sender_arrive_in_order",
    /// All attempts of a dispatch are one target.
    AttemptIgnored = "live::an_earlier_attempt_gets_nothing",
    /// A command that cannot be read has no receiver.
    UnreadableDropped = "live::what_cannot_be_read_is_refused",
    /// The targets of all tenants are the same.
    TargetsOfAllTenants = "live::tenants_have_their_own_targets",
    /// Who receives goes on waiting when the store is closed.
    ReceiverOutlivesClosing = "live::closing_ends_receivers",
    /// An append looks whether its ids are in the log, and writes later.
    AppendLooksEarly = "live::input_enters_the_log_once",
    /// Who waits for work waits until its time is over.
    NewWorkWakesNobody = "live::new_work_wakes_who_waits",
    /// Only changes wake who waits, and not the time.
    DueWorkWakesNobody = "live::what_becomes_due_wakes_who_waits",
    /// Who waits is woken at once, whatever there is.
    WakesAtOnce = "live::a_wait_ends_at_its_timeout",
    /// Who waits for work goes on when the store is closed.
    WaitOutlivesClosing = "live::closing_ends_waits",
    /// Work is given out only where somebody waited for it.
    ClaimWantsAWait = "live::polling_alone_finds_everything",
    /// An enqueue with an id that is in use is refused, also if it is the same one.
    EnqueueForgetsItsAnswer = "mailbox::an_unknown_end_on_a_mailbox_is_found_out",
    /// A claim of rows that finds none gives those that are claimed.
    ClaimedRowGivenAgain = "outbox::an_unknown_end_on_an_outbox_is_found_out",
    /// The reset of a fence does nothing.
    FenceKept = "errors::an_unknown_end_of_maintenance_is_found_out",
    /// A commit settles its claim first, and may be dropped there.
    SettledFirst = "commit::a_dropped_turn_is_whole_or_nothing",
    /// Lost attempts are counted before their claims are ended, and a reclaim may be dropped there.
    ReclaimInTwoSteps = "mailbox::a_dropped_reclaim_is_whole_or_nothing",
    /// The deletion of a tenant that was cut off is taken for done.
    DeletionNotGoneOnWith = "process::a_dropped_call_on_a_store_leaves_nothing_locked",
    /// Handles of tenants are closed with the last handle of the store.
    HandlesEndWithTheStore = "process::handles_keep_the_store_open",
    /// Commit keys live as long as the opened store.
    ReopenForgetsKeys = "commit::a_key_outlives_a_reopen",
}
