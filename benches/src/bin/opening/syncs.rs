//! Commits per second, each synced, as ratios to a bare loop that appends 4 KiB and syncs.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use benches::message;
use serde_json::{Map, Value, json};
use store_core::{Commit, CommitCoordinator, CommitKey, Store, ThreadId};
use store_file::{FileConfig, FileStore};

use crate::{Options, opened::commits};

/// How often each loop runs, in turns with the others.
const ROUNDS: usize = 3;
const MANY: usize = 64;

pub(crate) fn measure(options: &Options) -> Result<Value> {
    let folder = tempfile::tempdir_in(&options.folder)?;
    let store = FileStore::open(folder.path().join("root"), FileConfig::default())?;
    let commits = commits(&store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let seconds = Duration::from_secs(options.seconds);
    let mut found: [Vec<f64>; 5] = Default::default();
    for round in 0..ROUNDS {
        let rate = |count: u64| Ok::<_, anyhow::Error>(f64::from(u32::try_from(count)?) / seconds.as_secs_f64());
        let rates = [
            rate(bare_loops(folder.path(), 1, seconds)?)?,
            rate(bare_loops(folder.path(), MANY, seconds)?)?,
            rate(runtime.block_on(committers(&commits, 1, seconds, |_| format!("one-{round}")))?)?,
            rate(runtime.block_on(committers(&commits, MANY, seconds, |_| format!("same-{round}")))?)?,
            rate(runtime.block_on(committers(&commits, MANY, seconds, |n| format!("own-{round}-{n}")))?)?,
        ];
        found.iter_mut().zip(rates).for_each(|(all, rate)| all.push(rate));
    }
    runtime.block_on(store.close())?;
    let [bare, bare_many, one, same, own] = found.map(middle);
    let mut figures = Map::new();
    let mut add = |name: &str, rate: f64| figures.insert(name.to_owned(), json!((rate * 100.0).round() / 100.0));
    for (name, rate) in [
        ("bare loop: 4 KiB and fdatasync, per second", bare),
        ("64 bare loops, per second", bare_many),
        ("1 committer, per second", one),
        ("64 committers on one thread, per second", same),
        ("64 committers on 64 threads, per second", own),
    ] {
        add(name, rate.round());
    }
    add("1 committer / bare loop", one / bare);
    add("64 on one thread / bare loop", same / bare);
    add("64 on 64 threads / bare loop", own / bare);
    add("64 on 64 threads / 64 bare loops", own / bare_many);
    Ok(Value::Object(figures))
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// How often `count` loops append and sync, each a file of its own.
fn bare_loops(folder: &Path, count: usize, during: Duration) -> Result<u64> {
    let loops = |number: usize| {
        let path = folder.join(format!("bare-{number}"));
        std::thread::spawn(move || -> Result<u64> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            let (start, mut syncs) = (Instant::now(), 0);
            while start.elapsed() < during {
                file.write_all(&[b'x'; 4096])?;
                file.sync_data()?;
                syncs += 1;
            }
            Ok(syncs)
        })
    };
    let running: Vec<_> = (0..count).map(loops).collect();
    running.into_iter().map(|thread| thread.join().ok().context("a loop panicked")?).sum()
}

/// How often `count` committers commit, each to the thread that `thread` names, and wait for the answer.
async fn committers(
    commits: &Arc<dyn CommitCoordinator>,
    count: usize,
    during: Duration,
    thread: impl Fn(usize) -> String,
) -> Result<u64> {
    let mut running = Vec::new();
    for number in 0..count {
        let (id, commits) = (ThreadId::new(thread(number))?, Arc::clone(commits));
        running.push(tokio::spawn(async move {
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < during {
                let key = CommitKey::new(format!("{number}-{done}"))?;
                let _ = commits.commit(Commit::new(id.clone()).with_key(key).entry(message(done))).await?;
                done += 1;
            }
            Ok::<u64, store_core::Error>(done)
        }));
    }
    let mut all = 0;
    for committer in running {
        all += committer.await??;
    }
    Ok(all)
}
