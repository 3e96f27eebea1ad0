//! `supervise`: runs one command for `mailbox work`. When the worker has died, it kills the command and all processes
//! that the command started. Otherwise they would run at the same time as the next attempt.

use std::{io, os::unix::process::ExitStatusExt, process::ExitCode, time::Duration};

use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process, kill_process_group};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    time::interval,
};

use crate::failure::{FAILURE_EXIT_CODE, Failure, Result};

/// How often the supervisor checks whether the worker still runs. On Linux a signal notifies it sooner.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process id of the worker, which starts this process
    #[arg(long)]
    worker: i32,
    /// The command, which is run by `sh -c`
    exec: String,
}

/// Runs the command, and ends with the same exit code or signal.
pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let supervise_failure = |error: io::Error| Failure::io("the command cannot be supervised", error);
    // These signals go to the whole process group, and are meant for the command. The supervisor handles them, so that
    // it does not end before the command.
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let _handled = signal(kind).map_err(supervise_failure)?;
    }
    let mut parent_death_signal = signal(SignalKind::user_defined2()).map_err(supervise_failure)?;
    // The kernel sends the signal when the OS thread that started this process ends. The worker may outlive that
    // thread, so the signal alone does not mean that the worker has died.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::USR2))
        .map_err(|error| supervise_failure(error.into()))?;
    let is_orphaned = || getppid() != Pid::from_raw(args.worker);
    // The worker may have died before the kernel was asked for the signal.
    if is_orphaned() {
        return Ok(ExitCode::from(FAILURE_EXIT_CODE));
    }
    let mut checks = interval(CHECK_INTERVAL);
    let mut command = Command::new("sh").args(["-c", &args.exec]).spawn().map_err(supervise_failure)?;
    let status = loop {
        tokio::select! {
            biased;
            status = command.wait() => break status.map_err(supervise_failure)?,
            _ = parent_death_signal.recv() => {}
            _ = checks.tick() => {}
        }
        if is_orphaned() {
            // This process is a member of the group, so the signal ends it, too.
            kill_process_group(getpgrp(), Signal::KILL).map_err(|error| supervise_failure(error.into()))?;
        }
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        (None, signal) => {
            let signal_number = signal.unwrap_or_default();
            if let Some(signal) = Signal::from_named_raw(signal_number) {
                kill_process(getpid(), signal).map_err(|error| supervise_failure(error.into()))?;
            }
            // A signal that this process handles does not end it. It then returns the exit code that a shell would
            // return.
            Ok(ExitCode::from(u8::try_from(128 + signal_number).unwrap_or(u8::MAX)))
        }
    }
}
