//! Opening and closing a buffer, and its tenants.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use async_trait::async_trait;
use store_core::{
    Capabilities, Detail, Error, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity, TenantId,
    TenantStores, ThreadId,
    buffer::{BufferTarget, Delta, DeltaKeys},
    health::StoreHealth,
    inspect::{Inspection, Inspector},
    length,
};
use tokio::task::JoinHandle;

use super::{
    config::BufferConfig,
    health,
    message::DeltaMessage,
    shared::Shared,
    state::{StreamState, WINDOW},
    stream::{self, DeltaStream, Published},
    tenant::{BufferedTenant, Concerns},
};
use crate::{connection::Connection, streams};

/// A store with a write buffer in front of it.
///
/// A write is acknowledged when it is durable in a stream of JetStream. The buffer applies it to the inner store a
/// little later, together with others. Any number of nodes can open a buffer over one inner store.
///
/// Everything that is written must go through the buffer. Mailboxes, live channels and objects are those of the inner
/// store. A commit cannot settle a claim.
///
/// Its handles are cheap to clone (PR-7). Calls run on the runtime on which the buffer was opened.
#[derive(Clone)]
pub struct Buffered<S> {
    inner: S,
    state: Arc<StoreState>,
}

impl<S> fmt::Debug for Buffered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffered").field("config", &self.state.shared.config).finish_non_exhaustive()
    }
}

