//! Opens a store in PostgreSQL.

use store_core::Result;

use crate::{OpenOptions, ServerUrl, Stores};

#[cfg(feature = "postgres")]
pub(crate) async fn open(url: &ServerUrl, options: &OpenOptions) -> Result<Stores> {
    let store = store_postgres::PostgresStore::open(config(url, options)?).await?;
    Ok(Stores::new(std::sync::Arc::new(store)).with_backend_name("postgres"))
}

#[cfg(all(feature = "postgres", feature = "nats"))]
pub(crate) async fn open_behind_buffer(
    url: &ServerUrl,
    options: &OpenOptions,
) -> Result<std::sync::Arc<dyn store_core::buffer::BufferTarget>> {
    let mut config = config(url, options)?;
    config.behind_buffer = true;
    Ok(std::sync::Arc::new(store_postgres::PostgresStore::open(config).await?))
}

#[cfg(feature = "postgres")]
fn config(url: &ServerUrl, options: &OpenOptions) -> Result<store_postgres::PostgresConfig> {
    use std::sync::Arc;

    use store_postgres::{Migrate, PostgresConfig};

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
    Ok(config)
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_url: &ServerUrl, _options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`postgres:` (build with the cargo feature `postgres`)"))
}

#[cfg(all(not(feature = "postgres"), feature = "nats"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open_behind_buffer(
    _url: &ServerUrl,
    _options: &OpenOptions,
) -> Result<std::sync::Arc<dyn store_core::buffer::BufferTarget>> {
    Err(crate::options::unsupported("`postgres:` (build with the cargo feature `postgres`)"))
}
