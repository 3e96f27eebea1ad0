//! Measures the time and the memory that it takes to open a store. Each measurement opens it in a new process.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use benches::{create_filled_thread, median, numbered_message, timed};
use serde_json::{Map, Value, json};
use store_core::{Commit, CommitCoordinator, CommitKey, Store, TenantId, ThreadId};
use store_file::{Durability, FileConfig, FileStore};

use crate::Options;

/// How many openings with an index are measured after a clean close, and again after a kill.
const OPENINGS: usize = 5;
/// How many openings without an index are measured. They are few, because each rebuilds the index and is slow.
const REBUILDS: usize = 2;

/// The number of commits, each to a thread of its own, after which a writing process is killed.
const COMMITS_BEFORE_KILL: u64 = 1_000;

/// What a process reports about its opening.
struct OpeningReport {
    opening_time: Duration,
    peak_kib: u64,
    unclean: bool,
    index_rebuilt: bool,
}

pub(crate) fn measure(options: &Options) -> Result<Value> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let root = folder.path().join("root");
    let mut figures = Map::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (building_time, result) = runtime.block_on(timed(create_store(&root, options)));
    result?;
    figures.insert("threads".to_owned(), json!(options.threads));
    figures.insert("entries of each".to_owned(), json!(options.entries));
    figures.insert("building, s".to_owned(), json!(building_time.as_secs()));
    figures.insert("all but the index, MiB".to_owned(), json!(rounded_mib(bytes_without_index(&root)? / 1024)));
    figures.insert("memory of an idle process, MiB".to_owned(), json!(rounded_mib(idle_peak_kib()?)));
    // Opens the store `times` times, each time after `prepare`, and adds the figures of these openings.
    let mut measure_opening = |name: &str,
                               times: usize,
                               prepare: &dyn Fn() -> Result<()>,
                               is_expected: fn(&OpeningReport) -> bool|
     -> Result<()> {
        let mut openings = Vec::new();
        for _ in 0..times {
            prepare()?;
            openings.push(open_in_new_process(&root)?);
        }
        ensure!(openings.iter().all(is_expected), "{name}: the store was opened in an unexpected condition");
        let peak = openings.iter().map(|opened| opened.peak_kib).max().unwrap_or_default();
        let opening_time = median(openings.iter().map(|opened| opened.opening_time).collect());
        figures.insert(format!("{name}, ms"), json!(rounded(opening_time.as_secs_f64() * 1e3)));
        figures.insert(format!("{name}, peak MiB"), json!(rounded_mib(peak)));
        Ok(())
    };
    measure_opening("after a clean close", OPENINGS, &|| Ok(()), |opened| !opened.unclean && !opened.index_rebuilt)?;
    measure_opening("after a kill", OPENINGS, &|| write_and_kill(&root), |opened| {
        opened.unclean && !opened.index_rebuilt
    })?;
    let remove_index = || fs::remove_dir_all(root.join("index")).context("the index cannot be removed");
    measure_opening("without its index", REBUILDS, &remove_index, |opened| opened.index_rebuilt)?;
    Ok(Value::Object(figures))
}

/// Returns the bytes of all files below a folder, except those of an index.
fn bytes_without_index(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            bytes += entry.metadata()?.len();
        } else if entry.file_name() != "index" {
            bytes += bytes_without_index(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// Rounds a number to one decimal place.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Converts KiB to MiB, rounded to one decimal place.
fn rounded_mib(kib: u64) -> f64 {
    // The detour through `Duration` converts the whole number without a cast.
    rounded(Duration::from_millis(kib).as_secs_f64() * 1000.0 / 1024.0)
}

async fn create_store(root: &Path, options: &Options) -> Result<()> {
    let store = FileStore::open(root, FileConfig::default().with_durability(Durability::None))?;
    let commits = commits(&store)?;
    for number in 0..options.threads {
        let _ = create_filled_thread(&*commits, &format!("t-{number}"), options.entries).await?;
        if number % 1_000 == 999 {
            // The store keeps the log of a thread open until the thread is durable. The sync limits the number of open
            // logs.
            store.sync().await?;
        }
    }
    Ok(store.close().await?)
}

/// Returns the coordinator that writes to the default tenant.
fn commits(store: &FileStore) -> Result<std::sync::Arc<dyn CommitCoordinator>> {
    store.tenant(&TenantId::default_tenant())?.commits.context("the store has no threads")
}

/// Starts another process that opens and closes the store. Returns what the process reports.
fn open_in_new_process(root: &Path) -> Result<OpeningReport> {
    let output = Command::new(std::env::current_exe()?).arg("open").arg(root).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| report.get(name).and_then(Value::as_u64).with_context(|| name.to_owned());
    let flag = |name: &str| report.get(name).and_then(Value::as_bool).with_context(|| name.to_owned());
    Ok(OpeningReport {
        opening_time: Duration::from_micros(number("micros")?),
        peak_kib: number("peak_kib")?,
        unclean: flag("unclean")?,
        index_rebuilt: flag("index_rebuilt")?,
    })
}

/// Opens and closes the store in this process, and prints the report that [`open_in_new_process`] reads.
#[expect(clippy::print_stdout, reason = "another process reads the output")]
pub(crate) fn open_and_report(root: &Path) -> Result<()> {
    let start = Instant::now();
    let store = FileStore::open(root, FileConfig::default())?;
    let micros = u64::try_from(start.elapsed().as_micros())?;
    let (unclean, index_rebuilt) = (store.opening().unclean, store.opening().index_rebuilt);
    let report =
        json!({ "micros": micros, "peak_kib": peak_kib()?, "unclean": unclean, "index_rebuilt": index_rebuilt });
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(store.close())?;
    println!("{report}");
    Ok(())
}

/// Starts another process that writes to the store, and kills it.
fn write_and_kill(root: &Path) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?).arg("work").arg(root).stdout(Stdio::piped()).spawn()?;
    let report = BufReader::new(child.stdout.take().context("the process has no output")?).lines().next().transpose();
    child.kill()?;
    let _ = child.wait()?;
    ensure!(report?.as_deref() == Some("working"), "the other process did not start to work");
    Ok(())
}

/// Commits to threads of the store until this process is killed. Prints a line after [`COMMITS_BEFORE_KILL`] commits.
#[expect(clippy::print_stdout, reason = "another process reads the output")]
pub(crate) fn commit_until_killed(root: &Path) -> Result<()> {
    let store =
        FileStore::open(root, FileConfig::default().with_durability(Durability::Interval(Duration::from_secs(1))))?;
    let commits = commits(&store)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for number in 0.. {
        if number == COMMITS_BEFORE_KILL {
            println!("working");
        }
        let key = CommitKey::new(format!("{}-{number}", std::process::id()))?;
        let thread = ThreadId::new(format!("t-{}", number % COMMITS_BEFORE_KILL))?;
        let commit = Commit::new(thread).with_key(key).entry(numbered_message(number));
        let _ = runtime.block_on(commits.commit(commit))?;
    }
    Ok(())
}

/// Returns the peak memory of a process that does almost nothing (`cat`), in KiB. About this much of the peak memory of
/// each opening is not due to the store.
fn idle_peak_kib() -> Result<u64> {
    let output = Command::new("cat").arg("/proc/self/status").output()?;
    parse_peak_kib(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the peak memory of this process so far, in KiB.
fn peak_kib() -> Result<u64> {
    parse_peak_kib(&fs::read_to_string("/proc/self/status").context("/proc/self/status cannot be read")?)
}

fn parse_peak_kib(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("/proc/self/status has no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
