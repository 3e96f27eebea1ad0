//! What is kept of a tenant, as rules ask for it: rows of one transaction.

mod read;
mod recent;
mod statements;
mod walk;
mod write;

use std::cell::Cell;

use rusqlite::{Connection, Error as SqlError, OptionalExtension, Params, Row, Statement};
use store_core::{Error, Result, TenantId, Timestamp, codec::Codec, mailbox::StoredMailbox};

pub(crate) use self::{
    read::ReadyPlace,
    recent::Recent,
    statements::{Kept, Statements},
    walk::Walk,
    write::number,
};
use crate::{
    error::{corrupt, sql},
    sql,
};

/// A tenant as a transaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) no: i64,
    pub(crate) incarnation: u64,
}

/// The rows of a tenant in one transaction.
pub(crate) struct Rows<'c> {
    conn: &'c Connection,
    statements: &'c dyn Statements,
    tenant: &'c TenantId,
    /// None if nothing of it is written yet.
    known: Cell<Option<Known>>,
    /// The incarnation that it gets with its first row.
    next_incarnation: Cell<u64>,
    /// Whether dispatches are read with their payloads. Most decisions need none.
    with_payloads: Cell<bool>,
    recent: &'c Recent,
    /// Up to when what is due and over was looked for in this transaction.
    looked: Option<&'c Cell<Option<(i64, Timestamp)>>>,
    /// From when on a claim may find something that was written.
    claimable_from: Cell<Option<Timestamp>>,
    has_written: Cell<bool>,
}

/// The parts that texts are of.
const BODY: &str = "dispatch";
const STATE: &str = "state of dispatch";
const PAYLOAD: &str = "payload of dispatch";
const MAILBOX: &str = "mailbox of thread";
const INTERRUPT: &str = "interrupt";

/// Most records are no longer than this, in bytes.
const USUAL: usize = 512;

/// The row of a thread.
#[derive(Debug, Clone)]
pub(super) struct OfThread {
    no: i64,
    record: StoredMailbox,
    /// Where it stands, as it was written.
    columns: PlaceColumns,
}

/// The columns of the places of a thread: priority, since when, due, lease.
type PlaceColumns = [Option<i64>; 4];

impl OfThread {
    /// When something becomes available next, as far as it was written.
    fn due(&self) -> Result<Option<Timestamp>> {
        let [.., due, _] = self.columns;
        maybe_time(due)
    }
}

impl<'c> Rows<'c> {
    pub(crate) fn new(conn: &'c Connection, tenant: &'c TenantId, known: Option<Known>, recent: &'c Recent) -> Self {
        Self {
            conn,
            statements: conn,
            tenant,
            known: Cell::new(known),
            next_incarnation: Cell::new(0),
            with_payloads: Cell::new(false),
            recent,
            looked: None,
            claimable_from: Cell::default(),
            has_written: Cell::default(),
        }
    }

    /// The same, for a tenant that is not there: with its first row it gets an incarnation above all before it, and
    /// above `now`, in case the file is older than it was (MB-25).
    pub(crate) fn for_writing(
        (conn, statements): (&'c Connection, &'c dyn Statements),
        tenant: &'c TenantId,
        (known, now): (Option<Known>, Timestamp),
        (recent, looked): (&'c Recent, &'c Cell<Option<(i64, Timestamp)>>),
    ) -> Result<Self> {
        let rows = Self { statements, looked: Some(looked), ..Self::new(conn, tenant, known, recent) };
        if known.is_none() {
            let next = rows.one(sql::NEXT_INCARNATION, [], |row| unsigned(get(row, 0)?))?.unwrap_or_default();
            rows.next_incarnation.set(next.max(now.as_millis()));
        }
        Ok(rows)
    }

    /// Whether what is due and over was looked for before, in this transaction and at the same time, and there was
    /// nothing: there is nothing yet.
    pub(crate) fn is_nothing_due(&self, now: Timestamp) -> bool {
        self.looked.is_some_and(|looked| looked.get() == Some((self.no(), now)))
    }

