//! A NATS server with JetStream, or a cluster of three, for tests. The folder of a server is removed with the server.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, kill_process};

use crate::{find, postgres::to_pid};

/// The environment variable with the URL of a server for tests. If it is set, no server is started.
pub const NATS_URL_VARIABLE: &str = "AGENTSTORE_TEST_NATS_URL";

/// The environment variable with the URL of a cluster of three servers for tests. The URL names each server.
pub const NATS_CLUSTER_URL_VARIABLE: &str = "AGENTSTORE_TEST_NATS_CLUSTER_URL";

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A NATS server. It is stopped when this value is dropped; errors are then ignored.
#[derive(Debug)]
pub struct Nats {
    /// The file of the program `nats-server`.
    program: PathBuf,
    folder: PathBuf,
    /// The command that starts the server, such as `strace` with its arguments; empty if the server is started
    /// directly.
    wrapper: Vec<String>,
    host: String,
    port: u16,
    child: Option<Child>,
}

impl Nats {
    /// Starts a new, empty server with these lines in its configuration, such as
    /// `jetstream { sync_interval: always }`. It listens on a free port of this machine.
    ///
    /// # Errors
    /// The server cannot be found, downloaded or started.
    pub fn start(settings: &str) -> Result<Self> {
        Self::start_in(new_folder(), settings)
    }

    /// Starts a new server in this folder, which is created now and removed with the server.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(folder: PathBuf, settings: &str) -> Result<Self> {
        Self::start_with_host(folder, &[], "127.0.0.1", settings)
    }

    /// Starts a new server by means of a command, such as `strace -D`. The process of the command must become that of
    /// the server.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with_wrapper(command: &[&str], settings: &str) -> Result<Self> {
        Self::start_with_host(new_folder(), command, "127.0.0.1", settings)
    }

    pub(crate) fn start_with_host(folder: PathBuf, wrapper: &[&str], host: &str, settings: &str) -> Result<Self> {
        fs::create_dir(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
        let wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
        let mut server = Self { program: find::nats()?, folder, wrapper, host: host.to_owned(), port: 0, child: None };
        fs::write(server.folder.join("nats.conf"), settings)?;
        server.restart()?;
        Ok(server)
    }

    /// Starts three servers that are one cluster, each with these lines in its configuration. Waits until all of
    /// them know the leader of the cluster.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_cluster(settings: &str) -> Result<[Self; 3]> {
        let ports = [free_port()?, free_port()?, free_port()?];
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(", ");
        let start = |number: usize, port: u16| {
            let cluster = format!("cluster {{ name: tests, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}");
            Self::start(&format!("server_name: n{number}\n{cluster}\n{settings}\n"))
        };
        let servers = [start(1, ports[0])?, start(2, ports[1])?, start(3, ports[2])?];
        servers.iter().try_for_each(Self::wait_for_leader)?;
        Ok(servers)
    }

    /// Returns a URL that names all of these servers, which form one cluster.
    #[must_use]
    pub fn url_of(servers: &[Self]) -> String {
        let hosts: Vec<_> = servers.iter().map(|server| format!("{}:{}", server.host, server.port)).collect();
        format!("nats://{}/", hosts.join(","))
    }

    fn wait_for_leader(&self) -> Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a server starts in real time")]
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(self.folder.join("log"))?;
            // A server that knows the leader has logged `JetStream cluster new metadata leader: n2/tests`, or
            // `Self is new JetStream cluster metadata leader`.
            if log.contains("metadata leader") {
                return Ok(());
            }
            if start.elapsed() > START_TIMEOUT {
                bail!("the cluster has not elected a leader:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts the server again, on the same port, after it was killed or has ended.
    ///
    /// # Errors
    /// The server cannot be started.
    pub fn restart(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"))?;
        // A file of an earlier start would wrongly say that the server is ready.
        for stale_file in ports_files(&self.folder)? {
            fs::remove_file(stale_file)?;
        }
        // With the port -1, the server chooses a free port.
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let program = self.program.display().to_string();
        let mut words = self.wrapper.iter().chain([&program]);
        let mut command = Command::new(words.next().unwrap_or(&program));
        command.args(words);
        command.args(["--config", "nats.conf", "--addr", &self.host, "--port", &port, "--jetstream"]);
        command.args(["--store_dir", "data", "--ports_file_dir", "."]).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn().context("nats-server cannot be started")?);
        self.port = self.wait_until_ready()?;
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<u16> {
        let folder = self.folder.clone();
        let Some(child) = &mut self.child else { bail!("the server was stopped") };
        #[expect(clippy::disallowed_methods, reason = "a server starts in real time")]
        let start = Instant::now();
        loop {
            if let Some(port) = ports_files(&folder)?.first().and_then(|file| client_port(file)) {
                return Ok(port);
            }
            if child.try_wait()?.is_some() || start.elapsed() > START_TIMEOUT {
                bail!("NATS does not start:\n{}", fs::read_to_string(folder.join("log")).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}:{}/", self.host, self.port)
    }

    /// Returns the folder of the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Suspends the process of the server. To clients this looks like a server that gets no processor time.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process of the server after [`pause`](Self::pause).
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = self.child.as_ref().and_then(|child| to_pid(child.id())) else {
            bail!("the server was stopped")
        };
        Ok(kill_process(pid, signal)?)
    }

    /// Kills the server.
    ///
    /// # Errors
    /// The server cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Stops the server, and checks its exit status.
    ///
    /// # Errors
    /// The server ended with a failure.
    pub fn stop(mut self) -> Result<()> {
        match self.send_interrupt_and_wait()? {
            // A server that is stopped by this signal ends with status 1.
            Some(status) if !status.success() && status.code() != Some(1) => bail!("NATS ended with {status}"),
            _ => Ok(()),
        }
    }

    fn send_interrupt_and_wait(&mut self) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        if let Some(pid) = to_pid(child.id()) {
            let _sent = (kill_process(pid, Signal::CONT), kill_process(pid, Signal::INT));
        }
        Ok(Some(child.wait()?))
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ended = self.send_interrupt_and_wait();
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn new_folder() -> PathBuf {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("/tmp/agentstore-nats-{}-{number}", std::process::id()).into()
}

/// Returns a port that is free now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Returns the files in which the server writes the addresses that it listens on.
fn ports_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|file| file.extension().is_some_and(|extension| extension == "ports")).collect())
}

/// Returns the port for clients from a file of addresses: `{"nats": ["nats://127.0.0.1:4222"], …}`, or `tls://…`.
fn client_port(file: &Path) -> Option<u16> {
    let text = fs::read_to_string(file).ok()?;
    let address = text.split_once("\"nats\"")?.1.split_once("://")?.1;
    address.split('"').next()?.rsplit_once(':')?.1.parse().ok()
}
