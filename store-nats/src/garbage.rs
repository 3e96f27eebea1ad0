//! Superseded messages, and payloads and results that are no longer needed. They are removed after a delay, in which
//! processes that lag behind read the messages that superseded them.

#![expect(clippy::disallowed_methods, reason = "the age of garbage is not measured in store time")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use store_core::{DispatchId, Result, TenantId};

use crate::{codec::DataRef, key::Key, log::Log, mailbox::free_ids};

/// How long garbage is kept. This is longer than a process searches the log for its own decision, and longer than it
/// takes to load a payload to which a message refers.
pub(crate) const GARBAGE_RETENTION: Duration = Duration::from_secs(90);
/// The longest interval between two collections.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(5);
/// The largest number of concurrent removals.
const MAX_CONCURRENCY: usize = 16;

/// Something to be removed.
#[derive(Debug)]
enum GarbageItem {
    /// A message of the log, with its key.
    Message(Option<Key>, u64),
    DataRef(DataRef),
    Id(TenantId, u64, DispatchId),
}

/// The items to be removed, each with the time from which it may be removed.
#[derive(Debug)]
pub(crate) struct Garbage {
    retention: Duration,
    /// What messages of this process superseded.
    own: Mutex<VecDeque<(Instant, GarbageItem)>>,
    /// What messages of other processes superseded.
    others: Mutex<VecDeque<(Instant, GarbageItem)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Garbage {
    pub(crate) fn new(retention: Duration) -> Self {
        Self { retention, own: Mutex::default(), others: Mutex::default() }
    }

    /// Notes superseded messages on the subject of a key. The process that superseded them removes them. If they still
    /// exist later, other processes remove them.
    pub(crate) fn add(&self, key: Option<&Key>, messages: Vec<u64>, is_own: bool) {
        self.put(messages.into_iter().map(|message| GarbageItem::Message(key.cloned(), message)), is_own);
    }

    /// Notes payloads that are no longer needed.
    pub(crate) fn add_data(&self, data: Vec<DataRef>, is_own: bool) {
        self.put(data.into_iter().map(GarbageItem::DataRef), is_own);
    }

    /// Notes ids under which no dispatch exists any more.
    pub(crate) fn add_ids(&self, tenant: &TenantId, incarnation: u64, ids: Vec<DispatchId>) {
        self.put(ids.into_iter().map(|id| GarbageItem::Id(tenant.clone(), incarnation, id)), true);
    }

    fn put(&self, waste: impl Iterator<Item = GarbageItem>, is_own: bool) {
        let mut waste = waste.peekable();
        if waste.peek().is_some() {
            let (queue, retention) =
                if is_own { (&self.own, self.retention) } else { (&self.others, self.retention * 2) };
            let from = Instant::now() + retention;
            lock(queue).extend(waste.map(|waste| (from, waste)));
        }
    }

    fn take(&self, until: Instant) -> Vec<GarbageItem> {
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

/// Removes garbage until the store is closed. Garbage that cannot be removed is found again when the store is next
/// opened.
pub(crate) async fn collect(log: Weak<Log>) {
    loop {
        let Some(round) = log.upgrade().map(|log| COLLECTION_INTERVAL.min(log.garbage.retention)) else { return };
        tokio::time::sleep(round).await;
        let Some(log) = log.upgrade() else { return };
        let mut waste = log.garbage.take(Instant::now());
        // If a part of the log is lost, a sequence number may belong to a different message.
        if !waste.is_empty() && log.catch_up().await.is_err() {
            waste.clear();
        }
        let (mut ids, mut single) = (HashMap::<_, Vec<_>>::new(), Vec::new());
        for waste in waste {
            match waste {
                GarbageItem::Id(tenant, incarnation, id) => ids.entry((tenant, incarnation)).or_default().push(id),
                waste => single.push(waste),
            }
        }
        let removals = stream::iter(single).map(|waste| remove(Arc::clone(&log), waste));
        removals.buffer_unordered(MAX_CONCURRENCY).for_each(|_| async {}).await;
        for ((tenant, incarnation), ids) in ids {
            // An id that cannot be freed now is freed when the store is next opened.
            let _later = free_ids(&log, &tenant, incarnation, &ids).await;
        }
    }
}

async fn remove(log: Arc<Log>, waste: GarbageItem) -> Result<()> {
    let (connection, keys) = (&log.connection, &log.connection.keys);
    match waste {
        GarbageItem::Id(..) => Ok(()),
        GarbageItem::DataRef(data_ref) => connection.remove(&keys.data_stream(), data_ref.sequence).await,
        GarbageItem::Message(key, sequence) => {
            connection.remove(&keys.log_stream(), sequence).await?;
            if let Some(Key::Thread(tenant, incarnation, thread)) = &key {
                let more = match log.view_mut().tenant_state_mut(tenant, *incarnation) {
                    Some(found) => found.mailbox.note_removed(thread, sequence),
                    None => Vec::new(),
                };
                log.garbage.add(key.as_ref(), more, true);
            }
            Ok(())
        }
    }
}
