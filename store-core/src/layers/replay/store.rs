//! The contract of the replay log, and its implementation over documents and topics.

use std::{fmt, future::ready, pin::Pin, sync::Arc};

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::{StreamExt, future::try_join, stream};

use super::{
    plan::{PlannedReplay, ReplayPlan},
    record::{NewReplay, PlacedRecord, ReplayRecord, ReplayStreamRef, StoredExpiry, StoredReplay},
    request::{AppendReplay, AppendedReplay, PurgeReplay, PurgedReplay, ReplayQuery},
    rules::{Found, Remnant, check_append, check_records, check_repeat, cut_page, mismatch, next_in_order},
};
use crate::{
    document::Document,
    error::{Error, ErrorKind, Result},
    event::{EventQuery, Subscribe, SubscriptionStart},
    ext::DocumentStoreExt,
    id::{EventId, WireEventId},
    layers::{LayerStore, load_in_parts, plan_and_write, until_error},
    log::Direction,
    page::{Cursor, Page, PageRequest, Position},
    progress::Progress,
    time::Clock,
};

/// The number of records that a subscription loads at once, if so many are there.
const LOADED_AT_ONCE: usize = 32;
/// The number of events that are read at once in search of a record. It is mostly the first one.
const SEARCH_PAGE: u32 = 16;

/// A stream of replay records. It does not end, except after an error.
pub type ReplaySubscription = Pin<Box<dyn Stream<Item = Result<ReplayRecord>> + Send>>;

/// What was sent on a wire, byte for byte, so that it can be sent again.
#[async_trait]
pub trait ReplayStore: Send + Sync {
    /// Appends records to a stream, all or none (RP-1). A record that repeats an earlier one is that record (RP-3).
    ///
    /// # Guarantees
    /// - The records get the next numbers of the stream, without gaps, and a cursor each.
    /// - Of several appends of one wire id, one writes it. The others return its record, if their content is equal.
    ///
    /// # Errors
    /// `Invalid` for no record, a record without bytes (RP-2), a wire id that is named twice, and a claim without its
    /// thread; `IdempotencyMismatch` for a wire id that belongs to another content or stream; `NotFound` if the thread
    /// does not exist; `ClaimLost` and `StaleEpoch` under a claim (CM-44); `LimitExceeded`. After an `Unknown` outcome,
    /// repeat the call.
    async fn append_replay(&self, request: AppendReplay) -> Result<AppendedReplay>;

    /// Plans what an append would write, for a commit that writes it (RP-7).
    ///
    /// # Errors
    /// `Invalid` and `IdempotencyMismatch`, as [`append_replay`](Self::append_replay).
    async fn plan_replay(&self, stream: &ReplayStreamRef, records: &[NewReplay]) -> Result<ReplayPlan>;

    /// Loads a record by its id, also an expired one, until it is purged (RP-8). Returns none for an unknown id.
    ///
    /// # Errors
    /// `Corrupt` if the record cannot be read, or if its bytes are missing.
    async fn load_replay(&self, id: &EventId) -> Result<Option<ReplayRecord>>;

    /// Finds a record of a stream by its wire id, also an expired one (RP-10). A client that has received it continues
    /// after its cursor.
    ///
    /// # Errors
    /// `Corrupt` if the record cannot be read.
    async fn find_replay(&self, stream: &ReplayStreamRef, wire_id: &WireEventId) -> Result<Option<ReplayRecord>>;

    /// Lists the records of a stream strictly after a cursor, in pages (RP-4). Expired ones are left out (RP-5), so a
    /// page may be short.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another stream; `CursorExpired` if records
    /// after the cursor were purged; `Corrupt` if a record is missing that retention did not remove (RP-9).
    async fn list_replay(&self, query: ReplayQuery) -> Result<Page<ReplayRecord>>;

    /// Gives the stored records of a stream after a cursor, and then each new one once, in order, also those that other
    /// processes append (RP-4). Without a cursor it begins with the first record that is left.
    ///
    /// # Errors
    /// As [`list_replay`](Self::list_replay). An error inside the stream ends the stream; continue with a new
    /// subscription after the last record.
    async fn subscribe_replay(&self, stream: &ReplayStreamRef, after: Option<Cursor>) -> Result<ReplaySubscription>;

    /// Removes the bytes of a record for good. The record keeps its place and its number (RP-6). It may be repeated.
    ///
    /// # Errors
    /// `NotFound` for an unknown record. After an `Unknown` outcome, repeat the call.
    async fn redact_replay(&self, id: &EventId) -> Result<ReplayRecord>;

    /// Removes the records of all streams that have expired (RP-5). A record between others that stay loses its bytes,
    /// and its place remains.
    ///
    /// It may be stopped between two batches, and can be repeated.
    ///
    /// # Errors
    /// Any error of reading and writing documents and events. After an `Unknown` outcome, repeat the call.
    async fn purge_replay(&self, request: PurgeReplay, progress: &dyn Progress) -> Result<PurgedReplay>;
}

