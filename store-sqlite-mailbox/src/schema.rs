//! Opens connections, and creates and checks the schema of the file.

use std::{path::Path, thread::sleep, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use store_core::{CursorKey, Detail, Error, Result, SchemaRemedy, Survives};

use crate::{
    config::{SqliteConfig, Synchronous},
    database_file::DatabaseFile,
    error::{corrupt, sql_error},
    rows::{get, query_one},
    sql,
};

/// `AgMb`: identifies a mailbox of agentstore.
const APPLICATION_ID: i32 = 0x4167_4d62;
/// The version of the schema that this release creates.
const SCHEMA_VERSION: i32 = 1;
/// The first version of SQLite without the bug that damages a file when two processes reset its WAL at the same time.
const OLDEST_SQLITE: i32 = 3_051_003;
/// The size of the statement cache. It is larger than the number of statements.
const STATEMENT_CACHE_SIZE: usize = 128;

/// The properties of an opened database.
pub(crate) struct OpenedDatabase {
    /// The key for the cursors of this mailbox, which is stored in the database.
    pub(crate) cursor_key: CursorKey,
    /// What acknowledged data survives, which follows from the configuration.
    pub(crate) survives: Survives,
}

pub(crate) fn mismatch_error(found: &str) -> Error {
    Error::schema_mismatch(found, format!("a mailbox with schema {SCHEMA_VERSION}"), SchemaRemedy::Release)
}

/// Refuses a database of another application or of a later release.
pub(crate) fn check_identity(application: i32, version: i32) -> Result<()> {
    match (application, version) {
        (APPLICATION_ID, 1..=SCHEMA_VERSION) | (0, 0) => Ok(()),
        (APPLICATION_ID, _) => Err(mismatch_error(&format!("schema {version}"))),
        _ => Err(mismatch_error("a database of another application")),
    }
}

fn unsafe_setting(setting: impl Into<String>) -> Error {
    Error::new(Detail::UnsafeDurability { setting: setting.into(), option: "allow_unsafe".to_owned() })
}

/// Refuses settings that are known to be unsafe, before the file is opened or created (SQ-2).
pub(crate) fn check_settings(config: &SqliteConfig) -> Result<()> {
    if config.allow_unsafe {
        return Ok(());
    }
    check_sqlite_version(rusqlite::version_number())?;
    if config.synchronous != Synchronous::Full {
        return Err(unsafe_setting("`synchronous=NORMAL`"));
    }
    let folder = config.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match crate::file_system::network_file_system(folder.unwrap_or_else(|| Path::new("."))) {
        Some(name) => Err(unsafe_setting(format!("the network file system `{name}`"))),
        None => Ok(()),
    }
}

pub(crate) fn check_sqlite_version(version: i32) -> Result<()> {
    if version >= OLDEST_SQLITE {
        return Ok(());
    }
    let (major, rest) = (version / 1_000_000, version % 1_000_000);
    Err(unsafe_setting(format!("SQLite {major}.{}.{}", rest / 1_000, rest % 1_000)))
}

/// Waits a short time for a lock of another connection. `count` is the number of waits so far. Returns whether SQLite
/// tries again: it does so for about 30 s in all. The first waits are short, because most locks are held briefly.
fn wait_for_lock(count: i32) -> bool {
    let pause = match count {
        0..100 => Duration::from_micros(200),
        100..1_000 => Duration::from_millis(1),
        1_000..7_000 => Duration::from_millis(5),
        _ => return false,
    };
    sleep(pause);
    true
}

/// Sets whether the connection waits for locks of other connections.
pub(crate) fn set_waits_for_locks(conn: &Connection, waits: bool) -> Result<()> {
    conn.busy_handler(waits.then_some(wait_for_lock as fn(i32) -> bool)).map_err(sql_error)
}

/// Opens a connection and configures it, without changing the file.
fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(sql_error)?;
    set_waits_for_locks(&conn, true)?;
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // Query plans do not depend on bound values. Otherwise SQLite would prepare many statements again for each call.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sql_error)?;
    for (name, value) in [
        ("trusted_schema", "OFF"),
        ("mmap_size", "0"),
        ("cell_size_check", "ON"),
        ("foreign_keys", "OFF"),
        ("temp_store", "MEMORY"),
        ("cache_size", "-16384"),
        ("fullfsync", "ON"),
        ("checkpoint_fullfsync", "ON"),
        // What is deleted is overwritten.
        ("secure_delete", "ON"),
    ] {
        conn.pragma_update(None, name, value).map_err(sql_error)?;
    }
    Ok(conn)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let conn = connect(path)?;
    conn.pragma_update(None, "query_only", "ON").map_err(sql_error)?;
    Ok(conn)
}

/// Opens a connection that keeps all others from writing to the file until it is dropped.
pub(crate) fn lock_for_reading(path: &Path) -> Result<Connection> {
    let conn = connect(path)?;
    conn.execute_batch(sql::BEGIN_WRITE).map_err(sql_error)?;
    Ok(conn)
}

