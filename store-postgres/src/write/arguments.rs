//! Encodes a batch as the arguments of the SQL function `write`.

use serde::Serialize;
use sqlx::{
    Encode, Postgres, Type,
    postgres::{PgArguments, PgHasArrayType},
};
use store_core::{DedupeKey, Error, Result, TenantId, Thread, ThreadId, Timestamp, codec::Codec};

use super::{Batch, documents::DocumentRows, rows::NameRow};
use crate::{cache, db::add};

/// Returns the arguments for a batch, except the last one: the time of the decision plus the time that has passed
/// since.
pub(super) fn arguments(batch: &Batch, tenant: &TenantId) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, tenant.as_str())?;
    add(to, batch.has_rare_log_rows())?;
    add(to, batch.writes_outside_log())?;
    add_thread_columns(to, batch)?;
    add_thread_numbers(to, batch.entries.iter().map(|row| row.thread))?;
    let rows = || batch.entries.iter();
    add_column(to, rows(), |row| row.seq)?;
    add_column(to, rows(), |row| row.id.as_str())?;
    add_column(to, rows(), |row| row.parent)?;
    add_column(to, rows(), |row| row.jump)?;
    add_column(to, rows(), |row| row.side)?;
    add_column(to, rows(), |row| row.node.as_str())?;
    add_column(to, rows(), |row| row.body.as_str())?;
    add_thread_numbers(to, batch.marks.iter().map(|row| row.thread))?;
    let rows = || batch.marks.iter();
    add_column(to, rows(), |row| row.seq)?;
    add_column(to, rows(), |row| row.children)?;
    add_column(to, rows(), |row| row.record.as_str())?;
    add_thread_numbers(to, batch.leaves.iter().map(|row| row.thread))?;
    let rows = || batch.leaves.iter();
    add_column(to, rows(), |row| row.seq)?;
    add_column(to, rows(), |row| row.is_listed)?;
    add_thread_numbers(to, batch.names.iter().map(|row| row.thread))?;
    let rows = || batch.names.iter();
    add_column(to, rows(), |row| row.seq)?;
    add_column(to, rows(), NameRow::bytes)?;
    add_column(to, rows(), |row| row.naming_seq)?;
    add_column(to, rows(), |row| row.may_replace_name)?;
    add_thread_numbers(to, batch.keys.iter().map(|row| row.thread))?;
    let rows = || batch.keys.iter();
    add_column(to, rows(), |row| row.key.as_str())?;
    add_column(to, rows(), |row| row.record.as_str())?;
    add_thread_numbers(to, batch.cleared_states.iter().copied())?;
    add_thread_numbers(to, batch.state_values.iter().map(|row| row.thread))?;
    let rows = || batch.state_values.iter();
    add_column(to, rows(), |row| row.key.as_bytes())?;
    add_column(to, rows(), |row| row.value.as_deref())?;
    add_run_columns(to, batch)?;
    add_thread_numbers(to, batch.inputs.iter().map(|row| row.thread))?;
    let rows = || batch.inputs.iter();
    add_column(to, rows(), |row| row.id.as_str())?;
    add_column(to, rows(), |row| row.rank)?;
    add_column(to, rows(), |row| row.record.as_deref())?;
    add_thread_numbers(to, batch.decisions.iter().map(|row| row.thread))?;
    let rows = || batch.decisions.iter();
    add_column(to, rows(), |row| row.run.as_str())?;
    add_column(to, rows(), |row| row.ticket.as_bytes())?;
    add_column(to, rows(), |row| row.record.as_str())?;
    add_event_columns(to, batch)?;
    add_outbox_columns(to, batch)?;
    add_mailbox_columns(to, batch)?;
    if !batch.documents.is_empty() {
        add(to, batch.documents.thread.as_deref())?;
        add_documents(to, &batch.documents)?;
    }
    Ok(arguments)
}

