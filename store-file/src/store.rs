//! The store: opening, closing, tenants.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Weak, atomic::Ordering},
};

use async_trait::async_trait;
use store_core::{
    Capabilities, CursorScope, Error, Page, PageBuilder, PageRequest, Position, Progress, ReclaimedSpace, Result,
    Store, StoreIdentity, TenantId, TenantStores, ThreadId, health::StoreHealth, inspect::Inspector,
};

use crate::{
    codec::damaged,
    config::{Durability, FileConfig},
    deletion, health,
    index::{self, Direction, after_prefix},
    mutex::guard,
    names::log_path,
    opening,
    pool::Queue,
    registry,
    report::Opening,
    shared::Shared,
    table,
    tenant::Tenant,
    vfs::Vfs,
    writer::{self, Writers},
};

/// How many requests the writer takes together.
const TOGETHER: usize = 1_024;

/// A store in a folder. Cheap to clone; all clones are the same store.
///
/// ```
/// use store_core::{Commit, Expect, Message, NewEntry, Store, TenantId, ThreadId};
/// use store_file::{FileConfig, FileStore};
///
/// # fn main() -> store_core::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path();
/// let store = FileStore::open(path, FileConfig::default())?;
/// let commits = store.tenant(&TenantId::default_tenant())?.commits.unwrap();
/// let commit = Commit::new(ThreadId::new("t-1")?)
///     .expecting(Expect::Absent)
///     .entry(NewEntry::new(Message::user("hello")));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let receipt = commits.commit(commit).await?;
/// assert_eq!(receipt.version.number(), 1);
/// store.close().await
/// # })
/// # }
/// ```
#[derive(Clone)]
pub struct FileStore(Arc<Opened>);

struct Opened {
    shared: Arc<Shared>,
    writers: Writers,
    path: PathBuf,
}

