//! The stored data of a tenant, as one transaction sees it. The rules of core read it as a `MailboxView`.

mod dump;
mod read;
mod restore;
mod row_cache;
mod statements;
mod walk;
mod write;

use std::cell::Cell;

use rusqlite::{Connection, Error as SqlError, OptionalExtension, Params, Row, Statement};
use store_core::{Error, Result, TenantId, Timestamp, codec::Codec, mailbox::StoredMailboxThread};

pub(crate) use self::{
    read::ReadyPosition,
    row_cache::RowCache,
    statements::{StatementCache, Statements},
    walk::DispatchWalk,
    write::status_number,
};
use crate::{
    error::{corrupt, sql_error},
    sql,
};

/// A tenant as a transaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TenantRow {
    pub(crate) row_number: i64,
    pub(crate) incarnation: u64,
}

/// The rows of a tenant in one transaction.
pub(crate) struct Rows<'c> {
    conn: &'c Connection,
    statements: &'c dyn Statements,
    tenant: &'c TenantId,
    /// `None` if nothing was written for the tenant yet.
    tenant_row: Cell<Option<TenantRow>>,
    /// The incarnation that the tenant gets with its first row.
    next_incarnation: Cell<u64>,
    /// Whether dispatches are read with their payloads. Most decisions do not need them.
    with_payloads: Cell<bool>,
    row_cache: &'c RowCache,
    /// The tenant and the time for which this transaction found no due dispatch and no expired lease.
    nothing_due_at: Option<&'c Cell<Option<(i64, Timestamp)>>>,
    /// The earliest time at which a claim may find something that these rows wrote.
    claimable_from: Cell<Option<Timestamp>>,
    has_written: Cell<bool>,
}

/// The kinds of stored texts. The kind is part of the checksum of a text, and of the error if the text is damaged.
const BODY: &str = "dispatch";
const STATE: &str = "state of dispatch";
const PAYLOAD: &str = "payload of dispatch";
const MAILBOX: &str = "mailbox of thread";
const INTERRUPT: &str = "interrupt";

/// A length that most encoded records do not exceed, in bytes.
const USUAL_RECORD_BYTES: usize = 512;

/// The row of a thread.
#[derive(Debug, Clone)]
pub(super) struct MailboxRow {
    row_number: i64,
    record: StoredMailboxThread,
    /// The position columns as they were written.
    columns: PositionColumns,
}

/// The position columns of a thread: priority, ready since, due, lease.
type PositionColumns = [Option<i64>; 4];

impl MailboxRow {
    /// Returns the next time at which a dispatch becomes due, according to the row.
    fn due(&self) -> Result<Option<Timestamp>> {
        let [.., due, _] = self.columns;
        maybe_time(due)
    }
}

impl<'c> Rows<'c> {
    pub(crate) fn new(
        conn: &'c Connection,
        tenant: &'c TenantId,
        tenant_row: Option<TenantRow>,
        row_cache: &'c RowCache,
    ) -> Self {
        Self {
            conn,
            statements: conn,
            tenant,
            tenant_row: Cell::new(tenant_row),
            next_incarnation: Cell::new(0),
            with_payloads: Cell::new(false),
            row_cache,
            nothing_due_at: None,
            claimable_from: Cell::default(),
            has_written: Cell::default(),
        }
    }

    /// Returns rows for a transaction that writes. A tenant that does not exist yet gets its incarnation with its first
    /// row. This incarnation is above all earlier ones, and at least `now` in case an older copy of the file was
    /// restored (MB-25).
    pub(crate) fn for_writing(
        (conn, statements): (&'c Connection, &'c dyn Statements),
        tenant: &'c TenantId,
        (tenant_row, now): (Option<TenantRow>, Timestamp),
        (row_cache, nothing_due_at): (&'c RowCache, &'c Cell<Option<(i64, Timestamp)>>),
    ) -> Result<Self> {
        let rows =
            Self { statements, nothing_due_at: Some(nothing_due_at), ..Self::new(conn, tenant, tenant_row, row_cache) };
        if tenant_row.is_none() {
            let next_incarnation =
                rows.query_one(sql::NEXT_INCARNATION, [], |row| unsigned(get(row, 0)?))?.unwrap_or_default();
            rows.next_incarnation.set(next_incarnation.max(now.as_millis()));
        }
        Ok(rows)
    }

    /// Whether this transaction has already looked for due dispatches and expired leases at this time and found none.
    /// If so, there are still none.
    pub(crate) fn has_found_nothing_due(&self, now: Timestamp) -> bool {
        self.nothing_due_at.is_some_and(|nothing_due_at| nothing_due_at.get() == Some((self.tenant_row_number(), now)))
    }

    /// Notes that at this time no dispatch is due and no lease has expired.
    pub(crate) fn remember_nothing_due(&self, now: Timestamp) {
        if let Some(nothing_due_at) = self.nothing_due_at {
            nothing_due_at.set(Some((self.tenant_row_number(), now)));
        }
    }

