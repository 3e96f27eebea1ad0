//! Stores that are composed of several stores: which part is in which.

use store_core::{Error, Result, Survives, TenantId, TenantStores};

use super::{
    OpenedPart, Stores,
    accessors::{KEEPING_BLOBS, KEEPING_DOCUMENTS, KEEPING_MAILBOX, KEEPING_THREADS},
};
use crate::{OpenOptions, StoreUrl, composed::OtherPart, options::unsupported};

/// Where a part is: at a URL, or in a store that the caller has opened.
///
/// A URL may come with options of its own: `("sqlite:queue.db", OpenOptions::new())`. Without them, the options of the
/// builder are used.
#[derive(Debug, Clone)]
#[must_use]
pub struct PartSource(Source);

#[derive(Debug, Clone)]
enum Source {
    /// A URL, or the reason why the text is none.
    Url(Box<Result<StoreUrl, String>>, Option<OpenOptions>),
    Opened(Stores),
}

impl From<&str> for PartSource {
    fn from(url: &str) -> Self {
        let parsed = url.parse().map_err(|error: Error| error.to_string());
        Self(Source::Url(Box::new(parsed), None))
    }
}

impl From<String> for PartSource {
    fn from(url: String) -> Self {
        Self::from(url.as_str())
    }
}

impl From<&String> for PartSource {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}

impl From<StoreUrl> for PartSource {
    fn from(url: StoreUrl) -> Self {
        Self(Source::Url(Box::new(Ok(url)), None))
    }
}

impl From<Stores> for PartSource {
    fn from(stores: Stores) -> Self {
        Self(Source::Opened(stores))
    }
}

impl From<&Stores> for PartSource {
    fn from(stores: &Stores) -> Self {
        Self(Source::Opened(stores.clone()))
    }
}

impl<U: Into<Self>> From<(U, OpenOptions)> for PartSource {
    /// The options of an opened store are those that it was opened with.
    fn from((url, options): (U, OpenOptions)) -> Self {
        match url.into().0 {
            Source::Url(url, _) => Self(Source::Url(url, Some(options))),
            opened @ Source::Opened(_) => Self(opened),
        }
    }
}

impl OtherPart {
    /// Returns the store that has this part in other stores.
    fn of(self, stores: Stores) -> OpenedPart {
        let separate = match self {
            Self::Mailbox => stores.mailbox,
            Self::Settings => stores.settings,
            Self::Blobs => stores.blobs,
        };
        separate.unwrap_or(stores.threads)
    }

    /// Returns what a store that cannot have the part lacks.
    fn lacks(self, stores: &TenantStores) -> Option<&'static str> {
        let (is_missing, lacks) = match self {
            Self::Mailbox => (stores.mailbox.is_none(), KEEPING_MAILBOX),
            Self::Settings => (stores.documents.is_none(), KEEPING_DOCUMENTS),
            Self::Blobs => (stores.objects.is_none(), KEEPING_BLOBS),
        };
        is_missing.then_some(lacks)
    }
}

/// Composes [`Stores`] of several stores: the store of the threads, and for each other part another store if it is to
/// have one. See [`Stores::builder`].
#[derive(Debug, Clone)]
#[must_use]
pub struct StoresBuilder {
    options: OpenOptions,
    threads: PartSource,
    others: [(OtherPart, Option<PartSource>); 3],
    /// The URL of the servers with the write buffer, or the reason why the text is none.
    buffer: Option<Result<StoreUrl, String>>,
}

impl Stores {
    /// Begins a composition with the store that has the threads, and everything that is atomic with them: their logs,
    /// runs and state, pending input, events, the outbox, documents, and the coordinator that commits to all of these;
    /// so also the registry, effects, the replay log, stream checkpoints, traces, datasets and evaluation runs (CP-2).
    ///
    /// For these there is no other method, so parts that cannot share a transaction cannot be given to one
    /// coordinator. Each part that is not named is in the store of the threads.
    ///
    /// # Example
    ///
    #[cfg_attr(feature = "memory", doc = "```")]
    #[cfg_attr(not(feature = "memory"), doc = "```ignore")]
    /// use agentstore::{Stores, TenantId};
    ///
    /// # async fn example() -> agentstore::Result<()> {
    /// let queue = agentstore::open("memory:").await?;
    /// let stores = Stores::builder("memory:").mailbox(&queue).open().await?;
    /// assert!(!stores.capabilities().fenced);
    /// let _config = stores.config(&TenantId::default_tenant())?; // in the store of the threads
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// ```no_run
    /// # use agentstore::Stores;
    /// # async fn example() -> agentstore::Result<()> {
    /// let stores = Stores::builder("postgres://db/work").mailbox("nats://queue").blobs("file:./blobs").open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(threads: impl Into<PartSource>) -> StoresBuilder {
        let others = [OtherPart::Mailbox, OtherPart::Settings, OtherPart::Blobs].map(|part| (part, None));
        StoresBuilder { options: OpenOptions::new(), threads: threads.into(), others, buffer: None }
    }
}

