//! Compares the cost of calls on a mailbox with many dispatches and on a mailbox with few (MB-28). The dispatches in
//! the large mailbox belong to other threads than the measured calls, or to the same thread, or have finished. Also
//! compares interrupts of long and short queues, and the last claims of a long queue with its first claims.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use benches::{AllowedGrowth, Row, Samples, timed};
use store_core::{
    ClaimRequest, Enqueued, Interrupt, Json, MailboxStore, NewDispatch, PageRequest, Purge, Settlement, TenantId,
    ThreadId, Timestamp,
};

use crate::{
    Options,
    measured_store::{Backend, MeasuredStore, measuring_order},
};

/// The number of dispatches in the small mailbox.
const SMALL_MAILBOX_LENGTH: u64 = 100;
/// The number of dispatches that one call enqueues.
const BATCH_SIZE: u64 = 500;
/// The number of threads in a page.
const PAGE_SIZE: u32 = 50;
/// A lease that does not expire during a measurement.
const LEASE: Duration = Duration::from_secs(600);

/// Which dispatches a mailbox contains before the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingDispatches {
    /// Queued dispatches, each of its own thread.
    OtherThreads,
    /// Queued dispatches of the thread that the measured calls use.
    SameThread,
    /// Cancelled dispatches of the thread that the measured calls use.
    Finished,
}

impl ExistingDispatches {
    /// Returns the names of the measured calls, in the order in which [`measure_calls`] makes them.
    const fn steps(self) -> &'static [&'static str] {
        match self {
            Self::OtherThreads => &[
                "enqueue, many ready threads",
                "claim, many ready threads",
                "settle, many ready threads",
                "page of ready threads",
                "empty purge, many ready threads",
            ],
            Self::SameThread => &["enqueue, long queue", "claim, long queue", "settle, long queue"],
            Self::Finished => &[
                "enqueue, many finished dispatches",
                "claim, many finished dispatches",
                "settle, many finished dispatches",
            ],
        }
    }
}

/// Returns the mailboxes of the small and of the large tenant of a store.
fn small_and_large_mailboxes(measured_store: &MeasuredStore) -> Result<[Arc<dyn MailboxStore>; 2]> {
    let mailbox_of = |tenant: &str| {
        measured_store.store.tenant(&TenantId::new(tenant)?)?.mailbox.context("the store has no mailbox")
    };
    Ok([mailbox_of("small")?, mailbox_of("large")?])
}

pub(crate) async fn measure(backend: Backend, existing: ExistingDispatches, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    for (mailbox, count) in
        small_and_large_mailboxes(&measured_store)?.iter().zip([SMALL_MAILBOX_LENGTH, options.dispatches])
    {
        fill_mailbox(&**mailbox, existing, count).await?;
    }
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let [small, large] = small_and_large_mailboxes(&measured_store)?;
    let mut steps: Vec<Samples> = existing.steps().iter().map(|_| Samples::default()).collect();
    for sample in 0..backend.sample_count(options.samples) {
        for is_large in measuring_order(sample) {
            let mailbox = if is_large { &large } else { &small };
            for (step, took) in steps.iter_mut().zip(measure_calls(&**mailbox, existing, sample).await?) {
                step.add(is_large, took);
            }
        }
    }
    measured_store.store.close().await?;
    let steps = existing.steps().iter().zip(steps);
    Ok(steps.map(|(step, step_samples)| step_samples.row(step, backend.name(), AllowedGrowth::Flat)).collect())
}

