//! The contracts of a tenant, each from the store of its part.

use std::{path::PathBuf, sync::Arc};

use store_core::{
    CommitCoordinator, MailboxStore, Progress, ReclaimedSpace, Result, Store, TenantId, TenantStores, ThreadId,
    ThreadRunStore,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditStore},
        blob::{BlobLayer, BlobStore, with_blobs},
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

use super::Stores;
use crate::{composed::MergedAudit, log_files::LogFiles, options::unsupported};

impl Stores {
    /// Returns all contracts that the store has for a tenant.
    ///
    /// # Errors
    /// As [`Store::tenant`].
    pub fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let stores = self.store.tenant(tenant)?;
        let stores = with_blobs(stores, self.blob_options, Arc::clone(&self.threads.clock))?;
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
        self.tenant(tenant)?.threads.ok_or_else(|| unsupported(KEEPING_THREADS))
    }

    /// Returns the mailbox of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if the store keeps no mailbox; otherwise as [`Store::tenant`].
    pub fn mailbox(&self, tenant: &TenantId) -> Result<Arc<dyn MailboxStore>> {
        self.tenant(tenant)?.mailbox.ok_or_else(|| unsupported(KEEPING_MAILBOX))
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
        let of_registry = AuditLog::new(layer_store(&*self.threads.store, tenant)?);
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
        Ok(Arc::new(RegistryLayer::new(layer_store(&*self.threads.store, tenant)?)))
    }

    /// Returns the replay log of a tenant (RP): what was sent on a wire, to be sent again. What has expired is decided
    /// by the clock of the stores ([`with_clock`](Self::with_clock)).
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn replay(&self, tenant: &TenantId) -> Result<Arc<dyn ReplayStore>> {
        let store = layer_store(&*self.threads.store, tenant)?;
        Ok(Arc::new(ReplayLayer::new(store, Arc::clone(&self.threads.clock))))
    }

    /// Returns the stream checkpoints of a tenant (SC): the parts of answers that were received before their streams
    /// broke.
    ///
    /// # Errors
    /// As [`config`](Self::config); `Unsupported` if the store keeps no threads.
    pub fn stream_checkpoints(&self, tenant: &TenantId) -> Result<Arc<dyn StreamCheckpointStore>> {
        layer_store(&*self.threads.store, tenant)?;
        Ok(Arc::new(StreamCheckpointLayer::new(&self.threads.store.tenant(tenant)?)?))
    }

    /// Returns the effects of a tenant (EF): what runs do to the world outside of the store.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn effects(&self, tenant: &TenantId) -> Result<Arc<dyn EffectStore>> {
        Ok(Arc::new(EffectLayer::new(layer_store(&*self.threads.store, tenant)?)))
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
        Ok(Arc::new(BlobLayer::new(&stores, Arc::clone(&self.threads.clock))?))
    }

    /// Returns the traces of a tenant (TR): what happened in runs, as spans.
    ///
    /// # Errors
    /// As [`config`](Self::config); `Unsupported` if the store keeps no threads.
    pub fn traces(&self, tenant: &TenantId) -> Result<Arc<dyn TraceStore>> {
        layer_store(&*self.threads.store, tenant)?;
        Ok(Arc::new(TraceLayer::new(&self.threads.store.tenant(tenant)?)?))
    }

    /// Returns the datasets of a tenant (TR-3): cases to evaluate agents with, in versions.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn datasets(&self, tenant: &TenantId) -> Result<Arc<dyn DatasetStore>> {
        Ok(Arc::new(DatasetLayer::new(layer_store(&*self.threads.store, tenant)?)))
    }

    /// Returns the evaluation runs of a tenant (TR-4): the results of agents for the cases of datasets.
    ///
    /// # Errors
    /// As [`config`](Self::config).
    pub fn evaluations(&self, tenant: &TenantId) -> Result<Arc<dyn EvaluationStore>> {
        Ok(Arc::new(EvaluationLayer::new(layer_store(&*self.threads.store, tenant)?)))
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
        layer_store(&*self.settings.as_ref().unwrap_or(&self.threads).store, tenant)
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
}

pub(super) const KEEPING_THREADS: &str =
    "keeping threads (open a store that does: `memory:`, `file:PATH` or `postgres://…`)";
pub(super) const KEEPING_MAILBOX: &str = "keeping a mailbox (open a store that does: `memory:`, `file:PATH`, \
    `sqlite:PATH`, `postgres://…` or `nats://…`)";
pub(super) const KEEPING_DOCUMENTS: &str =
    "keeping documents (open a store that does: `memory:`, `file:PATH` or `postgres://…`)";
pub(super) const KEEPING_BLOBS: &str =
    "keeping blobs (open a store that does: `memory:`, `file:PATH` or `postgres://…`)";

fn layer_store(store: &dyn Store, tenant: &TenantId) -> Result<LayerStore> {
    let stores = store.tenant(tenant)?;
    if stores.documents.is_none() {
        return Err(unsupported(KEEPING_DOCUMENTS));
    }
    LayerStore::new(&stores)
}
