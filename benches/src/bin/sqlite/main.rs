//! The SQLite mailbox beside a bare table in SQLite, beside much that is queued (MB-28), and waking other processes
//! (LV-9).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod backlog;
mod bare;
mod callers;
mod wake;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};
use tokio::runtime::Runtime;

const HELP: &str = "\
The SQLite mailbox: callers who enqueue, claim and acknowledge one dispatch each beside a bare table that is written as
many rows at a time; claims beside much that is queued; and how soon work of one process is claimed by another.

Usage: cargo run --release -p benches --bin sqlite -- [OPTIONS]

Options:
  --folder PATH     where the files are made, on the disk that is asked about [default: that for temporary files]
  --callers N       how many callers wait for answers at once [default: 64]
  --dispatches N    how many dispatches they enqueue, claim and acknowledge [default: 20000]
  --rounds N        how often both do so, in turns; the middle one counts [default: 3]
  --backlog N       how many dispatches are queued where a claim does not look [default: 1000000]
  --wakes N         how often another process is woken [default: 100]
  --part NAME       only one part: callers, backlog, or wake
";

/// What is measured.
#[derive(Debug, Clone)]
struct Options {
    folder: PathBuf,
    callers: usize,
    dispatches: usize,
    rounds: usize,
    backlog: usize,
    wakes: usize,
    part: Option<String>,
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
    let mut options = Options {
        folder: std::env::temp_dir(),
        callers: 64,
        dispatches: 20_000,
        rounds: 3,
        backlog: 1_000_000,
        wakes: 100,
        part: None,
    };
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("folder") => options.folder = parser.value()?.into(),
            Arg::Long("callers") => options.callers = parser.value()?.parse()?,
            Arg::Long("dispatches") => options.dispatches = parser.value()?.parse()?,
            Arg::Long("rounds") => options.rounds = parser.value()?.parse()?,
            Arg::Long("backlog") => options.backlog = parser.value()?.parse()?,
            Arg::Long("wakes") => options.wakes = parser.value()?.parse()?,
            Arg::Long("part") => options.part = Some(parser.value()?.parse()?),
            // What this program calls itself with, in another process.
            Arg::Value(part) if part == "wait" => return wake::wait(&PathBuf::from(parser.value()?)),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let is_wanted = |part: &str| options.part.as_ref().is_none_or(|only| only == part);
    if is_wanted("callers") {
        beside_bare(&options)?;
    }
    if is_wanted("backlog") {
        backlog::measure(&options)?;
    }
    if is_wanted("wake") {
        wake::measure(&options)?;
    }
    Ok(())
}

/// As most programs have it.
fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

async fn open(file: PathBuf) -> Result<SqliteMailbox> {
    Ok(SqliteMailbox::open(SqliteConfig::new(file)).await?)
}

fn beside_bare(options: &Options) -> Result<()> {
    let mut found = [const { [const { Vec::new() }; 2] }; 3];
    for _ in 0..options.rounds {
        let folder = tempfile::tempdir_in(&options.folder)?;
        let mailbox = folder.path().join("mailbox.db");
        let ours = runtime()?.block_on(callers::measure(options, mailbox.clone()))?;
        let bare = bare::measure(options, &folder.path().join("bare.db"), bare::Bytes::of(&mailbox)?)?;
        for ((of_one, ours), bare) in found.iter_mut().zip(ours).zip(bare) {
            let [of_ours, of_bare] = of_one;
            of_ours.push(ours);
            of_bare.push(bare);
        }
    }
    for (name, [ours, bare]) in ["enqueue", "claim", "acknowledge"].into_iter().zip(found) {
        let (ours, bare) = (middle(ours), middle(bare));
        if bare == 0.0 {
            bail!("nothing was measured");
        }
        let ratio = (ours / bare * 100.0).round() / 100.0;
        println!(
            "{}",
            json!({ "call": name, "callers": options.callers, "per_second": ours.round(), "bare": bare.round(), "ratio": ratio })
        );
    }
    Ok(())
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
