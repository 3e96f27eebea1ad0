//! Subscriptions within one process: how subscribers are told of new events, and the stream of events that they
//! read.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use async_trait::async_trait;
use futures_util::stream;

use super::{Event, EventStream, Scope};
use crate::{
    error::{Error, Result},
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard},
    time::Timestamp,
    waiters::Waiters,
};

/// The followers in one process, by the key that each of them follows. A follower is told when there was a change for
/// its key.
///
/// A backend notifies the followers of each scope to which events were appended, as soon as readers can see these
/// events. It ends the followers when their tenant or the store is closed.
///
/// ```
/// use store_core::{Scope, ThreadId, event::Followers};
///
/// # futures_util::FutureExt::now_or_never(async {
/// let followers = Followers::default();
/// let scope = Scope::Thread(ThreadId::new("t-1")?);
/// let mut changes = followers.follow(&scope);
/// followers.notify([&scope]);
/// changes.next().await?;
/// followers.end(|_| true);
/// assert!(changes.next().await.is_err());
/// # Ok::<(), store_core::Error>(())
/// # }).expect("it waits for nothing").unwrap();
/// ```
pub struct Followers<K = Scope> {
    followed_keys: Mutex<FollowedKeys<K>>,
}

struct FollowedKeys<K> {
    signals: HashMap<K, Arc<Signal>>,
    /// Once there are this many signals, those without followers are removed.
    cleanup_threshold: usize,
}

/// The state that all followers of one key share.
#[derive(Debug, Default)]
struct Signal {
    changes: AtomicU64,
    is_ended: AtomicBool,
    waiters: Waiters,
}

impl Signal {
    fn change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.waiters.wake(|_| true);
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.waiters.wake(|_| true);
    }
}

impl<K: Hash + Eq + Clone> Followers<K> {
    fn followed_keys(&self) -> MutexGuard<'_, FollowedKeys<K>> {
        self.followed_keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a follower of `key`. It is told of changes from now on, until it is ended.
    #[must_use]
    pub fn follow(&self, key: &K) -> ChangeFollower {
        let FollowedKeys { signals, cleanup_threshold } = &mut *self.followed_keys();
        if signals.len() >= *cleanup_threshold {
            signals.retain(|_, signal| Arc::strong_count(signal) > 1);
            *cleanup_threshold = 2 * signals.len() + 16;
        }
        let signal = Arc::clone(signals.entry(key.clone()).or_default());
        ChangeFollower { seen_changes: signal.changes.load(Ordering::SeqCst), signal }
    }

    /// Tells the followers of these keys that there was a change.
    pub fn notify<'a>(&self, changed_keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        let mut changed_keys = changed_keys.into_iter().peekable();
        if changed_keys.peek().is_none() {
            return;
        }
        let followed_keys = self.followed_keys();
        changed_keys.filter_map(|key| followed_keys.signals.get(key)).for_each(|signal| signal.change());
    }

    /// Tells all followers that there was a change. A backend calls this if it does not know what changed.
    pub fn notify_all(&self) {
        self.followed_keys().signals.values().for_each(|signal| signal.change());
    }

    /// Ends the followers of those keys for which `should_end` returns true.
    pub fn end(&self, should_end: impl Fn(&K) -> bool) {
        self.followed_keys().signals.retain(|key, signal| {
            let is_ended = should_end(key);
            if is_ended {
                signal.end();
            }
            !is_ended
        });
    }
}

impl<K> Default for Followers<K> {
    fn default() -> Self {
        Self { followed_keys: Mutex::new(FollowedKeys { signals: HashMap::new(), cleanup_threshold: 0 }) }
    }
}

impl<K> fmt::Debug for Followers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal_count = self.followed_keys.lock().unwrap_or_else(PoisonError::into_inner).signals.len();
        f.debug_tuple("Followers").field(&signal_count).finish()
    }
}

/// A follower of one key.
#[derive(Debug)]
pub struct ChangeFollower {
    signal: Arc<Signal>,
    seen_changes: u64,
}

