//! How a store is opened.

use std::{sync::Arc, time::Duration};

use store_core::{Clock, Error, IdSource, Limits, Progress, Result, Silent, SystemClock, Uuids};

use crate::{StoreUrl, Stores, backend};

/// How a store is opened: options that a backend does not have are refused, never ignored.
///
/// ```
/// use agentstore::{Durability, OpenOptions};
///
/// # async fn example() -> agentstore::Result<()> {
/// let stores = OpenOptions::new().with_durability(Durability::Sync).open("file:./agentstore-data").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// When what was acknowledged is durable; absent: as the backend does it.
    pub durability: Option<Durability>,
    /// Read beside a process that writes: nothing is locked and nothing is written.
    pub read_only: bool,
    /// Whether a store that does not exist is made.
    pub create: Create,
    /// The clock of store time, where the store has none of its own.
    pub clock: Arc<dyn Clock>,
    /// Where generated ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Limits, none above the defaults.
    pub limits: Limits,
    /// Hears how far an opening is that takes long, and can stop it (FI-10).
    pub progress: Arc<dyn Progress>,
}

/// When what was acknowledged is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Before it is acknowledged.
    Sync,
    /// At most this long after it was acknowledged: a power cut may take the last of it (FI-12).
    Interval(Duration),
    /// When the system gets to it.
    None,
}

/// What happens to a store that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Create {
    /// It is made.
    #[default]
    Missing,
    /// The opening is refused.
    Never,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            durability: None,
            read_only: false,
            create: Create::Missing,
            clock: Arc::new(SystemClock),
            ids: Arc::new(Uuids),
            limits: Limits::default(),
            progress: Arc::new(Silent),
        }
    }
}

impl OpenOptions {
    /// Open for writing, make what is missing, and sync before a commit is answered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same options with this durability.
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The same options for reading only; a store that does not exist is then not made.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The same options, making a missing store or not.
    #[must_use]
    pub const fn with_create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// The same options with this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same options with ids from there.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// The same options with these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same options, saying how far an opening is that takes long.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Opens the store at `url`.
    ///
    /// # Errors
    /// `Invalid` for what is no URL of a known scheme, `Unsupported` for a backend that was not compiled in and for an
    /// option that the backend does not have; else what its opening ends with (CP-1).
    pub async fn open(&self, url: &str) -> Result<Stores> {
        self.open_url(&url.parse()?).await
    }

    /// Opens the store at a URL that was read before.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_url(&self, url: &StoreUrl) -> Result<Stores> {
        match url {
            StoreUrl::Memory => backend::memory::open(self),
            StoreUrl::File(path) => backend::file::open(path, self).await,
            StoreUrl::Sqlite(path) => backend::sqlite_mailbox::open(path, self).await,
            StoreUrl::Postgres(url) => backend::postgres::open(url, self).await,
            StoreUrl::Nats(url) => backend::nats::open(url, self).await,
        }
    }

    /// Opens everything at `store`, but the mailbox at `mailbox` (CP-2). URLs that lead to one place give one store,
    /// which is not opened twice (CP-3).
    ///
    /// ```
    /// use agentstore::OpenOptions;
    ///
    /// # async fn example() -> agentstore::Result<()> {
    /// let stores = OpenOptions::new().open_with_mailbox("postgres://db/work", "file:./queue").await?;
    /// assert!(!stores.capabilities().fenced);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open), of either; `Unsupported` if the second one keeps no mailbox.
    pub async fn open_with_mailbox(&self, store: &str, mailbox: &str) -> Result<Stores> {
        let (store, mailbox) = (store.parse::<StoreUrl>()?, mailbox.parse::<StoreUrl>()?);
        let stores = self.open_url(&store).await?;
        if store.is_same_place(&mailbox) {
            return Ok(stores);
        }
        let other = self.open_url(&mailbox).await?;
        stores.with_mailbox(&other)
    }
}

/// Opens the store at `url` with the defaults of [`OpenOptions`] (CP-1).
///
/// # Errors
/// As [`OpenOptions::open`].
pub async fn open(url: &str) -> Result<Stores> {
    OpenOptions::new().open(url).await
}

/// The refusal of something that a store, or this build, does not have.
pub(crate) fn unsupported(operation: &'static str) -> Error {
    Error::new(store_core::Detail::Unsupported { operation })
}
