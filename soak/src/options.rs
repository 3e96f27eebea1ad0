//! The options of the command line.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
Runs worker processes that are killed, stopped until their leases have expired, and started again at random, while
their threads are interrupted. Each process logs what it does. At the end the logs are compared with the store.

Usage: cargo run --release -p soak -- --store URL [OPTIONS]

Options:
  --store URL         the store of the threads and the mailbox; `sqlite:PATH` has only a mailbox
  --mailbox URL       another store for the mailbox
  --dispatches N      how many dispatches are enqueued [default: 200000]
  --threads N         how many threads they belong to [default: 1000]
  --workers N         how many worker processes run, with 8 handlers each [default: 8]
  --lease MS          the lease of their claims [default: 2000]
  --kill-every MS     the mean time until a worker is killed or stopped [default: 400]
  --skew LIBRARY      the path of `libfaketime`, which gives each worker a different clock; only for stores on a server
  --folder PATH       an empty folder for the logs [default: a temporary one, which is kept after a failure]
  --seed N            the seed of the random faults; a run is not fully repeatable [default: 1]
";

/// The URLs of the stores.
#[derive(Debug, Clone)]
pub(crate) struct StoreUrls {
    pub(crate) store: String,
    pub(crate) mailbox: Option<String>,
}

/// The options of a run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) urls: StoreUrls,
    pub(crate) dispatches: u32,
    pub(crate) threads: u32,
    pub(crate) workers: usize,
    pub(crate) lease: Duration,
    pub(crate) mean_fault_interval: Duration,
    pub(crate) faketime_library: Option<PathBuf>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) seed: u64,
}

impl Options {
    /// Reads the options of a command line. Returns `None` if it asks for the help.
    pub(crate) fn read(mut parser: Parser) -> Result<Option<Self>> {
        let (mut store, mut mailbox, mut folder, mut faketime_library) = (None, None, None, None);
        let (mut dispatches, mut threads, mut workers, mut seed) = (200_000, 1_000, 8, 1);
        let (mut lease, mut mean_fault_interval) = (2_000, 400);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("store") => store = Some(parser.value()?.parse()?),
                Arg::Long("mailbox") => mailbox = Some(parser.value()?.parse()?),
                Arg::Long("dispatches") => dispatches = parser.value()?.parse()?,
                Arg::Long("threads") => threads = parser.value()?.parse()?,
                Arg::Long("workers") => workers = parser.value()?.parse()?,
                Arg::Long("lease") => lease = parser.value()?.parse()?,
                Arg::Long("kill-every") => mean_fault_interval = parser.value()?.parse()?,
                Arg::Long("skew") => faketime_library = Some(parser.value()?.into()),
                Arg::Long("folder") => folder = Some(parser.value()?.into()),
                Arg::Long("seed") => seed = parser.value()?.parse()?,
                Arg::Long("help") | Arg::Short('h') => return Ok(None),
                _ => return Err(arg.unexpected().into()),
            }
        }
        let store = store.context("no store is given: use `--store URL`")?;
        let [lease, mean_fault_interval] = [lease, mean_fault_interval].map(Duration::from_millis);
        Ok(Some(Self {
            urls: StoreUrls { store, mailbox },
            dispatches,
            threads,
            workers,
            lease,
            mean_fault_interval,
            faketime_library,
            folder,
            seed,
        }))
    }
}
