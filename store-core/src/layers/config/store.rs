//! The contract of config, and its implementation over documents and events.

use std::{collections::BTreeMap, fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::{StreamExt, future, stream};

use super::{
    ConfigChange, ConfigContent, ConfigEntry, ConfigName, ConfigOp, ConfigPosition, ConfigRecord, ConfigSnapshot,
    ConfigUpdate, WrittenConfig,
    record::collection,
    rules::{ConfigPlan, check_changes, feed_topic, namespace_topic, plan},
};
use crate::{
    codec::Codec,
    document::{Document, DocumentExpect, DocumentQuery, KeySegment, WriteDocuments},
    error::{Detail, Error, Result},
    event::{AppendEvents, Scope},
    ext::DocumentStoreExt,
    id::SegmentId,
    json::Json,
    layers::{
        LayerStore, TrimFeed, TrimmedFeed,
        audit::{AuditLog, Restoration},
        load_in_parts, plan_and_write, until_error,
    },
    page::{Page, PageRequest},
    progress::Progress,
};

/// The entries of a subscription to the feed. The stream ends only after an error.
pub type ConfigStream = Pin<Box<dyn Stream<Item = Result<ConfigEntry>> + Send>>;
/// What a watcher of a namespace gets. The stream ends only after an error.
pub type ConfigWatch = Pin<Box<dyn Stream<Item = Result<ConfigUpdate>> + Send>>;

/// Config records of a tenant, and the feed of their changes.
#[async_trait]
pub trait ConfigStore: Send + Sync {
    /// Makes all changes, or none of them (CF-4).
    ///
    /// # Guarantees
    /// - Each record that changes gets a revision larger than every revision that it ever had (CF-2).
    /// - Of several writers that expect the same revision exactly one succeeds (CF-3).
    /// - The entries of the feed and the audit records are written in the same atomic step (AU-1, CF-5).
    ///
    /// # Errors
    /// `Invalid` for no change, and for a record that is named twice; `Conflict` for an expectation that does not hold,
    /// and if other writers were faster 100 times in a row; `NotFound` for a change of a record that must exist;
    /// the errors of [`write_documents`](crate::DocumentStore::write_documents). After an `Unknown` outcome, load the
    /// records.
    async fn write_config(&self, changes: Vec<ConfigChange>) -> Result<WrittenConfig>;

    /// Loads a record; none if it does not exist (CF-1).
    ///
    /// # Errors
    /// `Corrupt` if the record cannot be read; any error of reading.
    async fn load_config(&self, name: &ConfigName) -> Result<Option<ConfigRecord>>;

    /// Lists the records of a namespace by id, in pages (CF-1).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor`.
    async fn list_config(&self, namespace: &SegmentId, page: PageRequest) -> Result<Page<ConfigRecord>>;

    /// Lists the namespaces that have records, in the order of their bytes: the first `limit` ones, or those after the
    /// namespace `after` (CF-10).
    ///
    /// # Guarantees
    /// - The call reads one record of each namespace, however many it has (CF-10,
    ///   `config::namespaces_are_listed_once_in_order`).
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or more than 1,000; any error of reading.
    async fn list_namespaces(&self, after: Option<&SegmentId>, limit: u32) -> Result<Vec<SegmentId>>;

    /// Writes an earlier content of a record again, as a new change (AU-6).
    ///
    /// # Errors
    /// `NotFound` if there is no such audit record; `Invalid` if it is about something else; `InvalidTransition` if it
    /// is a restart, or if its content is missing or hidden; otherwise as [`write_config`](Self::write_config).
    async fn restore_config(&self, name: ConfigName, request: Restoration) -> Result<WrittenConfig>;

    /// Reads all records, or those of one namespace, with the position from which to subscribe (CF-6).
    ///
    /// # Errors
    /// The errors of [`list_config`](Self::list_config).
    async fn snapshot_config(&self, namespace: Option<&SegmentId>) -> Result<ConfigSnapshot>;

    /// Subscribes to the feed after a position. Each change comes once, in order, across processes (CF-6).
    ///
    /// # Errors
    /// `InvalidCursor`; `CursorExpired` if entries after the position were trimmed: take a new snapshot (CF-7). An
    /// error inside the stream ends the stream.
    async fn subscribe_config(&self, after: ConfigPosition) -> Result<ConfigStream>;

    /// Gives the records of a namespace, and then every change of it.
    ///
    /// # Errors
    /// Those of [`snapshot_config`](Self::snapshot_config) and [`subscribe_config`](Self::subscribe_config).
    async fn watch_config(&self, namespace: &SegmentId) -> Result<ConfigWatch>;

    /// Removes the entries of the feed that are older than a time (CF-7). Records stay.
    ///
    /// # Errors
    /// The errors of [`trim_events`](crate::EventRetention::trim_events).
    async fn trim_config_feed(&self, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed>;
}

/// Changes of one config record.
#[async_trait]
pub trait ConfigStoreExt: ConfigStore {
    /// Sets the value of a record (CF-1). Returns the record.
    ///
    /// # Errors
    /// The errors of [`write_config`](ConfigStore::write_config).
    async fn put_config(&self, name: ConfigName, value: Json, expect: DocumentExpect) -> Result<ConfigRecord> {
        let mut written = self.write_config(vec![ConfigChange::put(name, value).expecting(expect)]).await?;
        let record = written.records.pop().flatten();
        record.ok_or_else(|| Error::corrupt("the store did not return the config record that it wrote"))
    }

    /// Removes a record. Returns whether it existed (CF-1).
    ///
    /// # Errors
    /// The errors of [`write_config`](ConfigStore::write_config).
    async fn delete_config(&self, name: ConfigName, expect: DocumentExpect) -> Result<bool> {
        let written = self.write_config(vec![ConfigChange::delete(name).expecting(expect)]).await?;
        Ok(!written.entries.is_empty())
    }
}

impl<S: ConfigStore + ?Sized> ConfigStoreExt for S {}

/// Config over the documents and events of a tenant.
#[derive(Clone)]
pub struct ConfigLayer {
    store: LayerStore,
}

impl fmt::Debug for ConfigLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigLayer").finish_non_exhaustive()
    }
}

