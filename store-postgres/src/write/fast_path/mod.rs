//! Writes ordinary commits, each to one existing thread, and writes of documents, in one statement. It consists only of
//! the parts that these need. If other calls have changed a thread since the decision, nothing is written to this
//! thread. If they have changed another record that belongs to one of the threads, nothing at all is written. The text
//! of the statement depends on which parts there are, never on their values.

mod documents;
mod log;
mod outside_log;

use sqlx::postgres::{PgArguments, PgRow};
use store_core::{Result, TenantId, Thread, codec::Codec};

use super::{
    Batch,
    arguments::{millis, saturating_i64},
    rows::ThreadRow,
    statement::{Statement, StatementRows},
};
use crate::{
    clock::DecisionTime,
    db::{Connection, StatementFailure, add, signed},
};

/// The first column of tables that belong to a log: its name and its value.
const LOG_COLUMN: (&str, &str) = ("log", "written.log");
/// The first column of tables that belong to a tenant: its name and its value.
const TENANT_COLUMN: (&str, &str) = ("tenant", "$1");

/// Writes batches for which [`Batch::fits_fast_path`] holds. The answer has the same rows as that of the SQL function
/// `write`: one for each batch that was written. If there is only one batch and its thread has changed, the answer has
/// the current row of the thread. If there is no row for a batch, only the SQL function `write` can say why.
pub(super) async fn write(
    connection: &mut Connection<'_>,
    batches: &[&Batch],
    tenant: &TenantId,
    decision_time: DecisionTime,
) -> Result<Vec<PgRow>, StatementFailure> {
    let (text, mut arguments) = statement(batches, tenant)?;
    // This is called immediately before the statement is sent. The last argument is the time of the decision plus the
    // time that has passed since.
    let arguments_at_send = || {
        add(&mut arguments, signed(decision_time.current_time().as_millis())?)?;
        Ok(arguments)
    };
    connection.write_text(&text, arguments_at_send).await
}

/// Batches with their numbers, counted from 0.
struct NumberedBatches<'q> {
    items: Vec<(i32, &'q Batch)>,
    /// The placeholder of the array with the logs of their threads, if there are several batches.
    logs: Option<String>,
}

impl<'q> NumberedBatches<'q> {
    const fn has_one_batch(&self) -> bool {
        self.items.len() == 1
    }

    /// Returns the rows of one kind of all batches, or `None` if there are none.
    fn rows<'s, R>(
        &'s self,
        to: &'s mut Statement,
        rows: impl Fn(&'q Batch) -> &'q Vec<R>,
        includes: impl Fn(&R) -> bool,
    ) -> Result<Option<StatementRows<'s, 'q, R>>> {
        let mut found = Vec::new();
        for (batch_number, batch) in &self.items {
            found.extend(rows(batch).iter().filter(|row| includes(row)).map(|row| (*batch_number, row)));
        }
        if found.is_empty() { Ok(None) } else { StatementRows::new(to, found, self.logs.as_deref()).map(Some) }
    }
}

fn statement(batches: &[&Batch], tenant: &TenantId) -> Result<(String, PgArguments)> {
    let mut statement = Statement::default();
    // The parts refer to the tenant as `$1`.
    let _placeholder = statement.add_argument(tenant.as_str())?;
    let logs: Vec<_> = batches.iter().map(|batch| batch.threads.first().and_then(|row| row.log)).collect();
    let logs = if logs.len() > 1 { Some(statement.add_argument(logs)?) } else { None };
    let mut batches = NumberedBatches { items: (0..).zip(batches.iter().copied()).collect(), logs };
    // A fixed order keeps two such statements from waiting for each other.
    batches.items.sort_by_key(|(_, batch)| batch.threads.first().map(|row| &row.id));
    statement.part("clock", "SELECT $schema$.now() AS now");
    let guards = add_guards(&batches, &mut statement)?;
    add_threads(&batches, &mut statement, &guards)?;
    log::add_parts(&batches, &mut statement)?;
    outside_log::add_parts(&batches, &mut statement)?;
    documents::add_part(&batches, &mut statement)?;
    Ok(statement.end(
        "SELECT 'done', updated.n, clock.now, updated.stamp, updated.log, NULL::text, NULL::text FROM clock, updated",
    ))
}

