//! Layers: contracts that are written over documents and topics alone, so every backend that has these has them too.
//!
//! A layer loads documents, decides by a pure rule, and writes with expectations that fail if what it decided on has
//! changed meanwhile. Then it decides again, a bounded number of times ([`repeat_on_conflict`]). Each layer has
//! `record` (data), `rules` (pure decisions) and `store` (the contract, and its implementation).

pub mod audit;
pub mod config;
pub mod profile;
pub mod registry;

use std::{collections::BTreeSet, fmt, future::Future, sync::Arc};

use crate::{
    codec::sha256_hex,
    document::DocumentStore,
    error::{Detail, Error, ErrorKind, Result},
    event::{EventQuery, EventStore, Scope, Subscribe, Subscription, SubscriptionStart, TrimBefore, TrimRequest},
    id::{MAX_ID_BYTES, TopicId},
    page::{Cursor, MAX_PAGE, PageRequest},
    progress::Progress,
    store::TenantStores,
    time::Timestamp,
};

/// How often a layer decides again because another writer changed what it had read.
const MAX_CONFLICTS: u32 = 100;

/// What a layer is written over: the documents and the events of one tenant.
#[derive(Clone)]
pub struct LayerStore {
    /// The documents.
    pub documents: Arc<dyn DocumentStore>,
    /// The events, with topics.
    pub events: Arc<dyn EventStore>,
}

impl LayerStore {
    /// Takes the documents and the events of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if the store has no documents, and so no layers.
    pub fn new(stores: &TenantStores) -> Result<Self> {
        let unsupported = |operation| Error::new(Detail::Unsupported { operation });
        let documents = stores.documents.clone().ok_or_else(|| unsupported("documents"))?;
        let events = stores.events.clone().ok_or_else(|| unsupported("events"))?;
        Ok(Self { documents, events })
    }

    /// Removes the events of the topic `main` that are older than a time, from all topics that they are in.
    ///
    /// The other topics are trimmed before `main`, from which they are known. So a removal that was interrupted can be
    /// repeated. It may be stopped between two batches.
    ///
    /// # Errors
    /// The errors of [`trim_events`](crate::EventRetention::trim_events).
    pub async fn trim_topics(&self, main: &TopicId, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        let main_scope = Scope::Topic(main.clone());
        if request.dry_run {
            let trim = TrimRequest::new(main_scope, TrimBefore::Time(request.before)).dry();
            let trimmed = self.events.trim_events(trim).await?;
            return Ok(TrimmedFeed { removed: trimmed.events, stopped: false });
        }
        let (mut trimmed_topics, mut removed) = (BTreeSet::new(), 0);
        loop {
            // What was listed before is trimmed, so each page is the first one.
            let query = EventQuery::new(main_scope.clone()).with_page(PageRequest::first(MAX_PAGE));
            let page = self.events.list_events(query).await?;
            let old: Vec<_> = page.items.iter().filter(|event| event.created_at < request.before).collect();
            let Some(last) = old.last().and_then(|event| event.cursor(&main_scope)) else { break };
            for topic in old.iter().flat_map(|event| &event.topics).filter(|topic| *topic != main) {
                if trimmed_topics.insert(topic.clone()) {
                    let scope = Scope::Topic(topic.clone());
                    self.events.trim_events(TrimRequest::new(scope, TrimBefore::Time(request.before))).await?;
                }
            }
            let trim = TrimRequest::new(main_scope.clone(), TrimBefore::Cursor(last.clone()));
            removed += self.events.trim_events(trim).await?.events;
            if page.next.is_none() || old.len() < page.items.len() {
                break;
            }
            if !progress.advance(removed, None) {
                return Ok(TrimmedFeed { removed, stopped: true });
            }
        }
        Ok(TrimmedFeed { removed, stopped: false })
    }

    /// Subscribes to a topic after a position. No position stands for the first event that the topic ever had.
    ///
    /// # Errors
    /// `InvalidCursor`; `CursorExpired` if events after the position were trimmed.
    pub async fn subscribe_after(&self, topic: TopicId, after: Option<Cursor>) -> Result<Subscription> {
        let is_from_first = after.is_none();
        let scope = Scope::Topic(topic);
        let start = after.map_or(SubscriptionStart::First, SubscriptionStart::After);
        let subscription = self.events.subscribe(Subscribe::new(scope.clone(), start)).await?;
        // A subscription from the first stored event on begins after those that were trimmed.
        if is_from_first && subscription.started_after.is_some() {
            let floor = self.events.load_scope(&scope).await?.floor;
            return Err(Error::new(Detail::CursorExpired { floor }));
        }
        Ok(subscription)
    }
}

impl fmt::Debug for LayerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerStore").finish_non_exhaustive()
    }
}

/// Which events of a feed are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrimFeed {
    /// Events older than this time.
    pub before: Timestamp,
    /// Whether to report the number of events without removing them.
    pub dry_run: bool,
}

