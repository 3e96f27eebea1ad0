//! Data model, contracts and pure rules of agentstore: durable state for AI agents.
//!
//! A backend implements the traits of this crate. The rules in this crate decide; a backend loads and stores. The crate
//! contains no driver, does no I/O and needs no async runtime.
//!
//! # Layout
//! - ids, time, JSON, errors, limits, versions, pages, claims, progress: a module each
//! - `thread`, `log`, `run`, `commit`, `context`, `pending`, `event`, `mailbox`, `outbox`, `document`, `object`: a
//!   folder for each domain, usually with `record` (data), `query` (filters), `rules` (pure decisions) and `store` (the
//!   contract)
//! - [`buffer`]: what a write buffer in front of a store needs of core and of that store
//! - [`live`]: commands to running attempts, and wake-ups for workers that wait for work; it also implements both for
//!   stores that only one process uses
//! - [`in_flight`]: keeps track of calls that still run although their callers have stopped waiting; for stores
//! - [`ext`]: convenience methods for users: fork, checkpoint, rewind, streams, comparisons, and input that is
//!   delivered live or queued
//! - [`layers`]: contracts over documents and topics, which every backend with documents has: the audit log, blobs,
//!   config, datasets, effects, erasures, evaluation runs, profiles, the registry, the replay log, stream checkpoints,
//!   traces
//! - [`span`]: what happened in a run, in the terms of OpenTelemetry: derived spans, and OTLP/JSON
//! - [`codec`]: how records are written as JSON and read back, including fields that this release does not know
//! - [`inspect`]: checks and repairs of stored data
//! - [`health`]: the state of an opened store: versions, settings, clock, free space, lag
//! - [`records`]: records as a store keeps them, and copies from one store to another
//!
//! ```
//! use store_core::{Commit, CommitCoordinator, Expect, Message, NewEntry, ThreadId};
//!
//! async fn say(commits: &dyn CommitCoordinator, text: &str) -> store_core::Result<()> {
//!     let thread = ThreadId::new("t-1")?;
//!     let first = Commit::new(thread.clone())
//!         .expecting(Expect::Absent)
//!         .entry(NewEntry::new(Message::user(text)));
//!     let receipt = commits.commit(first).await?;
//!     let next = Commit::new(thread)
//!         .expecting(Expect::Version(receipt.version))
//!         .entry(NewEntry::new(Message::assistant("hi")));
//!     let _receipt = commits.commit(next).await?;
//!     Ok(())
//! }
//! ```

pub mod codec;

mod capabilities;
mod claim;
mod error;
mod id;
mod identity;
mod json;
mod limits;
mod page;
mod progress;
mod store;
mod sync;
mod time;
mod version;
mod waiters;

pub mod buffer;
pub mod commit;
pub mod context;
pub mod document;
pub mod event;
pub mod ext;
pub mod health;
pub mod in_flight;
pub mod inspect;
pub mod layers;
pub mod live;
pub mod log;
pub mod mailbox;
pub mod object;
pub mod outbox;
pub mod pending;
pub mod records;
pub mod run;
pub mod span;
pub mod thread;

