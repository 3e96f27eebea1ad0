//! Opens a mailbox in SQLite.

use std::path::Path;

use store_core::Result;

use crate::{OpenOptions, Stores};

#[cfg(feature = "sqlite-mailbox")]
pub(crate) async fn open(path: &Path, options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_sqlite_mailbox::{Create, SqliteConfig, SqliteMailbox};

    use crate::{Durability, options::unsupported};

    if options.durability.is_some_and(|durability| durability != Durability::Sync) {
        return Err(unsupported("a durability other than `Sync` (each commit is synced; open `file:PATH`)"));
    }
    if options.read_only {
        return Err(unsupported("opening `sqlite:` for reading only (not needed: several processes can have it open)"));
    }
    // The clock of the options is not used: store time is the clock of the host, which all processes that have the file
    // open share.
    let mut config = SqliteConfig::new(path).with_limits(&options.limits);
    config.create = match options.create {
        crate::Create::Missing => Create::Missing,
        crate::Create::Never => Create::Never,
    };
    config.ids = Arc::clone(&options.ids);
    Ok(Stores::new(Arc::new(SqliteMailbox::open(config).await?)).with_backend_name("sqlite-mailbox"))
}

#[cfg(not(feature = "sqlite-mailbox"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_path: &Path, _options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`sqlite:` (build with the cargo feature `sqlite-mailbox`)"))
}
