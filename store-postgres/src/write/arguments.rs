//! What is written, as the arguments of the statement.

use serde::Serialize;
use sqlx::{
    Encode, Postgres, Type,
    postgres::{PgArguments, PgHasArrayType},
};
use store_core::{DedupeKey, Error, Result, TenantId, Thread, ThreadId, Timestamp, codec::Codec};

use super::Batch;
use crate::{db::add, facts};

/// Batches that are written in one statement; the threads of each are numbered behind those of the batches before it.
pub(super) fn arguments(batches: &[&Batch], tenant: &TenantId) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, tenant.as_str())?;
    add(to, batches.iter().any(|batch| batch.has_parts()))?;
    add(to, batches.iter().any(|batch| batch.has_around()))?;
    thread_columns(to, batches)?;
    numbers(to, batches, |batch| &batch.entries, |row| row.thread)?;
    let of = || rows(batches, |batch| &batch.entries);
    column(to, of(), |row| row.seq)?;
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| row.parent)?;
    column(to, of(), |row| row.jump)?;
    column(to, of(), |row| row.side)?;
    column(to, of(), |row| row.node.as_str())?;
    column(to, of(), |row| row.body.as_str())?;
    numbers(to, batches, |batch| &batch.marks, |row| row.thread)?;
    let of = || rows(batches, |batch| &batch.marks);
    column(to, of(), |row| row.seq)?;
    column(to, of(), |row| row.children)?;
    column(to, of(), |row| row.record.as_str())?;
    numbers(to, batches, |batch| &batch.tips, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.tips);
    column(to, of(), |row| row.1)?;
    column(to, of(), |row| row.2)?;
    numbers(to, batches, |batch| &batch.snapshots, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.snapshots);
    column(to, of(), |row| row.1)?;
    column(to, of(), |row| row.2.as_deref().map(str::as_bytes))?;
    column(to, of(), |row| row.3)?;
    numbers(to, batches, |batch| &batch.keys, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.keys);
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_str())?;
    numbers(to, batches, |batch| &batch.clears, |row| *row)?;
    numbers(to, batches, |batch| &batch.values, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.values);
    column(to, of(), |row| row.1.as_bytes())?;
    column(to, of(), |row| row.2.as_deref())?;
    run_columns(to, batches)?;
    numbers(to, batches, |batch| &batch.inputs, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.inputs);
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2)?;
    column(to, of(), |row| row.3.as_deref())?;
    numbers(to, batches, |batch| &batch.decisions, |row| row.0)?;
    let of = || rows(batches, |batch| &batch.decisions);
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_bytes())?;
    column(to, of(), |row| row.3.as_str())?;
    event_columns(to, batches)?;
    outbox_columns(to, batches)?;
    mailbox_columns(to, batches)?;
    Ok(arguments)
}

fn thread_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    let of = || rows(batches, |batch| &batch.threads);
    let threads: Vec<Option<&Thread>> = of().map(|row| row.thread.as_ref().map(|stored| &stored.thread)).collect();
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| row.stamp)?;
    column(to, of(), |row| row.log)?;
    column(to, of(), |row| row.makes)?;
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

fn run_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    numbers(to, batches, |batch| &batch.runs, |row| row.thread)?;
    let of = || rows(batches, |batch| &batch.runs);
    column(to, of(), |row| row.run.id.as_str())?;
    column(to, of(), |row| row.is_new)?;
    column(to, of(), |row| time(row.run.created_at))?;
    column(to, of(), |row| row.run.status.phase().name())?;
    column(to, of(), |row| row.run.agent.as_str())?;
    column(to, of(), |row| row.run.parent_run.as_ref().map(store_core::RunId::as_str))?;
    column(to, of(), |row| row.run.encode())
}

fn event_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    let of = || rows(batches, |batch| &batch.scopes);
    column(to, of(), |row| facts::scope_key(&row.scope).0)?;
    column(to, of(), |row| facts::scope_key(&row.scope).1)?;
    column(to, of(), |row| number(row.before.count))?;
    column(to, of(), |row| number(row.before.floor))?;
    column(to, of(), |row| number(row.after.count))?;
    column(to, of(), |row| number(row.after.floor))?;
    column(to, of(), |row| row.after.encode())?;
    let of = || rows(batches, |batch| &batch.events);
    column(to, of(), |row| row.stored.event.id.as_str())?;
    column(to, of(), |row| row.stored.event.thread.as_ref().map(ThreadId::as_str))?;
    column(to, of(), |row| row.stored.thread_seq.map(number))?;
    column(to, of(), |row| row.stored.event.run.as_ref().map(store_core::RunId::as_str))?;
    column(to, of(), |row| row.stored.run_seq.map(number))?;
    column(to, of(), |row| row.key.as_ref().map(|(writer, _)| writer.as_str()))?;
    column(to, of(), |row| row.key.as_ref().map(|(_, key)| key.as_str()))?;
    column(to, of(), |row| row.stored.event.encode())?;
    let of = || rows(batches, |batch| &batch.event_keys);
    column(to, of(), |row| row.0.as_str())?;
    column(to, of(), |row| row.1.as_str())?;
    column(to, of(), |row| row.2.as_str())
}

