//! How logs are named: whose they are, and where they stand below the root.

use store_core::{Detail, Error, Result, Scope, TenantId, ThreadId};

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

/// The id whose log of events a scope belongs to.
pub(crate) fn scope_log_id(scope: &Scope) -> Result<ThreadId> {
    match scope {
        Scope::Thread(thread) => Ok(thread.clone()),
        Scope::Run(run) => ThreadId::new(run.as_str()),
        Scope::Topic(_) => Err(Error::new(Detail::Unsupported { operation: "topics" })),
    }
}
