//! The store that a command works on, opened as the command needs it.

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use agentstore::{
    AuditStore, BlobStore, Capabilities, CommitCoordinator, ConfigStore, Create, DatasetStore, EffectStore, EntryQuery,
    Error, EvaluationStore, MailboxStore, OpenOptions, PageRequest, PartSource, PendingStore, ProfileStore,
    RegistryStore, StoreUrl, Stores, Survives, TenantId, Thread, ThreadId, ThreadRunStore, TraceStore,
};
use serde::Serialize;
use sessions::FormatName;

use crate::{
    args::{GlobalArgs, PartUrls},
    failure::{Failure, Result, is_missing_store},
    progress::TerminalProgress,
};

/// How a command uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The command only reads, and another process may be writing.
    Read,
    /// The command only reads. A store that does not exist is read as an empty one.
    ReadOrEmpty,
    /// The command writes to a store that must exist.
    Write,
    /// The command writes to a store of `file:` that must exist, although its journal may be lost.
    WriteWithoutJournal,
    /// The command writes, and creates the store if it does not exist.
    Create,
}

/// An opened store, and the tenant that the command works on.
#[derive(Debug)]
pub(crate) struct Session {
    urls: PartUrls,
    stores: Stores,
    tenant: TenantId,
    /// Whether the store does not exist, and an empty one was opened instead.
    is_missing: bool,
}

/// The description of the store in the header of a command's output.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StoreHeader {
    /// The URL of the store, without its password.
    pub(crate) store: String,
    /// The URL of the mailbox's store, if the mailbox is in another store than the threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mailbox: Option<String>,
    /// The URL of the store of config, profiles and audit log, if they are in another store than the threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settings: Option<String>,
    /// The URL of the store of the bytes of blobs, if they are in another store than the threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) blobs: Option<String>,
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The capabilities of the store as it was opened.
    pub(crate) capabilities: Capabilities,
}

impl Session {
    /// Opens the store that the options name, with the parts of other stores that they name.
    pub(crate) async fn open(global: &GlobalArgs, access: Access) -> Result<Self> {
        Self::open_at(global.part_urls(), global.tenant.clone(), access).await
    }

    /// Opens the stores at the URLs. A part whose URL leads to the store of the threads is in that store.
    pub(crate) async fn open_at(mut urls: PartUrls, tenant: TenantId, access: Access) -> Result<Self> {
        let (threads, is_missing) = match Self::open_stores(&urls.store, access).await {
            Err(Failure::Library { error, .. }) if access == Access::ReadOrEmpty && is_missing_store(&error) => {
                (Self::open_stores(&StoreUrl::Memory, Access::Read).await?, true)
            }
            opened => (opened?, false),
        };
        for other in [&mut urls.mailbox, &mut urls.settings, &mut urls.blobs] {
            *other = other.take().filter(|other| !urls.store.is_same_store(other));
        }
        let access = if access == Access::WriteWithoutJournal { Access::Write } else { access };
        let source = |url: &StoreUrl| (PartSource::from(url.clone()), open_options(url, access));
        let mut builder = Stores::builder(threads);
        if let Some(mailbox) = &urls.mailbox {
            builder = builder.mailbox(source(mailbox));
        }
        if let Some(settings) = &urls.settings {
            builder = builder.settings(source(settings));
        }
        if let Some(blobs) = &urls.blobs {
            builder = builder.blobs(source(blobs));
        }
        let stores = Box::pin(builder.open()).await?;
        // Another URL may lead to the store of the threads, too.
        let separate = stores.separate_part_names();
        let others = [("mailbox", &mut urls.mailbox), ("settings", &mut urls.settings), ("blobs", &mut urls.blobs)];
        others.into_iter().filter(|(name, _)| !separate.contains(name)).for_each(|(_, url)| *url = None);
        Ok(Self { urls, stores, tenant, is_missing })
    }

