//! Messages that say nothing any more, and payloads that nobody needs: they are removed when everybody who may be
//! behind has read what came after them.

#![expect(clippy::disallowed_methods, reason = "how long something is garbage is no matter of store time")]

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use store_core::{DispatchId, Result, TenantId};

use crate::{codec::Datum, key::Key, log::Log, mailbox::free};

/// How long garbage is kept: longer than anybody looks for a decision of his own, or reads a payload that he was told
/// of.
pub(crate) const KEPT: Duration = Duration::from_secs(90);
/// How often it is collected, at least: much more often than others look.
const ROUND: Duration = Duration::from_secs(5);
/// How many removals are on their way at once.
const TOGETHER: usize = 16;

#[derive(Debug)]
enum Waste {
    /// A message of the log, with what it is about.
    Message(Option<Key>, u64),
    Datum(Datum),
    Id(TenantId, u64, DispatchId),
}

/// What one process made garbage, in order, with the time from which on it is to be removed.
type Queue = VecDeque<(Instant, Waste)>;

/// What is to be removed: by who made it so, and by others if that process has gone.
#[derive(Debug)]
pub(crate) struct Garbage {
    process: String,
    kept: Duration,
    /// Not the same in any two processes, so that one of them is the first.
    kept_of_others: Duration,
    by_maker: Mutex<HashMap<String, Queue>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Garbage {
    pub(crate) fn new(process: &str, kept: Duration) -> Self {
        let mut hasher = DefaultHasher::new();
        process.hash(&mut hasher);
        let percent = u32::try_from(hasher.finish() % 100).unwrap_or_default();
        let kept_of_others = kept * 2 + kept * percent / 100;
        Self { process: process.to_owned(), kept, kept_of_others, by_maker: Mutex::default() }
    }

    /// Notes messages about something that say nothing any more since this process wrote another one.
    pub(crate) fn add(&self, maker: &str, key: Option<&Key>, messages: Vec<u64>) {
        self.put(maker, messages.into_iter().map(|message| Waste::Message(key.cloned(), message)));
    }

    /// Notes payloads that nobody needs any more.
    pub(crate) fn add_data(&self, maker: &str, data: Vec<Datum>) {
        self.put(maker, data.into_iter().map(Waste::Datum));
    }

    /// Notes ids that nothing stands under any more.
    pub(crate) fn add_ids(&self, tenant: &TenantId, incarnation: u64, ids: Vec<DispatchId>) {
        self.put(&self.process, ids.into_iter().map(|id| Waste::Id(tenant.clone(), incarnation, id)));
    }

    fn put(&self, maker: &str, waste: impl Iterator<Item = Waste>) {
        let mut waste = waste.peekable();
        if waste.peek().is_some() {
            let from = Instant::now() + if maker == self.process { self.kept } else { self.kept_of_others };
            let waste = waste.map(|waste| (from, waste));
            let mut by_maker = lock(&self.by_maker);
            match by_maker.get_mut(maker) {
                Some(queue) => queue.extend(waste),
                None => drop(by_maker.insert(maker.to_owned(), waste.collect())),
            }
        }
    }

    /// What is to be removed by now, by its makers.
    fn take(&self, until: Instant) -> Vec<(String, Vec<Waste>)> {
        let mut by_maker = lock(&self.by_maker);
        let mut taken = Vec::new();
        for (maker, queue) in by_maker.iter_mut() {
            let due = queue.partition_point(|(from, _)| *from <= until);
            if due > 0 {
                taken.push((maker.clone(), queue.drain(..due).map(|(_, waste)| waste).collect()));
            }
        }
        by_maker.retain(|_, queue| !queue.is_empty());
        taken
    }
}

/// Removes garbage, until the store is closed. What cannot be removed is garbage for who opens the store next.
pub(crate) async fn collect(log: Weak<Log>) {
    loop {
        let Some(round) = log.upgrade().map(|log| ROUND.min(log.garbage.kept / 4)) else { return };
        tokio::time::sleep(round).await;
        let Some(log) = log.upgrade() else { return };
        for (maker, waste) in log.garbage.take(Instant::now()) {
            // Its maker removes it in this order: without the last of it all of it is gone.
            if maker == log.garbage.process || is_there(&log, waste.last()).await {
                remove_all(&log, &maker, waste).await;
            } else {
                waste.into_iter().for_each(|waste| forget(&log, &maker, &waste));
            }
        }
    }
}

/// Whether something is still there, as far as anybody knows.
async fn is_there(log: &Log, waste: Option<&Waste>) -> bool {
    let (connection, keys) = (&log.connection, &log.connection.keys);
    let found = match waste {
        Some(Waste::Message(_, sequence)) => connection.load(&keys.log(), *sequence).await,
        Some(Waste::Datum(datum)) => connection.load(&keys.data(), datum.sequence).await,
        Some(Waste::Id(..)) | None => return true,
    };
    !matches!(found, Ok(None))
}

async fn remove_all(log: &Arc<Log>, maker: &str, waste: Vec<Waste>) {
    let (mut ids, mut single) = (HashMap::<_, Vec<_>>::new(), Vec::new());
    for waste in waste {
        match waste {
            Waste::Id(tenant, incarnation, id) => ids.entry((tenant, incarnation)).or_default().push(id),
            waste => single.push(waste),
        }
    }
    let removals = stream::iter(single).map(|waste| remove(log, maker, waste));
    removals.buffer_unordered(TOGETHER).for_each(|_| async {}).await;
    for ((tenant, incarnation), ids) in ids {
        // What cannot be given free now is when the store is opened next.
        let _later = free(log, &tenant, incarnation, &ids).await;
    }
}

async fn remove(log: &Log, maker: &str, waste: Waste) -> Result<()> {
    let (connection, keys) = (&log.connection, &log.connection.keys);
    match &waste {
        Waste::Message(_, sequence) => connection.remove(&keys.log(), *sequence).await?,
        Waste::Datum(datum) => connection.remove(&keys.data(), datum.sequence).await?,
        Waste::Id(..) => {}
    }
    forget(log, maker, &waste);
    Ok(())
}

/// Notes that something was removed, and what is garbage for that reason.
fn forget(log: &Log, maker: &str, waste: &Waste) {
    if let Waste::Message(key, sequence) = waste
        && let Some(Key::Thread(tenant, incarnation, thread)) = key
    {
        let more = match log.view_mut().life_mut(tenant, *incarnation) {
            Some(found) => found.mailbox.removed(thread, *sequence),
            None => Vec::new(),
        };
        log.garbage.add(maker, key.as_ref(), more);
    }
}