fn new_dispatch(thread: &ThreadId) -> Result<NewDispatch> {
    let payload = Json::parse(r#"{"task":"index the repository","branch":"main","files":1200}"#)?;
    Ok(NewDispatch::new(thread.clone(), "run".parse()?).with_payload(payload))
}

async fn enqueue(mailbox: &dyn MailboxStore, dispatches: Vec<NewDispatch>) -> Result<Vec<Enqueued>> {
    mailbox.enqueue(dispatches).await?.into_iter().map(|answer| answer.map_err(Into::into)).collect()
}

async fn fill_mailbox(mailbox: &dyn MailboxStore, existing: ExistingDispatches, count: u64) -> Result<()> {
    let thread = |number: u64| {
        ThreadId::new(if existing == ExistingDispatches::OtherThreads { format!("t-{number}") } else { "t".to_owned() })
    };
    for first in (0..count).step_by(usize::try_from(BATCH_SIZE)?) {
        let batch = (first..count.min(first + BATCH_SIZE))
            .map(|number| new_dispatch(&thread(number)?))
            .collect::<Result<Vec<_>>>()?;
        let queued = enqueue(mailbox, batch).await?;
        if existing == ExistingDispatches::Finished {
            for dispatch in queued {
                mailbox.cancel(&dispatch.id).await?;
            }
        }
    }
    Ok(())
}

async fn timed_claim(mailbox: &dyn MailboxStore) -> Result<(Duration, store_core::ClaimedDispatch)> {
    let (took, claims) = timed(mailbox.claim(ClaimRequest::new("worker".parse()?, LEASE))).await;
    Ok((took, claims?.claimed.pop().context("no dispatch was claimed")?))
}

/// Enqueues one dispatch, then claims and settles one, so that the number of queued dispatches stays the same. Returns
/// how long each call took.
async fn measure_calls(
    mailbox: &dyn MailboxStore,
    existing: ExistingDispatches,
    sample: usize,
) -> Result<Vec<Duration>> {
    let thread = if existing == ExistingDispatches::OtherThreads { format!("more-{sample}") } else { "t".to_owned() };
    let (enqueue_time, result) = timed(enqueue(mailbox, vec![new_dispatch(&ThreadId::new(thread)?)?])).await;
    result?;
    let (claim_time, dispatch) = timed_claim(mailbox).await?;
    let settlement = vec![(dispatch.claim(), Settlement::Ack { result: None })];
    let (settle_time, result) = timed(mailbox.settle(settlement)).await;
    result?.pop().context("the settlement got no answer")??;
    let mut times = vec![enqueue_time, claim_time, settle_time];
    if existing == ExistingDispatches::OtherThreads {
        let (list_time, page) = timed(mailbox.list_ready_threads(PageRequest::first(PAGE_SIZE))).await;
        anyhow::ensure!(page?.items.len() == PAGE_SIZE as usize, "the page is not full");
        times.push(list_time);
        let (purge_time, result) = timed(mailbox.purge(Purge::new(Timestamp::MIN))).await;
        anyhow::ensure!(result?.removed == 0, "something was purged");
        times.push(purge_time);
    }
    Ok(times)
}

/// Compares the interrupt of a thread that has a tenth of all dispatches with the interrupt of a thread that has ten
/// dispatches.
pub(crate) async fn measure_interrupts(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    const THREADS: u64 = 10;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    for (mailbox, count) in small_and_large_mailboxes(&measured_store)?.iter().zip([10, options.dispatches / THREADS]) {
        for number in 0..THREADS {
            let thread = ThreadId::new(format!("t-{number}"))?;
            for first in (0..count).step_by(usize::try_from(BATCH_SIZE)?) {
                let size = count.min(first + BATCH_SIZE) - first;
                let batch = (0..size).map(|_| new_dispatch(&thread)).collect::<Result<Vec<_>>>()?;
                enqueue(&**mailbox, batch).await?;
            }
        }
    }
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let [small, large] = small_and_large_mailboxes(&measured_store)?;
    let mut step_samples = Samples::default();
    for number in 0..THREADS {
        for is_large in measuring_order(usize::try_from(number)?) {
            let request = Interrupt::new(ThreadId::new(format!("t-{number}"))?);
            let mailbox = if is_large { &large } else { &small };
            let (took, result) = timed(mailbox.interrupt(request)).await;
            anyhow::ensure!(result?.superseded > 0, "nothing was superseded");
            step_samples.add(is_large, took);
        }
    }
    measured_store.store.close().await?;
    Ok(vec![step_samples.row("interrupt, long queue", backend.name(), AllowedGrowth::Flat)])
}

/// Compares the last claims of a long queue with its first claims. In the table, the first claims count as the small
/// size, and the last claims as the large size.
pub(crate) async fn measure_last_claims(backend: Backend, options: &Options) -> Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let path = folder.path().join("root");
    let measured_store = MeasuredStore::open_to_fill(backend, &path).await?;
    let samples = backend.sample_count(options.samples);
    let total = (options.dispatches / 10).max(2 * samples as u64);
    let [mailbox, _] = small_and_large_mailboxes(&measured_store)?;
    fill_mailbox(&*mailbox, ExistingDispatches::SameThread, total).await?;
    drop(mailbox);
    let measured_store = measured_store.reopen_for_measurement(backend, &path).await?;
    let [mailbox, _] = small_and_large_mailboxes(&measured_store)?;
    let mut step_samples = Samples::default();
    for number in 0..total {
        let (took, dispatch) = timed_claim(&*mailbox).await?;
        let settlement = vec![(dispatch.claim(), Settlement::Ack { result: None })];
        mailbox.settle(settlement).await?.pop().context("the settlement got no answer")??;
        let (is_first, is_last) = (number < samples as u64, number >= total - samples as u64);
        if is_first || is_last {
            let is_large = is_last;
            step_samples.add(is_large, took);
        }
    }
    measured_store.store.close().await?;
    Ok(vec![step_samples.row("claim, after many other claims", backend.name(), AllowedGrowth::Flat)])
}
