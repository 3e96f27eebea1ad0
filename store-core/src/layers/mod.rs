//! Layers: contracts that are written over documents and topics alone, so every backend that has these has them too.
//!
//! A layer loads documents, decides by a pure rule, and writes with expectations that fail if what it decided on has
//! changed meanwhile. Then it decides again, a bounded number of times. Each layer has `record` (data), `rules` (pure
//! decisions) and `store` (the contract, and its implementation).

pub mod audit;
pub mod blob;
pub mod config;
pub mod dataset;
pub mod effect;
pub mod erasure;
pub mod evaluation;
mod name;
pub mod profile;
pub mod registry;
pub mod replay;
pub mod stream_checkpoint;
pub mod trace;

pub use self::name::{escape_part, unescape_part};

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, ready},
    sync::Arc,
};

use futures_core::Stream;
use futures_util::StreamExt;

use crate::{
    codec::{Codec, sha256_hex},
    document::{
        self, Document, DocumentChange, DocumentExpect, DocumentQuery, DocumentRef, DocumentScope, DocumentStore,
        KeySegment, WriteDocuments, WrittenDocuments,
    },
    error::{Detail, Error, ErrorKind, Result, Subject},
    event::{
        AppendEvents, EventQuery, EventStore, NewEvent, Scope, Subscribe, Subscription, SubscriptionStart, TrimBefore,
        TrimRequest,
    },
    id::{CollectionId, MAX_ID_BYTES, TopicId},
    json::Json,
    page::{Cursor, MAX_PAGE, PageRequest},
    progress::Progress,
    store::TenantStores,
    time::Timestamp,
};

/// How often a layer decides again because another writer was faster. Each time, at least one writer succeeds.
const MAX_CONFLICTS: u32 = 100;

