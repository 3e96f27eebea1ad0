//! The planted bugs of the layers about runs: what each of them changes, and which case must find it.

/// Passes this list of planted bugs on, behind what it was given.
macro_rules! run_bugs {
    ($next:ident $($given:tt)*) => {
        $next! { $($given)*

            /// Each listed record has the number 1.
            ReplayNumbersRepeat = "replay::records_are_numbered_and_have_a_cursor",
            /// The records of an append are appended one by one.
            ReplayOneByOne = "replay::an_append_is_all_or_nothing",
            /// All versions of a protocol are one.
            ReplayVersionsMerged = "replay::two_versions_of_a_protocol_are_two_streams",
            /// Bytes are kept as text.
            ReplayBytesAsText = "replay::bytes_are_returned_exactly",
            /// A record without bytes gets one.
            ReplayEmptyBytesAccepted = "replay::empty_bytes_and_blank_names_are_refused",
            /// A repeat is appended under another wire id.
            ReplayRepeatsAppended = "replay::an_identical_repeat_gives_the_first_record",
            /// Another content under a known wire id is taken for a repeat.
            ReplayContentIgnored = "replay::other_content_under_a_wire_id_is_refused",
            /// Each stream has its own wire ids.
            ReplayWireIdsOfAStream = "replay::a_wire_id_belongs_to_one_stream",
            /// Records are written without expectations.
            ReplayUnguarded = "replay::concurrent_repeats_append_one_record",
            /// The sources of a record are forgotten.
            ReplaySourcesForgotten = "replay::a_record_names_its_sources",
            /// The bytes of records are lost when the store is opened again.
            ReopenForgetsReplay = "replay::records_survive_a_reopen",
            /// A list after a cursor begins again.
            ReplayCursorIgnored = "replay::a_list_starts_after_its_cursor",
            /// A list after a cursor of another stream begins again.
            ReplayForeignCursorIgnored = "replay::a_cursor_belongs_to_one_stream",
            /// A subscription gives each record twice.
            ReplayDeliveredTwice = "replay::a_subscription_gives_stored_and_new_records_once",
            /// A subscription begins with the first record.
            ReplaySubscriptionFromTheFirst = "replay::a_subscription_continues_after_a_cursor",
            /// A list with a hole ends in front of it.
            ReplayHoleSkipped = "replay::a_hole_is_corrupt",
            /// For a wire id the last record is found.
            ReplayFindsTheLast = "replay::a_record_is_found_by_its_wire_id",
            /// Nothing ever expires.
            ReplayExpiryIgnored = "replay::expired_records_are_not_listed",
            /// An expired record is not loaded.
            ReplayExpiredNotLoaded = "replay::an_expired_record_is_loaded_until_its_purge",
            /// A purge leaves the bytes.
            ReplayPurgeLeavesBytes = "replay::a_purge_removes_expired_records",
            /// A dry run of a purge removes records.
            ReplayDryRunPurges = "replay::a_dry_run_of_a_replay_purge_changes_nothing",
            /// A list after an expired cursor continues with what is there.
            ReplayExpiredCursorContinues = "replay::a_cursor_before_purged_records_is_refused",
            /// A new record leaves what a purge has left of the old one.
            ReplayRemnantStays = "replay::an_interrupted_purge_harms_no_later_record",
            /// Redacted records are not listed.
            ReplayRedactedNotListed = "replay::a_redacted_record_keeps_its_place",
            /// A copy of redacted bytes is kept.
            ReplayRedactedKept = "replay::redacted_bytes_are_gone",
            /// A commit forgets the events of its records.
            ReplayOfACommitForgotten = "replay::a_record_is_part_of_a_commit",
            /// The records of a commit are appended before it.
            ReplayBeforeTheCommit = "replay::a_refused_commit_has_no_record",
            /// An append ignores its claim.
            ReplayClaimIgnored = "replay::an_append_can_carry_a_claim",
            /// An append ignores its thread.
            ReplayThreadIgnored = "replay::a_record_about_a_deleted_thread_is_refused",

            /// The call in flight is not stored.
            CheckpointCallForgotten = "stream_checkpoint::a_checkpoint_is_loaded_as_it_was_put",
            /// A run without a checkpoint has that of another run.
            CheckpointOfAnotherRun = "stream_checkpoint::an_unknown_checkpoint_is_none",
            /// All runs of a thread have one checkpoint.
            CheckpointOfTheThread = "stream_checkpoint::each_run_has_one_checkpoint",
            /// Checkpoints are lost when the store is opened again.
            ReopenForgetsCheckpoints = "stream_checkpoint::checkpoints_survive_a_reopen",
            /// Every put replaces the checkpoint.
            CheckpointSequenceIgnored = "stream_checkpoint::a_lower_sequence_is_ignored",
            /// A put that is ignored does not say so.
            CheckpointSilentlyIgnored = "stream_checkpoint::an_ignored_put_says_so",
            /// Checkpoints are written without expectations.
            CheckpointUnguarded = "stream_checkpoint::the_highest_of_concurrent_puts_stays",
            /// The text is not stored.
            CheckpointTextForgotten = "stream_checkpoint::an_answer_goes_on_by_what_was_received",
            /// A put also writes to the log.
            CheckpointInTheLog = "stream_checkpoint::a_checkpoint_is_not_part_of_the_thread",
            /// The removal of a checkpoint expects that there is one.
            CheckpointRemovalGuarded = "stream_checkpoint::a_failing_put_does_not_fail_the_commit",
            /// A put ignores its claim.
            CheckpointClaimIgnored = "stream_checkpoint::a_checkpoint_can_carry_a_claim",
            /// A deletion does nothing.
            CheckpointDeletionForgotten = "stream_checkpoint::a_deleted_checkpoint_is_gone",
            /// Deleting a checkpoint that does not exist is an error.
            CheckpointDeletionNeedsOne = "stream_checkpoint::deleting_an_unknown_checkpoint_is_no_error",
            /// A commit does not remove the checkpoint that it names.
            CheckpointRemovalForgotten = "stream_checkpoint::a_commit_removes_the_checkpoint_that_it_names",
            /// A commit removes the checkpoint before it is judged.
            CheckpointRemovedEarly = "stream_checkpoint::a_refused_commit_leaves_the_checkpoint",
            /// A checkpoint does not look at its run.
            CheckpointIgnoresItsRun = "stream_checkpoint::a_finished_run_has_no_checkpoint",
            /// A checkpoint that is put after the end of its run does not look at its run.
            LateCheckpointLoaded = "stream_checkpoint::a_checkpoint_put_after_the_end_of_its_run_is_not_loaded",
            /// Checkpoints belong to the tenant.
            CheckpointsOfTheTenant = "stream_checkpoint::checkpoints_are_deleted_with_their_thread",
            /// A put to a thread that does not exist seems to succeed.
            CheckpointOfNoThread = "stream_checkpoint::a_checkpoint_of_a_deleted_thread_is_refused",
            /// A purge ignores the age of checkpoints.
            CheckpointAgeIgnored = "stream_checkpoint::old_checkpoints_are_purged",
            /// Checkpoints are not found by a purge.
            CheckpointIndexForgotten = "stream_checkpoint::a_purge_removes_what_finished_runs_left",
            /// A dry run of a purge removes checkpoints.
            CheckpointDryRunPurges = "stream_checkpoint::a_dry_run_of_a_checkpoint_purge_changes_nothing",

            /// An effect forgets its step.
            EffectStepForgotten = "effect::a_new_effect_is_loaded_as_it_was_begun",
            /// A caller is told that an effect in doubt is new.
            EffectInDoubtIsNew = "effect::an_effect_that_was_begun_is_in_doubt",
            /// A caller is told that an effect that ended is in doubt.
            EffectFinishedIsInDoubt = "effect::an_effect_that_ended_is_finished",
            /// An effect can be begun with another intent.
            EffectIntentIgnored = "effect::a_name_stands_for_one_intent",
            /// Effects are kept with the tenant.
            EffectsOfTheTenant = "effect::an_effect_needs_its_thread",
            /// Lists of effects are empty after a reopen.
            ReopenForgetsEffects = "effect::effects_survive_a_reopen",
            /// The runs of a thread have their effects in common.
            EffectRunsMerged = "effect::names_of_effects_are_apart",
            /// All effects have one idempotency key.
            EffectKeysRepeat = "effect::every_effect_has_a_key_of_its_own",
            /// The key that a caller chooses is replaced.
            EffectKeyReplaced = "effect::a_caller_may_choose_the_key",
            /// Whether an effect exists is checked some time before it is written.
            EffectBegunUnguarded = "effect::one_of_several_callers_is_told_that_an_effect_is_new",
            /// Whether an effect is to be tried again is checked some time before it is written.
            EffectRetryUnguarded = "effect::one_of_several_callers_tries_an_effect_again",
            /// The claim of a caller that begins an effect is not checked.
            EffectFenceForgotten = "effect::a_lower_claim_begins_no_effect",
            /// A caller that has lost its claim begins effects without it.
            EffectBegunWithoutClaim = "effect::only_the_holder_of_a_claim_begins_an_effect",
            /// The claim of a caller that ends an effect is not checked.
            EffectEndUnfenced = "effect::a_lower_claim_ends_no_effect",
            /// The outcome of an effect is recorded as `null`.
            EffectOutcomeForgotten = "effect::an_outcome_is_recorded_alone",
            /// A commit does not record the outcome that it carries.
            EffectNotCommitted = "effect::a_commit_carries_the_outcome",
            /// The outcome that a commit carries is recorded before the commit is decided.
            EffectEndedBeforeTheCommit = "effect::a_refused_commit_leaves_an_effect_in_doubt",
            /// A commit records its outcome over any other one.
            EffectCommitUnguarded = "effect::an_effect_that_changed_refuses_the_commit",
            /// Another outcome is accepted and ignored.
            EffectOtherOutcomeAccepted = "effect::an_ended_effect_keeps_its_outcome",
            /// An end that is repeated is refused.
            EffectEndNotRepeatable = "effect::an_end_may_be_repeated",
            /// An effect whose outcome is unknown is tried again.
            EffectUnknownIsRetried = "effect::an_unknown_outcome_is_in_doubt",
            /// Any attempt ends an effect.
            EffectAttemptIgnored = "effect::only_the_last_attempt_ends_an_effect",
            /// An attempt that asks for another one leaves the effect in doubt.
            EffectRetryIsUnknown = "effect::an_attempt_can_ask_for_another_one",
            /// A doubt that ends with a failure is done.
            EffectFailureIsDone = "effect::a_doubt_is_resolved",
            /// Another attempt gets another idempotency key.
            EffectRetryHasAnotherKey = "effect::a_retry_has_the_same_idempotency_key",
            /// An effect that ended is resolved again without effect.
            EffectResolvedAgain = "effect::what_has_ended_is_not_resolved",
            /// A resolution ignores the revision that it expects.
            EffectResolutionUnguarded = "effect::a_resolution_can_expect_a_revision",
            /// Resolutions have no audit records.
            EffectAuditForgotten = "effect::a_resolution_is_audited",
            /// A page lists the last effect first.
            EffectsReversed = "effect::effects_that_have_not_ended_come_first",
            /// The list of a run has the effects of its thread.
            EffectRunFilterIgnored = "effect::effects_of_a_thread_and_of_a_run_are_listed",
            /// Lists of effects ignore the status.
            EffectStatusFilterIgnored = "effect::effects_of_a_status_are_listed",
            /// A walk ends in front of the effects that ended.
            EffectWalkWithoutEnded = "effect::a_walk_misses_no_effect_that_ends_meanwhile",
            /// A cursor of another list begins the list again.
            EffectCursorUnbound = "effect::a_cursor_belongs_to_one_list_of_effects",
            /// A copy of an effect stays when its thread is deleted.
            EffectCopyStays = "effect::effects_go_with_their_thread",
            /// A purge removes effects of any age.
            EffectPurgeIgnoresTime = "effect::old_effects_that_ended_are_removed",
            /// A purge takes effects in doubt as failed.
            EffectPurgeTakesDoubts = "effect::an_effect_in_doubt_is_never_removed",
            /// A purge does not look at runs.
            EffectPurgeIgnoresRuns = "effect::effects_of_open_runs_stay",
            /// A dry purge removes effects.
            EffectDryPurgeRemoves = "effect::a_dry_purge_removes_no_effect",
            /// A purge leaves what deleted threads left.
            EffectLeftoversStay = "effect::a_purge_removes_what_deleted_threads_left",
            /// The events of a span are not kept.
            SpanEventsForgotten = "trace::spans_are_loaded_as_they_were_put",
            /// A put that is repeated is refused.
            RepeatedPutRefused = "trace::a_repeated_put_changes_nothing",
            /// Another span under the same id is accepted and ignored.
            OtherSpanIgnored = "trace::another_span_with_the_same_id_is_refused",
            /// Spans of a thread that does not exist are accepted and ignored.
            SpansOfNoThread = "trace::spans_need_their_thread",
            /// All runs of a thread have one trace.
            TracesOfRunsMerged = "trace::spans_of_runs_are_apart",
            /// Of concurrent puts, the last one says what the trace has.
            TraceUnguarded = "trace::concurrent_puts_are_all_stored",
            /// A reopened store has lost the spans.
            ReopenForgetsSpans = "trace::spans_survive_a_reopen",
            /// Tool calls are not derived.
            DerivedCallsForgotten = "trace::a_committed_run_has_a_trace",
            /// Spans without an end get one.
            DerivedEndInvented = "trace::what_is_not_known_is_absent",
            /// Spans are derived from all entries of the thread.
            DerivedOfTheWholeThread = "trace::a_trace_has_what_its_run_wrote",
            /// With the first span that is put, the derived ones are gone.
            PutSpansReplaceDerived = "trace::put_spans_are_added_to_the_derived_ones",
            /// Lists of spans reverse each page.
            SpansReversed = "trace::spans_are_listed_by_start_and_id",
            /// A page of traces has the oldest one first.
            TracesOldestFirst = "trace::traces_are_listed_newest_first",
            /// A run for which spans were put is listed twice.
            TraceListedTwice = "trace::each_trace_is_listed_once",
            /// Lists of traces ignore the agent.
            TraceAgentIgnored = "trace::traces_of_a_thread_and_an_agent_are_listed",
            /// Lists of traces ignore the end of the time.
            TraceTimeIgnored = "trace::traces_of_a_time_are_listed",
            /// Lists of traces ignore that only those with errors are asked for.
            TraceErrorsIgnored = "trace::traces_with_errors_are_listed",
            /// A trace that changes keeps its entries in the orders.
            TraceDoesNotMove = "trace::an_earlier_span_moves_its_trace",
            /// A cursor of another list of traces begins the list again.
            TraceCursorUnbound = "trace::a_cursor_belongs_to_one_list_of_traces",
            /// Only runs that were committed are found.
            OnlyRunsFound = "trace::a_trace_is_found_by_its_run",
            /// A copy of a trace stays when its thread is deleted.
            TraceCopyStays = "trace::traces_go_with_their_thread",
            /// The links of a span are not kept.
            SpanLinksForgotten = "trace::scenarios_of_the_conventions_come_back_equal",
            /// A purge removes traces of any age.
            TracePurgeIgnoresTime = "trace::old_traces_are_purged",
            /// A purge keeps any number of traces.
            TracePurgeIgnoresNumber = "trace::the_newest_traces_stay",
            /// A purge removes what holders keep.
            TracePinsIgnored = "trace::a_pinned_trace_stays",
            /// A pin of what does not exist is accepted and ignored.
            NothingPinned = "trace::only_what_exists_is_pinned",
            /// A dry purge removes spans.
            TraceDryPurgeRemoves = "trace::a_dry_purge_removes_no_span",
            /// A purge does not see a pin that is made after it has read the pins.
            TracePinUnguarded = "trace::a_pin_and_a_purge_exclude_each_other",
            /// Readers and writers do not see that a purge has begun.
            InterruptedPurgeForgotten = "trace::an_interrupted_purge_is_finished",
            /// A purge leaves what deleted threads left in the orders of traces.
            TraceLeftoversStay = "trace::a_purge_removes_what_deleted_threads_left",

            /// The expectation of a case is forgotten.
            CaseExpectationForgotten = "dataset::a_case_is_loaded_as_it_was_added",
            /// Each case of a change makes a version of its own.
            DatasetChangesOneByOne = "dataset::each_change_makes_the_next_version",
            /// A change that changes nothing says that it made a version.
            UnchangedDatasetHasAVersion = "dataset::a_change_that_changes_nothing_makes_no_version",
            /// The expected version of a dataset is not checked.
            DatasetExpectationIgnored = "dataset::a_change_can_expect_the_current_version",
            /// The expected version of a dataset is checked some time before the write.
            DatasetExpectationCheckedEarly = "dataset::one_of_several_changes_of_a_version_succeeds",
            /// Changes of datasets are written without expectations.
            DatasetUnguarded = "dataset::concurrent_changes_all_get_versions",
            /// The first case of a refused change is written.
            RefusedDatasetChangeStays = "dataset::a_refused_change_changes_nothing",
            /// A removed case becomes `null`.
            RemovedCaseIsNull = "dataset::a_removed_case_can_be_added_again",
            /// A change writes all cases again.
            DatasetRewritten = "dataset::only_what_changes_is_written",
            /// Every version has the current cases.
            DatasetVersionIgnored = "dataset::a_version_never_changes",
            /// A walk goes on with the current cases.
            DatasetWalkOfTheCurrent = "dataset::a_walk_gives_the_cases_of_its_version",
            /// A page of datasets has the last id first.
            DatasetsReversed = "dataset::datasets_are_listed_by_id_in_pages",
            /// All datasets have their cases in common.
            DatasetsMerged = "dataset::cases_of_datasets_are_apart",
            /// A cursor of another list of cases begins the list again.
            CaseCursorUnbound = "dataset::a_cursor_belongs_to_one_list_of_cases",
            /// Cases are lost when the store is opened again.
            ReopenForgetsCases = "dataset::datasets_survive_a_reopen",
            /// The tool results of a case are forgotten.
            CaseToolResultsForgotten = "dataset::a_case_is_made_from_a_run",
            /// A case goes with its run.
            CaseGoesWithItsRun = "dataset::a_case_stays_when_its_run_is_deleted",

            /// The metadata of an evaluation run is forgotten.
            EvaluationMetadataForgotten = "evaluation::an_evaluation_is_loaded_as_it_was_created",
            /// An evaluation run cannot be created again.
            EvaluationCreatedOnce = "evaluation::an_evaluation_goes_on_under_its_id",
            /// Another request under a known id gets the run that is there.
            OtherEvaluationAccepted = "evaluation::an_id_belongs_to_one_evaluation",
            /// The publication that is tested is not looked for.
            EvaluationManifestUnchecked = "evaluation::what_an_evaluation_names_must_exist",
            /// An evaluation run moves to the current version of its dataset.
            EvaluationFollowsTheDataset = "evaluation::an_evaluation_keeps_its_dataset_version",
            /// An evaluation run is completed without all results.
            EvaluationCompletedEarly = "evaluation::an_evaluation_is_completed_with_all_results",
            /// Another end is accepted and ignored.
            OtherEvaluationEndAccepted = "evaluation::an_evaluation_ends_once",
            /// An evaluation run is not abandoned.
            EvaluationEndForgotten = "evaluation::an_ended_evaluation_takes_no_results",
            /// The output of a result is not stored.
            ResultOutputForgotten = "evaluation::a_result_is_loaded_as_it_was_recorded",
            /// A result cannot be recorded again.
            ResultNotRepeatable = "evaluation::an_identical_repeat_changes_nothing",
            /// Another content of a result is accepted and ignored.
            OtherResultAccepted = "evaluation::another_result_is_refused",
            /// Whether a result exists is checked some time before it is written.
            ResultUnguarded = "evaluation::one_of_several_results_is_recorded",
            /// An unknown cell stands for the first one.
            ResultOfAnyCell = "evaluation::a_result_belongs_to_a_case_cell_and_sample",
            /// Lists of missing results reverse each page.
            MissingResultsReversed = "evaluation::missing_results_are_listed_in_order",
            /// A walk ends with the first page without missing results.
            MissingResultsEndEarly = "evaluation::a_walk_of_missing_results_goes_on",
            /// Results are lost when the store is opened again.
            ReopenForgetsResults = "evaluation::an_interrupted_evaluation_goes_on",
            /// A cursor of another run begins the list again.
            MissingCursorUnbound = "evaluation::a_cursor_belongs_to_one_evaluation",
            /// Failed results are not listed.
            FailedResultsNotListed = "evaluation::a_summary_counts_results",
            /// Scores are forgotten.
            ResultScoreForgotten = "evaluation::two_evaluations_are_compared",
            /// Results do not say which content their case has.
            ResultCaseForgotten = "evaluation::a_comparison_spans_dataset_versions",
            /// A list of results that begins after a cell begins after its case.
            ResultsAfterTheCase = "evaluation::a_comparison_is_read_in_pages",
            /// A purge removes runs of any age.
            EvaluationAgeIgnored = "evaluation::old_evaluations_are_removed",
            /// A purge keeps no newest runs.
            NewestEvaluationsRemoved = "evaluation::the_newest_evaluations_of_a_dataset_stay",
            /// A pin is forgotten.
            EvaluationPinForgotten = "evaluation::pinned_and_running_evaluations_stay",
            /// A dry purge removes runs.
            EvaluationDryPurgeRemoves = "evaluation::a_dry_purge_removes_no_evaluation",
            /// A purge cannot be stopped.
            EvaluationPurgeNotStopped = "evaluation::a_purge_of_evaluations_goes_on_where_it_stopped",
            /// A purge leaves the results.
            EvaluationResultsStay = "evaluation::a_removed_evaluation_leaves_nothing",
            /// A purge removes the cases of the dataset.
            EvaluationPurgeTakesCases = "evaluation::what_an_evaluation_refers_to_stays",
            /// An erasure is a dry run.
            ErasureKeepsTheThread = "erasure::no_reader_sees_anything_of_an_erased_thread",
            /// An erasure does not look at the mailbox.
            ErasureKeepsDispatches = "erasure::dispatches_are_erased",
            /// An erasure does not look at the outbox.
            ErasureKeepsOutboxRows = "erasure::outbox_rows_are_erased_whatever_their_status",
            /// An erasure does not trim the scopes of a thread.
            ErasureKeepsEvents = "erasure::events_of_the_thread_and_its_runs_are_erased",
            /// An erasure leaves the contents of events.
            ErasureKeepsContents = "erasure::events_in_topics_lose_their_content",
            /// An erasure finds no replay record.
            ErasureKeepsReplay = "erasure::replay_streams_of_the_thread_are_removed",
            /// An erasure leaves the bytes of replay records.
            ErasureKeepsBytes = "erasure::records_made_from_erased_events_lose_their_bytes",
            /// An erasure ignores the replay streams that it is told.
            ErasureIgnoresNamedStreams = "erasure::named_replay_streams_are_removed",
            /// An erasure finds no entry in the order of effects.
            ErasureKeepsEntries = "erasure::layers_keep_no_entry_of_an_erased_thread",
            /// An erasure leaves the values of audit records.
            ErasureKeepsAuditValues = "erasure::audit_records_lose_their_values",
            /// An erasure finds no profile.
            ErasureKeepsProfiles = "erasure::profiles_of_the_thread_are_removed",
            /// Children lose their parent before it is erased.
            ErasureKeepsDescendants = "erasure::descendants_are_erased",
            /// Threads lose their resources before one of them is erased.
            ErasureIgnoresResources = "erasure::children_of_another_resource_stay",
            /// The audit record of an erasure has a text.
            ErasureAuditHasContent = "erasure::an_erasure_is_audited_without_content",
            /// An erasure takes all threads.
            ErasureTakesOthers = "erasure::nothing_else_changes",
            /// Of a resource one thread is erased.
            ErasureOfOneThread = "erasure::a_resource_is_erased_with_its_profile",
            /// A dry run erases.
            ErasureDryRunErases = "erasure::a_dry_run_counts_what_is_erased",
            /// An unknown thread is an error.
            ErasureRefusesUnknown = "erasure::an_erasure_can_be_repeated",
            /// Nothing is done about an unknown thread.
            ErasureLeavesLeftovers = "erasure::what_a_deletion_left_is_erased",
            /// The progress does not stop an erasure.
            ErasureCannotBeStopped = "erasure::a_stopped_erasure_goes_on",
            /// A thread is there again after a reopen.
            ErasureUndoneByReopen = "erasure::an_erased_thread_stays_erased_after_a_reopen",
            /// A thread is deleted when space is reclaimed.
            ReclaimTakesAThread = "erasure::space_is_reclaimed_beside_other_calls",
        }
    };
}

pub(super) use run_bugs;
