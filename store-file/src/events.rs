//! Events: reading and following them, and handing their changes to the writer.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendedEvents, Direction, Error, Event, EventFilter, EventId, EventQuery, EventReader,
    EventRetention, EventSubscriber, EventWriter, Page, PageBuilder, Position, RedactEvent, Result, Scope, ScopeInfo,
    Subscribe, Subscription, SubscriptionStart, TenantId, ThreadId, TrimRequest, Trimmed,
    event::{self, ChangeFollower, EventSource, ScopeState, StoredEvent},
    in_flight::CallScope,
};

use crate::{
    codec::{PlaceRow, Rows, damaged},
    error,
    index::{Key, Snapshot},
    line,
    names::{Part, redactions_log_id, scope_log_id},
    pages, records, refresh,
    shared::Shared,
    sweep::{STEP, sweep_step},
    table,
    tenant::Tenant,
    writer::{Answer, Ask},
};

/// A store that is open for reading looks at least this often for what the holder wrote: not every file system reports
/// changes.
const POLL: Duration = Duration::from_millis(200);
/// Events that a subscriber takes in one go.
const BATCH: usize = 256;
/// It takes no more once it has so many bytes.
const BATCH_BYTES: u32 = 4 << 20;

/// What a call about a scope comes after: a run may be of any thread.
fn about(scope: &Scope) -> CallScope {
    match scope {
        Scope::Thread(thread) => Some(thread.clone()),
        Scope::Run(_) | Scope::Topic(_) => None,
    }
}

#[async_trait]
impl EventWriter for Tenant {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let fenced = event::fenced_thread(&request)?;
        let first = request.drafts.iter().flat_map(|draft| &draft.scopes).min();
        let (id, part) = match (fenced, first) {
            (Some(thread), _) => (thread, Part::Thread),
            (None, Some(scope)) => (scope_log_id(scope)?, Part::Events),
            // The request has no scope: the writer refuses it.
            (None, None) => (ThreadId::new("none")?, Part::Events),
        };
        let ids: BTreeSet<ThreadId> =
            request.drafts.iter().flat_map(|draft| &draft.scopes).map(scope_log_id).collect::<Result<_>>()?;
        let about = Some(id.clone()).filter(|_| ids.len() == 1);
        match self.write_to((id, part), about, Ask::Emit(Box::new(request))).await? {
            Answer::Emitted(appended) => Ok(*appended),
            _ => Err(Error::closed()),
        }
    }
}

#[async_trait]
impl EventReader for Tenant {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        let id = id.clone();
        self.read(None, move |shared, tenant| {
            let snapshot = shared.index.snapshot();
            match snapshot.event_row(tenant, &id)? {
                Some(row) if snapshot.is_in_scope(tenant, &row)? => {
                    let stored = records::read(shared, row.log, row.span, line::decode_event)?;
                    Ok(Some(event::event_with_cursors(&stored, (tenant, &shared.cursor_key))))
                }
                _ => Ok(None),
            }
        })
        .await
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.read(about(&query.scope), move |shared, tenant| list(shared, tenant, &query)).await
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        let (about, scope, filter) = (about(scope), scope.clone(), filter.clone());
        self.read(about, move |shared, tenant| {
            let scoped = Scoped::new(shared, tenant, &scope)?;
            if filter == EventFilter::default() {
                return Ok(scoped.state.count - scoped.state.floor);
            }
            let mut count = 0;
            for found in scoped.walk(None, Direction::Forward) {
                count += u64::from(filter.admits(&scoped.load(&found?.1)?.event));
            }
            Ok(count)
        })
        .await
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        let (about, scope) = (about(scope), scope.clone());
        self.read(about, move |shared, tenant| {
            let state = Scoped::new(shared, tenant, &scope)?.state;
            let last =
                (state.count > 0).then(|| event::cursor_after(&scope, state.count, (tenant, &shared.cursor_key)));
            Ok(ScopeInfo::new(state.count, state.floor, last))
        })
        .await
    }
}

