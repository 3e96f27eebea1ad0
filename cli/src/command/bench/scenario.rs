//! The scenarios that are measured.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agentstore::{
    AgentId, AppendEvents, ClaimRequest, CollectionId, Commit, CommitCoordinator, CommitKey, Detail, DocumentChange,
    DocumentExpect, DocumentKey, DocumentStore, Error, Expect, IdSource, Json, KeySegment, MailboxStore, Message,
    NewDispatch, NewEntry, NewEvent, NewOutboxRow, Result, RunChange, RunId, RunStatus, Scope, Settlement, Store,
    TenantId, TenantStores, ThreadId, TopicId, UuidSource, WorkerId, WriteDocuments,
};
use tokio::task::JoinHandle;

use super::{
    blobs::{self, CopyFolder},
    layers::{run_checkpoints, run_effect_ends, run_entry_reads, run_single_dispatches, run_trace_reads},
    target::BenchTarget,
};

/// A load that can be measured, with a name that does not change between releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    work: WorkKind,
    /// The number of callers that wait for their answers at the same time.
    pub(super) callers: usize,
    /// The length of each message body or payload, in bytes.
    pub(super) bytes: usize,
}

/// What the callers of a scenario do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkKind {
    /// Each commit has one entry. Each caller commits to its own thread and expects the version of that thread.
    Entry,
    /// The same with a document and an event of a topic. Each caller has its own document and its own topic.
    EntryWithDocument,
    /// Each commit has one entry and ends an effect. Only the commits are measured.
    EntryWithEffectEnd,
    /// Each commit has one entry and a commit key. All callers commit to the same thread.
    OneThread,
    /// Each commit has an entry, a run, an event, an outbox row and a commit key. Each caller commits to its own
    /// thread.
    Turn,
    /// Each write puts one document. Each caller puts its own document and expects its revision.
    Documents,
    /// Each put replaces the stream checkpoint of a run. Each caller has its own run.
    Checkpoints,
    /// Dispatches that are enqueued, claimed and settled in batches.
    Dispatches,
    /// Dispatches that are enqueued, claimed and settled one by one.
    SingleDispatches,
    /// The same, and between the claim and the settlement the effects of the run that are in doubt are read, as a
    /// worker does before each attempt.
    SingleDispatchesWithEffects,
    /// A file is put as a blob.
    BlobPuts,
    /// A blob is written to a file.
    BlobGets,
    /// The trace of a run is read, and so derived.
    TraceReads,
    /// The entries of a run are read.
    EntryReads,
}

/// What the rate of a scenario is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Loops that write the same bytes.
    Loops,
    /// Copies of a file.
    Copies,
    /// Another scenario on the same store, which does the work without what is measured.
    Scenario(Scenario, &'static str),
}

const SMALL_BODY_BYTES: usize = 600;
const LARGE_BODY_BYTES: usize = 4096;
/// The number of dispatches in a call. Each dispatch belongs to a different thread.
const DISPATCHES_PER_CALL: usize = 100;
/// The lease of claims.
pub(super) const LEASE: Duration = Duration::from_mins(1);
/// The greatest number of connections with which the limit of a server is measured. More connections do not make the
/// server faster.
const MAX_CONNECTIONS: usize = 8;

const fn scenario(name: &'static str, work: WorkKind, callers: usize, bytes: usize) -> Scenario {
    Scenario { name, work, callers, bytes }
}

/// The bytes of a blob, unless the caller chooses another length.
pub(super) const DEFAULT_BLOB_MIB: u32 = 32;
const MIB: usize = 1 << 20;