pub use self::{
    capabilities::{Capabilities, EventDelivery, Processes, Survives, TimeSource},
    claim::{ClaimNumber, ClaimToken, Fence},
    commit::{Commit, CommitCoordinator, Receipt, StateChange, StateOp, ThreadState},
    context::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, Repair, RepairKind, ThreadContext},
    document::{
        DeleteDocuments, DeletedDocuments, Document, DocumentChange, DocumentExpect, DocumentKey, DocumentOp,
        DocumentQuery, DocumentRef, DocumentScope, DocumentStore, KeySegment, MAX_KEY_BYTES, MAX_KEY_SEGMENTS,
        WriteDocuments, WrittenDocuments,
    },
    error::{Detail, Error, ErrorKind, Outcome, Result, SchemaRemedy, Subject, UnavailableCause},
    event::{
        AppendEvents, AppendedEvents, Event, EventCursors, EventFilter, EventQuery, EventReader, EventRef,
        EventRetention, EventStore, EventStream, EventSubscriber, EventVisibility, EventWriter, MAX_EVENT_TOPICS,
        NewEvent, RedactEvent, Scope, ScopeInfo, Subscribe, Subscription, SubscriptionStart, TrimBefore, TrimRequest,
        Trimmed,
    },
    ext::{
        CommitCoordinatorExt, DeliverOrQueue, DeliveredOrQueued, DocumentStoreExt, EntryStream, Fork, Guard,
        LeafComparison, LogReaderExt, NewCheckpoint, PendingStoreExt,
    },
    id::{
        AgentId, AgentType, CaseId, CausationId, CellId, CollectionId, CommitKey, CorrelationId, DatasetId, DedupeKey,
        DefinitionId, DefinitionKind, DispatchId, EffectId, EffectKind, EntryId, EvaluationId, EventId, EventKey,
        EventKind, IdSource, IdempotencyKey, InstanceId, InterruptKey, LaneId, MAX_ID_BYTES, OrderKey, OutboxId,
        OutboxTarget, PinHolder, ProfileKey, ProjectorVersion, PublicationId, ReplayStreamId, ResourceId, RunId,
        SegmentId, SharedScopeId, TenantId, ThreadId, TopicId, UserId, UuidSource, WireEventId, WireEventType,
        WireProtocol, WireProtocolVersion, WorkerId, WriterId,
    },
    identity::StoreIdentity,
    json::{Json, MAX_JSON_DEPTH},
    layers::{
        LayerStore, TrimFeed, TrimmedFeed,
        audit::{
            AUDIT_RETENTION, AuditAction, AuditLog, AuditQuery, AuditRecord, AuditResource, AuditStore, NewAudit,
            ResourceFilter, Restoration, TextFilter,
        },
        blob::{
            Blob, BlobHash, BlobLayer, BlobOptions, BlobRef, BlobStore, BlobStoreExt, CollectBlobs, CollectedBlobs,
            MIN_GRACE, OpenedBlob, RemovedBlobs, SUGGESTED_MOVED_BYTES, reference_changes, with_blobs,
        },
        config::{
            ConfigChange, ConfigContent, ConfigEntry, ConfigEntryKind, ConfigLayer, ConfigName, ConfigOp,
            ConfigPosition, ConfigRecord, ConfigSnapshot, ConfigSource, ConfigStore, ConfigStoreExt, ConfigStream,
            ConfigUpdate, ConfigWatch, WrittenConfig,
        },
        dataset::{
            CaseChange, CaseContent, CaseOrigin, CaseOutcome, ChangeDataset, ChangedDataset, Dataset, DatasetCase,
            DatasetLayer, DatasetStore, DatasetVersion, DatasetVersionContent, DatasetVersionRef, RecordedCall,
            RecordedRun, case_of_run,
        },
        effect::{
            BegunEffect, Effect, EffectEnd, EffectIntent, EffectLayer, EffectName, EffectOwner, EffectQuery,
            EffectStatus, EffectStore, EndEffect, MAX_EFFECT_ID_BYTES, NewEffect, PurgeEffects, PurgedEffects,
            Resolution, ResolveEffect, end_changes,
        },
        erasure::{EraseResource, EraseThread, Erased, ErasureLayer, ErasureStore},
        evaluation::{
            Cell, CellComparison, CellResults, CellSummary, CellVerdict, Evaluation, EvaluationEnd, EvaluationLayer,
            EvaluationReader, EvaluationReaderExt, EvaluationResult, EvaluationStatus, EvaluationStore,
            EvaluationSummary, EvaluationWriter, MAX_CELL_BYTES, MAX_RESULTS_OF_CASE, MissingResult, NewEvaluation,
            NewResult, PurgeEvaluations, PurgedEvaluations, ResultContent, ResultKey, ResultQuery, Score,
            compare_cells,
        },
        profile::{
            ProfileChange, ProfileLayer, ProfileOwner, ProfileStore, ProfileStoreExt, ProfileValue, SharedScope,
            WriteProfile, WrittenProfile,
        },
        registry::{
            Definition, DefinitionRef, DefinitionVersion, MAX_DEFINITION_KIND_BYTES, Manifest, ManifestChoice,
            NewVersion, Publication, PublicationContent, PublicationEntry, PublishAll, PublishedVersion, PurgeVersions,
            PurgedVersions, Reference, ReferenceError, RegistryChange, RegistryFact, RegistryLayer, RegistryReader,
            RegistryRetention, RegistryStore, RegistryStream, RegistryWriter, RollbackPublication, VersionContent,
            VersionRef, content_hash, pin_changes, resolve_references, unpin_changes,
        },
        replay::{
            AppendReplay, AppendedReplay, MAX_PROTOCOL_BYTES, NewReplay, PurgeReplay, PurgedReplay, ReplayContent,
            ReplayLayer, ReplayPlan, ReplayQuery, ReplayRecord, ReplaySource, ReplayStore, ReplayStreamRef,
            ReplaySubscription,
        },
        stream_checkpoint::{
            CallInFlight, PartialAnswer, PurgeStreamCheckpoints, PurgedStreamCheckpoints, PutStreamCheckpoint,
            Recovery, StreamCheckpoint, StreamCheckpointLayer, StreamCheckpointOutcome, StreamCheckpointStore,
            stream_checkpoint_removal,
        },
        trace::{
            ListSpans, MAX_PUT_SPANS, MAX_TRACE_SPANS, PurgeTraces, PurgedTraces, PutSpans, PutSpansOutcome, Trace,
            TraceLayer, TraceName, TracePin, TraceQuery, TraceStore, TraceSummary,
        },
    },
    limits::{Limits, check_limit, length},
    live::{
        DEFAULT_LIVE_DEADLINE, DeliverLive, LiveChannel, LiveCommand, LiveDelivery, LiveInput, LiveReceiver,
        LiveTarget, ReceivedCommand, WaitResult, WakeUps,
    },
    log::{
        Block, BlockKind, Body, BodyKind, BranchPoint, Checkpoint, Compaction, Custom, Decision, DecisionAction,
        Direction, Entry, EntryQuery, ImportOrigin, Interval, JsonMap, Label, Leaf, LogReader, Media, MediaSource,
        Message, NewBody, NewEntry, Opaque, Origin, ParentRef, Provenance, Rewind, RewindTo, Role, Snapshot, Thinking,
        TokenCounts, ToolResult, ToolUse, Usage, UsageRecord, Visibility,
    },
    mailbox::{
        Attempt, AttemptEnd, ClaimRef, ClaimRequest, ClaimedDispatch, Claims, Dispatch, DispatchClaim, DispatchCounts,
        DispatchFilter, DispatchOrder, DispatchQuery, DispatchStatus, Enqueued, Interrupt, Interrupted,
        MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore, NewDispatch,
        NotClaimedReason, Purge, Purged, ReadyThread, Reclaimed, Requeue, RequeueChoice, Settled, Settlement,
        UnreadableThread, When,
    },
    object::{ByteStream, ObjectKey, ObjectStore, ObjectUpload, StoredObject, byte_stream},
    outbox::{
        ClaimOutbox, ClaimedOutbox, ClaimedOutboxRow, ExtendOutbox, NewOutboxRow, OutboxChoice, OutboxClaim,
        OutboxCounts, OutboxFilter, OutboxQuery, OutboxRow, OutboxSettlement, OutboxStatus, OutboxStore, PurgeOutbox,
        RequeueOutbox, Requeued, SettleOutbox,
    },
    page::{
        Cursor, CursorKey, CursorScope, DEFAULT_PAGE, MAX_BYTES_READ, MAX_PAGE, MAX_RECORDS_READ, Page, PageBuilder,
        PageRequest, Position, TimeOrderedSets, TimeWalk, merge_ordered,
    },
    pending::{
        AppendPending, AppendedInputs, Boundary, Delivery, Granularity, InputRef, NewInput, PendingBody, PendingInput,
        PendingQueue, PendingStore, PendingUpdate, Reorder, RunTarget, select_inputs,
    },
    progress::{IgnoreProgress, Progress},
    run::{
        Completion, EntryRange, Run, RunChange, RunFilter, RunListKey, RunOutcome, RunPhase, RunQuery, RunReader,
        RunStatus, Ticket, WaitingReason, WaitingState,
    },
    span::{
        Attribute, AttributeValue, OtlpImport, Span, SpanDeriver, SpanEvent, SpanId, SpanKind, SpanLink, SpanSource,
        SpanStatus, StatusCode, TraceId, derive_spans, read_otlp, root_span_of, trace_of, write_otlp,
    },
    store::{ReclaimedSpace, Store, TenantStores},
    thread::{
        ChildStrategy, DeleteRequest, Deletion, NewThread, ParentFilter, PruneRequest, Pruned, Thread, ThreadAdmin,
        ThreadFields, ThreadFilter, ThreadListKey, ThreadOrder, ThreadPatch, ThreadQuery, ThreadReader, ThreadRunStore,
    },
    time::{Clock, ManualClock, SystemClock, Timestamp},
    version::{Expect, Version},
};
