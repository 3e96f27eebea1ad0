//! Opens a store behind a write buffer on NATS.

use store_core::Result;

use crate::{OpenOptions, ServerUrl, StoreUrl, Stores, options::unsupported};

#[cfg(feature = "nats")]
pub(crate) async fn open(inner: &StoreUrl, servers: &ServerUrl, options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_core::buffer::BufferTarget;
    use store_nats::{BufferConfig, Buffered, NatsConfig};

    use super::{memory, postgres};
    use crate::Create;

    if options.read_only {
        return Err(unsupported("opening a write buffer for reading only (open the store without it)"));
    }
    let (inner, name): (Arc<dyn BufferTarget>, _) = match inner {
        StoreUrl::Memory => (memory::open_behind_buffer(options)?, "nats+memory"),
        StoreUrl::Postgres(url) => (postgres::open_behind_buffer(url, options).await?, "nats+postgres"),
        StoreUrl::File(_) | StoreUrl::Sqlite(_) | StoreUrl::Nats(_) | StoreUrl::Buffered { .. } => {
            return Err(unsupported("a write buffer in front of this store (it can stand in front of `postgres:`)"));
        }
    };
    let mut servers = NatsConfig::new(servers.with_password())?;
    servers.ids = Arc::clone(&options.ids);
    if options.create == Create::Never {
        servers.create = store_nats::Create::Never;
    }
    let buffer = Buffered::open(BufferConfig::new(servers)?, inner).await?;
    Ok(Stores::new(Arc::new(buffer.clone())).with_backend_name(name).with_write_buffer(buffer))
}

#[cfg(feature = "nats")]
pub(crate) async fn attached(inner: &StoreUrl) -> Result<Option<String>> {
    use store_core::buffer::BufferTarget;

    use super::{memory, postgres};

    let inner: std::sync::Arc<dyn BufferTarget> = match inner {
        StoreUrl::Memory => memory::open_behind_buffer(&OpenOptions::new())?,
        StoreUrl::Postgres(url) => postgres::open_behind_buffer(url, &OpenOptions::new().read_only()).await?,
        StoreUrl::File(_) | StoreUrl::Sqlite(_) | StoreUrl::Nats(_) | StoreUrl::Buffered { .. } => return Ok(None),
    };
    let position = inner.applied_position().await;
    inner.close().await?;
    Ok(position?.buffer)
}

#[cfg(not(feature = "nats"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_inner: &StoreUrl, _servers: &ServerUrl, _options: &OpenOptions) -> Result<Stores> {
    Err(unsupported("a write buffer (build with the cargo feature `nats`)"))
}