    async fn open_stores(url: &StoreUrl, access: Access) -> Result<Stores> {
        let bar = Arc::new(TerminalProgress::new("reading logs"));
        let options = open_options(url, access).with_progress(Arc::<TerminalProgress>::clone(&bar));
        let stores = options.open_url(url).await;
        bar.finish();
        Ok(stores?)
    }

    /// Returns the environment variables with which an `agentstore` process in any folder works on the same stores and
    /// tenant. A variable without a value must be removed from the environment. The values contain the passwords of the
    /// URLs.
    pub(crate) fn child_environment(&self) -> Result<[(&'static str, Option<OsString>); 6]> {
        let url = |url: &Option<StoreUrl>| url.as_ref().map(url_for_child_process).transpose();
        Ok([
            ("AGENTSTORE_URL", Some(url_for_child_process(&self.urls.store)?)),
            ("AGENTSTORE_MAILBOX", url(&self.urls.mailbox)?),
            ("AGENTSTORE_SETTINGS", url(&self.urls.settings)?),
            ("AGENTSTORE_BLOBS", url(&self.urls.blobs)?),
            // It is a part of the URL of the store.
            ("AGENTSTORE_BUFFER", None),
            ("AGENTSTORE_TENANT", Some(self.tenant.as_str().into())),
        ])
    }

    /// Returns the opened stores.
    pub(crate) const fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Returns the tenant that the command works on.
    pub(crate) const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Returns whether the store does not exist. The command then reads an empty one.
    pub(crate) const fn is_of_missing_store(&self) -> bool {
        self.is_missing
    }

    /// Returns the commit coordinator of the tenant.
    pub(crate) fn commits(&self) -> Result<Arc<dyn CommitCoordinator>> {
        Ok(self.stores.commits(&self.tenant)?)
    }

    /// Returns the pending input of the tenant.
    pub(crate) fn pending(&self) -> Result<Arc<dyn PendingStore>> {
        Ok(self.commits()?.pending())
    }

    /// Returns the threads of the tenant.
    pub(crate) fn threads(&self) -> Result<Arc<dyn ThreadRunStore>> {
        Ok(self.stores.threads(&self.tenant)?)
    }

    /// Returns the mailbox of the tenant.
    pub(crate) fn mailbox(&self) -> Result<Arc<dyn MailboxStore>> {
        Ok(self.stores.mailbox(&self.tenant)?)
    }

    /// Returns the config of the tenant.
    pub(crate) fn config(&self) -> Result<Arc<dyn ConfigStore>> {
        Ok(self.stores.config(&self.tenant)?)
    }

    /// Returns the profiles of the tenant.
    pub(crate) fn profiles(&self) -> Result<Arc<dyn ProfileStore>> {
        Ok(self.stores.profiles(&self.tenant)?)
    }

    /// Returns the registry of the tenant.
    pub(crate) fn registry(&self) -> Result<Arc<dyn RegistryStore>> {
        Ok(self.stores.registry(&self.tenant)?)
    }

    /// Returns the effects of the tenant.
    pub(crate) fn effects(&self) -> Result<Arc<dyn EffectStore>> {
        Ok(self.stores.effects(&self.tenant)?)
    }

    /// Returns the blobs of the tenant.
    pub(crate) fn blobs(&self) -> Result<Arc<dyn BlobStore>> {
        Ok(self.stores.blobs(&self.tenant)?)
    }

    /// Returns the traces of the tenant.
    pub(crate) fn traces(&self) -> Result<Arc<dyn TraceStore>> {
        Ok(self.stores.traces(&self.tenant)?)
    }

    /// Returns the datasets of the tenant.
    pub(crate) fn datasets(&self) -> Result<Arc<dyn DatasetStore>> {
        Ok(self.stores.datasets(&self.tenant)?)
    }

    /// Returns the evaluation runs of the tenant.
    pub(crate) fn evaluations(&self) -> Result<Arc<dyn EvaluationStore>> {
        Ok(self.stores.evaluations(&self.tenant)?)
    }

    /// Returns the audit log of the tenant.
    pub(crate) fn audit(&self) -> Result<Arc<dyn AuditStore>> {
        Ok(self.stores.audit(&self.tenant)?)
    }

    /// Returns the thread with this id, or an error if it does not exist.
    pub(crate) async fn require_thread(&self, id: &ThreadId) -> Result<Thread> {
        let found = self.threads()?.load_thread(id).await?;
        Ok(found.ok_or_else(|| Error::not_found("thread", id))?)
    }

    /// Returns the format of the session file that a thread was imported from, or none if it was not imported.
    pub(crate) async fn imported_format(&self, id: &ThreadId) -> Result<Option<FormatName>> {
        self.require_thread(id).await?;
        let query = EntryQuery::all().with_page(PageRequest::first(1));
        let first_entry = self.threads()?.list_entries(id, query).await?.items.into_iter().next();
        Ok(first_entry.and_then(|entry| entry.origin.as_ref()?.format.parse().ok()))
    }

    /// Returns the file with the log of a thread, if the store has such files.
    pub(crate) fn log_file(&self, thread: &ThreadId) -> Result<Option<PathBuf>> {
        Ok(self.stores.log_file(&self.tenant, thread)?)
    }

    /// Returns the description of the store.
    pub(crate) fn header(&self) -> StoreHeader {
        let capabilities = self.stores.capabilities().clone();
        let url = |url: &Option<StoreUrl>| url.as_ref().map(ToString::to_string);
        let PartUrls { store, mailbox, settings, blobs } = &self.urls;
        let (mailbox, settings, blobs) = (url(mailbox), url(settings), url(blobs));
        StoreHeader { store: store.to_string(), mailbox, settings, blobs, tenant: self.tenant.clone(), capabilities }
    }

    /// Closes the store, so that no recovery is needed when it is opened again.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.stores.close().await?)
    }
}

