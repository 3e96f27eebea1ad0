//! Checks of the stored data, and repairs of derived data.
//!
//! Each read and each write covers a bounded number of rows, so that a long check does not block other calls.

mod thread;

use async_trait::async_trait;
use rusqlite::Connection;
use store_core::{
    ErrorKind, Progress, Result, TenantId,
    commit::DecisionContext,
    inspect::{Finding, FindingKind, Inspection, Inspector, RepairStatus},
};

use self::thread::{CheckProgress, ThreadRow};
use crate::{
    error::sql_error,
    rows::{RowCache, Rows, TenantRow, get, query_all, unsigned},
    sql,
    store::SqliteMailbox,
};

#[async_trait]
impl Inspector for SqliteMailbox {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        let repairs = false;
        self.inspect(progress, repairs).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(progress, !dry_run).await
    }
}

impl SqliteMailbox {
    async fn inspect(&self, progress: &dyn Progress, repairs: bool) -> Result<Inspection> {
        self.state.shared.check_open()?;
        let mut inspection = Inspection::default();
        inspection.findings = self.read(check_database_file).await?;
        let mut after = String::new();
        loop {
            let from = after.clone();
            let tenants = self.read(move |conn| tenants(conn, &from)).await?;
            let Some((last, _)) = tenants.last() else { return Ok(inspection) };
            after = last.to_string();
            for (tenant, tenant_row) in tenants {
                inspection.tenants += 1;
                self.inspect_tenant((&tenant, tenant_row), progress, repairs, &mut inspection).await?;
                if inspection.stopped {
                    return Ok(inspection);
                }
            }
        }
    }

    async fn inspect_tenant(
        &self,
        (tenant, tenant_row): (&TenantId, TenantRow),
        progress: &dyn Progress,
        repairs: bool,
        inspection: &mut Inspection,
    ) -> Result<()> {
        let mut after = String::new();
        loop {
            let from = after.clone();
            let threads = self.read(move |conn| thread::list_threads(conn, tenant_row, &from)).await?;
            let Some(last) = threads.last() else { return Ok(()) };
            after.clone_from(&last.thread);
            for thread_row in threads {
                inspection.threads += 1;
                let found = self.inspect_thread((tenant, tenant_row), &thread_row, repairs).await?;
                inspection.findings.extend(found);
                if !progress.advance(inspection.threads, None) {
                    inspection.stopped = true;
                    return Ok(());
                }
            }
        }
    }

    /// Checks a thread, batch by batch, and repairs its derived data.
    async fn inspect_thread(
        &self,
        tenant_with_row: (&TenantId, TenantRow),
        thread_row: &ThreadRow,
        repairs: bool,
    ) -> Result<Vec<Finding>> {
        let ((tenant, tenant_row), mut findings, mut check_progress) =
            (tenant_with_row, Vec::new(), CheckProgress::default());
        loop {
            let (name, thread_row, from) = (tenant.clone(), thread_row.clone(), check_progress.clone());
            let read = move |conn: &Connection| {
                let mut check_progress = from;
                let found = check_progress
                    .check_batch(&Rows::new(conn, &name, Some(tenant_row), &RowCache::default()), &thread_row)?;
                Ok((check_progress, found))
            };
            let (new_progress, found) = self.read(read).await?;
            findings.extend(found);
            check_progress = new_progress;
            if check_progress.has_ended {
                break;
            }
        }
        let can_be_rebuilt = |finding: &Finding| finding.repair == RepairStatus::CanBeRebuilt;
        let is_unreadable_dispatch =
            |finding: &Finding| finding.kind == FindingKind::Damaged && check_progress.has_unreadable_dispatch;
        if repairs && findings.iter().any(|finding| can_be_rebuilt(finding) || is_unreadable_dispatch(finding)) {
            self.repair_thread(tenant_with_row, thread_row).await?;
            findings
                .iter_mut()
                .filter(|finding| can_be_rebuilt(finding))
                .for_each(|f| f.repair = RepairStatus::Rebuilt);
        }
        let with_thread = |finding: Finding| match thread_row.thread.parse() {
            Ok(thread) => finding.of_thread(tenant, &thread),
            Err(_) => finding,
        };
        Ok(findings.into_iter().map(with_thread).collect())
    }

    async fn repair_thread(&self, (tenant, tenant_row): (&TenantId, TenantRow), thread_row: &ThreadRow) -> Result<()> {
        let mut after = Some(thread::BEGINNING);
        while let Some(from) = after {
            let (name, thread_row) = (tenant.clone(), thread_row.clone());
            let step = move |context: &crate::writer::BatchContext<'_>| {
                let decision_context = DecisionContext::new(context.now(), context.limits(), context.ids());
                let rows = Rows::new(context.conn, &name, Some(tenant_row), context.row_cache);
                thread::repair_batch(&rows, &thread_row, &from, decision_context)
            };
            after = self.run_on_writer_thread(step).await?;
        }
        Ok(())
    }

    async fn read<T: Send + 'static>(&self, call: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        self.state.shared.readers.read(call).await
    }
}

/// Returns what SQLite's own check of the file finds within the time limit of a read.
fn check_database_file(conn: &Connection) -> Result<Vec<Finding>> {
    let check_result = conn.prepare(sql::INTEGRITY_CHECK).and_then(|mut statement| {
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect::<rusqlite::Result<Vec<_>>>()
    });
    let lines = match check_result.map_err(sql_error) {
        Ok(lines) => lines,
        // The check of a large file may exceed the time limit of a read. The rows are then still checked.
        Err(error) if error.kind() == ErrorKind::Unavailable => Vec::new(),
        Err(error) if error.kind() == ErrorKind::Corrupt => vec![error.to_string()],
        Err(error) => return Err(error),
    };
    let damage_reports = lines.into_iter().filter(|line| line != "ok");
    Ok(damage_reports.map(|line| Finding::new(FindingKind::Damaged, "the database file", line)).collect())
}

fn tenants(conn: &Connection, after: &str) -> Result<Vec<(TenantId, TenantRow)>> {
    query_all(conn, sql::TENANTS, [after], |row| {
        let name: String = get(row, 0)?;
        let tenant_row = TenantRow { row_number: get(row, 1)?, incarnation: unsigned(get(row, 2)?)? };
        Ok((name.parse()?, tenant_row))
    })
}
