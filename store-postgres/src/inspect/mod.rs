//! Checks of stored data, and repairs of derived data.

mod outside_threads;
mod thread;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    ObjectKey, PageRequest, Progress, Result, Store, TenantId, ThreadId,
    inspect::{Inspection, Inspector, check_blobs},
};

use crate::{columns::read_text, db::add, store::PostgresStore, tenant::Tenant};

/// The number of thread ids of a tenant that are read at once.
const CHUNK: i64 = 256;

#[async_trait]
impl Inspector for PostgresStore {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        let repairs = false;
        self.inspect(repairs, progress).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        if !dry_run {
            self.check_writable()?;
        }
        self.inspect(!dry_run, progress).await
    }
}

impl PostgresStore {
    /// Checks every thread of every tenant, each in one snapshot, and the data outside of threads. With `repairs`, also
    /// rebuilds derived data.
    async fn inspect(&self, repairs: bool, progress: &dyn Progress) -> Result<Inspection> {
        let mut inspection = Inspection::default();
        let mut page = PageRequest::first(1_000);
        loop {
            let tenants = self.list_tenants(page.clone()).await?;
            for tenant_id in tenants.items {
                let tenant = self.open_tenant(&tenant_id)?;
                inspection.tenants += 1;
                inspect_tenant(&tenant, &tenant_id, repairs, (&mut inspection, progress)).await?;
                if inspection.stopped {
                    return Ok(inspection);
                }
                // One that was deleted meanwhile has no blobs.
                let Ok(stores) = self.tenant(&tenant_id) else { continue };
                let place_of = |key: &ObjectKey| format!("object `{key}`");
                let done = inspection.threads + inspection.objects;
                inspection.add_blobs(check_blobs(&stores, &tenant_id, place_of, (progress, done)).await?);
                if inspection.stopped {
                    return Ok(inspection);
                }
            }
            match tenants.next {
                Some(next) => page = PageRequest::first(1_000).after(next),
                None => return Ok(inspection),
            }
        }
    }
}

/// Checks a tenant.
async fn inspect_tenant(
    tenant: &Arc<Tenant>,
    tenant_id: &TenantId,
    repairs: bool,
    (inspection, progress): (&mut Inspection, &dyn Progress),
) -> Result<()> {
    let mut after = String::new();
    loop {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant_id.as_str())?;
        add(&mut arguments, after.as_str())?;
        add(&mut arguments, CHUNK)?;
        let rows = tenant.db().any_connection().read(|sql| &sql.thread_ids, arguments).await?;
        let Some(last) = rows.last() else { break };
        after = read_text(last, 0)?;
        for row in &rows {
            let id: ThreadId = read_text(row, 0)?.parse()?;
            let Some(checked) = Box::pin(thread::inspect(tenant, &id, repairs)).await? else { continue };
            inspection.threads += 1;
            inspection.entries += checked.entries;
            inspection.runs += checked.runs;
            inspection.findings.extend(checked.findings.into_iter().map(|finding| finding.of_thread(tenant_id, &id)));
            if !progress.advance(inspection.threads, None) {
                inspection.stopped = true;
                return Ok(());
            }
        }
    }
    inspection.findings.extend(outside_threads::inspect(tenant, tenant_id).await?);
    Ok(())
}