impl StoresBuilder {
    /// Sets the options with which stores at URLs are opened, unless a URL has options of its own.
    pub fn with_options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Takes the mailbox from another store, with its wake-ups and its live channel.
    ///
    /// No atomic step covers both stores. A commit can therefore not settle a dispatch (`Unsupported`), and a thread
    /// checks only the number of a claim: it remembers the highest claim number that wrote to it, and refuses lower
    /// ones (CM-32). Before a caller writes under a claim, it has to take the thread over with a commit that names the
    /// claim as its fence. The worker loop does this.
    pub fn mailbox(self, source: impl Into<PartSource>) -> Self {
        self.with_part(OtherPart::Mailbox, source.into())
    }

    /// Takes config, profiles and the audit log from another store, as one part.
    ///
    /// The registry and the effects stay with the threads, and their audit records with them: `audit` reads the logs of
    /// both stores as one. [`subscribe_audit`](store_core::AuditStore::subscribe_audit) gives the records of each store
    /// in their order.
    pub fn settings(self, source: impl Into<PartSource>) -> Self {
        self.with_part(OtherPart::Settings, source.into())
    }

    /// Keeps the bytes of blobs in another store, for example in files beside threads in PostgreSQL. What is known
    /// about blobs, and who refers to them, stays with the threads.
    ///
    /// The bytes of a blob are written before anything refers to them, and removed after nothing does. So no atomic
    /// step has to cover both stores.
    pub fn blobs(self, source: impl Into<PartSource>) -> Self {
        self.with_part(OtherPart::Blobs, source.into())
    }

    /// Puts the write buffer on these NATS servers, `nats://…`, in front of the store of the threads, which must be at
    /// a URL. Its writes are then acknowledged when they are durable on the servers, and applied a little later. Each
    /// program that writes to the store must use the same buffer. [`Stores::write_buffer`] gives it.
    ///
    /// ```no_run
    /// # use agentstore::Stores;
    /// # async fn example() -> agentstore::Result<()> {
    /// let stores = Stores::builder("postgres://db/work").buffer("nats://queue").open().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(mut self, servers: &str) -> Self {
        self.buffer = Some(servers.parse().map_err(|error: Error| error.to_string()));
        self
    }

    fn with_part(mut self, part: OtherPart, source: PartSource) -> Self {
        if let Some((_, place)) = self.others.iter_mut().find(|(other, _)| *other == part) {
            *place = Some(source);
        }
        self
    }

    /// Opens the stores, each once, and composes them.
    ///
    /// A part whose URL leads to a store that is already a part, or that is the same store by its
    /// [identity](store_core::Store::identity), is taken from that one: two names of one server, or two paths of one
    /// folder, are one store, with the capability `fenced` if the store has it (CP-3).
    ///
    /// `delete_tenant` deletes a tenant from the mailbox and the settings first, then from the threads, then from the
    /// blobs. If it is interrupted, repeat the call to finish it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`], for each URL; the error about another part than the threads names the part.
    /// `Unsupported` if a store cannot have its part; `Invalid` if a power cut, or the end of the process, could take
    /// blobs to which threads refer; `Closed` for a store that was closed. The last three name both stores.
    pub async fn open(self) -> Result<Stores> {
        let Self { options, threads, others, buffer } = self;
        let threads = match buffer {
            Some(servers) => threads.behind_buffer(servers)?,
            None => threads,
        };
        let threads_url = match &threads.0 {
            Source::Url(url, _) => url.as_ref().as_ref().ok().cloned(),
            Source::Opened(_) => None,
        };
        let mut stores = threads.open(&options).await?;
        let mut opened = vec![(threads_url, stores.threads.clone())];
        opened.extend(stores.separate_parts().map(|(_, part)| (None, part.clone())));
        for (part, source) in others {
            let Some(source) = source else { continue };
            let found = source.open_part(part, &options, &mut opened).await?;
            stores = stores.with_part(part, found)?;
        }
        Ok(stores.compose())
    }
}