impl ConfigLayer {
    /// Makes the config over a store.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    /// Plans a write over what is stored now.
    async fn plan(
        &self,
        changes: &[ConfigChange],
    ) -> Result<((ConfigPlan, Vec<Option<Document>>), Option<WriteDocuments>)> {
        let feed = Scope::Topic(feed_topic()?);
        // Every change appends to the feed. So the records are those of this number, if the write finds it unchanged.
        let last = self.store.events.load_scope(&feed).await?.appended;
        let names = changes.iter().map(|change| change.name.document()).collect::<Result<Vec<_>>>()?;
        let found = load_in_parts(&*self.store.documents, &names).await?;
        let mut plan = plan(changes, &found, last)?;
        let write = (!plan.feed.is_empty()).then(|| {
            let events = plan.feed.iter().cloned().chain(std::mem::take(&mut plan.audits));
            let append = AppendEvents::new(events).expecting(feed, last);
            WriteDocuments::new(std::mem::take(&mut plan.changes)).with_events(append)
        });
        Ok(((plan, found), write))
    }

    async fn records(&self, namespace: Option<&SegmentId>) -> Result<Vec<ConfigRecord>> {
        let query = DocumentQuery::new(collection()?).starting_with(namespace.cloned().map(KeySegment::Id));
        self.store.list_all(query, ConfigRecord::from_document).await
    }
}

#[async_trait]
impl ConfigStore for ConfigLayer {
    async fn write_config(&self, changes: Vec<ConfigChange>) -> Result<WrittenConfig> {
        check_changes(&changes)?;
        let ((plan, found), written) = plan_and_write(&*self.store.documents, || self.plan(&changes)).await?;
        plan.answer(&found, written.as_ref())
    }

    async fn load_config(&self, name: &ConfigName) -> Result<Option<ConfigRecord>> {
        let document = self.store.documents.load_document(&name.document()?).await?;
        document.as_ref().map(ConfigRecord::from_document).transpose()
    }