/// Adds the part that locks the mailbox rows of the threads whose mailbox must be unchanged. Returns the condition that
/// they are unchanged. As everywhere, mailboxes are locked before threads.
fn add_guards(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<String> {
    let count: usize = batches.items.iter().map(|(_, batch)| batch.mailboxes.len()).sum();
    let Some(rows) = batches.rows(to, |batch| &batch.mailboxes, |_| true)? else { return Ok(String::new()) };
    let rows =
        rows.column("thread", |row| row.thread.as_str())?.column("revision", |row| saturating_i64(row.before))?;
    let condition = rows.conditions(&["thread", "revision"]);
    let guard = format!("SELECT FROM $schema$.mailbox x WHERE x.tenant = $1 AND {condition} FOR NO KEY UPDATE");
    let guards = match rows.table_of_arrays() {
        Some(table) => format!("SELECT FROM {table} CROSS JOIN LATERAL ({guard}) x"),
        None => guard,
    };
    rows.part("guards", &guards);
    Ok(format!("AND (SELECT count(*) FROM guards) = {count}"))
}

/// Adds the parts that write the threads. `updated` contains the threads that this statement updates: those that are
/// unchanged since the decision. With several batches, `updated_numbers` contains their numbers. With a single batch
/// whose thread has changed, `changed` contains the current row of that thread.
fn add_threads(batches: &NumberedBatches<'_>, to: &mut Statement, guards: &str) -> Result<()> {
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
    let Some(rows) = batches.rows(to, |batch| &batch.threads, |_| true)? else {
        return batches.items.first().map_or(Ok(()), |(_, batch)| documents::add_permission(batch, to));
    };
    let rows = rows
        .column("id", |row| row.id.as_str())?
        .column("stamp", |row| row.stamp)?
        .column("head", |row| row.thread.as_ref()?.head_seq.map(saturating_i64))?
        .column("created_at", |row| thread(row).map(|thread| millis(thread.created_at)))?
        .column("updated_at", |row| thread(row).map(|thread| millis(thread.updated_at)))?
        .column("last_time", |row| row.thread.as_ref().map(|stored| millis(stored.last_time)))?
        .column("resource_id", |row| thread(row)?.resource_id.as_ref().map(ToString::to_string))?
        .column("parent_id", |row| thread(row)?.parent_thread_id.as_ref().map(ToString::to_string))?
        .column("has_open_runs", |row| thread(row).is_some_and(|thread| !thread.open_runs.is_empty()))?
        .column("has_pending", |row| row.thread.as_ref().is_some_and(|stored| stored.queue.count > 0))?
        .column("deleted_at", |row| row.id_record.deleted_at.map(millis))?
        .column("record", |row| row.thread.as_ref().map(Codec::encode))?
        .column("id_record", |row| row.id_record.encode())?;
    let (from, table) = rows.table_of_arrays().map_or_else(Default::default, |table| ("FROM", table));
    let changes = format!("SET stamp = pg_current_xact_id()::text::bigint, {} {from}", rows.assignments(&COLUMNS));
    let key = format!("x.tenant = $1 AND {}", rows.conditions(&["id"]));
    // `$sent$` stands for the last argument: the time of the decision plus the time that has passed since. It may be at
    // most `lag()` before the time of the server, and not after it.
    let update = format!(
        "{} {guards} AND $sent$ <= (SELECT now FROM clock) AND $sent$ >= (SELECT now FROM clock) - $schema$.lag() \
         AND NOT EXISTS (SELECT FROM $schema$.dropped d WHERE d.tenant = $1) RETURNING {} AS n, x.stamp, x.log",
        rows.update_or_delete_each(("UPDATE", "thread", &changes), &table, &key, &[("stamp", "stamp")]),
        rows.batch_number_expression(),
    );
    let current_row = format!(
        "SELECT x.stamp, x.log, x.record, x.id_record FROM $schema$.thread x \
         WHERE x.tenant = $1 AND {} AND x.stamp <> {} AND NOT EXISTS (SELECT FROM updated)",
        rows.conditions(&["id"]),
        rows.value_expression("stamp"),
    );
    rows.part("updated", &update);
    if batches.logs.is_some() {
        to.part("updated_numbers", "SELECT array_agg(updated.n) AS n FROM updated");
    }
    if batches.has_one_batch() {
        to.part("changed", &current_row);
        to.add_answer(
            "SELECT 'stale', 0, clock.now, changed.stamp, changed.log, changed.record, changed.id_record \
             FROM clock, changed"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::rows::{CommitKeyRow, DecisionRow, EventKeyRow, InputRow, StateRow};

    const SQL_INJECTION: &str = "'; DROP TABLE $schema$.thread; -- $1 \\ \" $sent$";

    fn batch_with_value(value: &str) -> Batch {
        let text = || value.to_owned();
        Batch {
            keys: vec![CommitKeyRow { thread: 1, key: text(), record: text() }],
            state_values: vec![
                StateRow { thread: 1, key: text(), value: None },
                StateRow { thread: 1, key: text(), value: Some(text()) },
            ],
            inputs: vec![InputRow { thread: 1, id: text(), rank: Some(1), record: Some(text()) }],
            decisions: vec![DecisionRow { thread: 1, run: text(), ticket: text(), record: text() }],
            event_keys: vec![EventKeyRow { writer: text(), key: text(), record: text() }],
            ..Batch::default()
        }
    }

    fn statement_text(batches: &[&Batch]) -> String {
        statement(batches, &TenantId::new("t").unwrap()).unwrap().0
    }

    #[test]
    fn no_value_appears_in_the_statement_text() {
        let (plain, injected) = (batch_with_value("a"), batch_with_value(SQL_INJECTION));
        assert_eq!(statement_text(&[&injected]), statement_text(&[&plain]));
        assert_eq!(statement_text(&[&injected, &plain]), statement_text(&[&plain, &plain]));
        assert!(!statement_text(&[&injected]).contains("DROP"));
    }

    #[test]
    fn the_statement_text_does_not_depend_on_the_number_of_rows() {
        let (one_key, mut two_keys) = (batch_with_value("a"), batch_with_value("b"));
        two_keys.keys.extend(batch_with_value("c").keys);
        assert_eq!(statement_text(&[&one_key, &two_keys]), statement_text(&[&one_key, &one_key]));
        assert_eq!(statement_text(&[&one_key, &two_keys, &two_keys]), statement_text(&[&one_key, &one_key]));
    }
}
