//! The options with which a store is opened.

use std::{sync::Arc, time::Duration};

use store_core::{Clock, Error, IdSource, IgnoreProgress, Limits, Progress, Result, SystemClock, UuidSource};

use crate::{StoreUrl, Stores, backend};

/// The options with which a store is opened. An option that the backend does not have is refused, never ignored.
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
    /// When acknowledged data is durable; the default of the backend if absent.
    pub durability: Option<Durability>,
    /// Whether the store is opened for reading only. Then nothing is locked or written, and another process may write.
    pub read_only: bool,
    /// Whether a missing store is created.
    pub create: Create,
    /// The clock for store time, if the store has no clock of its own.
    pub clock: Arc<dyn Clock>,
    /// The source of generated ids.
    pub ids: Arc<dyn IdSource>,
    /// The limits of the store. A limit above the default is lowered to the default.
    pub limits: Limits,
    /// Receives the progress of an opening that takes a long time, and can stop the opening (FI-10).
    pub progress: Arc<dyn Progress>,
    /// Whether a store of `file:` is opened although its journal is lost or damaged. Acknowledged data may then be
    /// missing, and a verification says so. For all other stores, this is refused.
    pub accept_lost_journal: bool,
}

/// When acknowledged data is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Before it is acknowledged.
    Sync,
    /// At most this long after it was acknowledged. A power cut may lose the last part of the data (FI-12).
    Interval(Duration),
    /// When the operating system writes it out, without a bound on the time.
    None,
}

/// What happens if the store does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Create {
    /// The store is created.
    #[default]
    Missing,
    /// The store is not opened, and an error is returned.
    Never,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            durability: None,
            read_only: false,
            create: Create::Missing,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidSource),
            limits: Limits::default(),
            progress: Arc::new(IgnoreProgress),
            accept_lost_journal: false,
        }
    }
}

impl OpenOptions {
    /// Returns the default options: open for writing, create a missing store, and use the default durability of the
    /// backend.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets when acknowledged data is durable.
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Opens the store for reading only. A store that does not exist is then not created.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Sets whether a missing store is created.
    #[must_use]
    pub const fn with_create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of ids.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what receives the progress of an opening that takes a long time.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Opens a store of `file:` although its journal is lost or damaged. Acknowledged data may then be missing.
    #[must_use]
    pub const fn accepting_lost_journal(mut self) -> Self {
        self.accept_lost_journal = true;
        self
    }

    /// Opens the store at `url`. [`Stores::builder`] composes several stores.
    ///
    /// # Errors
    /// `Invalid` for a text that is not a URL of a known scheme; `Unsupported` for a backend that was not compiled in
    /// and for an option that the backend does not have; otherwise any error of opening the store (CP-1).
    pub async fn open(&self, url: &str) -> Result<Stores> {
        self.open_url(&url.parse()?).await
    }

    /// Opens the store at a URL that was already parsed.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_url(&self, url: &StoreUrl) -> Result<Stores> {
        if self.accept_lost_journal && !matches!(url, StoreUrl::File(_)) {
            return Err(unsupported("opening without a journal (only `file:PATH` has one)"));
        }
        let stores = match url {
            StoreUrl::Memory => backend::memory::open(self),
            StoreUrl::File(path) => backend::file::open(path, self).await,
            StoreUrl::Sqlite(path) => backend::sqlite_mailbox::open(path, self).await,
            StoreUrl::Postgres(url) => backend::postgres::open(url, self).await,
            StoreUrl::Nats(url) => backend::nats::open(url, self).await,
            StoreUrl::Buffered { inner, servers } => backend::buffer::open(inner, servers, self).await,
        };
        Ok(stores?.with_shown_url(url.to_string()))
    }
}

/// The write buffer in front of a store: applying what it holds, its quarantine, detaching it.
/// [`Stores::write_buffer`] gives it.
#[cfg(feature = "nats")]
pub type WriteBuffer = store_nats::Buffered<Arc<dyn store_core::buffer::BufferTarget>>;

/// Returns the id of the write buffer that is attached to the store at a URL, if there is one (NB-14). Nothing is
/// written, and no buffer is opened. It does not matter whether the URL names the servers of a buffer.
///
/// # Errors
/// Any error of opening the store for reading.
#[cfg(feature = "nats")]
pub async fn attached_buffer(url: &StoreUrl) -> Result<Option<String>> {
    match url {
        StoreUrl::Buffered { inner, .. } => backend::buffer::attached(inner).await,
        url => backend::buffer::attached(url).await,
    }
}

/// Opens the store at `url` with the defaults of [`OpenOptions`] (CP-1).
///
/// # Errors
/// As [`OpenOptions::open`].
pub async fn open(url: &str) -> Result<Stores> {
    OpenOptions::new().open(url).await
}

/// Returns the error for an operation that a store, or this build, does not support.
pub(crate) fn unsupported(operation: &'static str) -> Error {
    Error::new(store_core::Detail::Unsupported { operation })
}
