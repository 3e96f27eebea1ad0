//! Compares the cost of pages of the list of threads for a tenant with few threads and a tenant with many threads, in
//! one store (PR-15).

use std::sync::Arc;

use anyhow::{Context, Result};
use benches::{AllowedGrowth, Row, Samples, timed};
use store_core::{
    Direction, NewThread, PageRequest, ParentFilter, Survives, TenantId, ThreadFilter, ThreadId, ThreadOrder,
    ThreadQuery, ThreadRunStore,
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, measuring_order},
};

/// The number of threads of the small tenant.
const THREADS_OF_SMALL_TENANT: usize = 100;
/// The number of threads in a page.
const PAGE_SIZE: u32 = 50;

/// The measured pages. Each sample reads them in this order.
const STEPS: [&str; 3] = ["first page of threads", "last page of threads", "page of roots by creation"];

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    for (tenant, threads) in [("few", THREADS_OF_SMALL_TENANT), ("many", options.threads)] {
        let thread_store = thread_store_of(&measured_store, tenant)?;
        for number in 0..threads {
            drop(thread_store.create_thread(NewThread::new(ThreadId::new(format!("t-{number}"))?)).await?);
            if number % 1_000 == 999 && measured_store.store.capabilities().survives != Survives::Nothing {
                // The file store keeps the log of a thread open until the thread is durable. The sync limits the
                // number of open logs.
                measured_store.store.sync().await?;
            }
        }
    }
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let (few, many) = (thread_store_of(&measured_store, "few")?, thread_store_of(&measured_store, "many")?);
    let mut steps: Vec<Samples> = STEPS.iter().map(|_| Samples::default()).collect();
    for sample in 0..backend.sample_count(options.samples) {
        for (step, step_samples) in STEPS.into_iter().zip(&mut steps) {
            for is_large in measuring_order(sample) {
                let (took, result) = timed(if is_large { &many } else { &few }.list_threads(page_query(step))).await;
                anyhow::ensure!(result?.items.len() == PAGE_SIZE as usize, "the page is not full");
                step_samples.add(is_large, took);
            }
        }
    }
    measured_store.store.close().await?;
    Ok(STEPS
        .iter()
        .zip(steps)
        .map(|(name, step_samples)| step_samples.row(name, backend.name(), AllowedGrowth::Flat))
        .collect())
}

fn thread_store_of(measured_store: &MeasuredStore, tenant: &str) -> Result<Arc<dyn ThreadRunStore>> {
    measured_store.store.tenant(&TenantId::new(tenant)?)?.threads.context("the store has no threads")
}

fn page_query(step: &str) -> ThreadQuery {
    let mut query = ThreadQuery::new(ThreadFilter::default()).with_page(PageRequest::first(PAGE_SIZE));
    match step {
        "first page of threads" => {}
        "last page of threads" => query.direction = Direction::Backward,
        _ => {
            query.filter.parent = Some(ParentFilter::Root);
            query.order = ThreadOrder::Creation;
        }
    }
    query
}
