//! Compares the cost of calls on a scope with many events and on one with few events (PR-15). Does the same for a long
//! and a short queue of pending input.

use std::time::Duration;

use anyhow::{Context, Result};
use benches::{AllowedGrowth, Row, Samples, timed};
use store_core::{
    AppendEvents, AppendPending, Commit, CommitKey, Direction, EntryId, EventQuery, Json, Message, NewEvent, NewInput,
    PageRequest, PendingUpdate, Scope, ThreadId,
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, measuring_order},
};

/// The number of events in the short scope, and of inputs in the short queue.
const SHORT_LENGTH: u64 = 100;
/// The number of inputs in the long queue. The limit is 10,000.
const LONG_QUEUE_LENGTH: u64 = 9_000;
/// The number of events or inputs that [`fill_thread`] appends with one call.
const BATCH_SIZE: u64 = 500;
/// The number of records in a page.
const PAGE_SIZE: u32 = 50;

/// A thread that has events and a queue of pending input.
struct ThreadWithInput {
    id: ThreadId,
    /// The input that was queued last.
    last_input: EntryId,
}

/// The measured operations. Each sample measures them in this order.
const STEPS: [&str; 8] = [
    "append an event",
    "commit an event",
    "first page of events",
    "last page of events",
    "load a scope",
    "queue an input",
    "change an input",
    "consume an input",
];

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    let mut threads = [
        fill_thread(&measured_store, "short", SHORT_LENGTH, SHORT_LENGTH).await?,
        fill_thread(&measured_store, "long", options.entries, LONG_QUEUE_LENGTH).await?,
    ];
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let mut steps: Vec<Samples> = STEPS.iter().map(|_| Samples::default()).collect();
    for sample in 0..backend.sample_count(options.samples) {
        for (step, step_samples) in STEPS.into_iter().zip(&mut steps) {
            for is_large in measuring_order(sample) {
                let [small, large] = &mut threads;
                let thread = if is_large { large } else { small };
                step_samples.add(is_large, measure_step(&measured_store, thread, step, sample).await?);
            }
        }
    }
    measured_store.store.close().await?;
    Ok(STEPS
        .iter()
        .zip(steps)
        .map(|(step, step_samples)| step_samples.row(step, backend.name(), AllowedGrowth::Flat))
        .collect())
}

async fn fill_thread(measured_store: &MeasuredStore, id: &str, events: u64, inputs: u64) -> Result<ThreadWithInput> {
    let id = ThreadId::new(id)?;
    let commits = measured_store.commits()?;
    for first in (0..events).step_by(usize::try_from(BATCH_SIZE)?) {
        let drafts = (first..events.min(first + BATCH_SIZE)).map(|_| new_event(&id)).collect::<Result<Vec<_>>>()?;
        commits.events().append_events(AppendEvents::new(drafts)).await?;
    }
    let mut last_input = None;
    for first in (0..inputs).step_by(usize::try_from(BATCH_SIZE)?) {
        let batch = (first..inputs.min(first + BATCH_SIZE)).map(|_| new_input());
        let queued = commits.pending().append_pending(AppendPending::new(id.clone(), batch)).await?;
        last_input = queued.inputs.last().map(|input| input.id.clone());
    }
    Ok(ThreadWithInput { id, last_input: last_input.context("the queue is empty")? })
}

fn new_event(id: &ThreadId) -> Result<NewEvent> {
    let payload = Json::parse(r#"{"tool":"read_file","path":"src/lib.rs","lines":120}"#)?;
    Ok(NewEvent::new("tool.called".parse()?, [Scope::Thread(id.clone())]).with_payload(payload))
}

fn new_input() -> NewInput {
    NewInput::message(Message::user("What was said while the agent was at work, in one sentence."))
}

async fn measure_step(
    measured_store: &MeasuredStore,
    thread: &mut ThreadWithInput,
    step: &str,
    sample: usize,
) -> Result<Duration> {
    let id = thread.id.clone();
    let commits = measured_store.commits()?;
    let (events, pending) = (commits.events(), commits.pending());
    let scope = Scope::Thread(id.clone());
    let page_query =
        |direction| EventQuery::new(scope.clone()).with_direction(direction).with_page(PageRequest::first(PAGE_SIZE));
    match step {
        "append an event" => {
            let request = AppendEvents::new([new_event(&id)?]);
            let (took, result) = timed(events.append_events(request)).await;
            result.map(|_| took).map_err(Into::into)
        }
        "commit an event" => {
            let commit = Commit::new(id.clone()).with_events(AppendEvents::new([new_event(&id)?]));
            let (took, result) = timed(commits.commit(commit)).await;
            result.map(|_| took).map_err(Into::into)
        }
        "first page of events" | "last page of events" => {
            let direction = if step == "first page of events" { Direction::Forward } else { Direction::Backward };
            let (took, result) = timed(events.list_events(page_query(direction))).await;
            anyhow::ensure!(result?.items.len() == PAGE_SIZE as usize, "the page is not full");
            Ok(took)
        }
        "load a scope" => {
            let (took, result) = timed(events.load_scope(&scope)).await;
            result.map(|_| took).map_err(Into::into)
        }
        "queue an input" => {
            let (took, result) = timed(pending.append_pending(AppendPending::new(id, [new_input()]))).await;
            thread.last_input = result?.inputs.last().context("the append returned no input")?.id.clone();
            Ok(took)
        }
        "change an input" => {
            let change =
                PendingUpdate::new(id, thread.last_input.clone()).with_message(Message::user(format!("{sample}")));
            let (took, result) = timed(pending.update_pending(change)).await;
            result.map(|_| took).map_err(Into::into)
        }
        _ => {
            // The commit consumes the input that "queue an input" queued, so that the queue keeps its length. An update
            // that changes nothing returns the input with its current revision, which the commit needs.
            let input =
                pending.update_pending(PendingUpdate::new(id.clone(), thread.last_input.clone())).await?.to_input_ref();
            let commit = Commit::new(id).with_key(CommitKey::new(format!("consume-{sample}"))?).consuming([input]);
            let (took, result) = timed(commits.commit(commit)).await;
            result.map(|_| took).map_err(Into::into)
        }
    }
}
