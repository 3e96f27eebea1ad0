//! The replay log with planted bugs.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use store_core::{
    AppendReplay, AppendedReplay, Clock, Cursor, Direction, DocumentChange, DocumentKey, ErrorKind, EventId, Json,
    KeySegment, ManualClock, NewReplay, Page, PageRequest, Progress, PurgeReplay, PurgedReplay, ReplayLayer,
    ReplayPlan, ReplayQuery, ReplayRecord, ReplayStore, ReplayStreamRef, ReplaySubscription, Result, Timestamp,
    WireEventId, WriteDocuments, layers::LayerStore,
};

use super::LayerBug;

/// The replay log with a planted bug.
pub(super) struct BuggyReplay {
    inner: ReplayLayer,
    layers: LayerStore,
    clock: Arc<dyn Clock>,
    bug: LayerBug,
}

impl BuggyReplay {
    pub(super) fn new(layers: LayerStore, clock: Arc<dyn Clock>, bug: LayerBug) -> Self {
        let inner_clock: Arc<dyn Clock> = match bug {
            LayerBug::ReplayExpiryIgnored => Arc::new(ManualClock::new(Timestamp::MIN)),
            _ => Arc::clone(&clock),
        };
        Self { inner: ReplayLayer::new(layers.clone(), inner_clock), layers, clock, bug }
    }

    /// Changes the name of a stream as the bug does.
    fn stream(&self, stream: &ReplayStreamRef) -> Result<ReplayStreamRef> {
        if self.bug != LayerBug::ReplayVersionsMerged {
            return Ok(stream.clone());
        }
        ReplayStreamRef::new(stream.stream().clone(), stream.protocol().clone(), "1".parse()?)
    }

