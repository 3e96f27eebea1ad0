//! Mistakes of a backend that restores records. The checks must find them.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    Capabilities, Limits, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity, TenantId,
    TenantStores, Timestamp,
    health::StoreHealth,
    inspect::Inspector,
    records::{RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold},
};

use crate::{
    case::Need,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
};

/// A mistake of a backend that restores or dumps records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyBug {
    /// The last record of each restored page is forgotten.
    ForgetsTheLastRecord,
    /// A thread has the time of its restore.
    ChangesTimes,
    /// Two events of a scope have each other's numbers.
    ReordersEvents,
    /// Commit keys are not remembered.
    ForgetsKeys,
    /// The numbers that were given are not raised.
    GivesNumbersAgain,
    /// A scope counts only the events that it still has.
    CountsAgain,
    /// The claim that wrote last is not remembered.
    ForgetsFences,
    /// A claim that goes on is forgotten.
    ForgetsClaims,
    /// A dump begins a page with the record with which the page before ended.
    RepeatsRecords,
}

impl CopyBug {
    /// All mistakes.
    pub const ALL: &'static [Self] = &[
        Self::ForgetsTheLastRecord,
        Self::ChangesTimes,
        Self::ReordersEvents,
        Self::ForgetsKeys,
        Self::GivesNumbersAgain,
        Self::CountsAgain,
        Self::ForgetsFences,
        Self::ForgetsClaims,
        Self::RepeatsRecords,
    ];

    fn change(self, records: &mut Vec<StoredRecord>) {
        match self {
            Self::ForgetsTheLastRecord => {
                // The last one is the mark of the copy.
                if records.len() > 2 {
                    records.remove(records.len() - 2);
                }
            }
            Self::ForgetsKeys => records.retain(|record| record.list() != RecordList::CommitKeys),
            Self::GivesNumbersAgain => records.retain(|record| record.list() != RecordList::Numbers),
            Self::ReordersEvents => {
                if records.len() > 2
                    && let [StoredRecord::Event(first), StoredRecord::Event(second), ..] = &mut records[..]
                {
                    std::mem::swap(&mut first.thread_seq, &mut second.thread_seq);
                    std::mem::swap(&mut first.topic_seqs, &mut second.topic_seqs);
                }
            }
            Self::ChangesTimes | Self::CountsAgain | Self::ForgetsFences | Self::ForgetsClaims => {
                records.iter_mut().for_each(|record| self.change_record(record));
            }
            Self::RepeatsRecords => {}
        }
    }

    fn change_record(self, record: &mut StoredRecord) {
        match (self, record) {
            (Self::ChangesTimes, StoredRecord::Thread(record)) => {
                if let Some(stored) = &mut record.thread {
                    stored.thread.updated_at = stored.thread.updated_at.max(Timestamp::MIN);
                    stored.thread.created_at = stored.thread.updated_at;
                    stored.last_time = Timestamp::MIN;
                }
            }
            (Self::CountsAgain, StoredRecord::Scope { state, .. }) => state.floor = 0,
            (Self::ForgetsFences, StoredRecord::Thread(record)) => record.id_record.fence = None,
            (Self::ForgetsClaims, StoredRecord::Mailbox { record, .. }) => record.running = None,
            _ => {}
        }
    }
}

/// A fixture whose stores make a mistake in copies.
pub struct BuggyCopies {
    inner: Arc<dyn Fixture>,
    bug: CopyBug,
}

impl BuggyCopies {
    /// Makes the mistake in stores of another fixture.
    #[must_use]
    pub fn new(inner: Arc<dyn Fixture>, bug: CopyBug) -> Self {
        Self { inner, bug }
    }
}

impl fmt::Debug for BuggyCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuggyCopies").field("bug", &self.bug).finish_non_exhaustive()
    }
}

struct BuggyStore {
    inner: Arc<dyn Store>,
    bug: CopyBug,
}

#[async_trait]
impl Store for BuggyStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.inner.tenant(tenant)?;
        stores.records = stores.records.map(|inner| Arc::new(BuggyRecords { inner, bug: self.bug }) as _);
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

struct BuggyRecords {
    inner: Arc<dyn RecordPort>,
    bug: CopyBug,
}

#[async_trait]
impl RecordPort for BuggyRecords {
    fn holds(&self, list: RecordList) -> bool {
        self.inner.holds(list)
    }

    async fn hold_writes(&self) -> Result<WriteHold> {
        self.inner.hold_writes().await
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        let mut records = self.inner.dump_records(query).await?;
        if self.bug == CopyBug::RepeatsRecords && records.len() > 1 {
            records.push(records[0].clone());
            let last = records.len() - 1;
            records.swap(last, last - 1);
        }
        Ok(records)
    }

    async fn restore_records(&self, mut records: Vec<StoredRecord>) -> Result<()> {
        self.bug.change(&mut records);
        self.inner.restore_records(records).await
    }
}

#[async_trait]
impl Fixture for BuggyCopies {
    fn name(&self) -> String {
        format!("{} with {:?}", self.inner.name(), self.bug)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        self.inner.why_unmet(need)
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        let OpenedStore { store, guard } = self.inner.open(limits).await?;
        let store: Arc<dyn Store> = Arc::new(BuggyStore { inner: store, bug: self.bug });
        Ok(OpenedStore { store, guard })
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        let OpenedStore { store, guard } = self.inner.reopen(opened).await?;
        let store: Arc<dyn Store> = Arc::new(BuggyStore { inner: store, bug: self.bug });
        Ok(OpenedStore { store, guard })
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        self.inner.open_second_time(opened).await
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        self.inner.advance(opened, by).await;
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        self.inner.set_back(opened, by).await;
    }

    async fn damage(&self, opened: OpenedStore, seed: u64) -> Result<OpenedStore> {
        self.inner.damage(opened, seed).await
    }
}
