//! Events: appending, reading, subscribing, trimming.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    AppendEvents, AppendedEvents, Direction, Event, EventFilter, EventId, EventQuery, EventReader, EventRetention,
    EventSubscriber, EventWriter, Page, PageBuilder, Position, RedactEvent, Result, Scope, ScopeInfo, Subscribe,
    Subscription, TrimRequest, Trimmed,
    codec::Codec,
    commit::{CommitView, DecisionContext},
    event::{self, AppendOptions, ChangeFollower, EventKeyRecord, EventSource, EventView, ScopeState, StoredEvent},
    in_flight::CallScope,
    length,
};

use crate::{
    cache::{self, Lookup, RecordCache, decode, scope_kind_and_id},
    columns::{read_i64, read_optional, read_text, read_u64},
    db::{Connection, add, signed, unsigned},
    decide::{CacheUpdate, RuleResult, decide, decide_without_thread},
    store::TenantHandle,
    tenant::Tenant,
    write::Batch,
};

/// The maximum number of events that a subscription reads at once.
const BATCH_EVENTS: u64 = 256;
/// How many events of a page are read at once.
const CHUNK: u64 = 256;
/// How often a subscription polls for events that were not announced to it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a subscription continues while the server is unreachable.
const MAX_UNREACHABLE: Duration = Duration::from_secs(60);
/// How often a subscription tries to reach a server that is unreachable.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The events of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresEvents {
    tenant: TenantHandle,
}

impl PostgresEvents {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

/// Returns the records that an append needs.
pub(crate) fn events_lookup(request: Option<&AppendEvents>) -> Lookup {
    let Some(request) = request else { return Lookup::default() };
    let key = request.writer.clone().zip(request.key.clone());
    Lookup {
        scopes: request.drafts.iter().flat_map(|draft| draft.scopes.iter().cloned()).collect(),
        event_keys: key.into_iter().collect(),
        ..Lookup::default()
    }
}

/// Returns the thread that a call about an event scope is about. A run may belong to any thread, so a call about a run
/// is not limited to one.
fn thread_of_scope(scope: &Scope) -> CallScope {
    match scope {
        Scope::Thread(thread) => Some(thread.clone()),
        Scope::Run(_) | Scope::Topic(_) => None,
    }
}

#[async_trait]
impl EventWriter for PostgresEvents {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let fenced_thread = event::fenced_thread(&request)?;
        let mut scopes = request.drafts.iter().flat_map(|draft| &draft.scopes);
        let thread = scopes.find_map(thread_of_scope);
        let all_of_one_thread =
            request.drafts.iter().flat_map(|draft| &draft.scopes).all(|scope| thread_of_scope(scope) == thread);
        let thread_of_call = thread.clone().filter(|_| all_of_one_thread);
        let call = |tenant: Arc<Tenant>| async move {
            let likely_records = events_lookup(Some(&request));
            match (fenced_thread, thread) {
                (Some(thread), _) => {
                    let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                        append_fenced(cache, &request, decision_context)
                    };
                    decide(&tenant, &thread, likely_records, rule).await
                }
                (None, Some(thread)) => {
                    let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                        append(cache, &request, decision_context)
                    };
                    decide(&tenant, &thread, likely_records, rule).await
                }
                (None, None) => {
                    let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                        append(cache, &request, decision_context)
                    };
                    decide_without_thread(&tenant, likely_records, rule).await
                }
            }
        };
        self.tenant.run_write(thread_of_call, call).await
    }
}

fn append(
    cache: &RecordCache,
    request: &AppendEvents,
    decision_context: DecisionContext<'_>,
) -> Result<RuleResult<AppendedEvents>> {
    let change = event::append(cache, request, decision_context, AppendOptions::default())?;
    let Some(plan) = change.plan else { return Ok(RuleResult::Answer(change.answer)) };
    let mut batch = Batch::default();
    batch.add_events(cache, &plan);
    Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Events(Box::new(plan), None), answer: change.answer })
}

/// Appends under a claim. The same atomic step records the claim as the newest that has written to the thread (CM-44).
fn append_fenced(
    cache: &RecordCache,
    request: &AppendEvents,
    decision_context: DecisionContext<'_>,
) -> Result<RuleResult<AppendedEvents>> {
    let (thread, mut id_record) = (cache.thread()?, cache.id_record()?);
    let options =
        AppendOptions { id_record: Some(&mut id_record), claims: cache.fenced_mailbox(), ..AppendOptions::default() };
    let change = event::append(cache, request, decision_context, options)?;
    let Some(plan) = change.plan else { return Ok(RuleResult::Answer(change.answer)) };
    let mut batch = Batch::default();
    if let (Some(id), Some(row)) = (&cache.id, &cache.row) {
        batch.add_thread(id, row, (thread, id_record.clone()));
        batch.require_unchanged_claims(cache, id)?;
    }
    batch.add_events(cache, &plan);
    let cache_update = CacheUpdate::Events(Box::new(plan), Some(id_record));
    Ok(RuleResult::Write { batch, cache_update, answer: change.answer })
}