impl PartSource {
    /// Puts a write buffer in front of the store at the URL.
    fn behind_buffer(self, servers: Result<StoreUrl, String>) -> Result<Self> {
        match self.0 {
            Source::Opened(_) => {
                let reason = "a write buffer is put in front of a URL, and not of a store that is open already";
                Err(Error::invalid("composition", reason))
            }
            Source::Url(url, options) => {
                let servers = servers.map_err(|reason| invalid_url(&reason).in_part("buffer"))?;
                let url = url.map_err(|reason| invalid_url(&reason))?;
                let buffered = url.behind_buffer(&servers).map_err(|error| error.in_part("buffer"))?;
                Ok(Self(Source::Url(Box::new(Ok(buffered)), options)))
            }
        }
    }

    async fn open(self, options: &OpenOptions) -> Result<Stores> {
        match self.0 {
            Source::Opened(stores) => Ok(stores),
            Source::Url(url, own_options) => {
                let url = url.map_err(|reason| invalid_url(&reason))?;
                Box::pin(own_options.as_ref().unwrap_or(options).open_url(&url)).await
            }
        }
    }

    /// Returns the store of a part: one of those that are opened already, if it is the same.
    async fn open_part(
        self,
        part: OtherPart,
        options: &OpenOptions,
        opened: &mut Vec<(Option<StoreUrl>, OpenedPart)>,
    ) -> Result<OpenedPart> {
        let mut url = None;
        if let Source::Url(parsed, _) = &self.0 {
            let parsed = parsed.as_ref().as_ref().map_err(|reason| in_part(invalid_url(reason), part, None))?;
            let same = opened.iter().find(|(other, _)| other.as_ref().is_some_and(|other| other.is_same_store(parsed)));
            if let Some((_, same)) = same {
                return Ok(same.clone());
            }
            url = Some(parsed.clone());
        }
        let stores = self.open(options).await.map_err(|error| in_part(error, part, url.as_ref()))?;
        let found = part.of(stores);
        if let Some((_, same)) = opened.iter().find(|(_, other)| other.is_same_store(&found)) {
            // The second opening is not needed, and ends here.
            return Ok(same.clone());
        }
        opened.push((url, found.clone()));
        Ok(found)
    }
}

/// The reason was made when the text was parsed. The text itself may contain a password.
fn invalid_url(reason: &str) -> Error {
    Error::invalid("store url", reason.strip_prefix("invalid store url: ").unwrap_or(reason))
}

fn in_part(error: Error, part: OtherPart, url: Option<&StoreUrl>) -> Error {
    match url {
        Some(url) => error.in_part(format!("{} in `{url}`", part.name())),
        None => error.in_part(part.name()),
    }
}

impl Stores {
    /// Takes a part from `found`. If it is the store of the threads, the part is there.
    fn with_part(mut self, part: OtherPart, found: OpenedPart) -> Result<Self> {
        let is_with_threads = self.threads.is_same_store(&found);
        if !is_with_threads {
            self.check_part(part, &found)?;
        }
        let place = match part {
            OtherPart::Mailbox => &mut self.mailbox,
            OtherPart::Settings => &mut self.settings,
            OtherPart::Blobs => &mut self.blobs,
        };
        *place = (!is_with_threads).then_some(found);
        Ok(self)
    }

    /// Refuses a store that cannot have the part beside these threads.
    fn check_part(&self, part: OtherPart, found: &OpenedPart) -> Result<()> {
        let names = format!("{} in {}, beside threads in {}", part.name(), found.name(), self.threads.name());
        let tenant = TenantId::default_tenant();
        let name_both = |error: Error| error.in_part(names.clone());
        let of_threads = self.threads.store.tenant(&tenant).map_err(name_both)?;
        if of_threads.threads.is_none() {
            return Err(name_both(unsupported(KEEPING_THREADS)));
        }
        if part == OtherPart::Blobs && of_threads.documents.is_none() {
            return Err(name_both(unsupported(KEEPING_DOCUMENTS)));
        }
        if let Some(lacks) = part.lacks(&found.store.tenant(&tenant).map_err(name_both)?) {
            return Err(name_both(unsupported(lacks)));
        }
        let (blobs, threads) = (found.store.capabilities().survives, self.threads.store.capabilities().survives);
        if part == OtherPart::Blobs && blobs < threads {
            let reason = format!(
                "threads refer to blobs, and here threads survive {} and blobs {}: keep the blobs in a store that \
                 survives as much, or with the threads",
                survived(threads),
                survived(blobs)
            );
            return Err(name_both(Error::invalid("composition", reason)));
        }
        Ok(())
    }
}

const fn survived(survives: Survives) -> &'static str {
    match survives {
        Survives::Nothing => "nothing",
        Survives::Process => "the end of the process",
        Survives::Power => "a power cut",
    }
}
