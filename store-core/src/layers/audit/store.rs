//! The contract of the audit log, and its implementation over events.

use std::{fmt, future, pin::Pin, time::Duration};

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::StreamExt;

use super::{
    AuditAction, AuditQuery, AuditRecord, AuditResource, NewAudit, ResourceFilter,
    rules::{admits, all_topic, has_layer_filter, planned, record_of, restored_value, topic_of_query, without_values},
};
use crate::{
    error::{Error, Result},
    event::{AppendEvents, EventFilter, EventQuery, RedactEvent, Scope, Subscribe, SubscriptionStart},
    id::EventId,
    json::Json,
    layers::{LayerStore, TrimFeed, TrimmedFeed, until_error},
    limits::length,
    log::Direction,
    page::{Cursor, MAX_BYTES_READ, MAX_PAGE, MAX_RECORDS_READ, Page, PageRequest},
    progress::Progress,
    time::Timestamp,
};

/// A stream of audit records. It does not end, except after an error.
pub type AuditStream = Pin<Box<dyn Stream<Item = Result<AuditRecord>> + Send>>;

/// The audit log of a tenant. Its records are append only: no method changes one (AU-2).
///
/// Most records are written by the layers, together with the change that they are about (AU-1).
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Writes a record about something that no layer changes, such as a restart.
    ///
    /// # Errors
    /// `Invalid` if there is no action and no value; the errors of
    /// [`append_events`](crate::EventWriter::append_events). After an `Unknown` outcome, look for the record.
    async fn append_audit(
        &self,
        audit: NewAudit,
        resource: AuditResource,
        before: Option<Json>,
        after: Option<Json>,
    ) -> Result<AuditRecord>;

    /// Loads a record; none if there is no audit record with this id.
    ///
    /// # Errors
    /// `Corrupt` if the record cannot be read; any error of reading.
    async fn load_audit(&self, id: &EventId) -> Result<Option<AuditRecord>>;

    /// Lists records, newest first, in pages (AU-3).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor`; `CursorExpired` if the record of the cursor was purged.
    async fn list_audit(&self, query: AuditQuery) -> Result<Page<AuditRecord>>;

    /// Gives the stored records of a query, oldest first, and then each new one once, also those that other processes
    /// write (AU-3). The page of the query has no effect.
    ///
    /// # Errors
    /// As [`subscribe`](crate::EventSubscriber::subscribe). An error inside the stream ends the stream.
    async fn subscribe_audit(&self, query: AuditQuery) -> Result<AuditStream>;

    /// Removes the records that are older than a time (AU-5). [`retention_limit`] gives the usual time.
    ///
    /// It may be stopped between two batches, and can be repeated.
    ///
    /// # Errors
    /// The errors of [`trim_events`](crate::EventRetention::trim_events).
    async fn purge_audit(&self, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed>;
}

/// How long audit records are kept if the caller does not say otherwise (AU-5).
pub const AUDIT_RETENTION: Duration = Duration::from_hours(90 * 24);

/// Returns the time before which audit records are purged by default.
#[must_use]
pub fn retention_limit(now: Timestamp) -> Timestamp {
    now.saturating_sub(AUDIT_RETENTION)
}

/// The audit log over the events of a tenant.
#[derive(Clone)]
pub struct AuditLog {
    store: LayerStore,
}