impl ChangeFollower {
    /// Waits for a change that this follower has not seen yet.
    ///
    /// # Errors
    /// `Closed` once the follower has been ended.
    pub async fn next(&mut self) -> Result<()> {
        let waiter = self.signal.waiters.register(Timestamp::MAX);
        loop {
            if self.signal.is_ended.load(Ordering::SeqCst) {
                return Err(Error::closed());
            }
            let changes = self.signal.changes.load(Ordering::SeqCst);
            if std::mem::replace(&mut self.seen_changes, changes) != changes {
                return Ok(());
            }
            waiter.next_wake_up().await;
        }
    }

    /// Marks all changes so far as seen. This is called directly before events are read, so that a change during the
    /// read is noticed afterwards.
    fn mark_seen(&mut self) {
        self.seen_changes = self.signal.changes.load(Ordering::SeqCst);
    }
}

/// The source from which a subscription reads its events.
#[async_trait]
pub trait EventSource: Send + 'static {
    /// Reads the next events after the sequence number `after`.
    ///
    /// Returns the sequence number of the last event that was read, and the events that pass the filter. If there are
    /// no more events, the returned number is `after`.
    ///
    /// # Errors
    /// `CursorExpired` if the next events were trimmed (EV-24); any error of reading.
    async fn read_next(&mut self, after: u64) -> Result<(u64, VecDeque<Event>)>;

    /// Waits until there may be more events.
    ///
    /// # Errors
    /// `Closed` once the tenant or the store is closed.
    async fn wait(&mut self, changes: &mut ChangeFollower) -> Result<()> {
        changes.next().await
    }
}

/// Returns a stream of the events of a source after a sequence number: first those that are stored, then new ones.
///
/// The stream ends after an error.
pub fn event_stream(source: impl EventSource, after: u64, changes: ChangeFollower) -> EventStream {
    let state = StreamState { source, last_read_seq: after, buffered_events: VecDeque::new(), changes };
    Box::pin(stream::unfold(Some(state), async |state| {
        let mut state = state?;
        match state.next().await {
            Ok(event) => Some((Ok(event), Some(state))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// The state of a stream. The stream reads batches of events from its source, and waits while there are no more events.
struct StreamState<S> {
    source: S,
    /// The sequence number of the last event that was read from the source.
    last_read_seq: u64,
    /// Events that were read from the source and not returned yet.
    buffered_events: VecDeque<Event>,
    changes: ChangeFollower,
}

impl<S: EventSource> StreamState<S> {
    async fn next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.buffered_events.pop_front() {
                return Ok(event);
            }
            self.changes.mark_seen();
            let (last_read_seq, events) = self.source.read_next(self.last_read_seq).await?;
            if last_read_seq == self.last_read_seq {
                self.source.wait(&mut self.changes).await?;
            }
            (self.last_read_seq, self.buffered_events) = (last_read_seq, events);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::Followers;
    use crate::ErrorKind;

    #[tokio::test]
    async fn a_follower_is_woken_for_its_key_and_for_unknown_changes() {
        let followers = Followers::default();
        let (mut a, mut b) = (followers.follow(&"a"), followers.follow(&"b"));
        followers.notify([&"a"]);
        a.next().await.unwrap();
        assert!(a.next().now_or_never().is_none() && b.next().now_or_never().is_none());
        followers.notify_all();
        a.next().await.unwrap();
        b.next().await.unwrap();
        followers.notify([&"a"]);
        a.mark_seen();
        assert!(a.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn an_end_reaches_only_the_matching_followers() {
        let followers = Followers::default();
        let (mut a, mut b) = (followers.follow(&"a"), followers.follow(&"b"));
        followers.end(|key| *key == "a");
        assert_eq!(a.next().await.unwrap_err().kind(), ErrorKind::Closed);
        followers.notify([&"b"]);
        b.next().await.unwrap();
    }

    #[test]
    fn keys_without_followers_are_not_kept() {
        let followers = Followers::default();
        let live_followers: Vec<_> = (0..100).map(|key| followers.follow(&key)).collect();
        for key in 100..10_000 {
            let _dropped_at_once = followers.follow(&key);
        }
        // The number of signals stays below twice the number that is needed, plus 16.
        let signals = followers.followed_keys().signals.len();
        assert!((100..=216).contains(&signals), "{signals}");
        followers.notify([&0]);
        assert!(live_followers.into_iter().next().unwrap().next().now_or_never().is_some());
    }
}
