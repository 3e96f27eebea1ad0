//! Writes ordinary commits, each to one existing thread, in one statement that consists only of the parts that they
//! need. Nothing is written to a thread that other calls have changed since the decision. Nothing at all is written if
//! another record that belongs to one of the threads has changed. The text of the statement depends on which parts
//! there are, never on their values.

mod log;
mod outside_log;

use sqlx::postgres::{PgArguments, PgRow};
use store_core::{Result, TenantId, Thread, codec::Codec};

use super::{
    Batch,
    arguments::{number, time},
    rows::ThreadRow,
    statement::{Rows, Statement},
};
use crate::{
    clock::Moment,
    db::{Connection, StatementFailure, add, signed},
};

/// The first column of tables that belong to a log: its name and its value.
const OF_LOG: (&str, &str) = ("log", "w.log");
/// The first column of tables that belong to a tenant: its name and its value.
const OF_TENANT: (&str, &str) = ("tenant", "$1");

/// Writes batches for which [`Batch::fits_fast_path`] holds. The answer has the rows of the function `write`, one for
/// each batch that was written. For a single batch whose thread has changed, it has the current row. If there is no row
/// for a batch, only the SQL function `write` can say why.
pub(super) async fn write(
    connection: &mut Connection<'_>,
    batches: &[&Batch],
    tenant: &TenantId,
    moment: Moment,
) -> Result<Vec<PgRow>, StatementFailure> {
    let (text, mut arguments) = statement(batches, tenant)?;
    let sent = || {
        add(&mut arguments, signed(moment.current_time().as_millis())?)?;
        Ok(arguments)
    };
    connection.write_text(&text, sent).await
}

/// Batches with their numbers.
struct Batches<'q> {
    each: Vec<(i32, &'q Batch)>,
    /// The array of the logs of their threads, if there are several.
    logs: Option<String>,
}

impl<'q> Batches<'q> {
    const fn is_one(&self) -> bool {
        self.each.len() == 1
    }

    /// Returns the rows of one kind of all batches, or `None` if there are none.
    fn rows<'s, R>(
        &'s self,
        to: &'s mut Statement,
        rows: impl Fn(&'q Batch) -> &'q Vec<R>,
        includes: impl Fn(&R) -> bool,
    ) -> Result<Option<Rows<'s, 'q, R>>> {
        let mut found = Vec::new();
        for (batch_number, batch) in &self.each {
            found.extend(rows(batch).iter().filter(|row| includes(row)).map(|row| (*batch_number, row)));
        }
        if found.is_empty() { Ok(None) } else { Rows::new(to, found, self.logs.as_deref()).map(Some) }
    }
}

fn statement(batches: &[&Batch], tenant: &TenantId) -> Result<(String, PgArguments)> {
    let mut statement = Statement::default();
    let _first = statement.value(tenant.as_str())?;
    let logs: Vec<_> = batches.iter().map(|batch| batch.threads.first().and_then(|row| row.log)).collect();
    let logs = if logs.len() > 1 { Some(statement.value(logs)?) } else { None };
    let mut batches = Batches { each: (0..).zip(batches.iter().copied()).collect(), logs };
    // A fixed order keeps two such statements from waiting for each other.
    batches.each.sort_by_key(|(_, batch)| batch.threads.first().map(|row| &row.id));
    statement.part("c", "SELECT $schema$.now() AS now");
    let guards = guards(&batches, &mut statement)?;
    threads(&batches, &mut statement, &guards)?;
    log::add(&batches, &mut statement)?;
    outside_log::add(&batches, &mut statement)?;
    Ok(statement.end("SELECT 'done', t.n, c.now, t.stamp, t.log, NULL::text, NULL::text FROM c, t"))
}

/// Adds the part that locks the mailboxes that must be unchanged. Returns the condition that they are unchanged. As
/// everywhere, mailboxes are locked before threads.
fn guards(batches: &Batches<'_>, to: &mut Statement) -> Result<String> {
    let count: usize = batches.each.iter().map(|(_, batch)| batch.mailboxes.len()).sum();
    let Some(rows) = batches.rows(to, |batch| &batch.mailboxes, |_| true)? else { return Ok(String::new()) };
    let rows = rows.column("thread", |row| row.thread.as_str())?.column("revision", |row| number(row.before))?;
    let condition = rows.conditions(&["thread", "revision"]);
    let guard = format!("SELECT FROM $schema$.mailbox x WHERE x.tenant = $1 AND {condition} FOR NO KEY UPDATE");
    let guards = match rows.rows() {
        Some(rows) => format!("SELECT FROM {rows} CROSS JOIN LATERAL ({guard}) x"),
        None => guard,
    };
    rows.part("guards", &guards);
    Ok(format!("AND (SELECT count(*) FROM guards) = {count}"))
}

