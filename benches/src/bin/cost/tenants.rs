//! Measures what the same calls cost for a small tenant in two stores: one that contains no other tenant, and one that
//! contains many others (PR-15, TN-6).

use anyhow::{Context, Result};
use benches::{AllowedGrowth, FilledThread, Row, Samples, create_filled_thread, numbered_message, timed};
use store_core::{Commit, Expect, PageRequest, Survives, TenantId, ThreadFilter, ThreadQuery, ThreadReader};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, coordinator_of, measuring_order},
};

/// The number of threads of the small tenant.
const THREADS_OF_SMALL_TENANT: usize = 60;
/// The number of threads of each other tenant.
const THREADS_OF_OTHERS: usize = 100;
/// The number of threads in a page.
const PAGE_SIZE: u32 = 50;

/// The tenant whose calls are measured, in one of the two stores.
struct SmallTenant {
    measured_store: MeasuredStore,
    threads: Vec<FilledThread>,
}

pub(crate) async fn measure(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let mut small_tenants = Vec::new();
    for (name, other_count) in [("alone", 0), ("shared", options.tenants)] {
        let path = folder.path().join(name);
        let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
        let mut threads = Vec::new();
        // Half of the other tenants sort before the small tenant and are filled before it. The rest sort after it and
        // are filled after it. So the rows of the small tenant lie between theirs.
        for tenant in 0..other_count / 2 {
            fill_other_tenant(&measured_store, &format!("a-{tenant}")).await?;
        }
        for number in 0..THREADS_OF_SMALL_TENANT {
            threads.push(create_filled_thread(measured_store.commits()?, &format!("t-{number}"), 10).await?);
        }
        for tenant in other_count / 2..other_count {
            fill_other_tenant(&measured_store, &format!("z-{tenant}")).await?;
        }
        small_tenants.push(SmallTenant {
            measured_store: measured_store.reopen_for_measurement(backend, &path).await?,
            threads,
        });
    }
    let [alone, with_others]: [SmallTenant; 2] = small_tenants.try_into().ok().context("there are not two tenants")?;
    let rows = take_samples([alone, with_others], backend, backend.sample_count(options.samples)).await?;
    Ok(rows)
}

async fn fill_other_tenant(measured_store: &MeasuredStore, tenant: &str) -> Result<()> {
    let commits = coordinator_of(&*measured_store.store, &TenantId::new(tenant)?)?;
    for number in 0..THREADS_OF_OTHERS {
        let _ = create_filled_thread(&*commits, &format!("t-{number}"), 1).await?;
    }
    if measured_store.store.capabilities().survives != Survives::Nothing {
        // The file store keeps the log of a thread open until the thread is durable. The sync limits the number of open
        // logs.
        measured_store.store.sync().await?;
    }
    Ok(())
}

/// Measures a page of threads and an append, alternately in the two stores.
async fn take_samples(
    [mut alone, mut with_others]: [SmallTenant; 2],
    backend: Backend,
    samples: usize,
) -> Result<Vec<Row>> {
    let mut pages = Samples::default();
    let mut appends = Samples::default();
    for sample in 0..samples {
        for is_shared in measuring_order(sample) {
            let tenant = if is_shared { &mut with_others } else { &mut alone };
            let query = ThreadQuery::new(ThreadFilter::default()).with_page(PageRequest::first(PAGE_SIZE));
            let reader: &dyn ThreadReader = tenant.measured_store.threads()?;
            let (took, result) = timed(reader.list_threads(query)).await;
            anyhow::ensure!(result?.items.len() == PAGE_SIZE as usize, "the page is not full");
            pages.add(is_shared, took);
        }
        for is_shared in measuring_order(sample) {
            let tenant = if is_shared { &mut with_others } else { &mut alone };
            let thread = tenant.threads.get_mut(sample % THREADS_OF_SMALL_TENANT).context("there is no thread")?;
            let expect = Expect::Version(thread.version);
            let commit = Commit::new(thread.id.clone()).expecting(expect).entry(numbered_message(sample as u64));
            let (took, receipt) = timed(tenant.measured_store.commits()?.commit(commit)).await;
            thread.update_version(&receipt?);
            appends.add(is_shared, took);
        }
    }
    let mut rows = vec![appends.row("append in a store with other tenants", backend.name(), AllowedGrowth::Flat)];
    if backend != Backend::FileSync {
        rows.insert(0, pages.row("page of threads in a store with other tenants", backend.name(), AllowedGrowth::Flat));
    }
    for tenant in [alone, with_others] {
        tenant.measured_store.store.close().await?;
    }
    Ok(rows)
}
