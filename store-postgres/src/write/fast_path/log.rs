//! The parts of a commit that belong to the log of a thread.

use store_core::{Result, RunId, codec::Codec};

use super::{LOG_COLUMN, NumberedBatches, Statement};
use crate::write::{
    arguments::millis,
    rows::{InputRow, LeafRow, NameRow, RunRow, StateRow},
};

pub(super) fn add_parts(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    if let Some(rows) = batches.rows(to, |batch| &batch.entries, |_| true)? {
        let rows = rows.column("seq", |row| row.seq)?.column("id", |row| row.id.as_str())?;
        // `jump` is the sequence number of the ancestor that the jump pointer leads to.
        let rows = rows.column("parent", |row| row.parent)?.column("jump", |row| row.jump)?;
        let rows = rows.column("side", |row| row.side)?.column("node", |row| row.node.as_str())?;
        rows.column("body", |row| row.body.as_str())?.insert("entries", "entry", LOG_COLUMN, "");
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.keys, |_| true)? {
        let rows = rows.column("key", |row| row.key.as_str())?.column("record", |row| row.record.as_str())?;
        let key = rows.conditions(&["key"]);
        rows.insert("keys", "commit_key", LOG_COLUMN, "");
        if batches.has_one_batch() {
            // If another call has changed the thread, the caller makes the decision again. It then first needs the
            // record of the commit key, if that exists. So this answer contains the record.
            to.add_answer(format!(
                "SELECT 'key', 0, clock.now, NULL, NULL, x.record, x.key FROM clock, changed, $schema$.commit_key x \
                 WHERE x.log = changed.log AND {key}"
            ));
        }
    }
    add_runs(batches, to)?;
    add_marks_leaves_and_names(batches, to)?;
    add_state(batches, to)?;
    add_inputs_and_decisions(batches, to)
}

fn add_runs(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    if let Some(rows) = batches.rows(to, |batch| &batch.runs, |row: &RunRow| !row.is_new)? {
        let rows = rows.column("id", |row| row.run.id.as_str())?;
        let rows = rows.column("phase", |row| row.run.status.phase().name())?;
        let rows = rows.column("record", |row| row.run.encode())?;
        let changes = format!("SET {} FROM", rows.assignments(&["phase", "record"]));
        let key = format!("x.tenant = $1 AND {} AND x.log = written.log", rows.conditions(&["id"]));
        let update = rows.update_or_delete_each(("UPDATE", "run", &changes), &rows.written_rows(), &key, &[]);
        rows.part_with_count_check("runs", &update);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.runs, |row: &RunRow| row.is_new)? {
        let rows = rows.column("id", |row| row.run.id.as_str())?;
        let rows = rows.column("created_at", |row| millis(row.run.created_at))?;
        let rows = rows.column("phase", |row| row.run.status.phase().name())?;
        let rows = rows.column("agent", |row| row.run.agent.as_str())?;
        let rows = rows.column("parent_run", |row| row.run.parent_run.as_ref().map(RunId::as_str))?;
        // The id may belong to a run whose thread was deleted.
        rows.column("record", |row| row.run.encode())?.insert_with_count_check(
            "new_runs",
            "run",
            ("tenant, log", "$1, written.log"),
            "ON CONFLICT (tenant, id) DO UPDATE SET log = excluded.log, created_at = excluded.created_at, \
             phase = excluded.phase, agent = excluded.agent, parent_run = excluded.parent_run, record = excluded.record \
             WHERE EXISTS (SELECT FROM $schema$.purge p WHERE p.log = x.log)",
        );
    }
    Ok(())
}

