//! The parts of an opened store, or of two stores combined.

use std::{fmt, path::PathBuf, sync::Arc};

use store_core::{
    Capabilities, Clock, CommitCoordinator, MailboxStore, Progress, ReclaimedSpace, Result, Store, SystemClock,
    TenantId, TenantStores, ThreadId, ThreadRunStore,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditStore},
        blob::{BlobLayer, BlobOptions, BlobStore, with_blobs},
        config::{ConfigLayer, ConfigStore},
        dataset::{DatasetLayer, DatasetStore},
        effect::{EffectLayer, EffectStore},
        erasure::{ErasureLayer, ErasureStore},
        evaluation::{EvaluationLayer, EvaluationStore},
        profile::{ProfileLayer, ProfileStore},
        registry::{RegistryLayer, RegistryStore},
        replay::{ReplayLayer, ReplayStore},
        stream_checkpoint::{StreamCheckpointLayer, StreamCheckpointStore},
        trace::{TraceLayer, TraceStore},
    },
};

use crate::{
    composed::{ComposedStore, MergedAudit, OtherPart},
    log_files::LogFiles,
    options::unsupported,
};

/// An opened store with all its parts.
///
/// Threads, logs, runs, state, events, pending input, the outbox and the coordinator that commits to them always
/// belong to one store, because one commit writes to all of them atomically (CP-2). So do the registry, the effects,
/// the replay log, stream checkpoints, traces, datasets and evaluation runs. Another store may have the mailbox
/// ([`with_mailbox`](Self::with_mailbox)), another one config with profiles and audit log
/// ([`with_settings`](Self::with_settings)), and another one the bytes of blobs ([`with_blobs`](Self::with_blobs)).
#[derive(Clone)]
pub struct Stores {
    /// All parts together.
    store: Arc<dyn Store>,
    /// The store of the threads alone.
    thread_store: Arc<dyn Store>,
    log_files: Option<Arc<dyn LogFiles>>,
    clock: Arc<dyn Clock>,
    backend: &'static str,
    /// The properties of the mailbox's store, if the mailbox belongs to another store.
    mailbox: Option<SeparateMailbox>,
    /// The store of config, profiles and audit log, if they belong to another store.
    settings: Option<SeparateSettings>,
    /// The store of the bytes of blobs, if they belong to another store.
    blobs: Option<Arc<dyn Store>>,
    blob_options: BlobOptions,
}

/// The properties of another store, from which only the mailbox is used.
#[derive(Clone)]
struct SeparateMailbox {
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    backend: &'static str,
}

/// The store of config, profiles and audit log.
#[derive(Clone)]
struct SeparateSettings {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Stores {
    /// Returns the parts of a store that the caller has opened.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        let thread_store = Arc::clone(&store);
        Self {
            store,
            thread_store,
            log_files: None,
            clock: Arc::new(SystemClock),
            backend: "other",
            mailbox: None,
            settings: None,
            blobs: None,
            blob_options: BlobOptions::default(),
        }
    }

    /// Sets the name of the backend, which metrics use as a label; `other` by default.
    #[must_use]
    pub const fn with_backend_name(mut self, backend: &'static str) -> Self {
        self.backend = backend;
        self
    }

    /// Sets the clock that the store was opened with. `Maintenance` uses it to compute the time before which records
    /// are old enough to be removed. A store on a server takes the times of its records from the server's clock, so
    /// both clocks should show about the same time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the mailbox with that of another store. Everything else still belongs to this store.
    ///
    /// No atomic step covers both stores. A commit can therefore not settle a dispatch (`Unsupported`), and a thread
    /// checks only the number of a claim: it remembers the highest claim number that wrote to it, and refuses lower
    /// ones (CM-32). Before a caller writes under a claim, it has to take the thread over with a commit that names the
    /// claim as its fence. The worker loop does this.
    ///
    /// If `other` is the same store as this one, nothing changes, and the capability `fenced` is kept (CP-3). If the
    /// same store was opened twice, the two openings are not recognised as one store. The composition works, but
    /// without `fenced`.
    ///
    /// `delete_tenant` deletes a tenant from the mailbox first, and then from the other store. If it is interrupted,
    /// repeat the call to finish it.
    ///
    /// # Errors
    /// `Unsupported` if `other` has no mailbox; `Closed` if `other` was closed.
    pub fn with_mailbox(self, other: &Self) -> Result<Self> {
        if Arc::ptr_eq(&self.thread_store, &other.store) {
            return Ok(self);
        }
        other.mailbox(&TenantId::default_tenant())?;
        let (capabilities, clock) = (other.mailbox_capabilities().clone(), Arc::clone(other.mailbox_clock()));
        let mailbox = Some(SeparateMailbox { capabilities, clock, backend: other.mailbox_backend() });
        let store = Arc::new(ComposedStore::new(self.store, Arc::clone(&other.store), OtherPart::Mailbox));
        Ok(Self { store, mailbox, ..self })
    }

