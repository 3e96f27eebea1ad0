//! Tests events that many tasks append while other tasks list them and subscribe to them. All tasks must see the same
//! order, without gaps.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use store_core::{
    AppendEvents, Commit, CommitCoordinator, Cursor, Direction, Event, EventQuery, EventStore, Json, NewEvent,
    PageRequest, Scope, Subscribe, SubscriptionStart,
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    event_order::{EventAct, EventAnswer, EventOp, check_order},
    record::{Operation, Recorder},
};
use crate::{
    case::Contract,
    check::Failure,
    event::next_event,
    fixture::Fixture,
    given::{Given, id, read_all_pages},
    random::{Random, seed_from_env},
    test_length::TestLength,
};

/// The smallest name of a final event. The name of an event is a number, and is its payload. The names of all events
/// that are not final are smaller.
///
/// Each scope gets two final events after all others. A follower is a task that receives the events of a subscription
/// until a final one arrives. Because there are two, a follower that misses the first one still stops.
const FIRST_FINAL_NAME: u64 = 1 << 40;
/// The time that a follower waits for its next event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A test of events that many tasks append, list and follow at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOrder {
    /// The number of events. One append has one to eight of them.
    pub events: u64,
    /// The number of tasks that append them.
    pub writers: usize,
    /// The number of threads that they are appended to. One append in three also goes to a run.
    pub threads: usize,
    /// The seed of the random choices of the calls. The schedule of the tasks does not depend on it.
    pub seed: u64,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventFigures {
    /// The test.
    pub test: EventOrder,
    /// The number of events that were appended.
    pub events: u64,
    /// The number of appends.
    pub appends: usize,
    /// The number of lists that were read.
    pub reads: usize,
    /// The number of subscriptions that received everything.
    pub followers: usize,
}

impl fmt::Display for EventFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, events, appends, reads, followers } = self;
        write!(f, "AGENTSTORE_HISTORY_SEED={}: {events} events in {appends} appends, ", test.seed)?;
        write!(f, "{reads} lists and {followers} subscriptions, all in the same order")
    }
}

impl Default for EventOrder {
    /// Returns a test of 1,500 events (15,000 at length `full`, 50,000 at length `long`) of 16 tasks in 4 threads.
    /// The seed comes from `AGENTSTORE_HISTORY_SEED`: a number (1 if it is not set), or `random`.
    fn default() -> Self {
        let events = TestLength::pick_by_env(1_500, 15_000, 50_000);
        Self { events, writers: 16, threads: 4, seed: seed_from_env("AGENTSTORE_HISTORY_SEED") }
    }
}

/// The data that all tasks share.
struct EventOrderState {
    history: Recorder<EventOp, EventAnswer>,
    commits: Arc<dyn CommitCoordinator>,
    events: Arc<dyn EventStore>,
    event_counter: AtomicU64,
    is_done: AtomicBool,
    test: EventOrder,
}

/// Returns the pair of scopes with this number: a thread and a run.
fn scopes(at: usize) -> [Scope; 2] {
    [Scope::Thread(id(&format!("t-{at}"))), Scope::Run(id(&format!("r-{at}")))]
}

fn scope_id(scope: &Scope) -> String {
    match scope {
        Scope::Thread(id) => id.to_string(),
        Scope::Run(id) => id.to_string(),
        Scope::Topic(id) => id.to_string(),
    }
}

fn event_name(event: &Event) -> Result<u64, Failure> {
    let payload = event.payload.as_ref().ok_or_else(|| Failure::new("an event has no payload"))?;
    Ok(payload.to()?)
}

impl EventOrder {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails, or if a reader or a follower sees an order that is not the final order of its scope.
    pub async fn run(self, fixture: impl Fixture) -> Result<EventFigures, Failure> {
        let given = Given::open(Contract::EventStore, Arc::new(fixture)).await?;
        let events = given.stores()?.events.ok_or_else(|| Failure::new("the store has no events"))?;
        let (event_counter, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
        let (history, commits) = (Recorder::default(), given.commits()?);
        let shared = Arc::new(EventOrderState { history, commits, events, event_counter, is_done, test: self });
        let mut random = Random::new(self.seed);
        let (mut writers, mut readers, mut followers) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        for _ in 0..self.writers {
            writers.spawn(Arc::clone(&shared).write(random.fork()));
        }
        for at in 0..self.threads {
            for scope in scopes(at) {
                readers.spawn(Arc::clone(&shared).read(scope.clone(), random.fork()));
                for mode in
                    [FollowMode::First, FollowMode::Middle, FollowMode::Now, FollowMode::Restarts, FollowMode::Idle]
                {
                    followers.spawn(Arc::clone(&shared).follow(scope.clone(), mode, random.fork()));
                }
            }
        }
        join_all(writers).await?;
        for at in 0..self.threads {
            let (final_name, by_commit) = (FIRST_FINAL_NAME + 2 * at as u64, false);
            shared.append(scopes(at).to_vec(), vec![final_name, final_name + 1], by_commit).await?;
        }
        shared.is_done.store(true, Ordering::SeqCst);
        join_all(readers).await?;
        let follower_records = join_all(followers).await?;
        let figures = shared
            .check(&follower_records)
            .await
            .map_err(|failure| failure.about(format!("AGENTSTORE_HISTORY_SEED={}", self.seed)))?;
        given.store().close().await?;
        Ok(figures)
    }
}

async fn join_all<T: 'static>(mut tasks: JoinSet<Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.map_err(|panic| Failure::new(panic.to_string()))??);
    }
    Ok(results)
}

