//! A store that records what is done under claims.

mod commits;
mod mailbox;

use std::sync::Arc;

use agentstore::{
    Capabilities, Error, Outcome, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity, TenantId,
    TenantStores, health::StoreHealth, inspect::Inspector,
};
use async_trait::async_trait;

use self::{commits::LoggedCommits, mailbox::LoggedMailbox};
use crate::record::{Claim, ClaimCall, Log, LogLine, LoggedAction, host_nanos};

/// A store that passes each call on to another store. It records claims, and the writes under them, in a log.
pub(crate) struct LoggedStore {
    inner: Arc<dyn Store>,
    call_log: CallLog,
}

impl LoggedStore {
    pub(crate) fn new(inner: Arc<dyn Store>, log: Log) -> Self {
        Self { inner, call_log: CallLog(Arc::new(log)) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for LoggedStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.inner.tenant(tenant)?;
        stores.mailbox = stores.mailbox.map(|inner| Arc::new(LoggedMailbox::new(inner, self.call_log.clone())) as _);
        stores.commits = stores.commits.map(|inner| Arc::new(LoggedCommits::new(inner, self.call_log.clone())) as _);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.inner.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.inner.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.inner.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.inner.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.inner.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector()
    }
}

/// Records calls and answers in the log of the process.
#[derive(Clone)]
struct CallLog(Arc<Log>);

/// What the answer to an accepted call says.
#[derive(Clone, Copy, Default)]
struct AcceptedAnswer {
    /// The end of the lease by store time in milliseconds, if the answer contains it.
    lease_end: Option<u64>,
    /// Whether the call was deduplicated.
    deduplicated: bool,
}

impl CallLog {
    /// Records lines. Panics if the log cannot be written, because a write without a record would look like a fault
    /// of the store.
    #[expect(clippy::expect_used, reason = "a write without a record would look like a fault of the store")]
    fn append(&self, lines: &[LogLine]) {
        self.0.append(lines).expect("the log can be written");
    }

    /// Records that a call is about to be made. Returns the time of the call.
    fn record_call(&self, claim: Claim, act: ClaimCall) -> u64 {
        let called = host_nanos();
        self.append(&[LogLine { called, answered: called, did: LoggedAction::Calling { claim, act } }]);
        called
    }

    /// Records the answer to a call, unless the answer leaves the outcome unknown.
    fn record_answer(&self, (claim, act): (Claim, ClaimCall), called: u64, answer: Result<AcceptedAnswer, &Error>) {
        let did = match answer {
            Ok(AcceptedAnswer { lease_end, deduplicated }) => {
                LoggedAction::Accepted { claim, act, until: lease_end, again: deduplicated }
            }
            Err(error) if error.outcome() == Outcome::Unknown => return,
            Err(error) => LoggedAction::Refused { claim, act, kind: error.kind().name().to_owned() },
        };
        self.append(&[LogLine { called, answered: host_nanos(), did }]);
    }
}
