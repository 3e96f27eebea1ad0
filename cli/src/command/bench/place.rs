//! Where a store is measured: in a place of its own beside the named one, on the same medium.

use std::sync::Arc;

use agentstore::{
    Detail, Error, IdSource, OpenOptions, Result, Store, StoreUrl, Uuids,
    postgres::{PostgresConfig, PostgresStore, TestSchema},
};
use tempfile::TempDir;

use crate::beside::beside;

/// A place that is gone afterwards.
pub(super) enum Place {
    Memory,
    Folder(TempDir),
    Schema(Box<TestSchema>),
}

impl Place {
    pub(super) async fn new(url: &StoreUrl) -> Result<Self> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory),
            StoreUrl::File(path) => beside(path, ".agentstore-bench-").map(Self::Folder).map_err(|error| {
                Error::unavailable(format!("no folder can be made beside `{}`", path.display())).with_source(error)
            }),
            StoreUrl::Postgres(url) => {
                let name = format!("bench_{}", Uuids.next_id().replace('-', ""));
                let config = PostgresConfig::new(url.with_password())?.with_schema(&name)?;
                PostgresStore::migrate(&config).await?;
                Ok(Self::Schema(Box::new(TestSchema::named(config))))
            }
            _ => Err(Error::new(Detail::Unsupported { operation: "measuring a store of this kind" })),
        }
    }

    /// Opens its store.
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>> {
        let url = match self {
            Self::Memory => StoreUrl::Memory,
            Self::Folder(folder) => StoreUrl::File(folder.path().join("store")),
            Self::Schema(schema) => return Ok(Arc::new(schema.open().await?)),
        };
        Ok(OpenOptions::new().open_url(&url).await?.into_store())
    }

    pub(super) async fn remove(self) -> Result<()> {
        match self {
            Self::Memory => Ok(()),
            Self::Folder(folder) => {
                folder.close().map_err(|error| Error::unavailable("the folder cannot be removed").with_source(error))
            }
            Self::Schema(schema) => schema.remove().await,
        }
    }
}
