//! Opens a store in PostgreSQL.

use store_core::Result;

use crate::{OpenOptions, ServerUrl, Stores};

#[cfg(feature = "postgres")]
pub(crate) async fn open(url: &ServerUrl, options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_postgres::{Migrate, PostgresConfig, PostgresStore};

    use crate::{Create, Durability, options::unsupported};

    if options.durability.is_some_and(|durability| durability != Durability::Sync) {
        return Err(unsupported("a durability other than `Sync` (the server syncs each commit; open `file:PATH`)"));
    }
    let mut config = PostgresConfig::new(url.with_password())?;
    if options.create == Create::Never {
        config.migrate = Migrate::Never;
    }
    config.read_only = options.read_only;
    config.ids = Arc::clone(&options.ids);
    config.limits = options.limits.clone();
    Ok(Stores::new(Arc::new(PostgresStore::open(config).await?)).with_backend_name("postgres"))
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_url: &ServerUrl, _options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`postgres:` (build with the cargo feature `postgres`)"))
}