/// The replay log of a tenant, kept as topics and documents.
#[derive(Clone)]
pub struct ReplayLayer {
    pub(super) store: LayerStore,
    /// Decides what has expired.
    pub(super) clock: Arc<dyn Clock>,
}

impl ReplayLayer {
    /// Makes the replay log over a store. The clock should be that of the store.
    #[must_use]
    pub const fn new(store: LayerStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    async fn plan(&self, stream: &ReplayStreamRef, records: &[NewReplay]) -> Result<ReplayPlan> {
        let names = records.iter().map(|record| stream.document(&record.wire_id)).collect::<Result<Vec<_>>>()?;
        let scope = stream.scope()?;
        let (stored, info) =
            try_join(self.store.documents.load_documents(&names), self.store.events.load_scope(&scope)).await?;
        let mut plan = ReplayPlan::empty();
        for (new, document) in records.iter().zip(stored) {
            match self.find(stream, &new.wire_id, document).await? {
                Found::Record(known) => {
                    check_repeat(&known, new)?;
                    plan.records.push(PlannedReplay::Known(known));
                }
                Found::Remnant(remnant) => plan.add(stream, new, info.last.as_ref(), Some(remnant))?,
                Found::Nothing => plan.add(stream, new, info.last.as_ref(), None)?,
            }
        }
        Ok(plan)
    }

    /// Returns what is stored under a wire id, whose document was loaded.
    ///
    /// # Errors
    /// `IdempotencyMismatch` if the document belongs to another stream; `Corrupt`.
    async fn find(&self, stream: &ReplayStreamRef, wire_id: &WireEventId, document: Option<Document>) -> Result<Found> {
        let Some(document) = document else { return Ok(Found::Nothing) };
        let stored = StoredReplay::from_document(&document)?;
        if stored.stream != *stream.stream() {
            return Err(mismatch(wire_id));
        }
        if let Some(placed) = self.locate(stream, wire_id, &stored).await? {
            return Ok(Found::Record(Box::new(placed_with_content(placed, &stored, &document)?)));
        }
        // The events of records that expire may be gone before their documents.
        let missing = || Error::corrupt(format!("replay stream {stream}: the event of record {wire_id} is missing"));
        let expires_at = stored.expires_at.ok_or_else(missing)?;
        Ok(Found::Remnant(Remnant { revision: document.revision, expires_at }))
    }

    /// Finds the event of a record: mostly the first one after the position that its document names.
    async fn locate(
        &self,
        stream: &ReplayStreamRef,
        wire_id: &WireEventId,
        stored: &StoredReplay,
    ) -> Result<Option<PlacedRecord>> {
        let query = EventQuery::new(stream.scope()?);
        let mut request = PageRequest { limit: Some(SEARCH_PAGE), cursor: stored.after.clone() };
        let mut is_from_first = request.cursor.is_none();
        loop {
            let page = match self.store.events.list_events(query.clone().with_page(request.clone())).await {
                // Events before the record were purged, or the position comes from the store that this one is a copy
                // of. So the search begins at the oldest event.
                Err(error)
                    if !is_from_first
                        && matches!(error.kind(), ErrorKind::CursorExpired | ErrorKind::InvalidCursor) =>
                {
                    (request.cursor, is_from_first) = (None, true);
                    continue;
                }
                page => page?,
            };
            for event in &page.items {
                let placed = PlacedRecord::from_event(event)?;
                if placed.payload.wire_id == *wire_id && stored.belongs_to(&placed.payload.stream, placed.sequence) {
                    return Ok(Some(placed));
                }
            }
            let Some(next) = page.next else { return Ok(None) };
            request.cursor = Some(next);
        }
    }

    /// Loads the contents of records. Those that were purged meanwhile are left out.
    async fn with_contents(&self, placed: Vec<PlacedRecord>) -> Result<Vec<ReplayRecord>> {
        let names = placed.iter().map(|placed| placed.stream.document(&placed.payload.wire_id));
        let stored = load_in_parts(&*self.store.documents, &names.collect::<Result<Vec<_>>>()?).await?;
        let mut records = Vec::with_capacity(placed.len());
        for (placed, document) in placed.into_iter().zip(stored) {
            records.extend(self.with_content(placed, document).await?);
        }
        Ok(records)
    }

    /// Returns a record with the content from its document; none if it was purged.
    ///
    /// # Errors
    /// `Corrupt` if the content is missing, but was not purged (RP-9).
    pub(super) async fn with_content(
        &self,
        placed: PlacedRecord,
        document: Option<Document>,
    ) -> Result<Option<ReplayRecord>> {
        if let Some(document) = document {
            let stored = StoredReplay::from_document(&document)?;
            if stored.belongs_to(&placed.payload.stream, placed.sequence) {
                return placed_with_content(placed, &stored, &document).map(Some);
            }
        }
        if self.was_purged(&placed).await? {
            return Ok(None);
        }
        let PlacedRecord { stream, sequence, .. } = placed;
        Err(Error::corrupt(format!("replay stream {stream}: the bytes of record {sequence} are missing")))
    }

    /// Returns whether a purge has removed the document of a record. This does not depend on a clock: that of the
    /// process that purges may be ahead.
    async fn was_purged(&self, placed: &PlacedRecord) -> Result<bool> {
        let Some(time) = placed.payload.expires_at else { return Ok(false) };
        let name = placed.stream.expiry_document(&placed.payload.wire_id, time)?;
        let found = self.store.documents.load_document(&name).await?;
        found.map_or(Ok(true), |document| Ok(StoredExpiry::from_document(&document)?.removed))
    }

    /// Loads the record that an event describes, without its content; none for an unknown event and for other events.
    pub(super) async fn load_placed(&self, id: &EventId) -> Result<Option<PlacedRecord>> {
        let event = self.store.events.load_event(id).await?;
        let kind = super::keys::event_kind()?;
        event.filter(|event| event.kind == kind).as_ref().map(PlacedRecord::from_event).transpose()
    }

    /// Loads the contents of what a subscription has received, without those that have expired.
    async fn receive(&self, received: Vec<Result<PlacedRecord>>) -> Vec<Result<ReplayRecord>> {
        let (now, mut placed, mut error) = (self.clock.now(), Vec::new(), None);
        for item in received {
            match item {
                Ok(record) if record.is_expired(now) => {}
                Ok(record) => placed.push(record),
                Err(found) => error = Some(found),
            }
        }
        match self.with_contents(placed).await {
            Ok(records) => records.into_iter().map(Ok).chain(error.map(Err)).collect(),
            Err(error) => vec![Err(error)],
        }
    }
}

fn placed_with_content(placed: PlacedRecord, stored: &StoredReplay, document: &Document) -> Result<ReplayRecord> {
    let content = stored.content(document)?;
    Ok(placed.with_content(content))
}

impl fmt::Debug for ReplayLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayLayer").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[async_trait]
impl ReplayStore for ReplayLayer {
    async fn append_replay(&self, request: AppendReplay) -> Result<AppendedReplay> {
        check_append(&request)?;
        let plan = || async {
            let plan = self.plan(&request.stream, &request.records).await?;
            let write = plan.write_for(&request)?;
            Ok((plan, write))
        };
        let (plan, written) = plan_and_write(&*self.store.documents, plan).await?;
        plan.answer(written.map(|written| written.events).unwrap_or_default())
    }