fn list(shared: &Shared, tenant: &TenantId, query: &EventQuery) -> Result<Page<Event>> {
    let mut page = PageBuilder::new(query.page.checked_limit()?);
    let tenant_and_cursor_key = (tenant, &shared.cursor_key);
    let after = event::seq_of_cursor(&query.scope, query.page.cursor.as_ref(), tenant_and_cursor_key)?;
    let scoped = Scoped::at(shared, tenant, &query.scope, after)?;
    after.map_or(Ok(()), |after| event::check_cursor(&scoped.state, after))?;
    for found in scoped.walk(after, query.direction) {
        let (seq, place) = found?;
        let stored = scoped.load(&place)?;
        let item = query.filter.admits(&stored.event).then_some(stored);
        if !page.offer(Position::new(seq, ""), u64::from(place.span.len), item) {
            break;
        }
    }
    let page = page.finish(|at| event::cursor_after(&query.scope, at.rank, tenant_and_cursor_key));
    Ok(page.map(|stored| event::event_with_cursors(&stored, tenant_and_cursor_key)))
}

/// A scope as a snapshot of the index has it.
struct Scoped<'a> {
    shared: &'a Shared,
    list: Key,
    state: ScopeState,
    snapshot: Snapshot,
}

impl<'a> Scoped<'a> {
    fn new(shared: &'a Shared, tenant: &TenantId, scope: &Scope) -> Result<Self> {
        shared.check_scope(tenant, scope)?;
        let snapshot = shared.index.snapshot();
        let (mut state, list) = (snapshot.scope_state(tenant, scope)?, table::event_places(tenant, scope));
        if shared.config.read_only {
            state.count = whole(&snapshot, &list, &state)?;
        }
        Ok(Self { shared, list, state, snapshot })
    }

    /// The scope for a read from a cursor on. A reader beside a holder may not have read as far as the cursor; then it
    /// reads what the holder wrote.
    fn at(shared: &'a Shared, tenant: &TenantId, scope: &Scope, cursor: Option<u64>) -> Result<Self> {
        let scoped = Self::new(shared, tenant, scope)?;
        if !shared.config.read_only || cursor.is_none_or(|at| at <= scoped.state.count) {
            return Ok(scoped);
        }
        refresh::refresh(shared)?;
        Self::new(shared, tenant, scope)
    }

    /// The places after one of them. As numbers have no gaps, a place that is missing is damage.
    fn walk(&self, after: Option<u64>, direction: Direction) -> impl Iterator<Item = Result<(u64, PlaceRow)>> {
        let (floor, count) = (self.state.floor, self.state.count);
        let at = after.unwrap_or(floor).max(floor);
        let from =
            (direction == Direction::Forward || after.is_some()).then(|| self.list.clone().number(at).into_bytes());
        let mut next = match (direction, after) {
            (Direction::Forward, _) => at + 1,
            (Direction::Backward, Some(_)) => at.saturating_sub(1),
            (Direction::Backward, None) => self.state.count,
        };
        let pairs = pages::behind(&self.snapshot, &self.list, direction, from);
        let places = pairs.map(|pair| -> Result<(u64, PlaceRow)> {
            let (key, value) = pair?;
            let seq = table::last_number(&key).ok_or_else(|| damaged("place of an event"))?;
            Ok((seq, PlaceRow::decode(&value).ok_or_else(|| damaged("place of an event"))?))
        });
        let is_beyond = move |found: &Result<(u64, PlaceRow)>| found.as_ref().is_ok_and(|(seq, _)| *seq > count);
        let mut places = places.filter(move |found| !is_beyond(found));
        let mut has_failed = false;
        std::iter::from_fn(move || {
            if has_failed || next <= floor || next > count {
                return None;
            }
            let found = match places.next() {
                Some(Ok((seq, place))) if seq == next => Ok((seq, place)),
                Some(Err(error)) => Err(error),
                _ => Err(error::corrupt(format!("events of a scope: number {next} is missing"), None)),
            };
            has_failed = found.is_err();
            next = if direction == Direction::Forward { next + 1 } else { next - 1 };
            Some(found)
        })
    }

    fn load(&self, place: &PlaceRow) -> Result<StoredEvent> {
        records::read(self.shared, place.log, place.span, line::decode_event)
    }
}

/// How many events of a scope a reader beside a holder can show. It reads the logs one after the other, so a log that
/// it read early may lack an event after which another log goes on. Only the end of a scope can lack events.
fn whole(snapshot: &Snapshot, list: &Key, state: &ScopeState) -> Result<u64> {
    let (mut count, mut next, mut is_empty) = (state.count, state.count, true);
    for pair in snapshot.prefix(list.as_bytes(), Direction::Backward).take(4 * STEP) {
        let seq = table::last_number(&pair?.0).ok_or_else(|| damaged("place of an event"))?;
        if seq <= state.floor {
            break;
        }
        if seq < next {
            count = seq;
        }
        (next, is_empty) = (seq - 1, false);
    }
    Ok(if is_empty { state.floor } else { count })
}