/// Returns the options with which a command opens the store at a URL.
fn open_options(url: &StoreUrl, access: Access) -> OpenOptions {
    match access {
        Access::Read | Access::ReadOrEmpty | Access::Write if !url.outlives_process() => OpenOptions::new(),
        // These stores have no read-only mode and need none: several processes can have them open.
        Access::Read | Access::ReadOrEmpty
            if matches!(url, StoreUrl::Sqlite(_) | StoreUrl::Nats(_) | StoreUrl::Buffered { .. }) =>
        {
            OpenOptions::new().with_create(Create::Never)
        }
        Access::Read | Access::ReadOrEmpty => OpenOptions::new().read_only(),
        Access::Write => OpenOptions::new().with_create(Create::Never),
        Access::WriteWithoutJournal => OpenOptions::new().with_create(Create::Never).accepting_lost_journal(),
        Access::Create => OpenOptions::new(),
    }
}

/// Returns the URL with its password, and with an absolute path, so that a process in another folder can use it.
fn url_for_child_process(url: &StoreUrl) -> Result<OsString> {
    let (scheme, path) = match url {
        StoreUrl::File(path) => ("file:", path),
        StoreUrl::Sqlite(path) => ("sqlite:", path),
        other => return Ok(other.with_password().into()),
    };
    let path = std::path::absolute(path).map_err(|error| Failure::io("the current folder is unknown", error))?;
    let mut text = OsString::from(scheme);
    text.push(path);
    Ok(text)
}

impl StoreHeader {
    /// Returns the URLs of the store and of the stores of its parts.
    pub(crate) fn urls(&self) -> String {
        let parts = [("mailbox", &self.mailbox), ("settings", &self.settings), ("blobs", &self.blobs)];
        let others: String =
            parts.into_iter().filter_map(|(name, url)| Some(format!(", {name} {}", url.as_ref()?))).collect();
        format!("{}{others}", self.store)
    }

    /// Returns the header as one line of text.
    pub(crate) fn line(&self) -> String {
        let survives = match self.capabilities.survives {
            Survives::Nothing => "nothing: it is lost when the process ends",
            Survives::Process => "a killed process, but not a power cut",
            Survives::Power => "a power cut",
        };
        format!("store {}, tenant {}; acknowledged data survives {survives}", self.urls(), self.tenant)
    }
}
