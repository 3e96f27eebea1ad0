//! Removes superseded messages of the log, and payloads and results that are no longer needed. Each is removed only
//! after a delay. In the meantime, processes that lag behind can read the newer messages. After that they no longer
//! need what is removed.

#![expect(clippy::disallowed_methods, reason = "the age of garbage is not measured in store time")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use store_core::{DispatchId, Result, TenantId};

use crate::{codec::DataRef, log::Log, mailbox::free_ids, server_names::LogSubject};

/// How long garbage is kept. A process that lost the answer to a decision searches the log for that decision. A process
/// that reads a message loads the payloads and results to which the message refers. Both take less time than this.
pub(crate) const GARBAGE_RETENTION: Duration = Duration::from_secs(90);
/// The longest interval between two collections.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(5);
/// The largest number of concurrent removals.
const MAX_CONCURRENCY: usize = 16;

/// Something to be removed.
#[derive(Debug)]
enum GarbageItem {
    /// A message of the log: its subject and its sequence number. `None` for a subject that this release does not know.
    Message(Option<LogSubject>, u64),
    /// A message of the data stream.
    DataRef(DataRef),
    /// The message that reserves an id in an incarnation of a tenant.
    Id(TenantId, u64, DispatchId),
}

/// The process that removes an item first: the process that wrote the message by which the item was superseded. If the
/// item still exists later, the other processes remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstRemover {
    ThisProcess,
    OtherProcess,
}

/// The items to be removed, each with the instant from which it may be removed.
#[derive(Debug)]
pub(crate) struct Garbage {
    retention: Duration,
    /// Items that this process removes first.
    own_items: Mutex<VecDeque<(Instant, GarbageItem)>>,
    /// Items that another process removes first.
    other_items: Mutex<VecDeque<(Instant, GarbageItem)>>,
    /// Whether items were taken that are being removed now.
    is_collecting: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Garbage {
    pub(crate) fn new(retention: Duration) -> Self {
        Self {
            retention,
            own_items: Mutex::default(),
            other_items: Mutex::default(),
            is_collecting: AtomicBool::new(false),
        }
    }

    /// Notes superseded messages on a subject.
    pub(crate) fn add_messages(
        &self,
        log_subject: Option<&LogSubject>,
        messages: Vec<u64>,
        first_remover: FirstRemover,
    ) {
        let items = messages.into_iter().map(|message| GarbageItem::Message(log_subject.cloned(), message));
        self.put(items, first_remover);
    }

    /// Notes payloads and results that are no longer needed.
    pub(crate) fn add_data(&self, data: Vec<DataRef>, first_remover: FirstRemover) {
        self.put(data.into_iter().map(GarbageItem::DataRef), first_remover);
    }

    /// Notes ids under which no dispatch exists any more.
    pub(crate) fn add_ids(&self, tenant: &TenantId, incarnation: u64, ids: Vec<DispatchId>) {
        let items = ids.into_iter().map(|id| GarbageItem::Id(tenant.clone(), incarnation, id));
        self.put(items, FirstRemover::ThisProcess);
    }

    /// Adds items to `own_items` or to `other_items`.
    fn put(&self, items: impl Iterator<Item = GarbageItem>, first_remover: FirstRemover) {
        let mut items = items.peekable();
        if items.peek().is_some() {
            let (queue, retention) = match first_remover {
                FirstRemover::ThisProcess => (&self.own_items, self.retention),
                FirstRemover::OtherProcess => (&self.other_items, self.retention * 2),
            };
            let due_at = Instant::now() + retention;
            lock(queue).extend(items.map(|item| (due_at, item)));
        }
    }

    fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::SeqCst)
    }

    /// Returns whether there is something to be removed that was noted at this instant or before.
    fn has_items_of(&self, noted: Instant) -> bool {
        [(&self.own_items, self.retention), (&self.other_items, self.retention * 2)]
            .into_iter()
            .any(|(queue, kept)| lock(queue).front().is_some_and(|(due_at, _)| *due_at <= noted + kept))
    }

    /// Takes the items that may be removed at this instant.
    fn take_due(&self, until: Instant) -> Vec<GarbageItem> {
        self.is_collecting.store(true, Ordering::SeqCst);
        let mut due_items = Vec::new();
        for queue in [&self.own_items, &self.other_items] {
            let mut queue = lock(queue);
            while queue.front().is_some_and(|(due_at, _)| *due_at <= until) {
                due_items.extend(queue.pop_front().map(|(_, item)| item));
            }
        }
        due_items
    }
}

/// How often it is looked whether garbage was removed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until what is garbage now was removed, and what became garbage by that. `go_on` is asked each time it is
/// looked. Returns whether it is gone.
pub(crate) async fn wait_until_removed(log: &Arc<Log>, go_on: impl Fn(u64) -> bool) -> Result<bool> {
    log.catch_up().await?;
    let mut looks = 0;
    // Removing a message may make an earlier one unneeded, and the collection that takes an item removes it later.
    for _ in 0..3 {
        let begun = Instant::now();
        while log.garbage.has_items_of(begun) || log.garbage.is_collecting() {
            looks += 1;
            if !go_on(looks) {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
    Ok(true)
}

/// Removes garbage until the store is closed. Garbage that cannot be removed is found again when the store is next
/// opened.
pub(crate) async fn collect(log: Weak<Log>) {
    loop {
        let Some(interval) = log.upgrade().map(|log| COLLECTION_INTERVAL.min(log.garbage.retention)) else { return };
        tokio::time::sleep(interval).await;
        let Some(log) = log.upgrade() else { return };
        let mut items = log.garbage.take_due(Instant::now());
        // An error may mean that the servers lost a part of the log. The sequence numbers may then belong to different
        // messages, so nothing is removed.
        if !items.is_empty() && log.catch_up().await.is_err() {
            items.clear();
        }
        let (mut ids, mut messages) = (HashMap::<_, Vec<_>>::new(), Vec::new());
        for item in items {
            match item {
                GarbageItem::Id(tenant, incarnation, id) => ids.entry((tenant, incarnation)).or_default().push(id),
                item => messages.push(item),
            }
        }
        let removals = stream::iter(messages).map(|item| remove(Arc::clone(&log), item));
        removals.buffer_unordered(MAX_CONCURRENCY).for_each(|_| async {}).await;
        for ((tenant, incarnation), ids) in ids {
            // An id that cannot be freed now is freed when the store is next opened.
            let _result = free_ids(&log, &tenant, incarnation, &ids).await;
        }
        log.garbage.is_collecting.store(false, Ordering::SeqCst);
    }
}

async fn remove(log: Arc<Log>, item: GarbageItem) -> Result<()> {
    let (connection, names) = (&log.connection, &log.connection.names);
    match item {
        GarbageItem::Id(..) => Ok(()),
        GarbageItem::DataRef(data_ref) => connection.remove(&names.data_stream(), data_ref.sequence).await,
        GarbageItem::Message(log_subject, sequence) => {
            connection.remove(&names.log_stream(), sequence).await?;
            if let Some(LogSubject::Thread(tenant, incarnation, thread)) = &log_subject {
                let superseded_messages = match log.view_mut().tenant_state_mut(tenant, *incarnation) {
                    Some(tenant_state) => tenant_state.mailbox.note_removed(thread, sequence),
                    None => Vec::new(),
                };
                log.garbage.add_messages(log_subject.as_ref(), superseded_messages, FirstRemover::ThisProcess);
            }
            Ok(())
        }
    }
}
