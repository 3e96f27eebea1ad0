//! Compares the SQLite mailbox with direct writes to SQLite.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod callers;
mod direct_sqlite;

use std::{ops::Range, path::PathBuf, process::ExitCode};

use anyhow::Result;
use lexopt::{Arg, Parser, ValueExt};
use serde_json::json;
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox};
use tokio::runtime::Runtime;

const HELP: &str = "\
Measures the SQLite mailbox, whose callers enqueue, claim and acknowledge one dispatch at a time. For comparison, a loop
writes directly to SQLite. Each of its transactions writes as many dispatches as there are callers. First it writes the
same rows for each dispatch as the mailbox, then one row that is as long as these rows together.

Usage: cargo run --release -p benches --bin sqlite -- [OPTIONS]

Options:
  --folder PATH     where the files are created, on the disk to measure [default: the folder for temporary files]
  --callers N       how many callers wait for answers at once [default: 64]
  --dispatches N    how many dispatches they enqueue, claim and acknowledge, 2000 at a time [default: 20000]
  --rounds N        how many times to run all three measurements in turn; the median is reported [default: 3]
";

/// The number of dispatches in a wave: see [`Options::waves`]. At most this many dispatches wait at the same time.
const WAVE_SIZE: usize = 2_000;

/// The options of the command line.
#[derive(Debug, Clone)]
struct Options {
    folder: PathBuf,
    callers: usize,
    dispatches: usize,
    rounds: usize,
}

impl Options {
    /// Returns the numbers of the dispatches in waves. The dispatches of a wave are enqueued, then claimed, then
    /// acknowledged, before the next wave begins.
    fn waves(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.dispatches).step_by(WAVE_SIZE).map(|first| first..self.dispatches.min(first + WAVE_SIZE))
    }
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
    let mut options = Options { folder: std::env::temp_dir(), callers: 64, dispatches: 20_000, rounds: 3 };
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("folder") => options.folder = parser.value()?.into(),
            Arg::Long("callers") => options.callers = parser.value()?.parse()?,
            Arg::Long("dispatches") => options.dispatches = parser.value()?.parse()?,
            Arg::Long("rounds") => options.rounds = parser.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    compare_with_direct_sqlite(&options)
}

/// Returns a runtime with several OS threads, because most programs have such a runtime.
fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

async fn open(file: PathBuf) -> Result<SqliteMailbox> {
    Ok(SqliteMailbox::open(SqliteConfig::new(file)).await?)
}

fn compare_with_direct_sqlite(options: &Options) -> Result<()> {
    // For each of the three calls, the times of the mailbox, of writing the same rows, and of writing one row.
    let mut times_of_calls = [const { [const { Vec::new() }; 3] }; 3];
    for _ in 0..options.rounds {
        let folder = tempfile::tempdir_in(&options.folder)?;
        let mailbox = folder.path().join("mailbox.db");
        let mailbox_times = runtime()?.block_on(callers::measure(options, mailbox.clone()))?;
        let texts = direct_sqlite::MailboxTexts::read_from(&mailbox)?;
        let same_rows_times = direct_sqlite::measure_same_rows(options, &folder.path().join("rows.db"), &texts)?;
        let one_row_times = direct_sqlite::measure_one_row(options, &folder.path().join("row.db"), &texts)?;
        for (call, times_of_call) in times_of_calls.iter_mut().enumerate() {
            let times_of_round = [mailbox_times, same_rows_times, one_row_times];
            for (measured_times, took) in times_of_call.iter_mut().zip(times_of_round) {
                measured_times.extend(took.get(call));
            }
        }
    }
    for (name, measured_times) in ["enqueue", "claim", "acknowledge"].into_iter().zip(times_of_calls) {
        let [mailbox_rate, same_rows_rate, one_row_rate] =
            measured_times.map(|took| options.dispatches as f64 / benches::median(took).as_secs_f64());
        let ratio = |limit: f64| (mailbox_rate / limit * 100.0).round() / 100.0;
        println!(
            "{}",
            json!({
                "call": name, "callers": options.callers, "per_second": mailbox_rate.round(),
                "same_rows": same_rows_rate.round(), "ratio": ratio(same_rows_rate),
                "one_row": one_row_rate.round(), "ratio_to_one_row": ratio(one_row_rate),
            })
        );
    }
    Ok(())
}
