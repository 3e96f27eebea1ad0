//! Encodes a batch as the arguments of the SQL function `write`.

use serde::Serialize;
use sqlx::{
    Encode, Postgres, Type,
    postgres::{PgArguments, PgHasArrayType},
};
use store_core::{DedupeKey, Error, Result, TenantId, Thread, ThreadId, Timestamp, codec::Codec};

use super::{Batch, rows::NameRow};
use crate::{cache, db::add};

/// Returns the arguments for a batch, except the time at which it is sent.
pub(super) fn arguments(batch: &Batch, tenant: &TenantId) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, tenant.as_str())?;
    add(to, batch.has_parts())?;
    add(to, batch.writes_outside_log())?;
    thread_columns(to, batch)?;
    thread_numbers(to, batch.entries.iter().map(|row| row.thread))?;
    let of = || batch.entries.iter();
    column(to, of(), |row| row.seq)?;
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| row.parent)?;
    column(to, of(), |row| row.jump)?;
    column(to, of(), |row| row.side)?;
    column(to, of(), |row| row.node.as_str())?;
    column(to, of(), |row| row.body.as_str())?;
    thread_numbers(to, batch.marks.iter().map(|row| row.thread))?;
    let of = || batch.marks.iter();
    column(to, of(), |row| row.seq)?;
    column(to, of(), |row| row.children)?;
    column(to, of(), |row| row.record.as_str())?;
    thread_numbers(to, batch.tips.iter().map(|row| row.0))?;
    let of = || batch.tips.iter();
    column(to, of(), |row| row.1)?;
    column(to, of(), |row| row.2)?;
    thread_numbers(to, batch.names.iter().map(|row| row.thread))?;
    let of = || batch.names.iter();
    column(to, of(), |row| row.seq)?;
    column(to, of(), NameRow::bytes)?;
    column(to, of(), |row| row.giver)?;
    column(to, of(), |row| row.may_have_other)?;
    thread_numbers(to, batch.keys.iter().map(|row| row.0))?;
    let of = || batch.keys.iter();
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_str())?;
    thread_numbers(to, batch.clears.iter().copied())?;
    thread_numbers(to, batch.values.iter().map(|row| row.0))?;
    let of = || batch.values.iter();
    column(to, of(), |row| row.1.as_bytes())?;
    column(to, of(), |row| row.2.as_deref())?;
    run_columns(to, batch)?;
    thread_numbers(to, batch.inputs.iter().map(|row| row.0))?;
    let of = || batch.inputs.iter();
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2)?;
    column(to, of(), |row| row.3.as_deref())?;
    thread_numbers(to, batch.decisions.iter().map(|row| row.0))?;
    let of = || batch.decisions.iter();
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_bytes())?;
    column(to, of(), |row| row.3.as_str())?;
    event_columns(to, batch)?;
    outbox_columns(to, batch)?;
    mailbox_columns(to, batch)?;
    Ok(arguments)
}

fn thread_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let of = || batch.threads.iter();
    let threads: Vec<Option<&Thread>> = of().map(|row| row.thread.as_ref().map(|stored| &stored.thread)).collect();
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| row.stamp)?;
    column(to, of(), |row| row.log)?;
    column(to, of(), |row| row.creates_thread)?;
    column(to, of(), |row| row.thread.as_ref()?.head_seq.map(number))?;
    column(to, threads.iter(), |thread| thread.map(|thread| time(thread.created_at)))?;
    column(to, threads.iter(), |thread| thread.map(|thread| time(thread.updated_at)))?;
    column(to, of(), |row| row.thread.as_ref().map(|stored| time(stored.last_time)))?;
    column(to, threads.iter(), |thread| (*thread)?.resource_id.as_ref().map(ToString::to_string))?;
    column(to, threads.iter(), |thread| (*thread)?.parent_thread_id.as_ref().map(ToString::to_string))?;
    column(to, threads.iter(), |thread| thread.is_some_and(|thread| !thread.open_runs.is_empty()))?;
    column(to, of(), |row| row.thread.as_ref().is_some_and(|stored| stored.queue.count > 0))?;
    column(to, of(), |row| row.id_record.deleted_at.map(time))?;
    column(to, of(), |row| row.thread.as_ref().map(Codec::encode))?;
    column(to, of(), |row| row.id_record.encode())
}

fn run_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    thread_numbers(to, batch.runs.iter().map(|row| row.thread))?;
    let of = || batch.runs.iter();
    column(to, of(), |row| row.run.id.as_str())?;
    column(to, of(), |row| row.is_new)?;
    column(to, of(), |row| time(row.run.created_at))?;
    column(to, of(), |row| row.run.status.phase().name())?;
    column(to, of(), |row| row.run.agent.as_str())?;
    column(to, of(), |row| row.run.parent_run.as_ref().map(store_core::RunId::as_str))?;
    column(to, of(), |row| row.run.encode())
}

