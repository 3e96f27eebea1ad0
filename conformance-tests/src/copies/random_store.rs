//! Stores with data of every kind, made by random operations.

use std::{fmt, sync::Arc};

use store_core::{TenantId, TenantStores};

use crate::{Failure, Fixture, OpenedStore, model::fill_at_random};

/// A store that random operations have written to.
pub struct RandomStore {
    fixture: Arc<dyn Fixture>,
    opened: OpenedStore,
}

impl fmt::Debug for RandomStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomStore").field("fixture", &self.fixture.name()).finish_non_exhaustive()
    }
}

impl RandomStore {
    /// Opens a store, and runs so many random operations on it, which the seed chooses.
    ///
    /// # Errors
    /// If the store cannot be opened, or does not agree with the model.
    pub async fn open(fixture: &Arc<dyn Fixture>, seed: u64, steps: usize) -> Result<Self, Failure> {
        let opened = fill_at_random(fixture, seed, steps).await?;
        Ok(Self { fixture: Arc::clone(fixture), opened })
    }

    /// The tenant that was written to.
    ///
    /// # Errors
    /// If the store does not return it.
    pub fn stores(&self) -> Result<TenantStores, Failure> {
        Ok(self.opened.store.tenant(&TenantId::default_tenant())?)
    }

    /// The store.
    #[must_use]
    pub const fn opened(&self) -> &OpenedStore {
        &self.opened
    }
}
