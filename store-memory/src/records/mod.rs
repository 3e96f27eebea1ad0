//! Records as they are kept: dumps and restores, for copies.

mod dump;
mod restore;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Result,
    records::{RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold},
};

use crate::tenant::Tenant;

/// The records of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryRecords {
    tenant: Arc<Tenant>,
}

impl MemoryRecords {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl RecordPort for MemoryRecords {
    fn holds(&self, _list: RecordList) -> bool {
        true
    }

    /// Only this process has the store. Its callers get `Unavailable`.
    async fn hold_writes(&self) -> Result<WriteHold> {
        Ok(self.tenant.check_open()?.write_gate.hold().await)
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        Ok(dump::dump(self.tenant.check_open()?, query))
    }

    /// The call has no `await`, so it is made as a whole. What can be refused is refused before anything is written.
    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        let tenant = self.tenant.check_open()?;
        restore::check(tenant, &records)?;
        for record in records {
            restore::restore(tenant, record)?;
        }
        tenant.notify_workers();
        Ok(())
    }
}

impl fmt::Debug for MemoryRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRecords").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
