//! A run of the soak, from its beginning to its end.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use agentstore::{DispatchStatus, IdSource, NewThread, Stores, TenantId, TenantStores, Uuids};
use anyhow::{Context, Result, bail};
use conformance_tests::Random;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    check::{Evidence, Violation, check},
    final_state::{self, EndedDispatches},
    options::Options,
    producer::{Producer, retry},
    record::{self, DispatchName, Line, Log, thread_id},
    worker::open,
    worker_pool::{Faults, WorkerPool},
};

/// How long the run waits for the next dispatch to finish after the faults have ended, in addition to a lease. A run
/// that has to wait longer fails.
const MAX_TIME_WITHOUT_PROGRESS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

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
    let tenant = TenantId::new(format!("soak-{}", Uuids.next_id()))?;
    let (kept, temporary) = match &options.folder {
        Some(folder) => (Some(folder.clone()), None),
        None => (None, Some(tempfile::tempdir()?)),
    };
    let logs =
        kept.or_else(|| Some(temporary.as_ref()?.path().to_owned())).context("there is no folder for the logs")?;
    std::fs::create_dir_all(&logs)?;
    let soak = Soak { options, tenant, logs };
    let stores = open(&soak.options.urls).await?;
    let found = soak.work(&stores).await;
    let is_good = matches!(&found, Ok((_, violations)) if violations.is_empty());
    if is_good {
        retry(|| stores.store().delete_tenant(&soak.tenant)).await?;
    } else if let Some(temporary) = temporary {
        let _kept = temporary.keep();
    }
    stores.close().await?;
    found.with_context(|| format!("the logs are in {}", soak.logs.display()))
}

impl Soak {
    async fn work(&self, stores: &Stores) -> Result<(Figures, Vec<Violation>)> {
        let began = Instant::now();
        let parts = stores.tenant(&self.tenant)?;
        self.create_threads(&parts).await?;
        let mailbox = parts.mailbox.as_ref().context("the store has no mailbox")?;
        let log = Log::create(&self.logs.join("producer.jsonl"))?;
        let Options { dispatches, threads, seed, .. } = self.options;
        let mut producer = Producer { mailbox: &**mailbox, log: &log, threads, interrupts: 0 };
        let mut worker_pool = WorkerPool::start(self)?;
        let names: Vec<_> = (0..dispatches).map(|job| DispatchName { job, round: 0 }).collect();
        let produce_all = async {
            producer.produce(&names, Random::new(seed.wrapping_add(1))).await?;
            // Enough dispatches are left that each worker still has work when the faults end.
            while producer.waiting().await? > u64::from(dispatches / 100) {
                sleep(PAUSE).await;
            }
            anyhow::Ok(())
        };
        let mut ended = EndedDispatches::default();
        tokio::select! {
            produced = produce_all => produced?,
            failed = worker_pool.inject_faults() => failed?,
            failed = ended.remove_periodically(&**mailbox) => failed?,
        }
        worker_pool.end_faults().await?;
        let rest = self.finish(&mut worker_pool, &producer, &ended).await?;
        let (faults, interrupts) = (worker_pool.faults, producer.interrupts);
        drop(worker_pool);
        ended.read_and_remove_all(&**mailbox).await?;
        let evidence = self.evidence(ended).await?;
        let (work_figures, violations) = check(&evidence);
        let superseded = evidence.dispatches.values().filter(|kept| kept.status == DispatchStatus::Superseded).count();
        let figures = Figures {
            seconds: rounded(began.elapsed()),
            dispatches: evidence.dispatches.len(),
            threads,
            workers: self.options.workers,
            faults,
            interrupts,
            superseded,
            work_figures,
            seconds_behind_the_last_fault: rounded(rest),
            violations: violations.len(),
        };
        Ok((figures, violations))
    }

    async fn create_threads(&self, parts: &TenantStores) -> Result<()> {
        let Some(threads) = &parts.threads else { return Ok(()) };
        for thread in 0..self.options.threads {
            let new = NewThread::new(thread_id(thread)?);
            retry(|| threads.create_thread(new.clone())).await?;
        }
        Ok(())
    }

    /// Waits until all jobs are done. Enqueues the jobs of superseded dispatches again, which is the only help that the
    /// workers get. Returns the time after which all dispatches had finished for the first time.
    async fn finish(
        &self,
        worker_pool: &mut WorkerPool<'_>,
        producer: &Producer<'_>,
        ended: &EndedDispatches,
    ) -> Result<Duration> {
        let (faults_ended, mut first) = (Instant::now(), None);
        for round in 1.. {
            let (mut least, mut since) = (u64::MAX, Instant::now());
            loop {
                worker_pool.check_all_running()?;
                match producer.waiting().await? {
                    0 => break,
                    waiting if waiting < least => (least, since) = (waiting, Instant::now()),
                    waiting if since.elapsed() > MAX_TIME_WITHOUT_PROGRESS + self.options.lease => {
                        bail!("{waiting} dispatches do not finish")
                    }
                    _ => {}
                }
                sleep(PAUSE).await;
            }
            first.get_or_insert_with(|| faults_ended.elapsed());
            let dispatches = ended.all_dispatches(producer.mailbox).await?;
            let mut undone: BTreeSet<u32> = (0..self.options.dispatches).collect();
            for (name, _) in dispatches.iter().filter(|(_, kept)| kept.status != DispatchStatus::Superseded) {
                undone.remove(&name.job);
            }
            // A job without a dispatch was lost. It is not enqueued again, so that the check finds this.
            undone.retain(|job| dispatches.contains_key(&DispatchName { job: *job, round: 0 }));
            if undone.is_empty() {
                break;
            }
            let next_names: Vec<_> = undone.into_iter().map(|job| DispatchName { job, round }).collect();
            producer.enqueue(&next_names).await?;
        }
        Ok(first.unwrap_or_default())
    }

    /// Opens the stores again, and collects what they contain and what the logs say.
    async fn evidence(&self, ended: EndedDispatches) -> Result<Evidence> {
        let stores = open(&self.options.urls).await?;
        let parts = stores.tenant(&self.tenant)?;
        let mailbox = parts.mailbox.as_ref().context("the store has no mailbox")?;
        let (dispatches, came_back) = ended.into_all_dispatches(&**mailbox).await?;
        Ok(Evidence {
            jobs: self.options.dispatches,
            is_fenced: stores.capabilities().fenced && parts.threads.is_some(),
            lines: lines(&self.logs)?,
            dispatches,
            came_back,
            threads: final_state::read_threads(&parts, self.options.threads).await?,
        })
    }
}

/// Reads the lines of all logs.
fn lines(folder: &Path) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        lines.extend(record::read(&entry?.path())?);
    }
    Ok(lines)
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