/// Opens the connection that writes. The schema is created if the file is empty.
pub(crate) fn open_writer(database_file: &DatabaseFile, config: &SqliteConfig) -> Result<(Connection, OpenedDatabase)> {
    let conn = connect(&database_file.path)?;
    // Several processes may open the file at the same time. With this lock, one of them creates the schema and the
    // others find it. It does so before the file has a WAL, so that the header of the file itself identifies the
    // application from the beginning.
    let next_write_lock = database_file.lock_for_next_write();
    if read_pragma::<i32>(&conn, "application_id")? == 0 {
        create_schema(&conn)?;
    }
    check_identity(read_pragma(&conn, "application_id")?, read_pragma(&conn, "user_version")?)?;
    set_durability(&conn, config)?;
    drop(next_write_lock);
    let cursor_key = query_one(&conn, sql::CURSOR_KEY, [], |row| get::<[u8; 32]>(row, 0))?;
    let cursor_key = CursorKey::new(cursor_key.ok_or_else(|| corrupt("the row that describes the file"))?);
    let survives = match config.synchronous {
        Synchronous::Full => Survives::Power,
        Synchronous::Normal => Survives::Process,
    };
    Ok((conn, OpenedDatabase { cursor_key, survives }))
}

pub(crate) fn read_pragma<T: rusqlite::types::FromSql>(conn: &Connection, pragma: &str) -> Result<T> {
    conn.pragma_query_value(None, pragma, |row| row.get(0)).map_err(sql_error)
}

fn create_schema(conn: &Connection) -> Result<()> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|e| Error::unavailable("random bytes are not available").with_source(e))?;
    conn.execute_batch("BEGIN EXCLUSIVE").map_err(sql_error)?;
    let create_tables = || -> Result<()> {
        let tables: i64 =
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sql_error)?;
        // A process that did not get the lock in time may have created the schema meanwhile.
        if read_pragma::<i32>(conn, "application_id")? == APPLICATION_ID {
            return Ok(());
        }
        if tables > 0 {
            return Err(mismatch_error("a database of another application"));
        }
        conn.execute_batch(include_str!("schema.sql")).map_err(sql_error)?;
        conn.execute("INSERT INTO meta VALUES (1, ?1, 0, 0)", [key]).map_err(sql_error)?;
        conn.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql_error)?;
        conn.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(sql_error)
    };
    match create_tables() {
        Ok(()) => conn.execute_batch(sql::COMMIT).map_err(sql_error),
        Err(error) => conn.execute_batch(sql::ROLLBACK).map_err(sql_error).and(Err(error)),
    }
}

/// Sets the pragmas that make commits durable, and checks the values that SQLite has set (SQ-2).
fn set_durability(conn: &Connection, config: &SqliteConfig) -> Result<()> {
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(sql_error)?;
    if mode != "wal" {
        return Err(Error::unavailable(format!("the file cannot have a write-ahead log (journal mode `{mode}`)")));
    }
    set_synchronous(conn, config.synchronous)?;
    // The WAL can grow while a read prevents its restart. SQLite later truncates it to this size.
    conn.pragma_update(None, "journal_size_limit", crate::writer::TRUNCATED_WAL_BYTES).map_err(sql_error)?;
    for (pragma, expected) in [("mmap_size", 0), ("trusted_schema", 0)] {
        // Some builds have no memory-mapped files and return no value.
        let found = read_pragma::<i64>(conn, pragma).unwrap_or_default();
        if found != expected {
            return Err(Error::unavailable(format!("SQLite did not set `{pragma}` to {expected}")));
        }
    }
    Ok(())
}

/// Sets when SQLite syncs, and checks the value that SQLite has set.
pub(crate) fn set_synchronous(conn: &Connection, synchronous: Synchronous) -> Result<()> {
    let level = match synchronous {
        Synchronous::Full => 2,
        Synchronous::Normal => 1,
    };
    conn.pragma_update(None, "synchronous", level).map_err(sql_error)?;
    match read_pragma::<i64>(conn, "synchronous")? {
        found if found == level => Ok(()),
        found => Err(unsafe_setting(format!("`synchronous={found}`"))),
    }
}

#[cfg(test)]
mod tests {
    use store_core::ErrorKind;

    use super::{APPLICATION_ID, SCHEMA_VERSION, check_identity, check_sqlite_version};

    #[test]
    fn libraries_that_may_damage_a_file_are_refused() {
        for (version, is_refused) in [(3_051_002, true), (3_051_003, false), (3_052_000, false), (3_007_000, true)] {
            let checked = check_sqlite_version(version);
            assert_eq!(
                checked.as_ref().err().map(store_core::Error::kind),
                is_refused.then_some(ErrorKind::UnsafeDurability)
            );
        }
        assert!(check_sqlite_version(3_051_002).unwrap_err().to_string().contains("SQLite 3.51.2"));
        assert!(rusqlite::version_number() >= 3_051_003);
    }

    #[test]
    fn files_of_other_programs_and_later_releases_are_refused() {
        for (application, version, is_refused) in [
            (0, 0, false),
            (APPLICATION_ID, SCHEMA_VERSION, false),
            (APPLICATION_ID, SCHEMA_VERSION + 1, true),
            (APPLICATION_ID, 0, true),
            (0, 1, true),
            (7, 1, true),
        ] {
            assert_eq!(check_identity(application, version).is_err(), is_refused, "{application} {version}");
        }
    }
}
