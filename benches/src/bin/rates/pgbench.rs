//! Measures the machine's own limit: pgbench makes one INSERT per transaction, with prepared statements.

use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{BODY_BYTES, Options};

/// A simple table in the schema of the store, and the script with which pgbench inserts into it.
pub(crate) struct PgbenchBaseline<'a> {
    options: &'a Options,
    script: NamedTempFile,
}

impl<'a> PgbenchBaseline<'a> {
    pub(crate) fn new(options: &'a Options, schema: &str) -> Result<Self> {
        let (create_script, insert_script) = (NamedTempFile::new()?, NamedTempFile::new()?);
        std::fs::write(
            &create_script,
            format!("CREATE TABLE {schema}.pgbench_baseline (id bigserial PRIMARY KEY, body text NOT NULL);\n"),
        )?;
        let body = "x".repeat(BODY_BYTES);
        std::fs::write(&insert_script, format!("INSERT INTO {schema}.pgbench_baseline (body) VALUES ('{body}');\n"))?;
        let baseline = Self { options, script: insert_script };
        let _made = baseline.run_pgbench(&create_script, &["--transactions=1"])?;
        Ok(baseline)
    }

    /// Returns the transactions per second that `clients` clients reach together.
    pub(crate) fn rate(&self, clients: usize) -> Result<f64> {
        let output = self.run_pgbench(
            &self.script,
            &[
                &format!("--client={clients}"),
                &format!("--jobs={}", clients.min(2)),
                &format!("--time={}", self.options.duration.as_secs()),
            ],
        )?;
        let line = output.lines().find_map(|line| line.strip_prefix("tps = ")).context("pgbench printed no rate")?;
        Ok(line.split_whitespace().next().context("pgbench printed no rate")?.parse()?)
    }

    /// Returns how many bytes the server has written to its WAL so far.
    pub(crate) fn wal_bytes(&self) -> Result<f64> {
        Ok(self.run_sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?.trim().parse()?)
    }

    /// Makes the server analyze its tables. The server would do so by itself within a minute, but until then it would
    /// plan queries for empty tables.
    pub(crate) fn analyze(&self) -> Result<()> {
        self.run_sql("ANALYZE").map(drop)
    }

    fn run_sql(&self, sql: &str) -> Result<String> {
        let output = Command::new("psql")
            .args(["--no-psqlrc", "--tuples-only", "--command", sql])
            .arg(&self.options.url)
            .output()
            .context("psql cannot be started")?;
        if !output.status.success() {
            bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn run_pgbench(&self, script: &NamedTempFile, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.options.pgbench)
            .args(["--no-vacuum", "--protocol=prepared", "--file"])
            .arg(script.path())
            .args(args)
            .arg(&self.options.url)
            .output()
            .context("pgbench cannot be started; give its path with `--pgbench`")?;
        if !output.status.success() {
            bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
