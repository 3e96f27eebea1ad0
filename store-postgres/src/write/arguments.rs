//! What is written, as the arguments of the statement.

use serde::Serialize;
use sqlx::{
    Encode, Postgres, Type,
    postgres::{PgArguments, PgHasArrayType},
};
use store_core::{Error, Result, TenantId, ThreadId, Timestamp, codec::Codec};

use super::{Batch, rows::ThreadRow};
use crate::{db::add, facts};

impl Batch {
    pub(super) fn arguments(&self, tenant: &TenantId) -> Result<PgArguments> {
        let mut arguments = PgArguments::default();
        let to = &mut arguments;
        add(to, tenant.as_str())?;
        self.thread_columns(to)?;
        let of = &self.entries;
        column(to, of, |row| row.thread)?;
        column(to, of, |row| row.seq)?;
        column(to, of, |row| row.id.as_str())?;
        column(to, of, |row| row.parent)?;
        column(to, of, |row| row.jump)?;
        column(to, of, |row| row.side)?;
        column(to, of, |row| row.node.as_str())?;
        column(to, of, |row| row.body.as_str())?;
        let of = &self.marks;
        column(to, of, |row| row.thread)?;
        column(to, of, |row| row.seq)?;
        column(to, of, |row| row.children)?;
        column(to, of, |row| row.record.as_str())?;
        column(to, &self.tips, |row| row.0)?;
        column(to, &self.tips, |row| row.1)?;
        column(to, &self.tips, |row| row.2)?;
        column(to, &self.snapshots, |row| row.0)?;
        column(to, &self.snapshots, |row| row.1)?;
        column(to, &self.snapshots, |row| row.2.as_deref().map(str::as_bytes))?;
        column(to, &self.snapshots, |row| row.3)?;
        column(to, &self.keys, |row| row.0)?;
        column(to, &self.keys, |row| row.1.as_str())?;
        column(to, &self.keys, |row| row.2.as_str())?;
        column(to, &self.clears, |row| *row)?;
        column(to, &self.values, |row| row.0)?;
        column(to, &self.values, |row| row.1.as_bytes())?;
        column(to, &self.values, |row| row.2.as_deref())?;
        self.run_columns(to)?;
        column(to, &self.inputs, |row| row.0)?;
        column(to, &self.inputs, |row| row.1.as_str())?;
        column(to, &self.inputs, |row| row.2)?;
        column(to, &self.inputs, |row| row.3.as_deref())?;
        column(to, &self.decisions, |row| row.0)?;
        column(to, &self.decisions, |row| row.1.as_str())?;
        column(to, &self.decisions, |row| row.2.as_bytes())?;
        column(to, &self.decisions, |row| row.3.as_str())?;
        self.event_columns(to)?;
        self.outbox_columns(to)?;
        Ok(arguments)
    }

    fn event_columns(&self, to: &mut PgArguments) -> Result<()> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let of = &self.scopes;
        column(to, of, |row| facts::scope_key(&row.scope).0)?;
        column(to, of, |row| facts::scope_key(&row.scope).1)?;
        column(to, of, |row| number(row.before.count))?;
        column(to, of, |row| number(row.before.floor))?;
        column(to, of, |row| number(row.after.count))?;
        column(to, of, |row| number(row.after.floor))?;
        column(to, of, |row| row.after.encode())?;
        let of = &self.events;
        column(to, of, |row| row.stored.event.id.as_str())?;
        column(to, of, |row| row.stored.event.thread.as_ref().map(ThreadId::as_str))?;
        column(to, of, |row| row.stored.thread_seq.map(number))?;
        column(to, of, |row| row.stored.event.run.as_ref().map(store_core::RunId::as_str))?;
        column(to, of, |row| row.stored.run_seq.map(number))?;
        column(to, of, |row| row.key.as_ref().map(|(writer, _)| writer.as_str()))?;
        column(to, of, |row| row.key.as_ref().map(|(_, key)| key.as_str()))?;
        column(to, of, |row| row.stored.event.encode())?;
        column(to, &self.event_keys, |row| row.0.as_str())?;
        column(to, &self.event_keys, |row| row.1.as_str())?;
        column(to, &self.event_keys, |row| row.2.as_str())
    }

    fn outbox_columns(&self, to: &mut PgArguments) -> Result<()> {
        document(to, &self.outbox)?;
        document(to, &self.outbox_ready)?;
        document(to, &self.outbox_gone)?;
        document(to, &self.groups)?;
        document(to, &self.mailboxes)?;
        document(to, &self.guards)?;
        document(to, &self.dispatches)?;
        column(to, &self.dispatches_gone, |id| id.as_str())?;
        document(to, &self.interrupts)
    }

    fn thread_columns(&self, to: &mut PgArguments) -> Result<()> {
        let of = &self.threads;
        let time = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        let stored = |row: &ThreadRow| row.thread.as_ref().map(|stored| (stored.thread.clone(), stored.last_time));
        let stored: Vec<_> = of.iter().map(stored).collect();
        column(to, of, |row| row.id.as_str())?;
        column(to, of, |row| row.stamp)?;
        column(to, of, |row| row.log)?;
        column(to, of, |row| row.makes)?;
        column(to, of, |row| row.thread.as_ref()?.head_seq.and_then(|seq| i64::try_from(seq).ok()))?;
        column(to, &stored, |row| row.as_ref().map(|(thread, _)| time(thread.created_at)))?;
        column(to, &stored, |row| row.as_ref().map(|(thread, _)| time(thread.updated_at)))?;
        column(to, &stored, |row| row.as_ref().map(|(_, last)| time(*last)))?;
        column(to, &stored, |row| row.as_ref()?.0.resource_id.as_ref().map(ToString::to_string))?;
        column(to, &stored, |row| row.as_ref()?.0.parent_thread_id.as_ref().map(ToString::to_string))?;
        column(to, &stored, |row| row.as_ref().is_some_and(|(thread, _)| !thread.open_runs.is_empty()))?;
        column(to, of, |row| row.thread.as_ref().is_some_and(|stored| stored.queue.count > 0))?;
        column(to, of, |row| row.id_record.deleted_at.map(time))?;
        column(to, of, |row| row.thread.as_ref().map(Codec::encode))?;
        column(to, of, |row| row.id_record.encode())
    }

    fn run_columns(&self, to: &mut PgArguments) -> Result<()> {
        let of = &self.runs;
        column(to, of, |row| row.thread)?;
        column(to, of, |row| row.run.id.as_str())?;
        column(to, of, |row| row.is_new)?;
        column(to, of, |row| i64::try_from(row.run.created_at.as_millis()).unwrap_or(i64::MAX))?;
        column(to, of, |row| row.run.status.phase().name())?;
        column(to, of, |row| row.run.agent.as_str())?;
        column(to, of, |row| row.run.parent_run.as_ref().map(store_core::RunId::as_str))?;
        column(to, of, |row| row.run.encode())
    }
}

/// Rows as one JSON document; none if there are none.
fn document(to: &mut PgArguments, rows: &[impl Serialize]) -> Result<()> {
    let failed = |_| Error::invalid("value", "it cannot be sent to the server");
    let text = (!rows.is_empty()).then(|| serde_json::to_string(rows).map_err(failed)).transpose()?;
    add(to, text)
}

fn column<'q, R, T>(to: &mut PgArguments, rows: &'q [R], of: impl Fn(&'q R) -> T) -> Result<()>
where
    T: Encode<'q, Postgres> + Type<Postgres> + PgHasArrayType,
{
    add(to, rows.iter().map(of).collect::<Vec<T>>())
}
