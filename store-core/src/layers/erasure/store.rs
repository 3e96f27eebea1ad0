//! The contract of erasures, and its implementation over the contracts of a tenant.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    record::{EraseResource, EraseThread, Erased},
    rules,
    steps::Erasing,
};
use crate::{
    error::{Detail, Error, Result},
    id::ResourceId,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditResource, AuditStore, NewAudit},
        blob::BlobLayer,
        profile::{ProfileLayer, ProfileOwner, ProfileStore},
    },
    log::Direction,
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
    store::TenantStores,
    thread::{ThreadFilter, ThreadOrder, ThreadQuery, ThreadRunStore},
    time::SystemClock,
};

/// How often an erasure of a resource looks for threads again that were created meanwhile.
const ROUNDS: u32 = 10;

/// Erases threads, and everything of a resource (PV-1 to PV-4).
///
/// An erasure is repeated until it returns `Ok`; a repetition removes what is left. It removes what exists when it is
/// called: what other writers write about the thread meanwhile may stay until the next call. Claims of the thread can
/// write nothing any more. The bytes are gone once the stores have
/// [reclaimed their space](crate::Store::reclaim_space) (PV-3).
///
/// Ids stay where the store needs them: those of threads, runs and topics, and the names that audit records have for
/// what they are about.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Deletes a thread with its descendants, and everything that speaks of them (PV-1).
    ///
    /// A child that belongs to another resource than the thread stays, and loses its parent. For a thread that does not
    /// exist, what an earlier deletion has left is removed.
    ///
    /// # Errors
    /// The errors of the stores. After any error, repeat the call.
    async fn erase_thread(&self, request: EraseThread, progress: &dyn Progress) -> Result<Erased>;

    /// Does so for all threads of a resource, and removes the profile of the user that has its id (PV-2).
    ///
    /// It may be stopped between two threads, and can be repeated.
    ///
    /// # Errors
    /// As [`erase_thread`](Self::erase_thread); `Unavailable` if threads of the resource are created faster than they
    /// are erased.
    async fn erase_resource(&self, request: EraseResource, progress: &dyn Progress) -> Result<Erased>;
}

/// Erasures over the stores of a tenant.
#[derive(Clone)]
pub struct ErasureLayer {
    pub(super) stores: TenantStores,
    pub(super) threads: Arc<dyn ThreadRunStore>,
    pub(super) layers: LayerStore,
    pub(super) profiles: ProfileLayer,
    /// The audit log of the threads, and that of the profiles, if another store has it.
    pub(super) audits: Vec<AuditLog>,
    /// The blobs, if the store has objects.
    pub(super) blobs: Option<BlobLayer>,
}

impl ErasureLayer {
    /// Makes the erasures of a tenant. The mailbox may belong to another store. `settings` are the documents and events
    /// of the profiles, if another store has them.
    ///
    /// # Errors
    /// `Unsupported` if the store has no threads or no documents.
    pub fn new(stores: TenantStores, settings: Option<LayerStore>) -> Result<Self> {
        let unsupported = || Error::new(Detail::Unsupported { operation: "keeping threads" });
        let threads = stores.threads.clone().ok_or_else(unsupported)?;
        let layers = LayerStore::new(&stores)?;
        let profiles = ProfileLayer::new(settings.clone().unwrap_or_else(|| layers.clone()));
        let audits = [layers.clone()].into_iter().chain(settings).map(AuditLog::new).collect();
        // The clock decides only about references that are older than their threads.
        let blobs = match &stores.objects {
            Some(_) => Some(BlobLayer::new(&stores, Arc::new(SystemClock))?),
            None => None,
        };
        Ok(Self { stores, threads, layers, profiles, audits, blobs })
    }

    /// Writes the audit record of an erasure, which has no content (PV-4).
    async fn record(&self, audit: &NewAudit, resource: AuditResource) -> Result<()> {
        let audit = audit.clone().with_action(rules::action()?);
        AuditLog::new(self.layers.clone()).append_audit(audit, resource, None, None).await.map(drop)
    }

    /// Erases the profile of a user, and what audit records have of it.
    async fn erase_user(&self, resource: &ResourceId, erasing: &mut Erasing<'_>) -> Result<()> {
        // An id that is no id of a user has no profile.
        let Ok(user) = resource.as_str().parse() else { return Ok(()) };
        erasing.profile(&ProfileOwner::User(user)).await?;
        erasing.audit(&rules::audits_of_resource(resource)?).await
    }

    /// Erases the threads of a resource that exist now. Returns whether there were any.
    async fn erase_threads_of(&self, resource: &ResourceId, erasing: &mut Erasing<'_>) -> Result<bool> {
        let filter = ThreadFilter { resource_id: Some(resource.clone()), ..ThreadFilter::default() };
        let query = ThreadQuery::new(filter).ordered(ThreadOrder::Creation, Direction::Forward);
        let (mut found, mut next) = (Vec::new(), Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.threads.list_threads(query.clone().with_page(page)).await?;
            found.extend(page.items);
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        let has_some = !found.is_empty();
        for thread in found {
            if !erasing.goes_on() {
                break;
            }
            erasing.with_descendants(thread).await?;
        }
        Ok(has_some)
    }
}

impl fmt::Debug for ErasureLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasureLayer").field("stores", &self.stores).finish_non_exhaustive()
    }
}

#[async_trait]
impl ErasureStore for ErasureLayer {
    async fn erase_thread(&self, request: EraseThread, progress: &dyn Progress) -> Result<Erased> {
        let mut erasing = Erasing::new(self, &request.replay, request.dry_run, progress);
        match self.threads.load_thread(&request.thread).await? {
            Some(thread) => erasing.with_descendants(thread).await?,
            None => erasing.remains(&request.thread).await?,
        }
        let erased = erasing.finish().await?;
        if !request.dry_run && !erased.stopped {
            self.record(&request.audit, rules::thread_resource(&request.thread)?).await?;
        }
        Ok(erased)
    }

    async fn erase_resource(&self, request: EraseResource, progress: &dyn Progress) -> Result<Erased> {
        let mut erasing = Erasing::new(self, &request.replay, request.dry_run, progress);
        let mut rounds = 0;
        while self.erase_threads_of(&request.resource, &mut erasing).await? && !request.dry_run && erasing.goes_on() {
            rounds += 1;
            if rounds == ROUNDS {
                return Err(Error::unavailable("threads of the resource are created while it is erased"));
            }
        }
        if erasing.goes_on() {
            self.erase_user(&request.resource, &mut erasing).await?;
        }
        let erased = erasing.finish().await?;
        if !request.dry_run && !erased.stopped {
            self.record(&request.audit, AuditResource::of(["resource", request.resource.as_str()])?).await?;
        }
        Ok(erased)
    }
}

/// Clears a profile, and returns how many values it had.
pub(super) async fn clear(profiles: &ProfileLayer, owner: &ProfileOwner, dry_run: bool) -> Result<u64> {
    if !dry_run {
        return profiles.clear_profile(owner).await;
    }
    let (mut count, mut next) = (0, Some(PageRequest::first(MAX_PAGE)));
    while let Some(page) = next.take() {
        let page = profiles.list_profile(owner, page).await?;
        count += crate::limits::length(page.items.len());
        next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
    }
    Ok(count)
}