/// Adds the arguments of the SQL function `write_documents` after the tenant and the log. Their number
/// is [`DOCUMENT_ARGUMENTS`](crate::sql::DOCUMENT_ARGUMENTS).
pub(super) fn add_documents(to: &mut PgArguments, batch_rows: &DocumentRows) -> Result<()> {
    let rows = || batch_rows.documents.iter();
    add_column(to, rows(), |row| row.of_thread)?;
    add_column(to, rows(), |row| row.collection.as_str())?;
    add_column(to, rows(), |row| row.key.as_str())?;
    add_column(to, rows(), |row| row.op)?;
    add_column(to, rows(), |row| row.low)?;
    add_column(to, rows(), |row| row.high)?;
    add_column(to, rows(), |row| row.value.as_deref())?;
    add_column(to, rows(), |row| row.at)?;
    let rows = || batch_rows.topic_events.iter();
    add_column(to, rows(), |row| row.id.as_str())?;
    add_column(to, rows(), |row| row.thread.as_deref())?;
    add_column(to, rows(), |row| row.thread_seq)?;
    add_column(to, rows(), |row| row.run.as_deref())?;
    add_column(to, rows(), |row| row.run_seq)?;
    add_column(to, rows(), |row| row.writer.as_deref())?;
    add_column(to, rows(), |row| row.key.as_deref())?;
    add_column(to, rows(), |row| row.record.as_str())?;
    let mut topic_count = 0_i32;
    let last_topics = rows().map(|row| {
        topic_count = topic_count.saturating_add(i32::try_from(row.topics.len()).unwrap_or(i32::MAX));
        topic_count
    });
    let last_topics: Vec<i32> = last_topics.collect();
    add(to, (!last_topics.is_empty()).then_some(last_topics))?;
    let topics = || rows().flat_map(|row| &row.topics);
    add_column(to, topics(), |(topic, _)| topic.as_str())?;
    add_column(to, topics(), |(_, seq)| *seq)?;
    add(to, batch_rows.key.as_ref().map(|row| row.key.as_str()))?;
    add(to, batch_rows.key.as_ref().map(|row| row.record.as_str()))
}

fn add_thread_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let rows = || batch.threads.iter();
    let threads: Vec<Option<&Thread>> = rows().map(|row| row.thread.as_ref().map(|stored| &stored.thread)).collect();
    add_column(to, rows(), |row| row.id.as_str())?;
    add_column(to, rows(), |row| row.stamp)?;
    add_column(to, rows(), |row| row.log)?;
    add_column(to, rows(), |row| row.creates_thread)?;
    add_column(to, rows(), |row| row.thread.as_ref()?.head_seq.map(saturating_i64))?;
    add_column(to, threads.iter(), |thread| thread.map(|thread| millis(thread.created_at)))?;
    add_column(to, threads.iter(), |thread| thread.map(|thread| millis(thread.updated_at)))?;
    add_column(to, rows(), |row| row.thread.as_ref().map(|stored| millis(stored.last_time)))?;
    add_column(to, threads.iter(), |thread| (*thread)?.resource_id.as_ref().map(ToString::to_string))?;
    add_column(to, threads.iter(), |thread| (*thread)?.parent_thread_id.as_ref().map(ToString::to_string))?;
    add_column(to, threads.iter(), |thread| thread.is_some_and(|thread| !thread.open_runs.is_empty()))?;
    add_column(to, rows(), |row| row.thread.as_ref().is_some_and(|stored| stored.queue.count > 0))?;
    add_column(to, rows(), |row| row.id_record.deleted_at.map(millis))?;
    add_column(to, rows(), |row| row.thread.as_ref().map(Codec::encode))?;
    add_column(to, rows(), |row| row.id_record.encode())
}

