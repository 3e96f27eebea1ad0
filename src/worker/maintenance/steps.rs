//! The steps of maintenance: each a call that others may make at the same time, repeated until there is nothing left.

use std::{fmt, sync::Arc, time::Duration};

use store_core::{
    Clock, CommitCoordinator, Direction, DispatchFilter, DispatchQuery, DispatchStatus, Error, EventStore, MAX_PAGE,
    MailboxStore, PageRequest, Progress, PruneRequest, Purge, PurgeOutbox, Result, RunFilter, RunQuery, Scope,
    TenantStores, ThreadId, ThreadOrder, ThreadQuery, ThreadRunStore, Timestamp, TrimBefore, TrimRequest,
};
use tokio_util::sync::CancellationToken;

use super::{Maintained, Retention};
use crate::worker::telemetry;

/// The most that one call ends or removes: between two calls others are served, and a stop is heard.
const STEP: u32 = 1_000;

/// What the steps work on.
pub(super) struct Steps {
    pub(super) stores: TenantStores,
    pub(super) retention: Retention,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) mailbox_clock: Arc<dyn Clock>,
    pub(super) backend: &'static str,
    pub(super) stopping: CancellationToken,
}

/// What a step did, and what ended it before it was through.
type Did = (u64, Option<Error>);

const NOTHING: Did = (0, None);

