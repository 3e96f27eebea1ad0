//! How the suite opens a store, sets its clock and damages its data.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    Capabilities, Clock, Limits, Result, Store, TenantStores,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditStore},
        blob::{BlobLayer, BlobOptions, BlobStore},
        config::{ConfigLayer, ConfigStore},
        dataset::{DatasetLayer, DatasetStore},
        effect::{EffectLayer, EffectStore},
        erasure::{ErasureLayer, ErasureStore},
        evaluation::{EvaluationLayer, EvaluationStore},
        replay::{ReplayLayer, ReplayStore},
        stream_checkpoint::{StreamCheckpointLayer, StreamCheckpointStore},
        trace::{TraceLayer, TraceStore},
    },
};

use crate::case::Need;

/// A store that was opened for a case, with the resources that must outlive the store.
pub struct OpenedStore {
    /// The store.
    pub store: Arc<dyn Store>,
    /// What must outlive the store, for example a temporary folder, a schema or a clock. It is dropped after the store.
    pub guard: Box<dyn Any + Send + Sync>,
}

impl OpenedStore {
    /// An opened store, with the resources that must outlive it.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, guard: impl Any + Send + Sync) -> Self {
        Self { store, guard: Box::new(guard) }
    }

    /// The resources that must outlive the store, if their type is `G`.
    #[must_use]
    pub fn guard<G: Any>(&self) -> Option<&G> {
        self.guard.downcast_ref()
    }
}

impl fmt::Debug for OpenedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedStore").finish_non_exhaustive()
    }
}

/// Why a need of a case is not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmetReason {
    /// The backend declares that it does not have what the case needs.
    Unsupported(&'static str),
    /// The backend has it, but it is not available in this environment.
    NotRun(&'static str),
}

/// A case that is known to fail, with the reason. If a listed case passes, the suite reports a failure, so that the
/// case is removed from the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The name of the case, for example `thread::an_update_keeps_fields_that_it_does_not_name`.
    pub case: &'static str,
    /// Why the case fails.
    pub reason: &'static str,
}

/// Opens the stores of a backend for the suite, and declares what they can do.
///
/// The suite does not find out by trial what a store can do. Instead, [`why_unmet`](Self::why_unmet) declares which
/// needs of cases are not met. If a need is not met, the suite never calls the methods that only cases with this need
/// use.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// The name of the store in the report: the backend and its settings.
    fn name(&self) -> String;

    /// The capabilities that the store declares. A case compares them with those of the opened store (PR-1).
    fn capabilities(&self) -> Capabilities;

    /// Returns why cases with this need cannot run, or `None` if they can.
    fn why_unmet(&self, need: Need) -> Option<UnmetReason>;

    /// The cases that are known to fail.
    fn gaps(&self) -> Vec<Gap>;

    /// Opens a new, empty store with these limits. They are the default limits unless a case has [`Need::Limits`].
    async fn open(&self, limits: Limits) -> Result<OpenedStore>;

    /// Opens the store again, with the data that it kept ([`Need::Reopen`]). Before this call, the suite has closed the
    /// store, or has dropped every handle of it. If it dropped the handles, `opened.store` is a closed placeholder.
    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore>;

    /// Opens the store a second time in this process, while it is open ([`Need::SecondOpening`]).
    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>>;

    /// Advances the store's clock ([`Need::Time`]).
    async fn advance(&self, opened: &OpenedStore, by: Duration);

    /// Sets the store's clock back ([`Need::Time`]).
    async fn set_back(&self, opened: &OpenedStore, by: Duration);

    /// Changes one stored byte of the closed store and opens the store again ([`Need::Damage`]). `seed` chooses
    /// the byte. An error means that the damaged store could not be opened.
    async fn damage(&self, opened: OpenedStore, seed: u64) -> Result<OpenedStore>;

    /// Returns the config over the documents and events of a tenant. Only fixtures with planted bugs return another
    /// one than the layer of core.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn config(&self, stores: &TenantStores) -> Result<Arc<dyn ConfigStore>> {
        Ok(Arc::new(ConfigLayer::new(LayerStore::new(stores)?)))
    }

    /// Returns the audit log over the events of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn audit(&self, stores: &TenantStores) -> Result<Arc<dyn AuditStore>> {
        Ok(Arc::new(AuditLog::new(LayerStore::new(stores)?)))
    }

    /// Returns the replay log of a tenant, as [`config`](Self::config) does for config. The case moves its clock.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn replay(&self, stores: &TenantStores, clock: Arc<dyn Clock>) -> Result<Arc<dyn ReplayStore>> {
        Ok(Arc::new(ReplayLayer::new(LayerStore::new(stores)?, clock)))
    }

    /// Returns the stream checkpoints of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents or no threads.
    fn stream_checkpoints(&self, stores: &TenantStores) -> Result<Arc<dyn StreamCheckpointStore>> {
        Ok(Arc::new(StreamCheckpointLayer::new(stores)?))
    }

    /// Returns the blobs of a tenant, as [`config`](Self::config) does for config. The case moves the clock.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents, no threads or no objects.
    fn blobs(&self, stores: &TenantStores, clock: Arc<dyn Clock>) -> Result<Arc<dyn BlobStore>> {
        Ok(Arc::new(BlobLayer::new(stores, clock)?))
    }

    /// Returns the handles of a tenant whose records use blobs, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// Any error of [`with_blobs`](store_core::with_blobs).
    fn with_blobs(&self, stores: TenantStores, options: BlobOptions, clock: Arc<dyn Clock>) -> Result<TenantStores> {
        store_core::with_blobs(stores, options, clock)
    }

    /// Returns the effects over the documents of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn effects(&self, stores: &TenantStores) -> Result<Arc<dyn EffectStore>> {
        Ok(Arc::new(EffectLayer::new(LayerStore::new(stores)?)))
    }

    /// Returns the traces of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents or no threads.
    fn traces(&self, stores: &TenantStores) -> Result<Arc<dyn TraceStore>> {
        Ok(Arc::new(TraceLayer::new(stores)?))
    }

    /// Returns the datasets over the documents of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn datasets(&self, stores: &TenantStores) -> Result<Arc<dyn DatasetStore>> {
        Ok(Arc::new(DatasetLayer::new(LayerStore::new(stores)?)))
    }

    /// Returns the evaluation runs over the documents of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents.
    fn evaluations(&self, stores: &TenantStores) -> Result<Arc<dyn EvaluationStore>> {
        Ok(Arc::new(EvaluationLayer::new(LayerStore::new(stores)?)))
    }

    /// Returns the erasures of a tenant, as [`config`](Self::config) does for config.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents or no threads.
    fn erasure(&self, stores: &TenantStores) -> Result<Arc<dyn ErasureStore>> {
        Ok(Arc::new(ErasureLayer::new(stores.clone(), None)?))
    }
}