    /// Notes that nothing is due or over.
    pub(crate) fn nothing_is_due(&self, now: Timestamp) {
        if let Some(looked) = self.looked {
            looked.set(Some((self.no(), now)));
        }
    }

    /// Reads dispatches with their payloads from now on.
    pub(crate) fn read_payloads(&self) {
        self.with_payloads.set(true);
    }

    pub(crate) const fn conn(&self) -> &Connection {
        self.conn
    }

    pub(crate) const fn known(&self) -> Option<Known> {
        self.known.get()
    }

    pub(crate) const fn has_written(&self) -> bool {
        self.has_written.get()
    }

    pub(crate) const fn claimable_from(&self) -> Option<Timestamp> {
        self.claimable_from.get()
    }

    /// The number that the tenant's rows are found by; none is ever -1.
    fn no(&self) -> i64 {
        self.known.get().map_or(-1, |known| known.no)
    }

    /// What a text of the tenant is part of.
    fn whose<'a>(&self, part: &'static str, name: &'a str) -> Whose<'a> {
        Whose { part, tenant: self.no(), name }
    }

    fn one<T>(
        &self,
        text: &'static str,
        with: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.with(text, |statement| statement.query_row(with, |row| Ok(read(row))).optional())?.transpose()
    }

    fn all<T>(&self, text: &'static str, with: impl Params, read: impl FnMut(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
        self.with(text, |statement| Ok(all_of(statement, with, read)))?
    }

    fn run(&self, text: &'static str, with: impl Params) -> Result<usize> {
        self.with(text, |statement| statement.execute(with))
    }

    fn with<T>(
        &self,
        text: &'static str,
        work: impl FnOnce(&mut Statement<'_>) -> std::result::Result<T, SqlError>,
    ) -> Result<T> {
        let (mut work, mut done) = (Some(work), None);
        let mut once = |statement: &mut Statement<'_>| {
            done = work.take().map(|work| work(statement)).transpose()?;
            Ok(())
        };
        self.statements.with(text, &mut once).map_err(sql)?;
        done.ok_or_else(|| Error::unavailable("a statement did not run"))
    }
}

/// The first row of a statement.
pub(crate) fn one<T>(
    conn: &Connection,
    text: &str,
    with: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(text).map_err(sql)?;
    statement.query_row(with, |row| Ok(read(row))).optional().map_err(sql)?.transpose()
}

/// All rows of a statement.
pub(crate) fn all<T>(
    conn: &Connection,
    text: &str,
    with: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    all_of(&mut *conn.prepare_cached(text).map_err(sql)?, with, read)
}

fn all_of<T>(
    statement: &mut Statement<'_>,
    with: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut rows = statement.query(with).map_err(sql)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(sql)? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// A number as SQLite keeps it.
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

/// A column.
pub(crate) fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, at: usize) -> Result<T> {
    row.get(at).map_err(sql)
}

/// What a text is part of: a checksum is about both, so that a text at the wrong place is no better than a changed one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose<'a> {
    part: &'static str,
    tenant: i64,
    name: &'a str,
}

impl Whose<'_> {
    fn checksum(self, text: &str) -> i64 {
        let parts = [&self.tenant.to_be_bytes()[..], self.part.as_bytes(), &[0xff], self.name.as_bytes(), &[0xff]];
        let before = parts.into_iter().fold(0, crc32c::crc32c_append);
        i64::from(crc32c::crc32c_append(before, text.as_bytes()))
    }

    fn damaged(self) -> Error {
        corrupt(format_args!("{} `{}`", self.part, self.name))
    }

    /// What is written of a record, with its checksum.
    fn encode(self, record: &impl Codec) -> (String, i64) {
        let mut text = String::with_capacity(USUAL);
        record.write(&mut text);
        let crc = self.checksum(&text);
        (text, crc)
    }

    /// A record that was written with its checksum (SQ-6).
    fn decode<T: Codec>(self, text: &str, crc: i64) -> Result<T> {
        if self.checksum(text) != crc {
            return Err(self.damaged());
        }
        T::read(text).map_err(|e| self.damaged().with_source(e))
    }
}