impl AuditLog {
    /// Makes the audit log over a store.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    /// Lists records as [`list_audit`](AuditStore::list_audit) does, each with the cursor after it.
    ///
    /// # Errors
    /// Those of `list_audit`.
    pub async fn list_with_cursors(&self, query: &AuditQuery) -> Result<Page<(AuditRecord, Cursor)>> {
        let limit = query.page.checked_limit()?;
        let scope = Scope::Topic(topic_of_query(query)?);
        let events = EventQuery::new(scope.clone()).with_direction(Direction::Backward).with_filter(filter_of(query)?);
        // One record more than the page has shows whether the page is the last one.
        let enough = u32::try_from(limit + 1).unwrap_or(MAX_PAGE);
        let batch = if has_layer_filter(query) { MAX_PAGE } else { enough.min(MAX_PAGE) };
        let mut request = PageRequest::first(batch);
        request.cursor.clone_from(&query.page.cursor);
        let (mut found, mut records_read, mut bytes_read): (Vec<(_, Cursor)>, _, _) = (Vec::new(), 0, 0);
        loop {
            let page = self.store.events.list_events(events.clone().with_page(request.clone())).await?;
            // The event store ended the page because it has read enough (PG-10).
            let is_cut = length(page.items.len()) < u64::from(batch);
            for event in page.items {
                // On the way back times never grow, so no later event of the walk is new enough.
                if query.from.is_some_and(|time| event.created_at < time) {
                    return Ok(Page { items: found, next: None });
                }
                records_read += 1;
                bytes_read += event.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()));
                let Some(position) = event.cursor(&scope).cloned() else { continue };
                let Some(record) = record_of(event)?.filter(|record| admits(query, record)) else { continue };
                if found.len() == limit {
                    let next = found.last().map(|(_, position)| position.clone());
                    return Ok(Page { items: found, next });
                }
                found.push((record, position));
            }
            let Some(next) = page.next else { return Ok(Page { items: found, next: None }) };
            // The filters of the layer may leave out many records, so its page ends, too.
            if is_cut || records_read >= MAX_RECORDS_READ || bytes_read >= MAX_BYTES_READ {
                return Ok(Page { items: found, next: Some(next) });
            }
            request.cursor = Some(next);
        }
    }

    /// Removes the values from the records about some resources, and returns how many had any (PV-1). Who did what,
    /// when and to what stays.
    ///
    /// # Errors
    /// The errors of reading and of [`redact_events`](crate::EventRetention::redact_events).
    pub(in crate::layers) async fn erase_values(&self, resources: &ResourceFilter, dry_run: bool) -> Result<u64> {
        let query = AuditQuery::new().about(resources.clone());
        let events = EventQuery::new(Scope::Topic(topic_of_query(&query)?));
        let (mut count, mut next) = (0, Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.store.events.list_events(events.clone().with_page(page)).await?;
            let mut redactions = Vec::new();
            for event in page.items {
                let is_meant = record_of(event.clone())?.is_some_and(|record| resources.admits(&record.resource));
                if let Some(payload) = without_values(&event)?.filter(|_| is_meant) {
                    redactions.push(RedactEvent::new(event.id).with_payload(payload));
                }
            }
            count += length(redactions.len());
            if !dry_run && !redactions.is_empty() {
                self.store.events.redact_events(redactions).await?;
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(count)
    }

    /// Returns the value with which a layer restores `resource` from a record (AU-6).
    ///
    /// # Errors
    /// `NotFound` if there is no such record; the errors of [`restored_value`].
    pub(in crate::layers) async fn value_to_restore(&self, from: &EventId, resource: &AuditResource) -> Result<Json> {
        let record = self.load_audit(from).await?.ok_or_else(|| Error::not_found("audit record", from))?;
        restored_value(&record, resource)
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

#[async_trait]
impl AuditStore for AuditLog {
    async fn append_audit(
        &self,
        audit: NewAudit,
        resource: AuditResource,
        before: Option<Json>,
        after: Option<Json>,
    ) -> Result<AuditRecord> {
        let event = planned(&audit, &resource, before.as_ref(), after.as_ref())?;
        let mut appended = self.store.events.append_events(AppendEvents::new([event])).await?.events;
        let record = appended.pop().map(record_of).transpose()?.flatten();
        record.ok_or_else(|| Error::corrupt("the store did not return the audit record that it wrote"))
    }

    async fn load_audit(&self, id: &EventId) -> Result<Option<AuditRecord>> {
        self.store.events.load_event(id).await?.map_or(Ok(None), record_of)
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Page<AuditRecord>> {
        let Page { items, next } = self.list_with_cursors(&query).await?;
        Ok(Page { items: items.into_iter().map(|(record, _)| record).collect(), next })
    }

    async fn subscribe_audit(&self, query: AuditQuery) -> Result<AuditStream> {
        let scope = Scope::Topic(topic_of_query(&query)?);
        let subscription = self.store.events.subscribe(Subscribe::new(scope, SubscriptionStart::First)).await?;
        let records = subscription.events.filter_map(move |event| {
            let record = event.and_then(record_of).transpose();
            let passes = |record: &Result<_>| record.as_ref().map_or(true, |record| admits(&query, record));
            future::ready(record.filter(passes))
        });
        Ok(Box::pin(until_error(records)))
    }

    async fn purge_audit(&self, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        self.store.trim_topics(&all_topic()?, request, progress).await
    }
}

/// Returns the filters that the event store itself applies.
fn filter_of(query: &AuditQuery) -> Result<EventFilter> {
    let kinds = query.actions.as_ref().map(|actions| actions.iter().map(AuditAction::kind).collect::<Result<Vec<_>>>());
    Ok(EventFilter { kinds: kinds.transpose()?, created_before: query.before, ..EventFilter::default() })
}
