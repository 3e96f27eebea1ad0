//! A run of the soak, from its beginning to its end.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use agentstore::{DispatchStatus, IdSource, NewThread, Stores, TenantId, TenantStores, UuidSource};
use anyhow::{Context, Result, bail};
use conformance_tests::Random;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    check::{Evidence, Violation, check},
    final_state::{self, EndedDispatches},
    options::Options,
    producer::{Producer, retry},
    record::{self, DispatchName, Log, LogLine, thread_id},
    worker::open_stores,
    worker_pool::{Faults, WorkerPool},
};

/// After the faults have ended, a run fails if no dispatch finishes for this time plus a lease.
const MAX_TIME_WITHOUT_PROGRESS: Duration = Duration::from_secs(30);
const POLL_PAUSE: Duration = Duration::from_millis(50);

/// The settings of a run, for all of its parts.
pub(crate) struct Soak {
    pub(crate) options: Options,
    pub(crate) tenant: TenantId,
    /// The folder of the logs.
    pub(crate) logs: PathBuf,
}

/// The figures of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    seconds: f64,
    dispatches: usize,
    threads: u32,
    workers: usize,
    #[serde(flatten)]
    faults: Faults,
    interrupts: u32,
    /// Dispatches that an interrupt superseded. Their jobs were enqueued again.
    superseded: usize,
    #[serde(flatten)]
    work_figures: crate::check::WorkFigures,
    /// The seconds from the end of the last fault until all dispatches that were unfinished then had finished (LC6).
    seconds_behind_the_last_fault: f64,
    violations: usize,
}

/// Executes a run. Returns its figures and the violations that were found.
pub(crate) async fn run(options: Options) -> Result<(Figures, Vec<Violation>)> {
    let tenant = TenantId::new(format!("soak-{}", UuidSource.next_id()))?;
    let (given_folder, temporary_folder) = match &options.folder {
        Some(folder) => (Some(folder.clone()), None),
        None => (None, Some(tempfile::tempdir()?)),
    };
    let logs = given_folder
        .or_else(|| Some(temporary_folder.as_ref()?.path().to_owned()))
        .context("there is no folder for the logs")?;
    std::fs::create_dir_all(&logs)?;
    let soak = Soak { options, tenant, logs };
    let stores = open_stores(&soak.options.urls).await?;
    let result = soak.execute(&stores).await;
    let has_passed = matches!(&result, Ok((_, violations)) if violations.is_empty());
    if has_passed {
        retry(|| stores.store().delete_tenant(&soak.tenant)).await?;
    } else if let Some(folder) = temporary_folder {
        let _kept = folder.keep();
    }
    stores.close().await?;
    result.with_context(|| format!("the logs are in {}", soak.logs.display()))
}

impl Soak {
    async fn execute(&self, stores: &Stores) -> Result<(Figures, Vec<Violation>)> {
        let start = Instant::now();
        let tenant_stores = stores.tenant(&self.tenant)?;
        self.create_threads(&tenant_stores).await?;
        let mailbox = tenant_stores.mailbox.as_ref().context("the store has no mailbox")?;
        let log = Log::create(&self.logs.join("producer.jsonl"))?;
        let Options { dispatches, threads, seed, .. } = self.options;
        let mut producer = Producer { mailbox: &**mailbox, log: &log, thread_count: threads, interrupt_count: 0 };
        let mut worker_pool = WorkerPool::start(self)?;
        let first_round: Vec<_> = (0..dispatches).map(|job| DispatchName { job, round: 0 }).collect();
        let produce_all = async {
            producer.enqueue_and_interrupt(&first_round, Random::new(seed.wrapping_add(1))).await?;
            // Enough dispatches are left that each worker still has work when the faults end.
            while producer.count_unfinished().await? > u64::from(dispatches / 100) {
                sleep(POLL_PAUSE).await;
            }
            anyhow::Ok(())
        };
        let mut ended_dispatches = EndedDispatches::default();
        tokio::select! {
            result = produce_all => result?,
            result = worker_pool.inject_faults() => result?,
            result = ended_dispatches.remove_periodically(&**mailbox) => result?,
        }
        worker_pool.end_faults().await?;
        let time_to_finish = self.wait_until_all_done(&mut worker_pool, &producer, &ended_dispatches).await?;
        let (faults, interrupts) = (worker_pool.faults, producer.interrupt_count);
        drop(worker_pool);
        ended_dispatches.read_and_remove_all(&**mailbox).await?;
        let evidence = self.collect_evidence(ended_dispatches).await?;
        let (work_figures, violations) = check(&evidence);
        let superseded_count =
            evidence.dispatches.values().filter(|dispatch| dispatch.status == DispatchStatus::Superseded).count();
        let figures = Figures {
            seconds: rounded(start.elapsed()),
            dispatches: evidence.dispatches.len(),
            threads,
            workers: self.options.workers,
            faults,
            interrupts,
            superseded: superseded_count,
            work_figures,
            seconds_behind_the_last_fault: rounded(time_to_finish),
            violations: violations.len(),
        };
        Ok((figures, violations))
    }

