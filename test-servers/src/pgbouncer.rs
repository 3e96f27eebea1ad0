//! A pgbouncer in transaction mode, in front of a PostgreSQL server for tests.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;

use crate::{
    find,
    postgres::{Postgres, UNPRIVILEGED_USER},
};

/// The environment variable with the URL of a pooler for tests. If it is set, no pooler is started.
pub const POOLER_URL_VARIABLE: &str = "AGENTSTORE_TEST_PGBOUNCER_URL";

const PORT: u16 = 6_432;
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A pooler. It is killed when this value is dropped. Its files are in the folder of the server.
#[derive(Debug)]
pub struct PgBouncer {
    child: Child,
    url: String,
}

impl PgBouncer {
    /// Starts a pooler for this server. Through it, many clients share a few connections. A client holds a connection
    /// only during a transaction.
    ///
    /// # Errors
    /// The pooler cannot be found, downloaded or started.
    pub fn start(server: &Postgres) -> Result<Self> {
        let folder = server.folder();
        let program = find::pgbouncer()?.copy_to(folder)?;
        let settings = format!(
            "[databases]\n* = host={0} user=postgres\n[pgbouncer]\nunix_socket_dir = {0}\nlisten_port = {PORT}\n\
             auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 20\n",
            folder.display()
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings)?;
        let log = fs::File::create(folder.join("pgbouncer.log"))?;
        let mut command = Command::new(&program.file);
        if geteuid().is_root() {
            chown(&file, Some(UNPRIVILEGED_USER), Some(UNPRIVILEGED_USER))?;
            command.uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER);
        }
        if let Some(libraries) = &program.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let child = command
            .arg(&file)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("pgbouncer cannot be started")?;
        let url = format!("postgres://postgres@localhost:{PORT}/postgres?host={}&pooler=transaction", folder.display());
        let mut pooler = Self { child, url };
        pooler.wait_until_ready(folder)?;
        Ok(pooler)
    }

    fn wait_until_ready(&mut self, folder: &Path) -> Result<()> {
        #[expect(clippy::disallowed_methods, reason = "a server starts in real time")]
        let start = Instant::now();
        while !folder.join(format!(".s.PGSQL.{PORT}")).exists() {
            if self.child.try_wait()?.is_some() || start.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(folder.join("pgbouncer.log")).unwrap_or_default();
                bail!("pgbouncer does not start:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns the URL of the pooler.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}