    /// From now on, dispatches are read with their payloads.
    pub(crate) fn set_payloads_included(&self) {
        self.with_payloads.set(true);
    }

    pub(crate) const fn conn(&self) -> &Connection {
        self.conn
    }

    pub(crate) const fn tenant_row(&self) -> Option<TenantRow> {
        self.tenant_row.get()
    }

    pub(crate) const fn has_written(&self) -> bool {
        self.has_written.get()
    }

    pub(crate) const fn claimable_from(&self) -> Option<Timestamp> {
        self.claimable_from.get()
    }

    /// Returns the number of the row of the tenant. All other rows of the tenant contain this number. If the tenant
    /// does not exist, returns -1, which is not the number of any row.
    fn tenant_row_number(&self) -> i64 {
        self.tenant_row.get().map_or(-1, |tenant_row| tenant_row.row_number)
    }

    /// Returns the name of a record of the tenant.
    fn record_name<'a>(&self, kind: &'static str, name: &'a str) -> RecordName<'a> {
        RecordName { kind, tenant_number: self.tenant_row_number(), name }
    }

    fn query_one<T>(
        &self,
        text: &'static str,
        parameters: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.with_statement(text, |statement| statement.query_row(parameters, |row| Ok(read(row))).optional())?
            .transpose()
    }

    fn query_all<T>(
        &self,
        text: &'static str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.with_statement(text, |statement| Ok(collect_rows(statement, parameters, read)))?
    }

    fn execute(&self, text: &'static str, parameters: impl Params) -> Result<usize> {
        self.with_statement(text, |statement| statement.execute(parameters))
    }

    fn with_statement<T>(
        &self,
        text: &'static str,
        work: impl FnOnce(&mut Statement<'_>) -> std::result::Result<T, SqlError>,
    ) -> Result<T> {
        let (mut work, mut done) = (Some(work), None);
        let mut once = |statement: &mut Statement<'_>| {
            done = work.take().map(|work| work(statement)).transpose()?;
            Ok(())
        };
        self.statements.with_statement(text, &mut once).map_err(sql_error)?;
        done.ok_or_else(|| Error::unavailable("a statement did not run"))
    }
}

/// Returns the first row of a statement.
pub(crate) fn query_one<T>(
    conn: &Connection,
    text: &str,
    parameters: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(text).map_err(sql_error)?;
    statement.query_row(parameters, |row| Ok(read(row))).optional().map_err(sql_error)?.transpose()
}

/// Returns all rows of a statement.
pub(crate) fn query_all<T>(
    conn: &Connection,
    text: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    collect_rows(&mut *conn.prepare_cached(text).map_err(sql_error)?, parameters, read)
}

fn collect_rows<T>(
    statement: &mut Statement<'_>,
    parameters: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = statement.query(parameters).map_err(sql_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(sql_error)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Converts a number to the type that SQLite stores.
pub(crate) fn signed(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|e| Error::invalid("number", "it is too large").with_source(e))
}

pub(crate) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|e| corrupt("a number is negative").with_source(e))
}

pub(crate) fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(unsigned(millis)?).map_err(|e| corrupt("a time is out of range").with_source(e))
}

pub(super) fn maybe_time(millis: Option<i64>) -> Result<Option<Timestamp>> {
    millis.map(time).transpose()
}

/// Reads a column.
pub(crate) fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, at: usize) -> Result<T> {
    row.get(at).map_err(sql_error)
}

/// The name of a record. It encodes and decodes the stored text of the record, because the checksum of a text also
/// covers the name. So a text that was moved to another record is detected in the same way as a changed text.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordName<'a> {
    kind: &'static str,
    tenant_number: i64,
    name: &'a str,
}

impl RecordName<'_> {
    fn checksum(self, text: &str) -> i64 {
        let parts =
            [&self.tenant_number.to_be_bytes()[..], self.kind.as_bytes(), &[0xff], self.name.as_bytes(), &[0xff]];
        let name_checksum = parts.into_iter().fold(0, crc32c::crc32c_append);
        i64::from(crc32c::crc32c_append(name_checksum, text.as_bytes()))
    }

    fn damaged_error(self) -> Error {
        corrupt(format_args!("{} `{}`", self.kind, self.name))
    }

    /// Encodes a record, and returns it with its checksum.
    fn encode(self, record: &impl Codec) -> (String, i64) {
        let mut text = String::with_capacity(USUAL_RECORD_BYTES);
        record.write(&mut text);
        let crc = self.checksum(&text);
        (text, crc)
    }

    /// Decodes a record that was written with its checksum (SQ-6).
    fn decode<T: Codec>(self, text: &str, crc: i64) -> Result<T> {
        if self.checksum(text) != crc {
            return Err(self.damaged_error());
        }
        T::read(text).map_err(|e| self.damaged_error().with_source(e))
    }
}
