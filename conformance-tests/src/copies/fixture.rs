//! A fixture whose stores are copied when they are opened again.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use store_core::{
    Capabilities, Error, IgnoreProgress, Limits, NewDispatch, NewThread, PageRequest, Result, Store, TenantId,
    TimeSource, Timestamp,
    records::{CopyOptions, copy_tenant},
};

use crate::{
    case::Need,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
    given::id,
};

/// Opens stores of several fixtures in turn. A store is opened again by opening it and copying everything to a new
/// store of the next fixture.
pub struct CopyingFixture {
    fixtures: Vec<Arc<dyn Fixture>>,
    next: AtomicUsize,
    gaps: Vec<Gap>,
}

/// An opened store, and the fixture that opened it.
struct Copied {
    opened: OpenedStore,
    fixture: usize,
}

impl CopyingFixture {
    /// Opens stores of the first fixture, of the second one and so on, in turn. A check of copies with these stores
    /// copies from one backend to the next one. The capabilities are those of the first fixture, but
    /// the time is that of a server if it is for one of them.
    #[must_use]
    pub fn new(fixtures: Vec<Arc<dyn Fixture>>) -> Self {
        Self { fixtures, next: AtomicUsize::new(0), gaps: Vec::new() }
    }

    /// Declares cases that fail because a copy is another store.
    #[must_use]
    pub fn with_gaps(mut self, gaps: impl IntoIterator<Item = Gap>) -> Self {
        self.gaps.extend(gaps);
        self
    }

    fn fixture(&self, place: usize) -> Result<&Arc<dyn Fixture>> {
        self.fixtures.get(place % self.fixtures.len().max(1)).ok_or_else(|| Error::unavailable("there is no fixture"))
    }

    async fn open_at(&self, place: usize, limits: Limits) -> Result<OpenedStore> {
        let opened = self.fixture(place)?.open(limits).await?;
        let store = Arc::clone(&opened.store);
        Ok(OpenedStore::new(store, Copied { opened, fixture: place }))
    }
}

impl fmt::Debug for CopyingFixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyingFixture").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Store time, from a thread or a dispatch of a tenant that nothing else uses. The tenant is deleted afterwards.
async fn time_of(store: &dyn Store) -> Result<Timestamp> {
    let tenant: TenantId = id("time");
    let stores = store.tenant(&tenant)?;
    let time = match (&stores.threads, &stores.mailbox) {
        (Some(threads), _) => threads.create_thread(NewThread::new(id("time"))).await?.created_at,
        (None, Some(mailbox)) => {
            let enqueued = mailbox.enqueue(vec![NewDispatch::new(id("time"), id("time"))]).await?;
            enqueued.into_iter().next().ok_or_else(Error::closed)??.created_at
        }
        (None, None) => return Err(Error::unavailable("the store has neither threads nor a mailbox")),
    };
    drop(stores);
    store.delete_tenant(&tenant).await?;
    Ok(time)
}

/// Sets the clock of the second store to that of the first one.
pub(super) async fn set_clock(fixture: &dyn Fixture, (from, to): (&OpenedStore, &OpenedStore)) -> Result<()> {
    let (then, now) = (time_of(&*from.store).await?, time_of(&*to.store).await?);
    let gap = |from: Timestamp, to: Timestamp| Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()));
    fixture.advance(to, gap(now, then)).await;
    fixture.set_back(to, gap(then, now)).await;
    Ok(())
}

/// Copies all tenants, and fails if a copy is not equal.
async fn copy_all(from: &dyn Store, to: &dyn Store) -> Result<()> {
    let mut page = PageRequest::first(100);
    loop {
        let tenants = from.list_tenants(page).await?;
        for tenant in &tenants.items {
            let options = CopyOptions::new("copying fixture");
            let (source, target) = (from.tenant(tenant)?, to.tenant(tenant)?);
            let report = copy_tenant(&source, &target, &options, &IgnoreProgress).await?;
            if let Some(difference) = report.differences.first() {
                return Err(Error::corrupt(format!("a copy: {difference}")));
            }
        }
        match tenants.next {
            Some(next) => page = PageRequest::first(100).after(next),
            None => return Ok(()),
        }
    }
}

#[async_trait]
impl Fixture for CopyingFixture {
    fn name(&self) -> String {
        let names: Vec<_> = self.fixtures.iter().map(|fixture| fixture.name()).collect();
        format!("copies of {}", names.join(", "))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.fixtures[0].capabilities();
        // The time of a server goes on between two steps, so the model has to follow the time of each answer.
        if self.fixtures.iter().any(|fixture| fixture.capabilities().time == TimeSource::Server) {
            capabilities.time = TimeSource::Server;
        }
        capabilities
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        match need {
            Need::Damage | Need::SecondOpening => Some(UnmetReason::Unsupported("it is not about copies")),
            need => self.fixtures.iter().find_map(|fixture| fixture.why_unmet(need)),
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        self.gaps.clone()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        self.open_at(place, limits).await
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        let copied = opened.guard.downcast::<Copied>().map_err(|_| Error::unavailable("it was opened elsewhere"))?;
        drop(opened.store);
        let from = self.fixture(copied.fixture)?.reopen(copied.opened).await?;
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let to = self.open_at(place, Limits::default()).await?;
        set_clock(self, (&from, &to)).await?;
        copy_all(&*from.store, &*to.store).await?;
        from.store.close().await?;
        Ok(to)
    }

    async fn open_second_time(&self, _opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        Err(Error::unavailable("it is not about copies"))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        if let Some(Copied { opened, fixture }) = opened.guard()
            && let Ok(fixture) = self.fixture(*fixture)
        {
            fixture.advance(opened, by).await;
        }
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        if let Some(Copied { opened, fixture }) = opened.guard()
            && let Ok(fixture) = self.fixture(*fixture)
        {
            fixture.set_back(opened, by).await;
        }
    }

    async fn damage(&self, _opened: OpenedStore, _seed: u64) -> Result<OpenedStore> {
        Err(Error::unavailable("it is not about copies"))
    }
}
