//! The machine's own limit: one thread that writes a bare table with one index, as many rows in a transaction as there
//! are callers, under the settings of the mailbox.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::{path::Path, time::Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::Options;

/// How many bytes of text the mailbox has for each dispatch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    /// From its enqueue on: dispatch, payload and thread.
    enqueued: usize,
    /// From its claim on.
    state: usize,
}

impl Bytes {
    /// Those of a mailbox whose dispatches were all acknowledged.
    pub(crate) fn of(file: &Path) -> Result<Self> {
        let conn = Connection::open(file)?;
        let mean = |text| anyhow::Ok(usize::try_from(conn.query_row(text, [], |row| row.get::<_, u32>(0))?)?);
        let body = mean("SELECT CAST(avg(length(body)) AS INTEGER) FROM dispatches")?;
        let payload = mean("SELECT CAST(avg(length(payload)) AS INTEGER) FROM payloads")?;
        let thread = mean("SELECT CAST(avg(length(record)) AS INTEGER) FROM mailboxes")?;
        let state = mean("SELECT CAST(avg(length(state)) AS INTEGER) FROM dispatches")?;
        Ok(Self { enqueued: body + payload + thread, state })
    }
}

const TABLE: &str = "
    CREATE TABLE jobs (no INTEGER PRIMARY KEY, status INTEGER NOT NULL, body TEXT NOT NULL, state TEXT);
    CREATE INDEX queued ON jobs (status, no);";
const ENQUEUE: &str = "INSERT INTO jobs (status, body) VALUES (0, ?1)";
const CLAIM: &str = "UPDATE jobs SET status = 1, state = ?1
    WHERE no = (SELECT no FROM jobs INDEXED BY queued WHERE status = 0 ORDER BY no LIMIT 1) RETURNING body";
const ACKNOWLEDGE: &str = "UPDATE jobs SET status = 2, state = ?1 WHERE no = ?2";

/// How many rows a second are written: those of enqueues, claims, acknowledgements.
pub(crate) fn measure(options: &Options, file: &Path, bytes: Bytes) -> Result<[f64; 3]> {
    let conn = Connection::open(file)?;
    // The mailbox, too, brings its log into the database when it has 4,096 pages.
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA mmap_size = 0;
         PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096;",
    )?;
    conn.execute_batch(TABLE)?;
    let (body, state) = ("x".repeat(bytes.enqueued), "x".repeat(bytes.state));
    let rate = |mut write: Box<dyn FnMut(u32) -> rusqlite::Result<()> + '_>| -> Result<f64> {
        let start = Instant::now();
        for first in (0..options.dispatches).step_by(options.callers) {
            conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            for at in first..options.dispatches.min(first + options.callers) {
                write(u32::try_from(at)?)?;
            }
            conn.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(f64::from(u32::try_from(options.dispatches)?) / start.elapsed().as_secs_f64())
    };
    Ok([
        rate(Box::new(|_| conn.prepare_cached(ENQUEUE)?.execute([&body]).map(drop)))?,
        rate(Box::new(|_| conn.prepare_cached(CLAIM)?.query_row([&state], |row| row.get::<_, String>(0)).map(drop)))?,
        rate(Box::new(|at| conn.prepare_cached(ACKNOWLEDGE)?.execute((&state, at + 1)).map(drop)))?,
    ])
}
