//! The scenarios about layers: stream checkpoints, commits that end effects, reads of effects and of traces.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::Instant;

use agentstore::{
    AgentId, BegunEffect, ClaimRequest, Commit, CommitCoordinator, Detail, EffectEnd, EffectIntent, EffectLayer,
    EffectName, EffectOwner, EffectQuery, EffectStore, EntryQuery, EntryRange, Error, Expect, IdSource, Json, MAX_PAGE,
    Message, NewDispatch, NewEffect, NewEntry, NewThread, PageRequest, PartialAnswer, PutStreamCheckpoint, Result,
    RunChange, RunId, RunOutcome, RunStatus, Settlement, StreamCheckpointLayer, StreamCheckpointOutcome,
    StreamCheckpointStore, TenantStores, ThreadId, TraceLayer, TraceName, TraceStore, UuidSource, WorkerId,
    end_changes, layers::LayerStore,
};

use super::scenario::{LEASE, Measurement};

/// The number of entries of a run whose trace is read.
const RUN_ENTRIES: u64 = 100;

/// Puts checkpoints of a run, each with a text of `bytes` bytes.
pub(super) async fn run_checkpoints(
    stores: TenantStores,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let (checkpoints, thread) = (StreamCheckpointLayer::new(&stores)?, ThreadId::new(&caller_name)?);
    if let Some(threads) = &stores.threads {
        let _thread = threads.create_thread(NewThread::new(thread.clone())).await?;
    }
    let (run, answer) = (RunId::new(&caller_name)?, PartialAnswer::new(1).with_text("x".repeat(bytes)));
    let mut measurement = Measurement::default();
    while Instant::now() < until {
        let sequence = measurement.count + 1;
        let put = PutStreamCheckpoint::new(thread.clone(), run.clone(), sequence, answer.clone());
        let start = Instant::now();
        let outcome = checkpoints.put_stream_checkpoint(put).await?;
        measurement.call_durations.push(start.elapsed());
        if outcome != StreamCheckpointOutcome::Stored {
            return Err(Error::unavailable("another caller puts checkpoints of the same run"));
        }
        measurement.count += 1;
        // A store that never waits would not let the tasks of other callers run.
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}

/// Commits entries of `bytes` bytes, each with the end of an effect. Only the commits are measured, and not the calls
/// that begin the effects.
pub(super) async fn run_effect_ends(
    stores: TenantStores,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let effects = EffectLayer::new(LayerStore::new(&stores)?);
    let unsupported = Error::new(Detail::Unsupported { operation: "measuring commits" });
    let commits = stores.commits.as_ref().ok_or(unsupported)?;
    let (thread, run) = (ThreadId::new(&caller_name)?, RunId::new(&caller_name)?);
    let commit = || Commit::new(thread.clone()).entry(NewEntry::new(Message::user("x".repeat(bytes))));
    let mut expect = Expect::Version(commits.commit(commit().expecting(Expect::Absent)).await?.version);
    let (mut measurement, done) = (Measurement::default(), EffectEnd::Done(Json::parse("{}")?));
    while Instant::now() < until {
        let id = format!("effect-{}", measurement.count).parse()?;
        let intent = EffectIntent::new("bench".parse()?, Json::parse("{}")?);
        let begun = effects.begin_effect(NewEffect::new(EffectName::new(thread.clone(), run.clone(), id)?, intent));
        let BegunEffect::Fresh(effect) = begun.await? else {
            return Err(Error::unavailable("another caller performs the same effects"));
        };
        let commit = commit().expecting(expect).with_documents(end_changes(&effect, done.clone())?);
        let start = Instant::now();
        let receipt = commits.commit(commit).await?;
        measurement.call_durations.push(start.elapsed());
        measurement.count += 1;
        expect = Expect::Version(receipt.version);
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}

/// Enqueues, claims and settles dispatches one by one. With `reads_effects`, the effects of the run that are in doubt
/// are read in between. There are none.
pub(super) async fn run_single_dispatches(
    stores: TenantStores,
    (bytes, reads_effects): (usize, bool),
    until: Instant,
) -> Result<Measurement> {
    let effects = EffectLayer::new(LayerStore::new(&stores)?);
    let mailbox = stores.mailbox.ok_or_else(|| Error::new(Detail::Unsupported { operation: "measuring a mailbox" }))?;
    let (worker, payload) = (WorkerId::new("bench")?, Json::of(&"x".repeat(bytes))?);
    let mut measurement = Measurement::default();
    while Instant::now() < until {
        let (thread, run) = (ThreadId::new(UuidSource.next_id())?, RunId::new("bench")?);
        let start = Instant::now();
        let dispatch = NewDispatch::new(thread.clone(), run.clone()).with_payload(payload.clone());
        for enqueued in mailbox.enqueue(vec![dispatch]).await? {
            let _enqueued = enqueued?;
        }
        let claimed = mailbox.claim(ClaimRequest::new(worker.clone(), LEASE)).await?.claimed;
        if reads_effects {
            let query = EffectQuery::of(EffectOwner::Run(thread, run)).in_doubt();
            let _none = effects.list_effects(query.with_page(PageRequest::first(MAX_PAGE))).await?;
        }
        let settlements = claimed.iter().map(|dispatch| (dispatch.claim(), Settlement::Ack { result: None })).collect();
        for settled in mailbox.settle(settlements).await? {
            let _settled = settled?;
        }
        measurement.add_call(claimed.len() as u64, start.elapsed());
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}

/// Commits a run of [`RUN_ENTRIES`] entries with messages of `bytes` bytes. Returns what its trace is named by.
async fn commit_run(commits: &dyn CommitCoordinator, name: &str, bytes: usize) -> Result<TraceName> {
    let (thread, run) = (ThreadId::new(name)?, RunId::new(name)?);
    let message = |number: u64| match number % 2 {
        0 => Message::user("x".repeat(bytes)),
        _ => Message::assistant("x".repeat(bytes)),
    };
    let entries = (0..RUN_ENTRIES).map(|number| NewEntry::new(message(number)).with_run(run.clone(), None));
    let begins = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new("bench")?);
    let commit = Commit::new(thread.clone()).expecting(Expect::Absent).with_run(begins).entries(entries);
    let receipt = commits.commit(commit).await?;
    let mut ends = RunChange::new(run.clone(), RunStatus::done(RunOutcome::NaturalEnd));
    ends.output = vec![EntryRange { from: 1, to: RUN_ENTRIES }];
    let end = Commit::new(thread.clone()).expecting(Expect::Version(receipt.version)).with_run(ends);
    let _receipt = commits.commit(end).await?;
    Ok(TraceName::new(thread, run))
}

fn commits_of(stores: &TenantStores) -> Result<&dyn CommitCoordinator> {
    let unsupported = || Error::new(Detail::Unsupported { operation: "measuring commits" });
    stores.commits.as_deref().ok_or_else(unsupported)
}

/// Reads the trace of a run. It is derived from the entries of the run each time.
pub(super) async fn run_trace_reads(
    stores: TenantStores,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let traces = TraceLayer::new(&stores)?;
    let name = commit_run(commits_of(&stores)?, &caller_name, bytes).await?;
    let mut measurement = Measurement::default();
    while Instant::now() < until {
        let start = Instant::now();
        let trace = traces.load_trace(&name).await?;
        measurement.add_call(1, start.elapsed());
        if trace.is_none_or(|trace| trace.spans.is_empty()) {
            return Err(Error::unavailable("the run has no trace"));
        }
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}

/// Reads the entries of a run, as a trace is derived from them, and does nothing with them.
pub(super) async fn run_entry_reads(
    stores: TenantStores,
    caller_name: String,
    bytes: usize,
    until: Instant,
) -> Result<Measurement> {
    let commits = commits_of(&stores)?;
    let (name, threads) = (commit_run(commits, &caller_name, bytes).await?, commits.threads());
    let mut query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
    (query.run, query.from_seq, query.to_seq) = (Some(name.run.clone()), Some(1), Some(RUN_ENTRIES));
    let mut measurement = Measurement::default();
    while Instant::now() < until {
        let start = Instant::now();
        let read = threads.list_entries(&name.thread, query.clone()).await?;
        measurement.add_call(1, start.elapsed());
        if read.items.len() as u64 != RUN_ENTRIES {
            return Err(Error::unavailable("entries of the run are missing"));
        }
        tokio::task::yield_now().await;
    }
    Ok(measurement)
}
