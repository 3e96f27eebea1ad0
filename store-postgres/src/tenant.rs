//! The handle of a tenant. Calls run in tasks of their own, so that a dropped call never leaves an exchange with the
//! server unfinished. Later calls wait for calls whose caller is gone (PR-11, PR-16).

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use store_core::{
    CommitKey, Detail, Error, ErrorKind, Outcome, Result, Scope, ThreadId, Timestamp,
    event::Followers,
    flight::{self, About, Orphans},
    live::{Bell, LiveHub},
};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, RwLock},
};

use crate::{
    config::PostgresConfig,
    db::Db,
    facts::{Facts, Fixed},
    live::Post,
    mailbox::{Enqueues, KnownClaims, Places},
    news::News,
    write::Together,
};

/// About how many threads of a tenant have their facts remembered.
const KNOWN_THREADS: usize = 10_000;

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) db: Db,
    pub(crate) config: PostgresConfig,
    pub(crate) runtime: Handle,
    pub(crate) news: News,
    pub(crate) post: Post,
}

impl Common {
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.config.read_only {
            return Err(Error::new(Detail::Unsupported { operation: "writing to a store opened for reading" }));
        }
        Ok(())
    }
}

/// The remembered facts of a thread. One call at a time can use them.
pub(crate) type Slot = Arc<AsyncMutex<Facts>>;

/// A tenant of a store.
pub(crate) struct Tenant {
    pub(crate) common: Arc<Common>,
    pub(crate) fixed: Arc<Fixed>,
    slots: Mutex<HashMap<ThreadId, Slot>>,
    orphans: Arc<Orphans>,
    is_closed: AtomicBool,
    pub(crate) followers: Followers,
    pub(crate) bell: Bell,
    pub(crate) live: Arc<LiveHub>,
    pub(crate) together: Together,
    pub(crate) enqueues: Arc<Enqueues>,
    pub(crate) places: Places,
    pub(crate) claims: KnownClaims,
    /// Held for reading by calls that write, so that closing the tenant can wait for them.
    writing: Arc<RwLock<()>>,
}

impl Tenant {
    pub(crate) fn new(common: Arc<Common>, fixed: Arc<Fixed>) -> Self {
        Self {
            common,
            fixed,
            slots: Mutex::default(),
            orphans: Arc::default(),
            is_closed: AtomicBool::new(false),
            followers: Followers::default(),
            bell: Bell::default(),
            live: Arc::default(),
            together: Together::default(),
            enqueues: Arc::default(),
            places: Places::default(),
            claims: KnownClaims::default(),
            writing: Arc::default(),
        }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.common.db
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { self.db().check_open() }
    }

