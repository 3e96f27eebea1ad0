//! A PostgreSQL of its own, in a folder that goes with it.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::find;

/// Where tests look for a server. One that is set wins over one that is started.
pub const URL: &str = "AGENTSTORE_TEST_POSTGRES_URL";

/// PostgreSQL refuses to run as root: nobody runs it.
pub(crate) const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(30);
/// What every server is started with.
const SETTINGS: [&str; 5] =
    ["listen_addresses=", "max_connections=300", "restart_after_crash=off", "shared_buffers=256MB", "max_wal_size=4GB"];

/// A server. It is stopped when it is dropped, without a word.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    settings: Vec<String>,
    /// What makes it see another time, and the file that says which.
    clock: Option<(PathBuf, PathBuf)>,
    child: Option<Child>,
}

impl Postgres {
    /// Starts a new, empty one with these settings, as `fsync=off`. It listens on a socket in its folder alone.
    ///
    /// # Errors
    /// It cannot be found, fetched or started.
    pub fn start(settings: &[&str]) -> Result<Self> {
        Self::start_in(new_folder(), settings)
    }

    /// The same with the newest version that can be had.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_newest(settings: &[&str]) -> Result<Self> {
        Self::new(find::newest_postgres()?, new_folder(), settings, None)
    }

    /// One whose clock can be set.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_clock() -> Result<Self> {
        let folder = new_folder();
        let clock = (find::faketime()?, folder.join("clock"));
        Self::new(find::postgres()?, folder, &[], Some(clock))
    }

    /// Sets the clock so many seconds ahead of what it is, or behind.
    ///
    /// # Errors
    /// It has no clock of its own.
    pub fn set_clock(&self, seconds: i64) -> Result<()> {
        let (_, file) = self.clock.as_ref().context("the server has no clock of its own")?;
        // In one step: the server never sees a part.
        let new = file.with_extension("new");
        fs::write(&new, format!("{seconds:+}\n"))?;
        fs::rename(new, file).map_err(Into::into)
    }

    /// The same in this folder, which must not be there yet; its path is short.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(folder: PathBuf, settings: &[&str]) -> Result<Self> {
        Self::new(find::postgres()?, folder, settings, None)
    }

    fn new(bin: PathBuf, folder: PathBuf, settings: &[&str], clock: Option<(PathBuf, PathBuf)>) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        if geteuid().is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
        }
        let settings = SETTINGS.iter().chain(settings).map(ToString::to_string).collect();
        let mut server = Self { bin, folder, settings, clock, child: None };
        let made = server
            .program("initdb")
            .arg("--pgdata")
            .arg(server.data())
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "--no-sync"])
            .output()
            .context("initdb cannot be started")?;
        if !made.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        }
        if let Some((library, _)) = &mut server.clock {
            // Who runs the server may not be let into the folder of the workspace.
            let copy = server.folder.join("clock.so");
            fs::copy(&library, &copy)?;
            *library = copy;
            server.set_clock(0)?;
        }
        server.restart()?;
        Ok(server)
    }

    /// Starts it again, after it was killed or ended.
    ///
    /// # Errors
    /// It cannot be started, or does not recover.
    pub fn restart(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        // What it says of an earlier start.
        let _none = fs::remove_file(self.data().join("postmaster.pid"));
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        if let Some((library, file)) = &self.clock {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().context("postgres cannot be started")?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let (pid_file, log) = (self.data().join("postmaster.pid"), self.folder.join("log"));
        let Some(child) = &mut self.child else { return Ok(()) };
        #[expect(clippy::disallowed_methods, reason = "nothing is tested yet")]
        let start = Instant::now();
        // The last line of this file says how far it is.
        while !fs::read_to_string(&pid_file).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            if child.try_wait()?.is_some() || start.elapsed() > PATIENCE {
                bail!("PostgreSQL does not start:\n{}", fs::read_to_string(log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.folder.display())
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// The folder that it lives in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its data is.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A program of the server, as somebody whom it does not refuse.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(&self.folder);
        command
    }

    /// Kills it with all its processes, at once.
    ///
    /// # Errors
    /// The system does not let it, or some of them do not end.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = pid(child.id()) {
            // What it began later would stay, and hold the memory that it shares: no other server starts then.
            kill_process(pid, Signal::STOP)?;
        }
        let children = children(child.id())?;
        child.kill()?;
        for &pid in &children {
            // It may have ended by itself.
            let _gone = kill_process(pid, Signal::KILL);
        }
        child.wait()?;
        children.into_iter().try_for_each(wait_for_end)
    }

    /// Ends it as an operator would, with what is open rolled back, and lets it be started again.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn end(&mut self) -> Result<()> {
        self.interrupt().map(drop)
    }

    /// Stops it, and says so if it ended badly.
    ///
    /// # Errors
    /// It ended badly.
    pub fn stop(mut self) -> Result<()> {
        match self.interrupt()? {
            Some(status) if !status.success() => bail!("PostgreSQL ended with {status}"),
            _ => Ok(()),
        }
    }

    fn interrupt(&mut self) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        if let Some(pid) = pid(child.id()) {
            let _gone = kill_process(pid, Signal::INT);
        }
        Ok(Some(child.wait()?))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ended = self.interrupt();
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

fn new_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("/tmp/agentstore-postgres-{}-{number}", std::process::id()).into()
}

pub(crate) fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The processes that a process has begun.
fn children(of: u32) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(pid) else { continue };
        if state_and_parent(pid).is_some_and(|(_, parent)| parent == of.to_string()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Waits for the end of a process that was killed. Whoever takes its status, and when, does not matter.
fn wait_for_end(pid: Pid) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a process ends in the time of the machine")]
    let start = Instant::now();
    while state_and_parent(pid).is_some_and(|(state, _)| state != "Z" && state != "X") {
        if start.elapsed() > PATIENCE {
            bail!("process {} of PostgreSQL does not end", pid.as_raw_nonzero());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A letter, `Z` for one that has ended, and a number. Nothing if there is no such process.
fn state_and_parent(pid: Pid) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Behind the name, which may hold anything.
    let mut rest = stat.rsplit(')').next()?.split_whitespace().map(ToOwned::to_owned);
    Some((rest.next()?, rest.next()?))
}