/// Where the subscription of a follower starts, and how the follower reads it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FollowMode {
    /// From the first event.
    First,
    /// From the last event on the first page of a list, after about a third of the events were appended.
    Middle,
    /// From now on, after about a third of the events were appended.
    Now,
    /// From the first event. The follower often subscribes again, from the last event that it received.
    Restarts,
    /// From the first event. The follower reads nothing until all events are appended.
    Idle,
}

impl FollowMode {
    const fn starts_at_first(self) -> bool {
        matches!(self, Self::First | Self::Restarts | Self::Idle)
    }
}

/// What a follower received.
struct FollowerRecord {
    scope: Scope,
    /// Whether the subscription started at [`SubscriptionStart::Now`].
    is_now: bool,
    /// The times at which the follower called `subscribe` and at which the call returned.
    times: (u64, u64),
    /// The event after which the subscription started; `None` if it started at the beginning.
    after: Option<Cursor>,
    /// The events that the follower received.
    names: Vec<u64>,
}

impl EventOrderState {
    /// Appends events: by a commit if `by_commit` is set and the only scope is a thread, and otherwise by
    /// `append_events`.
    async fn append(&self, scopes: Vec<Scope>, names: Vec<u64>, by_commit: bool) -> Result<(), Failure> {
        let mut drafts = Vec::new();
        for name in &names {
            drafts.push(NewEvent::new(id("fact"), scopes.clone()).with_payload(Json::of(name)?));
        }
        let (request, scope_ids) = (AppendEvents::new(drafts), scopes.iter().map(scope_id).collect());
        let invocation = self.history.record_invocation(EventOp { scopes: scope_ids, act: EventAct::Append(names) });
        match &scopes[..] {
            [Scope::Thread(thread)] if by_commit => {
                self.commits.commit(Commit::new(thread.clone()).with_events(request)).await.map(drop)?;
            }
            _ => self.events.append_events(request).await.map(drop)?,
        }
        self.history.record_return(invocation, EventAnswer::Appended);
        Ok(())
    }

    async fn write(self: Arc<Self>, mut random: Random) -> Result<(), Failure> {
        loop {
            let count = 1 + random.below(8) as u64;
            let first = self.event_counter.fetch_add(count, Ordering::SeqCst);
            let names: Vec<_> = (first..(first + count).min(self.test.events)).collect();
            if names.is_empty() {
                return Ok(());
            }
            let [thread, run] = scopes(random.below(self.test.threads));
            let scopes = if random.once_in(3) { vec![thread, run] } else { vec![thread] };
            let by_commit = random.once_in(4);
            self.append(scopes, names, by_commit).await?;
            tokio::task::yield_now().await;
        }
    }

