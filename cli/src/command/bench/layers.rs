//! The scenarios about layers: stream checkpoints, and commits that end effects.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::time::Instant;

use agentstore::{
    BegunEffect, Commit, Detail, EffectEnd, EffectIntent, EffectLayer, EffectName, EffectStore, Error, Expect, Json,
    Message, NewEffect, NewEntry, NewThread, PartialAnswer, PutStreamCheckpoint, Result, RunId, StreamCheckpointLayer,
    StreamCheckpointOutcome, StreamCheckpointStore, TenantStores, ThreadId, end_changes, layers::LayerStore,
};

use super::scenario::Measurement;

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
