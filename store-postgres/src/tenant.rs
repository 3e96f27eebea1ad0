//! The state of a tenant. Calls run in tasks of their own, so that a dropped call never leaves an exchange with the
//! server unfinished. Later calls wait for calls that were dropped by their callers (PR-11, PR-16).

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
    in_flight::{self, AbandonedCalls, CallScope},
    live::{LiveHub, Notifier},
};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, RwLock},
};

use crate::{
    cache::{RecordCache, TenantConstants},
    config::PostgresConfig,
    db::Db,
    live::LiveState,
    mailbox::{ClaimCache, Enqueues, ScanState},
    notifications::Notifications,
    write::GroupCommit,
};

/// The approximate maximum number of threads of a tenant in the cache.
const MAX_CACHED_THREADS: usize = 10_000;

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) db: Db,
    pub(crate) config: PostgresConfig,
    pub(crate) runtime: Handle,
    pub(crate) notifications: Notifications,
    pub(crate) live_state: LiveState,
}

impl SharedState {
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.config.read_only {
            return Err(Error::new(Detail::Unsupported { operation: "writing to a store opened for reading" }));
        }
        Ok(())
    }
}

/// The cached records of a thread. Only one call at a time can use them.
pub(crate) type ThreadCache = Arc<AsyncMutex<RecordCache>>;

/// A tenant of a store.
pub(crate) struct Tenant {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) constants: Arc<TenantConstants>,
    thread_caches: Mutex<HashMap<ThreadId, ThreadCache>>,
    abandoned_calls: Arc<AbandonedCalls>,
    is_closed: AtomicBool,
    pub(crate) followers: Followers,
    pub(crate) worker_notifier: Notifier,
    pub(crate) live_hub: Arc<LiveHub>,
    pub(crate) group_commit: GroupCommit,
    pub(crate) enqueues: Arc<Enqueues>,
    pub(crate) scan_state: ScanState,
    pub(crate) claim_cache: ClaimCache,
    /// Held for reading by calls that write, so that closing the tenant can wait for them.
    write_lock: Arc<RwLock<()>>,
}

impl Tenant {
    pub(crate) fn new(shared: Arc<SharedState>, constants: Arc<TenantConstants>) -> Self {
        Self {
            shared,
            constants,
            thread_caches: Mutex::default(),
            abandoned_calls: Arc::default(),
            is_closed: AtomicBool::new(false),
            followers: Followers::default(),
            worker_notifier: Notifier::default(),
            live_hub: Arc::default(),
            group_commit: GroupCommit::default(),
            enqueues: Arc::default(),
            scan_state: ScanState::default(),
            claim_cache: ClaimCache::default(),
            write_lock: Arc::default(),
        }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.shared.db
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { self.db().check_open() }
    }