fn scope_arguments(tenant: &Tenant, scope: &Scope) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    let (kind, id) = scope_kind_and_id(scope);
    add(&mut arguments, kind)?;
    add(&mut arguments, id)?;
    Ok(arguments)
}

fn tenant_and_cursor_key(tenant: &Tenant) -> (&store_core::TenantId, &store_core::CursorKey) {
    (&tenant.constants.tenant, &tenant.constants.cursor_key)
}

#[async_trait]
impl EventReader for PostgresEvents {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_event, arguments).await?;
            let stored = rows.first().map(|row| -> Result<StoredEvent> {
                let stored = cache::decode_event(&read_text(row, 2)?, read_i64(row, 0)?, read_i64(row, 1)?)?;
                Ok(stored.with_topic_seqs(read_topic_seqs(row, 3)?))
            });
            Ok(stored.transpose()?.map(|stored| event::event_with_cursors(&stored, tenant_and_cursor_key(&tenant))))
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let after = event::seq_of_cursor(&query.scope, query.page.cursor.as_ref(), tenant_and_cursor_key(&tenant))?;
            let mut connection = tenant.db().begin_snapshot().await?;
            let mut walk = EventWalk { scope: &query.scope, after, direction: query.direction };
            let mut chunk = length(query.page.checked_limit()? + 1).min(CHUNK);
            let mut is_first = true;
            'all: loop {
                let (state, found) = walk.next(&tenant, &mut connection, chunk).await?;
                if let Some(after) = after.filter(|_| std::mem::take(&mut is_first)) {
                    event::check_cursor(&state, after)?;
                }
                let is_last = length(found.len()) < chunk;
                for (seq, bytes, stored) in found {
                    let item = query.filter.admits(&stored.event).then_some(stored);
                    if !page.offer(Position::new(seq, ""), bytes, item) {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                chunk = CHUNK;
            }
            connection.commit().await?;
            let page = page.finish(|at| event::cursor_after(&query.scope, at.rank, tenant_and_cursor_key(&tenant)));
            Ok(page.map(|stored| event::event_with_cursors(&stored, tenant_and_cursor_key(&tenant))))
        };
        self.tenant.run_read(None, call).await
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        let (scope, filter) = (scope.clone(), filter.clone());
        let call = |tenant: Arc<Tenant>| async move {
            if filter == EventFilter::default() {
                let state = load_scope_state(&tenant, &mut tenant.db().any_connection(), &scope).await?;
                return Ok(state.count - state.floor);
            }
            let mut connection = tenant.db().begin_snapshot().await?;
            let mut walk = EventWalk { scope: &scope, after: None, direction: Direction::Forward };
            let mut count = 0;
            loop {
                let (_, found) = walk.next(&tenant, &mut connection, CHUNK).await?;
                count += length(found.iter().filter(|(.., stored)| filter.admits(&stored.event)).count());
                if length(found.len()) < CHUNK {
                    break;
                }
            }
            connection.commit().await?;
            Ok(count)
        };
        self.tenant.run_read(None, call).await
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        let scope = scope.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let state = load_scope_state(&tenant, &mut tenant.db().any_connection(), &scope).await?;
            let last =
                (state.count > 0).then(|| event::cursor_after(&scope, state.count, tenant_and_cursor_key(&tenant)));
            Ok(ScopeInfo::new(state.count, state.floor, last))
        };
        self.tenant.run_read(None, call).await
    }
}

async fn load_scope_state(tenant: &Tenant, connection: &mut Connection<'_>, scope: &Scope) -> Result<ScopeState> {
    let rows = connection.read(|sql| &sql.load_scope, scope_arguments(tenant, scope)?).await?;
    let state = rows.first().map(|row| decode::<ScopeState>("scope", &read_text(row, 0)?)).transpose()?;
    Ok(state.unwrap_or_default())
}

/// Events, each with its sequence number and the length of its record.
type FoundEvents = Vec<(u64, u64, StoredEvent)>;

/// A walk over the events of a scope.
struct EventWalk<'a> {
    scope: &'a Scope,
    after: Option<u64>,
    direction: Direction,
}