fn outbox_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    document(to, rows(batches, |batch| &batch.outbox).filter(|row| row.before > 0))?;
    document(to, rows(batches, |batch| &batch.outbox).filter(|row| row.before == 0))?;
    document(to, rows(batches, |batch| &batch.outbox_ready))?;
    document(to, rows(batches, |batch| &batch.outbox_gone))?;
    document(to, rows(batches, |batch| &batch.groups))
}

fn mailbox_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    let of = || rows(batches, |batch| &batch.mailboxes);
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.before))?;
    column(to, of(), |row| number(row.revision))?;
    column(to, of(), |row| number(row.epoch))?;
    column(to, of(), |row| number(row.free_since))?;
    column(to, of(), |row| row.running.as_deref())?;
    column(to, of(), |row| row.lease_until.map(number))?;
    column(to, of(), |row| number(row.at))?;
    column(to, of(), |row| row.record.as_deref())?;
    dispatch_columns(to, batches)?;
    queued_columns(to, batches)?;
    let of = || rows(batches, |batch| &batch.unended);
    column(to, of(), |row| row.status)?;
    column(to, of(), |row| time(row.created_at))?;
    column(to, of(), |row| row.id.as_str())?;
    let of = || rows(batches, |batch| &batch.ended);
    column(to, of(), |row| row.status)?;
    column(to, of(), |row| time(row.created_at))?;
    column(to, of(), |row| row.id.as_str())?;
    column(to, of(), |row| time(row.finished_at))?;
    let of = || rows(batches, |batch| &batch.interrupts);
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.epoch))?;
    column(to, of(), |row| row.at.map(number))?;
    column(to, of(), |row| row.holds.map(number))?;
    column(to, of(), |row| row.record.as_deref())
}

fn dispatch_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    let of = || rows(batches, |batch| &batch.dispatches);
    column(to, of(), |row| row.body.id.as_str())?;
    column(to, of(), |row| row.state.status.name())?;
    column(to, of(), |row| number(row.state.epoch))?;
    column(to, of(), |row| row.state.encode())?;
    let of = || rows(batches, |batch| &batch.new_dispatches);
    column(to, of(), |row| row.body.id.as_str())?;
    column(to, of(), |row| row.body.thread.as_str())?;
    column(to, of(), |row| time(row.body.created_at))?;
    column(to, of(), |row| number(row.body.number))?;
    column(to, of(), |row| row.body.dedupe_key.as_ref().map(DedupeKey::as_str))?;
    column(to, of(), |row| row.state.status.name())?;
    column(to, of(), |row| number(row.state.epoch))?;
    column(to, of(), |row| row.body.encode())?;
    column(to, of(), |row| row.state.encode())?;
    column(to, rows(batches, |batch| &batch.dispatches_gone), String::as_str)
}

fn queued_columns(to: &mut PgArguments, batches: &[&Batch]) -> Result<()> {
    let of = || rows(batches, |batch| &batch.unqueued);
    column(to, of(), |row| row.thread.as_str())?;
    column(to, of(), |row| number(row.at.epoch))?;
    column(to, of(), |row| i16::from(row.at.priority))?;
    column(to, of(), |row| number(row.at.number))?;
    let of = || rows(batches, |batch| &batch.queued);
    column(to, of(), |(_, row)| row.thread.as_str())?;
    column(to, of(), |(_, row)| number(row.at.epoch))?;
    column(to, of(), |(is_available, _)| *is_available)?;
    column(to, of(), |(_, row)| i16::from(row.at.priority))?;
    column(to, of(), |(_, row)| number(row.at.number))?;
    column(to, of(), |(_, row)| time(row.at.due))?;
    column(to, of(), |(_, row)| time(row.created_at))?;
    column(to, of(), |(_, row)| row.id.as_str())
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn time(at: Timestamp) -> i64 {
    number(at.as_millis())
}

fn rows<'q, R: 'q>(batches: &'q [&Batch], of: impl Fn(&'q Batch) -> &'q Vec<R>) -> impl Iterator<Item = &'q R> {
    batches.iter().flat_map(move |batch| of(batch))
}

/// The numbers of the threads that rows belong to; none if there are none: the server looks at each array that there
/// is.
fn numbers<'q, R: 'q>(
    to: &mut PgArguments,
    batches: &'q [&Batch],
    rows: impl Fn(&'q Batch) -> &'q Vec<R>,
    of: impl Fn(&R) -> i32,
) -> Result<()> {
    let (mut numbers, mut before) = (Vec::new(), 0);
    for batch in batches {
        numbers.extend(rows(batch).iter().map(|row| before + of(row)));
        before += i32::try_from(batch.threads.len()).unwrap_or(i32::MAX);
    }
    add(to, (!numbers.is_empty()).then_some(numbers))
}

/// Rows as one JSON document; none if there are none.
fn document(to: &mut PgArguments, rows: impl Iterator<Item = impl Serialize>) -> Result<()> {
    let rows: Vec<_> = rows.collect();
    let failed = |_| Error::invalid("value", "it cannot be sent to the server");
    let text = (!rows.is_empty()).then(|| serde_json::to_string(&rows).map_err(failed)).transpose()?;
    add(to, text)
}

/// A column of rows; none if there are none.
fn column<'q, R: 'q, T>(to: &mut PgArguments, rows: impl Iterator<Item = &'q R>, of: impl Fn(&'q R) -> T) -> Result<()>
where
    T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType + 'q,
{
    let values: Vec<T> = rows.map(of).collect();
    add(to, (!values.is_empty()).then_some(values))
}
