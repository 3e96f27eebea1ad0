//! How logs are named: whose they are, and where they stand below the root.

use store_core::{CollectionId, MAX_ID_BYTES, Result, Scope, TenantId, ThreadId};

use crate::vfs::{FilePath, hash_of, name_of};

/// A thread of a tenant.
pub(crate) type ThreadKey = (TenantId, ThreadId);

/// Which of the logs of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The log of the thread, in its present generation.
    Thread,
    /// The log of generation 0: events that lie outside of commits, and what is known of scopes.
    Events,
}

impl Part {
    /// The part that a log of this generation is.
    pub(crate) const fn of(generation: u64) -> Self {
        if generation == 0 { Self::Events } else { Self::Thread }
    }

    /// The generation of the log.
    pub(crate) const fn generation(self, of_thread: u64) -> u64 {
        match self {
            Self::Thread => of_thread,
            Self::Events => 0,
        }
    }
}

/// A log that one writer at a time works on.
pub(crate) type LogKey = (TenantId, ThreadId, Part);

/// Where a thread's log is.
pub(crate) fn log_path(tenant: &TenantId, thread: &ThreadId, generation: u64) -> Result<FilePath> {
    tenant_folder(tenant)?.join(&format!("{}.{generation}.jsonl", name_of(thread.as_str())))
}

/// Where a tenant's logs are. Its name does not show: errors name files, and go to the tenant's callers (TN-3).
pub(crate) fn tenant_folder(tenant: &TenantId) -> Result<FilePath> {
    FilePath::new(format!("tenants/{}", hash_of(tenant.as_str())))
}

/// The id whose log has the mailbox of a tenant. A thread may have the same id: the log of generation 0 is no thread's.
pub(crate) fn mailbox_log_id() -> Result<ThreadId> {
    ThreadId::new("#mailbox")
}

/// The id whose log has what becomes of rows, and rows that outlive their thread. A thread may have the same id: the
/// log of generation 0 is no thread's.
pub(crate) fn outbox_log_id() -> Result<ThreadId> {
    ThreadId::new("#outbox")
}

/// Begins the ids whose logs have the events of topics.
const TOPIC: &str = "#topic";
/// The id whose log has the numbers of topics. It begins as those of topics do, so it is no thread's or run's.
const TOPICS: &str = "#topics";
/// The id whose log has events that cannot stand in a log of their own id.
const EVENTS: &str = "#events";
/// Begins the ids whose logs have the documents of collections.
const DOCUMENTS: &str = "#documents";

/// The id whose log of events a scope belongs to.
pub(crate) fn scope_log_id(scope: &Scope) -> Result<ThreadId> {
    match scope {
        Scope::Thread(thread) => events_log_id(thread.as_str()),
        Scope::Run(run) => events_log_id(run.as_str()),
        Scope::Topic(topic) => named_log_id(TOPIC, topic.as_str()),
    }
}

/// The id whose log has the events of a thread or a run that lie outside of commits. A thread or a run whose id begins
/// as those of topics and documents shares a log, so that no event comes into a log of documents, which is rewritten.
pub(crate) fn events_log_id(id: &str) -> Result<ThreadId> {
    let is_taken = id.starts_with(TOPIC) || id.starts_with(DOCUMENTS);
    ThreadId::new(if is_taken { EVENTS } else { id })
}

/// The id whose log has the events that lost their content.
pub(crate) fn redactions_log_id() -> Result<ThreadId> {
    ThreadId::new(EVENTS)
}

/// The id whose log says which numbers the topics of a tenant gave. The events stand in other logs.
pub(crate) fn topics_log_id() -> Result<ThreadId> {
    ThreadId::new(TOPICS)
}

/// The id whose log has the documents of a collection that belong to the tenant, after so many rewrites of the log.
pub(crate) fn documents_log_id(collection: &CollectionId, rewrites: u64) -> Result<ThreadId> {
    named_log_id(&format!("{DOCUMENTS}.{rewrites}"), collection.as_str())
}

/// An id that has no log, for calls that do not begin with a certain log.
pub(crate) fn no_log_id() -> Result<ThreadId> {
    ThreadId::new(DOCUMENTS)
}

/// An id that contains a name, or the hash of a name that is too long.
fn named_log_id(kind: &str, name: &str) -> Result<ThreadId> {
    let id = format!("{kind}:{name}");
    ThreadId::new(if id.len() > MAX_ID_BYTES { format!("{kind}#{}", hash_of(name)) } else { id })
}

/// How often a log of documents was rewritten, and what the ids of all logs of its collection have in common; `None`
/// for other ids.
pub(crate) fn collection_log(id: &ThreadId) -> Option<(u64, &str)> {
    let rest = id.as_str().strip_prefix(DOCUMENTS)?.strip_prefix('.')?;
    let (rewrites, name) = rest.split_at_checked(rest.find([':', '#'])?)?;
    Some((rewrites.parse().ok()?, name))
}

/// How often the log of documents with this file name was rewritten; `None` if the name is that of another log.
pub(crate) fn rewrites_of(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?.strip_prefix("_documents_")?;
    name.split('_').next()?.parse().ok()
}