    /// Changes a record as the bug does.
    async fn change(&self, stream: &ReplayStreamRef, record: &mut NewReplay) -> Result<()> {
        match self.bug {
            LayerBug::ReplayBytesAsText => {
                record.bytes = String::from_utf8_lossy(&record.bytes).into_owned().into_bytes();
            }
            LayerBug::ReplayEmptyBytesAccepted if record.bytes.is_empty() => record.bytes.push(b' '),
            LayerBug::ReplaySourcesForgotten => record.sources.clear(),
            LayerBug::ReplayWireIdsOfAStream => {
                record.wire_id = format!("{}-{}", stream.stream(), record.wire_id).parse()?;
            }
            LayerBug::ReplayRepeatsAppended if self.inner.find_replay(stream, &record.wire_id).await?.is_some() => {
                record.wire_id = format!("{}-2", record.wire_id).parse()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends again what is stored under the wire ids of a request.
    async fn append_stored(&self, mut request: AppendReplay) -> Result<AppendedReplay> {
        for record in &mut request.records {
            if let Some(stored) = self.inner.find_replay(&request.stream, &record.wire_id).await? {
                record.bytes = stored.bytes().unwrap_or_default().to_vec();
                (record.wire_type, record.sources) = (stored.wire_type.clone(), stored.sources.clone());
                record.projector_version.clone_from(&stored.projector_version);
            }
        }
        self.inner.append_replay(request).await
    }

    /// Keeps a copy of the bytes of a record.
    async fn keep_bytes(&self, record: &ReplayRecord) -> Result<()> {
        let key = DocumentKey::new("layer.replay.records".parse()?, [KeySegment::Number(record.sequence)])?;
        let text = String::from_utf8_lossy(record.bytes().unwrap_or_default()).into_owned();
        let copy = DocumentChange::put(key, Json::of(&text)?);
        self.layers.documents.write_documents(WriteDocuments::new([copy])).await.map(drop)
    }
}

#[async_trait]
impl ReplayStore for BuggyReplay {
    async fn append_replay(&self, mut request: AppendReplay) -> Result<AppendedReplay> {
        request.stream = self.stream(&request.stream)?;
        for record in &mut request.records {
            self.change(&request.stream, record).await?;
        }
        match self.bug {
            LayerBug::ReplayClaimIgnored => request.fence = None,
            LayerBug::ReplayThreadIgnored => request.thread = None,
            LayerBug::ReplayOneByOne => {
                for record in &request.records {
                    let single = AppendReplay::new(request.stream.clone(), [record.clone()]);
                    self.inner.append_replay(single).await?;
                }
            }
            _ => {}
        }
        match self.inner.append_replay(request.clone()).await {
            Err(error)
                if self.bug == LayerBug::ReplayContentIgnored && error.kind() == ErrorKind::IdempotencyMismatch =>
            {
                self.append_stored(request).await
            }
            answer => answer,
        }
    }

    async fn plan_replay(&self, stream: &ReplayStreamRef, records: &[NewReplay]) -> Result<ReplayPlan> {
        if self.bug == LayerBug::ReplayBeforeTheCommit {
            self.inner.append_replay(AppendReplay::new(stream.clone(), records.to_vec())).await?;
        }
        self.inner.plan_replay(stream, records).await
    }

    async fn load_replay(&self, id: &EventId) -> Result<Option<ReplayRecord>> {
        let found = self.inner.load_replay(id).await?;
        let hides_expired = self.bug == LayerBug::ReplayExpiredNotLoaded;
        Ok(found.filter(|record| !hides_expired || record.expires_at.is_none_or(|time| time > self.clock.now())))
    }

    async fn find_replay(&self, stream: &ReplayStreamRef, wire_id: &WireEventId) -> Result<Option<ReplayRecord>> {
        if self.bug == LayerBug::ReplayFindsTheLast {
            let last = ReplayQuery::new(stream.clone()).with_direction(Direction::Backward);
            return Ok(self.inner.list_replay(last.with_page(PageRequest::first(1))).await?.items.pop());
        }
        self.inner.find_replay(stream, wire_id).await
    }

    async fn list_replay(&self, mut query: ReplayQuery) -> Result<Page<ReplayRecord>> {
        query.stream = self.stream(&query.stream)?;
        if self.bug == LayerBug::ReplayCursorIgnored && query.page.limit.is_none() {
            query.page.cursor = None;
        }
        let ignored = match self.bug {
            LayerBug::ReplayForeignCursorIgnored => Some(ErrorKind::InvalidCursor),
            LayerBug::ReplayExpiredCursorContinues => Some(ErrorKind::CursorExpired),
            _ => None,
        };
        let mut page = match self.inner.list_replay(query.clone()).await {
            Err(error) if Some(error.kind()) == ignored => {
                query.page.cursor = None;
                self.inner.list_replay(query).await?
            }
            Err(error) if self.bug == LayerBug::ReplayHoleSkipped && error.kind() == ErrorKind::Corrupt => {
                Page { items: Vec::new(), next: None }
            }
            answer => answer?,
        };
        match self.bug {
            LayerBug::ReplayNumbersRepeat => page.items.iter_mut().for_each(|record| record.sequence = 1),
            LayerBug::ReplayRedactedNotListed => page.items.retain(|record| record.bytes().is_some()),
            _ => {}
        }
        Ok(page)
    }

    async fn subscribe_replay(&self, stream: &ReplayStreamRef, after: Option<Cursor>) -> Result<ReplaySubscription> {
        let after = after.filter(|_| self.bug != LayerBug::ReplaySubscriptionFromTheFirst);
        let records = self.inner.subscribe_replay(&self.stream(stream)?, after).await?;
        if self.bug == LayerBug::ReplayDeliveredTwice {
            let twice = records.flat_map(|record| {
                let again = record.as_ref().ok().cloned().map(Ok);
                stream::iter([record].into_iter().chain(again))
            });
            return Ok(Box::pin(twice));
        }
        Ok(records)
    }

    async fn redact_replay(&self, id: &EventId) -> Result<ReplayRecord> {
        if self.bug == LayerBug::ReplayRedactedKept
            && let Some(record) = self.inner.load_replay(id).await?
        {
            self.keep_bytes(&record).await?;
        }
        self.inner.redact_replay(id).await
    }

    async fn purge_replay(&self, mut request: PurgeReplay, progress: &dyn Progress) -> Result<PurgedReplay> {
        if self.bug == LayerBug::ReplayDryRunPurges {
            request.dry_run = false;
        }
        self.inner.purge_replay(request, progress).await
    }
}