pub(crate) struct StoreState {
    shared: Arc<Shared>,
    capabilities: Capabilities,
    tenants: Mutex<HashMap<TenantId, Arc<BufferedTenant>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for StoreState {
    fn drop(&mut self) {
        self.end();
    }
}

impl StoreState {
    /// Ends all calls and background tasks. What is not applied stays in the stream.
    fn end(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        lock(&self.tenants).values().for_each(|tenant| tenant.end());
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The contracts of a tenant. The buffer stays open as long as one of these exists (PR-8).
#[derive(Clone)]
pub(crate) struct BufferedHandles {
    pub(crate) tenant: Arc<BufferedTenant>,
    pub(crate) has_documents: bool,
    pub(crate) store: Arc<StoreState>,
}

/// How much waits to be applied (NB-10).
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct BufferStatus {
    /// The id of the buffer.
    pub buffer: String,
    /// The end of the stream.
    pub end: u64,
    /// The position up to which the inner store has applied the stream.
    pub applied: u64,
    /// The number of writes that wait.
    pub waiting: u64,
    /// Their size in bytes, about.
    pub waiting_bytes: u64,
    /// How long the oldest of them waits, in milliseconds.
    pub oldest_ms: Option<u64>,
    /// Why the last attempt to apply them failed.
    pub last_error: Option<String>,
    /// The number of writes in quarantine (NB-7). They do not count as waiting.
    pub quarantined: u64,
}

impl<S: BufferTarget + Clone + 'static> Buffered<S> {
    /// Opens a buffer over a store. Its stream is created if it does not exist, and the buffer is attached to the
    /// store.
    ///
    /// Returns when everything that is in the stream has been read.
    ///
    /// # Errors
    /// - `Unavailable` if another buffer is attached to the store, which the error names (NB-14), or if no server can
    ///   be reached;
    /// - the errors of [`NatsStore::open`](crate::NatsStore::open).
    pub async fn open(config: BufferConfig, inner: S) -> Result<Self> {
        let connection = Connection::open(&config.servers).await?;
        let opened = streams::open(&connection, &config.servers).await?;
        let buffer = opened.meta.id;
        let (applied, was_detached) = attach(&connection, &inner, &buffer).await?;
        let first_needed = applied.saturating_sub(WINDOW);
        let stream = Arc::new(DeltaStream::new(connection, StreamState::new(first_needed, applied)));
        let mut capabilities = inner.capabilities().clone();
        capabilities.survives = capabilities.survives.min(opened.survives);
        capabilities.fenced = false;
        let max_record_bytes = stream.connection.max_record_bytes();
        capabilities.max_record_bytes = capabilities.max_record_bytes.min(max_record_bytes);
        let follow_task = tokio::spawn(stream::follow(Arc::downgrade(&stream)));
        let shared = Arc::new(Shared::new(Arc::new(inner.clone()), stream, config, buffer));
        let flush_task = tokio::spawn(Arc::clone(&shared).flush_in_background());
        let tasks = Mutex::new(vec![follow_task, flush_task]);
        let state = Arc::new(StoreState { shared, capabilities, tenants: Mutex::default(), tasks });
        let buffered = Self { inner, state };
        buffered.state.shared.ask_inner().await?;
        let _end = buffered.state.shared.catch_up().await?;
        attach_again(&buffered.state.shared, was_detached).await?;
        Ok(buffered)
    }

    /// Returns the inner store.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Closes the buffer as [`close`](Store::close) does, but leaves the inner store open, and returns it.
    ///
    /// # Errors
    /// Any error of [`drain`](Self::drain).
    pub async fn into_inner(self) -> Result<S> {
        self.shut_down().await?;
        Ok(self.inner)
    }

    /// Returns when everything about a thread that was acknowledged before the call is in the inner store (NB-10).
    ///
    /// # Errors
    /// `Unavailable` if the inner store has not taken it within the deadline of flushes; `Quarantined` if a write to
    /// the thread is in quarantine; `Closed`.
    pub async fn flush(&self, tenant: &TenantId, thread: &ThreadId) -> Result<()> {
        let shared = &self.state.shared;
        shared.check_open()?;
        let _end = shared.catch_up().await?;
        let newest = {
            let state = shared.stream.state();
            state.overlay(tenant).map_or(0, |overlay| overlay.newest_of_thread(thread))
        };
        shared.flush(newest).await?;
        shared.check_not_quarantined(newest)
    }

    /// Returns when everything that was acknowledged before the call is in the inner store (NB-10).
    ///
    /// # Errors
    /// As [`flush`](Self::flush). If there are writes in quarantine, everything else is applied, and the error names
    /// the first of them.
    pub async fn drain(&self) -> Result<()> {
        self.state.shared.check_open()?;
        drain(&self.state.shared).await?;
        self.state.shared.check_no_quarantine()
    }

    /// Applies everything, closes the buffer on this node, and detaches it from the inner store, which can then be used
    /// without a buffer (NB-14). Other nodes that have the buffer open acknowledge nothing from then on: their calls
    /// end with `Unavailable`.
    ///
    /// # Errors
    /// As [`drain`](Self::drain), and then the buffer stays attached; `Unavailable` if another node opens the buffer
    /// meanwhile.
    pub async fn detach(self) -> Result<S> {
        let shared = &self.state.shared;
        shared.is_closed.store(true, Ordering::SeqCst);
        drop(shared.ongoing_writes.write().await);
        drain(shared).await?;
        shared.check_no_quarantine()?;
        // What another node writes after this message takes no effect.
        let last = shared.stream.write_attachment(true).await?;
        if let Err(error) = detach_inner(shared, last).await {
            // Otherwise the next opening does it.
            let _result = shared.stream.write_attachment(false).await;
            return Err(error);
        }
        // Without earlier messages, the buffer can be attached again later. If they stay, they are not applied again.
        let _result = shared.stream.remove_upto(last - 1).await;
        self.state.end();
        Ok(self.inner)
    }

    /// Returns how much waits to be applied.
    ///
    /// # Errors
    /// `Unavailable` if the servers or the inner store cannot be reached; `Closed`.
    pub async fn status(&self) -> Result<BufferStatus> {
        self.state.shared.check_open()?;
        status(&self.state.shared).await
    }
}

async fn status(shared: &Shared) -> Result<BufferStatus> {
    let end = shared.catch_up().await?;
    let applied = shared.ask_inner().await?.position;
    let now = shared.stream.connection.clock.now()?;
    let state = shared.stream.state();
    Ok(BufferStatus {
        buffer: shared.buffer.clone(),
        end,
        applied,
        waiting: length(state.waiting_count()),
        waiting_bytes: state.waiting_bytes(),
        oldest_ms: state.oldest_waiting().map(|published| now.as_millis().saturating_sub(published.as_millis())),
        last_error: shared.flush_error(),
        quarantined: length(state.quarantine().len()),
    })
}

impl<S> Buffered<S> {
    pub(super) fn shared(&self) -> &Shared {
        &self.state.shared
    }

