//! The parts of an opened store, or of several stores combined.

mod accessors;
mod builder;
mod check;

use std::{fmt, sync::Arc};

use store_core::{BlobOptions, Capabilities, Clock, Result, Store, SystemClock};

pub use self::{
    builder::{PartSource, StoresBuilder},
    check::{PartCheck, StoresCheck},
};
#[cfg(feature = "nats")]
use crate::WriteBuffer;
use crate::{
    Decorator,
    composed::{ComposedStore, OtherPart},
    log_files::LogFiles,
};

/// An opened store with all its parts.
///
/// Threads, logs, runs, state, events, pending input, the outbox and the coordinator that commits to them always
/// belong to one store, because one commit writes to all of them atomically (CP-2). So do the registry, the effects,
/// the replay log, stream checkpoints, traces, datasets and evaluation runs. Another store may have the mailbox,
/// another one config with profiles and audit log, and another one the bytes of blobs: see
/// [`builder`](Self::builder).
#[derive(Clone)]
pub struct Stores {
    /// All parts together.
    store: Arc<dyn Store>,
    /// The store of the threads, and of each part that has no store of its own.
    threads: OpenedPart,
    mailbox: Option<OpenedPart>,
    /// Config, profiles and audit log.
    settings: Option<OpenedPart>,
    /// The bytes of blobs.
    blobs: Option<OpenedPart>,
    log_files: Option<Arc<dyn LogFiles>>,
    blob_options: BlobOptions,
    /// The write buffer in front of the store of the threads.
    #[cfg(feature = "nats")]
    write_buffer: Option<WriteBuffer>,
}

/// The store of a part.
#[derive(Clone)]
struct OpenedPart {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    backend: &'static str,
    /// The URL that it was opened with, without its secrets; absent if the caller has opened it.
    url: Option<Arc<str>>,
}

impl OpenedPart {
    /// Returns whether both are the same store (CP-3).
    fn is_same_store(&self, other: &Self) -> bool {
        let identity = self.store.identity();
        Arc::ptr_eq(&self.store, &other.store) || (identity.is_some() && identity == other.store.identity())
    }

    /// Returns the URL or the backend, for messages.
    fn name(&self) -> String {
        match &self.url {
            Some(url) => format!("`{url}`"),
            None => format!("an opened store of `{}`", self.backend),
        }
    }
}

