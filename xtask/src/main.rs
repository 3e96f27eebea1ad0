//! Tasks for developers of agentstore. `cargo xtask test` checks everything, `faults` runs long tests of faults,
//! `matrix` writes the page about the backends, `bench` measures what they cost, `servers` starts servers for tests,
//! and `tidy` checks what no compiler checks.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod bench;
mod features;
mod servers;
mod test;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Result, bail};
use lexopt::{Arg, Parser, ValueExt as _};
use test_servers::Postgres;

const HELP: &str = "\
Tasks for developers of agentstore.

Usage: cargo xtask TASK

Tasks:
  test     checks everything: format, lints, tidy, features, tests on real servers and doc tests. Then prints how long
           each step and each group of tests took.
           `test CRATE...` runs only the lints, tests and doc tests of these packages
           `test --full` runs more: all pairs of features, more seeds and crash points, the whole suite through a
           pooler and on the newest PostgreSQL, and thousands of schedules
           `test --record` also writes these times into docs/testing.md
  faults   runs the long form of the tests of faults, crashes, histories and schedules, and prints their figures
  matrix   writes docs/backends.md, the page about what each backend can do
  bench    measures what every backend costs, and the limits of the machine.
           `bench [FOLDER]` measures the disk of this folder [default: the system's folder for temporary files]
  servers  starts PostgreSQL and NATS for tests and prints their URLs, until Ctrl-C; `servers --newest` starts the
           newest PostgreSQL, which is downloaded, and `servers` the one that is installed
  tidy     checks what no compiler checks: sizes, layout, and that each promise has a case
";

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
    let mut parser = Parser::from_env();
    match parser.next()? {
        Some(Arg::Value(task)) if task == "test" => test::run(&root(), &test_options(&mut parser)?),
        Some(Arg::Value(task)) if task == "faults" => test::run_faults(&root()),
        Some(Arg::Value(task)) if task == "matrix" => test::write_matrix(&root()),
        Some(Arg::Value(task)) if task == "bench" => match parser.next()? {
            None => bench::run(&root(), &std::env::temp_dir()),
            Some(Arg::Value(folder)) => bench::run(&root(), Path::new(&folder)),
            Some(arg) => bail!("{}; see `cargo xtask --help`", arg.unexpected()),
        },
        Some(Arg::Value(task)) if task == "servers" => match parser.next()? {
            None => servers::run(Postgres::start(&[])?),
            Some(Arg::Long("newest")) => servers::run(Postgres::start_newest(&[])?),
            Some(arg) => bail!("{}; see `cargo xtask --help`", arg.unexpected()),
        },
        Some(Arg::Value(task)) if task == "tidy" => tidy::run(&root()),
        Some(Arg::Long("help") | Arg::Short('h')) | None => {
            print!("{HELP}");
            Ok(())
        }
        Some(arg) => bail!("{}; see `cargo xtask --help`", arg.unexpected()),
    }
}

fn test_options(parser: &mut Parser) -> Result<test::Options> {
    let mut options = test::Options::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("full") => options.is_full = true,
            Arg::Long("record") => options.writes_times = true,
            Arg::Value(package) => options.packages.push(package.string()?),
            arg => bail!("{}; see `cargo xtask --help`", arg.unexpected()),
        }
    }
    if options.writes_times && !options.packages.is_empty() {
        bail!("`--record` records the times of all tests: leave out `{}`", options.packages.join(" "));
    }
    Ok(options)
}

/// Returns the root folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