fn event_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let of = || batch.scopes.iter();
    column(to, of(), |row| cache::scope_key(&row.scope).0)?;
    column(to, of(), |row| cache::scope_key(&row.scope).1)?;
    column(to, of(), |row| number(row.before.count))?;
    column(to, of(), |row| number(row.before.floor))?;
    column(to, of(), |row| number(row.after.count))?;
    column(to, of(), |row| number(row.after.floor))?;
    column(to, of(), |row| row.after.encode())?;
    let of = || batch.events.iter();
    column(to, of(), |row| row.stored.event.id.as_str())?;
    column(to, of(), |row| row.stored.event.thread.as_ref().map(ThreadId::as_str))?;
    column(to, of(), |row| row.stored.thread_seq.map(number))?;
    column(to, of(), |row| row.stored.event.run.as_ref().map(store_core::RunId::as_str))?;
    column(to, of(), |row| row.stored.run_seq.map(number))?;
    column(to, of(), |row| row.key.as_ref().map(|(writer, _)| writer.as_str()))?;
    column(to, of(), |row| row.key.as_ref().map(|(_, key)| key.as_str()))?;
    column(to, of(), |row| row.stored.event.encode())?;
    let of = || batch.event_keys.iter();
    column(to, of(), |row| row.0.as_str())?;
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_str())
}

fn outbox_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    document(to, batch.outbox.iter().filter(|row| row.before > 0))?;
    document(to, batch.outbox.iter().filter(|row| row.before == 0))?;
    document(to, batch.outbox_ready.iter())?;
    document(to, batch.outbox_gone.iter())?;
    document(to, batch.groups.iter())
}

fn mailbox_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let of = || batch.mailboxes.iter();
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.before))?;
    column(to, of(), |row| number(row.revision))?;
    column(to, of(), |row| number(row.epoch))?;
    column(to, of(), |row| number(row.free_since))?;
    column(to, of(), |row| row.running.as_deref())?;
    column(to, of(), |row| row.lease_until.map(number))?;
    column(to, of(), |row| number(row.at))?;
    column(to, of(), |row| row.record.as_deref())?;
    dispatch_columns(to, batch)?;
    queued_columns(to, batch)?;
    let of = || batch.ended_removed.iter();
    column(to, of(), |row| row.status)?;
    column(to, of(), |row| time(row.created_at))?;
    column(to, of(), |row| row.id.as_str())?;
    let of = || batch.ended.iter();
    column(to, of(), |row| row.status)?;
    column(to, of(), |row| time(row.created_at))?;
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| time(row.finished_at))?;
    let of = || batch.interrupts.iter();
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.epoch))?;
    column(to, of(), |row| row.at.map(number))?;
    column(to, of(), |row| row.holds.map(number))?;
    column(to, of(), |row| row.record.as_deref())?;
    add(to, batch.first_claim.map(number))
}

fn dispatch_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let of = || batch.dispatches.iter();
    column(to, of(), |row| row.body.id.as_str())?;
    column(to, of(), |row| row.state.status.name())?;
    column(to, of(), |row| number(row.state.epoch))?;
    column(to, of(), |row| row.state.encode())?;
    let of = || batch.new_dispatches.iter();
    column(to, of(), |row| row.body.id.as_str())?;
    column(to, of(), |row| row.body.thread.as_str())?;
    column(to, of(), |row| time(row.body.created_at))?;
    column(to, of(), |row| number(row.body.number))?;
    column(to, of(), |row| row.body.dedupe_key.as_ref().map(DedupeKey::as_str))?;
    column(to, of(), |row| row.state.status.name())?;
    column(to, of(), |row| number(row.state.epoch))?;
    column(to, of(), |row| row.body.encode())?;
    column(to, of(), |row| row.state.encode())?;
    column(to, batch.dispatches_gone.iter(), String::as_str)
}

fn queued_columns(to: &mut PgArguments, batch: &Batch) -> Result<()> {
    let of = || batch.queued_removed.iter();
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.at.epoch))?;
    column(to, of(), |row| i16::from(row.at.priority))?;
    column(to, of(), |row| number(row.at.number))?;
    let of = || batch.queued.iter();
    column(to, of(), |(_, row)| row.thread.as_str())?;
    column(to, of(), |(_, row)| number(row.at.epoch))?;
    column(to, of(), |(is_available, _)| *is_available)?;
    column(to, of(), |(_, row)| i16::from(row.at.priority))?;
    column(to, of(), |(_, row)| number(row.at.number))?;
    column(to, of(), |(_, row)| time(row.at.due))?;
    column(to, of(), |(_, row)| time(row.created_at))?;
    column(to, of(), |(_, row)| row.id.as_str())
}

pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn time(at: Timestamp) -> i64 {
    number(at.as_millis())
}

/// Adds the numbers of the threads to which rows belong. Adds a null if there are no rows, because each array takes the
/// server some time.
fn thread_numbers(to: &mut PgArguments, of: impl Iterator<Item = i32>) -> Result<()> {
    let thread_numbers: Vec<i32> = of.collect();
    add(to, (!thread_numbers.is_empty()).then_some(thread_numbers))
}

/// Adds rows as one JSON document, or a null if there are none.
fn document(to: &mut PgArguments, rows: impl Iterator<Item = impl Serialize>) -> Result<()> {
    let rows: Vec<_> = rows.collect();
    let failed = |_| Error::invalid("value", "it cannot be sent to the server");
    let text = (!rows.is_empty()).then(|| serde_json::to_string(&rows).map_err(failed)).transpose()?;
    add(to, text)
}

/// Adds a column of rows, or a null if there are none.
fn column<'q, R: 'q, T>(to: &mut PgArguments, rows: impl Iterator<Item = &'q R>, of: impl Fn(&'q R) -> T) -> Result<()>
where
    T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
{
    let values: Vec<T> = rows.map(of).collect();
    add(to, (!values.is_empty()).then_some(values))
}
