//! The parts of a commit apart from the log of its thread.

use store_core::{Result, RunId, ThreadId, codec::Codec};

use super::{NumberedBatches, Statement, StatementRows, TENANT_COLUMN};
use crate::{
    cache,
    write::{
        arguments::saturating_i64,
        rows::{OutboxChange, ScopeRow},
    },
};

pub(super) fn add_parts(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    add_scopes(batches, to)?;
    if let Some(rows) = batches.rows(to, |batch| &batch.events, |_| true)? {
        let rows = rows.column("id", |row| row.stored.event.id.as_str())?;
        let rows = rows.column("thread", |row| row.stored.event.thread.as_ref().map(ThreadId::as_str))?;
        let rows = rows.column("thread_seq", |row| row.stored.thread_seq.map(saturating_i64))?;
        let rows = rows.column("run", |row| row.stored.event.run.as_ref().map(RunId::as_str))?;
        let rows = rows.column("run_seq", |row| row.stored.run_seq.map(saturating_i64))?;
        let rows = rows.column("writer", |row| row.key.as_ref().map(|(writer, _)| writer.as_str()))?;
        let rows = rows.column("key", |row| row.key.as_ref().map(|(_, key)| key.as_str()))?;
        rows.column("record", |row| row.stored.event.encode())?.insert("events", "event", TENANT_COLUMN, "");
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.event_keys, |_| true)? {
        let rows = rows.column("writer", |row| row.writer.as_str())?.column("key", |row| row.key.as_str())?;
        rows.column("record", |row| row.record.as_str())?.insert("event_keys", "event_key", TENANT_COLUMN, "");
    }
    add_outbox_rows(batches, to)
}

fn add_scopes(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    fn with_new_state<'s, 'q>(rows: StatementRows<'s, 'q, ScopeRow>) -> Result<StatementRows<'s, 'q, ScopeRow>> {
        let rows = rows.column("kind", |row| cache::scope_kind_and_id(&row.scope).0)?;
        let rows = rows.column("id", |row| cache::scope_kind_and_id(&row.scope).1)?;
        let rows = rows.column("count", |row| saturating_i64(row.after.count))?;
        let rows = rows.column("floor", |row| saturating_i64(row.after.floor))?;
        rows.column("record", |row| row.after.encode())
    }
    let is_new = |row: &ScopeRow| row.before.count == 0 && row.before.floor == 0;
    if let Some(rows) = batches.rows(to, |batch| &batch.scopes, |row| !is_new(row))? {
        let rows = with_new_state(rows)?.column("old_count", |row| saturating_i64(row.before.count))?;
        let rows = rows.column("old_floor", |row| saturating_i64(row.before.floor))?;
        let key = format!("x.tenant = $1 AND {}", rows.conditions(&["kind", "id"]));
        let changes = format!("SET {} FROM", rows.assignments(&["count", "floor", "record"]));
        let unchanged_columns = [("count", "old_count"), ("floor", "old_floor")];
        let update =
            rows.update_or_delete_each(("UPDATE", "scope", &changes), &rows.written_rows(), &key, &unchanged_columns);
        rows.part_with_count_check("scopes", &update);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.scopes, is_new)? {
        with_new_state(rows)?.insert_with_count_check("new_scopes", "scope", TENANT_COLUMN, "ON CONFLICT DO NOTHING");
    }
    Ok(())
}

fn add_outbox_rows(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    let Some(rows) = batches.rows(to, |batch| &batch.outbox, |_| true)? else { return Ok(()) };
    let rows = rows.column("id", |row: &OutboxChange| row.id.as_str())?.column("lane", |row| row.lane.as_str())?;
    let rows = rows.column("target", |row| row.target.as_str())?.column("status", |row| row.status)?;
    let rows = rows.column("created_at", |row| saturating_i64(row.created))?;
    let rows = rows.column("available_at", |row| saturating_i64(row.available))?;
    let rows = rows.column("dedupe_key", |row| row.dedupe.as_deref())?;
    let rows = rows.column("is_ready", |row| row.ready.unwrap_or_default())?;
    let rows =
        rows.column("revision", |row| saturating_i64(row.revision))?.column("record", |row| row.record.as_str())?;
    rows.column("payload", |row| row.payload.as_deref())?.insert("outbox", "outbox", TENANT_COLUMN, "");
    Ok(())
}