    async fn create_threads(&self, tenant_stores: &TenantStores) -> Result<()> {
        let Some(threads) = &tenant_stores.threads else { return Ok(()) };
        for thread in 0..self.options.threads {
            let new_thread = NewThread::new(thread_id(thread)?);
            retry(|| threads.create_thread(new_thread.clone())).await?;
        }
        Ok(())
    }

    /// Waits until all jobs are done. At the end of each round, jobs whose dispatches were superseded are enqueued
    /// again for the next round. Returns the time until all dispatches of the first round had finished.
    async fn wait_until_all_done(
        &self,
        worker_pool: &mut WorkerPool<'_>,
        producer: &Producer<'_>,
        ended_dispatches: &EndedDispatches,
    ) -> Result<Duration> {
        let (end_of_faults, mut first_finish) = (Instant::now(), None);
        for round in 1.. {
            let (mut min_unfinished_count, mut last_progress) = (u64::MAX, Instant::now());
            loop {
                worker_pool.check_all_running()?;
                match producer.count_unfinished().await? {
                    0 => break,
                    unfinished_count if unfinished_count < min_unfinished_count => {
                        (min_unfinished_count, last_progress) = (unfinished_count, Instant::now())
                    }
                    unfinished_count if last_progress.elapsed() > MAX_TIME_WITHOUT_PROGRESS + self.options.lease => {
                        bail!("{unfinished_count} dispatches do not finish")
                    }
                    _ => {}
                }
                sleep(POLL_PAUSE).await;
            }
            first_finish.get_or_insert_with(|| end_of_faults.elapsed());
            let dispatches = ended_dispatches.all_dispatches(producer.mailbox).await?;
            let mut unfinished_jobs: BTreeSet<u32> = (0..self.options.dispatches).collect();
            for (name, _) in dispatches.iter().filter(|(_, dispatch)| dispatch.status != DispatchStatus::Superseded) {
                unfinished_jobs.remove(&name.job);
            }
            // A job without a dispatch was lost. It is not enqueued again, so that the check finds this.
            unfinished_jobs.retain(|job| dispatches.contains_key(&DispatchName { job: *job, round: 0 }));
            if unfinished_jobs.is_empty() {
                break;
            }
            let next_names: Vec<_> = unfinished_jobs.into_iter().map(|job| DispatchName { job, round }).collect();
            producer.enqueue(&next_names).await?;
        }
        Ok(first_finish.unwrap_or_default())
    }

    /// Opens the stores again, and collects their content and the lines of the logs.
    async fn collect_evidence(&self, ended_dispatches: EndedDispatches) -> Result<Evidence> {
        let stores = open_stores(&self.options.urls).await?;
        let tenant_stores = stores.tenant(&self.tenant)?;
        let mailbox = tenant_stores.mailbox.as_ref().context("the store has no mailbox")?;
        let (dispatches, reappeared_dispatches) = ended_dispatches.into_all_dispatches(&**mailbox).await?;
        Ok(Evidence {
            jobs: self.options.dispatches,
            is_fenced: stores.capabilities().fenced && tenant_stores.threads.is_some(),
            lines: read_all_logs(&self.logs)?,
            dispatches,
            reappeared_dispatches,
            threads: final_state::read_threads(&tenant_stores, self.options.threads).await?,
        })
    }
}

/// Reads the lines of all logs.
fn read_all_logs(folder: &Path) -> Result<Vec<LogLine>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        lines.extend(record::read_log(&entry?.path())?);
    }
    Ok(lines)
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