impl EventWalk<'_> {
    /// Returns the state of the scope, and the next events with their sequence numbers and sizes.
    async fn next(
        &mut self,
        tenant: &Tenant,
        connection: &mut Connection<'_>,
        chunk: u64,
    ) -> Result<(ScopeState, FoundEvents)> {
        let is_forward = self.direction == Direction::Forward;
        let start = if is_forward { 0 } else { i64::MAX };
        let list_index = match self.scope {
            Scope::Thread(_) => 0,
            Scope::Run(_) => 1,
            Scope::Topic(_) => 2,
        };
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.constants.tenant.as_str())?;
        add(&mut arguments, scope_kind_and_id(self.scope).1)?;
        add(&mut arguments, self.after.map_or(Ok(start), signed)?)?;
        add(&mut arguments, signed(chunk)?)?;
        let rows = connection.read(|sql| sql.lists.events(list_index, is_forward), arguments).await?;
        let Some(first) = rows.first() else { return Ok((ScopeState::default(), Vec::new())) };
        let state = decode::<ScopeState>("scope", &read_text(first, 0)?)?;
        let found = rows.iter().filter_map(|row| decode_event_row(row).transpose()).collect::<Result<FoundEvents>>()?;
        self.after = found.last().map(|(seq, ..)| *seq).or(self.after);
        Ok((state, found))
    }
}

fn decode_event_row(row: &PgRow) -> Result<Option<(u64, u64, StoredEvent)>> {
    if read_optional::<i64>(row, 1)?.is_none() {
        return Ok(None);
    }
    let record = read_text(row, 4)?;
    let stored = cache::decode_event(&record, read_i64(row, 2)?, read_i64(row, 3)?)?;
    let stored = stored.with_topic_seqs(read_topic_seqs(row, 5)?);
    Ok(Some((read_u64(row, 1)?, length(record.len()), stored)))
}

/// Reads the sequence numbers of an event in its topics.
fn read_topic_seqs(row: &PgRow, at: usize) -> Result<Vec<u64>> {
    read_optional::<Vec<i64>>(row, at)?.unwrap_or_default().into_iter().map(unsigned).collect()
}

#[async_trait]
impl EventSubscriber for PostgresEvents {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let Subscribe { scope, start, filter, .. } = request;
        // The follower is registered before the state is read, so that it misses no later change.
        let changes = self.tenant.followers.follow(&scope);
        let event_scope = scope.clone();
        let call = |tenant: Arc<Tenant>| async move {
            load_scope_state(&tenant, &mut tenant.db().any_connection(), &event_scope).await
        };
        let state = self.tenant.run_read(None, call).await?;
        let after = event::start_seq(&state, &scope, &start, tenant_and_cursor_key(&self.tenant))?;
        let started_after =
            (after > 0).then(|| event::cursor_after(&scope, after, tenant_and_cursor_key(&self.tenant)));
        let source = SubscriptionSource { tenant: self.tenant.clone(), scope, filter, unreachable_since: None };
        Ok(Subscription::new(started_after, event::event_stream(source, after, changes)))
    }
}

/// The source from which a subscription reads.
struct SubscriptionSource {
    tenant: TenantHandle,
    scope: Scope,
    filter: EventFilter,
    /// The time since which the server has been unreachable. `None` if it is reachable.
    unreachable_since: Option<Instant>,
}

impl SubscriptionSource {
    async fn next(&self, after: u64) -> Result<(u64, VecDeque<Event>)> {
        let scope = self.scope.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut walk = EventWalk { scope: &scope, after: Some(after), direction: Direction::Forward };
            walk.next(&tenant, &mut tenant.db().any_connection(), BATCH_EVENTS).await
        };
        let (state, found) = self.tenant.run_read(None, call).await?;
        event::check_cursor(&state, after)?;
        let last = found.last().map_or(after, |(seq, ..)| *seq);
        let admitted = found.into_iter().filter(|(_, _, stored)| self.filter.admits(&stored.event));
        let events = admitted
            .map(|(_, _, stored)| event::event_with_cursors(&stored, tenant_and_cursor_key(&self.tenant)))
            .collect();
        Ok((last, events))
    }
}

#[async_trait]
impl EventSource for SubscriptionSource {
    #[expect(clippy::disallowed_methods, reason = "measures how long the server has been unavailable")]
    async fn read_next(&mut self, after: u64) -> Result<(u64, VecDeque<Event>)> {
        match self.next(after).await {
            Err(error)
                if error.is_retryable()
                    && self.unreachable_since.get_or_insert_with(Instant::now).elapsed() < MAX_UNREACHABLE =>
            {
                Ok((after, VecDeque::new()))
            }
            answer => {
                self.unreachable_since = None;
                answer
            }
        }
    }

    async fn wait(&mut self, changes: &mut ChangeFollower) -> Result<()> {
        let wait = if self.unreachable_since.is_some() { RETRY_INTERVAL } else { POLL_INTERVAL };
        // Notifications about the writes of other processes can be lost. So the wait ends after a while, and the
        // subscription polls.
        tokio::time::timeout(wait, changes.next()).await.unwrap_or(Ok(()))
    }
}