    /// Takes config, profiles and the audit log from another store, and everything else from this one (CP-2).
    ///
    /// The registry and the effects stay in this store, and their audit records with them: `audit` reads the logs of
    /// both stores as one. [`subscribe_audit`](AuditStore::subscribe_audit) gives the records of each store in their
    /// order.
    ///
    /// `delete_tenant` deletes a tenant from the other store first, and then from this one. If it is interrupted,
    /// repeat the call to finish it. If `other` is the same store as this one, nothing changes.
    ///
    /// # Errors
    /// `Unsupported` if `other` has no documents; `Closed` if `other` was closed.
    ///
    /// # Example
    ///
    #[cfg_attr(feature = "memory", doc = "```")]
    #[cfg_attr(not(feature = "memory"), doc = "```ignore")]
    /// # async fn example() -> agentstore::Result<()> {
    /// let settings = agentstore::open("memory:").await?;
    /// let stores = agentstore::open("memory:").await?.with_settings(&settings)?;
    /// let _config = stores.config(&agentstore::TenantId::default_tenant())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_settings(self, other: &Self) -> Result<Self> {
        let settings = other.settings.clone().unwrap_or_else(|| SeparateSettings {
            store: Arc::clone(&other.thread_store),
            clock: Arc::clone(&other.clock),
        });
        if Arc::ptr_eq(&self.thread_store, &settings.store) {
            return Ok(self);
        }
        layer_store(&*settings.store, &TenantId::default_tenant())?;
        let store = Arc::new(ComposedStore::new(self.store, Arc::clone(&settings.store), OtherPart::Settings));
        Ok(Self { store, settings: Some(settings), ..self })
    }

    /// Keeps the bytes of blobs in another store, for example in files beside threads in PostgreSQL, and everything
    /// else in this one, also what is known about blobs and who refers to them (CP-2).
    ///
    /// The bytes of a blob are written before anything refers to them, and removed after nothing does. So no atomic
    /// step has to cover both stores. `delete_tenant` deletes a tenant from this store first, and then from the other
    /// one. If it is interrupted, repeat the call to finish it. If `other` is the same store as this one, nothing
    /// changes.
    ///
    /// # Errors
    /// `Unsupported` if `other` has no objects, or if this store has no documents; `Closed` if `other` was closed.
    ///
    /// # Example
    ///
    #[cfg_attr(feature = "memory", doc = "```")]
    #[cfg_attr(not(feature = "memory"), doc = "```ignore")]
    /// # async fn example() -> agentstore::Result<()> {
    /// let files = agentstore::open("memory:").await?;
    /// let stores = agentstore::open("memory:").await?.with_blobs(&files)?;
    /// let _blobs = stores.blobs(&agentstore::TenantId::default_tenant())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_blobs(self, other: &Self) -> Result<Self> {
        let blobs = other.blobs.clone().unwrap_or_else(|| Arc::clone(&other.thread_store));
        if Arc::ptr_eq(&self.thread_store, &blobs) {
            return Ok(self);
        }
        layer_store(&*self.thread_store, &TenantId::default_tenant())?;
        if blobs.tenant(&TenantId::default_tenant())?.objects.is_none() {
            return Err(unsupported(KEEPING_BLOBS));
        }
        let store = Arc::new(ComposedStore::new(self.store, Arc::clone(&blobs), OtherPart::Blobs));
        Ok(Self { store, blobs: Some(blobs), ..self })
    }

    /// Sets how the records of these stores use blobs.
    ///
    /// By default every block stays in its record. With [`BlobOptions::moving_above`], blocks of more than some bytes
    /// are stored as blobs when they are committed (BL-3). What was moved is given back by all reads, whatever the
    /// options are.
    #[must_use]
    pub const fn with_blob_options(mut self, options: BlobOptions) -> Self {
        self.blob_options = options;
        self
    }

    /// Adds access to the log files of the backend.
    #[must_use]
    pub fn with_log_files(mut self, log_files: Arc<dyn LogFiles>) -> Self {
        self.log_files = Some(log_files);
        self
    }

    /// Returns the store itself: tenants, capabilities, syncing, closing, inspection.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Converts this value into the store itself.
    #[must_use]
    pub fn into_store(self) -> Arc<dyn Store> {
        self.store
    }

    /// Returns the capabilities of the opened store.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    /// Returns the capabilities of the store that keeps the mailbox, which may be another store. They describe the
    /// claims, the time and the durability of dispatches.
    #[must_use]
    pub fn mailbox_capabilities(&self) -> &Capabilities {
        self.mailbox.as_ref().map_or_else(|| self.capabilities(), |other| &other.capabilities)
    }

    /// Returns the name of the backend of the mailbox: `memory`, `file`, `postgres`, `sqlite-mailbox`, `nats`, or the
    /// name given to [`with_backend_name`](Self::with_backend_name).
    #[must_use]
    pub fn mailbox_backend(&self) -> &'static str {
        self.mailbox.as_ref().map_or(self.backend, |other| other.backend)
    }

    /// Returns the name of the backend of everything except the mailbox.
    #[must_use]
    pub const fn backend(&self) -> &'static str {
        self.backend
    }

    /// Returns the clock that the store was opened with.
    #[must_use]
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the clock that the store of the mailbox was opened with.
    #[must_use]
    pub fn mailbox_clock(&self) -> &Arc<dyn Clock> {
        self.mailbox.as_ref().map_or(&self.clock, |other| &other.clock)
    }

    /// Returns the clock that the store of config, profiles and audit log was opened with.
    #[must_use]
    pub fn settings_clock(&self) -> &Arc<dyn Clock> {
        self.settings.as_ref().map_or(&self.clock, |settings| &settings.clock)
    }

    /// Returns all contracts that the store has for a tenant.
    ///
    /// # Errors
    /// As [`Store::tenant`].
    pub fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let stores = self.store.tenant(tenant)?;
        let stores = with_blobs(stores, self.blob_options, Arc::clone(&self.clock))?;
        #[cfg(feature = "metrics")]
        let stores = crate::worker::with_counting_mailbox(stores, self.mailbox_backend());
        Ok(stores)
    }

    /// Returns the coordinator that writes to the threads of a tenant. Its `threads()` reads them.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no threads; otherwise as [`Store::tenant`].
    pub fn commits(&self, tenant: &TenantId) -> Result<Arc<dyn CommitCoordinator>> {
        self.tenant(tenant)?.commits.ok_or_else(|| {
            unsupported(
                "committing to threads (open a store that keeps them: `memory:`, `file:PATH` or `postgres://…`)",
            )
        })
    }

    /// Returns the threads of a tenant, with their logs and runs.
    ///
    /// # Errors
    /// As [`commits`](Self::commits).
    pub fn threads(&self, tenant: &TenantId) -> Result<Arc<dyn ThreadRunStore>> {
        self.tenant(tenant)?.threads.ok_or_else(|| {
            unsupported("keeping threads (open a store that does: `memory:`, `file:PATH` or `postgres://…`)")
        })
    }

    /// Returns the mailbox of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no mailbox; otherwise as [`Store::tenant`].
    pub fn mailbox(&self, tenant: &TenantId) -> Result<Arc<dyn MailboxStore>> {
        self.tenant(tenant)?.mailbox.ok_or_else(|| {
            unsupported(
                "keeping a mailbox (open a store that does: `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` or \
                 `nats://…`)",
            )
        })
    }

    /// Returns the config of a tenant, with the feed of its changes.
    ///
    /// # Errors
    /// `Unsupported` if the store has no documents; otherwise as [`Store::tenant`].
    pub fn config(&self, tenant: &TenantId) -> Result<Arc<dyn ConfigStore>> {
        Ok(Arc::new(ConfigLayer::new(self.settings(tenant)?)))
    }

    /// Returns the audit log of a tenant.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn audit(&self, tenant: &TenantId) -> Result<Arc<dyn AuditStore>> {
        let audit = AuditLog::new(self.settings(tenant)?);
        if self.settings.is_none() || self.tenant(tenant)?.documents.is_none() {
            return Ok(Arc::new(audit));
        }
        let of_registry = AuditLog::new(layer_store(&*self.thread_store, tenant)?);
        Ok(Arc::new(MergedAudit::new(audit, of_registry)))
    }

    /// Returns the profiles and the shared state of a tenant (PF).
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn profiles(&self, tenant: &TenantId) -> Result<Arc<dyn ProfileStore>> {
        Ok(Arc::new(ProfileLayer::new(self.settings(tenant)?)))
    }

    /// Returns the registry of a tenant (RG): definitions with versions, publications, manifests.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn registry(&self, tenant: &TenantId) -> Result<Arc<dyn RegistryStore>> {
        Ok(Arc::new(RegistryLayer::new(layer_store(&*self.thread_store, tenant)?)))
    }

    /// Returns the replay log of a tenant (RP): what was sent on a wire, to be sent again. What has expired is decided
    /// by the clock of the stores ([`with_clock`](Self::with_clock)).
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn replay(&self, tenant: &TenantId) -> Result<Arc<dyn ReplayStore>> {
        let store = layer_store(&*self.thread_store, tenant)?;
        Ok(Arc::new(ReplayLayer::new(store, Arc::clone(&self.clock))))
    }

    /// Returns the stream checkpoints of a tenant (SC): the parts of answers that were received before their streams
    /// broke.
    ///
    /// # Errors
    /// As [`config`](Self::config); `Unsupported` if the store keeps no threads.
    pub fn stream_checkpoints(&self, tenant: &TenantId) -> Result<Arc<dyn StreamCheckpointStore>> {
        layer_store(&*self.thread_store, tenant)?;
        Ok(Arc::new(StreamCheckpointLayer::new(&self.thread_store.tenant(tenant)?)?))
    }

    /// Returns the effects of a tenant (EF): what runs do to the world outside of the store.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn effects(&self, tenant: &TenantId) -> Result<Arc<dyn EffectStore>> {
        Ok(Arc::new(EffectLayer::new(layer_store(&*self.thread_store, tenant)?)))
    }

    /// Returns the blobs of a tenant (BL): large payloads outside of records.
    ///
    /// # Errors
    /// `Unsupported` if the store has no objects or keeps no threads; otherwise as [`Store::tenant`].
    pub fn blobs(&self, tenant: &TenantId) -> Result<Arc<dyn BlobStore>> {
        let stores = self.store.tenant(tenant)?;
        if stores.objects.is_none() {
            return Err(unsupported(KEEPING_BLOBS));
        }
        Ok(Arc::new(BlobLayer::new(&stores, Arc::clone(&self.clock))?))
    }

    /// Returns the traces of a tenant (TR): what happened in runs, as spans.
    ///
    /// # Errors
    /// As [`config`](Self::config); `Unsupported` if the store keeps no threads.
    pub fn traces(&self, tenant: &TenantId) -> Result<Arc<dyn TraceStore>> {
        layer_store(&*self.thread_store, tenant)?;
        Ok(Arc::new(TraceLayer::new(&self.thread_store.tenant(tenant)?)?))
    }

    /// Returns the datasets of a tenant (TR-3): cases to evaluate agents with, in versions.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn datasets(&self, tenant: &TenantId) -> Result<Arc<dyn DatasetStore>> {
        Ok(Arc::new(DatasetLayer::new(layer_store(&*self.thread_store, tenant)?)))
    }

    /// Returns the evaluation runs of a tenant (TR-4): the results of agents for the cases of datasets.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn evaluations(&self, tenant: &TenantId) -> Result<Arc<dyn EvaluationStore>> {
        Ok(Arc::new(EvaluationLayer::new(layer_store(&*self.thread_store, tenant)?)))
    }

    /// Returns the erasures of a tenant (PV): a thread, or everything of a resource, is removed with all that speaks of
    /// it, in all parts. Afterwards [`reclaim_space`](Self::reclaim_space) lets go of the bytes.
    ///
    /// # Errors
    /// As [`config`](Self::config); `Unsupported` if the store keeps no threads.
    pub fn erasure(&self, tenant: &TenantId) -> Result<Arc<dyn ErasureStore>> {
        let settings = self.settings.as_ref().map(|settings| layer_store(&*settings.store, tenant)).transpose()?;
        Ok(Arc::new(ErasureLayer::new(self.tenant(tenant)?, settings)?))
    }

    /// Lets go of the bytes of everything that was removed, in the stores of all parts (PV-3).
    ///
    /// # Errors
    /// As [`Store::reclaim_space`].
    pub async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.store.reclaim_space(progress).await
    }

    /// Returns what config, profiles and the audit log are kept in.
    fn settings(&self, tenant: &TenantId) -> Result<LayerStore> {
        layer_store(self.settings.as_ref().map_or(&*self.thread_store, |settings| &*settings.store), tenant)
    }

    /// Returns the file that contains the log of a thread, so that other tools can read it (FI-1). Returns none for an
    /// unknown thread, and if the store has no such files.
    ///
    /// # Errors
    /// Any error of the lookup.
    pub fn log_file(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<PathBuf>> {
        self.log_files.as_ref().map_or(Ok(None), |log_files| log_files.log_file(tenant, thread))
    }

    /// Returns the log files of the backend, or none if it does not keep logs in files. They can be compressed
    /// ([`LogFiles::compress_logs`]).
    #[must_use]
    pub const fn log_files(&self) -> Option<&Arc<dyn LogFiles>> {
        self.log_files.as_ref()
    }

    /// Completes the calls that were accepted, and closes the store (PR-8).
    ///
    /// # Errors
    /// As [`Store::close`].
    pub async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

const KEEPING_BLOBS: &str = "keeping blobs (open a store that does: `memory:`, `file:PATH` or `postgres://…`)";

fn layer_store(store: &dyn Store, tenant: &TenantId) -> Result<LayerStore> {
    let stores = store.tenant(tenant)?;
    if stores.documents.is_none() {
        return Err(unsupported(
            "keeping documents (open a store that does: `memory:`, `file:PATH` or `postgres://…`)",
        ));
    }
    LayerStore::new(&stores)
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("capabilities", self.capabilities()).finish_non_exhaustive()
    }
}
