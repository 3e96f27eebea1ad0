//! A store whose time moves only when a scenario moves it, and helpers of the scenarios.

use std::{
    pin::pin,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use shuttle::{
    future::yield_now,
    rand::{Rng, thread_rng},
};
use store_core::{
    BlockKind, Body, ClaimRequest, CommitCoordinator, EntryQuery, Error, EventStore, IdSource, LiveChannel,
    MailboxStore, ManualClock, Message, NewDispatch, NewEntry, Settlement, Store, TenantId, ThreadId, Timestamp,
    WakeUps,
};
use store_memory::{MemoryConfig, MemoryStore};

/// The lease of every claim.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// A timeout so long that only a wake-up is expected to end the wait.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_hours(1);

/// The store of one schedule.
pub(crate) struct TestStore {
    pub(crate) clock: ManualClock,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) events: Arc<dyn EventStore>,
    pub(crate) mailbox: Arc<dyn MailboxStore>,
    pub(crate) wake_ups: Arc<dyn WakeUps>,
    pub(crate) live: Arc<dyn LiveChannel>,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000).unwrap());
        let config =
            MemoryConfig::default().with_clock(Arc::new(clock.clone())).with_ids(Arc::<CountingIds>::default());
        let store = MemoryStore::open(config).unwrap();
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        Self {
            clock,
            commits: stores.commits.clone().unwrap(),
            events: stores.events.clone().unwrap(),
            mailbox: stores.mailbox.clone().unwrap(),
            wake_ups: stores.wake_ups.clone().unwrap(),
            live: stores.live.clone().unwrap(),
        }
    }

    pub(crate) async fn enqueue(&self, dispatch: NewDispatch) {
        let _ = self.mailbox.enqueue(vec![dispatch]).await.unwrap().remove(0).unwrap();
    }

    /// Returns the texts of the entries of a thread, in order.
    pub(crate) async fn entry_texts(&self, thread: &ThreadId) -> Vec<String> {
        let entries = self.commits.threads().list_entries(thread, EntryQuery::all()).await.unwrap().items;
        let text = |body: &Body| match body {
            Body::Message(Message { blocks, .. }) => match &blocks[0].kind {
                BlockKind::Text(text) => text.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(entry.seq, index as u64 + 1);
        }
        entries.iter().map(|entry| text(&entry.body)).collect()
    }

    /// Returns the number of a thread's version, or 0 if there is no such thread.
    pub(crate) async fn version_number(&self, thread: &ThreadId) -> u64 {
        let thread = self.commits.threads().load_thread(thread).await.unwrap();
        thread.map_or(0, |thread| thread.version.number())
    }
}

/// A source of ids that are the same each time a schedule is repeated. The counter is an atomic of `std`, not of
/// Shuttle, so Shuttle does not switch to another task when an id is made.
#[derive(Debug, Default)]
struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> String {
        format!("id-{:06}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Parses an id of any kind.
pub(crate) fn id<T: FromStr<Err = Error>>(text: &str) -> T {
    text.parse().unwrap()
}

/// Returns a dispatch with this name as its id, for a thread.
pub(crate) fn new_dispatch(thread: &str, name: &str) -> NewDispatch {
    NewDispatch::new(id(thread), id("r")).with_id(id(name))
}

pub(crate) fn claim_request() -> ClaimRequest {
    ClaimRequest::new(id("w"), LEASE)
}

pub(crate) fn user_entry(text: &str) -> NewEntry {
    NewEntry::new(Message::user(text))
}

pub(crate) const fn ack() -> Settlement {
    Settlement::Ack { result: None }
}

/// Returns a random number below `bound`. It is the same each time a schedule is repeated.
pub(crate) fn random_below(bound: usize) -> usize {
    thread_rng().gen_range(0..bound)
}

/// Polls a future at most `times` times, lets other tasks run in between, and drops the future. Returns its output if
/// it has ended.
pub(crate) async fn poll_at_most<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        let poll = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        if let Poll::Ready(output) = poll {
            return Some(output);
        }
        yield_now().await;
    }
    None
}
