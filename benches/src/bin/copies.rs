//! Measures a copy from a `file:` store to PostgreSQL, beside `COPY` of the same rows into a table with the same
//! indexes (VF-2).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::{path::Path, process::Command, process::ExitCode, time::Instant};

use agentstore::{CopyStep, Durability, OpenOptions, Stores, TenantId, copy_stores, records::CopyOptions};
use anyhow::{Context, Result, bail, ensure};
use benches::{create_filled_thread, in_new_schema};
use lexopt::{Arg, Parser, ValueExt};
use tempfile::TempDir;

const HELP: &str = "\
Copies entries from a `file:` store to a new schema of a PostgreSQL database, and compares the rate with that of COPY,
which writes the same rows to a table with the same indexes. Prints the largest memory of the process, too.

Usage: cargo run --release -p benches --bin copies -- [OPTIONS] URL

Options:
  --entries N   the number of entries [default: 1000000]
  --threads N   the number of threads that have them [default: 100]
  --dir PATH    the folder for the store of files [default: the temporary folder]
";

struct Options {
    url: String,
    entries: u64,
    threads: u64,
    dir: std::path::PathBuf,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (mut url, mut entries, mut threads, mut dir) = (None, 1_000_000, 100, std::env::temp_dir());
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("entries") => entries = parser.value()?.parse()?,
            Arg::Long("threads") => threads = parser.value()?.parse()?,
            Arg::Long("dir") => dir = parser.value()?.into(),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            Arg::Value(value) if url.is_none() => url = Some(value.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let options = Options { url: url.context("no database is given; see --help")?, entries, threads, dir };
    let folder = TempDir::new_in(&options.dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(fill(&options, folder.path()))?;
    let url = options.url.clone();
    in_new_schema(&url, async |schema, store| {
        let rate = copy(&options, folder.path(), store.clone()).await?;
        let baseline = copy_rows(&options, folder.path(), schema)?;
        println!("COPY of the same rows: {baseline:.0} entries/s");
        println!("agentstore copy: {rate:.0} entries/s, {:.0} % of COPY", 100.0 * rate / baseline);
        println!("largest memory of this process: {} MiB", peak_memory()? / 1024);
        Ok(())
    })
}

async fn open(folder: &Path) -> Result<Stores> {
    let url = format!("file:{}", folder.join("store").display());
    Ok(OpenOptions::new().with_durability(Durability::None).open(&url).await?)
}

async fn fill(options: &Options, folder: &Path) -> Result<()> {
    let stores = open(folder).await?;
    let commits = stores.commits(&TenantId::default_tenant())?;
    for thread in 0..options.threads {
        let _filled =
            create_filled_thread(&*commits, &format!("t-{thread}"), options.entries / options.threads).await?;
    }
    stores.close().await?;
    Ok(())
}

/// Copies the store, and returns the entries per second, without the comparison at the end.
async fn copy(options: &Options, folder: &Path, target: store_postgres::PostgresStore) -> Result<f64> {
    let source = open(folder).await?;
    let target = Stores::new(std::sync::Arc::new(target));
    let began = Instant::now();
    let timed = Timed { began, copied: std::sync::Mutex::new(None) };
    let copied = copy_stores((&source, &target), None, CopyStep::Copy, &CopyOptions::new("bench"), &timed).await?;
    let whole = began.elapsed();
    ensure!(copied.iter().all(|tenant| tenant.report.difference_count == 0), "the copy is not equal");
    let taken = timed.copied.lock().ok().and_then(|copied| *copied).context("nothing was copied")?;
    println!("copied in {:.1} s, {:.1} s with the comparison", taken.as_secs_f64(), whole.as_secs_f64());
    source.close().await?;
    Ok(options.entries as f64 / taken.as_secs_f64())
}

/// Notes when the last page was written.
#[derive(Debug)]
struct Timed {
    began: Instant,
    copied: std::sync::Mutex<Option<std::time::Duration>>,
}

impl agentstore::Progress for Timed {
    fn advance(&self, _done: u64, total: Option<u64>) -> bool {
        // Only the copy itself knows how much there is.
        if total.is_some()
            && let Ok(mut copied) = self.copied.lock()
        {
            *copied = Some(self.began.elapsed());
        }
        true
    }
}

/// Writes the rows of the copied entries to another table by COPY, and returns the rows per second.
fn copy_rows(options: &Options, folder: &Path, schema: &str) -> Result<f64> {
    let rows = folder.join("rows");
    psql(options, &format!("\\copy (SELECT * FROM {schema}.entry) TO '{}'", rows.display()))?;
    psql(options, &format!("CREATE TABLE {schema}.copied (LIKE {schema}.entry INCLUDING ALL)"))?;
    let began = Instant::now();
    psql(options, &format!("\\copy {schema}.copied FROM '{}'", rows.display()))?;
    Ok(options.entries as f64 / began.elapsed().as_secs_f64())
}

fn psql(options: &Options, command: &str) -> Result<()> {
    let output = Command::new("psql").args(["--no-psqlrc", "--command", command]).arg(&options.url).output();
    let output = output.context("psql cannot be started")?;
    if !output.status.success() {
        bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The largest memory of this process so far, in KiB.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system does not say")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