    /// Lists a scope again and again: from the beginning, from the end, and page by page from the last event that
    /// this task received.
    async fn read(self: Arc<Self>, scope: Scope, mut random: Random) -> Result<(), Failure> {
        let mut last_read: Option<(u64, Cursor)> = None;
        loop {
            let is_done = self.is_done.load(Ordering::SeqCst);
            let full_query = EventQuery::new(scope.clone());
            match random.below(4) {
                0 => drop(self.list(EventAct::ReadAfter(None), full_query.with_page(PageRequest::first(50))).await?),
                1 => {
                    let back = full_query.with_direction(Direction::Backward).with_page(PageRequest::first(50));
                    drop(self.list(EventAct::ReadBackward, back).await?);
                }
                _ => {
                    let limit = 1 + u32::try_from(random.below(400)).unwrap_or(1);
                    let mut page = PageRequest::first(limit);
                    if let Some((_, cursor)) = &last_read {
                        page = page.after(cursor.clone());
                    }
                    let act = EventAct::ReadAfter(last_read.as_ref().map(|(name, _)| *name));
                    let (seen, is_end) = self.list(act, full_query.with_page(page)).await?;
                    if let Some(event) = seen.last() {
                        let cursor = event.cursor(&scope).cloned();
                        last_read =
                            Some((event_name(event)?, cursor.ok_or_else(|| Failure::new("an event has no cursor"))?));
                    }
                    if is_end && is_done {
                        return Ok(());
                    }
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    async fn list(&self, act: EventAct, query: EventQuery) -> Result<(Vec<Event>, bool), Failure> {
        let invocation = self.history.record_invocation(EventOp { scopes: vec![scope_id(&query.scope)], act });
        let page = self.events.list_events(query).await?;
        let names = page.items.iter().map(event_name).collect::<Result<Vec<_>, _>>()?;
        let is_end = page.next.is_none();
        self.history.record_return(invocation, EventAnswer::Read { names, is_end });
        Ok((page.items, is_end))
    }

    /// Follows a scope until one of its final events arrives.
    async fn follow(
        self: Arc<Self>,
        scope: Scope,
        mode: FollowMode,
        mut random: Random,
    ) -> Result<FollowerRecord, Failure> {
        while !mode.starts_at_first() && self.event_counter.load(Ordering::SeqCst) < self.test.events / 3 {
            sleep(Duration::from_millis(1)).await;
        }
        let start = match mode {
            FollowMode::First | FollowMode::Restarts | FollowMode::Idle => SubscriptionStart::First,
            FollowMode::Now => SubscriptionStart::Now,
            FollowMode::Middle => {
                let page = self.events.list_events(EventQuery::new(scope.clone())).await?;
                let cursor = page.items.last().and_then(|event| event.cursor(&scope)).cloned();
                cursor.map_or(SubscriptionStart::First, SubscriptionStart::After)
            }
        };
        let after = if let SubscriptionStart::After(cursor) = &start { Some(cursor.clone()) } else { None };
        let invoked = self.history.tick();
        let mut subscription = self.events.subscribe(Subscribe::new(scope.clone(), start)).await?;
        let (times, is_now) = ((invoked, self.history.tick()), mode == FollowMode::Now);
        let after = if is_now { subscription.started_after } else { after };
        let mut record = FollowerRecord { scope: scope.clone(), is_now, times, after, names: Vec::new() };
        while mode == FollowMode::Idle && !self.is_done.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(1)).await;
        }
        while record.names.last().is_none_or(|name| *name < FIRST_FINAL_NAME) {
            let event = timeout(EVENT_TIMEOUT, next_event(&mut subscription.events)).await;
            let event = event.map_err(|_| Failure::new(format!("no event arrived after {}", record.names.len())))?;
            let event = event.ok_or_else(|| Failure::new("a subscription ended"))??;
            record.names.push(event_name(&event)?);
            if mode == FollowMode::Restarts && random.once_in(50) {
                let cursor = event.cursor(&scope).cloned().ok_or_else(|| Failure::new("an event has no cursor"))?;
                subscription =
                    self.events.subscribe(Subscribe::new(scope.clone(), SubscriptionStart::After(cursor))).await?;
            }
        }
        Ok(record)
    }

    /// Checks that all events that readers and followers received are in the final order of their scope.
    async fn check(&self, follower_records: &[FollowerRecord]) -> Result<EventFigures, Failure> {
        let mut history = self.history.take();
        let is_append = |op: &EventOp| matches!(op.act, EventAct::Append(_));
        let appends = history.iter().filter(|operation| is_append(&operation.op)).count();
        let reads = history.len() - appends;
        for scope in (0..self.test.threads).flat_map(scopes) {
            let query = EventQuery::new(scope.clone());
            let list = |page| self.events.list_events(query.clone().with_page(page));
            let all_events = read_all_pages(PageRequest::first(1_000), list).await?;
            let names = all_events.iter().map(event_name).collect::<Result<Vec<_>, _>>()?;
            let counted = self.events.load_scope(&scope).await?.appended;
            if counted != names.len() as u64 {
                return Err(Failure::new(format!("{scope:?} counts {counted} events, but lists {}", names.len())));
            }
            let names_by_cursor: HashMap<_, _> =
                all_events.iter().filter_map(|event| event.cursor(&scope)).zip(&names).collect();
            for follower in follower_records.iter().filter(|follower| follower.scope == scope) {
                history.extend(follower.as_operations(&names_by_cursor)?);
            }
            if let Err(why) = check_order(&scope_id(&scope), &names, &history) {
                return Err(Failure::new(why));
            }
        }
        let events = self.test.events + 2 * self.test.threads as u64;
        Ok(EventFigures { test: self.test, events, appends, reads, followers: follower_records.len() })
    }
}

impl FollowerRecord {
    /// Returns two operations that stand for the subscription: its start, and a list of all events that it delivered.
    /// The list does not count as a last page, because the follower stops at the first of its two final events.
    fn as_operations(
        &self,
        names_by_cursor: &HashMap<&Cursor, &u64>,
    ) -> Result<[Operation<EventOp, EventAnswer>; 2], Failure> {
        let after = match &self.after {
            None => None,
            Some(cursor) => {
                Some(**names_by_cursor.get(cursor).ok_or_else(|| Failure::new("unknown cursor of a subscription"))?)
            }
        };
        let (invoked, returned) = self.times;
        let operation = |act, answer| Operation {
            op: EventOp { scopes: vec![scope_id(&self.scope)], act },
            invoked,
            returned: Some((returned, answer)),
        };
        let names = self.names.clone();
        Ok([
            operation(EventAct::Follow { is_now: self.is_now, after }, EventAnswer::Began(after)),
            operation(EventAct::ReadAfter(after), EventAnswer::Read { names, is_end: false }),
        ])
    }
}
