//! Opens a store behind a write buffer on NATS.

use std::sync::Arc;

use store_core::{Result, buffer::BufferTarget};
use store_nats::{BufferConfig, Buffered, NatsConfig};

use super::{memory, postgres};
use crate::{Create, OpenOptions, StoreUrl, WriteBuffer, options::unsupported};

pub(crate) async fn open(inner: &StoreUrl, servers: &StoreUrl, options: &OpenOptions) -> Result<WriteBuffer> {
    let StoreUrl::Nats(servers) = servers else {
        return Err(unsupported("a write buffer outside of NATS (name it as `nats://…`)"));
    };
    if options.read_only {
        return Err(unsupported("opening a write buffer for reading only (open the store without it)"));
    }
    let inner: Arc<dyn BufferTarget> = match inner {
        StoreUrl::Memory => memory::open_behind_buffer(options)?,
        StoreUrl::Postgres(url) => postgres::open_behind_buffer(url, options).await?,
        StoreUrl::File(_) | StoreUrl::Sqlite(_) | StoreUrl::Nats(_) => {
            return Err(unsupported("a write buffer in front of this store (it can stand in front of `postgres:`)"));
        }
    };
    let mut servers = NatsConfig::new(servers.with_password())?;
    servers.ids = Arc::clone(&options.ids);
    if options.create == Create::Never {
        servers.create = store_nats::Create::Never;
    }
    Buffered::open(BufferConfig::new(servers)?, inner).await
}
