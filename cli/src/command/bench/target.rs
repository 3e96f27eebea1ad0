//! The new store that is measured. It is next to the named store, on the same medium.

use std::{path::Path, sync::Arc};

use agentstore::{
    Detail, Error, IdSource, OpenOptions, Result, Store, StoreUrl, Uuids,
    nats::{NatsConfig, TestPrefix},
    postgres::{PostgresConfig, PostgresStore, TestSchema},
};
use tempfile::TempDir;

use crate::sibling_dir::sibling_dir;

/// Where the measured store is. Its data is removed after the measurement.
pub(super) enum BenchTarget {
    Memory,
    Folder(TempDir),
    /// A folder that contains the file of a mailbox.
    File(TempDir),
    Schema(Box<TestSchema>),
    Prefix(Box<TestPrefix>),
}

impl BenchTarget {
    pub(super) async fn new(url: &StoreUrl) -> Result<Self> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory),
            StoreUrl::File(path) => folder(path).map(Self::Folder),
            StoreUrl::Sqlite(path) => folder(path).map(Self::File),
            StoreUrl::Postgres(url) => {
                let name = format!("bench_{}", Uuids.next_id().replace('-', ""));
                let config = PostgresConfig::new(url.with_password())?.with_schema(&name)?;
                PostgresStore::migrate(&config).await?;
                Ok(Self::Schema(Box::new(TestSchema::named(config))))
            }
            StoreUrl::Nats(url) => {
                let name = format!("bench-{}", Uuids.next_id());
                let config = NatsConfig::new(url.with_password())?.with_prefix(&name)?;
                Ok(Self::Prefix(Box::new(TestPrefix::named(config))))
            }
            _ => Err(Error::new(Detail::Unsupported { operation: "measuring a store of this kind" })),
        }
    }

    /// Opens the store.
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>> {
        let url = match self {
            Self::Memory => StoreUrl::Memory,
            Self::Folder(folder) => StoreUrl::File(folder.path().join("store")),
            Self::File(folder) => StoreUrl::Sqlite(folder.path().join("mailbox.db")),
            Self::Schema(schema) => return Ok(Arc::new(schema.open().await?)),
            Self::Prefix(prefix) => return Ok(Arc::new(prefix.open().await?)),
        };
        Ok(OpenOptions::new().open_url(&url).await?.into_store())
    }

    /// Returns whether the store keeps threads, or only a mailbox.
    pub(super) const fn keeps_threads(&self) -> bool {
        !matches!(self, Self::File(_) | Self::Prefix(_))
    }

    /// Returns whether the store is on a server, so that each loop of the limit needs a connection.
    pub(super) const fn is_on_server(&self) -> bool {
        matches!(self, Self::Schema(_) | Self::Prefix(_))
    }

    pub(super) async fn remove(self) -> Result<()> {
        match self {
            Self::Memory => Ok(()),
            Self::Folder(folder) | Self::File(folder) => {
                folder.close().map_err(|error| Error::unavailable("the folder cannot be removed").with_source(error))
            }
            Self::Schema(schema) => schema.remove().await,
            Self::Prefix(prefix) => prefix.remove().await,
        }
    }
}

fn folder(path: &Path) -> Result<TempDir> {
    sibling_dir(path, ".agentstore-bench-").map_err(|error| {
        Error::unavailable(format!("no folder can be created next to `{}`", path.display())).with_source(error)
    })
}
