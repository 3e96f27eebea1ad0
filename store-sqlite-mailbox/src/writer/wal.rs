//! Keeps the write-ahead log of the database (the WAL) small by moving its content into the database from time to time.

use std::{cell::Cell, sync::Arc};

use rusqlite::{Connection, Error as SqlError, ErrorCode, hooks::Wal};
use store_core::{Error, Result};

use crate::{error, schema, tenant::StoreContext};

/// The number of pages of 4 KiB after which the WAL is moved into the database: 16 MiB.
const CHECKPOINT_PAGES: i32 = 4_096;
/// The number of pages by which the WAL grows before the next checkpoint is tried, if a read prevented the last one.
const RETRY_PAGES: i32 = 1_024;
/// The number of pages of 4 KiB after which the WAL is restarted: 24 MiB. No new read begins until the running reads
/// have ended, so the WAL grows only by what is written in the meantime (SQ-5).
const RESTART_PAGES: i32 = 6_144;
/// The size in bytes to which SQLite truncates a longer WAL file.
pub(crate) const TRUNCATED_WAL_BYTES: i64 = 48 << 20;

thread_local! {
    /// The number of pages in the WAL after the last commit of this thread's connection.
    static WAL_PAGES: Cell<i32> = const { Cell::new(0) };
}

/// The write-ahead log of the database.
pub(super) struct WriteAheadLog {
    store_context: Arc<StoreContext>,
    /// The number of pages at which the next checkpoint is tried.
    next_checkpoint_pages: i32,
}

/// The result of a checkpoint.
struct CheckpointResult {
    is_busy: bool,
}

impl WriteAheadLog {
    pub(super) fn new(conn: &Connection, store_context: Arc<StoreContext>) -> Self {
        conn.wal_hook(Some(|_: &Wal, pages| {
            WAL_PAGES.set(pages);
            Ok(())
        }));
        Self { store_context, next_checkpoint_pages: CHECKPOINT_PAGES }
    }

    /// Moves the WAL into the database if the WAL is long. An error means that the disk failed.
    pub(super) fn checkpoint_if_long(&mut self, conn: &Connection) -> Result<()> {
        let pages = WAL_PAGES.get();
        if pages < self.next_checkpoint_pages {
            // The WAL was restarted.
            if pages < CHECKPOINT_PAGES {
                self.next_checkpoint_pages = CHECKPOINT_PAGES;
                self.store_context.read_gate.open();
            }
            return Ok(());
        }
        let passive_result = checkpoint(conn, "PASSIVE")?;
        self.next_checkpoint_pages = pages + RETRY_PAGES;
        if pages < RESTART_PAGES || passive_result.is_none() {
            return Ok(());
        }
        let is_gate_closed = self.store_context.read_gate.close();
        // The writer does not wait for readers: the checkpoint succeeds if no read is left.
        schema::set_waits_for_locks(conn, false)?;
        let restart_result = checkpoint(conn, "TRUNCATE");
        schema::set_waits_for_locks(conn, true)?;
        if restart_result?.is_some_and(|result| !result.is_busy) {
            WAL_PAGES.set(0);
            self.next_checkpoint_pages = CHECKPOINT_PAGES;
            self.store_context.read_gate.open();
        } else {
            // If the gate is closed, the running reads soon end. So the next commit tries the checkpoint again.
            self.next_checkpoint_pages = pages + if is_gate_closed { 1 } else { RETRY_PAGES };
            self.store_context.read_gate.set_blocked_pages(pages);
        }
        Ok(())
    }
}

impl WriteAheadLog {
    /// Rebuilds the database without free pages, and moves the WAL into it. Returns `false` if another connection
    /// prevents one of the two.
    pub(super) fn reclaim(&mut self, conn: &Connection) -> Result<bool> {
        let _is_closed = self.store_context.read_gate.close();
        // The writer does not wait for others: the caller tries again.
        schema::set_waits_for_locks(conn, false)?;
        let done = rebuild(conn).and_then(|is_rebuilt| {
            let restarted = if is_rebuilt { checkpoint(conn, "TRUNCATE")? } else { None };
            Ok(restarted.is_some_and(|result| !result.is_busy))
        });
        schema::set_waits_for_locks(conn, true)?;
        self.store_context.read_gate.open();
        if matches!(done, Ok(true)) {
            WAL_PAGES.set(0);
            self.next_checkpoint_pages = CHECKPOINT_PAGES;
        }
        done
    }
}

fn rebuild(conn: &Connection) -> Result<bool> {
    match conn.execute_batch("VACUUM") {
        Ok(()) => Ok(true),
        Err(error) => ignore_if_harmless(error).map(|()| false),
    }
}

/// Tries a checkpoint. Returns `None` if another connection prevents it.
fn checkpoint(conn: &Connection, mode: &str) -> Result<Option<CheckpointResult>> {
    let answer = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        Ok(CheckpointResult { is_busy: row.get::<_, i32>(0)? != 0 })
    });
    match answer {
        Ok(result) => Ok(Some(result)),
        Err(error) => ignore_if_harmless(error).map(|()| None),
    }
}

/// Returns an error unless it is harmless. If the disk is full or another connection prevents the checkpoint, the
/// content of the WAL stays in the WAL.
fn ignore_if_harmless(error: SqlError) -> Result<(), Error> {
    match error::code(&error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => Ok(()),
        _ => Err(error::sql_error(error)),
    }
}