pub(super) const SCENARIOS: [Scenario; 20] = [
    scenario("commit-1", WorkKind::Entry, 1, SMALL_BODY_BYTES),
    scenario("commit-1-4k", WorkKind::Entry, 1, LARGE_BODY_BYTES),
    scenario("commit-1-with-document", WorkKind::EntryWithDocument, 1, SMALL_BODY_BYTES),
    scenario("commit-1-with-effect-end", WorkKind::EntryWithEffectEnd, 1, SMALL_BODY_BYTES),
    scenario("commit-8", WorkKind::Entry, 8, SMALL_BODY_BYTES),
    scenario("commit-64", WorkKind::Entry, 64, SMALL_BODY_BYTES),
    scenario("commit-64-4k", WorkKind::Entry, 64, LARGE_BODY_BYTES),
    scenario("commit-64-one-thread", WorkKind::OneThread, 64, SMALL_BODY_BYTES),
    scenario("commit-64-one-thread-4k", WorkKind::OneThread, 64, LARGE_BODY_BYTES),
    scenario("turn-1", WorkKind::Turn, 1, SMALL_BODY_BYTES),
    scenario("turn-8", WorkKind::Turn, 8, SMALL_BODY_BYTES),
    scenario("turn-64", WorkKind::Turn, 64, SMALL_BODY_BYTES),
    scenario("document-1", WorkKind::Documents, 1, SMALL_BODY_BYTES),
    scenario("document-8", WorkKind::Documents, 8, SMALL_BODY_BYTES),
    scenario("checkpoint-1", WorkKind::Checkpoints, 1, LARGE_BODY_BYTES),
    scenario("trace-1", WorkKind::TraceReads, 1, SMALL_BODY_BYTES),
    scenario("blob-put", WorkKind::BlobPuts, 1, DEFAULT_BLOB_MIB as usize * MIB),
    scenario("blob-get", WorkKind::BlobGets, 1, DEFAULT_BLOB_MIB as usize * MIB),
    scenario("dispatch-1-with-effects-read", WorkKind::SingleDispatchesWithEffects, 1, SMALL_BODY_BYTES),
    scenario("dispatch-8", WorkKind::Dispatches, 8, SMALL_BODY_BYTES),
];

/// What one iteration of a limit loop writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoopIteration {
    /// The number of records.
    pub(super) records: usize,
    /// The number of bytes of each record.
    pub(super) record_bytes: usize,
    /// The number of units of the scenario (commits or dispatches) that one iteration corresponds to.
    pub(super) units: f64,
}

impl LoopIteration {
    /// Returns the number of bytes of all records.
    pub(super) const fn bytes(self) -> usize {
        self.records * self.record_bytes
    }
}

/// How many units were completed, how long the measurement took, and how long each call took.
#[derive(Debug, Default)]
pub(super) struct Measurement {
    pub(super) count: u64,
    pub(super) took: Duration,
    pub(super) call_durations: Vec<Duration>,
}

impl Measurement {
    /// Adds a call of the only caller, which completed this number of units. What the caller does between its calls is
    /// not measured.
    pub(super) fn add_call(&mut self, units: u64, duration: Duration) {
        self.count += units;
        self.took += duration;
        self.call_durations.push(duration);
    }

    /// Adds the numbers of another measurement.
    pub(super) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.took += other.took;
        self.call_durations.extend(other.call_durations);
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

impl Scenario {
    /// Returns whether a store that keeps only a mailbox can run the scenario.
    pub(super) fn needs_only_a_mailbox(&self) -> bool {
        self.work == WorkKind::Dispatches
    }

    /// Sets the length of the blobs, if the scenario is about blobs.
    pub(super) const fn with_blob_mib(mut self, mebibytes: u32) -> Self {
        if self.is_about_blobs() {
            self.bytes = mebibytes as usize * MIB;
        }
        self
    }

    /// Returns whether the scenario is about blobs.
    pub(super) const fn is_about_blobs(&self) -> bool {
        matches!(self.work, WorkKind::BlobPuts | WorkKind::BlobGets)
    }

    /// Returns what the rate is compared with.
    pub(super) const fn limit(&self) -> Limit {
        let (work, description) = match self.work {
            WorkKind::BlobPuts | WorkKind::BlobGets => return Limit::Copies,
            WorkKind::TraceReads => (WorkKind::EntryReads, "a read of the entries of the same run"),
            WorkKind::SingleDispatchesWithEffects => {
                (WorkKind::SingleDispatches, "the same dispatches without the read of effects")
            }
            _ => return Limit::Loops,
        };
        Limit::Scenario(Self { work, ..*self }, description)
    }

    /// Returns a description of the limit, if it is not that of most scenarios.
    pub(super) const fn limit_description(&self) -> Option<&'static str> {
        match self.limit() {
            Limit::Loops => None,
            Limit::Copies => Some(blobs::DESCRIPTION),
            Limit::Scenario(_, description) => Some(description),
        }
    }

    /// Returns whether its only caller does more than what is measured.
    const fn measures_calls_only(&self) -> bool {
        matches!(self.work, WorkKind::EntryWithEffectEnd | WorkKind::TraceReads | WorkKind::EntryReads)
            || self.is_about_blobs()
    }

    /// Creates the file that is put and copied, if the scenario is about blobs.
    pub(super) fn copy_folder(&self, target: &BenchTarget) -> Result<Option<Arc<CopyFolder>>> {
        let created = self.is_about_blobs().then(|| CopyFolder::new(target, self.bytes).map(Arc::new));
        created.transpose()
    }

