//! A tenant in this process, which its handles share. Calls run in tasks of their own, so that a dropped call takes
//! effect completely or not at all. Later calls wait for calls whose caller was dropped (PR-11, PR-16).

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use store_core::{
    CursorKey, Error, Result, TenantId, ThreadId, Timestamp,
    in_flight::{self, AbandonedCalls, CallScope},
    live::{LiveHub, Notifier},
};
use tokio::{
    runtime::Handle,
    sync::{Mutex as AsyncMutex, RwLock},
};

use crate::{
    config::NatsConfig,
    live::LiveState,
    log::Log,
    view::{TenantState, View},
};

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) log: Arc<Log>,
    pub(crate) config: NatsConfig,
    pub(crate) cursor_key: CursorKey,
    pub(crate) runtime: Handle,
    pub(crate) live_state: LiveState,
    pub(crate) is_closed: AtomicBool,
    /// A call that writes holds this lock for reading. Closing the store takes the lock for writing, so it waits for
    /// these calls.
    pub(crate) ongoing_writes: Arc<RwLock<()>>,
}

impl SharedState {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }
}

/// One incarnation of a tenant, in this process. Its handles share it.
pub(crate) struct Tenant {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) name: TenantId,
    /// The incarnation, once it is known.
    incarnation: Mutex<Option<u64>>,
    /// A lock for each thread. It is held while a decision about the thread is made, so that calls of this process do
    /// not conflict with each other.
    decision_locks: Mutex<HashMap<ThreadId, Arc<AsyncMutex<()>>>>,
    abandoned_calls: Arc<AbandonedCalls>,
    is_closed: AtomicBool,
    pub(crate) notifier: Arc<Notifier>,
    pub(crate) live: Arc<LiveHub>,
    /// The same as `SharedState::ongoing_writes`, but for the calls of this tenant. Closing the tenant waits for them.
    ongoing_writes: Arc<RwLock<()>>,
}

impl Tenant {
    pub(crate) fn new(shared: Arc<SharedState>, name: TenantId) -> Self {
        let notifier = shared.log.notifier(&name);
        Self {
            shared,
            name,
            incarnation: Mutex::default(),
            decision_locks: Mutex::default(),
            abandoned_calls: Arc::default(),
            is_closed: AtomicBool::new(false),
            notifier,
            live: Arc::default(),
            ongoing_writes: Arc::default(),
        }
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.shared.log
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { self.shared.check_open() }
    }

    /// Returns the known state of the tenant, or `None` if nothing was ever written for it.
    ///
    /// The first state that is seen determines the incarnation. A later incarnation under the same name has another
    /// `Tenant`.
    pub(crate) fn tenant_state<'a>(&self, view: &'a View) -> Result<Option<&'a TenantState>> {
        self.check_open()?;
        let mut known_incarnation = self.incarnation.lock().unwrap_or_else(PoisonError::into_inner);
        match *known_incarnation {
            Some(incarnation) => match view.tenant_state(&self.name, incarnation) {
                Some(tenant_state) => Ok(Some(tenant_state)),
                None => {
                    self.end_calls_and_receivers();
                    Err(Error::closed())
                }
            },
            None => {
                let tenant_state = view.tenant(&self.name);
                *known_incarnation = tenant_state.map(|tenant_state| tenant_state.record.incarnation);
                Ok(tenant_state)
            }
        }
    }

    /// Returns the lock that prevents two concurrent decisions about a thread in this process.
    pub(crate) fn decision_lock(&self, thread: &ThreadId) -> Arc<AsyncMutex<()>> {
        let mut decision_locks = self.decision_locks.lock().unwrap_or_else(PoisonError::into_inner);
        // Locks that no call uses are dropped, so that the map does not grow without bound.
        if decision_locks.len() > 10_000 {
            decision_locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(decision_locks.entry(thread.clone()).or_default())
    }

    /// Refuses further calls, and waits for those that write, because the tenant is deleted.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.end_calls_and_receivers();
        self.abandoned_calls.wait(&None).await;
        drop(self.ongoing_writes.write().await);
    }

    /// Closes the previous `Tenant` with this name, and then removes its data with `removal`. Calls of this `Tenant`
    /// wait for the end of the removal, even if the caller of this method is dropped (PR-16).
    pub(crate) async fn close_previous_then<F>(&self, previous: Option<Arc<Self>>, removal: F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, None);
        let shared = Arc::clone(&self.shared);
        let task = self.shared.runtime.spawn(async move {
            let _work_guard = work_guard;
            if let Some(previous) = previous {
                previous.close().await;
            }
            let _store_write = shared.ongoing_writes.read().await;
            shared.check_open()?;
            removal.await
        });
        let answer = task
            .await
            .map_err(|error| Error::unavailable("the task of the call ended without a result").with_source(error));
        caller_guard.answered();
        answer?
    }

    /// Ends all waiting calls and all receivers.
    pub(crate) fn end_calls_and_receivers(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.live.close();
        self.shared.live_state.end_deliveries(&self.name);
        self.notifier.notify(Timestamp::MIN);
    }

    /// Runs a call that only reads.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, call: impl FnOnce(Arc<Self>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.abandoned_calls.wait(&None).await;
        let task = self.shared.runtime.spawn(call(Arc::clone(self)));
        task.await
            .map_err(|error| Error::unavailable("the task of the call ended without a result").with_source(error))?
    }

    /// Runs a call that claims. Claims that the caller does not receive are passed to `release`, which releases them.
    pub(crate) async fn claim<T, F, B>(
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
        let release = move |claims: T| {
            // Later calls of a caller that did not receive the claims wait for their release.
            let (work_guard, _caller_guard) = in_flight::start_call(&tenant.abandoned_calls, None);
            let release_claims = release(Arc::clone(&tenant), claims);
            tenant.shared.runtime.spawn(async move {
                let _work_guard = work_guard;
                release_claims.await;
            });
        };
        let release: Arc<dyn Fn(T) + Send + Sync> = Arc::new(release);
        let call = |tenant: Arc<Self>| {
            let call = call(tenant);
            async move { call.await.map(|claims| UndeliveredClaims { claims: Some(claims), release }) }
        };
        let mut undelivered_claims = self.write(None, call).await?;
        undelivered_claims.claims.take().ok_or_else(Error::closed)
    }

    /// Runs a call that writes. If its caller is dropped, the call takes effect before any later call about the same
    /// thread, or never. `call_scope` is the thread that the call is about, or `None` if it is about several threads.
    pub(crate) async fn write<T, F>(
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
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, thread_of_call);
        let (call, tenant) = (call(Arc::clone(self)), Arc::clone(self));
        let task = self.shared.runtime.spawn(async move {
            let _work_guard = work_guard;
            let _store_write = tenant.shared.ongoing_writes.read().await;
            let _tenant_write = tenant.ongoing_writes.read().await;
            tenant.check_open()?;
            call.await
        });
        let answer = task.await.map_err(|error| Error::commit_unknown(None).with_source(error));
        caller_guard.answered();
        answer?
    }
}

/// Claims that are not yet returned to the caller. If they are dropped before that, they are released (PR-11).
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

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.name).finish_non_exhaustive()
    }
}
