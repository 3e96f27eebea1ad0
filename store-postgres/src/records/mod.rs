//! Records as the tables have them: dumps and restores, for copies.

mod dump;
mod restore;
mod restore_events;
mod restore_mailbox;
mod statements;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    Error, Result,
    records::{RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold},
};
use tokio::sync::oneshot;

pub(crate) use self::{restore::write_documents, statements::RecordStatements};
use crate::{
    columns::read_text,
    db::{Connection, add},
    store::TenantHandle,
    tenant::Tenant,
};

/// The records of a tenant.
#[derive(Clone)]
pub(crate) struct PostgresRecords {
    tenant: TenantHandle,
}

impl PostgresRecords {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl RecordPort for PostgresRecords {
    fn holds(&self, _list: RecordList) -> bool {
        true
    }

    /// A transaction holds the lock of the tenant, which every write takes but those to threads that exist, and the
    /// rows of all threads, which those writes change.
    async fn hold_writes(&self) -> Result<WriteHold> {
        let tenant = Arc::clone(&self.tenant);
        tenant.check_open()?;
        let (held, is_held) = oneshot::channel();
        let (guard, released) = oneshot::channel::<()>();
        self.tenant.shared.runtime.spawn(async move {
            match lock(&tenant).await {
                Ok(connection) => {
                    if held.send(Ok(())).is_ok() {
                        // The guard is dropped, not used.
                        let _ = released.await;
                    }
                    if let Err(error) = connection.roll_back().await {
                        tracing::warn!(%error, "the lock of a tenant ends with its connection");
                    }
                }
                Err(error) => drop(held.send(Err(error))),
            }
        });
        is_held.await.map_err(|_| Error::closed())??;
        Ok(WriteHold::new(guard))
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        let query = query.clone();
        self.tenant.run_read(None, |tenant| async move { dump::dump(&tenant, &query).await }).await
    }

    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        self.tenant.run_write(None, |tenant| async move { restore::restore(&tenant, &records).await }).await
    }
}

/// Locks a tenant against writes, as long as the transaction of the connection goes on.
async fn lock(tenant: &Tenant) -> Result<Connection<'_>> {
    let name = tenant.constants.tenant.as_str();
    let mut connection = tenant.db().begin_transaction().await?;
    let mut arguments = PgArguments::default();
    add(&mut arguments, name)?;
    connection.read(|sql| &sql.records.lock_tenant, arguments).await?;
    let mut after = String::new();
    loop {
        let mut arguments = PgArguments::default();
        add(&mut arguments, name)?;
        add(&mut arguments, after.as_str())?;
        let rows = connection.read(|sql| &sql.records.lock_threads, arguments).await?;
        match rows.last() {
            Some(last) => after = read_text(last, 0)?,
            None => return Ok(connection),
        }
    }
}

impl fmt::Debug for PostgresRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresRecords").field("tenant", &self.tenant.constants.tenant).finish_non_exhaustive()
    }
}
