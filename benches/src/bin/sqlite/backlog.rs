//! Calls beside many dispatches that wait on other threads, and the same in an empty mailbox.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use benches::{median, timed};
use serde_json::json;
use store_core::{ClaimRequest, MailboxStore, Settlement, Store};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox, Synchronous};

use crate::{
    Options,
    callers::{LEASE, mailbox, work},
};

/// How many dispatches one call enqueues to fill a mailbox.
const BATCH: usize = 1_000;
/// How often each call is made.
const SAMPLES: usize = 400;

pub(crate) fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    crate::runtime()?.block_on(async {
        let files = ["empty.db", "full.db"].map(|name| folder.path().join(name));
        let [_, full] = &files;
        fill(full, options.backlog).await?;
        let [empty, full] = files.map(crate::open);
        let [empty, full] = [empty.await?, full.await?];
        let mut taken = [const { [const { Vec::new() }; 2] }; 3];
        for sample in 0..SAMPLES {
            let mut sides = [(0, &empty), (1, &full)];
            // Which is first decides what the disk does meanwhile.
            sides.rotate_left(sample % 2);
            for (side, store) in sides {
                let times = turn(&*mailbox(store)?, sample).await?;
                for (taken, time) in taken.iter_mut().filter_map(|sides| sides.get_mut(side)).zip(times) {
                    taken.push(time);
                }
            }
        }
        for (name, taken) in ["enqueue", "claim", "acknowledge"].into_iter().zip(taken) {
            let [empty, full] = taken.map(median);
            let ratio = (full.as_secs_f64() / empty.as_secs_f64() * 100.0).round() / 100.0;
            println!(
                "{}",
                json!({ "call": name, "backlog": options.backlog, "empty_us": empty.as_micros(), "us": full.as_micros(), "ratio": ratio })
            );
        }
        empty.close().await?;
        full.close().await?;
        Ok(())
    })
}

/// Work on other threads, without waiting for the disk.
async fn fill(file: &Path, dispatches: usize) -> Result<()> {
    let mut config = SqliteConfig::new(file);
    (config.synchronous, config.allow_unsafe) = (Synchronous::Normal, true);
    let store = SqliteMailbox::open(config).await?;
    let mailbox = mailbox(&store)?;
    for first in (0..dispatches).step_by(BATCH) {
        let batch = (first..dispatches.min(first + BATCH)).map(|at| work(&format!("thread-{at}")));
        for answer in mailbox.enqueue(batch.collect::<Result<_>>()?).await? {
            answer?;
        }
    }
    store.close().await?;
    Ok(())
}

/// One dispatch comes before all that wait, is claimed and settled.
async fn turn(mailbox: &dyn MailboxStore, sample: usize) -> Result<[Duration; 3]> {
    let new = work(&format!("more-{sample}"))?.with_priority(0);
    let (enqueued, done) = timed(mailbox.enqueue(vec![new])).await;
    done?.pop().context("no answer")??;
    let (claimed, claims) = timed(mailbox.claim(ClaimRequest::new("bench".parse()?, LEASE))).await;
    let held = claims?.claimed.pop().context("nothing was claimed")?;
    let (settled, done) = timed(mailbox.settle(vec![(held.claim(), Settlement::Ack { result: None })])).await;
    done?.pop().context("no answer")??;
    Ok([enqueued, claimed, settled])
}