impl Steps {
    /// Every step once; the first error.
    pub(super) async fn round(&self, done: &mut Maintained) -> Option<Error> {
        let mut first = None;
        let mut failed = 0;
        let mut note = |step: &'static str, count: &mut u64, (did, error): Did| {
            *count += did;
            if let Some(error) = error {
                tracing::warn!(step, %error, "a step of maintenance failed");
                failed += 1;
                first = first.take().or(Some(error));
            }
        };
        note("reclaim", &mut done.reclaimed, self.reclaim().await);
        note("purge dispatches", &mut done.dispatches, self.purge().await);
        note("purge outbox", &mut done.outbox, self.purge_outbox().await);
        note("prune threads", &mut done.threads, self.prune().await);
        note("purge deleted threads", &mut done.deleted, self.purge_deleted().await);
        note("trim events", &mut done.events, self.trim().await);
        note("measure", &mut 0, (0, self.measure().await.err()));
        done.failed += failed;
        first
    }

    fn mailbox(&self) -> Option<&dyn MailboxStore> {
        self.stores.mailbox.as_deref()
    }

    fn commits(&self) -> Option<&dyn CommitCoordinator> {
        self.stores.commits.as_deref()
    }

    /// Calls a step until it says that nothing is left, or maintenance is to stop.
    async fn repeat<F>(&self, step: impl Fn() -> F) -> Did
    where
        F: Future<Output = Result<(u64, bool)>>,
    {
        let mut done = 0;
        while !self.stopping.is_cancelled() {
            match step().await {
                Ok((did, more)) => {
                    done += did;
                    if !more {
                        break;
                    }
                }
                Err(error) => return (done, Some(error)),
            }
        }
        (done, None)
    }

    async fn reclaim(&self) -> Did {
        let Some(mailbox) = self.mailbox() else { return NOTHING };
        let step = || async {
            let ended = mailbox.reclaim(STEP).await?;
            let count = ended.requeued.len() + ended.dead_lettered.len() + ended.superseded.len();
            Ok((count as u64, count >= STEP as usize))
        };
        self.repeat(step).await
    }

    async fn purge(&self) -> Did {
        let (Some(mailbox), Some(age)) = (self.mailbox(), self.retention.dispatches) else { return NOTHING };
        let before = self.mailbox_clock.now().saturating_sub(age);
        let step = || async {
            let removed = mailbox.purge(Purge::new(before)).await?.removed;
            Ok((removed, removed > 0))
        };
        self.repeat(step).await
    }

    async fn purge_outbox(&self) -> Did {
        let (Some(outbox), Some(age)) = (&self.stores.outbox, self.retention.outbox) else { return NOTHING };
        let before = self.clock.now().saturating_sub(age);
        let step = || async {
            let removed = outbox.purge_outbox(PurgeOutbox::new(before)).await?;
            Ok((removed, removed > 0))
        };
        self.repeat(step).await
    }

    async fn prune(&self) -> Did {
        let (Some(threads), Some(idle)) = (&self.stores.threads, self.retention.threads) else { return NOTHING };
        let step = || async {
            let pruned = threads.prune_threads(PruneRequest { idle, limit: STEP, dry_run: false }).await?;
            // A store may say that more remain without taking any: then they are for the next round.
            Ok((pruned.threads.len() as u64, pruned.more && !pruned.threads.is_empty()))
        };
        self.repeat(step).await
    }

    async fn purge_deleted(&self) -> Did {
        let Some(threads) = &self.stores.threads else { return NOTHING };
        match threads.purge_deleted(&UntilStopped(self.stopping.clone())).await {
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Trims the scopes of each thread and of its runs. Creation orders the walk, so that none is missed that is there
    /// throughout (PG-4).
    async fn trim(&self) -> Did {
        let (Some(commits), Some(age)) = (self.commits(), self.retention.events) else { return NOTHING };
        let (threads, events) = (commits.threads(), commits.events());
        let before = self.clock.now().saturating_sub(age);
        let mut done = 0;
        let mut page = PageRequest::first(MAX_PAGE);
        while !self.stopping.is_cancelled() {
            let query =
                ThreadQuery::default().ordered(ThreadOrder::Creation, Direction::Forward).with_page(page.clone());
            let listed = match threads.list_threads(query).await {
                Ok(listed) => listed,
                Err(error) => return (done, Some(error)),
            };
            for thread in listed.items {
                if self.stopping.is_cancelled() {
                    return (done, None);
                }
                match trim_thread(&*threads, &*events, &thread.id, before).await {
                    Ok(trimmed) => done += trimmed,
                    Err(error) => return (done, Some(error)),
                }
            }
            let Some(next) = listed.next else { break };
            page = page.after(next);
        }
        (done, None)
    }

    /// How much waits, and for how long the first of it: gauges, where somebody reads them.
    async fn measure(&self) -> Result<()> {
        let Some(mailbox) = self.mailbox().filter(|_| telemetry::IS_READ) else { return Ok(()) };
        let queued = mailbox.count_dispatches(None).await?.queued;
        let filter = DispatchFilter::default().in_status([DispatchStatus::Queued]);
        let query = DispatchQuery::new(filter).with_page(PageRequest::first(1));
        let oldest = mailbox.list_dispatches(query).await?.items.into_iter().next();
        let age = oldest
            .map_or(0, |oldest| self.mailbox_clock.now().as_millis().saturating_sub(oldest.created_at.as_millis()));
        telemetry::waiting(self.backend, queued, Duration::from_millis(age));
        Ok(())
    }
}

async fn trim_thread(
    threads: &dyn ThreadRunStore,
    events: &dyn EventStore,
    thread: &ThreadId,
    before: Timestamp,
) -> Result<u64> {
    let trim = async |scope| {
        let request = TrimRequest::new(scope, TrimBefore::Time(before));
        events.trim_events(request).await.map(|trimmed| trimmed.events)
    };
    let mut done = trim(Scope::Thread(thread.clone())).await?;
    let mut page = PageRequest::first(MAX_PAGE);
    loop {
        let mut filter = RunFilter::default();
        filter.thread = Some(thread.clone());
        let mut query = RunQuery::new(filter);
        query.page = page.clone();
        let listed = threads.list_runs(query).await?;
        for run in listed.items {
            done += trim(Scope::Run(run.id.clone())).await?;
        }
        let Some(next) = listed.next else { return Ok(done) };
        page = page.after(next);
    }
}

/// Goes on until maintenance is to stop.
struct UntilStopped(CancellationToken);

impl Progress for UntilStopped {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        !self.0.is_cancelled()
    }
}

impl fmt::Debug for UntilStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UntilStopped")
    }
}