impl TrimFeed {
    /// Requests the removal of all events that are older than a time.
    #[must_use]
    pub const fn new(before: Timestamp) -> Self {
        Self { before, dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a removal of old events of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct TrimmedFeed {
    /// The number of events that were removed, or would be.
    pub removed: u64,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}

/// Calls `attempt` again as long as it ends with `Conflict`, because another writer was faster.
///
/// `attempt` returns `Conflict` only for the expectations that the layer itself made. It wraps everything else,
/// expectations of its caller that do not hold among them, into the inner result.
///
/// # Errors
/// Any error of `attempt`; `Conflict` if other writers were faster 100 times in a row.
pub async fn repeat_on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Result<T>>> + Send,
{
    let mut conflicts = 0;
    loop {
        match attempt().await {
            Err(error) if error.kind() == ErrorKind::Conflict && conflicts < MAX_CONFLICTS => conflicts += 1,
            Err(error) => return Err(error),
            Ok(answer) => return answer,
        }
    }
}

/// How one attempt to write ended.
pub(crate) enum Attempt<T> {
    /// It was written.
    Done(T),
    /// Another writer changed what the decision relied on.
    Overtaken(Error),
}

impl<T> Attempt<T> {
    /// Returns how a write ended that expects only what the attempt itself has read.
    ///
    /// # Errors
    /// Every error except `Conflict`.
    pub(crate) fn of(written: Result<T>) -> Result<Self> {
        match written {
            Ok(value) => Ok(Self::Done(value)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Self::Overtaken(error)),
            Err(error) => Err(error),
        }
    }

    /// Converts the value of an attempt that succeeded.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::Done(value) => Attempt::Done(convert(value)),
            Self::Overtaken(error) => Attempt::Overtaken(error),
        }
    }
}

/// Repeats an attempt while other writers are faster, a bounded number of times.
///
/// # Errors
/// The error of the attempt; `Conflict` if other writers were always faster.
pub(crate) async fn repeat_if_overtaken<T, F>(mut attempt: impl FnMut() -> F + Send) -> Result<T>
where
    T: Send,
    F: Future<Output = Result<Attempt<T>>> + Send,
{
    let mut conflicts = 0;
    loop {
        match attempt().await? {
            Attempt::Done(value) => return Ok(value),
            Attempt::Overtaken(error) if conflicts == MAX_CONFLICTS => return Err(error),
            Attempt::Overtaken(_) => conflicts += 1,
        }
    }
}

/// Returns the topic with a name that begins with `prefix`. A name that is too long for an id is replaced by its
/// digest.
///
/// # Errors
/// `Invalid` if `text` contains characters that no id may contain.
pub fn topic_of(prefix: &str, text: &str) -> Result<TopicId> {
    if prefix.len() + 1 + text.len() <= MAX_ID_BYTES {
        return TopicId::new(format!("{prefix}:{text}"));
    }
    TopicId::new(format!("{prefix}#{}", sha256_hex(text)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{MAX_CONFLICTS, repeat_on_conflict, topic_of};
    use crate::{Error, ErrorKind};

    #[test]
    fn a_long_name_of_a_topic_is_replaced_by_its_digest() {
        assert_eq!(topic_of("audit", "a/b").unwrap().as_str(), "audit:a/b");
        let (left, right) =
            (topic_of("audit", &"x".repeat(256)).unwrap(), topic_of("audit", &"x".repeat(257)).unwrap());
        assert!(left != right && left.as_str().starts_with("audit#") && left.as_str().len() == 70);
        assert_eq!(topic_of("audit", &"x".repeat(250)).unwrap().as_str().len(), 256);
        assert_eq!(topic_of("audit", "a\nb").unwrap_err().kind(), ErrorKind::Invalid);
    }

    async fn repeat(failures: u32, answer: fn() -> crate::Result<crate::Result<u32>>) -> (u32, crate::Result<u32>) {
        let calls = AtomicU32::new(0);
        let answer = repeat_on_conflict(|| {
            let is_conflict = calls.fetch_add(1, Ordering::SeqCst) < failures;
            async move { if is_conflict { Err(Error::conflict("document", None, None)) } else { answer() } }
        });
        let answer = answer.await;
        (calls.into_inner(), answer)
    }

    #[tokio::test]
    async fn a_conflict_is_decided_again_a_bounded_number_of_times() {
        let (calls, answer) = repeat(3, || Ok(Ok(7))).await;
        assert_eq!((calls, answer.unwrap()), (4, 7));
        let (calls, answer) = repeat(u32::MAX, || Ok(Ok(7))).await;
        assert_eq!((calls, answer.unwrap_err().kind()), (MAX_CONFLICTS + 1, ErrorKind::Conflict));
        let (calls, answer) = repeat(0, || Ok(Err(Error::conflict("document", None, None)))).await;
        assert_eq!((calls, answer.unwrap_err().kind()), (1, ErrorKind::Conflict), "the caller's own expectation");
        let (calls, answer) = repeat(0, || Err(Error::closed())).await;
        assert_eq!((calls, answer.unwrap_err().kind()), (1, ErrorKind::Closed));
    }
}