    async fn list_config(&self, namespace: &SegmentId, page: PageRequest) -> Result<Page<ConfigRecord>> {
        let query = DocumentQuery::new(collection()?).starting_with([KeySegment::Id(namespace.clone())]);
        let page = self.store.documents.list_documents(query.with_page(page)).await?;
        let items = page.items.iter().map(ConfigRecord::from_document).collect::<Result<_>>()?;
        Ok(Page { items, next: page.next })
    }

    async fn list_namespaces(&self, after: Option<&SegmentId>, limit: u32) -> Result<Vec<SegmentId>> {
        let after = after.map(|namespace| vec![KeySegment::Id(namespace.clone())]);
        let read = |document: &Document| {
            let namespace = ConfigRecord::name_in(document)?.namespace;
            Ok((namespace.clone(), vec![KeySegment::Id(namespace)]))
        };
        self.store.list_prefixes(collection()?, after, limit, read).await
    }

    async fn restore_config(&self, name: ConfigName, request: Restoration) -> Result<WrittenConfig> {
        let Restoration { from, expect, audit } = request;
        let value = AuditLog::new(self.store.clone()).value_to_restore(&from, &name.resource()?).await?;
        let content = ConfigContent::read(value.as_str())
            .map_err(|e| Error::invalid("audit record", "its value is no config record").with_source(e))?;
        let change = ConfigChange::new(name, ConfigOp::Put(content)).expecting(expect);
        self.write_config(vec![change.audited(audit.restoring(from))]).await
    }

    async fn snapshot_config(&self, namespace: Option<&SegmentId>) -> Result<ConfigSnapshot> {
        // The position is read first. What changes meanwhile comes again in the feed.
        let feed = self.store.events.load_scope(&Scope::Topic(feed_topic()?)).await?;
        let position = ConfigPosition { revision: feed.appended, cursor: feed.last };
        Ok(ConfigSnapshot { records: self.records(namespace).await?, position })
    }

    async fn subscribe_config(&self, after: ConfigPosition) -> Result<ConfigStream> {
        let ConfigPosition { revision, cursor } = after;
        let subscription = self.store.subscribe_after(feed_topic()?, cursor).await?;
        let entries = subscription.events.scan(revision, |last, event| {
            let entry = event.and_then(|event| next_entry(&event, *last));
            *last = entry.as_ref().map_or(*last, |entry| entry.revision);
            future::ready(Some(entry))
        });
        Ok(Box::pin(until_error(entries)))
    }

    async fn watch_config(&self, namespace: &SegmentId) -> Result<ConfigWatch> {
        let topic = namespace_topic(namespace)?;
        let start = self.store.events.load_scope(&Scope::Topic(topic.clone())).await?.last;
        let present = self.records(Some(namespace)).await?;
        let subscription = self.store.subscribe_after(topic, start).await?;
        let known: BTreeMap<_, _> = present.iter().map(|record| (record.name.clone(), record.revision)).collect();
        let config = self.clone();
        let changes = subscription.events.filter_map(move |event| {
            let entry = event.and_then(|event| ConfigEntry::from_event(&event));
            // A change from between the two reads is already in what the watcher got.
            let is_known =
                entry.as_ref().is_ok_and(|entry| known.get(&entry.name).is_some_and(|known| entry.revision <= *known));
            let config = config.clone();
            async move {
                if is_known {
                    return None;
                }
                Some(match entry {
                    Ok(entry) => config.load_config(&entry.name).await.map(|now| ConfigUpdate::Changed(entry, now)),
                    Err(error) => Err(error),
                })
            }
        });
        Ok(Box::pin(until_error(stream::iter([Ok(ConfigUpdate::Present(present))]).chain(changes))))
    }

    async fn trim_config_feed(&self, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        self.store.trim_topics(&feed_topic()?, request, progress).await
    }
}

/// Reads the entry after the one with the number `last`.
///
/// # Errors
/// `CursorExpired` if entries in between were trimmed; `Corrupt`.
fn next_entry(event: &crate::Event, last: u64) -> Result<ConfigEntry> {
    let entry = ConfigEntry::from_event(event)?;
    if entry.revision > last + 1 {
        return Err(Error::new(Detail::CursorExpired { floor: entry.revision - 1 }));
    }
    Ok(entry)
}
