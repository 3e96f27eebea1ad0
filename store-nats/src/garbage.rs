//! Messages that say nothing any more, and payloads that nobody needs: they are removed when everybody who may be behind
//! has read what came after them.

#![expect(clippy::disallowed_methods, reason = "how long something is garbage is no matter of store time")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use store_core::Result;

use crate::{codec::Datum, key::Key, log::Log};

/// How long garbage is kept: longer than anybody looks for a decision of his own, or reads a payload that he was told of.
pub(crate) const KEPT: Duration = Duration::from_secs(90);
/// How often it is collected, at least.
const ROUND: Duration = Duration::from_secs(5);
/// How many removals are on their way at once.
const TOGETHER: usize = 16;

#[derive(Debug)]
enum Waste {
    /// A message of the log, with what it is about.
    Message(Option<Key>, u64),
    Datum(Datum),
}

/// What is to be removed, with the time from which on.
#[derive(Debug)]
pub(crate) struct Garbage {
    kept: Duration,
    own: Mutex<VecDeque<(Instant, Waste)>>,
    others: Mutex<VecDeque<(Instant, Waste)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Garbage {
    pub(crate) fn new(kept: Duration) -> Self {
        Self { kept, own: Mutex::default(), others: Mutex::default() }
    }

    /// Notes what a message made garbage of. Whoever wrote it removes that; others do if it is still there later.
    pub(crate) fn add(&self, key: Option<Key>, messages: Vec<u64>, data: Vec<Datum>, is_own: bool) {
        if messages.is_empty() && data.is_empty() {
            return;
        }
        let messages = messages.into_iter().map(|message| Waste::Message(key.clone(), message));
        let waste = messages.chain(data.into_iter().map(Waste::Datum));
        let (queue, kept) = if is_own { (&self.own, self.kept) } else { (&self.others, self.kept * 2) };
        let from = Instant::now() + kept;
        lock(queue).extend(waste.map(|waste| (from, waste)));
    }

    fn take(&self, until: Instant) -> Vec<Waste> {
        let mut taken = Vec::new();
        for queue in [&self.own, &self.others] {
            let mut queue = lock(queue);
            while queue.front().is_some_and(|(from, _)| *from <= until) {
                taken.extend(queue.pop_front().map(|(_, waste)| waste));
            }
        }
        taken
    }
}

/// Removes garbage, until the store is closed. What cannot be removed is garbage for who opens the store next.
pub(crate) async fn collect(log: Weak<Log>) {
    loop {
        let Some(round) = log.upgrade().map(|log| ROUND.min(log.garbage.kept)) else { return };
        tokio::time::sleep(round).await;
        let Some(log) = log.upgrade() else { return };
        let waste = log.garbage.take(Instant::now());
        let removals = stream::iter(waste).map(|waste| remove(Arc::clone(&log), waste));
        removals.buffer_unordered(TOGETHER).for_each(|_| async {}).await;
    }
}

async fn remove(log: Arc<Log>, waste: Waste) -> Result<()> {
    let (connection, keys) = (&log.connection, &log.connection.keys);
    match waste {
        Waste::Datum(datum) => connection.remove(&keys.data(), datum.sequence).await,
        Waste::Message(key, sequence) => {
            connection.remove(&keys.log(), sequence).await?;
            if let Some(Key::Thread(tenant, incarnation, thread)) = &key {
                let more = match log.view_mut().life_mut(tenant, *incarnation) {
                    Some(found) => found.mailbox.removed(thread, sequence),
                    None => Vec::new(),
                };
                log.garbage.add(key, more, Vec::new(), true);
            }
            Ok(())
        }
    }
}