    /// Refuses further calls and waits for those that write, because the store is closed or the tenant is deleted.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.end_subscriptions();
        self.abandoned_calls.wait(&None).await;
        drop(self.write_lock.write().await);
    }

    /// Closes the previous handle of the tenant, then runs `removal`. If the caller drops this call, every later call
    /// of this handle waits until both have ended (PR-16).
    pub(crate) async fn close_previous_then<F>(&self, previous: Option<Arc<Self>>, removal: F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, None);
        let task = self.shared.runtime.spawn(async move {
            let _work_guard = work_guard;
            if let Some(previous) = previous {
                previous.close().await;
            }
            removal.await
        });
        let answer = task
            .await
            .map_err(|error| Error::unavailable("the task of the call ended without a result").with_source(error));
        caller_guard.answered();
        answer?
    }

    /// Returns the cached records of a thread. If there are too many threads in the cache, removes threads that no call
    /// uses.
    pub(crate) fn thread_cache(&self, id: &ThreadId) -> ThreadCache {
        let mut thread_caches = self.thread_caches.lock().unwrap_or_else(PoisonError::into_inner);
        if thread_caches.len() >= 2 * MAX_CACHED_THREADS && !thread_caches.contains_key(id) {
            let mut excess = thread_caches.len() - MAX_CACHED_THREADS;
            thread_caches.retain(|_, thread_cache| {
                let is_kept = excess == 0 || Arc::strong_count(thread_cache) > 1;
                excess -= usize::from(!is_kept);
                is_kept
            });
        }
        let new = || Arc::new(AsyncMutex::new(RecordCache::new(Arc::clone(&self.constants), Some(id.clone()))));
        Arc::clone(thread_caches.entry(id.clone()).or_insert_with(new))
    }

    /// Removes a thread from the cache, because another call wrote to it.
    pub(crate) fn remove_cached(&self, id: &ThreadId) {
        self.thread_caches.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Notifies the subscribers of these scopes, here and in other processes, of new events.
    pub(crate) fn notify_subscribers<'a>(&self, scopes: impl Iterator<Item = &'a Scope> + Clone) {
        scopes.clone().for_each(|scope| self.shared.notifications.announce_events(&self.constants.tenant, scope));
        self.followers.notify(scopes);
    }

    /// Notifies the workers that wait for work, here and in other processes, that a claim may find a dispatch from
    /// `claimable_from` on. Does nothing if that is `None`.
    pub(crate) fn notify_workers(&self, claimable_from: Option<Timestamp>) {
        if let Some(claimable_from) = claimable_from {
            self.worker_notifier.notify(claimable_from);
            self.shared.notifications.announce_work(&self.constants.tenant);
        }
    }

    /// Ends all subscriptions and live deliveries, and wakes the callers that wait for work.
    pub(crate) fn end_subscriptions(&self) {
        self.followers.end(|_| true);
        self.live_hub.close();
        self.shared.live_state.end_deliveries(&self.constants.tenant);
        self.worker_notifier.notify(Timestamp::MIN);
    }

    /// Runs a call that changes no record of a thread. It may be run again after it failed.
    pub(crate) async fn run_read<T, F>(
        self: &Arc<Self>,
        thread_of_call: CallScope,
        call: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.abandoned_calls.wait(&thread_of_call).await;
        let task = self.shared.runtime.spawn(call(Arc::clone(self)));
        task.await
            .map_err(|error| Error::unavailable("the task of the call ended without a result").with_source(error))?
    }

    /// Runs a call that claims. Claims that reach no caller are released with `release`.
    pub(crate) async fn run_claim<T, F, B>(
        self: &Arc<Self>,
        call: impl FnOnce(Arc<Self>) -> F,
        release: impl Fn(Arc<Self>, T) -> B + Send + Sync + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        let tenant = Arc::clone(self);
        let release = move |claimed: T| {
            // Later calls wait for the release, including those of the caller that dropped the claiming call.
            let (work_guard, _caller_guard) = in_flight::start_call(&tenant.abandoned_calls, None);
            let release_call = release(Arc::clone(&tenant), claimed);
            tenant.shared.runtime.spawn(async move {
                let _work_guard = work_guard;
                release_call.await;
            });
        };
        let release: Arc<dyn Fn(T) + Send + Sync> = Arc::new(release);
        let call = |tenant: Arc<Self>| {
            let call = call(tenant);
            async move { call.await.map(|claimed| UndeliveredClaims { claims: Some(claimed), release }) }
        };
        let mut undelivered = self.run_write(None, call).await?;
        undelivered.claims.take().ok_or_else(Error::closed)
    }

    /// Runs a call that writes. If the caller drops it, the call takes effect before any later call about the same
    /// thread, or never.
    pub(crate) async fn run_write<T, F>(
        self: &Arc<Self>,
        thread_of_call: CallScope,
        call: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.shared.check_writable()?;
        self.abandoned_calls.wait(&thread_of_call).await;
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, thread_of_call);
        let (call, tenant) = (call(Arc::clone(self)), Arc::clone(self));
        let task = self.shared.runtime.spawn(async move {
            let _work_guard = work_guard;
            let _write_guard = tenant.write_lock.read().await;
            tenant.check_open()?;
            call.await
        });
        let answer = task.await.map_err(|error| Error::commit_unknown(None).with_source(error));
        caller_guard.answered();
        answer?
    }
}

/// Claims that have not reached their caller yet. If this value is dropped before they do, they are released (PR-11).
struct UndeliveredClaims<T> {
    claims: Option<T>,
    release: Arc<dyn Fn(T) + Send + Sync>,
}

impl<T> Drop for UndeliveredClaims<T> {
    fn drop(&mut self) {
        if let Some(claims) = self.claims.take() {
            (self.release)(claims);
        }
    }
}

/// Adds the commit key to an error if the outcome of the commit is unknown, so that the caller can repeat the commit
/// (CM-17).
pub(crate) fn with_commit_key(error: Error, key: Option<&CommitKey>) -> Error {
    if error.kind() == ErrorKind::CommitUnknown && error.outcome() == Outcome::Unknown {
        return Error::new(Detail::CommitUnknown { key: key.cloned() }).with_source(error);
    }
    error
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.constants.tenant).finish_non_exhaustive()
    }
}