fn add_run_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    add_thread_numbers(to, batch.runs.iter().map(|row| row.thread))?;
    let rows = || batch.runs.iter();
    add_column(to, rows(), |row| row.run.id.as_str())?;
    add_column(to, rows(), |row| row.is_new)?;
    add_column(to, rows(), |row| millis(row.run.created_at))?;
    add_column(to, rows(), |row| row.run.status.phase().name())?;
    add_column(to, rows(), |row| row.run.agent.as_str())?;
    add_column(to, rows(), |row| row.run.parent_run.as_ref().map(store_core::RunId::as_str))?;
    add_column(to, rows(), |row| row.run.encode())
}

fn add_event_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let rows = || batch.scopes.iter();
    add_column(to, rows(), |row| cache::scope_kind_and_id(&row.scope).0)?;
    add_column(to, rows(), |row| cache::scope_kind_and_id(&row.scope).1)?;
    add_column(to, rows(), |row| saturating_i64(row.before.count))?;
    add_column(to, rows(), |row| saturating_i64(row.before.floor))?;
    add_column(to, rows(), |row| saturating_i64(row.after.count))?;
    add_column(to, rows(), |row| saturating_i64(row.after.floor))?;
    add_column(to, rows(), |row| row.after.encode())?;
    let rows = || batch.events.iter();
    add_column(to, rows(), |row| row.stored.event.id.as_str())?;
    add_column(to, rows(), |row| row.stored.event.thread.as_ref().map(ThreadId::as_str))?;
    add_column(to, rows(), |row| row.stored.thread_seq.map(saturating_i64))?;
    add_column(to, rows(), |row| row.stored.event.run.as_ref().map(store_core::RunId::as_str))?;
    add_column(to, rows(), |row| row.stored.run_seq.map(saturating_i64))?;
    add_column(to, rows(), |row| row.key.as_ref().map(|(writer, _)| writer.as_str()))?;
    add_column(to, rows(), |row| row.key.as_ref().map(|(_, key)| key.as_str()))?;
    add_column(to, rows(), |row| row.stored.event.encode())?;
    let rows = || batch.event_keys.iter();
    add_column(to, rows(), |row| row.writer.as_str())?;
    add_column(to, rows(), |row| row.key.as_str())?;
    add_column(to, rows(), |row| row.record.as_str())
}

fn add_outbox_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    add_json(to, batch.outbox.iter().filter(|row| row.before > 0))?;
    add_json(to, batch.outbox.iter().filter(|row| row.before == 0))?;
    add_json(to, batch.outbox_ready.iter())?;
    add_json(to, batch.outbox_removed.iter())?;
    add_json(to, batch.outbox_groups.iter())
}

fn add_mailbox_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let rows = || batch.mailboxes.iter();
    add_column(to, rows(), |row| row.thread.as_str())?;
    add_column(to, rows(), |row| saturating_i64(row.before))?;
    add_column(to, rows(), |row| saturating_i64(row.revision))?;
    add_column(to, rows(), |row| saturating_i64(row.epoch))?;
    add_column(to, rows(), |row| saturating_i64(row.free_since))?;
    add_column(to, rows(), |row| row.running.as_deref())?;
    add_column(to, rows(), |row| row.lease_until.map(saturating_i64))?;
    add_column(to, rows(), |row| saturating_i64(row.last_time))?;
    add_column(to, rows(), |row| row.record.as_deref())?;
    add_dispatch_columns(to, batch)?;
    add_queued_columns(to, batch)?;
    let rows = || batch.ended_removed.iter();
    add_column(to, rows(), |row| row.status)?;
    add_column(to, rows(), |row| millis(row.created_at))?;
    add_column(to, rows(), |row| row.id.as_str())?;
    let rows = || batch.ended.iter();
    add_column(to, rows(), |row| row.status)?;
    add_column(to, rows(), |row| millis(row.created_at))?;
    add_column(to, rows(), |row| row.id.as_str())?;
    add_column(to, rows(), |row| millis(row.finished_at))?;
    let rows = || batch.interrupts.iter();
    add_column(to, rows(), |row| row.thread.as_str())?;
    add_column(to, rows(), |row| saturating_i64(row.epoch))?;
    add_column(to, rows(), |row| row.at.map(saturating_i64))?;
    add_column(to, rows(), |row| row.needed_by_count.map(saturating_i64))?;
    add_column(to, rows(), |row| row.record.as_deref())?;
    add(to, batch.claim_incarnation.map(saturating_i64))
}