    /// Returns the unit that is counted.
    pub(super) fn unit(&self) -> &'static str {
        match self.work {
            WorkKind::Documents => "documents",
            WorkKind::Checkpoints => "checkpoints",
            WorkKind::Dispatches | WorkKind::SingleDispatches | WorkKind::SingleDispatchesWithEffects => "dispatches",
            WorkKind::BlobPuts | WorkKind::BlobGets => "MiB",
            WorkKind::TraceReads => "traces",
            WorkKind::EntryReads => "reads",
            _ => "commits",
        }
    }

    /// Returns the number of loops with which the limit is measured.
    pub(super) fn limit_loops(&self, on_server: bool) -> usize {
        match self.work {
            WorkKind::OneThread => 1,
            _ if on_server => self.callers.min(MAX_CONNECTIONS),
            _ => self.callers,
        }
    }

    /// Returns what one iteration of a limit loop writes. A dispatch counts as three writes, because it is written when
    /// it is enqueued, claimed and settled.
    pub(super) fn limit_iteration(&self) -> LoopIteration {
        match self.work {
            WorkKind::Dispatches => LoopIteration {
                records: DISPATCHES_PER_CALL,
                record_bytes: self.bytes,
                units: DISPATCHES_PER_CALL as f64 / 3.0,
            },
            _ => LoopIteration { records: 1, record_bytes: self.bytes, units: 1.0 },
        }
    }

    /// Runs the callers for the given duration.
    pub(super) async fn run(
        self,
        store: &dyn Store,
        files: Option<&Arc<CopyFolder>>,
        duration: Duration,
    ) -> Result<Measurement> {
        let stores = store.tenant(&TenantId::default_tenant())?;
        let unique_name = UuidSource.next_id();
        let start = Instant::now();
        let until = start + duration;
        let mut caller_tasks = Vec::new();
        for caller in 0..self.callers {
            let names = (unique_name.as_str(), format!("{unique_name}-{caller}"));
            caller_tasks.push(self.spawn_caller(stores.clone(), files, names, until)?);
        }
        let mut total = Measurement::default();
        for task in caller_tasks {
            let measurement = task.await.map_err(|e| Error::unavailable("a caller ended early").with_source(e))??;
            total.count += measurement.count;
            total.call_durations.extend(measurement.call_durations);
        }
        total.took = match self.measures_calls_only() {
            true => total.call_durations.iter().sum(),
            false => start.elapsed(),
        };
        Ok(total)
    }

    /// Begins the task of a caller. `names` are unique: that of the round, and that of the caller.
    fn spawn_caller(
        self,
        stores: TenantStores,
        files: Option<&Arc<CopyFolder>>,
        (round_name, name): (&str, String),
        until: Instant,
    ) -> Result<JoinHandle<Result<Measurement>>> {
        let unsupported = |operation| Error::new(Detail::Unsupported { operation });
        let bytes = self.bytes;
        Ok(match self.work {
            WorkKind::Dispatches => {
                let mailbox = stores.mailbox.ok_or_else(|| unsupported("measuring a mailbox"))?;
                tokio::spawn(run_dispatches(mailbox, name, bytes, until))
            }
            WorkKind::Documents => {
                let documents = stores.documents.ok_or_else(|| unsupported("measuring documents"))?;
                tokio::spawn(run_documents(documents, name, bytes, until))
            }
            WorkKind::Checkpoints => tokio::spawn(run_checkpoints(stores, name, bytes, until)),
            WorkKind::EntryWithEffectEnd => tokio::spawn(run_effect_ends(stores, name, bytes, until)),
            WorkKind::SingleDispatches => tokio::spawn(run_single_dispatches(stores, (bytes, false), until)),
            WorkKind::SingleDispatchesWithEffects => tokio::spawn(run_single_dispatches(stores, (bytes, true), until)),
            WorkKind::TraceReads => tokio::spawn(run_trace_reads(stores, name, bytes, until)),
            WorkKind::EntryReads => tokio::spawn(run_entry_reads(stores, name, bytes, until)),
            WorkKind::BlobPuts | WorkKind::BlobGets => {
                let files = files.cloned().ok_or_else(|| unsupported("measuring blobs without a file"))?;
                match self.work {
                    WorkKind::BlobPuts => tokio::spawn(files.run_puts(stores, until)),
                    _ => tokio::spawn(files.run_gets(stores, until)),
                }
            }
            WorkKind::Entry | WorkKind::EntryWithDocument | WorkKind::OneThread | WorkKind::Turn => {
                let commits = stores.commits.ok_or_else(|| unsupported("measuring commits"))?;
                let thread = ThreadId::new(if self.work == WorkKind::OneThread { round_name } else { &name })?;
                tokio::spawn(self.run_commits(commits, thread, name, until))
            }
        })
    }

    async fn run_commits(
        self,
        commits: Arc<dyn CommitCoordinator>,
        thread: ThreadId,
        caller_name: String,
        until: Instant,
    ) -> Result<Measurement> {
        let (mut measurement, mut expect) = (Measurement::default(), Expect::Absent);
        while Instant::now() < until {
            let commit = self.build_commit(&thread)?;
            // A caller of `WorkKind::Entry` is the only writer of its thread and knows the version of the thread. The
            // commits of the other scenarios have a key.
            let commit = match self.work {
                WorkKind::Entry | WorkKind::EntryWithDocument => commit.expecting(expect),
                _ => commit.with_key(CommitKey::new(format!("{caller_name}-{}", measurement.count))?),
            };
            let start = Instant::now();
            let receipt = commits.commit(commit).await?;
            measurement.call_durations.push(start.elapsed());
            measurement.count += 1;
            expect = Expect::Version(receipt.version);
            // A store that never waits would not let the tasks of other callers run.
            tokio::task::yield_now().await;
        }
        Ok(measurement)
    }

    fn build_commit(self, thread: &ThreadId) -> Result<Commit> {
        let commit = Commit::new(thread.clone()).entry(NewEntry::new(Message::user("x".repeat(self.bytes))));
        if self.work == WorkKind::EntryWithDocument {
            let change = DocumentChange::put(document_key(thread.as_str())?, Json::parse("{}")?);
            let event = NewEvent::new("bench.document".parse()?, [Scope::Topic(TopicId::new(thread.as_str())?)]);
            return Ok(commit.with_documents([change]).with_events(AppendEvents::new([event])));
        }
        if self.work != WorkKind::Turn {
            return Ok(commit);
        }
        let run = RunChange::new(RunId::new(format!("run-{thread}"))?, RunStatus::Running);
        let event = NewEvent::new("bench.turn".parse()?, [Scope::Thread(thread.clone())]);
        let row = NewOutboxRow::new("bench".parse()?, "nowhere".parse()?, Json::parse("{}")?);
        Ok(commit
            .with_run(run.with_agent(AgentId::new("bench")?))
            .with_events(AppendEvents::new([event]))
            .with_outbox([row]))
    }
}