    /// Refuses further calls and waits for those that write, because the store is closed or the tenant is deleted.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.unfollow();
        self.orphans.wait(&None).await;
        drop(self.writing.write().await);
    }

    /// Closes the previous handle of the tenant, then runs `removing`. If the caller is dropped, every call of this
    /// handle waits until that has ended (PR-16).
    pub(crate) async fn come_after<F>(&self, old: Option<Arc<Self>>, removing: F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (work, caller) = flight::start(&self.orphans, None);
        let task = self.common.runtime.spawn(async move {
            let _work = work;
            if let Some(old) = old {
                old.close().await;
            }
            removing.await
        });
        let answer = task.await.map_err(|lost| Error::unavailable("the call ended with no answer").with_source(lost));
        caller.answered();
        answer?
    }

    /// Returns the remembered facts of a thread. If there are too many threads, those that no call uses are forgotten.
    pub(crate) fn slot(&self, id: &ThreadId) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= 2 * KNOWN_THREADS && !slots.contains_key(id) {
            let mut spare = slots.len() - KNOWN_THREADS;
            slots.retain(|_, slot| {
                let keep = spare == 0 || Arc::strong_count(slot) > 1;
                spare -= usize::from(!keep);
                keep
            });
        }
        let new = || Arc::new(AsyncMutex::new(Facts::new(Arc::clone(&self.fixed), Some(id.clone()))));
        Arc::clone(slots.entry(id.clone()).or_insert_with(new))
    }

    /// Forgets the facts of a thread to which another call wrote.
    pub(crate) fn forget(&self, id: &ThreadId) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Notifies the subscribers of these scopes, here and in other processes, of new events.
    pub(crate) fn tell<'a>(&self, scopes: impl Iterator<Item = &'a Scope> + Clone) {
        scopes.clone().for_each(|scope| self.common.news.events(&self.fixed.tenant, scope));
        self.followers.tell(scopes);
    }

    /// Notifies the workers that wait for work, here and in other processes, that there may be some.
    pub(crate) fn ring(&self, from: Option<Timestamp>) {
        if let Some(from) = from {
            self.bell.ring(from);
            self.common.news.work(&self.fixed.tenant);
        }
    }

    /// Ends all subscriptions, live deliveries and waits for work.
    pub(crate) fn unfollow(&self) {
        self.followers.end(|_| true);
        self.live.close();
        self.common.post.end(&self.fixed.tenant);
        self.bell.ring(Timestamp::MIN);
    }

    /// Runs a call that only reads.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, about: About, call: impl FnOnce(Arc<Self>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.orphans.wait(&about).await;
        let task = self.common.runtime.spawn(call(Arc::clone(self)));
        task.await.map_err(|lost| Error::unavailable("the call ended with no answer").with_source(lost))?
    }

    /// Runs a call that claims. Claims that reach no caller are released with `back`.
    pub(crate) async fn claim<T, F, B>(
        self: &Arc<Self>,
        call: impl FnOnce(Arc<Self>) -> F,
        back: impl Fn(Arc<Self>, T) -> B + Send + Sync + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        let tenant = Arc::clone(self);
        let back = move |claimed: T| {
            // Later calls wait for this, including those of a caller that lost the answer.
            let (work, _orphan) = flight::start(&tenant.orphans, None);
            let giving = back(Arc::clone(&tenant), claimed);
            tenant.common.runtime.spawn(async move {
                let _work = work;
                giving.await;
            });
        };
        let back: Arc<dyn Fn(T) + Send + Sync> = Arc::new(back);
        let call = |tenant: Arc<Self>| {
            let call = call(tenant);
            async move { call.await.map(|claimed| OnTheWay { claimed: Some(claimed), back }) }
        };
        let mut claimed = self.write(None, call).await?;
        claimed.claimed.take().ok_or_else(Error::closed)
    }

    /// Runs a call that writes. If the caller drops it, it takes effect before any later call about the same subject,
    /// or never.
    pub(crate) async fn write<T, F>(self: &Arc<Self>, about: About, call: impl FnOnce(Arc<Self>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.common.check_writable()?;
        self.orphans.wait(&about).await;
        let (work, caller) = flight::start(&self.orphans, about);
        let (call, tenant) = (call(Arc::clone(self)), Arc::clone(self));
        let task = self.common.runtime.spawn(async move {
            let _work = work;
            let _writing = tenant.writing.read().await;
            tenant.check_open()?;
            call.await
        });
        let answer = task.await.map_err(|lost| Error::commit_unknown(None).with_source(lost));
        caller.answered();
        answer?
    }
}

/// Claims that have not reached their caller yet. If they are dropped before, they are released (PR-11).
struct OnTheWay<T> {
    claimed: Option<T>,
    back: Arc<dyn Fn(T) + Send + Sync>,
}

impl<T> Drop for OnTheWay<T> {
    fn drop(&mut self) {
        if let Some(claimed) = self.claimed.take() {
            (self.back)(claimed);
        }
    }
}

/// Adds the key with which an unknown commit can be repeated to its error (CM-17).
pub(crate) fn with_key(error: Error, key: Option<&CommitKey>) -> Error {
    if error.kind() == ErrorKind::CommitUnknown && error.outcome() == Outcome::Unknown {
        return Error::new(Detail::CommitUnknown { key: key.cloned() }).with_source(error);
    }
    error
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.fixed.tenant).finish_non_exhaustive()
    }
}