fn add_dispatch_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let rows = || batch.dispatches.iter();
    add_column(to, rows(), |row| row.body.id.as_str())?;
    add_column(to, rows(), |row| row.state.status.name())?;
    add_column(to, rows(), |row| saturating_i64(row.state.epoch))?;
    add_column(to, rows(), |row| row.state.encode())?;
    let rows = || batch.new_dispatches.iter();
    add_column(to, rows(), |row| row.body.id.as_str())?;
    add_column(to, rows(), |row| row.body.thread.as_str())?;
    add_column(to, rows(), |row| millis(row.body.created_at))?;
    add_column(to, rows(), |row| saturating_i64(row.body.number))?;
    add_column(to, rows(), |row| row.body.dedupe_key.as_ref().map(DedupeKey::as_str))?;
    add_column(to, rows(), |row| row.state.status.name())?;
    add_column(to, rows(), |row| saturating_i64(row.state.epoch))?;
    add_column(to, rows(), |row| row.body.encode())?;
    add_column(to, rows(), |row| row.state.encode())?;
    add_column(to, batch.dispatches_removed.iter(), String::as_str)
}

fn add_queued_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let rows = || batch.queued_removed.iter();
    add_column(to, rows(), |row| row.thread.as_str())?;
    add_column(to, rows(), |row| saturating_i64(row.at.epoch))?;
    add_column(to, rows(), |row| i16::from(row.at.priority))?;
    add_column(to, rows(), |row| saturating_i64(row.at.number))?;
    let rows = || batch.queued.iter();
    add_column(to, rows(), |(_, row)| row.thread.as_str())?;
    add_column(to, rows(), |(_, row)| saturating_i64(row.at.epoch))?;
    add_column(to, rows(), |(is_available, _)| *is_available)?;
    add_column(to, rows(), |(_, row)| i16::from(row.at.priority))?;
    add_column(to, rows(), |(_, row)| saturating_i64(row.at.number))?;
    add_column(to, rows(), |(_, row)| millis(row.at.due))?;
    add_column(to, rows(), |(_, row)| millis(row.created_at))?;
    add_column(to, rows(), |(_, row)| row.id.as_str())
}

pub(super) fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn millis(at: Timestamp) -> i64 {
    saturating_i64(at.as_millis())
}

/// Adds the numbers of the threads to which rows belong. Adds a null if there are no rows, because each array takes the
/// server some time.
fn add_thread_numbers(to: &mut PgArguments, numbers: impl Iterator<Item = i32>) -> Result<()> {
    let thread_numbers: Vec<i32> = numbers.collect();
    add(to, (!thread_numbers.is_empty()).then_some(thread_numbers))
}

/// Adds rows as one JSON text, or a null if there are no rows.
fn add_json(to: &mut PgArguments, rows: impl Iterator<Item = impl Serialize>) -> Result<()> {
    let rows: Vec<_> = rows.collect();
    let failed = |_| Error::invalid("value", "it cannot be sent to the server");
    add(to, (!rows.is_empty()).then(|| serde_json::to_string(&rows).map_err(failed)).transpose()?)
}

/// Adds a column of rows, or a null if there are no rows.
fn add_column<'q, R: 'q, T>(
    to: &mut PgArguments,
    rows: impl Iterator<Item = &'q R>,
    value_of: impl Fn(&'q R) -> T,
) -> Result<()>
where
    T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
{
    let values: Vec<T> = rows.map(value_of).collect();
    add(to, (!values.is_empty()).then_some(values))
}
