//! Measures two limits of the machine with SQLite alone, without the code of the mailbox:
//!
//! - SQLite writes the same rows to the same tables as the mailbox. This shows which part of the mailbox's time is
//!   spent in SQLite.
//! - SQLite writes one row for each dispatch, to a table with one index. The row is as long as the rows that the
//!   mailbox writes for the dispatch, together.
//!
//! Both measurements use the SQLite settings of the mailbox. One OS thread writes. Each of its transactions writes as
//! many dispatches as there are callers.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rusqlite::Connection;
use store_core::{IdSource, UuidSource};

use crate::Options;

/// Texts as long as the average texts that a mailbox stores for an acknowledged dispatch, and the schema of the
/// mailbox.
#[derive(Debug, Clone)]
pub(crate) struct MailboxTexts {
    body: String,
    payload: String,
    mailbox_record: String,
    state: String,
    /// The statements that create the tables and indexes of the mailbox.
    schema: Vec<String>,
}

impl MailboxTexts {
    /// Reads the lengths and the schema from the mailbox in `file`.
    pub(crate) fn read_from(file: &Path) -> Result<Self> {
        let conn = Connection::open(file)?;
        let text = |column: &str, table: &str| {
            let length = format!("SELECT CAST(avg(length({column})) AS INTEGER) FROM {table}");
            let length: u32 = conn.query_row(&length, [], |row| row.get(0))?;
            anyhow::Ok("x".repeat(usize::try_from(length)?))
        };
        let mut schema =
            conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'")?;
        Ok(Self {
            body: text("body", "dispatches")?,
            payload: text("payload", "payloads")?,
            mailbox_record: text("record", "mailboxes")?,
            state: text("state", "dispatches")?,
            schema: schema.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?,
        })
    }
}

fn open(file: &Path) -> Result<Connection> {
    let conn = Connection::open(file)?;
    conn.set_prepared_statement_cache_capacity(64);
    // As in the mailbox, the write-ahead log is moved into the database when it has 4,096 pages.
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA mmap_size = 0;
         PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096;",
    )?;
    Ok(conn)
}

/// Enqueues, claims or acknowledges the dispatch with the given number.
type StepFn<'a> = Box<dyn FnMut(u32) -> Result<()> + 'a>;

