//! Tests long lists: the events of a scope and the threads of a tenant, page by page, and a subscription to the
//! events.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, Direction, Event, EventQuery, EventStore, Json, NewEvent, NewThread, PageRequest, Scope, Subscribe,
    SubscriptionStart, ThreadFilter, ThreadOrder, ThreadQuery,
};
use tokio::time::timeout;

use crate::{
    case::Contract,
    check::{Failure, Verdict, expect, expect_eq, expect_some},
    event::next_event,
    fixture::Fixture,
    given::{Given, id, read_all_pages, run_concurrently},
    test_length::TestLength,
};

/// The number of events of one append.
const EVENTS_PER_APPEND: u64 = 500;
/// The time that a follower waits for its next event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The number of tasks that create threads.
const CREATOR_TASKS: u64 = 16;

/// A test that lists the events of one run, subscribes to them, and lists the threads of one tenant. Each event must be
/// delivered once and in order, and each thread must be listed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongLists {
    /// The number of events of one run.
    pub events: u64,
    /// The number of threads of one tenant.
    pub threads: u64,
}

/// The figures of a test that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongListFigures {
    /// The test.
    pub test: LongLists,
}

impl fmt::Display for LongListFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LongLists { events, threads } = self.test;
        write!(f, "{events} events listed and followed, each once and in order; {threads} threads listed, each once")
    }
}

impl Default for LongLists {
    /// Returns a test of 1,200 events and 300 threads (10,000 and 1,000 at length `full`, 100,000 and 10,000 at
    /// length `long`).
    fn default() -> Self {
        Self {
            events: TestLength::pick_by_env(1_200, 10_000, 100_000),
            threads: TestLength::pick_by_env(300, 1_000, 10_000),
        }
    }
}

fn scope() -> Scope {
    Scope::Run(id("long"))
}

/// Returns the number that the test gave to an event.
fn event_number(event: &Event) -> Result<u64, Failure> {
    Ok(expect_some(event.payload.as_ref(), "payload")?.to()?)
}

impl LongLists {
    /// Runs the test on a new store of `fixture`.
    ///
    /// # Errors
    /// If a call fails; or if a list or a subscription leaves out a record, repeats one, or has events out of order.
    pub async fn run(self, fixture: impl Fixture) -> Result<LongListFigures, Failure> {
        let given = Given::open(Contract::EventStore, Arc::new(fixture)).await?;
        self.check_events(&given).await.map_err(|failure| failure.about("events"))?;
        self.check_threads(&given).await.map_err(|failure| failure.about("threads"))?;
        given.store().close().await?;
        Ok(LongListFigures { test: self })
    }

    async fn check_events(self, given: &Given) -> Verdict {
        let events = given.stores()?.events.ok_or_else(|| Failure::new("the store has no events"))?;
        let early_follower = tokio::spawn(self.follow(Arc::clone(&events)));
        for first in (0..self.events).step_by(usize::try_from(EVENTS_PER_APPEND).unwrap_or(1)) {
            let mut drafts = Vec::new();
            for number in first..(first + EVENTS_PER_APPEND).min(self.events) {
                drafts.push(NewEvent::new(id("fact"), [scope()]).with_payload(Json::of(&number)?));
            }
            events.append_events(AppendEvents::new(drafts).expecting(scope(), first)).await?;
        }
        self.follow(Arc::clone(&events)).await?;
        early_follower.await.map_err(|panic| Failure::new(panic.to_string()))??;
        for direction in [Direction::Forward, Direction::Backward] {
            let query = EventQuery::new(scope()).with_direction(direction);
            let list = |page| events.list_events(query.clone().with_page(page));
            let mut found = read_all_pages(PageRequest::first(1_000), list)
                .await?
                .iter()
                .map(event_number)
                .collect::<Result<Vec<_>, _>>()?;
            if direction == Direction::Backward {
                found.reverse();
            }
            expect(
                found.iter().copied().eq(0..self.events),
                format!("the {direction:?} list has {} events, or has them out of order", found.len()),
            )?;
        }
        let info = events.load_scope(&scope()).await?;
        expect_eq((info.appended, info.events), (self.events, self.events))
    }

    /// Follows the scope from the beginning until the last event has arrived.
    async fn follow(self, events: Arc<dyn EventStore>) -> Verdict {
        let mut stream = events.subscribe(Subscribe::new(scope(), SubscriptionStart::First)).await?.events;
        for wanted in 0..self.events {
            let arrival = timeout(EVENT_TIMEOUT, next_event(&mut stream)).await;
            let event = arrival.map_err(|_| Failure::new(format!("event {wanted} did not arrive")))?;
            expect_eq(event_number(&expect_some(event.transpose()?, "event")?)?, wanted)?;
        }
        Ok(())
    }

    async fn check_threads(self, given: &Given) -> Verdict {
        let threads = given.threads()?;
        let create_all = run_concurrently(usize::try_from(CREATOR_TASKS).unwrap_or(1), |task| {
            let threads = Arc::clone(&threads);
            async move {
                for at in (task as u64..self.threads).step_by(usize::try_from(CREATOR_TASKS).unwrap_or(1)) {
                    threads.create_thread(NewThread::new(id(&format!("t-{at:05}")))).await?;
                }
                Ok::<_, store_core::Error>(())
            }
        });
        create_all.await.into_iter().collect::<Result<Vec<()>, _>>()?;
        expect_eq(threads.count_threads(&ThreadFilter::default()).await?, self.threads)?;
        let wanted: BTreeSet<_> = (0..self.threads).map(|at| format!("t-{at:05}")).collect();
        let orders = [ThreadOrder::Creation, ThreadOrder::LastActivity];
        for (order, direction) in
            orders.into_iter().flat_map(|o| [Direction::Forward, Direction::Backward].map(|d| (o, d)))
        {
            let query = ThreadQuery::default().ordered(order, direction);
            let found =
                read_all_pages(PageRequest::first(100), |page| threads.list_threads(query.clone().with_page(page)))
                    .await?;
            let listed_ids: BTreeSet<_> = found.iter().map(|thread| thread.id.to_string()).collect();
            expect(
                listed_ids == wanted,
                format!("{} threads are listed by {order:?} {direction:?}", listed_ids.len()),
            )?;
            expect_eq(found.len() as u64, self.threads)?;
        }
        Ok(())
    }
}
