//! Compares the cost of calls on a long and on a short history: appends, pages at both ends, rewinds and forks near the
//! head and far from it, and the context after a compaction (PR-15, EN-10, EN-14, CX-12).

use std::time::Duration;

use anyhow::{Context, Result};
use benches::{AllowedGrowth, FilledThread, Row, Samples, create_compacted_thread, numbered_message, timed};
use store_core::{
    Commit, CommitCoordinatorExt, CommitKey, ContextRequest, Direction, EntryQuery, Expect, Fork, Guard, LogReader,
    PageRequest, Receipt, RewindTo,
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, measuring_order},
};

/// The number of entries in a short thread.
const SHORT_LENGTH: u64 = 100;

/// The number of samples that are taken on each short thread, because each sample makes the thread longer.
const SAMPLES_PER_THREAD: usize = 5;

/// The number of entries in a page.
const PAGE_SIZE: u32 = 50;

/// A store and the threads that are measured in it: one long thread, or as many short threads as the samples need.
struct History {
    measured_store: MeasuredStore,
    threads: Vec<FilledThread>,
}

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let samples = backend.sample_count(options.samples);
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    let mut small = Vec::new();
    for number in 0..samples.div_ceil(SAMPLES_PER_THREAD) {
        small.push(create_compacted_thread(measured_store.commits()?, &format!("short-{number}"), SHORT_LENGTH).await?);
    }
    let large = vec![create_compacted_thread(measured_store.commits()?, "long", options.entries).await?];
    // All threads are in one store, so that only the lengths of the histories differ, and not the size of the store.
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let mut histories = [small, large].map(|threads| History { measured_store: measured_store.clone(), threads });
    let mut rows = Vec::new();
    if backend != Backend::FileSync {
        rows.extend(measure_reads(&histories, backend, samples).await?);
    }
    rows.extend(measure_writes(&mut histories, backend, samples).await?);
    measured_store.store.close().await?;
    Ok(rows)
}

async fn measure_reads([small, large]: &[History; 2], backend: Backend, samples: usize) -> Result<Vec<Row>> {
    let pages = [
        ("first page", AllowedGrowth::Flat, Direction::Forward, false),
        ("last page", AllowedGrowth::Flat, Direction::Backward, false),
        ("first page of the path", AllowedGrowth::Path, Direction::Forward, true),
        ("last page of the path", AllowedGrowth::Path, Direction::Backward, true),
    ];
    let mut rows = Vec::new();
    for (operation, allowed_growth, direction, on_path) in pages {
        let mut step_samples = Samples::default();
        for sample in 0..samples {
            for is_large in measuring_order(sample) {
                let history = if is_large { large } else { small };
                step_samples.add(is_large, time_page(history, direction, on_path).await?);
            }
        }
        rows.push(step_samples.row(operation, backend.name(), allowed_growth));
    }
    let mut step_samples = Samples::default();
    for sample in 0..samples {
        for is_large in measuring_order(sample) {
            let history = if is_large { large } else { small };
            let thread = history.threads.first().context("there is no thread")?;
            let call = history.measured_store.threads()?.load_context(&thread.id, ContextRequest::head());
            let (took, result) = timed(call).await;
            // The context has the summary and the few messages after the compaction.
            anyhow::ensure!(result?.context.messages.len() < 20, "the compaction is not used");
            step_samples.add(is_large, took);
        }
    }
    rows.push(step_samples.row("context after a compaction", backend.name(), AllowedGrowth::Flat));
    Ok(rows)
}

async fn time_page(history: &History, direction: Direction, on_path: bool) -> Result<Duration> {
    let thread = history.threads.first().context("there is no thread")?;
    let mut query = if on_path { EntryQuery::path_of(thread.last_message.clone()) } else { EntryQuery::all() };
    query.direction = direction;
    query.page = PageRequest::first(PAGE_SIZE);
    let log: &dyn LogReader = history.measured_store.threads()?;
    let (took, result) = timed(log.list_entries(&thread.id, query)).await;
    anyhow::ensure!(result?.items.len() == PAGE_SIZE as usize, "the page is not full");
    Ok(took)
}

/// The measured writes. Each sample makes them in this order. Each write continues the thread as the previous write
/// left it.
const STEPS: [&str; 6] = [
    "append",
    "append, with a key",
    "rewind to the first entry",
    "rewind to the last entry",
    "fork below the first entry",
    "fork below the last entry",
];

async fn measure_writes(histories: &mut [History; 2], backend: Backend, samples: usize) -> Result<Vec<Row>> {
    let mut steps: Vec<Samples> = STEPS.iter().map(|_| Samples::default()).collect();
    let [small, large] = histories;
    for sample in 0..samples {
        for (step, step_samples) in STEPS.into_iter().zip(&mut steps) {
            for is_large in measuring_order(sample) {
                let history = if is_large { &mut *large } else { &mut *small };
                let thread_index = if is_large { 0 } else { sample / SAMPLES_PER_THREAD };
                let thread = history.threads.get_mut(thread_index).context("there is no thread")?;
                let (took, receipt) = time_write(&history.measured_store, thread, step, sample).await?;
                thread.update_version(&receipt);
                step_samples.add(is_large, took);
            }
        }
    }
    Ok(STEPS
        .iter()
        .zip(steps)
        .map(|(step, step_samples)| step_samples.row(step, backend.name(), AllowedGrowth::Flat))
        .collect())
}

async fn time_write(
    measured_store: &MeasuredStore,
    thread: &FilledThread,
    step: &str,
    sample: usize,
) -> Result<(Duration, Receipt)> {
    let commits = measured_store.commits()?;
    let number = sample as u64;
    let guard = Guard::at(thread.id.clone(), thread.version);
    let append =
        Commit::new(thread.id.clone()).expecting(Expect::Version(thread.version)).entry(numbered_message(number));
    let fork = |below: &store_core::EntryId| Fork::below(below.clone()).entry(numbered_message(number));
    let (took, receipt) = match step {
        "append" => timed(commits.commit(append)).await,
        "append, with a key" => {
            timed(commits.commit(append.with_key(CommitKey::new(format!("append-{sample}"))?))).await
        }
        "rewind to the first entry" => timed(commits.rewind(guard, RewindTo::Entry(thread.first_entry.clone()))).await,
        "rewind to the last entry" => timed(commits.rewind(guard, RewindTo::Entry(thread.last_message.clone()))).await,
        "fork below the first entry" => timed(commits.fork(guard, fork(&thread.first_entry))).await,
        _ => timed(commits.fork(guard, fork(&thread.last_message))).await,
    };
    Ok((took, receipt?))
}