/// What a document belongs to, and the segments with which its key and those of all other documents of it begin.
type WithPrefix<T> = (T, Vec<KeySegment>);

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

    /// Reads all documents of a query, and keeps of each what `read` returns.
    async fn list_all<T>(&self, query: DocumentQuery, read: fn(&Document) -> Result<T>) -> Result<Vec<T>> {
        let (mut found, mut next) = (Vec::new(), Some(PageRequest::first(MAX_PAGE)));
        while let Some(request) = next.take() {
            let page = self.documents.list_documents(query.clone().with_page(request)).await?;
            for document in &page.items {
                found.push(read(document)?);
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(found)
    }

    /// Lists what the documents of a collection belong to, at most `limit` items, after those whose keys begin with the
    /// segments `after`. For each item one document is read, however many belong to it.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; any error of listing documents and of `read`.
    async fn list_prefixes<T>(
        &self,
        collection: CollectionId,
        mut after: Option<Vec<KeySegment>>,
        limit: u32,
        read: fn(&Document) -> Result<WithPrefix<T>>,
    ) -> Result<Vec<T>> {
        let limit = PageRequest::first(limit).checked_limit()?;
        let mut found = Vec::new();
        while found.len() < limit {
            let mut query = DocumentQuery::new(collection.clone()).with_page(PageRequest::first(1));
            query.after_prefix = after.take();
            let page = self.documents.list_documents(query).await?;
            let Some(document) = page.items.first() else { break };
            let (item, prefix) = read(document)?;
            found.push(item);
            after = Some(prefix);
        }
        Ok(found)
    }

    /// Removes the events of the topic `main` that are older than a time, from all topics that they are in.
    ///
    /// Every event is also in `main`. The other topics are trimmed before `main`, from which they are known. So a
    /// removal that was interrupted can be repeated. It may be stopped between two batches.
    ///
    /// # Errors
    /// The errors of [`trim_events`](crate::EventRetention::trim_events).
    async fn trim_topics(&self, main: &TopicId, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        let main_scope = Scope::Topic(main.clone());
        if request.dry_run {
            let trim = TrimRequest::new(main_scope, TrimBefore::Time(request.before)).dry();
            let trimmed = self.events.trim_events(trim).await?;
            return Ok(TrimmedFeed { removed: trimmed.events, stopped: false });
        }
        let mut removed = 0;
        // Mostly nothing is old enough: the first event shows it.
        let mut limit = 1;
        loop {
            // What was listed before is trimmed, so each page is the first one.
            let query = EventQuery::new(main_scope.clone()).with_page(PageRequest::first(limit));
            let page = self.events.list_events(query).await?;
            let old: Vec<_> = page.items.iter().filter(|event| event.created_at < request.before).collect();
            let Some(last) = old.last().and_then(|event| event.cursor(&main_scope)) else { break };
            // The last of them in each topic: the order in two topics is the same.
            let lasts: BTreeMap<_, _> = old.iter().flat_map(|event| &event.cursors.topics).collect();
            for (topic, cursor) in lasts.into_iter().filter(|(topic, _)| *topic != main) {
                let scope = Scope::Topic(topic.clone());
                self.events.trim_events(TrimRequest::new(scope, TrimBefore::Cursor(cursor.clone()))).await?;
            }
            let trim = TrimRequest::new(main_scope.clone(), TrimBefore::Cursor(last.clone()));
            removed += self.events.trim_events(trim).await?.events;
            if page.next.is_none() || old.len() < page.items.len() {
                break;
            }
            limit = MAX_PAGE;
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
    async fn subscribe_after(&self, topic: TopicId, after: Option<Cursor>) -> Result<Subscription> {
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

/// Ends a stream after its first error.
pub fn until_error<T: Send + 'static>(
    items: impl Stream<Item = Result<T>> + Send + 'static,
) -> impl Stream<Item = Result<T>> + Send + 'static {
    items.scan(false, |has_failed, item| {
        let next = (!*has_failed).then_some(item);
        *has_failed = next.as_ref().is_none_or(Result::is_err);
        ready(next)
    })
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

/// Makes a plan and writes what belongs to it, in one step. Makes another plan if another writer has meanwhile changed
/// what the plan relies on.
///
/// The write that `plan` returns expects only what `plan` has read, so its `Conflict` means that another writer was
/// faster. What a caller expects is checked by `plan`. Returns the plan, and the result of the write if there was one.
///
/// # Errors
/// Any error of `plan` and of the write; `Conflict` if other writers were faster 100 times in a row.
async fn plan_and_write<P, F>(
    documents: &dyn DocumentStore,
    mut plan: impl FnMut() -> F + Send,
) -> Result<(P, Option<WrittenDocuments>)>
where
    P: Send,
    F: Future<Output = Result<(P, Option<WriteDocuments>)>> + Send,
{
    let mut conflicts = 0;
    loop {
        let (planned, write) = plan().await?;
        let Some(write) = write else { return Ok((planned, None)) };
        match documents.write_documents(write).await {
            Err(error) if error.kind() == ErrorKind::Conflict && conflicts < MAX_CONFLICTS => conflicts += 1,
            written => return written.map(|written| (planned, Some(written))),
        }
    }
}

/// Loads documents, in several calls if their values are too large for one. Then they may be of several moments. So a
/// plan expects of each document what was found of it.
///
/// # Errors
/// The errors of [`load_documents`](DocumentStore::load_documents), but not that the values are too large together.
async fn load_in_parts(documents: &dyn DocumentStore, names: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
    let (mut found, mut rest, mut size) = (Vec::new(), names, names.len());
    loop {
        let (part, later) = rest.split_at_checked(size).unwrap_or((rest, &[]));
        match documents.load_documents(part).await {
            Err(error) if document::is_too_large(&error) && part.len() > 1 => size = part.len().div_ceil(2),
            loaded => {
                found.extend(loaded?);
                rest = later;
                if rest.is_empty() {
                    return Ok(found);
                }
            }
        }
    }
}

/// Returns the write of changes and of events, which may be none.
fn write_of(changes: Vec<DocumentChange>, events: Vec<NewEvent>) -> WriteDocuments {
    let write = WriteDocuments::new(changes);
    if events.is_empty() { write } else { write.with_events(AppendEvents::new(events)) }
}

/// Returns the record of a layer that a document contains; none if the document is one of the application. Errors name
/// the record.
#[must_use]
pub fn record_in(document: &DocumentRef) -> Option<Subject> {
    if document.scope != DocumentScope::Tenant {
        return None;
    }
    let key = &document.key;
    let of_settings = || config::record_in(key).or_else(|| profile::record_in(key));
    let of_datasets = || dataset::record_in(key).or_else(|| evaluation::record_in(key));
    of_settings().or_else(|| registry::record_in(key)).or_else(of_datasets)
}

/// Returns the error of a caller who expects something else of a document than what was found.
fn conflict_in(document: DocumentRef, expected: DocumentExpect, actual: Option<u64>) -> Error {
    Error::new(Detail::DocumentConflict { document: Box::new(document), expected, actual })
}

fn encoded(record: &impl Codec) -> Result<Json> {
    Json::parse(&record.encode())
}

/// Returns the topic with a name that begins with `prefix`. A name that is too long for an id is replaced by its
/// digest.
///
/// # Errors
/// `Invalid` if `text` contains characters that no id may contain.
fn topic_of(prefix: &str, text: &str) -> Result<TopicId> {
    if prefix.len() + 1 + text.len() <= MAX_ID_BYTES {
        return TopicId::new(format!("{prefix}:{text}"));
    }
    TopicId::new(format!("{prefix}#{}", sha256_hex(text)))
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    };

    use super::{MAX_CONFLICTS, load_in_parts, plan_and_write, topic_of};
    use crate::{
        Document, DocumentKey, DocumentQuery, DocumentRef, DocumentStore, Error, ErrorKind, KeySegment, Page, Result,
        Timestamp, WriteDocuments, WrittenDocuments,
    };

    #[test]
    fn a_long_name_of_a_topic_is_replaced_by_its_digest() {
        assert_eq!(topic_of("audit", "a/b").unwrap().as_str(), "audit:a/b");
        let (left, right) =
            (topic_of("audit", &"x".repeat(256)).unwrap(), topic_of("audit", &"x".repeat(257)).unwrap());
        assert!(left != right && left.as_str().starts_with("audit#") && left.as_str().len() == 70);
        assert_eq!(topic_of("audit", &"x".repeat(250)).unwrap().as_str().len(), 256);
        assert_eq!(topic_of("audit", "a\nb").unwrap_err().kind(), ErrorKind::Invalid);
    }

    /// Refuses the first writes.
    struct Refusing {
        refusals: u32,
        kind: fn() -> Error,
        writes: AtomicU32,
    }

    #[async_trait::async_trait]
    impl DocumentStore for Refusing {
        async fn load_documents(&self, _: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
            Ok(Vec::new())
        }

        async fn list_documents(&self, _: DocumentQuery) -> Result<Page<Document>> {
            Ok(Page { items: Vec::new(), next: None })
        }

        async fn write_documents(&self, _: WriteDocuments) -> Result<WrittenDocuments> {
            if self.writes.fetch_add(1, Ordering::SeqCst) < self.refusals {
                return Err((self.kind)());
            }
            Ok(WrittenDocuments::new(None, Vec::new(), Timestamp::default()))
        }
    }

    /// Has no documents, and refuses loads of more than three as too large. Notes how many each load named.
    #[derive(Default)]
    struct Large(Mutex<Vec<usize>>);

    #[async_trait::async_trait]
    impl DocumentStore for Large {
        async fn load_documents(&self, names: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
            self.0.lock().unwrap().push(names.len());
            match names.len() {
                10.. => Err(Error::limit_exceeded("documents of a call", 9, 10)),
                4.. => Err(Error::limit_exceeded("load bytes", 3, 4)),
                _ => Ok(vec![None; names.len()]),
            }
        }

        async fn list_documents(&self, _: DocumentQuery) -> Result<Page<Document>> {
            Err(Error::closed())
        }

        async fn write_documents(&self, _: WriteDocuments) -> Result<WrittenDocuments> {
            Err(Error::closed())
        }
    }

    #[tokio::test]
    async fn documents_that_are_too_large_for_one_load_are_loaded_in_parts() {
        let check = async |count: u64, wanted: Option<usize>, loads: &[usize]| {
            let store = Large::default();
            let name = |index| DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(index)]).unwrap().into();
            let names: Vec<DocumentRef> = (0..count).map(name).collect();
            let found = load_in_parts(&store, &names).await;
            assert_eq!(found.ok().map(|found| found.len()), wanted);
            assert_eq!(store.0.into_inner().unwrap(), loads);
        };
        check(0, Some(0), &[0]).await;
        check(3, Some(3), &[3]).await;
        check(9, Some(9), &[9, 5, 3, 3, 3]).await;
        check(7, Some(7), &[7, 4, 2, 2, 2, 1]).await;
        check(10, None, &[10]).await;
    }

    #[tokio::test]
    async fn a_conflict_of_the_write_is_decided_again_a_bounded_number_of_times() {
        let check = async |refusals, kind: fn() -> Error, wanted_plans, wanted: Option<ErrorKind>| {
            let (store, plans) = (Refusing { refusals, kind, writes: AtomicU32::new(0) }, AtomicU32::new(0));
            let answer = plan_and_write(&store, || {
                let number = plans.fetch_add(1, Ordering::SeqCst);
                async move { Ok((number, Some(WriteDocuments::default()))) }
            });
            let answer = answer.await.map(|(number, _)| number).map_err(|error| error.kind());
            assert_eq!(answer, wanted.map_or(Ok(wanted_plans - 1), Err));
            assert_eq!(plans.into_inner(), wanted_plans);
        };
        let conflict = || Error::conflict("document", None, None);
        check(3, conflict, 4, None).await;
        check(MAX_CONFLICTS, conflict, MAX_CONFLICTS + 1, None).await;
        check(MAX_CONFLICTS + 1, conflict, MAX_CONFLICTS + 1, Some(ErrorKind::Conflict)).await;
        check(1, Error::closed, 1, Some(ErrorKind::Closed)).await;
    }

    #[tokio::test]
    async fn a_plan_is_final_if_it_is_refused_or_writes_nothing() {
        let store = Refusing { refusals: 0, kind: Error::closed, writes: AtomicU32::new(0) };
        let refused = plan_and_write(&store, || async { Err::<((), _), _>(Error::conflict("document", None, None)) });
        assert_eq!(refused.await.unwrap_err().kind(), ErrorKind::Conflict);
        let (number, written) = plan_and_write(&store, || async { Ok((7, None)) }).await.unwrap();
        assert_eq!((number, written, store.writes.into_inner()), (7, None, 0));
    }
}
