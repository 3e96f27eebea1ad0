//! From the answer to an enqueue until another process, which waits, has claimed the dispatch.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use store_core::{ClaimRequest, Settlement, Store, TenantId};

use crate::{
    Options,
    callers::{LEASE, mailbox, work},
};

/// What a waiter has time for before the next dispatch comes.
const PAUSE: Duration = Duration::from_millis(30);

/// Microseconds since the host started, for all its processes.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

pub(crate) fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let file = folder.path().join("mailbox.db");
    let runtime = crate::runtime()?;
    let store = runtime.block_on(crate::open(file.clone()))?;
    let mailbox = mailbox(&store)?;
    let mut waiter = Command::new(std::env::current_exe()?).arg("wait").arg(&file).stdout(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(waiter.stdout.take().context("it says nothing")?).lines();
    let _open = said.next().context("it has ended")??;
    let mut took = Vec::new();
    for at in 0..options.wakes {
        std::thread::sleep(PAUSE);
        runtime.block_on(mailbox.enqueue(vec![work(&format!("thread-{at}"))?]))?.pop().context("no answer")??;
        let enqueued = now();
        let claimed: i64 = said.next().context("it has ended")??.parse()?;
        took.push((claimed - enqueued).max(0));
    }
    waiter.kill()?;
    waiter.wait()?;
    runtime.block_on(store.close())?;
    took.sort_unstable();
    let [middle, most] = [took.get(took.len() / 2), took.last()].map(|time| time.copied().unwrap_or_default());
    println!("{}", json!({ "wakes": took.len(), "claimed_after_us": middle, "at_most_us": most }));
    Ok(())
}

/// Waits for work, and says when it has claimed some, until it is killed.
pub(crate) fn wait(file: &Path) -> Result<()> {
    crate::runtime()?.block_on(async {
        let store = crate::open(file.to_owned()).await?;
        let wake_ups = store.tenant(&TenantId::default_tenant())?.wake_ups.context("nothing wakes")?;
        let mailbox = mailbox(&store)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "open")?;
        loop {
            wake_ups.wait(Duration::from_mins(1)).await?;
            let request = ClaimRequest::new("waiter".parse()?, LEASE);
            while let Some(held) = mailbox.claim(request.clone()).await?.claimed.pop() {
                writeln!(out, "{}", now())?;
                mailbox
                    .settle(vec![(held.claim(), Settlement::Ack { result: None })])
                    .await?
                    .pop()
                    .context("no answer")??;
            }
        }
    })
}