/// Adds the marks, leaves and names of entries.
fn add_marks_leaves_and_names(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    if let Some(rows) = batches.rows(to, |batch| &batch.marks, |_| true)? {
        let rows = rows.column("seq", |row| row.seq)?.column("children", |row| row.children)?;
        rows.column("record", |row| row.record.as_str())?.insert(
            "marks",
            "mark",
            LOG_COLUMN,
            "ON CONFLICT (log, seq) DO UPDATE SET children = excluded.children, record = excluded.record",
        );
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.leaves, |row: &LeafRow| !row.is_listed)? {
        let rows = rows.column("seq", |row| row.seq)?;
        let key = format!("x.log = written.log AND {}", rows.conditions(&["seq"]));
        let delete = rows.update_or_delete_each(("DELETE FROM", "tip", "USING"), &rows.written_rows(), &key, &[]);
        rows.part("no_leaves", &delete);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.leaves, |row: &LeafRow| row.is_listed)? {
        rows.column("seq", |row| row.seq)?.insert("leaves", "tip", LOG_COLUMN, "ON CONFLICT DO NOTHING");
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.names, |row: &NameRow| row.may_replace_name)? {
        let rows = rows.column("seq", |row| row.seq)?.column("name", NameRow::bytes)?;
        let (from, condition, name) = (rows.written_rows(), rows.conditions(&["seq"]), rows.value_expression("name"));
        let delete = format!(
            "DELETE FROM $schema$.snapshot x USING {from} \
             WHERE x.log = written.log AND {condition} AND x.name IS DISTINCT FROM {name}"
        );
        rows.part("no_names", &delete);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.names, |row: &NameRow| row.name.is_some())? {
        let rows = rows.column("name", NameRow::bytes)?.column("seq", |row| row.seq)?;
        rows.column("giver", |row| row.naming_seq)?.insert(
            "names",
            "snapshot",
            LOG_COLUMN,
            "ON CONFLICT (log, name, seq) DO UPDATE SET giver = excluded.giver",
        );
    }
    Ok(())
}

fn add_state(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    if let Some(rows) = batches.rows(to, |batch| &batch.state_values, |row: &StateRow| row.value.is_none())? {
        let rows = rows.column("key", |row| row.key.as_bytes())?;
        let key = format!("x.log = written.log AND {}", rows.conditions(&["key"]));
        let delete = rows.update_or_delete_each(("DELETE FROM", "state", "USING"), &rows.written_rows(), &key, &[]);
        rows.part("no_values", &delete);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.state_values, |row: &StateRow| row.value.is_some())? {
        let rows = rows.column("key", |row| row.key.as_bytes())?.column("value", |row| row.value.as_deref())?;
        rows.insert("state", "state", LOG_COLUMN, "ON CONFLICT (log, key) DO UPDATE SET value = excluded.value");
    }
    Ok(())
}

fn add_inputs_and_decisions(batches: &NumberedBatches<'_>, to: &mut Statement) -> Result<()> {
    if let Some(rows) = batches.rows(to, |batch| &batch.inputs, InputRow::is_removed)? {
        let rows = rows.column("id", |row| row.id.as_str())?;
        let key = format!("x.log = written.log AND {}", rows.conditions(&["id"]));
        let delete = rows.update_or_delete_each(("DELETE FROM", "input", "USING"), &rows.written_rows(), &key, &[]);
        rows.part("no_inputs", &delete);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.inputs, InputRow::changes_only_rank)? {
        let rows = rows.column("id", |row| row.id.as_str())?.column("rank", |row| row.rank)?;
        let rank = format!("SET {} FROM", rows.assignments(&["rank"]));
        let key = format!("x.log = written.log AND {}", rows.conditions(&["id"]));
        let update = rows.update_or_delete_each(("UPDATE", "input", &rank), &rows.written_rows(), &key, &[]);
        rows.part("ranks", &update);
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.inputs, |row: &InputRow| row.record.is_some())? {
        let rows = rows.column("id", |row| row.id.as_str())?.column("rank", |row| row.rank)?;
        rows.column("record", |row| row.record.as_deref())?.insert(
            "inputs",
            "input",
            LOG_COLUMN,
            "ON CONFLICT (log, id) DO UPDATE SET rank = excluded.rank, record = excluded.record",
        );
    }
    if let Some(rows) = batches.rows(to, |batch| &batch.decisions, |_| true)? {
        let rows = rows.column("run", |row| row.run.as_str())?.column("ticket", |row| row.ticket.as_bytes())?;
        rows.column("record", |row| row.record.as_str())?.insert(
            "decisions",
            "decision",
            LOG_COLUMN,
            "ON CONFLICT (log, run, ticket) DO UPDATE SET record = excluded.record",
        );
    }
    Ok(())
}