    async fn plan_replay(&self, stream: &ReplayStreamRef, records: &[NewReplay]) -> Result<ReplayPlan> {
        check_records(records)?;
        self.plan(stream, records).await
    }

    async fn load_replay(&self, id: &EventId) -> Result<Option<ReplayRecord>> {
        let Some(placed) = self.load_placed(id).await? else { return Ok(None) };
        Ok(self.with_contents(vec![placed]).await?.pop())
    }

    async fn find_replay(&self, stream: &ReplayStreamRef, wire_id: &WireEventId) -> Result<Option<ReplayRecord>> {
        let document = self.store.documents.load_document(&stream.document(wire_id)?).await?;
        match self.find(stream, wire_id, document).await {
            Ok(Found::Record(record)) => Ok(Some(*record)),
            Ok(Found::Nothing | Found::Remnant(_)) => Ok(None),
            Err(error) if error.kind() == ErrorKind::IdempotencyMismatch => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list_replay(&self, query: ReplayQuery) -> Result<Page<ReplayRecord>> {
        let events = EventQuery::new(query.stream.scope()?).with_direction(query.direction);
        let page = self.store.events.list_events(events.with_page(query.page.clone())).await?;
        let mut previous = query.page.cursor.as_ref().and_then(Position::unchecked_rank);
        let placed = page.items.iter().map(|event| next_in_order(event, &mut previous, query.direction));
        let mut placed = placed.collect::<Result<Vec<_>>>()?;
        let next = cut_page(&mut placed).or(page.next);
        let now = self.clock.now();
        placed.retain(|placed| !placed.is_expired(now));
        Ok(Page { items: self.with_contents(placed).await?, next })
    }

    async fn subscribe_replay(&self, stream: &ReplayStreamRef, after: Option<Cursor>) -> Result<ReplaySubscription> {
        let start = after.map_or(SubscriptionStart::First, SubscriptionStart::After);
        let subscription = self.store.events.subscribe(Subscribe::new(stream.scope()?, start)).await?;
        let first = subscription.started_after.as_ref().map_or(Some(0), Position::unchecked_rank);
        let placed = subscription.events.scan(first, |previous, event| {
            ready(Some(event.and_then(|event| next_in_order(&event, previous, Direction::Forward))))
        });
        let layer = self.clone();
        let records = until_error(placed).ready_chunks(LOADED_AT_ONCE).then(move |received| {
            let layer = layer.clone();
            async move { layer.receive(received).await }
        });
        Ok(Box::pin(until_error(records.flat_map(stream::iter))))
    }

    async fn redact_replay(&self, id: &EventId) -> Result<ReplayRecord> {
        self.redact(id).await
    }

    async fn purge_replay(&self, request: PurgeReplay, progress: &dyn Progress) -> Result<PurgedReplay> {
        self.purge(request, progress).await
    }
}
