//! Checks of the stored data, and repairs of what can be derived.
//!
//! Each read and each write covers a bounded number of rows, so that a long check does not block other calls.

mod thread;

use async_trait::async_trait;
use rusqlite::Connection;
use store_core::{
    ErrorKind, Progress, Result, TenantId,
    commit::Setting,
    inspect::{Finding, FindingKind, Inspection, Inspector, Repairable},
};

use self::thread::{Place, Seen};
use crate::{
    error::sql,
    rows::{RowCache, Rows, TenantRow, all, get, unsigned},
    sql as text,
    store::SqliteMailbox,
};

#[async_trait]
impl Inspector for SqliteMailbox {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(progress, false).await
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        self.inspect(progress, !dry_run).await
    }
}

impl SqliteMailbox {
    async fn inspect(&self, progress: &dyn Progress, repairs: bool) -> Result<Inspection> {
        self.state.common.check_open()?;
        let mut inspection = Inspection::default();
        inspection.findings = self.read(own_check).await?;
        let mut after = String::new();
        loop {
            let from = after.clone();
            let tenants = self.read(move |conn| tenants(conn, &from)).await?;
            let Some((last, _)) = tenants.last() else { return Ok(inspection) };
            after = last.to_string();
            for (tenant, known) in tenants {
                inspection.tenants += 1;
                self.of_tenant((&tenant, known), progress, repairs, &mut inspection).await?;
                if inspection.stopped {
                    return Ok(inspection);
                }
            }
        }
    }

    async fn of_tenant(
        &self,
        (tenant, known): (&TenantId, TenantRow),
        progress: &dyn Progress,
        repairs: bool,
        inspection: &mut Inspection,
    ) -> Result<()> {
        let mut after = String::new();
        loop {
            let from = after.clone();
            let threads = self.read(move |conn| thread::list(conn, known, &from)).await?;
            let Some(last) = threads.last() else { return Ok(()) };
            after.clone_from(&last.thread);
            for place in threads {
                inspection.threads += 1;
                let found = self.of_thread((tenant, known), &place, repairs).await?;
                inspection.findings.extend(found);
                if !progress.advance(inspection.threads, None) {
                    inspection.stopped = true;
                    return Ok(());
                }
            }
        }
    }

    /// Checks a thread, batch by batch, and repairs what can be derived.
    async fn of_thread(&self, of: (&TenantId, TenantRow), place: &Place, repairs: bool) -> Result<Vec<Finding>> {
        let ((tenant, known), mut findings, mut seen) = (of, Vec::new(), Seen::default());
        loop {
            let (name, place, from) = (tenant.clone(), place.clone(), seen.clone());
            let read = move |conn: &Connection| {
                let mut seen = from;
                let found = seen.batch(&Rows::new(conn, &name, Some(known), &RowCache::default()), &place)?;
                Ok((seen, found))
            };
            let (then, found) = self.read(read).await?;
            findings.extend(found);
            seen = then;
            if seen.is_over {
                break;
            }
        }
        let is_stale = |finding: &Finding| finding.repair == Repairable::CanBeRebuilt;
        let is_blocked = |finding: &Finding| finding.kind == FindingKind::Damaged && seen.can_be_put_aside;
        if repairs && findings.iter().any(|finding| is_stale(finding) || is_blocked(finding)) {
            self.correct(of, place).await?;
            findings.iter_mut().filter(|finding| is_stale(finding)).for_each(|f| f.repair = Repairable::Rebuilt);
        }
        let named = |finding: Finding| match place.thread.parse() {
            Ok(thread) => finding.of_thread(tenant, &thread),
            Err(_) => finding,
        };
        Ok(findings.into_iter().map(named).collect())
    }

    async fn correct(&self, (tenant, known): (&TenantId, TenantRow), place: &Place) -> Result<()> {
        let mut after = Some(thread::BEGINNING);
        while let Some(from) = after {
            let (name, place) = (tenant.clone(), place.clone());
            let step = move |context: &crate::writer::BatchContext<'_>| {
                let setting = Setting::new(context.now(), context.limits(), context.ids());
                let rows = Rows::new(context.conn, &name, Some(known), context.row_cache);
                thread::correct(&rows, &place, &from, setting)
            };
            after = self.step(step).await?;
        }
        Ok(())
    }

    async fn read<T: Send + 'static>(&self, call: impl FnOnce(&Connection) -> Result<T> + Send + 'static) -> Result<T> {
        self.state.common.readers.read(call).await
    }
}

/// Returns what SQLite's own check of the file finds within the time limit of a read.
fn own_check(conn: &Connection) -> Result<Vec<Finding>> {
    let asked = conn.prepare(text::CHECK).and_then(|mut statement| {
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect::<rusqlite::Result<Vec<_>>>()
    });
    let lines = match asked.map_err(sql) {
        Ok(lines) => lines,
        // The check of a large file may exceed the time limit of a read. The rows are then still checked.
        Err(error) if error.kind() == ErrorKind::Unavailable => Vec::new(),
        Err(error) if error.kind() == ErrorKind::Corrupt => vec![error.to_string()],
        Err(error) => return Err(error),
    };
    let wrong = lines.into_iter().filter(|line| line != "ok");
    Ok(wrong.map(|line| Finding::new(FindingKind::Damaged, "the database file", line)).collect())
}

fn tenants(conn: &Connection, after: &str) -> Result<Vec<(TenantId, TenantRow)>> {
    all(conn, text::TENANTS, [after], |row| {
        let name: String = get(row, 0)?;
        let known = TenantRow { no: get(row, 1)?, incarnation: unsigned(get(row, 2)?)? };
        Ok((name.parse()?, known))
    })
}