impl FileStore {
    /// Opens the store in the folder `path`, or makes it. A second opening in one process gives the same store,
    /// whatever its options say (PR-14).
    ///
    /// # Errors
    /// `Unavailable` with host and process of a holder (FI-5), for an error of the operating system, or if the progress
    /// of the options stops the opening; `SchemaMismatch` for a root of a newer release, or a folder that is no root
    /// where none is to be made; `Corrupt` for a damaged root log.
    pub fn open(path: impl AsRef<Path>, config: FileConfig) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let disk = opening::disk(&path, &config)?;
        if config.read_only {
            return Ok(Self(Opened::new(opening::open(disk, config)?, path)));
        }
        let identity = disk.identity().map_err(|source| crate::error::io(path.display(), source))?;
        let usable = |opened: &Opened| !opened.shared.closed.load(Ordering::SeqCst);
        let opened = registry::share(identity, usable, || Ok(Opened::new(opening::open(disk, config)?, path)))?;
        Ok(Self(opened))
    }

    /// Opens a store on any disk, with its index in memory: for tests of crashes.
    #[doc(hidden)]
    pub fn open_on(vfs: Arc<dyn Vfs>, config: FileConfig) -> Result<Self> {
        let shared = opening::open_on(vfs, config, false, |_| Ok((index::Index::in_memory(), index::Condition::New)))?;
        Ok(Self(Opened::new(shared, PathBuf::new())))
    }

    /// Opens a store on any disk, with an index that outlives the store: for tests of crashes.
    #[doc(hidden)]
    pub fn open_with(vfs: Arc<dyn Vfs>, config: FileConfig, journal: &index::Journal) -> Result<Self> {
        let shared = opening::open_on(vfs, config, false, |_| Ok(index::Index::journaled(journal)))?;
        Ok(Self(Opened::new(shared, PathBuf::new())))
    }

    /// What the opening has found and done.
    #[must_use]
    pub fn opening(&self) -> &Opening {
        &self.0.shared.opening
    }

    /// When what was acknowledged is durable.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.0.shared.config.durability
    }

    /// The file that holds a thread's log (FI-1); none for an unknown thread.
    ///
    /// # Errors
    /// Those of reading.
    pub fn log_path(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<PathBuf>> {
        let shared = &self.0.shared;
        let Some(row) = shared.known_thread(&shared.index.snapshot(), tenant, thread)? else { return Ok(None) };
        let path = log_path(tenant, thread, row.stored.thread.generation())?;
        Ok(Some(self.0.path.join(path.as_str())))
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Opened {
    fn new(shared: Arc<Shared>, path: PathBuf) -> Arc<Self> {
        let state = Arc::clone(&shared);
        let writers = Queue::new(shared.pool.clone(), TOGETHER, move |requests, turn| {
            writer::handle(&state, requests, turn);
        });
        if let Durability::Interval(every) = shared.config.durability {
            let shared = Arc::downgrade(&shared);
            std::thread::spawn(move || sync_every(&shared, every));
        }
        Arc::new(Self { shared, writers, path })
    }
}

/// Makes durable what was acknowledged, every so often, as long as the store is open.
fn sync_every(shared: &Weak<Shared>, every: std::time::Duration) {
    loop {
        std::thread::sleep(every);
        let Some(shared) = shared.upgrade().filter(|shared| shared.check_writable().is_ok()) else { return };
        // A failed sync has poisoned the store: the next write says so, and this thread ends at its next check.
        let _ = shared.sync();
    }
}

#[async_trait]
impl Store for FileStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let Opened { shared, writers, .. } = &*self.0;
        shared.check_open()?;
        let state = Arc::clone(guard(&shared.tenants).entry(tenant.clone()).or_default());
        if state.is_closed() {
            return Err(Error::closed());
        }
        let tenant = Tenant { shared: Arc::clone(shared), writers: writers.clone(), id: tenant.clone(), state };
        let tenant = Arc::new(tenant);
        let live = Arc::clone(&tenant.state.live);
        let stores = TenantStores::from_coordinator(Arc::<Tenant>::clone(&tenant)).with_live(live);
        let stores = stores.with_objects(Arc::<Tenant>::clone(&tenant)).with_records(Arc::<Tenant>::clone(&tenant));
        Ok(stores.with_wake_ups(Arc::<Tenant>::clone(&tenant)).with_mailbox(tenant))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let shared = Arc::clone(&self.0.shared);
        shared.check_open()?;
        let pool = shared.pool.clone();
        pool.run(move || list_tenants(&shared, &page)).await?
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let shared = Arc::clone(&self.0.shared);
        shared.check_writable()?;
        let state = Arc::clone(guard(&shared.tenants).entry(tenant.clone()).or_default());
        state.close();
        shared.followers.end(|(of, _)| of == tenant);
        let (pool, tenant) = (shared.pool.clone(), tenant.clone());
        pool.run(move || {
            let _one = guard(&state.deleting);
            // Another call may have deleted this life of the tenant: the next one is not to be touched.
            if !guard(&shared.tenants).get(&tenant).is_some_and(|now| Arc::ptr_eq(now, &state)) {
                return Ok(());
            }
            deletion::drop_tenant(&shared, &tenant, &state)?;
            guard(&shared.tenants).remove(&tenant);
            Ok(())
        })
        .await?
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.shared.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        health::identity(&self.0.shared)
    }

    async fn health(&self) -> Result<StoreHealth> {
        health::health(&self.0.shared)
    }

    async fn sync(&self) -> Result<()> {
        let shared = Arc::clone(&self.0.shared);
        shared.check_writable()?;
        let pool = shared.pool.clone();
        pool.run(move || shared.sync()).await?
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.reclaim(progress).await
    }

    async fn close(&self) -> Result<()> {
        let shared = &self.0.shared;
        opening::mark_closed(shared);
        shared.followers.end(|_| true);
        shared.pool.close().await;
        shared.finish()
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

impl FileStore {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

fn list_tenants(shared: &Shared, page: &PageRequest) -> Result<Page<TenantId>> {
    let limit = page.checked_limit()?;
    let scope = CursorScope::new(&TenantId::default_tenant(), "tenants", "");
    let from = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
    let snapshot = shared.index.snapshot();
    let mut page = PageBuilder::new(limit);
    let mut last = from.map(|position| TenantId::new(position.id)).transpose()?;
    // One step for each tenant: over all its threads and events to the next one's.
    while let Some(tenant) = next_tenant(&snapshot, last.as_ref())? {
        last = Some(tenant.clone());
        if !page.offer(Position::new(0, tenant.as_str()), 64, Some(tenant)) {
            break;
        }
    }
    Ok(page.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
}

/// The first tenant after `last` that has a thread, an event, a row of the outbox, a mailbox or a document.
fn next_tenant(snapshot: &index::Snapshot, last: Option<&TenantId>) -> Result<Option<TenantId>> {
    let first = |all: index::Key, of: fn(&TenantId) -> index::Key| {
        let end = after_prefix(all.as_bytes());
        let from = last.map_or_else(|| all.into_bytes(), |last| after_prefix(of(last).as_bytes()));
        snapshot.range(&from, &end, Direction::Forward).next().transpose()
    };
    let of_thread = first(table::all_threads(), table::threads)?.map(|(key, _)| table::read_thread(&key));
    let of_event = first(table::all_events(), table::events)?.map(|(key, _)| table::read_event(&key));
    let of_row = first(table::all_outbox(), table::outbox_rows)?.map(|(key, _)| table::read_outbox_row(&key));
    let of_mailbox = first(table::all_mailboxes(), table::mailboxes)?.map(|(key, _)| table::read_mailbox(&key));
    let of_document = first(table::all_documents(), table::documents)?.map(|(key, _)| table::read_document(&key));
    let names = of_thread
        .into_iter()
        .chain(of_event)
        .chain(of_row)
        .chain(of_mailbox)
        .chain(of_document)
        .map(|key| key.ok_or_else(|| damaged("tenant")));
    let first = names.collect::<Result<Vec<_>>>()?.into_iter().map(|(tenant, _)| tenant).min();
    first.map(TenantId::new).transpose()
}