fn document_key(name: &str) -> Result<DocumentKey> {
    DocumentKey::new(CollectionId::new("bench")?, [KeySegment::id(name)?])
}

async fn run_documents(
    documents: Arc<dyn DocumentStore>,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let (key, value) = (document_key(&caller_name)?, Json::parse(&format!("\"{}\"", "x".repeat(bytes)))?);
    let (mut measurement, mut expect) = (Measurement::default(), DocumentExpect::Absent);
    while Instant::now() < until {
        let change = DocumentChange::put(key.clone(), value.clone()).expecting(expect);
        let start = Instant::now();
        let written = documents.write_documents(WriteDocuments::new([change])).await?;
        measurement.call_durations.push(start.elapsed());
        measurement.count += 1;
        expect = written.revision.map_or(expect, DocumentExpect::Revision);
        // A store that never waits would not let the tasks of other callers run.
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}

async fn run_dispatches(
    mailbox: Arc<dyn MailboxStore>,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let (worker, run) = (WorkerId::new(caller_name.clone())?, RunId::new("bench")?);
    let payload = Json::parse(&format!("\"{}\"", "x".repeat(bytes)))?;
    let threads = (0..DISPATCHES_PER_CALL)
        .map(|number| ThreadId::new(format!("{caller_name}-{number}")))
        .collect::<Result<Vec<_>>>()?;
    let mut measurement = Measurement::default();
    while Instant::now() < until {
        let batch =
            threads.iter().map(|thread| NewDispatch::new(thread.clone(), run.clone()).with_payload(payload.clone()));
        let batch = batch.collect();
        let start = Instant::now();
        for enqueued in mailbox.enqueue(batch).await? {
            let _enqueued = enqueued?;
        }
        measurement.call_durations.push(start.elapsed());
        let batch_size = u32::try_from(DISPATCHES_PER_CALL).unwrap_or(u32::MAX);
        let start = Instant::now();
        let claimed = mailbox.claim(ClaimRequest::new(worker.clone(), LEASE).up_to(batch_size)).await?.claimed;
        measurement.call_durations.push(start.elapsed());
        let settlements = claimed.iter().map(|dispatch| (dispatch.claim(), Settlement::Ack { result: None })).collect();
        let start = Instant::now();
        for settled in mailbox.settle(settlements).await? {
            let _settled = settled?;
        }
        measurement.call_durations.push(start.elapsed());
        measurement.count += claimed.len() as u64;
    }
    Ok(measurement)
}
