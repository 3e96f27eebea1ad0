//! Measures how long a large file store takes to open: after a clean close, after a kill, and without its index
//! (FI-10).
//!
//! Each measurement opens the store in a new process, which reports its peak memory. The files are in the cache of the
//! operating system, because they were written or read just before.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod measure;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use lexopt::{Arg, Parser, ValueExt};

const HELP: &str = "\
Measures how long it takes to open a store on files, and how much memory this needs.

Usage: cargo run --release -p benches --bin opening -- [OPTIONS]

Options:
  --folder PATH    where the store is created, on the disk to measure [default: the system's folder for temporary files]
  --threads N      how many threads it has [default: 10000]
  --entries N      how many entries each of them has [default: 100]
  --json           prints the figures as one JSON document
";

/// The options of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) folder: PathBuf,
    pub(crate) threads: u64,
    pub(crate) entries: u64,
    json: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let mut options = Options { folder: std::env::temp_dir(), threads: 10_000, entries: 100, json: false };
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("folder") => options.folder = parser.value()?.into(),
            Arg::Long("threads") => options.threads = parser.value()?.parse()?,
            Arg::Long("entries") => options.entries = parser.value()?.parse()?,
            Arg::Long("json") => options.json = true,
            // This program starts itself with these commands, in another process.
            Arg::Value(part) if part == "open" => return measure::open_and_report(&PathBuf::from(parser.value()?)),
            Arg::Value(part) if part == "work" => return measure::commit_until_killed(&PathBuf::from(parser.value()?)),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let figures = measure::measure(&options)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
        return Ok(());
    }
    for (name, value) in figures.as_object().into_iter().flatten() {
        println!("{name:<32} {value}");
    }
    Ok(())
}
