//! Compares the cost of calls on a long and on a short history: appends, pages at both ends, rewinds and forks near the
//! head and far from it, and the context after a compaction (PR-15, EN-10, EN-14, CX-12).

use std::time::Duration;

use anyhow::{Context, Result};
use benches::{AllowedGrowth, FilledThread, Row, Samples, fill_and_compact, message, timed};
use store_core::{
    Commit, CommitCoordinatorExt, CommitKey, ContextRequest, Direction, EntryQuery, Expect, Fork, Guard, LogReader,
    PageRequest, Receipt, RewindTo,
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, alternating_sizes},
};

/// The number of entries in a short thread.
const SHORT: u64 = 100;

/// The number of samples that are taken on each short thread, because each sample makes the thread longer.
const SAMPLES_EACH: usize = 5;

/// The number of entries in a page.
const PAGE: u32 = 50;

/// A store and the threads that are measured in it: one long thread, or as many short threads as the samples need.
struct History {
    measured_store: MeasuredStore,
    threads: Vec<FilledThread>,
}

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let samples = backend.samples(options.samples);
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    let mut small = Vec::new();
    for number in 0..samples.div_ceil(SAMPLES_EACH) {
        small.push(fill_and_compact(measured_store.commits()?, &format!("short-{number}"), SHORT).await?);
    }
    let large = vec![fill_and_compact(measured_store.commits()?, "long", options.entries).await?];
    // All threads are in one store, so that only the lengths of the histories differ, and not the size of the store.
    let measured_store = measured_store.into_measured(backend, &path).await?;
    let mut histories = [small, large].map(|threads| History { measured_store: measured_store.clone(), threads });
    let mut rows = Vec::new();
    if backend != Backend::FileSync {
        rows.extend(reading(&histories, backend, samples).await?);
    }
    rows.extend(writing(&mut histories, backend, samples).await?);
    measured_store.store.close().await?;
    Ok(rows)
}

async fn reading([small, large]: &[History; 2], backend: Backend, samples: usize) -> Result<Vec<Row>> {
    let pages = [
        ("first page", AllowedGrowth::Flat, Direction::Forward, false),
        ("last page", AllowedGrowth::Flat, Direction::Backward, false),
        ("first page of the path", AllowedGrowth::Path, Direction::Forward, true),
        ("last page of the path", AllowedGrowth::Path, Direction::Backward, true),
    ];
    let mut rows = Vec::new();
    for (operation, kind, direction, on_path) in pages {
        let mut taken = Samples::default();
        for sample in 0..samples {
            for is_large in alternating_sizes(sample) {
                let history = if is_large { large } else { small };
                taken.add(is_large, page(history, direction, on_path).await?);
            }
        }
        rows.push(taken.row(operation, backend.name(), kind));
    }
    let mut taken = Samples::default();
    for sample in 0..samples {
        for is_large in alternating_sizes(sample) {
            let history = if is_large { large } else { small };
            let thread = history.threads.first().context("there is no thread")?;
            let call = history.measured_store.threads()?.load_context(&thread.id, ContextRequest::head());
            let (took, found) = timed(call).await;
            anyhow::ensure!(found?.context.messages.len() < 20, "the compaction is not used");
            taken.add(is_large, took);
        }
    }
    rows.push(taken.row("context after a compaction", backend.name(), AllowedGrowth::Flat));
    Ok(rows)
}

async fn page(history: &History, direction: Direction, on_path: bool) -> Result<Duration> {
    let thread = history.threads.first().context("there is no thread")?;
    let mut query = if on_path { EntryQuery::path_of(thread.tip.clone()) } else { EntryQuery::all() };
    query.direction = direction;
    query.page = PageRequest::first(PAGE);
    let log: &dyn LogReader = history.measured_store.threads()?;
    let (took, found) = timed(log.list_entries(&thread.id, query)).await;
    anyhow::ensure!(found?.items.len() == PAGE as usize, "the page is not full");
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

async fn writing(histories: &mut [History; 2], backend: Backend, samples: usize) -> Result<Vec<Row>> {
    let mut steps: Vec<Samples> = STEPS.iter().map(|_| Samples::default()).collect();
    let [small, large] = histories;
    for sample in 0..samples {
        for (step, taken) in steps.iter_mut().enumerate() {
            for is_large in alternating_sizes(sample) {
                let history = if is_large { &mut *large } else { &mut *small };
                let nth = if is_large { 0 } else { sample / SAMPLES_EACH };
                let thread = history.threads.get_mut(nth).context("there is no thread")?;
                let (took, receipt) = write(&history.measured_store, thread, step, sample).await?;
                thread.update_version(&receipt);
                taken.add(is_large, took);
            }
        }
    }
    Ok(STEPS.iter().zip(steps).map(|(step, taken)| taken.row(step, backend.name(), AllowedGrowth::Flat)).collect())
}

async fn write(
    measured_store: &MeasuredStore,
    thread: &FilledThread,
    step: usize,
    sample: usize,
) -> Result<(Duration, Receipt)> {
    let commits = measured_store.commits()?;
    let number = sample as u64;
    let guard = Guard::at(thread.id.clone(), thread.version);
    let append = Commit::new(thread.id.clone()).expecting(Expect::Version(thread.version)).entry(message(number));
    let fork = |below: &store_core::EntryId| Fork::below(below.clone()).entry(message(number));
    let (took, receipt) = match step {
        0 => timed(commits.commit(append)).await,
        1 => timed(commits.commit(append.with_key(CommitKey::new(format!("turn-{sample}"))?))).await,
        2 => timed(commits.rewind(guard, RewindTo::Entry(thread.first.clone()))).await,
        3 => timed(commits.rewind(guard, RewindTo::Entry(thread.tip.clone()))).await,
        4 => timed(commits.fork(guard, fork(&thread.first))).await,
        _ => timed(commits.fork(guard, fork(&thread.tip))).await,
    };
    Ok((took, receipt?))
}
