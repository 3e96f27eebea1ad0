//! A file is checked before it is used (SQ-2, SQ-3), and a file of another program is not changed.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use store_core::{
    Capabilities, Error, ErrorKind, ManualClock, Processes, Store, Survives, Timestamp, health::Severity,
};
use store_sqlite_mailbox::{Create, SqliteConfig, SqliteMailbox, Synchronous};

use super::{
    child_process::start_child,
    helpers::{Folder, enqueue, mailbox, new_dispatch, open},
};

async fn open_error(config: SqliteConfig) -> Error {
    SqliteMailbox::open(config).await.unwrap_err()
}

fn read_pragma(path: &Path, name: &str) -> String {
    let conn = Connection::open(path).unwrap();
    conn.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
        .map(|v| format!("{v:?}"))
        .unwrap()
}

#[tokio::test]
async fn a_mailbox_that_may_lose_work_is_refused_unless_that_is_allowed() {
    let folder = Folder::new();
    let mut config = SqliteConfig::new(folder.file());
    config.synchronous = Synchronous::Normal;
    let error = open_error(config.clone()).await;
    assert_eq!(error.kind(), ErrorKind::UnsafeDurability);
    assert_eq!(error.to_string(), "`synchronous=NORMAL` may lose acknowledged data; allow it with allow_unsafe");
    assert!(!folder.file().exists());
    config.allow_unsafe = true;
    let store = SqliteMailbox::open(config).await.unwrap();
    assert_eq!(store.capabilities().survives, Survives::Process);
    // CP-6: the setting is a problem.
    let findings = store.health().await.unwrap().findings;
    assert_eq!((findings[0].about.as_str(), findings[0].severity), ("synchronous", Severity::Problem));
    enqueue(&*mailbox(&store), new_dispatch("t", "a")).await;
    store.sync().await.unwrap();
    store.close().await.unwrap();
    let store = open(&folder.file()).await;
    assert_eq!(*store.capabilities(), Capabilities::new(Survives::Power, 64 << 20).on_host());
    let health = store.health().await.unwrap();
    assert!(health.findings.is_empty() && health.free_bytes.is_some(), "{health:?}");
    store.sync().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_mailbox_file_identifies_itself() {
    let folder = Folder::new();
    let store = open(&folder.file()).await;
    assert_eq!(read_pragma(&folder.file(), "journal_mode"), "Text(\"wal\")");
    assert_eq!(read_pragma(&folder.file(), "application_id"), format!("Integer({})", 0x4167_4d62));
    assert_eq!(read_pragma(&folder.file(), "user_version"), "Integer(1)");
    store.close().await.unwrap();
    // Only the owner may use the file and the files beside it.
    for entry in fs::read_dir(folder.file().parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
    }
}

#[tokio::test]
async fn a_missing_file_is_created_or_refused() {
    let folder = Folder::new();
    let mut config = SqliteConfig::new(folder.file());
    config.create = Create::Never;
    assert_eq!(open_error(config.clone()).await.kind(), ErrorKind::SchemaMismatch);
    assert_eq!(fs::read_dir(folder.file().parent().unwrap()).unwrap().count(), 0, "a file was created");
    open(&folder.file()).await.close().await.unwrap();
    SqliteMailbox::open(config).await.unwrap().close().await.unwrap();
    let nowhere = SqliteConfig::new(folder.file().with_file_name("no folder").join("mailbox.db"));
    assert_eq!(open_error(nowhere).await.kind(), ErrorKind::Unavailable);
    assert_eq!(open_error(SqliteConfig::new(folder.file().parent().unwrap())).await.kind(), ErrorKind::Unavailable);
}

/// A file of another program or of a later release is refused, and no byte of it changes.
#[tokio::test]
async fn a_foreign_file_is_refused_and_left_unchanged() {
    let foreign_databases: [(&str, &str); 4] = [
        ("a database without an application id", "CREATE TABLE notes (id); INSERT INTO notes VALUES (1)"),
        ("a database with another application id", "PRAGMA application_id = 7; CREATE TABLE notes (id)"),
        ("a database with a WAL", "PRAGMA application_id = 7; PRAGMA journal_mode = WAL; CREATE TABLE notes (id)"),
        ("a later release", "PRAGMA application_id = 1097289058; PRAGMA user_version = 2; CREATE TABLE meta (id)"),
    ];
    for (what, sql) in foreign_databases {
        let folder = Folder::new();
        Connection::open(folder.file()).unwrap().execute_batch(sql).unwrap();
        let bytes_before = fs::read(folder.file()).unwrap();
        let error = open_error(SqliteConfig::new(folder.file())).await;
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{what}: {error}");
        assert_eq!(fs::read(folder.file()).unwrap(), bytes_before, "{what}");
        assert_eq!(read_pragma(&folder.file(), "user_version") == "Integer(2)", what == "a later release");
    }
    for bytes in [
        &b"not a database at all, but a text of some length that goes on for more than a hundred bytes, as one may"[..],
        b"x",
    ] {
        let folder = Folder::new();
        fs::write(folder.file(), bytes).unwrap();
        let error = open_error(SqliteConfig::new(folder.file())).await;
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.to_string().contains("not an SQLite database"), "{error}");
        assert_eq!(fs::read(folder.file()).unwrap(), bytes);
    }
}

/// A store with an injected clock has exclusive use of the file: while it is open, other processes cannot open the
/// file. While another process has the file open, such a store cannot be opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_an_injected_clock_has_exclusive_use_of_its_file() {
    let folder = Folder::new();
    let clock = Arc::new(ManualClock::new(Timestamp::MIN));
    let config_with_clock = SqliteConfig::new(folder.file()).with_clock(clock);
    let store = SqliteMailbox::open(config_with_clock.clone()).await.unwrap();
    assert_eq!(store.capabilities().processes, Processes::One);
    let printed = start_child("write until it fails", &folder.file(), "x", 0).end();
    assert_eq!(printed, ["refused unavailable"]);
    store.close().await.unwrap();
    let mut other_process = start_child("write", &folder.file(), "x", usize::MAX);
    assert_eq!(other_process.next_line().unwrap(), "open");
    assert_eq!(open_error(config_with_clock.clone()).await.kind(), ErrorKind::Unavailable);
    other_process.kill();
    SqliteMailbox::open(config_with_clock).await.unwrap().close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
}
