//! Opens a mailbox on NATS.

use store_core::Result;

use crate::{OpenOptions, ServerUrl, Stores};

#[cfg(feature = "nats")]
pub(crate) async fn open(url: &ServerUrl, options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_nats::{Create, NatsConfig, NatsStore};

    use crate::{Durability, options::unsupported};

    if options.read_only {
        return Err(unsupported("opening `nats:` for reading only (not needed: many processes can have it open)"));
    }
    let mut config = NatsConfig::new(url.with_password())?;
    match options.durability {
        None => {}
        Some(Durability::Sync) if config.assume_sync => {}
        Some(Durability::Sync) => {
            return Err(unsupported(
                "`Sync` on servers that are not known to sync (if they do, add `assume_sync=true` to the URL)",
            ));
        }
        Some(_) => return Err(unsupported("a durability other than that of the servers (open `file:PATH`)")),
    }
    config.create = match options.create {
        crate::Create::Missing => Create::Missing,
        crate::Create::Never => Create::Never,
    };
    config.ids = Arc::clone(&options.ids);
    config.limits = options.limits.clone();
    Ok(Stores::new(Arc::new(NatsStore::open(config).await?)).with_backend_name("nats"))
}

#[cfg(not(feature = "nats"))]
#[expect(clippy::unused_async, reason = "with the feature, it is async")]
pub(crate) async fn open(_url: &ServerUrl, _options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`nats:` (build with the cargo feature `nats`)"))
}