/// Returns how long each step takes for all dispatches. Each transaction does a step for as many dispatches as there
/// are callers.
fn measure(options: &Options, conn: &Connection, mut steps: [StepFn<'_>; 3]) -> Result<[Duration; 3]> {
    let mut times = [Duration::ZERO; 3];
    for wave in options.waves() {
        for (time, step) in times.iter_mut().zip(&mut steps) {
            let start = Instant::now();
            for first in wave.clone().step_by(options.callers) {
                conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
                for number in first..wave.end.min(first + options.callers) {
                    step(u32::try_from(number)?)?;
                }
                conn.prepare_cached("COMMIT")?.execute([])?;
            }
            *time += start.elapsed();
        }
    }
    Ok(times)
}

// The statements of `measure_one_row`.
const CREATE_JOBS: &str = "
    CREATE TABLE jobs (no INTEGER PRIMARY KEY, status INTEGER NOT NULL, body TEXT NOT NULL, state TEXT);
    CREATE INDEX queued ON jobs (status, no);";
const ENQUEUE: &str = "INSERT INTO jobs (status, body) VALUES (0, ?1)";
const CLAIM: &str = "UPDATE jobs SET status = 1, state = ?1
    WHERE no = (SELECT no FROM jobs INDEXED BY queued WHERE status = 0 ORDER BY no LIMIT 1) RETURNING body";
const ACKNOWLEDGE: &str = "UPDATE jobs SET status = 2, state = ?1 WHERE no = ?2";

/// Measures writes of one row for each dispatch. The row is as long as the rows of the mailbox together. Returns the
/// times of the enqueues, claims and acknowledgements.
pub(crate) fn measure_one_row(options: &Options, file: &Path, texts: &MailboxTexts) -> Result<[Duration; 3]> {
    let conn = open(file)?;
    conn.execute_batch(CREATE_JOBS)?;
    let body = [texts.body.as_str(), &texts.payload, &texts.mailbox_record].concat();
    let state = &texts.state;
    let enqueue = |_| {
        conn.prepare_cached(ENQUEUE)?.execute([&body])?;
        Ok(())
    };
    let claim = |_| {
        let _body: String = conn.prepare_cached(CLAIM)?.query_row([state], |row| row.get(0))?;
        Ok(())
    };
    let acknowledge = |number| {
        conn.prepare_cached(ACKNOWLEDGE)?.execute((state, number + 1))?;
        Ok(())
    };
    measure(options, &conn, [Box::new(enqueue), Box::new(claim), Box::new(acknowledge)])
}

// The statements of `measure_same_rows`. The numbers 7 and 8 take the place of checksums.
const ADD_MAILBOX: &str =
    "INSERT INTO mailboxes (tenant, thread, record, crc, priority, since) VALUES (1, ?1, ?2, 7, 100, ?3)";
const ADD_PAYLOAD: &str = "INSERT INTO payloads (payload, crc) VALUES (?1, 7)";
const ADD_DISPATCH: &str = "INSERT INTO dispatches
    (tenant, id, mailbox, created, status, epoch, available, priority, number, due, payload, body, body_crc)
    VALUES (1, ?1, ?2, ?3, 0, 0, 1, 100, 1, ?3, ?4, ?5, 7)";
const FIND_READY_THREAD: &str = "SELECT thread FROM mailboxes INDEXED BY ready
    WHERE tenant = 1 AND priority IS NOT NULL ORDER BY priority, since, thread LIMIT 1";
const LOAD_MAILBOX: &str =
    "SELECT no, record FROM mailboxes INDEXED BY mailbox_of_thread WHERE tenant = 1 AND thread = ?1";
const FIND_FIRST_DISPATCH: &str = "SELECT id, body, payloads.payload
    FROM dispatches INDEXED BY queue JOIN payloads ON payloads.no = dispatches.payload
    WHERE mailbox = ?1 AND epoch = 0 AND available = 1 ORDER BY priority, number LIMIT 1";
const CLAIM_DISPATCH: &str = "UPDATE dispatches SET status = 1, available = NULL, due = NULL, state = ?2, state_crc = 7
    WHERE tenant = 1 AND id = ?1";
const CLAIM_MAILBOX: &str = "UPDATE mailboxes SET record = ?2, priority = NULL, since = NULL, lease = ?3 WHERE no = ?1";
const LOAD_CLAIMED_DISPATCH: &str =
    "SELECT state, record FROM dispatches JOIN mailboxes ON mailboxes.no = dispatches.mailbox
    WHERE dispatches.tenant = 1 AND id = ?1";
const ACKNOWLEDGE_DISPATCH: &str = "UPDATE dispatches SET status = 2, ended = ?3, state = ?2, state_crc = 8
    WHERE tenant = 1 AND id = ?1";
const FREE_MAILBOX: &str = "UPDATE mailboxes SET record = ?2, lease = NULL WHERE no = ?1";

/// Measures writes of the same rows to the same tables as those of the mailbox, without its rules, checksums or
/// callers. Returns the times of the enqueues, claims and acknowledgements.
pub(crate) fn measure_same_rows(options: &Options, file: &Path, texts: &MailboxTexts) -> Result<[Duration; 3]> {
    let conn = open(file)?;
    for text in &texts.schema {
        conn.execute_batch(text)?;
    }
    let MailboxTexts { body, payload, mailbox_record, state, .. } = texts;
    let claimed_dispatches: RefCell<Vec<(i64, String)>> = RefCell::default();
    let enqueue = |number| {
        let name = format!("thread-{number}");
        // An enqueue of the mailbox reads the record of the thread first.
        anyhow::ensure!(!conn.prepare_cached(LOAD_MAILBOX)?.exists([&name])?, "the thread exists already");
        conn.prepare_cached(ADD_MAILBOX)?.execute((name, mailbox_record, number))?;
        let mailbox_row = conn.last_insert_rowid();
        conn.prepare_cached(ADD_PAYLOAD)?.execute([payload])?;
        let values = (UuidSource.next_id(), mailbox_row, number, conn.last_insert_rowid(), body);
        conn.prepare_cached(ADD_DISPATCH)?.execute(values)?;
        Ok(())
    };
    let claim = |number| {
        let name: String = conn.prepare_cached(FIND_READY_THREAD)?.query_row([], |row| row.get(0))?;
        let read_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (mailbox_row, _record): (i64, String) = conn.prepare_cached(LOAD_MAILBOX)?.query_row([name], read_row)?;
        let read_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (id, _body, _payload): (String, String, String) =
            conn.prepare_cached(FIND_FIRST_DISPATCH)?.query_row([mailbox_row], read_row)?;
        conn.prepare_cached(CLAIM_DISPATCH)?.execute((&id, state))?;
        conn.prepare_cached(CLAIM_MAILBOX)?.execute((mailbox_row, mailbox_record, number))?;
        claimed_dispatches.borrow_mut().push((mailbox_row, id));
        Ok(())
    };
    let acknowledge = |number| {
        let (mailbox_row, id) =
            claimed_dispatches.borrow().get(usize::try_from(number)?).cloned().context("no dispatch is claimed")?;
        let read_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (_state, _record): (String, String) =
            conn.prepare_cached(LOAD_CLAIMED_DISPATCH)?.query_row([&id], read_row)?;
        conn.prepare_cached(ACKNOWLEDGE_DISPATCH)?.execute((&id, state, number))?;
        conn.prepare_cached(FREE_MAILBOX)?.execute((mailbox_row, mailbox_record))?;
        Ok(())
    };
    measure(options, &conn, [Box::new(enqueue), Box::new(claim), Box::new(acknowledge)])
}
