//! The worker processes, and the faults that are injected into them.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use conformance_tests::Random;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{options::Options, run::Soak};

/// The environment variable that makes a process a worker, and names the store. A URL may hold a password, so it is
/// not passed as an argument.
pub(crate) const STORE_VARIABLE: &str = "AGENTSTORE_SOAK_STORE";
/// The environment variable that names another store for the mailbox.
pub(crate) const MAILBOX_VARIABLE: &str = "AGENTSTORE_SOAK_MAILBOX";

/// The clocks of the workers, in the format of `libfaketime`. Some are wrong by years, and one does not advance.
const FAKE_CLOCKS: [&str; 6] = ["+0", "+1h", "-1h", "+10y", "-10y", "2020-02-02 02:02:02"];

/// The number of faults of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Faults {
    pub(crate) kills: u32,
    pub(crate) stops: u32,
}

/// The worker processes. They are killed when this value is dropped.
pub(crate) struct WorkerPool<'a> {
    soak: &'a Soak,
    workers: Vec<WorkerProcess>,
    start_count: u32,
    random: Random,
    pub(crate) faults: Faults,
}

struct WorkerProcess {
    child: Child,
    log: PathBuf,
    /// When the process continues, if it is stopped.
    stopped_until: Option<Instant>,
}

impl WorkerProcess {
    /// Returns whether the worker has claimed anything. Its log is empty until then.
    fn has_worked(&self) -> bool {
        std::fs::metadata(&self.log).is_ok_and(|log| log.len() > 0)
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

impl<'a> WorkerPool<'a> {
    pub(crate) fn start(soak: &'a Soak) -> Result<Self> {
        let Options { workers, seed, .. } = soak.options;
        let (random, faults) = (Random::new(seed), Faults::default());
        let mut worker_pool = Self { soak, workers: Vec::new(), start_count: 0, random, faults };
        for _ in 0..workers {
            let worker = worker_pool.start_worker()?;
            worker_pool.workers.push(worker);
        }
        Ok(worker_pool)
    }

    fn start_worker(&mut self) -> Result<WorkerProcess> {
        let Soak { options, tenant, logs, .. } = self.soak;
        let name = format!("w-{}", self.start_count);
        let log = log_path(logs, &name);
        self.start_count += 1;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["work", tenant.as_str(), &name, &options.lease.as_millis().to_string()])
            .arg(&log)
            .env(STORE_VARIABLE, &options.urls.store)
            .stdin(Stdio::piped());
        if let Some(mailbox) = &options.urls.mailbox {
            command.env(MAILBOX_VARIABLE, mailbox);
        }
        if let Some(library) = &options.faketime_library {
            let clock = FAKE_CLOCKS.get(self.random.below(FAKE_CLOCKS.len())).copied().unwrap_or_default();
            command.env("LD_PRELOAD", library).env("FAKETIME", clock).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        Ok(WorkerProcess { child: command.spawn().context("a worker cannot be started")?, log, stopped_until: None })
    }

    /// Kills and stops workers at random, until the future is dropped.
    ///
    /// # Errors
    /// A worker ended by itself, or could not be started, killed or stopped.
    pub(crate) async fn inject_faults(&mut self) -> Result<()> {
        loop {
            sleep(self.random_pause()).await;
            self.continue_stopped_workers().await?;
            let index = self.random.below(self.workers.len());
            // In most cases a worker that has claimed nothing gets no fault. Otherwise workers that start slowly would
            // never claim anything.
            if !self.workers.get(index).is_some_and(WorkerProcess::has_worked) && !self.random.once_in(10) {
                continue;
            }
            // One worker is stopped for every three that are killed.
            if self.faults.stops * 3 <= self.faults.kills {
                self.stop(index)?;
            } else {
                self.kill(index)?;
            }
        }
    }

    /// Returns a random pause between zero and twice `mean_fault_interval`.
    fn random_pause(&mut self) -> Duration {
        let hundredths = u32::try_from(self.random.below(200)).unwrap_or_default();
        self.soak.options.mean_fault_interval * hundredths / 100
    }

    /// Kills a worker, and puts a new one in its place.
    fn kill(&mut self, index: usize) -> Result<()> {
        let replacement = self.start_worker()?;
        if let Some(worker) = self.workers.get_mut(index) {
            check_running(worker)?;
            // The old process is killed when its value is dropped here.
            *worker = replacement;
            self.faults.kills += 1;
        }
        Ok(())
    }

    /// Stops a worker until its leases have expired, so that its next writes are too late.
    fn stop(&mut self, index: usize) -> Result<()> {
        let until = Instant::now() + self.soak.options.lease.mul_f32(1.5);
        if let Some(worker) = self.workers.get_mut(index).filter(|worker| worker.stopped_until.is_none()) {
            check_running(worker)?;
            kill_process(Pid::from_child(&worker.child), Signal::STOP)?;
            worker.stopped_until = Some(until);
            self.faults.stops += 1;
        }
        Ok(())
    }

    /// Continues the workers that were stopped for long enough.
    async fn continue_stopped_workers(&mut self) -> Result<()> {
        let now = Instant::now();
        for worker in self.workers.iter_mut().filter(|worker| worker.stopped_until.is_some_and(|until| until <= now)) {
            kill_process(Pid::from_child(&worker.child), Signal::CONT)?;
            worker.stopped_until = None;
        }
        Ok(())
    }

    /// Ends the faults. Waits until all stopped workers have continued.
    pub(crate) async fn end_faults(&mut self) -> Result<()> {
        while let Some(next_continuation) = self.workers.iter().filter_map(|worker| worker.stopped_until).min() {
            sleep_until(next_continuation).await;
            self.continue_stopped_workers().await?;
        }
        Ok(())
    }

    /// Returns an error if a worker ended by itself.
    pub(crate) fn check_all_running(&mut self) -> Result<()> {
        self.workers.iter_mut().try_for_each(check_running)
    }
}

fn check_running(worker: &mut WorkerProcess) -> Result<()> {
    match worker.child.try_wait()? {
        None => Ok(()),
        Some(status) => bail!("a worker exited on its own: {status}"),
    }
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.jsonl"))
}
