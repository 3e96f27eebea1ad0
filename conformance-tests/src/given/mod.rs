//! The opened store that a case gets, and helpers for working with it.

mod builders;
mod pages_and_tasks;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use store_core::{CommitCoordinator, Error, Limits, PageRequest, Store, TenantId, TenantStores, ThreadRunStore};
use tokio::sync::RwLock;

pub use self::{
    builders::{commit_with_message, id, keyed_commit_with_message, message_entry},
    pages_and_tasks::{read_all_pages, run_concurrently, run_two_concurrently},
};
use crate::{
    case::Contract,
    check::Failure,
    closed_store::ClosedStore,
    fixture::{Fixture, OpenedStore},
};

/// The new, empty, opened store that a case gets.
///
/// After [`reopen`](Self::reopen), earlier handles belong to a closed store, and the case must ask for new ones.
pub struct Given {
    contract: Contract,
    fixture: Arc<dyn Fixture>,
    limits: Limits,
    /// The store, with the resources that must outlive it. The lock is held while the fixture works with the store.
    opened: RwLock<Option<OpenedStore>>,
    /// Another handle of the same store, which `store()` can clone without waiting for the fixture.
    store: std::sync::RwLock<Option<Arc<dyn Store>>>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("fixture", &self.fixture.name()).finish_non_exhaustive()
    }
}

impl Given {
    pub(crate) async fn open(contract: Contract, fixture: Arc<dyn Fixture>) -> Result<Self, Failure> {
        Self::open_with_limits(contract, fixture, Limits::default()).await
    }

    async fn open_with_limits(contract: Contract, fixture: Arc<dyn Fixture>, limits: Limits) -> Result<Self, Failure> {
        let opened = fixture.open(limits.clone()).await?;
        let store = Arc::clone(&opened.store);
        if !store.list_tenants(PageRequest::default()).await?.items.is_empty() {
            return Err(Failure::new("the store that the fixture opened holds data"));
        }
        let (opened, store) = (RwLock::new(Some(opened)), std::sync::RwLock::new(Some(store)));
        Ok(Self { contract, fixture, limits, opened, store })
    }

    /// Opens another new, empty store with other limits (`Need::Limits`).
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn open_another_store_with_limits(
        &self,
        change: impl FnOnce(&mut Limits) + Send,
    ) -> Result<Self, Failure> {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::open_with_limits(self.contract, Arc::clone(&self.fixture), limits).await
    }

    /// Opens another new, empty store.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn open_another_store(&self) -> Result<Self, Failure> {
        Self::open_with_limits(self.contract, Arc::clone(&self.fixture), Limits::default()).await
    }

    /// The contract for which the case runs.
    #[must_use]
    pub const fn contract(&self) -> Contract {
        self.contract
    }

    /// The fixture that opened the store.
    #[must_use]
    pub fn fixture(&self) -> &dyn Fixture {
        &*self.fixture
    }

    /// The limits that the store was opened with.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The store.
    ///
    /// # Panics
    /// If an earlier call could not open the store again. The case then fails.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.read().expect("no panic while the lock is held").clone().expect("an open store")
    }

    /// The handles of the tenant `default`.
    ///
    /// # Errors
    /// If the store does not return them.
    pub fn stores(&self) -> Result<TenantStores, Failure> {
        Ok(self.store().tenant(&TenantId::default_tenant())?)
    }

    /// The handles of a tenant.
    ///
    /// # Errors
    /// If the store does not return them.
    pub fn tenant(&self, name: &str) -> Result<TenantStores, Failure> {
        Ok(self.store().tenant(&id(name))?)
    }

    /// The threads of the tenant `default`.
    ///
    /// # Errors
    /// If the store has none.
    pub fn threads(&self) -> Result<Arc<dyn ThreadRunStore>, Failure> {
        self.stores()?.threads.ok_or_else(|| Failure::new("the store has no threads"))
    }

    /// The commits of the tenant `default`.
    ///
    /// # Errors
    /// If the store has none.
    pub fn commits(&self) -> Result<Arc<dyn CommitCoordinator>, Failure> {
        self.stores()?.commits.ok_or_else(|| Failure::new("the store has no commits"))
    }

    /// Closes the store and opens it again (`Need::Reopen`).
    ///
    /// # Errors
    /// If it cannot be closed or opened.
    pub async fn reopen(&self) -> Result<(), Failure> {
        let mut opened = self.opened.write().await;
        let opened_store = self.take_opened(&mut opened)?;
        opened_store.store.close().await?;
        self.set_opened(&mut opened, self.fixture.reopen(opened_store).await?);
        Ok(())
    }

    /// Drops the store without closing it and opens it again (`Need::Reopen`). The case must not hold any other handle
    /// of the store.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn reopen_without_closing(&self) -> Result<(), Failure> {
        let mut opened = self.opened.write().await;
        let mut opened_store = self.take_opened(&mut opened)?;
        opened_store.store = Arc::new(ClosedStore::new());
        self.set_opened(&mut opened, self.fixture.reopen(opened_store).await?);
        Ok(())
    }

    /// Drops the store without closing it, and puts a closed placeholder in its place. Handles of tenants still work.
    ///
    /// # Errors
    /// If an earlier call could not open the store again.
    pub async fn drop_store(&self) -> Result<(), Failure> {
        let mut opened = self.opened.write().await;
        let mut opened_store = self.take_opened(&mut opened)?;
        opened_store.store = Arc::new(ClosedStore::new());
        self.set_opened(&mut opened, opened_store);
        Ok(())
    }

    /// Closes the store, changes a stored byte, and opens the store again (`Need::Damage`). The inner result says
    /// whether the damaged store could be opened.
    ///
    /// # Errors
    /// If the store cannot be closed, or if an earlier call left it closed.
    pub async fn damage(&self, seed: u64) -> Result<Result<(), Error>, Failure> {
        let mut opened = self.opened.write().await;
        let opened_store = self.take_opened(&mut opened)?;
        opened_store.store.close().await?;
        Ok(self.fixture.damage(opened_store, seed).await.map(|reopened| self.set_opened(&mut opened, reopened)))
    }

    /// Takes the store out of `self`, so that the fixture gets the last handle of the store.
    fn take_opened(&self, current: &mut Option<OpenedStore>) -> Result<OpenedStore, Failure> {
        *self.store.write().expect("no panic while the lock is held") = None;
        current.take().ok_or_else(|| Failure::new("the store is not open"))
    }

    /// Makes `opened` the store that the case uses from now on.
    fn set_opened(&self, current: &mut Option<OpenedStore>, opened: OpenedStore) {
        *self.store.write().expect("no panic while the lock is held") = Some(Arc::clone(&opened.store));
        *current = Some(opened);
    }

    /// Opens the store a second time while it is open (`Need::SecondOpening`).
    ///
    /// # Errors
    /// If the store is not open. The inner result says whether the store could be opened a second time.
    pub async fn open_second_time(&self) -> Result<Result<Arc<dyn Store>, Error>, Failure> {
        let opened = self.opened.read().await;
        let opened = opened.as_ref().ok_or_else(|| Failure::new("the store is not open"))?;
        Ok(self.fixture.open_second_time(opened).await)
    }

    /// Advances the store's clock (`Need::Time`).
    pub async fn advance(&self, by: Duration) {
        if let Some(opened) = &*self.opened.read().await {
            self.fixture.advance(opened, by).await;
        }
    }

    /// Sets the store's clock back (`Need::Time`).
    pub async fn set_back(&self, by: Duration) {
        if let Some(opened) = &*self.opened.read().await {
            self.fixture.set_back(opened, by).await;
        }
    }
}