    fn open_tenant(&self, name: &TenantId) -> Result<Arc<BufferedTenant>> {
        let shared = &self.state.shared;
        shared.check_open()?;
        let deleted = shared.stream.state_mut().take_closed_tenants();
        let mut tenants = lock(&self.state.tenants);
        for (tenant, at) in deleted {
            // A tenant that was opened after the deletion stays.
            if let Some(found) = tenants.get(&tenant).filter(|found| found.opened_at() < at) {
                found.end();
                tenants.remove(&tenant);
            }
        }
        let new_tenant = || Arc::new(BufferedTenant::new(Arc::clone(shared), name.clone()));
        Ok(Arc::clone(tenants.entry(name.clone()).or_insert_with(new_tenant)))
    }
}

impl<S: Store> Buffered<S> {
    fn inner_inspector(&self) -> Result<&dyn Inspector> {
        self.inner.inspector().ok_or_else(|| Error::new(Detail::Unsupported { operation: "verifying stored data" }))
    }
}

impl<S: Send + Sync> Buffered<S> {
    /// Waits for the calls that write, applies everything, and ends the tasks. The buffer is closed in any case.
    async fn shut_down(&self) -> Result<()> {
        let shared = &self.state.shared;
        if shared.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        drop(shared.ongoing_writes.write().await);
        // What is in quarantine stays there, and is not work of this node. The node that detaches the buffer applies
        // everything.
        let drained = match shared.check_attached() {
            Ok(()) => drain(shared).await,
            Err(_) => Ok(0),
        };
        self.state.end();
        drained.map(drop)
    }
}

/// Attaches a buffer to the inner store. Returns how far the stream is applied, and whether the buffer was detached.
async fn attach(connection: &Connection, inner: &dyn BufferTarget, buffer: &str) -> Result<(u64, bool)> {
    if buffer.is_empty() {
        return Err(Error::unavailable("the streams were made by a release without write buffers: use another prefix"));
    }
    if inner.applied_position().await?.buffer.is_some() {
        return Ok((inner.attach_buffer(buffer, 0).await?, false));
    }
    let was_detached = stream::is_detached(connection).await?;
    // What is in the stream was written for a store to which the buffer is attached.
    if !was_detached && stream::has_deltas(connection).await? {
        let name = connection.names.log_stream();
        return Err(Error::unavailable(format!(
            "the stream `{name}` holds writes for another store: use another prefix, or open that store"
        )));
    }
    Ok((inner.attach_buffer(buffer, connection.last_sequence().await?).await?, was_detached))
}

/// Says in the stream that the buffer is attached again, if it was detached, or if a node ended while it detached it.
async fn attach_again(shared: &Shared, was_detached: bool) -> Result<()> {
    if was_detached || shared.stream.state().is_detached() {
        let position = shared.stream.write_attachment(false).await?;
        // A node that detaches the buffer may have done so since. Then nothing before this position is to be applied.
        shared.inner.attach_buffer(&shared.buffer, position).await?;
        shared.ask_inner().await?;
    }
    shared.stream.state_mut().forget_detachment();
    Ok(())
}

/// Applies everything up to the message that detaches the buffer, and detaches it from the inner store.
async fn detach_inner(shared: &Shared, last: u64) -> Result<()> {
    shared.flush(last).await?;
    let applied = shared.ask_inner().await?.position;
    shared.check_no_quarantine()?;
    shared.inner.detach_buffer(&shared.buffer, applied).await?;
    shared.stream.catch_up().await?;
    if shared.stream.state().is_detached() {
        return Ok(());
    }
    shared.inner.attach_buffer(&shared.buffer, applied).await?;
    Err(Error::unavailable("another node has opened the write buffer meanwhile"))
}

/// Applies everything that was acknowledged. Returns the end of the stream.
async fn drain(shared: &Shared) -> Result<u64> {
    let end = shared.catch_up().await?;
    shared.flush(end).await?;
    Ok(end)
}

#[async_trait]
impl<S: Store + 'static> Store for Buffered<S> {
    fn tenant(&self, name: &TenantId) -> Result<TenantStores> {
        let inner = self.inner.tenant(name)?;
        let tenant = self.open_tenant(name)?;
        let has_documents = inner.documents.is_some();
        let handles = BufferedHandles { tenant, has_documents, store: Arc::clone(&self.state) };
        let mut stores = TenantStores::from_coordinator(Arc::new(handles));
        (stores.objects, stores.mailbox) = (inner.objects, inner.mailbox);
        (stores.live, stores.wake_ups) = (inner.live, inner.wake_ups);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let shared = &self.state.shared;
        shared.check_open()?;
        let tenant = BufferedTenant::new(Arc::clone(shared), TenantId::default_tenant());
        tenant.settle(Concerns::Tenant).await?;
        self.inner.list_tenants(page).await
    }