#[async_trait]
impl EventRetention for PostgresEvents {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let thread_of_call = thread_of_scope(&request.scope);
        let call = |tenant: Arc<Tenant>| async move {
            let trimmed = raise_floor(&tenant, &request).await?;
            if !request.dry_run {
                while remove_trimmed(&tenant, &request.scope).await? {}
            }
            Ok(trimmed)
        };
        self.tenant.run_write(thread_of_call, call).await
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        let call = |tenant: Arc<Tenant>| async move { redact(&tenant, &requests).await };
        self.tenant.run_write(None, call).await
    }
}

async fn redact(tenant: &Tenant, requests: &[RedactEvent]) -> Result<u64> {
    event::check_redactions(requests)?;
    let mut connection = tenant.db().any_connection();
    let (mut ids, mut records) = (Vec::new(), Vec::new());
    for request in requests {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.constants.tenant.as_str())?;
        add(&mut arguments, request.id.as_str())?;
        for row in connection.read(|sql| &sql.load_event, arguments).await? {
            let stored = cache::decode_event(&read_text(&row, 2)?, read_i64(&row, 0)?, read_i64(&row, 1)?)?;
            if let Some(redacted) = event::redacted(&stored, request.payload.as_ref()) {
                ids.push(request.id.to_string());
                records.push(redacted.event.encode());
            }
        }
    }
    let count = length(ids.len());
    if count > 0 {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.constants.tenant.as_str())?;
        add(&mut arguments, ids)?;
        add(&mut arguments, records)?;
        connection.write(|sql| &sql.redact_events, arguments).await.map_err(|failed| failed.error)?;
    }
    Ok(count)
}

/// Raises the floor of a scope: the sequence number up to which its events are trimmed. Readers no longer see trimmed
/// events.
async fn raise_floor(tenant: &Tenant, request: &TrimRequest) -> Result<Trimmed> {
    let TrimRequest { scope, before, dry_run, .. } = request;
    let mut connection = tenant.db().begin_snapshot().await?;
    let mut walk = EventWalk { scope, after: None, direction: Direction::Forward };
    let mut floor = 0;
    let (state, floor) = loop {
        let (state, found) = walk.next(tenant, &mut connection, CHUNK).await?;
        let (count, reached) = (length(found.len()), state.clone().after_trim(floor));
        let events = found.into_iter().map(|(.., stored)| Ok(stored.event));
        floor = event::last_trimmed_seq(&reached, scope, before, tenant_and_cursor_key(tenant), events)?;
        // If all events of the chunk are trimmed, there may be more to trim.
        if count < CHUNK || floor < reached.floor + count {
            break (state, floor);
        }
    };
    connection.commit().await?;
    let trimmed = Trimmed::new(floor - state.floor, floor);
    if floor > state.floor && !dry_run {
        let likely_records = Lookup { scopes: [scope.clone()].into(), ..Lookup::default() };
        let rule = |cache: &RecordCache, _: DecisionContext<'_>| {
            let current = cache.scope(scope)?;
            if current.floor >= floor {
                return Ok(RuleResult::Answer(()));
            }
            let mut batch = Batch::default();
            batch.add_scope(scope, current.clone(), current.after_trim(floor));
            Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Nothing, answer: () })
        };
        decide_without_thread(tenant, likely_records, rule).await?;
    }
    Ok(trimmed)
}

/// Removes some of the trimmed events. Returns whether there may be more.
async fn remove_trimmed(tenant: &Tenant, scope: &Scope) -> Result<bool> {
    let mut connection = tenant.db().any_connection();
    let rows = connection
        .write(|sql| &sql.remove_trimmed_events, scope_arguments(tenant, scope)?)
        .await
        .map_err(|failed| failed.error)?;
    for row in &rows {
        let (Some(writer), Some(key)) = (read_optional::<String>(row, 1)?, read_optional::<String>(row, 2)?) else {
            continue;
        };
        let key_arguments = || -> Result<PgArguments> {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, writer.as_str())?;
            add(&mut arguments, key.as_str())?;
            Ok(arguments)
        };
        let found = connection.read(|sql| &sql.event_key, key_arguments()?).await?;
        let Some(found) = found.first() else { continue };
        let record = decode::<EventKeyRecord>("event key", &read_text(found, 0)?)?;
        let has_event = read_optional::<bool>(found, 1)?.unwrap_or_default();
        if !event::must_keep_event_key(&record, has_event, tenant.db().clock.now()?) {
            connection.write(|sql| &sql.forget_event_key, key_arguments()?).await.map_err(|failed| failed.error)?;
        }
    }
    Ok(!rows.is_empty())
}