#[async_trait]
impl EventSubscriber for Tenant {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let Subscribe { scope, start, filter, .. } = request;
        // Before anything is read: what is appended from now on is heard of.
        let changes = self.shared.followers.follow(&(self.id.clone(), scope.clone()));
        let seen = match self.shared.config.read_only {
            true => self.shared.watch.changes(self.shared.vfs.root()),
            false => 0,
        };
        let (about, of) = (about(&scope), scope.clone());
        let (after, started_after) = self
            .read(about, move |shared, tenant| {
                let tenant_and_cursor_key = (tenant, &shared.cursor_key);
                let cursor = match &start {
                    SubscriptionStart::After(cursor) => event::seq_of_cursor(&of, Some(cursor), tenant_and_cursor_key)?,
                    SubscriptionStart::First | SubscriptionStart::Now => None,
                };
                let scoped = Scoped::at(shared, tenant, &of, cursor)?;
                let after = event::start_seq(&scoped.state, &of, &start, tenant_and_cursor_key)?;
                Ok((after, (after > 0).then(|| event::cursor_after(&of, after, tenant_and_cursor_key))))
            })
            .await?;
        let source = Source { of: self.clone(), scope, filter, seen };
        Ok(Subscription::new(started_after, event::event_stream(source, after, changes)))
    }
}

/// What a subscription reads.
struct Source {
    of: Tenant,
    scope: Scope,
    filter: EventFilter,
    /// How many changes of the holder were seen, in a store that is open for reading.
    seen: u64,
}

#[async_trait]
impl EventSource for Source {
    async fn read_next(&mut self, after: u64) -> Result<(u64, VecDeque<Event>)> {
        let (scope, filter) = (self.scope.clone(), self.filter.clone());
        let take = move |shared: &Arc<Shared>, tenant: &TenantId| {
            let scoped = Scoped::new(shared, tenant, &scope)?;
            event::check_cursor(&scoped.state, after)?;
            let (mut last, mut bytes, mut events) = (after, 0, VecDeque::new());
            for found in scoped.walk(Some(after), Direction::Forward).take(BATCH) {
                let (seq, place) = found?;
                let stored = scoped.load(&place)?;
                last = seq;
                if filter.admits(&stored.event) {
                    events.push_back(event::event_with_cursors(&stored, (tenant, &shared.cursor_key)));
                    bytes += place.span.len;
                }
                if bytes > BATCH_BYTES {
                    break;
                }
            }
            Ok((last, events))
        };
        self.of.read(None, take).await
    }

    async fn wait(&mut self, changes: &mut ChangeFollower) -> Result<()> {
        match self.of.shared.config.read_only {
            true => self.seen = self.of.look_again(self.seen, POLL).await?,
            false => changes.next().await?,
        }
        Ok(())
    }
}

#[async_trait]
impl EventRetention for Tenant {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let (id, scope) = (scope_log_id(&request.scope)?, request.scope.clone());
        let about = about(&scope);
        let answer = self.write_to((id, Part::Events), about, Ask::Trim(Box::new(request))).await?;
        let Answer::Trimmed(trimmed) = answer else { return Err(Error::closed()) };
        // What is below the floor shows nowhere any more; its removal may be cut short, and goes on with the next trim.
        let _ = self.change(move |shared, tenant| sweep(shared, tenant, &scope)).await;
        Ok(trimmed)
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        match self.write_to((redactions_log_id()?, Part::Events), None, Ask::Redact(requests)).await? {
            Answer::Redacted(count) => Ok(count),
            _ => Err(Error::closed()),
        }
    }
}

/// Removes from the index what lies below the floor of a scope, in bounded steps.
pub(crate) fn sweep(shared: &Shared, tenant: &TenantId, scope: &Scope) -> Result<()> {
    loop {
        // Not at the same time as the writer, which may read what is removed.
        let _exclusive = shared.exclusive();
        shared.check_sound()?;
        if !sweep_step(&shared.index, (tenant, scope), shared.time.now())? {
            return Ok(());
        }
    }
}