    async fn delete_tenant(&self, name: &TenantId) -> Result<()> {
        let shared = Arc::clone(&self.state.shared);
        shared.check_open()?;
        let (name, replacement) = (name.clone(), Arc::new(BufferedTenant::new(Arc::clone(&shared), name.clone())));
        // The deletion that is written now is not one of the replacement.
        replacement.set_opened_at(u64::MAX);
        let previous = lock(&self.state.tenants).insert(name.clone(), Arc::clone(&replacement));
        let opened = Arc::clone(&replacement);
        let removal = async move {
            let end = delete_tenant(&shared, &name).await?;
            opened.set_opened_at(end);
            Ok(())
        };
        replacement.close_previous_then(previous, removal).await
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    /// Returns the identity of the inner store: with a buffer in front of it, it is the same store.
    fn identity(&self) -> Option<StoreIdentity> {
        self.inner.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.state.shared.check_open()?;
        let status = status(&self.state.shared).await?;
        health::health(&self.inner, &self.state.shared, status).await
    }

    async fn sync(&self) -> Result<()> {
        self.state.shared.check_open()?;
        drain(&self.state.shared).await?;
        self.inner.sync().await
    }

    /// Applies everything, and lets the inner store let go of what was removed. The messages of applied deltas stay in
    /// the stream for a while.
    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.state.shared.check_open()?;
        drain(&self.state.shared).await?;
        self.inner.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        let drained = self.shut_down().await;
        let closed = self.inner.close().await;
        drained.and(closed)
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector().map(|_| self as &dyn Inspector)
    }
}

/// Applies everything that was acknowledged, and inspects the inner store.
#[async_trait]
impl<S: Store + 'static> Inspector for Buffered<S> {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        self.state.shared.check_open()?;
        drain(&self.state.shared).await?;
        self.inner_inspector()?.verify(progress).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        self.state.shared.check_open()?;
        drain(&self.state.shared).await?;
        self.inner_inspector()?.repair(dry_run, progress).await
    }
}

/// Writes the deletion of a tenant, and waits until it is applied. Returns a position after it.
async fn delete_tenant(shared: &Shared, name: &TenantId) -> Result<u64> {
    loop {
        let as_of = shared.catch_up().await?;
        let subject = shared.stream.subject(name.as_str(), "-");
        let (tenant, keys) = (name.clone(), DeltaKeys::of_tenant_deletion());
        let delta = Some(Delta::TenantDeletion);
        let message = DeltaMessage { tenant, as_of, keys, delta, refreshes: false, detached: None };
        // Deleting a tenant twice is harmless.
        if let Published::Effective = shared.stream.publish(&subject, message).await? {
            break;
        }
    }
    drain(shared).await
}
