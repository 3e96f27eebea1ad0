//! The state of a mailbox: versions, the settings that SQLite works with, and the space on the disk.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use rusqlite::Connection;
use store_core::{
    Clock, CursorKey, Result, StoreIdentity, SystemClock,
    health::{ClockReading, Finding, StoreHealth},
};

use crate::{
    config::{SqliteConfig, Synchronous},
    file_system, schema,
};

/// A WAL that readers keep from being restarted is noted above this size.
const NOTED_WAL_BYTES: u64 = 64 << 20;

/// Which mailbox this is: the one with this key in this file. A copy of a mailbox is in another file.
pub(crate) fn identity(path: &Path, key: &CursorKey) -> Option<StoreIdentity> {
    let file = fs::metadata(path).ok()?;
    Some(key.identity(&format!("sqlite {} {}", file.dev(), file.ino())))
}

/// What SQLite reports about the file.
pub(crate) struct Settings {
    schema: i32,
    journal_mode: String,
}

pub(crate) fn read_settings(conn: &Connection) -> Result<Settings> {
    Ok(Settings {
        schema: schema::read_pragma(conn, "user_version")?,
        journal_mode: schema::read_pragma(conn, "journal_mode")?,
    })
}

/// Returns what a mailbox reports. `blocked_wal_bytes` is the size of the WAL while another program keeps it from being
/// restarted.
pub(crate) fn health(config: &SqliteConfig, settings: Settings, blocked_wal_bytes: u64) -> StoreHealth {
    let Settings { schema, journal_mode } = settings;
    let synchronous = match config.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    let folder = config.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let health = StoreHealth::new()
        .with("library", env!("CARGO_PKG_VERSION"))
        .with("sqlite", rusqlite::version())
        .with("schema", schema.to_string())
        .with("journal_mode", journal_mode)
        .with("synchronous", synchronous)
        .with_free_bytes(file_system::free_bytes(folder))
        .finding(check_synchronous(config.synchronous))
        .finding(file_system::network_file_system(folder).map(network_finding))
        .finding(schema::check_sqlite_version(rusqlite::version_number()).err().map(|_| version_finding()))
        .finding(check_wal(blocked_wal_bytes));
    let Some(clock) = &config.clock else { return health };
    let asked_at = SystemClock.now();
    health.with_clock(ClockReading::new(asked_at, clock.now(), SystemClock.now()))
}

fn check_synchronous(synchronous: Synchronous) -> Option<Finding> {
    let text = "`synchronous` is `normal`: a power cut loses the last acknowledged work";
    let advice = "open the mailbox with `Synchronous::Full`, which is the default";
    (synchronous == Synchronous::Normal).then(|| Finding::problem("synchronous", text, advice))
}

fn network_finding(name: &str) -> Finding {
    let text =
        format!("the file is on the network file system `{name}`, whose locks are not reliable: it may be damaged");
    Finding::problem("file system", text, "move the file to a local disk, or use `postgres://…` or `nats://…`")
}

fn version_finding() -> Finding {
    let text = format!("SQLite {} may damage the file if two processes use it", rusqlite::version());
    Finding::problem("sqlite", text, "use a build with SQLite 3.51.3 or newer")
}

fn check_wal(blocked_bytes: u64) -> Option<Finding> {
    let text = || format!("another program reads the file, and the WAL has grown to {} MiB", blocked_bytes >> 20);
    let advice = "end that program's read: until then the WAL grows with each write";
    (blocked_bytes > NOTED_WAL_BYTES).then(|| Finding::note("wal", text(), advice))
}

#[cfg(test)]
mod tests {
    use super::{NOTED_WAL_BYTES, check_synchronous, check_wal};
    use crate::config::Synchronous;

    #[test]
    fn wrong_settings_are_found() {
        assert!(check_synchronous(Synchronous::Normal).is_some() && check_synchronous(Synchronous::Full).is_none());
        assert!(check_wal(NOTED_WAL_BYTES).is_none() && check_wal(NOTED_WAL_BYTES + 1).is_some());
    }
}
