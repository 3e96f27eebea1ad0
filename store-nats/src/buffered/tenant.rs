//! A tenant of a buffer in this process. Calls run in tasks of their own, so that a dropped call takes effect
//! completely or not at all (PR-11, PR-16).

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use store_core::{
    CommitCoordinator, Error, Result, TenantId, TenantStores, ThreadId,
    buffer::Overlay,
    in_flight::{self, AbandonedCalls, CallScope},
};
use tokio::sync::{Mutex as AsyncMutex, RwLock};

use super::{config::BufferReads, shared::Shared};

/// What a read is about.
#[derive(Debug, Clone)]
pub(crate) enum Concerns {
    /// One thread: its record, log, runs, state and pending input.
    Thread(ThreadId),
    /// One run, which a delta wrote in full.
    Run,
    /// Anything of the tenant.
    Tenant,
}

/// A tenant of a buffer. Its handles share it.
pub(crate) struct BufferedTenant {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: TenantId,
    /// A lock for each thread, held while a decision about the thread is made, so that calls of this process do not
    /// conflict with each other.
    decision_locks: Mutex<HashMap<ThreadId, Arc<AsyncMutex<()>>>>,
    abandoned_calls: Arc<AbandonedCalls>,
    is_closed: AtomicBool,
    /// The position of the stream at which the tenant was opened. A later deletion ends it.
    opened_at: AtomicU64,
    ongoing_writes: RwLock<()>,
}

impl BufferedTenant {
    pub(crate) fn new(shared: Arc<Shared>, name: TenantId) -> Self {
        let opened_at = AtomicU64::new(shared.stream.state().position());
        Self {
            shared,
            name,
            opened_at,
            decision_locks: Mutex::default(),
            abandoned_calls: Arc::default(),
            is_closed: AtomicBool::new(false),
            ongoing_writes: RwLock::new(()),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { self.shared.check_open() }
    }

    pub(crate) fn opened_at(&self) -> u64 {
        self.opened_at.load(Ordering::SeqCst)
    }

    pub(crate) fn set_opened_at(&self, position: u64) {
        self.opened_at.store(position, Ordering::SeqCst);
    }

    /// Ends the tenant: later calls end with `Closed`.
    pub(crate) fn end(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Ends the tenant, and waits for the calls that write.
    pub(crate) async fn close(&self) {
        self.end();
        self.abandoned_calls.wait(&None).await;
        drop(self.ongoing_writes.write().await);
    }

    /// Closes the previous tenant with this name, and then runs `removal`. Calls of this tenant wait for its end, even
    /// if the caller of this method is dropped (PR-16).
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

    /// Returns the handles of the inner store. They are opened for each call, because the inner store closes them when
    /// a deletion of the tenant is applied.
    pub(crate) fn inner(&self) -> Result<TenantStores> {
        self.check_open()?;
        self.shared.inner.tenant(&self.name)
    }

    /// Returns the coordinator of the inner store.
    pub(crate) fn inner_commits(&self) -> Result<Arc<dyn CommitCoordinator>> {
        self.inner()?.commits.ok_or_else(|| Error::unavailable("the inner store of the write buffer has no threads"))
    }

    pub(crate) fn decision_lock(&self, thread: &ThreadId) -> Arc<AsyncMutex<()>> {
        let mut locks = self.decision_locks.lock().unwrap_or_else(PoisonError::into_inner);
        // Locks that no call uses are dropped, so that the map does not grow without bound.
        if locks.len() > 10_000 {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(thread.clone()).or_default())
    }

    /// Makes sure that the inner store has what a read must show (NB-3).
    pub(crate) async fn settle(&self, concerns: Concerns) -> Result<()> {
        self.find_or_settle(concerns, |_| None::<()>).await.map(drop)
    }

    /// Looks for a record in the overlay of the tenant, if reads show it. If it is not there, makes sure that the inner
    /// store has what the read must show.
    pub(crate) async fn find_or_settle<T>(
        &self,
        concerns: Concerns,
        find: impl FnOnce(&Overlay) -> Option<T>,
    ) -> Result<Option<T>> {
        let stream = &self.shared.stream;
        let thread = match &concerns {
            Concerns::Thread(thread) => Some(thread.clone()),
            Concerns::Run | Concerns::Tenant => None,
        };
        let newest = match self.shared.config.reads {
            BufferReads::Eventual => return Ok(None),
            BufferReads::Strong => self.read_stream().await?,
            BufferReads::ReadYourWrites => {
                let end = self.read_stream().await?;
                let state = stream.state();
                match (state.overlay(&self.name), &concerns) {
                    (None, Concerns::Thread(_) | Concerns::Run) => 0,
                    // The overlay does not hide what a deletion of the tenant removes.
                    (Some(overlay), _) if overlay.tenant_deletion().is_some() => end,
                    (overlay, _) => match overlay.and_then(find) {
                        Some(found) => return Ok(Some(found)),
                        None => match concerns {
                            Concerns::Thread(thread) => overlay.map_or(0, |overlay| overlay.newest_of_thread(&thread)),
                            Concerns::Run => 0,
                            Concerns::Tenant => end,
                        },
                    },
                }
            }
        };
        self.shared.flush(newest).await?;
        match thread {
            Some(thread) => self.check_not_quarantined(&thread).await.map(|()| None),
            None => Ok(None),
        }
    }

    /// Reads everything that was written before the call, and returns the end of the stream.
    async fn read_stream(&self) -> Result<u64> {
        let end = self.shared.catch_up().await?;
        self.shared.check_attached().map(|()| end)
    }

    /// Refuses what needs everything of a thread in the inner store, if a write to it is in quarantine (NB-7).
    pub(crate) async fn check_not_quarantined(&self, thread: &ThreadId) -> Result<()> {
        let Err(refusal) = self.shared.check_thread(&self.name, thread) else { return Ok(()) };
        // It may have left the quarantine since.
        self.shared.ask_inner().await?;
        self.shared.check_thread(&self.name, thread).map_err(|_| refusal)
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

    /// Runs a call that reads the inner store, which first gets what the read must show.
    pub(crate) async fn read_inner<T, F>(
        self: &Arc<Self>,
        concerns: Concerns,
        call: impl FnOnce(Arc<dyn CommitCoordinator>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.read(|tenant| async move {
            tenant.settle(concerns).await?;
            call(tenant.inner_commits()?).await
        })
        .await
    }

    /// Runs a call that writes. If its caller is dropped, the call takes effect before any later call about the same
    /// thread, or never.
    pub(crate) async fn write<T, F>(self: &Arc<Self>, scope: CallScope, call: impl FnOnce(Arc<Self>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.check_open()?;
        self.abandoned_calls.wait(&scope).await;
        let (work_guard, caller_guard) = in_flight::start_call(&self.abandoned_calls, scope);
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

    /// Runs a call that writes to the inner store, which first gets everything that was acknowledged.
    pub(crate) async fn write_inner<T, F>(
        self: &Arc<Self>,
        call: impl FnOnce(Arc<dyn CommitCoordinator>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.write(None, |tenant| async move {
            let end = tenant.read_stream().await?;
            tenant.shared.flush(end).await?;
            call(tenant.inner_commits()?).await
        })
        .await
    }
}

impl fmt::Debug for BufferedTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedTenant").field("name", &self.name).finish_non_exhaustive()
    }
}