impl Stores {
    /// Returns the parts of a store that the caller has opened.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        let part = Arc::clone(&store);
        let threads = OpenedPart { store: part, clock: Arc::new(SystemClock), backend: "other", url: None };
        let (mailbox, settings, blobs) = (None, None, None);
        Self {
            store,
            threads,
            mailbox,
            settings,
            blobs,
            log_files: None,
            blob_options: BlobOptions::default(),
            #[cfg(feature = "nats")]
            write_buffer: None,
        }
    }

    /// Returns the write buffer in front of the store of the threads, if the store was opened behind one: by
    /// [`StoresBuilder::buffer`] or by a URL such as `nats+postgres://db/work?buffer=nats://queue`.
    #[cfg(feature = "nats")]
    #[must_use]
    pub const fn write_buffer(&self) -> Option<&WriteBuffer> {
        self.write_buffer.as_ref()
    }

    #[cfg(feature = "nats")]
    pub(crate) fn with_write_buffer(mut self, buffer: WriteBuffer) -> Self {
        self.write_buffer = Some(buffer);
        self
    }

    /// Sets the name of the backend, which metrics use as a label; `other` by default.
    #[must_use]
    pub const fn with_backend_name(mut self, backend: &'static str) -> Self {
        self.threads.backend = backend;
        self
    }

    /// Sets the clock that the store was opened with. `Maintenance` uses it to compute the time before which records
    /// are old enough to be removed. A store on a server takes the times of its records from the server's clock, so
    /// both clocks should show about the same time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.threads.clock = clock;
        self
    }

    /// Sets the URL, which messages show. It must contain no secret.
    pub(crate) fn with_shown_url(mut self, url: String) -> Self {
        self.threads.url = Some(url.into());
        self
    }

    /// Returns the parts that have a store of their own.
    fn separate_parts(&self) -> impl Iterator<Item = (OtherPart, &OpenedPart)> {
        let parts = [
            (OtherPart::Mailbox, &self.mailbox),
            (OtherPart::Settings, &self.settings),
            (OtherPart::Blobs, &self.blobs),
        ];
        parts.into_iter().filter_map(|(part, other)| Some((part, other.as_ref()?)))
    }

    /// Returns the names of the parts that have a store of their own: `mailbox`, `settings`, `blobs`.
    #[must_use]
    pub fn separate_part_names(&self) -> Vec<&'static str> {
        self.separate_parts().map(|(part, _)| part.name()).collect()
    }

    /// Composes the store of all parts anew.
    fn compose(mut self) -> Self {
        self.store = self.separate_parts().fold(Arc::clone(&self.threads.store), |store, (part, other)| {
            Arc::new(ComposedStore::new(store, Arc::clone(&other.store), part))
        });
        self
    }

    /// Sets how the records of these stores use blobs.
    ///
    /// By default every block stays in its record. With [`BlobOptions::moving_above`], blocks of more than some bytes
    /// are stored as blobs when they are committed (BL-3). What was moved is given back by all reads, whatever the
    /// options are.
    #[must_use]
    pub const fn with_blob_options(mut self, options: BlobOptions) -> Self {
        self.blob_options = options;
        self
    }

    /// Wraps the store of each part into a decorator, which then does something around each call. Several decorators
    /// can be applied; the last one is asked first.
    #[must_use]
    pub fn decorated(mut self, decorator: &dyn Decorator) -> Self {
        let others = [&mut self.mailbox, &mut self.settings, &mut self.blobs].into_iter().flatten();
        for part in others.chain([&mut self.threads]) {
            part.store = decorator.decorate(Arc::clone(&part.store), part.backend);
        }
        self.compose()
    }

    /// Adds access to the log files of the backend.
    #[must_use]
    pub fn with_log_files(mut self, log_files: Arc<dyn LogFiles>) -> Self {
        self.log_files = Some(log_files);
        self
    }

    /// Returns the store itself: tenants, capabilities, syncing, closing, inspection.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Converts this value into the store itself.
    #[must_use]
    pub fn into_store(self) -> Arc<dyn Store> {
        self.store
    }

    /// Returns the capabilities of the opened store.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    /// Returns the capabilities of the store that keeps the mailbox, which may be another store. They describe the
    /// claims, the time and the durability of dispatches.
    #[must_use]
    pub fn mailbox_capabilities(&self) -> &Capabilities {
        self.mailbox.as_ref().map_or_else(|| self.capabilities(), |other| other.store.capabilities())
    }

    /// Returns the name of the backend of the mailbox: `memory`, `file`, `postgres`, `sqlite-mailbox`, `nats`, or the
    /// name given to [`with_backend_name`](Self::with_backend_name).
    #[must_use]
    pub fn mailbox_backend(&self) -> &'static str {
        self.mailbox.as_ref().unwrap_or(&self.threads).backend
    }

    /// Returns the name of the backend of everything except the mailbox.
    #[must_use]
    pub const fn backend(&self) -> &'static str {
        self.threads.backend
    }

    /// Returns the clock that the store was opened with.
    #[must_use]
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.threads.clock
    }

    /// Returns the clock that the store of the mailbox was opened with.
    #[must_use]
    pub fn mailbox_clock(&self) -> &Arc<dyn Clock> {
        &self.mailbox.as_ref().unwrap_or(&self.threads).clock
    }

    /// Returns the clock that the store of config, profiles and audit log was opened with.
    #[must_use]
    pub fn settings_clock(&self) -> &Arc<dyn Clock> {
        &self.settings.as_ref().unwrap_or(&self.threads).clock
    }

    /// Completes the calls that were accepted, and closes the stores of all parts (PR-8).
    ///
    /// # Errors
    /// As [`Store::close`].
    pub async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("capabilities", self.capabilities()).finish_non_exhaustive()
    }
}