/// Adds the parts that write the threads. `t` contains the threads that are unchanged since the decision. With several
/// batches, `d` contains their numbers. With a single batch whose thread has changed, `u` contains its current row.
fn threads(batches: &Batches<'_>, to: &mut Statement, guards: &str) -> Result<()> {
    fn thread(row: &ThreadRow) -> Option<&Thread> {
        row.thread.as_ref().map(|stored| &stored.thread)
    }
    const COLUMNS: [&str; 11] = [
        "head",
        "created_at",
        "updated_at",
        "last_time",
        "resource_id",
        "parent_id",
        "has_open_runs",
        "has_pending",
        "deleted_at",
        "record",
        "id_record",
    ];
    let Some(rows) = batches.rows(to, |batch| &batch.threads, |_| true)? else { return Ok(()) };
    let rows = rows
        .column("id", |row| row.id.as_str())?
        .column("stamp", |row| row.stamp)?
        .column("head", |row| row.thread.as_ref()?.head_seq.map(number))?
        .column("created_at", |row| thread(row).map(|thread| time(thread.created_at)))?
        .column("updated_at", |row| thread(row).map(|thread| time(thread.updated_at)))?
        .column("last_time", |row| row.thread.as_ref().map(|stored| time(stored.last_time)))?
        .column("resource_id", |row| thread(row)?.resource_id.as_ref().map(ToString::to_string))?
        .column("parent_id", |row| thread(row)?.parent_thread_id.as_ref().map(ToString::to_string))?
        .column("has_open_runs", |row| thread(row).is_some_and(|thread| !thread.open_runs.is_empty()))?
        .column("has_pending", |row| row.thread.as_ref().is_some_and(|stored| stored.queue.count > 0))?
        .column("deleted_at", |row| row.id_record.deleted_at.map(time))?
        .column("record", |row| row.thread.as_ref().map(Codec::encode))?
        .column("id_record", |row| row.id_record.encode())?;
    let (from, each) = rows.rows().map_or_else(Default::default, |rows| ("FROM", rows));
    let changes = format!("SET stamp = pg_current_xact_id()::text::bigint, {} {from}", rows.assignments(&COLUMNS));
    let key = format!("x.tenant = $1 AND {}", rows.conditions(&["id"]));
    let update = format!(
        "{} {guards} AND $sent$ <= (SELECT now FROM c) AND $sent$ >= (SELECT now FROM c) - $schema$.lag() \
         AND NOT EXISTS (SELECT FROM $schema$.dropped d WHERE d.tenant = $1) RETURNING {} AS n, x.stamp, x.log",
        rows.each(("UPDATE", "thread", &changes), &each, &key, &[("stamp", "stamp")]),
        rows.thread(),
    );
    let now = format!(
        "SELECT x.stamp, x.log, x.record, x.id_record FROM $schema$.thread x \
         WHERE x.tenant = $1 AND {} AND x.stamp <> {} AND NOT EXISTS (SELECT FROM t)",
        rows.conditions(&["id"]),
        rows.value("stamp"),
    );
    rows.part("t", &update);
    if batches.logs.is_some() {
        to.part("d", "SELECT array_agg(t.n) AS n FROM t");
    }
    if batches.is_one() {
        to.part("u", &now);
        to.answer("SELECT 'stale', 0, c.now, u.stamp, u.log, u.record, u.id_record FROM c, u".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "'; DROP TABLE $schema$.thread; -- $1 \\ \" $sent$";

    fn batch(value: &str) -> Batch {
        Batch {
            keys: vec![(1, value.to_owned(), value.to_owned())],
            values: vec![(1, value.to_owned(), None), (1, value.to_owned(), Some(value.to_owned()))],
            inputs: vec![(1, value.to_owned(), Some(1), Some(value.to_owned()))],
            decisions: vec![(1, value.to_owned(), value.to_owned(), value.to_owned())],
            event_keys: vec![(value.to_owned(), value.to_owned(), value.to_owned())],
            ..Batch::default()
        }
    }

    fn text(batches: &[&Batch]) -> String {
        statement(batches, &TenantId::new("t").unwrap()).unwrap().0
    }

    #[test]
    fn no_value_appears_in_the_statement_text() {
        let (plain, hostile) = (batch("a"), batch(HOSTILE));
        assert_eq!(text(&[&hostile]), text(&[&plain]));
        assert_eq!(text(&[&hostile, &plain]), text(&[&plain, &plain]));
        assert!(!text(&[&hostile]).contains("DROP"));
    }

    #[test]
    fn the_statement_text_does_not_depend_on_the_number_of_rows() {
        let (one, mut more) = (batch("a"), batch("b"));
        more.keys.extend(batch("c").keys);
        assert_eq!(text(&[&one, &more]), text(&[&one, &one]));
        assert_eq!(text(&[&one, &more, &more]), text(&[&one, &one]));
    }
}
