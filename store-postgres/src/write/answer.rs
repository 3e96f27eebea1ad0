//! The answers of writes.

use std::{collections::BTreeMap, time::Duration};

use sqlx::{Row as _, postgres::PgRow};
use store_core::{CommitKey, Error, Result, Scope, commit::CommitKeyRecord, event::ScopeState};

use super::Batch;
use crate::{
    cache::{self, CachedThreadRow},
    db::{Connection, unsigned},
    error::corrupt,
};

/// A thread that was written: the number of the transaction that wrote it (its new stamp), and the number of its log.
pub(crate) type WrittenThread = (i64, Option<i64>);

/// The result of writing a batch.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The batch was written.
    Done(Vec<WrittenThread>),
    /// Not written: other calls have changed threads of the batch since the decision. Contains the current rows and
    /// commit keys.
    Stale(Vec<CachedThreadRow>, Vec<(CommitKey, Option<CommitKeyRecord>)>),
    /// Not written: other calls have appended to scopes of the batch since the decision. Contains their current states.
    StaleScopes(Vec<(Scope, ScopeState)>),
    /// Not written: other calls have changed rows of the outbox or mailboxes since the decision.
    OtherRowsChanged,
    /// Not written: the time of the decision differed too much from that of the server.
    ClockDiffers,
}

/// A row of the answer to a write.
pub(super) struct WriteAnswer {
    pub(super) status: String,
    /// The number of the thread, scope or batch that the row is about.
    pub(super) number: i32,
    pub(super) clock: Duration,
    pub(super) stamp: i64,
    pub(super) log: Option<i64>,
    record: Option<String>,
    /// The id record of a thread, or a commit key. The status determines which.
    id_record_or_key: Option<String>,
}

impl WriteAnswer {
    pub(super) fn of(row: &PgRow) -> Result<Self> {
        let read = || -> Result<_, sqlx::Error> {
            let (status, number, clock) = (row.try_get(0)?, row.try_get(1)?, row.try_get::<i64, _>(2)?);
            let stamp = row.try_get::<Option<i64>, _>(3)?.unwrap_or_default();
            let answer = (row.try_get(4)?, row.try_get(5)?, row.try_get(6)?);
            Ok((status, number, clock, stamp, answer))
        };
        let answer = read().map_err(|e| corrupt("an answer of the server").with_source(e))?;
        let (status, number, clock, stamp, (log, record, id_record_or_key)) = answer;
        Ok(Self {
            status,
            number,
            clock: Duration::from_millis(unsigned(clock)?),
            stamp,
            log,
            record,
            id_record_or_key,
        })
    }
}

/// Returns the result of a write that contained only this batch.
pub(super) fn write_result(connection: &Connection<'_>, batch: &Batch, rows: &[PgRow]) -> Result<WriteResult> {
    let (mut done, mut stale, mut scopes) = (Vec::new(), Vec::new(), Vec::new());
    let keys = batch.keys.iter().map(|row| Ok((row.key.parse()?, None)));
    let mut keys = keys.collect::<Result<BTreeMap<_, _>>>()?;
    for row in rows {
        let WriteAnswer { status, number, clock, stamp, log, record, id_record_or_key } = WriteAnswer::of(row)?;
        connection.set_server_time(clock);
        match status.as_str() {
            "time" => return Ok(WriteResult::ClockDiffers),
            "closed" => return Err(Error::closed()),
            "outbox" | "mailbox" => return Ok(WriteResult::OtherRowsChanged),
            "stale" => {
                let id_record = id_record_or_key.as_deref();
                stale.push(cache::decode_thread_row(stamp, log, record.as_deref(), id_record)?);
            }
            "key" => {
                let record = cache::decode::<CommitKeyRecord>("commit key", &record.unwrap_or_default())?;
                keys.insert(id_record_or_key.unwrap_or_default().parse()?, Some(record));
            }
            "scope" => {
                let row = usize::try_from(number - 1).ok().and_then(|at| batch.scopes.get(at));
                let scope = row.ok_or_else(|| corrupt("an answer of the server"))?.scope.clone();
                let state = record.map(|text| cache::decode::<ScopeState>("scope", &text)).transpose()?;
                scopes.push((scope, state.unwrap_or_default()));
            }
            "documents" => batch.documents.revision.set(unsigned(stamp)?),
            _ => done.push((stamp, log)),
        }
    }
    if !scopes.is_empty() {
        return Ok(WriteResult::StaleScopes(scopes));
    }
    Ok(if stale.is_empty() { WriteResult::Done(done) } else { WriteResult::Stale(stale, keys.into_iter().collect()) })
}
