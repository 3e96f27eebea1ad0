//! Measures how soon a process receives what another process wrote: an event that it subscribes to (EV-21), a change of
//! config that it watches (CF-9), or a dispatch that it waits for (LV-9).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod receive;

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use agentstore::{
    AppendEvents, DocumentExpect, IdSource, Json, NewDispatch, NewEvent, Scope, Stores, TenantId, TenantStores,
    ThreadId, UuidSource,
    layers::{
        LayerStore,
        config::{ConfigLayer, ConfigName, ConfigStoreExt},
    },
};
use anyhow::{Context, Result};
use lexopt::{Arg, Parser, ValueExt};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::receive::run_receiver;

const HELP: &str = "\
Measures how long it takes from the answer to a write until another process receives what was written: an event that the
other process subscribes to, a change of config that it watches, or a dispatch that it waits for and claims. These are
three measurements. A measurement is left out if the store does not support it, or if a second process cannot open the store for it.

Usage: cargo run --release -p benches --bin news -- [OPTIONS] URL

Options:
  --times N   the number of writes in each measurement [default: 200]
";

/// The pause before each write. In this time, the other process finishes its work for the previous write.
const PAUSE: Duration = Duration::from_millis(30);

/// What the other process waits for. There is one measurement for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AwaitedWrite {
    Events,
    Config,
    Work,
}

impl AwaitedWrite {
    const ALL: [Self; 3] = [Self::Events, Self::Config, Self::Work];

    const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Config => "config",
            Self::Work => "work",
        }
    }

    fn is_supported(self, tenant_stores: &TenantStores) -> bool {
        match self {
            Self::Events => tenant_stores.events.is_some(),
            Self::Config => tenant_stores.documents.is_some(),
            Self::Work => tenant_stores.mailbox.is_some() && tenant_stores.wake_ups.is_some(),
        }
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
    let (mut url, mut times) = (None, 200);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("times") => times = parser.value()?.parse()?,
            // This program starts itself with this option, as the receiving process.
            Arg::Long("receive") => {
                let [awaited, url, tenant] = [parser.value()?, parser.value()?, parser.value()?].map(ValueExt::string);
                let (awaited, url, tenant) = (awaited?, url?, tenant?);
                let awaited = AwaitedWrite::ALL
                    .into_iter()
                    .find(|known| known.name() == awaited)
                    .context("no such measurement")?;
                return runtime()?.block_on(run_receiver(awaited, &url, TenantId::new(tenant)?));
            }
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            Arg::Value(value) if url.is_none() => url = Some(value.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let url = url.context("no store is given; see --help")?;
    let runtime = runtime()?;
    let stores = runtime.block_on(agentstore::open(&url))?;
    let tenant = TenantId::new(format!("bench-{}", UuidSource.next_id()))?;
    for awaited in AwaitedWrite::ALL {
        // Only one process may open a root for writing. This process has opened it, so no other process can claim.
        let is_exclusive = awaited == AwaitedWrite::Work && url.starts_with("file:");
        if !is_exclusive && awaited.is_supported(&stores.tenant(&tenant)?) {
            measure(&runtime, (&stores, &url, &tenant), awaited, times)?;
        }
    }
    runtime.block_on(async {
        stores.store().delete_tenant(&tenant).await?;
        stores.close().await
    })?;
    Ok(())
}

/// Returns a runtime with several OS threads, because most programs have such a runtime.
fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Returns the microseconds since the host started. All processes of the host share this clock.
fn monotonic_micros() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Returns the config record that is changed.
fn measured_config() -> Result<ConfigName> {
    Ok(ConfigName::new("news", "record")?)
}

/// Returns the thread that all events and dispatches belong to.
fn measured_thread() -> Result<ThreadId> {
    Ok(ThreadId::new("news")?)
}

fn measure(
    runtime: &Runtime,
    store_and_tenant: (&Stores, &str, &TenantId),
    awaited: AwaitedWrite,
    times: usize,
) -> Result<()> {
    let (stores, url, tenant) = store_and_tenant;
    let tenant_stores = stores.tenant(tenant)?;
    if awaited != AwaitedWrite::Work {
        // Because of this write, the tenant and the scope exist when the other process subscribes.
        runtime.block_on(write(awaited, &tenant_stores, "before"))?;
    }
    let mut receiver = ReceivingProcess::start(awaited, url, tenant)?;
    receiver.read_line()?;
    let mut delays = Vec::new();
    for number in 0..times {
        std::thread::sleep(PAUSE);
        runtime.block_on(write(awaited, &tenant_stores, &format!("n-{number}")))?;
        let write_time = monotonic_micros();
        delays.push((receiver.read_line()?.parse::<i64>()? - write_time).max(0));
    }
    drop(receiver);
    delays.sort_unstable();
    let percentile = |percent: usize| delays.get((delays.len() * percent / 100).min(delays.len().saturating_sub(1)));
    let [p50, p99, slowest] = [50, 99, 100].map(|percent| percentile(percent).copied().unwrap_or_default());
    println!("{}", json!({ "part": awaited.name(), "times": times, "p50_us": p50, "p99_us": p99, "max_us": slowest }));
    Ok(())
}

async fn write(awaited: AwaitedWrite, tenant_stores: &TenantStores, name: &str) -> Result<()> {
    match awaited {
        AwaitedWrite::Events => {
            let event = NewEvent::new(name.parse()?, [Scope::Thread(measured_thread()?)]);
            let events = tenant_stores.events.as_ref().context("the store has no events")?;
            events.append_events(AppendEvents::new([event])).await?;
        }
        AwaitedWrite::Config => {
            let config = ConfigLayer::new(LayerStore::new(tenant_stores)?);
            let _record = config.put_config(measured_config()?, Json::of(name)?, DocumentExpect::Any).await?;
        }
        AwaitedWrite::Work => {
            let mailbox = tenant_stores.mailbox.as_ref().context("the store has no mailbox")?;
            let work = NewDispatch::new(measured_thread()?, name.parse()?);
            mailbox.enqueue(vec![work]).await?.pop().context("the enqueue got no answer")??;
        }
    }
    Ok(())
}

/// The other process, which waits for writes. It is killed when this value is dropped.
struct ReceivingProcess {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl ReceivingProcess {
    fn start(awaited: AwaitedWrite, url: &str, tenant: &TenantId) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--receive", awaited.name(), url, tenant.as_str()])
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().context("the process has no output")?);
        Ok(Self { process, output })
    }

    fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "the other process has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for ReceivingProcess {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _ended = self.process.wait();
    }
}
