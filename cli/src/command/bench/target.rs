//! The new store that is measured. It is next to the named store, on the same medium.

use std::{path::Path, sync::Arc};

use agentstore::{
    Detail, Error, IdSource, OpenOptions, Result, Store, StoreUrl, UuidSource,
    nats::{NatsConfig, TestPrefix},
    postgres::{PostgresConfig, PostgresStore, TestSchema},
};
use tempfile::TempDir;

use crate::sibling_dir::sibling_dir;

/// Where the measured store is. Its data is removed after the measurement.
pub(super) enum BenchTarget {
    Memory,
    FileStore(TempDir),
    /// A folder that contains the file of a mailbox.
    SqliteMailbox(TempDir),
    PostgresSchema(Box<TestSchema>),
    NatsPrefix(Box<TestPrefix>),
}

impl BenchTarget {
    pub(super) async fn new(url: &StoreUrl) -> Result<Self> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory),
            StoreUrl::File(path) => create_sibling_folder(path).map(Self::FileStore),
            StoreUrl::Sqlite(path) => create_sibling_folder(path).map(Self::SqliteMailbox),
            StoreUrl::Postgres(url) => {
                let name = format!("bench_{}", UuidSource.next_id().replace('-', ""));
                let config = PostgresConfig::new(url.with_password())?.with_schema(&name)?;
                PostgresStore::migrate(&config).await?;
                Ok(Self::PostgresSchema(Box::new(TestSchema::from_config(config))))
            }
            StoreUrl::Nats(url) => {
                let name = format!("bench-{}", UuidSource.next_id());
                let config = NatsConfig::new(url.with_password())?.with_prefix(&name)?;
                Ok(Self::NatsPrefix(Box::new(TestPrefix::from_config(config))))
            }
            _ => Err(Error::new(Detail::Unsupported { operation: "measuring a store of this kind" })),
        }
    }

    /// Opens the store.
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>> {
        let url = match self {
            Self::Memory => StoreUrl::Memory,
            Self::FileStore(folder) => StoreUrl::File(folder.path().join("store")),
            Self::SqliteMailbox(folder) => StoreUrl::Sqlite(folder.path().join("mailbox.db")),
            Self::PostgresSchema(schema) => return Ok(Arc::new(schema.open().await?)),
            Self::NatsPrefix(prefix) => return Ok(Arc::new(prefix.open().await?)),
        };
        Ok(OpenOptions::new().open_url(&url).await?.into_store())
    }

    /// Returns whether the store keeps threads, or only a mailbox.
    pub(super) const fn keeps_threads(&self) -> bool {
        !matches!(self, Self::SqliteMailbox(_) | Self::NatsPrefix(_))
    }

    /// Returns whether the store is on a server, so that each loop that measures the machine's own limit needs a
    /// connection.
    pub(super) const fn is_on_server(&self) -> bool {
        matches!(self, Self::PostgresSchema(_) | Self::NatsPrefix(_))
    }

    /// Returns the folder that contains the store, if it is a file store.
    pub(super) fn file_store_folder(&self) -> Option<&Path> {
        match self {
            Self::FileStore(folder) => Some(folder.path()),
            _ => None,
        }
    }

    pub(super) async fn remove(self) -> Result<()> {
        match self {
            Self::Memory => Ok(()),
            Self::FileStore(folder) | Self::SqliteMailbox(folder) => {
                folder.close().map_err(|error| Error::unavailable("the folder cannot be removed").with_source(error))
            }
            Self::PostgresSchema(schema) => schema.remove().await,
            Self::NatsPrefix(prefix) => prefix.remove().await,
        }
    }
}

fn create_sibling_folder(path: &Path) -> Result<TempDir> {
    sibling_dir(path, ".agentstore-bench-").map_err(|error| {
        Error::unavailable(format!("no folder can be created next to `{}`", path.display())).with_source(error)
    })
}
