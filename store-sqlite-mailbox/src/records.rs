//! Records as the rows have them: dumps and restores, for copies.

use std::{
    fmt,
    sync::{Arc, mpsc},
    thread,
};

use async_trait::async_trait;
use store_core::{
    Error, Result,
    commit::DecisionContext,
    records::{RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold, no_list},
};
use tokio::sync::oneshot;

use crate::{database_file::DatabaseFile, rows::Rows, schema, store::TenantHandle};

/// The records of a tenant.
#[derive(Clone)]
pub(crate) struct SqliteRecords {
    tenant: TenantHandle,
}

impl SqliteRecords {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl RecordPort for SqliteRecords {
    fn holds(&self, list: RecordList) -> bool {
        list.is_of_mailbox()
    }

    /// A transaction of a connection of its own has the write lock of the file. It keeps away all writers of the file,
    /// also those of other tenants.
    async fn hold_writes(&self) -> Result<WriteHold> {
        self.tenant.check_open()?;
        let file = self.tenant.shared.readers.database_file()?;
        let (held, is_held) = oneshot::channel();
        let (guard, released) = mpsc::channel::<()>();
        // Taking the lock may wait for other writers, so it does not run on a thread of the caller's runtime.
        let builder = thread::Builder::new().name("agentstore-hold".to_owned());
        builder
            .spawn(move || hold(&file, held, &released))
            .map_err(|e| Error::unavailable("the system cannot start another thread").with_source(e))?;
        is_held.await.map_err(|_| Error::closed())??;
        Ok(WriteHold::new(guard))
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        if !self.holds(query.list) {
            return Err(no_list(query.list));
        }
        let query = query.clone();
        self.tenant.read(None, move |rows| rows.dump(&query)).await
    }

    /// One call of the writer, in one transaction.
    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        if let Some(other) = records.iter().map(StoredRecord::list).find(|list| !list.is_of_mailbox()) {
            return Err(no_list(other));
        }
        let records = Arc::new(records);
        let restore = move |rows: &Rows<'_>, context: DecisionContext<'_>| rows.restore(&records, context.now).map(Ok);
        self.tenant.write(None, restore).await
    }
}

/// Has the write lock of the file until `released` is dropped on the other side.
fn hold(file: &DatabaseFile, held: oneshot::Sender<Result<()>>, released: &mpsc::Receiver<()>) {
    match schema::lock_for_reading(&file.path) {
        Ok(conn) => {
            if held.send(Ok(())).is_ok() {
                // Nothing is ever sent: the guard is dropped.
                let _dropped = released.recv();
            }
            // The transaction ends with its connection.
            drop(conn);
        }
        Err(error) => drop(held.send(Err(error))),
    }
}

impl fmt::Debug for SqliteRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteRecords").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
